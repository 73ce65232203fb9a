"""A folder of results: which chunks are done, and which files are rejected or ignored."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import DamagedFile, ForeignFolder, InvalidExperiment, InvalidParameter
from switchmdp.experiments import run
from switchmdp.experiments.chunks import Outcome, compute
from switchmdp.experiments.execute import run_chunks
from switchmdp.experiments.plan import Plan, check
from switchmdp.experiments.results import Chunk
from switchmdp.experiments.spec import canonical, dumps, loads, parse
from switchmdp.experiments.store import KIND, Store, create, digest_of, load_results, open_store
from switchmdp.storage import save_arrays

Small = Callable[..., dict[str, Any]]
Prepare = Callable[..., tuple[Store, Plan]]


@pytest.fixture
def store_and_plan(small: Small, prepare: Prepare, tmp_path: Path) -> tuple[Store, Plan]:
    return prepare(small(n_problems=4), tmp_path / "out")


@pytest.fixture
def done(store_and_plan: tuple[Store, Plan]) -> Store:
    assert run_chunks(*store_and_plan, jobs=1).complete
    return store_and_plan[0]


def test_a_chunk_is_done_when_its_file_exists(store_and_plan: tuple[Store, Plan]) -> None:
    store, plan = store_and_plan
    first, *others = store.chunks()
    assert not store.is_done(first)
    store.commit(first, compute(plan, first))
    assert store.is_done(first)
    assert not any(map(store.is_done, others))
    store.chunk_path(first).unlink()
    assert not store.is_done(first)


def test_a_loaded_chunk_equals_the_committed_one(store_and_plan: tuple[Store, Plan]) -> None:
    store, plan = store_and_plan
    for chunk in store.chunks():
        outcome = compute(plan, chunk)
        store.commit(chunk, outcome)
        fields, arrays = store.load(chunk)
        assert fields == {**outcome.fields, "digest": store.digest, "chunk": chunk.id}
        assert sorted(arrays) == sorted(outcome.arrays)
        for name, array in outcome.arrays.items():
            np.testing.assert_array_equal(arrays[name], array)


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "swapped", "text", "folder"])
def test_a_damaged_chunk_is_not_done(done: Store, damage: str) -> None:
    chunk, other = (c for c in done.chunks() if c.agent == 0 and c.setting == 0)
    file = done.chunk_path(chunk)
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        file.write_bytes(content[:-1])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "swapped":
        shutil.copy(done.chunk_path(other), file)
    elif damage == "folder":
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(b"" if damage == "empty" else b"not a zip")
    assert not done.is_done(chunk)
    assert done.is_done(other)
    with pytest.raises(DamagedFile):
        load_results(done)


def test_a_chunk_of_another_experiment_is_not_done(
    done: Store, small: Small, prepare: Prepare, tmp_path: Path
) -> None:
    other, plan = prepare(small(n_problems=4, seed=6), tmp_path / "other")
    chunk = other.chunks()[0]
    other.commit(chunk, compute(plan, chunk))
    shutil.copy(other.chunk_path(chunk), done.chunk_path(chunk))
    assert not done.is_done(chunk)


def test_a_chunk_with_arrays_of_another_shape_or_type_is_not_done(
    store_and_plan: tuple[Store, Plan],
) -> None:
    store, plan = store_and_plan
    chunk = next(c for c in store.chunks() if c.agent == 1)
    sound = compute(plan, chunk).arrays
    fields = {"parameters": {}, "digest": store.digest, "chunk": chunk.id}
    for change in (
        {"regret": sound["regret"][:, 1:]},
        {"regret": sound["regret"].astype(np.float32)},
        {"episodes": sound["episodes"].astype(float)},
        {"failed": None},
    ):
        arrays = {k: v for k, v in {**sound, **change}.items() if v is not None}
        save_arrays(store.chunk_path(chunk), KIND, fields, arrays)
        assert not store.is_done(chunk)
    save_arrays(store.chunk_path(chunk), KIND, fields, sound)
    assert store.is_done(chunk)


def test_the_same_configuration_is_reopened_with_its_chunks(
    done: Store, small: Small, tmp_path: Path
) -> None:
    plan = check(parse(small(n_problems=4)))
    reopened = create(tmp_path / "out", plan, "", None)
    assert reopened == done == open_store(tmp_path / "out")
    assert all(map(reopened.is_done, reopened.chunks()))


def test_title_and_claims_may_be_edited(done: Store, small: Small, tmp_path: Path) -> None:
    claim = {
        "quote": "q", "reading": "r", "measure": "bumps", "setting": "P [changes=1]", "agent": "R",
    }  # fmt: skip
    plan = check(parse(small(n_problems=4, title="better", claims=[claim])))
    text = f"# as it was written\n{dumps(plan.experiment)}"
    create(tmp_path / "out", plan, text, None)
    reopened = open_store(tmp_path / "out")
    assert (reopened.experiment.title, len(reopened.experiment.claims)) == ("better", 1)
    assert (reopened.digest, reopened.text()) == (done.digest, text)
    assert all(map(reopened.is_done, reopened.chunks()))
    assert load_results(reopened).title == "better"


@pytest.mark.parametrize(
    "change", [{"n_problems": 5}, {"horizon": 301}, {"seed": 6}, {"epsilon": 0.1}, {"every": 2}]
)
def test_another_configuration_is_rejected(
    done: Store, small: Small, tmp_path: Path, change: dict[str, Any]
) -> None:
    before = (tmp_path / "out" / "experiment.json").read_bytes()
    plan = check(parse(small(n_problems=4) | change))
    with pytest.raises(ForeignFolder, match=r"another configuration \('small'.*--out FOLDER"):
        create(tmp_path / "out", plan, "", None)
    assert (tmp_path / "out" / "experiment.json").read_bytes() == before


@pytest.mark.parametrize(
    "entry", ["notes.txt", ".bashrc", "experiment.toml", "runs/events.out", "data/x", "failures"]
)
def test_a_folder_with_something_else_in_it_is_rejected(
    small: Small, tmp_path: Path, entry: str
) -> None:
    file = tmp_path / "out" / entry
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    with pytest.raises(ForeignFolder, match="is not empty"):
        create(tmp_path / "out", check(parse(small())), "", None)
    assert file.read_text() == "mine"


def test_a_file_with_the_name_of_the_folder_is_rejected(small: Small, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    with pytest.raises(ForeignFolder):
        create(tmp_path / "out", check(parse(small())), "", None)
    with pytest.raises(ForeignFolder):
        open_store(tmp_path / "out")


def test_files_of_an_interrupted_writer_are_removed(small: Small, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    left = [".experiment.json.0123456789ab", "runs/.s000-facts-b00000.npz.0123456789ab"]
    (folder / "runs").mkdir(parents=True)
    (folder / left[0]).write_text("{")
    plan = check(parse(small(n_problems=1)))
    store = create(folder, plan, "", None)
    others = [".experiment.toml.ba9876543210", "timings/.s000-a000-b00000.json.0123456789ab"]
    kept = [".mine.json.bak", "report.html", "runs/.hidden"]
    for name in (left[1], *others, *kept):
        (folder / name).write_text("x")
    assert run_chunks(store, plan, jobs=1).complete
    assert not any((folder / name).exists() for name in (*left, *others))
    assert all((folder / name).exists() for name in kept)


def test_a_reopened_folder_keeps_its_block_sizes(
    store_and_plan: tuple[Store, Plan], small: Small, tmp_path: Path
) -> None:
    reopened = create(tmp_path / "out", check(parse(small(n_problems=4))), "", None)
    assert reopened.blocks == store_and_plan[0].blocks != ((500, 500), (500, 500))


def test_a_folder_without_a_manifest_holds_no_results(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ForeignFolder, match="not a folder of results"):
            open_store(path)


def test_every_changed_byte_of_the_manifest_is_damage(store_and_plan: tuple[Store, Plan]) -> None:
    file = store_and_plan[0].path / "experiment.json"
    sound = file.read_bytes()
    for i in range(0, len(sound), 7):
        changed = bytearray(sound)
        changed[i] ^= 1 << i % 8
        file.write_bytes(changed)
        with pytest.raises(DamagedFile):
            open_store(store_and_plan[0].path)
    for content in (b"", b"{}", b"[]", b"null", sound[:-1], sound + b" ", b"[" * 10_000):
        file.write_bytes(content)
        with pytest.raises(DamagedFile):
            open_store(store_and_plan[0].path)
    file.write_bytes(sound)
    assert open_store(store_and_plan[0].path) == store_and_plan[0]


def test_a_manifest_that_was_rewritten_by_hand_is_damage(
    store_and_plan: tuple[Store, Plan],
) -> None:
    file = store_and_plan[0].path / "experiment.json"
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps(content))
    with pytest.raises(DamagedFile):
        open_store(store_and_plan[0].path)


def sweeping(value: Any) -> dict[str, Any]:
    """The problems of a manifest with this value for a sweep."""
    parameters = {"changes": {"sweep": value}}
    return {"P": {"problem": "random-switching", "parameters": parameters}}


HOSTILE: dict[str, Any] = {
    "blocks of no problems": {"blocks": [[0, 1], [1, 1]]},
    "blocks of fewer problems than none": {"blocks": [[-1, 1], [1, 1]]},
    "no blocks": {"blocks": []},
    "blocks of other agents": {"blocks": [[1], [1]]},
    "blocks that are numbers": {"blocks": [1, 1]},
    "modules in a list": {"modules": ["toys"]},
    "modules without a digest": {"modules": {"toys": None}},
    "a version that is a number": {"version": 3},
    "a digest that is a list": {"digest": [1]},
    "a sweep that is a number": {"problems": sweeping(5)},
    "a sweep of nothing": {"problems": sweeping([])},
    "a sweep of more than there is room for": {"problems": sweeping(list(range(1000)))},
    "more variants than anybody could count": {"problems": {"P": {
        "problem": "random", "parameters": {k: {"sweep": list(range(500))} for k in "abcdefgh"},
    }}},
}  # fmt: skip


@pytest.mark.parametrize("fault", HOSTILE)
def test_an_invalid_manifest_with_the_right_checksum_is_damage(
    fault: str, store_and_plan: tuple[Store, Plan]
) -> None:
    file = store_and_plan[0].path / "experiment.json"
    content = json.loads(file.read_bytes())
    del content["checksum"]
    change = HOSTILE[fault]
    content["experiment"] |= {k: change[k] for k in change if k == "problems"}
    content |= {k: change[k] for k in change if k != "problems"}
    digest = hashlib.sha256(canonical(content)).hexdigest()
    file.write_bytes(canonical({**content, "checksum": digest}))
    with pytest.raises(DamagedFile):
        open_store(store_and_plan[0].path).chunks()


def test_a_chunk_with_appended_bytes_is_not_done(done: Store) -> None:
    chunk = done.chunks()[1]
    with done.chunk_path(chunk).open("ab") as file:
        file.write(b"more")
    assert not done.is_done(chunk)
    with pytest.raises(DamagedFile):
        load_results(done)


def test_results_of_another_version_are_read_but_not_added_to(
    done: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small: Small
) -> None:
    monkeypatch.setattr("switchmdp.experiments.store.__version__", "9.9.9")
    store = open_store(tmp_path / "out")
    assert load_results(store).provenance["switchmdp"] == done.version
    with pytest.raises(ForeignFolder, match=r"made by switchmdp .*, but this is 9\.9\.9"):
        store.plan()
    with pytest.raises(ForeignFolder, match="another configuration"):
        create(tmp_path / "out", check(parse(small(n_problems=4))), "", None)


def with_toys(small: Small) -> dict[str, Any]:
    return small(n_problems=1, agents={"T": {"agent": "toys:Toy"}})


def test_the_digest_covers_the_users_modules(small: Small, toys: Path) -> None:
    digests = {digest_of(check(parse(with_toys(small)), toys, trust=True))}
    for file in ("toys.py", "toy_numbers.py"):
        (toys / file).write_text((toys / file).read_text() + "# edited\n")
        digests.add(digest_of(check(parse(with_toys(small)), toys, trust=True)))
    assert len(digests) == 3


@pytest.mark.parametrize("file", ["toys.py", "toy_numbers.py"])
def test_a_changed_user_module_is_rejected(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path, file: str
) -> None:
    store, _ = prepare(with_toys(small), tmp_path / "out", toys)
    assert open_store(store.path).plan(trust=True).modules == store.modules
    text = (toys / file).read_text()
    (toys / file).write_text(text + "# edited\n")
    with pytest.raises(ForeignFolder, match=rf"different code: {file.removesuffix('.py')} changed"):
        store.plan(trust=True)
    with pytest.raises(ForeignFolder, match="another configuration"):
        prepare(with_toys(small), tmp_path / "out", toys)
    (toys / file).write_text(text)
    assert store.plan(trust=True).modules == store.modules


def test_a_user_module_that_is_no_longer_used_is_named(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path
) -> None:
    store, _ = prepare(with_toys(small), tmp_path / "out", toys)
    text = (toys / "toys.py").read_text()
    (toys / "toys.py").write_text(text.replace("from toy_numbers import FAVOURITE", "FAVOURITE=1"))
    with pytest.raises(ForeignFolder, match="toy_numbers, toys changed"):
        store.plan(trust=True)


def test_a_deleted_user_module_is_an_error(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path
) -> None:
    store, _ = prepare(with_toys(small), tmp_path / "out", toys)
    shutil.move(toys, tmp_path / "moved")
    with pytest.raises(InvalidExperiment, match=r"agents\.T\.agent: can't import 'toys'"):
        store.plan(trust=True)


def test_missing_and_damaged_sidecars_are_ignored(done: Store) -> None:
    first, second, third, *_ = (c for c in done.chunks() if c.agent is not None)
    done.path.joinpath("timings", f"{first.id}.json").unlink()
    done.path.joinpath("timings", f"{second.id}.json").write_text('["x"]')
    for content in ("5", '{"a":1}', "[1]", "[", ""):
        done.path.joinpath("failures", f"{third.id}.json").write_text(content)
        assert done.sidecar("failures", third) is None
    results = load_results(done)
    assert results.failures == ()
    seconds = results.settings["P [changes=1]"].agents["R"].seconds
    assert np.isnan(seconds).tolist() == [True, True, False, False]
    shutil.rmtree(done.path / "timings")
    assert np.isnan(load_results(done).settings["P [changes=2]"].agents["U"].seconds).all()


def test_a_text_of_another_experiment_is_not_shown(done: Store) -> None:
    (done.path / "experiment.toml").write_text(dumps(done.experiment).replace("300", "301"))
    assert loads(done.text()) == done.experiment


def test_experiment_toml_and_origin_json_may_be_missing(done: Store) -> None:
    (done.path / "experiment.toml").unlink()
    assert loads(done.text()) == done.experiment
    assert done.module_folder() is None


def test_failures_are_kept_with_their_tracebacks(store_and_plan: tuple[Store, Plan]) -> None:
    store, plan = store_and_plan
    chunk: Chunk = store.chunks()[1]
    outcome = compute(plan, chunk)
    failure = {"setting": "P", "agent": "R", "problem": 0, "error": "\ud800é", "traceback": "…"}
    store.commit(chunk, Outcome(outcome.arrays, outcome.fields, [failure], outcome.seconds))
    assert store.sidecar("failures", chunk) == [failure]
    store.delete_failed()
    assert store.is_done(chunk), "no run of the chunk is marked as failed"
    outcome.arrays["failed"][0] = True
    store.commit(chunk, Outcome(outcome.arrays, outcome.fields, [failure], outcome.seconds))
    store.delete_failed()
    assert not store.is_done(chunk)
    assert store.sidecar("failures", chunk) is None


@pytest.mark.parametrize(
    ("problem", "one"), [("riverswim", True), ("lower-bound", False), ("random", False)]
)
def test_a_generator_without_random_draws_makes_one_problem(
    problem: str, one: bool, small: Small, prepare: Prepare, tmp_path: Path
) -> None:
    spec = {"P": {"problem": problem}}
    agents = {"R": {"agent": "random"}}
    store, plan = prepare(small(problems=spec, agents=agents), tmp_path / "out")
    unfinished = load_results(store).settings["P"]
    assert not unfinished.one_problem  # unknown
    assert run_chunks(store, plan, jobs=1).complete
    assert load_results(store).settings["P"].one_problem is one


def test_a_path_in_place_of_a_store_or_an_experiment_is_refused(done: Store) -> None:
    path: Any = done.path
    with pytest.raises(InvalidParameter, match=r"a Store, such as open_store\(folder\), got "):
        load_results(path)
    with pytest.raises(InvalidParameter, match=r"experiment must be an Experiment \(load\(path"):
        run(path, done.path)
