"""Problem files with a valid checksum and hostile content are rejected or harmless."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.mdp.hostile_problems import KIND, once_around

from switchmdp.errors import DamagedFile
from switchmdp.mdp import MDP, SwitchingMDP
from switchmdp.storage import load_arrays, save_arrays

ROOT = Path(__file__).parents[2]
TOP, BOTTOM = 2**63 - 1, -(2**63)


@pytest.mark.long
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.soak)])
def test_hostile_problem_files_are_rejected_or_can_be_used(count: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.mdp.hostile_problems", tmp_path, "0", str(count)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines() or [""]
    assert done.returncode == 0, f"{lines[-1]}: code {done.returncode}\n{done.stderr[-2000:]}"
    counts = re.fullmatch(r"done: 6 sound, (\d+) rejected, (\d+) used", lines[-1])
    assert counts, lines[-1]
    rejected, used = int(counts[1]), int(counts[2])
    assert rejected + used == count
    assert used > count // 50, "hardly any file got past the checks, so that nothing was used"


WRAPS: dict[str, tuple[str, list[int]]] = {
    "offsets": ("offsets", [0, *once_around(4), 3]),
    "starts": ("starts", [0, *once_around(4), 3]),
    "the last change point": ("change_points", [5, 9, BOTTOM]),
    "an inner change point": ("change_points", [5, BOTTOM + 4, 9]),
    "start": ("start", [0, BOTTOM, 2, 0, 0]),
    "stop": ("stop", [1, TOP, 3, 1, 1]),
}


@pytest.mark.parametrize("case", WRAPS)
def test_indices_whose_differences_wrap_around_are_rejected(case: str, tmp_path: Path) -> None:
    name, values = WRAPS[case]
    ring = [[[0, 1, 0]], [[0, 0, 1]], [[1, 0, 0]]]
    problem = SwitchingMDP([MDP(ring, [[m], [0], [0]]) for m in (1.0, 0.5, 0.25, 1.0)], [5, 9, 12])
    problem.save(tmp_path / "good")
    fields, arrays = load_arrays(tmp_path / "good", KIND)
    forged = np.array(values)
    assert forged.shape == arrays[name].shape
    save_arrays(tmp_path / "forged", KIND, fields, arrays | {name: forged})
    with pytest.raises(DamagedFile, match="does not describe a switching MDP"):
        SwitchingMDP.load(tmp_path / "forged")


def test_rows_whose_successors_do_not_increase_are_rejected(tmp_path: Path) -> None:
    SwitchingMDP([MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[1], [0]])]).save(tmp_path / "good")
    fields, arrays = load_arrays(tmp_path / "good", KIND)
    assert arrays["successors"].tolist() == [0, 1, 0, 1]
    for other in ([1, 0, 0, 1], [0, 1, 1, 1], [0, 0, 0, 1]):
        changed = arrays | {"successors": np.array(other, np.uint32)}
        save_arrays(tmp_path / "forged", KIND, fields, changed)
        with pytest.raises(DamagedFile, match="successors"):
            SwitchingMDP.load(tmp_path / "forged")


def test_rows_that_overlap_are_rejected(tmp_path: Path) -> None:
    tiny = 1e-300  # so that a row is as good as normalised with and without it
    rows = [[[tiny, 1.0], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]
    SwitchingMDP([MDP(rows, [[1, 0], [0, 0]])]).save(tmp_path / "good")
    fields, arrays = load_arrays(tmp_path / "good", KIND)
    assert arrays["start"].tolist() == [0, 2, 3, 4]
    overlapping = {"start": np.array([0, 1, 3, 4]), "stop": np.array([2, 2, 4, 5])}
    save_arrays(tmp_path / "forged", KIND, fields, arrays | overlapping)
    with pytest.raises(DamagedFile, match="start"):
        SwitchingMDP.load(tmp_path / "forged")


def test_more_actions_than_any_problem_may_have_are_rejected(tmp_path: Path) -> None:
    """A small file cannot request a mask that does not fit in memory."""
    SwitchingMDP([MDP([[[0, 1]], [[1, 0]]], [[1], [0]])]).save(tmp_path / "good")
    fields, arrays = load_arrays(tmp_path / "good", KIND)
    save_arrays(tmp_path / "forged", KIND, fields | {"n_actions": 2**31 - 1}, arrays)
    with pytest.raises(DamagedFile, match="n_actions"):
        SwitchingMDP.load(tmp_path / "forged")
