"""Problem files with a valid checksum and hostile content; always the same for the same number.

`hostile(i)` is the i-th file's fields and arrays. Run as a program, this module writes such files,
loads them and uses what was loaded, interpreted and as machine code. A machine-code access outside
an array may end the process, so tests run this in a process of its own.
"""

from __future__ import annotations

import contextlib
import copy
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp.agents import Random
from switchmdp.errors import DamagedFile, SwitchmdpError
from switchmdp.mdp import MDP, Beta, SwitchingMDP
from switchmdp.mdp.pool import TYPES
from switchmdp.planning import diameter
from switchmdp.planning.gain import optimal_gains
from switchmdp.simulation import simulate
from switchmdp.storage import load_arrays, save_arrays

KIND = "switching-mdp"
TOP, BOTTOM = 2**63 - 1, -(2**63)
MOST_MEMORY = 8 << 30  # bytes of address space beyond what is in use
SECONDS = 60  # for one file

Rng = np.random.Generator
Content = tuple[dict[str, Any], dict[str, Any]]

INDICES = ("starts", "row", "start", "stop", "offsets", "pair", "old", "new", "actions")
INTEGERS = (
    -1, 0, 1, 2, 3, 7, 17, 100, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, TOP - 3, TOP - 1, TOP,
    BOTTOM, BOTTOM + 1, BOTTOM + 3, -(2**62), -(2**32), -5,
)  # fmt: skip
NUMBERS = (
    np.nan, np.inf, -np.inf, -1.0, -1e-300, 0.0, -0.0, 5e-324, 1e-300, 1e-9, 0.5, 1.0,
    1.0 + 2.0**-52, 1.5, 1e308,
)  # fmt: skip
DTYPES = ("f8", "f4", "i8", "u4", "u8", "i4", "?", ">i8", ">f8", "c16", "U3", "M8[s]", "S4")
FIELDS: dict[str, tuple[Any, ...]] = {
    "n_actions": (
        None, "2", [], {}, True, 0, -1, 1, 2, 4, 9, 2.0, 0.5, 2**20, 2**31, 2**63,
        10**30, -(2**63),
    ),
    "law": (
        None, [], [0], [1, 0.0], [2, 0.01], [2, 0.3], [2, 1e-320], [3, 0.5], [3, 1.0], [4, 0.0],
        [0, 0, 0], ["0", 0], [2, "x"], [2, None], [2, 10**400], [True, 0.5], [2.0, 0.01], {}, "ab",
        [[], []], [-1, 0.0], [3, 5e-324],
    ),
    "state_labels": (
        5, "abcd", [], ["a"], [1, 2, 3, 4], ["a"] * 4, list("abcd"), {"a": 1}, [None] * 4,
        ["x" * 10_000, "b", "c", "d"], list(map(str, range(20_000))), [["a"]] * 4,
    ),
    "action_labels": (5, "abc", [], list("abc"), list("ab"), [[], [], []], ["\0", "\n", "\x1b"]),
}  # fmt: skip


