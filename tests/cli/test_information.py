"""status, verify, report, export, agents, problems, schema: these commands change no results."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import switchmdp as sm
from switchmdp.agents import AGENTS
from switchmdp.experiments.names import FORMULAS
from switchmdp.problems import PROBLEMS

PLAIN = ("--executor", "threads")
LOOKING = ("status", "verify", "report", "export", "resume")


def tree(folder: Path) -> dict[str, str]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(f): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


@pytest.mark.parametrize("command", LOOKING)
@pytest.mark.parametrize("name", ["nowhere", "empty", "small.toml"])
def test_a_folder_without_results_is_an_error_and_left_alone(
    call: Any, command: str, name: str
) -> None:
    Path("empty").mkdir()
    before = tree(Path.cwd())
    result = call(command, name)
    assert result.code == 4
    assert result.out == ""
    assert result.err == f"error: {name} is not a folder of results: it has no experiment.json\n"
    assert tree(Path.cwd()) == before
    assert not Path("nowhere").exists()


@pytest.mark.parametrize("command", LOOKING)
def test_a_damaged_manifest_is_reported(call: Any, done: Path, command: str) -> None:
    file = done / "experiment.json"
    file.write_bytes(file.read_bytes().replace(b'"horizon":300', b'"horizon":400'))
    result = call(command, done)
    assert result.code == 4
    assert "does not match its checksum" in result.err


def test_status_counts_by_setting_and_agent(call: Any, half_done: Path) -> None:
    before = tree(half_done)
    result = call("status", half_done)
    assert result.code == 0
    assert result.out.splitlines() == [
        "Two agents",
        "9 of 12 runs done, 0 failed",
        "",
        "setting             agent   done  runs  failed",
        "----------------------------------------------",
        "random [changes=1]  UCRL2      3     3       0",
        "random [changes=1]  chance     3     3       0",
        "random [changes=2]  UCRL2      0     3       0",
        "random [changes=2]  chance     3     3       0",
        "",
        "to resume: switchmdp resume done",
    ]
    assert tree(half_done) == before


def test_status_shows_each_kind_of_failure_once_with_its_traceback(call: Any) -> None:
    call("run", "fails.toml", "--out", "here", "--shard", "1/1", *PLAIN)
    result = call("status", "here")
    assert result.code == 3
    assert "18 of 18 runs done, 6 failed" in result.out
    assert re.search(r"random \[changes=1\] +mine +3 +3 +3\n", result.out)
    assert result.out.count("Traceback") == 1
    assert "  failed: mine on random [changes=1], problem 0\n" in result.out
    assert 'raise RuntimeError("no idea' in result.out


def test_a_problem_that_cannot_be_made_does_not_count_as_a_run(call: Any) -> None:
    Path("own_problems.py").write_text(
        "from switchmdp.problems import problem_factory, random_switching\n"
        "made = []\n"
        "@problem_factory\n"
        "def moody(seed):\n"
        "    made.append(seed)\n"
        "    if len(set(made)) == 2:\n"
        "        made.pop()\n"
        "        raise ValueError('not today')\n"
        "    return random_switching(seed=seed)\n",
        "utf-8",
    )
    text = (
        Path("small.toml").read_text("utf-8").replace('"random-switching"', '"own_problems:moody"')
    )
    Path("moody.toml").write_text(text.replace("changes = { sweep = [1, 2] }", ""), "utf-8")
    assert call("run", "moody.toml", "--out", "here", "--problems", "2", *PLAIN).code == 3
    result = call("status", "here")
    assert result.code == 3
    assert "4 of 4 runs done, 2 failed" in result.out
    assert "failed: the problem itself on random, problem 1" in result.out


def test_status_names_what_is_damaged(call: Any, done: Path) -> None:
    file = done / "runs" / "s000-a000-b00000.npz"
    content = bytearray(file.read_bytes())
    content[-600] ^= 1
    file.write_bytes(content)
    result = call("status", done)
    assert result.code == 4
    assert f"  damaged: {file}" in result.out
    assert result.out.endswith("to resume: switchmdp resume done\n")


def test_verify_finds_a_flipped_bit_a_truncated_file_and_a_foreign_file(
    call: Any, done: Path
) -> None:
    assert call("verify", done).out == "6 chunks are valid, 0 not done yet, 0 bad\n"
    one, two, three = sorted((done / "runs").iterdir())[:3]
    content = bytearray(one.read_bytes())
    content[-600] ^= 1
    one.write_bytes(content)
    two.write_bytes(two.read_bytes()[:-1])
    three.unlink()
    (done / "runs" / "notes.txt").write_text("mine")
    result = call("verify", done)
    assert result.code == 4
    assert result.out.splitlines()[0] == "3 chunks are valid, 1 not done yet, 3 bad"
    assert f"  {one.stem}: " in result.out
    assert f"  {two.stem}: " in result.out
    assert "  notes.txt: not a file of this experiment" in result.out
    assert "to compute damaged chunks again: switchmdp resume done" in result.out


def test_verify_computes_chunks_again_and_compares_every_byte(call: Any, done: Path) -> None:
    result = call("verify", done, "--recompute", "100")
    assert result.code == 0
    assert "6 computed again and compared byte by byte" in result.out
    one, other = (done / "runs" / f"s000-a00{a}-b00000.npz" for a in (0, 1))
    before = tree(done)
    _swap_the_arrays(one, other)
    assert call("verify", done).code == 0  # each file is sound in itself
    result = call("verify", done, "--recompute", "100")
    assert result.code == 4
    assert f"  {one.stem}: computing it again gives different bytes" in result.out
    assert set(tree(done)) == set(before)


def _swap_the_arrays(one: Path, other: Path) -> None:
    from switchmdp.storage import load_arrays, save_arrays

    kind = "chunk of runs"
    (first, left), (second, right) = load_arrays(one, kind), load_arrays(other, kind)
    save_arrays(one, kind, first, right)
    save_arrays(other, kind, second, left)


def test_verify_without_the_folder_of_runs_reports_everything_as_missing(
    call: Any, done: Path
) -> None:
    shutil.rmtree(done / "runs")
    result = call("verify", done, "--recompute", "1")
    assert result.code == 0
    assert result.out == "0 chunks are valid, 6 not done yet, 0 bad\n"


def test_read_only_results_can_be_inspected(
    call: Any, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from switchmdp import storage

    def fail(path: Any, *_: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(storage, "replacing", fail)
    monkeypatch.setattr("switchmdp.reports.export.replacing", fail)
    assert call("status", done).code == 0
    assert call("verify", done).code == 0
    for command in ("report", "export"):
        result = call(command, done)
        assert result.code == 2
        assert "Permission denied" in result.err


def test_a_report_of_an_incomplete_experiment_says_so(call: Any, half_done: Path) -> None:
    result = call("report", half_done)
    assert result.code == 0
    assert "not complete: 3 runs are still to be done" in result.out
    assert f"to resume: switchmdp resume {half_done}\n" in result.err
    assert "9 of 12: not complete" in (half_done / "report/tables.md").read_text("utf-8")
    assert "not complete" in (half_done / "report/index.html").read_text("utf-8")


def test_a_report_without_any_runs_can_be_written(call: Any, done: Path) -> None:
    for file in (done / "runs").iterdir():
        file.unlink()
    result = call("report", done)
    assert result.code == 0
    assert "not complete: 12 runs" in result.out
    assert f"to resume: switchmdp resume {done}\n" in result.err


def test_a_report_can_be_written_to_another_folder(call: Any, done: Path) -> None:
    result = call("report", done, "--out", "my report")
    assert "to resume" not in result.err
    assert result.out.endswith("\nreport: my report/index.html\n")
    assert Path("my report/tables.md").exists()
    assert not (done / "report").exists()


@pytest.mark.parametrize("command", ["report", "export"])
def test_damage_is_reported_with_the_command_that_repairs_it(
    call: Any, done: Path, command: str
) -> None:
    file = done / "runs" / "s000-a000-b00000.npz"
    file.write_bytes(b"x")
    result = call(command, done)
    assert result.code == 4
    assert str(file) in result.err
    assert "to compute it again: switchmdp resume done" in result.err


def test_without_the_extra_there_are_still_tables(
    call: Any, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = call("report", done)
    assert result.code == 2
    assert "no figures and no page" in result.err
    assert "pip install 'switchmdp[plot]'" in result.err
    assert result.out.endswith("\nreport: done/report/tables.md\n")
    assert (done / "report/tables.md").exists()
    assert call("resume", done).code == 0  # the runs are what was asked for


def test_export_writes_csv_and_parquet_and_prints_the_file_names(call: Any, done: Path) -> None:
    result = call("export", done)
    assert result.code == 0
    files = [Path(line) for line in result.out.splitlines()]
    assert {file.suffix for file in files} == {".csv", ".parquet"}
    assert all(file.parent == done / "export" and file.stat().st_size for file in files)
    with open(done / "export/runs.csv", encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 12


def test_export_without_pyarrow_writes_csv_unless_parquet_is_requested(
    call: Any, done: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = call("export", done, "--out", "tables")
    assert result.code == 0
    assert result.err.startswith("only CSV: ")
    assert {file.suffix for file in Path("tables").iterdir()} == {".csv"}
    result = call("export", done, "--format", "parquet")
    assert result.code == 2
    assert "pip install 'switchmdp[parquet]'" in result.err
    assert not (done / "export").exists()


def test_agents_and_problems_are_listed_by_their_names_in_configurations(call: Any) -> None:
    output = call("agents").out
    names = re.findall(r"^([a-z][\w-]*): ", output, re.MULTILINE)
    assert names == [*AGENTS, *FORMULAS]
    assert "    window (required)\n    delta = 0.05\n" in output
    assert "n_states" not in output
    assert '{ formula = "NAME", ... }' in output
    output = call("problems").out
    assert re.findall(r"^([a-z][\w-]*): ", output, re.MULTILINE) == [*PROBLEMS]
    assert '    rows = "dirichlet" or "uniform"\n' in output
    assert "    horizon = the experiment's\n" in output
    assert "seed" not in output


@pytest.mark.parametrize(
    ("kind", "names"), [("agents", AGENTS), ("problems", PROBLEMS)], ids=["agents", "problems"]
)
def test_the_description_of_an_entry_names_it_in_python(call: Any, kind: str, names: Any) -> None:
    for name in list(names)[:3]:
        shown = call(kind, name).out
        (path,) = re.findall(r"^In Python: switchmdp\.(\S+)$", shown, re.MULTILINE)
        module, _, attribute = path.partition(".")
        assert module == kind
        assert getattr(getattr(sm, module), attribute) is names[name]


@pytest.mark.parametrize("name", ["SWUCRL", "SW-UCRL", "sw_ucrl"])
def test_the_name_of_a_class_leads_to_the_name_of_the_agent(call: Any, name: str) -> None:
    result = call("agents", name)
    assert result.code == 2
    assert result.err == f"error: unknown agent {name!r}; did you mean 'sw-ucrl'?\n"


def test_the_schema_is_printed_as_json_for_editors(call: Any) -> None:
    schema = json.loads(call("schema").out)
    assert schema["$schema"].startswith("https://json-schema.org/")
    assert set(schema["required"]) == {"horizon", "n_problems", "problems", "agents"}


def test_the_program_runs_as_a_module_and_without_docstrings() -> None:
    environment = {**os.environ, "PYTHONOPTIMIZE": "2"}
    for arguments in (["agents"], ["problems"], ["schema"], ["agents", "random"]):
        ended = subprocess.run(
            [sys.executable, "-m", "switchmdp", *arguments],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout
