"""Saved problems are restored exactly; damaged and forged files are rejected."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import DamagedFile
from switchmdp.mdp import MDP, Bernoulli, Beta, Deterministic, RewardLaw, SwitchingMDP
from switchmdp.mdp import mdp as mdp_module
from switchmdp.storage import load_arrays, save_arrays

KIND = "switching-mdp"


def random_problem(seed: int, law: RewardLaw | None = None, **labels: Any) -> SwitchingMDP:
    rng = np.random.default_rng(seed)
    mask = rng.random((4, 3)) < 0.6
    mask[:, 1] = True
    rows = rng.dirichlet(np.ones(4), (4, 3))
    means = rng.uniform(0.3, 0.7, (4, 3))
    base = MDP(rows, means, available=mask, law=law, **labels)
    patches = [
        [(int(rng.integers(4)), 1, rng.dirichlet(np.ones(4)), float(rng.uniform(0.3, 0.7)))]
        for _ in range(5)
    ]
    return SwitchingMDP.from_patches(base, [3, 5, 8, 13, 21], patches)


def assert_same_problem(a: SwitchingMDP, b: SwitchingMDP) -> None:
    arrays: Any = zip(a.model + a.patches, b.model + b.patches, strict=True)
    for x, y in arrays:
        assert x.dtype == y.dtype
        assert np.array_equal(x, y)
    assert np.array_equal(a.change_points, b.change_points)
    assert a.pairs.same_as(b.pairs)
    assert a.law == b.law
    assert (a.state_labels, a.action_labels) == (b.state_labels, b.action_labels)


@pytest.mark.parametrize(
    "law", [Bernoulli(), Deterministic(), Beta(variance=0.01), Beta(share=0.1 + 0.2)], ids=repr
)
def test_a_loaded_problem_equals_the_saved_one(law: RewardLaw, tmp_path: Path) -> None:
    problem = random_problem(1, law)
    problem.save(tmp_path / "problem.npz")
    assert_same_problem(SwitchingMDP.load(tmp_path / "problem.npz"), problem)


def test_labels_survive_saving(tmp_path: Path) -> None:
    problem = random_problem(2, state_labels=["α", "b", "c d", "\n"], action_labels=["l", "m", "r"])
    problem.save(str(tmp_path / "problem.npz"))
    assert_same_problem(SwitchingMDP.load(str(tmp_path / "problem.npz")), problem)


def test_a_problem_without_changes_survives_saving(tmp_path: Path) -> None:
    problem = SwitchingMDP([MDP([[[1.0]]], [[0.5]])])
    problem.save(tmp_path / "problem.npz")
    assert_same_problem(SwitchingMDP.load(tmp_path / "problem.npz"), problem)


def test_the_same_problem_is_saved_as_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        random_problem(3).save(tmp_path / name)
    SwitchingMDP.load(tmp_path / "a").save(tmp_path / "c")
    contents = {(tmp_path / name).read_bytes() for name in "abc"}
    assert len(contents) == 1


def test_a_missing_file_raises_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SwitchingMDP.load(tmp_path / "nowhere.npz")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[SwitchingMDP, bytes, Path]:
    folder = tmp_path_factory.mktemp("saved")
    random_problem(4).save(folder / "good")
    return random_problem(4), (folder / "good").read_bytes(), folder / "bad"


def assert_rejected_or_unharmed(problem: SwitchingMDP, content: bytes, path: Path) -> bool:
    """Whether a file of this content is rejected; if it is not, it must hold the problem."""
    path.write_bytes(content)
    try:
        loaded = SwitchingMDP.load(path)
    except DamagedFile:
        return True
    assert_same_problem(loaded, problem)
    return False


def test_a_flipped_bit_gives_the_same_data_or_damaged_file(saved: Any) -> None:
    problem, content, path = saved
    rng = np.random.default_rng(0)
    rejected = 0
    for at in rng.choice(len(content), 400, replace=False):
        flipped = bytearray(content)
        flipped[at] ^= 1 << rng.integers(8)
        rejected += assert_rejected_or_unharmed(problem, bytes(flipped), path)
    assert rejected > 200


def test_a_flipped_bit_in_the_zip_directory_gives_the_same_data_or_damaged_file(saved: Any) -> None:
    problem, content, path = saved
    for at in range(content.index(b"PK\x01\x02"), len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1
        assert_rejected_or_unharmed(problem, bytes(flipped), path)


def test_entries_that_claim_to_be_encrypted_are_rejected(saved: Any) -> None:
    _, content, path = saved
    at = content.index(b"PK\x01\x02") + 8  # the flags of the first entry
    path.write_bytes(content[:at] + b"\x01" + content[at + 1 :])
    with pytest.raises(DamagedFile):
        SwitchingMDP.load(path)


def test_every_truncated_file_is_rejected(saved: Any) -> None:
    _, content, path = saved
    for length in [*range(0, len(content), 17), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(DamagedFile):
            SwitchingMDP.load(path)


def test_random_bytes_are_rejected(saved: Any) -> None:
    path = saved[2]
    for seed in range(20):
        path.write_bytes(np.random.default_rng(seed).bytes(1 + 100 * seed))
        with pytest.raises(DamagedFile):
            SwitchingMDP.load(path)


# Two states, one action, configurations swap → (0, 0) earns less → swap.
Arrays = dict[str, Any]
FORGED: dict[str, Callable[[Arrays], Arrays]] = {
    "a row of a pair too large": lambda a: {"row": a["row"] + 3},
    "a negative row": lambda a: {"row": a["row"] - 1},
    "a successor that is no state": lambda a: {"successors": a["successors"] + np.uint32(1)},
    "a start below 0": lambda a: {"start": a["start"] - 1},
    "a stop beyond the end": lambda a: {"stop": a["stop"] + 1},
    "a row without successors": lambda a: {"stop": a["start"]},
    "a patch to a pair that is none": lambda a: {"pair": a["pair"] + 2},
    "a new row too large": lambda a: {"new": a["new"] + 3},
    "a negative new row": lambda a: {"new": a["new"] - 9},
    "an old row too large": lambda a: {"old": a["old"] + 3},
    "an old row that was not there": lambda a: {"old": a["new"]},
    "offsets that fall": lambda a: {"offsets": a["offsets"][::-1]},
    "offsets beyond the patches": lambda a: {"offsets": a["offsets"] * 2},
    "offsets below 0": lambda a: {"offsets": a["offsets"] - 1},
    "too few offsets": lambda a: {"offsets": a["offsets"][:-1]},
    "no offsets": lambda a: {"offsets": a["offsets"][:0]},
    "starts that fall": lambda a: {"starts": np.array([0, 5, 2])},
    "starts beyond the pairs": lambda a: {"starts": a["starts"] * 9},
    "no starts": lambda a: {"starts": a["starts"][:0]},
    "a state without actions": lambda a: {"starts": np.array([0, 0, 2])},
    "an action that is none": lambda a: {"actions": a["actions"] + 1},
    "a mean above 1": lambda a: {"mean": a["mean"] + 1},
    "a mean NaN": lambda a: {"mean": a["mean"] * np.nan},
    "probabilities of 0.9": lambda a: {"probabilities": a["probabilities"] * 0.9},
    "probabilities NaN": lambda a: {"probabilities": a["probabilities"] * np.nan},
    "probabilities infinite": lambda a: {"probabilities": a["probabilities"] * np.inf},
    "probabilities negative": lambda a: {"probabilities": -a["probabilities"]},
    "too few probabilities": lambda a: {"probabilities": a["probabilities"][:-1]},
    "change points that fall": lambda a: {"change_points": a["change_points"][::-1].copy()},
    "a change point of 1": lambda a: {"change_points": np.array([1, 9])},
    "too many change points": lambda a: {"change_points": np.array([5, 6, 7])},
    "floats for rows": lambda a: {"row": a["row"].astype(float)},
    "big-endian rows": lambda a: {"row": a["row"].astype(">i8")},
    "two dimensions": lambda a: {"row": a["row"][:, None]},
    "an array less": lambda a: {"old": None},
}


@pytest.fixture
def stored(tmp_path: Path) -> tuple[dict[str, Any], Arrays, Path]:
    m = [MDP([[[0, 1]], [[1, 0]]], [[x], [0]]) for x in (1.0, 0.5)]
    SwitchingMDP([*m, m[0]], [5, 9]).save(tmp_path / "good")
    return *load_arrays(tmp_path / "good", KIND), tmp_path / "forged"


@pytest.mark.parametrize("fault", FORGED)
def test_a_file_with_the_right_checksum_and_wrong_arrays_is_rejected(
    fault: str, stored: Any
) -> None:
    fields, arrays, path = stored
    forged = arrays | FORGED[fault](arrays)
    save_arrays(path, KIND, fields, {k: v for k, v in forged.items() if v is not None})
    with pytest.raises(DamagedFile, match="does not describe a switching MDP"):
        SwitchingMDP.load(path)


@pytest.mark.parametrize(
    "forged",
    [{"n_actions": 0}, {"n_actions": "1"}, {"n_actions": 1.5}, {"n_actions": 10**30},
     {"n_actions": None}, {"law": None}, {"law": []}, {"law": [9, 0.0]}, {"law": [2, 7.0]},
     {"law": ["a", "b"]}, {"state_labels": 5}, {"state_labels": ["a"]}, {"state_labels": [1, 2]},
     {"state_labels": "ab"}, {"action_labels": ["a", "b"]}],
    ids=repr,
)  # fmt: skip
def test_a_file_with_wrong_fields_is_rejected(forged: dict[str, Any], stored: Any) -> None:
    fields, arrays, path = stored
    save_arrays(path, KIND, fields | forged, arrays)
    with pytest.raises(DamagedFile, match="does not describe a switching MDP"):
        SwitchingMDP.load(path)


def test_a_file_without_fields_is_rejected(stored: Any) -> None:
    _, arrays, path = stored
    save_arrays(path, KIND, {}, arrays)
    with pytest.raises(DamagedFile):
        SwitchingMDP.load(path)


def test_a_stored_problem_that_is_disconnected_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap, stuck = ([[[0, 1]], [[1, 0]]], [[[1, 0]], [[1, 0]]])
    with monkeypatch.context() as patched:
        patched.setattr(mdp_module, "CHECKED_AT_ONCE", 0)
        problem = SwitchingMDP([MDP(x, [[1], [0]]) for x in (swap, stuck)], [5])
        problem.save(tmp_path / "honest")
    fields, arrays = load_arrays(tmp_path / "honest", KIND)
    save_arrays(tmp_path / "lying", KIND, fields, arrays | {"rewires": np.array([False])})
    with pytest.raises(DamagedFile, match="configuration 1 has infinite diameter"):
        SwitchingMDP.load(tmp_path / "honest")
    with pytest.raises(DamagedFile):
        SwitchingMDP.load(tmp_path / "lying")


def test_a_failed_save_keeps_the_existing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_problem(5).save(tmp_path / "problem")
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
        with pytest.raises(OSError, match="no space"):
            random_problem(6).save(tmp_path / "problem")
    assert_same_problem(SwitchingMDP.load(tmp_path / "problem"), random_problem(5))
    assert os.listdir(tmp_path) == ["problem"]


def test_rows_of_every_width_and_scale_load_again(tmp_path: Path) -> None:
    """Normalised rows sum to 1 within the bound that a stored row must meet."""
    rng = np.random.default_rng(0)
    for width in (1, 2, 3, 7, 40, 300):
        rows = 10.0 ** -rng.uniform(0, rng.uniform(0, 40), (300, 1, 300))
        rows[:, :, width:] = 0.0
        rows[width:, 0, (np.arange(width, 300) + 1) % 300] = 1.0
        rows[:width, 0, (np.arange(width) + 1) % 300] += 1e-9
        means = rng.random((300, 1))
        problem = SwitchingMDP([MDP(rows / rows.sum(axis=2, keepdims=True), means)])
        problem.save(tmp_path / "rows")
        assert SwitchingMDP.load(tmp_path / "rows").model.probabilities.tobytes() == (
            problem.model.probabilities.tobytes()
        )


def test_a_stored_row_that_is_off_by_more_than_its_roundings_is_rejected(stored: Any) -> None:
    """Certificates of gains assume that k probabilities sum to 1 within k roundings."""
    fields, arrays, path = stored
    SwitchingMDP([MDP(np.full((4, 1, 4), 0.25), np.zeros((4, 1)))]).save(path)
    fields, arrays = load_arrays(path, KIND)
    for roundings, fits in ((4, True), (8, False), (12, False)):
        row = np.full(16, 0.25)
        row[0] += roundings * 2.0**-53
        save_arrays(path, KIND, fields, arrays | {"probabilities": row})
        if fits:
            SwitchingMDP.load(path)
        else:
            with pytest.raises(DamagedFile, match="probabilities"):
                SwitchingMDP.load(path)