def _random(seed: int, n_states: int, n_actions: int, changes: int, law: Any = None) -> Any:
    """A problem whose states differ in their actions."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n_states, n_actions)) < 0.6
    mask[:, -1] = True
    rows = rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    base = MDP(rows, rng.uniform(0.3, 0.7, (n_states, n_actions)), available=mask, law=law)
    patches = [
        [(int(s), n_actions - 1, rng.dirichlet(np.ones(n_states)), float(rng.uniform(0.3, 0.7)))
         for s in rng.integers(0, n_states, 2)]
        for _ in range(changes)
    ]  # fmt: skip
    points = np.cumsum(rng.integers(2, 30, changes))
    return SwitchingMDP.from_patches(base, points, patches)


def _ring(n_states: int) -> Any:
    """Rows of one and of two successors, and a change of the rewards alone."""
    ahead, stay = np.roll(np.eye(n_states), 1, axis=1), np.eye(n_states)
    rows = np.stack([ahead, (ahead + stay) / 2], axis=1)
    means = np.linspace(0, 1, 2 * n_states).reshape(n_states, 2)
    return SwitchingMDP([MDP(rows, means), MDP(rows, 1 - means)], [40])


def originals(folder: Path) -> list[Content]:
    """The contents of valid files: small and large rows, with and without changes."""
    problems = [
        _random(1, 4, 3, 5), _random(2, 40, 2, 3), _random(3, 3, 2, 0),
        _random(4, 4, 3, 4, Beta(variance=0.01)), _ring(5), SwitchingMDP([MDP([[[1.0]]], [[0.5]])]),
    ]  # fmt: skip
    contents = []
    for problem in problems:
        problem.save(folder / "original")
        contents.append(load_arrays(folder / "original", KIND))
    return contents


def _place(array: Any, rng: Rng) -> int:
    ends = (0, len(array) - 1)
    return int(ends[rng.integers(2)] if rng.random() < 0.3 else rng.integers(len(array)))


def set_a_value(content: Content, name: str, rng: Rng) -> None:
    array = content[1][name]
    if array.dtype.kind in "iu" and len(array):
        top = np.iinfo(array.dtype)
        values = [v for v in INTEGERS if top.min <= v <= top.max]
        array[_place(array, rng)] = values[rng.integers(len(values))]
    elif array.dtype.kind == "f" and len(array):
        array[_place(array, rng)] = NUMBERS[rng.integers(len(NUMBERS))]


def wrap_around(content: Content, name: str, rng: Rng) -> None:
    """Neighbours whose difference wraps around to a small positive number."""
    array = content[1][name]
    if array.dtype == np.int64 and len(array) >= 2:
        i = int(rng.integers(len(array) - 1))
        array[i], array[i + 1] = TOP - rng.integers(3), BOTTOM + rng.integers(3)


def wrap_inside(content: Content, name: str, rng: Rng) -> None:
    """Once around all integers between the first and the last value, in small enough steps.

    Each difference is positive, and so is each of their sums.
    """
    array = content[1][name]
    if array.dtype == np.int64 and len(array) >= 4:
        array[1:-1] = once_around(len(array))


def once_around(length: int) -> Any:
    """The values between the first and the last of such an array."""
    steps = np.arange(1, length - 1, dtype=np.uint64)
    return (steps * np.uint64(2**64 // (length - 1))).view(np.int64)


def nudge(content: Content, name: str, rng: Rng) -> None:
    array = content[1][name]
    if array.dtype.kind in "iu" and len(array):
        array[_place(array, rng)] += array.dtype.type(1)
    elif array.dtype.kind == "f" and len(array):
        array[_place(array, rng)] *= 1.0 + rng.choice([-1, 1]) * 10.0 ** -rng.integers(1, 17)


def swap_values(content: Content, name: str, rng: Rng) -> None:
    array = content[1][name]
    if len(array) >= 2:
        i, j = rng.integers(len(array), size=2)
        array[[i, j]] = array[[j, i]]


def copy_a_value(content: Content, name: str, rng: Rng) -> None:
    array = content[1][name]
    if len(array):
        array[rng.integers(len(array))] = array[rng.integers(len(array))]


def reshape(content: Content, name: str, rng: Rng) -> None:
    array = content[1][name]
    longer = np.concatenate([array, array[-1:]])
    options = [
        array[:-1], array[1:], array[:0], array[:1], longer, np.concatenate([array, array]),
        array[::-1].copy(), np.roll(array, 1), np.zeros_like(array), array.reshape(1, -1),
        array.reshape(-1, 1), np.zeros((), array.dtype), np.repeat(array[:1], len(array)),
    ]  # fmt: skip
    content[1][name] = options[rng.integers(len(options))]


def change_dtype(content: Content, name: str, rng: Rng) -> None:
    array = content[1][name]
    dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
    with np.errstate(all="ignore"):
        content[1][name] = (
            array.astype(dtype) if rng.random() < 0.5 else np.zeros(len(array), dtype)
        )


def replace_by_another(content: Content, name: str, rng: Rng) -> None:
    names = sorted(content[1])
    content[1][name] = content[1][names[rng.integers(len(names))]].copy()


def remove_or_add(content: Content, name: str, rng: Rng) -> None:
    if rng.random() < 0.5:
        del content[1][name]
    else:
        content[1][("cumulative", "rewires", "../x", "more")[rng.integers(4)]] = content[1][name]


def change_a_field(content: Content, name: str, rng: Rng) -> None:
    field = sorted(FIELDS)[rng.integers(len(FIELDS))]
    if rng.random() < 0.1:
        content[0].pop(field, None)
    else:
        content[0][field] = FIELDS[field][rng.integers(len(FIELDS[field]))]


MUTATIONS: tuple[Callable[[Content, str, Rng], None], ...] = (
    set_a_value, wrap_around, wrap_inside, nudge, swap_values, copy_a_value, reshape, change_dtype,
    replace_by_another, remove_or_add, change_a_field,
)  # fmt: skip
# Those that leave most of the file sound come more often: others are rejected at once.
SUBTLE = (set_a_value, wrap_around, wrap_inside, nudge, swap_values, copy_a_value)


def hostile(i: int, sound: list[Content]) -> Content:
    """The i-th file's content, from one to three changes of a sound one."""
    rng = np.random.default_rng([13, i])
    content = copy.deepcopy(sound[i % len(sound)])
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        names = sorted(content[1].keys() & TYPES.keys())
        name = names[rng.integers(len(names))]
        if rng.random() < 0.5:
            indices = [n for n in INDICES if n in names] or names
            name = indices[rng.integers(len(indices))]
        kinds = SUBTLE if rng.random() < 0.6 else MUTATIONS
        try:
            with np.errstate(all="ignore"):
                kinds[rng.integers(len(kinds))](content, name, rng)
        except (ValueError, TypeError, OverflowError, IndexError):
            pass  # a second change that does not fit the first
    return content


def use(problem: SwitchingMDP) -> None:
    """Run agents on the problem and solve it, so that machine code uses every index."""
    for steps, interpreted in ((40, True), (300, False)):
        agent = Random(problem.n_states, problem.n_actions, available=problem.available)
        simulate(agent, problem, steps, seed=1, interpreted=interpreted)
    with contextlib.suppress(SwitchmdpError):  # where double precision is not enough
        optimal_gains(problem, problem.changes)
    for mdp in problem.configurations():
        assert mdp.unconnected is None
        with contextlib.suppress(SwitchmdpError):
            diameter(mdp)
    assert repr(problem)
    assert sum(problem.at(1).successors(0, int(problem.pairs.actions[0]))[1]) > 0.0


def outcome(path: Path) -> str:
    """Whether a file was rejected or used."""
    try:
        problem = SwitchingMDP.load(path)
    except DamagedFile:
        return "rejected"
    use(problem)
    return "used"


def main(folder: Path, first: int, last: int) -> None:
    """Try files first..last-1; prints the number of each file, and a summary at the end."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, used + MOST_MEMORY))
    os.fsync = lambda fd: None  # files that need not survive a power cut
    sound, tally = originals(folder), Counter[str]()
    for content in sound:
        save_arrays(folder / "sound", KIND, *content)
        tally[f"sound {outcome(folder / 'sound')}"] += 1
    for i in range(first, last):
        print(f"file {i}", flush=True)
        signal.alarm(SECONDS)
        save_arrays(folder / "hostile", KIND, *hostile(i, sound))
        tally[outcome(folder / "hostile")] += 1
    signal.alarm(0)
    print(f"done: {tally['sound used']} sound, {tally['rejected']} rejected, {tally['used']} used")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
