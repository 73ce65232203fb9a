"""run, resume, reproduce: exit codes and files, and finished runs are not repeated."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp import experiments
from switchmdp.errors import SwitchmdpError
from switchmdp.experiments import load_results, open_store

run_module = importlib.import_module("switchmdp.cli.run")
PLAIN = ("--executor", "threads")


def written(folder: Path) -> dict[str, int]:
    """Every chunk, and the time at which it was written."""
    return {file.name: file.stat().st_mtime_ns for file in (folder / "runs").iterdir()}


def regret(folder: Path, setting: str, agent: str) -> Any:
    return load_results(open_store(folder)).settings[setting].agents[agent].regret


def test_a_run_leaves_results_tables_and_a_page(call: Any) -> None:
    result = call("run", "small.toml")
    assert result.code == 0
    assert "Two agents" in result.out
    assert "random [changes=1]: regret after 300 steps on 3 problems" in result.out
    assert "failed" not in result.out
    assert result.out.endswith("\nreport: results/small/report/index.html\n")
    assert "12 runs done in" in result.err
    assert Path("results/small/report/index.html").read_text("utf-8").startswith("<!doctype html>")
    assert "UCRL2" in Path("results/small/report/tables.md").read_text("utf-8")


def test_a_second_run_only_writes_the_report(call: Any) -> None:
    first = call("run", "small.toml", "--out", "here")
    before = written(Path("here"))
    second = call("run", "small.toml", "--out", "here")
    assert second.code == 0
    assert second.out == first.out
    assert second.err == "nothing to run: all 12 runs are done\n"
    assert written(Path("here")) == before


def test_for_a_folder_instead_of_a_file_the_error_says_how_to_resume(call: Any) -> None:
    Path("my results").mkdir()
    result = call("run", "my results")
    assert result.code == 2
    assert "my results is a folder, not a file" in result.err
    assert "switchmdp resume 'my results'" in result.err


def test_a_folder_does_not_hide_a_configuration_of_the_package(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(config: str, *_: Any, **__: Any) -> None:
        raise SwitchmdpError(f"{config} would be run")

    monkeypatch.setattr(experiments, "prepare", prepare)
    Path("figure-1").mkdir()
    assert call("run", "figure-1").err == "error: figure-1 would be run\n"


def test_the_stored_file_contains_the_number_of_problems_from_the_option(call: Any) -> None:
    assert call("run", "small.toml", "--problems", "2", "--out", "here").code == 0
    text = Path("here/experiment.toml").read_text("utf-8")
    assert "n_problems = 2  # a few" in text
    assert open_store("here").experiment.n_problems == 2
    assert "8 of 8 runs" in call("status", "here").out


def test_the_number_of_problems_may_be_written_in_an_unusual_way(call: Any) -> None:
    text = Path("small.toml").read_text("utf-8").replace("n_problems", '"n_problems"')
    Path("odd.toml").write_text(text, "utf-8")
    assert call("run", "odd.toml", "--problems", "1", "--out", "here").code == 0
    assert tomllib.loads(Path("here/experiment.toml").read_text("utf-8"))["n_problems"] == 1


@pytest.mark.parametrize("number", ["0", "-1", "1000001", "x"])
def test_a_number_of_problems_out_of_range_is_a_usage_error(call: Any, number: str) -> None:
    result = call("run", "small.toml", "--problems", number)
    assert result.code == 2
    assert "--problems" in result.err
    assert not Path("results").exists()


def test_the_stored_file_gives_the_same_digest_again(call: Any) -> None:
    call("run", "small.toml", "--problems", "2", "--out", "one")
    call("run", "one/experiment.toml", "--out", "two")
    assert open_store("one").digest == open_store("two").digest
    assert np.array_equal(
        regret(Path("one"), "random [changes=2]", "UCRL2"),
        regret(Path("two"), "random [changes=2]", "UCRL2"),
    )


def test_the_stored_file_finds_the_modules_that_it_was_run_with(call: Any) -> None:
    assert call("run", "first.toml", "--out", "one", *PLAIN).code == 0
    assert call("run", "one/experiment.toml", "--out", "two", *PLAIN).code == 0
    assert open_store("one").digest == open_store("two").digest


def test_a_failing_agent_does_not_affect_other_agents(call: Any) -> None:
    result = call("run", "fails.toml", "--out", "here", *PLAIN)
    assert result.code == 3
    assert "6 runs failed; for their tracebacks: switchmdp status here" in result.err
    assert "failed" in result.out
    assert np.isnan(regret(Path("here"), "random [changes=1]", "mine")).all()
    call("run", "small.toml", "--out", "there")
    for agent in ("UCRL2", "chance"):
        alone = regret(Path("there"), "random [changes=1]", agent)
        assert np.array_equal(regret(Path("here"), "random [changes=1]", agent), alone)
    failures = json.loads(Path("here/failures/s000-a002-b00000.json").read_bytes())
    assert "own_agents.py" in failures[0]["traceback"]
    assert call("run", "fails.toml", "--out", "here", *PLAIN).code == 3


def test_resume_computes_only_what_is_missing(call: Any, half_done: Path) -> None:
    before = written(half_done)
    result = call("resume", half_done)
    assert result.code == 0
    assert "3 runs done in" in result.err
    after = written(half_done)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"s001-a000-b00000.npz"}


def test_resume_runs_a_damaged_chunk_again(call: Any, done: Path) -> None:
    file = done / "runs" / "s000-a001-b00000.npz"
    sound = file.read_bytes()
    file.write_bytes(sound[:-9])
    assert call("resume", done).code == 0
    assert file.read_bytes() == sound


def test_resume_works_on_a_copy_that_has_lost_its_empty_folders(call: Any, done: Path) -> None:
    (done / "failures").rmdir()
    assert call("resume", done).code == 0


def test_failed_runs_are_repeated_only_on_request(call: Any) -> None:
    call("run", "fails.toml", "--out", "here", *PLAIN)
    before = written(Path("here"))
    assert call("resume", "here", *PLAIN).code == 3
    assert written(Path("here")) == before
    for file in Path("here/failures").iterdir():
        file.unlink()  # what failed is still known
    assert call("resume", "here", "--retry-failed", *PLAIN).code == 3
    after = written(Path("here"))
    assert {name for name in after if after[name] != before[name]} == {
        "s000-a002-b00000.npz", "s001-a002-b00000.npz",
    }  # fmt: skip


def test_results_of_changed_agents_are_not_mixed(call: Any) -> None:
    call("run", "fails.toml", "--out", "here", *PLAIN)
    source = Path("own_agents.py")
    source.write_text(source.read_text("utf-8").replace("raise Runtime", "return 0  #"), "utf-8")
    result = call("resume", "here", "--retry-failed", *PLAIN)
    assert result.code == 4
    assert "own_agents changed" in result.err


def test_all_shards_together_give_the_same_bytes(call: Any, done: Path) -> None:
    for shard in ("1/2", "2/2"):
        result = call("run", "small.toml", "--out", "here", "--shard", shard)
        assert result.code == 0
        assert "this shard is done; when all shards are done: switchmdp report here" in result.err
    assert not Path("here/report").exists()
    for file in (done / "runs").iterdir():
        assert (Path("here/runs") / file.name).read_bytes() == file.read_bytes()
    assert "not complete" not in call("report", "here").out


@pytest.mark.parametrize("shard", ["0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_an_invalid_shard_is_rejected_before_anything_is_written(call: Any, shard: str) -> None:
    result = call("run", "small.toml", "--out", "here", "--shard", shard)
    assert result.code == 2
    assert "--shard must be I/N" in result.err
    assert not Path("here").exists()


def test_all_errors_are_printed_at_once_without_a_traceback(call: Any) -> None:
    text = Path("small.toml").read_text("utf-8")
    for right, wrong in (("random-switching", "random-switch"), ('"ucrl2"', '"ucrl9"')):
        text = text.replace(right, wrong)
    Path("wrong.toml").write_text(text + "parameters = { window = 3 }\n", "utf-8")
    result = call("run", "wrong.toml")
    assert result.code == 2
    assert result.out == ""
    first, *faults = result.err.splitlines()
    assert first == "3 errors in the configuration:"
    assert [line.split(":")[0].strip() for line in faults] == [
        "problems.random.problem", "agents.UCRL2.agent", "agents.chance.parameters",
    ]  # fmt: skip
    assert not Path("results").exists()


@pytest.mark.parametrize("name", ["nowhere.toml", "nowhere", "own_agents.py", "."])
def test_an_invalid_configuration_is_rejected(call: Any, name: str) -> None:
    result = call("run", name)
    assert result.code == 2
    assert "Traceback" not in result.err
    assert result.err.count("\n") <= 2


def test_a_python_file_is_not_a_configuration(call: Any) -> None:
    result = call("run", "own_agents.py")
    assert "must be a TOML file (it names your own agents as agent = " in result.err


def test_an_unknown_configuration_lists_the_shipped_ones(call: Any) -> None:
    result = call("run", "figure-2")
    assert result.code == 2
    for name in experiments.shipped():
        assert name in result.err


def test_a_folder_of_the_same_name_does_not_hide_a_shipped_configuration(call: Any) -> None:
    Path("window-scan").mkdir()
    result = call("run", "window-scan", "--out", "small.toml")
    assert result.code == 4  # the configuration is fine, the folder is a file


def test_the_folder_of_another_experiment_is_rejected_with_advice(call: Any, done: Path) -> None:
    result = call("run", "first.toml", "--out", done)
    assert result.code == 4
    assert "another configuration" in result.err
    assert "--out FOLDER" in result.err


@pytest.mark.parametrize("out", ["own_agents.py", ".", "own_agents.py/x"])
def test_foreign_files_are_left_alone(call: Any, out: str) -> None:
    before = Path("own_agents.py").read_bytes()
    result = call("run", "small.toml", "--out", out)
    assert result.code in (2, 4)
    assert "own_agents.py" in result.err or ". is not empty" in result.err
    assert "Errno" not in result.err
    assert Path("own_agents.py").read_bytes() == before
    assert not Path("runs").exists()


def test_a_folder_that_cannot_be_made_is_named(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, *rest: Any, **more: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "mkdir", fail)
    result = call("run", "small.toml", "--out", "closed")
    assert result.code == 2
    assert result.err.startswith("error: closed")
    assert "Permission denied" in result.err


def test_a_disk_that_is_full_from_the_start_is_reported(
    call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*rest: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(experiments, "create", full)
    result = call("run", "small.toml")
    assert result.code == 5
    assert "free some space" in result.err


def test_a_disk_that_fills_up_later_keeps_what_is_done(
    call: Any, half_done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*rest: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("switchmdp.experiments.store.save_arrays", full)
        result = call("resume", half_done)
    assert result.code == 5
    advice = "9 of 12 runs are saved; free some space, then run: switchmdp resume done"
    assert result.err.endswith(f"the disk is full: {advice}\n")
    assert call("resume", half_done).code == 0


def test_a_chunk_that_cannot_be_written_is_reported(
    call: Any, half_done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*rest: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "there")

    monkeypatch.setattr("switchmdp.experiments.store.save_arrays", fail)
    result = call("resume", half_done)
    assert result.code == 3
    assert "chunk s001-a000-b00000 was not completed (PermissionError" in result.err
    assert "to try again: switchmdp resume done" in result.err


@pytest.mark.parametrize("name", ["with two spaces", "façade – ünïcode", "don't"])
def test_a_folder_of_any_name_works_and_is_quoted_for_the_shell(call: Any, name: str) -> None:
    assert call("run", "small.toml", "--problems", "1", "--out", name).code == 0
    (Path(name) / "runs" / "s000-a000-b00000.npz").unlink()
    advice = call("status", name).out.splitlines()[-1].removeprefix("to resume: ")
    assert shlex.split(advice) == ["switchmdp", "resume", name]
    assert call("resume", name).code == 0


def test_a_local_dask_cluster_gives_the_same_bytes(call: Any, done: Path) -> None:
    result = call("run", "small.toml", "--out", "here", "--dask", "local", "--jobs", "1", "--quiet")
    assert result.code == 0
    for file in (done / "runs").iterdir():
        assert (Path("here/runs") / file.name).read_bytes() == file.read_bytes()


def test_reproduce_is_the_shipped_experiment(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def note(name: str, out: Path, problems: int | None, **how: Any) -> int:
        calls.append((name, str(out), problems, how["jobs"]))
        return 0

    monkeypatch.setattr(run_module, "run_named", note)
    assert call("reproduce", "--problems", "7", "--jobs", "2").code == 0
    assert calls == [("figure-1", "results/figure-1", 7, 2)]
    calls.clear()
    assert call("reproduce", "--sensitivity", "--out", "x").code == 0
    assert [(name, out) for name, out, *_ in calls] == [
        ("figure-1", "x"), ("sensitivity", "x-sensitivity"), ("window-scan", "x-window-scan"),
    ]  # fmt: skip


def test_reproduce_knows_a_second_paper(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str]] = []

    def note(name: str, out: Path, problems: int | None, **how: Any) -> int:
        calls.append((name, str(out)))
        return 0

    monkeypatch.setattr(run_module, "run_named", note)
    assert call("reproduce", "r-bocpd", "--sensitivity").code == 0
    assert calls == [
        ("r-bocpd", "results/r-bocpd"),
        ("r-bocpd-sensitivity", "results/r-bocpd-sensitivity"),
    ]
    assert "r-bocpd" in call("reproduce", "--help").out
    assert call("reproduce", "another").code == 2


def test_the_papers_of_reproduce_are_those_in_its_help(call: Any) -> None:
    text = call("reproduce", "--help").out
    for paper, (main, variations) in run_module.PAPERS.items():
        assert paper in text
        assert {main, *variations} <= set(experiments.shipped())


def test_every_shipped_configuration_is_valid_and_in_the_help(call: Any) -> None:
    text = call("run", "--help").out
    for name, content in experiments.shipped().items():
        experiments.check(experiments.loads(content))
        assert name in text


def test_the_example_in_the_help_can_be_run(call: Any) -> None:
    lines = call("run", "--help").out.splitlines()
    first = lines.index('    title = "Windows"')
    last = next(i for i, line in enumerate(lines) if "MyAgent" in line)
    text = "\n".join(lines[first : last + 1]).replace("my_module:MyAgent", "own_agents:First")
    experiments.check(experiments.loads(text), Path.cwd())
