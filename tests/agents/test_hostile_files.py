"""Files with a valid checksum and hostile content are rejected or harmless, and never crash.

The campaign changes one value at a time in files of every registered agent. A file that loads must
hold declared values only, and its agent must run as machine code, in a process of its own.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.every_agent import new_agent

import switchmdp as sm
from switchmdp import storage
from switchmdp.agents import AGENTS, Recall, load
from switchmdp.agents.policy_agent import PolicyAgent
from switchmdp.agents.saving import check_agent_state
from switchmdp.compiled import ArrayOf, Range, classes_of, declarations, interpreted
from switchmdp.compiled.declarations import evaluate
from switchmdp.errors import DamagedFile
from switchmdp.memory import block_size, high_part, low_part
from switchmdp.memory.counts import block_sizes, reward_parts

Content = tuple[dict[str, Any], dict[str, Any]]
TOLD = [100, 2000]
FILES = pytest.mark.parametrize("n_files", [500, pytest.param(10_000, marks=pytest.mark.soak)])


@pytest.fixture(autouse=True)
def hasty_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files that need not survive a power cut."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def live(agent: Any, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    state = 0
    with np.errstate(over="ignore"):
        for _ in range(steps):
            action = agent.act(state)
            target = int(agent.n_states * rng.random())
            agent.observe(state, action, float(rng.random()), target)
            state = target


def problem() -> sm.SwitchingMDP:
    return sm.SwitchingMDP([sm.problems.random_mdp(3, 2, seed=s) for s in range(2)], [100])


def evidence_psrl() -> Any:
    """With a short ring of single steps, so that files are small."""
    agent = sm.agents.EvidencePSRL(3, 2, share=1.0)
    agent.memory = Recall(room=500)
    agent.memory.allocate(agent.pairs)
    return agent


def registered(name: str) -> Callable[[], Any]:
    return lambda: new_agent(name, problem())


MAKERS: dict[str, Callable[[], Any]] = {name: registered(name) for name in AGENTS} | {
    "sw-ucrl": lambda: sm.agents.SWUCRL(3, 2, window=20),
    "sw-ucrl, lists": lambda: sm.agents.SWUCRL(70, 2, window=60),
    "ucrl2, lists": lambda: sm.agents.UCRL2(70, 2),
    "oracle": lambda: sm.agents.OracleUCRL2(3, 2, change_points=TOLD),
    "ucrl2-rw": lambda: sm.agents.UCRL2RW(3, 2, period=70),
    "borl": lambda: sm.agents.BORL(3, 2, horizon=500, arms=[(20, 0.0), (20, 0.5)]),
    "master-ucrl": lambda: sm.agents.MASTER(
        3, 2, horizon=2000, diameter=1, scale=1e-3, confidence=0.5
    ),
    "evidence-psrl": lambda: evidence_psrl(),
}  # fmt: skip


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Content]:
    """What is in the file of an agent of each kind, in mid-episode."""
    folder, files = tmp_path_factory.mktemp("agents"), {}
    for name, make in MAKERS.items():
        agent = make()
        live(agent, 333, 0)
        agent.save(folder / name)
        files[name] = storage.load_arrays(folder / name, "agent")
    return files


def is_rejected(content: Content, path: Path) -> bool:
    """Whether loading says DamagedFile; any other error is a failure of the test."""
    storage.save_arrays(path, "agent", *content)
    try:
        load(path)
    except DamagedFile:
        return True
    return False


def bad_arrays(array: Any) -> Iterator[tuple[str, Any]]:
    """The same array with values out of range, of another length, shape or type."""
    kind = array.dtype.kind
    values: list[Any] = [np.nan, np.inf, -np.inf, -1.0, -1e-300, 1.5, 1e308]
    if kind in "iu":
        top = np.iinfo(array.dtype).max
        values = [-1, -5, 2, 7, 100, 5000, 2**31, 2**32, 2**62, top, top - 3, -top - 1, -(2**62)]
        values = [v for v in values if np.iinfo(array.dtype).min <= v <= top]
    last = array.size - 1
    for value in values:
        for what, where in [("first", 0), ("last", last), ("middle", last // 2), ("all", ...)]:
            other = array.copy()
            if other.size:
                other.flat[where] = value
                yield f"{what} is {value}", other
    yield "reversed", np.ascontiguousarray(array[::-1])
    yield "shifted", np.roll(array, 1)
    yield "zero", np.zeros_like(array)
    yield "shorter", array[:-1]
    yield "longer", np.concatenate([array, array[-1:]])
    yield "twice", np.concatenate([array, array])
    yield "empty", array[:0]
    yield "one", array[:1]
    yield "a row", array.reshape(1, -1)
    yield "a column", array.reshape(-1, 1)
    yield "a number", np.zeros((), array.dtype)
    for other in ("f8", "f4", "i8", "u4", "u8", "i4", "?", ">i8", ">f8", "c16", "U3", "M8[s]"):
        if np.dtype(other) != array.dtype:
            yield f"of type {other}", np.zeros(array.shape, other)


# A hostile state may make interpreted planning slow: such an agent is not followed to the end.
RUN = """
import sys, time, numpy as np, switchmdp as sm
problems = {}
def problem_for(pairs):
    key = pairs.n_states, pairs.n_actions, pairs.actions.tobytes()
    if key not in problems:
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.ones(key[0]), key[:2])
        mdp = sm.MDP(p, rng.random(key[:2]), available=pairs.available)
        problems[key] = sm.SwitchingMDP([mdp])
    return problems[key]
for path in sys.stdin.read().split():
    agent = sm.agents.load(path)
    problem, began = problem_for(agent.pairs), time.perf_counter()
    for _ in range(30):
        sm.simulate(agent, problem, 10, experienced=True, interpreted=True)
        if time.perf_counter() - began > 5:
            break
    sm.simulate(sm.agents.load(path), problem, 2000, experienced=True)
print("done")
"""


def must_run(paths: list[Path]) -> None:
    """Run the agents in a separate process, which invalid memory access would end."""
    names = "\n".join(map(str, paths))
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=names, capture_output=True, text=True, check=False
    )
    assert done.stdout == "done\n", done.stderr[-2000:]


def places(tree: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every field in the header's tree."""
    for name, value in tree["fields"].items():
        yield (*path, name)
        if isinstance(value, dict) and "class" in value:
            yield from places(value, (*path, name))


def replaced(fields: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    other = copy.deepcopy(fields)
    at = other["agent"]
    for name in place[:-1]:
        at = at["fields"][name]
    at["fields"][place[-1]] = value
    return other


def value_at(fields: dict[str, Any], place: tuple[str, ...]) -> Any:
    at = fields["agent"]
    for name in place:
        at = at["fields"][name]
    return at


WORDS: list[Any] = [
    None, "x", "", [], [1], {}, {"array": "nothing"}, {"array": ["x"]}, {"array": {}}, 0.5,
    {"float": "x"}, {"float": 1}, {"float": None}, {"float": "0x1p99999"}, True, False,
    {"class": "Never"}, {"class": "Never", "fields": {}}, {"class": "Never", "fields": []},
    {"class": ["Never"], "fields": {}}, {"class": None, "fields": {}}, {"fields": {}},
    {"class": "Told", "fields": {"times": {"array": "starts"}, "i": 0}},
    {"class": "Never", "fields": {"x": 1}}, {"class": "Window", "fields": {"window": 3}},
    {"class": "Doubling", "fields": {}}, {"class": "Random", "fields": {}},
    {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}, {"float": "0x0p+0"}, {"float": "-1"},
    {"float": "0x1p+0"}, {"float": "0x0.0000000000001p-1022"}, {"float": "0x1.fffffp-1"},
    -1, 0, 1, 2, 3, 7, 19, 20, 21, 300, 2047, 2048, 2049, 5000, 2**31, 2**32, 2**53, 2**53 + 1,
    2**62, 2**62 + 1, 2**63 - 1, 2**63, 2**64, 10**30, -(2**63), -(2**63) - 1,
]  # fmt: skip


Hostile = Callable[[], Content]


def hostile_arrays(fields: dict[str, Any], arrays: dict[str, Any]) -> Iterator[Hostile]:
    """The content with one array replaced, generated lazily."""
    for key, array in arrays.items():
        for n in range(sum(1 for _ in bad_arrays(array[:2]))):
            yield lambda key=key, array=array, n=n: (  # type: ignore[misc]
                fields, arrays | {key: next(islice(bad_arrays(array), n, None))[1]}
            )  # fmt: skip


def hostile_fields(fields: dict[str, Any], arrays: dict[str, Any]) -> Iterator[Hostile]:
    """The content with one plain field or component replaced."""
    for place in places(fields["agent"]):
        for value in WORDS:
            yield lambda place=place, value=value: (  # type: ignore[misc]
                replaced(fields, place, value), arrays
            )  # fmt: skip


@FILES
@pytest.mark.parametrize("hostile", [hostile_arrays, hostile_fields])
def test_a_hostile_file_is_rejected_or_contains_declared_values_and_runs(
    hostile: Callable[..., Iterator[Hostile]], n_files: int, contents: dict[str, Content],
    tmp_path: Path,
) -> None:  # fmt: skip
    rng = np.random.default_rng(n_files)
    accepted: list[Path] = []
    for name, content in contents.items():
        chances = list(hostile(*content))
        n = min(len(chances), -(-n_files // (2 * len(contents))))
        for i in rng.choice(len(chances), n, replace=False):
            path = tmp_path / f"{len(accepted)}"
            other = chances[i]()
            if not is_rejected(other, path):
                undeclared = undeclared_values(load(path))
                assert not undeclared, (name, undeclared)
                accepted.append(path)
    assert accepted
    must_run(accepted)


def undeclared_values(agent: Any) -> list[str]:
    """The fields that hold a value outside its declaration: one comparison per element."""
    wrong = [] if follows_its_states(agent) else ["choice, quota or the log"]
    parts = [(agent, agent.dimensions())]
    while parts:
        part, names = parts.pop()
        names = names | (part.dimensions() if hasattr(part, "dimensions") else {})
        scope = dict(names)
        for name, declared in declarations(type(part)).items():
            value = getattr(part, name)
            if declared.kind is int:
                scope.setdefault(name, value)
            if declared.shape is not None:
                for size, length in zip(declared.shape.sizes, value.shape, strict=True):
                    if isinstance(size, str) and size.isidentifier():
                        scope.setdefault(size, length)
        for name, declared in declarations(type(part)).items():
            value = getattr(part, name)
            place = f"{type(part).__name__}.{name}"
            if not isinstance(value, (bool, int, float, np.ndarray)):
                parts.append((value, names))
                continue
            if isinstance(value, np.ndarray):
                if value.dtype != declared.kind.dtype:
                    wrong.append(place)
                elif declared.shape is not None and declared.scratch is None:
                    shape = [evaluate(size, scope) for size in declared.shape.sizes]
                    if list(value.shape) != shape:
                        wrong.append(place)
            elif type(value) is not declared.kind:
                wrong.append(place)
            elements = value.ravel().tolist() if isinstance(value, np.ndarray) else [value]
            for rule in declared.rules if declared.scratch is None else []:
                if isinstance(rule, Range):
                    bounds = [(symbol, evaluate(bound, scope)) for symbol, bound in rule.bounds]
                    if not all(is_within(x, *bound) for x in elements for bound in bounds):
                        wrong.append(place)
                elif not rule.holds(value, scope):
                    wrong.append(place)
    return wrong


def is_within(x: Any, symbol: str, bound: Any) -> bool:
    return bool({">=": x >= bound, "<=": x <= bound, ">": x > bound, "<": x < bound}[symbol])


def follows_its_states(agent: Any) -> bool:
    """Whether the policy and the log, if there are any, contain only valid indices."""
    if not hasattr(agent, "log_pair"):
        return True
    steps = range(agent.logged)
    return (
        all(agent.starts[s] <= agent.choice[s] < agent.starts[s + 1] and agent.quota[s] >= 0
            for s in range(agent.n_states))
        and all(agent.log_pair[i] < agent.actions.size for i in steps)
        and all(agent.log_next[i] < agent.n_states for i in steps)
        and all(0.0 <= agent.log_reward[i] <= 1.0 for i in steps)
    )  # fmt: skip


def test_every_field_of_every_class_is_declared() -> None:
    """All but those of the policy and the log, which `check_policy_and_log` checks."""
    exempt = {"clock", "started", "episode_count", "choice", "quota", "logged"}
    exempt |= {"log_pair", "log_next", "log_reward"}
    packages = ("agents", "memory", "planning", "plausible", "restarts")
    undeclared, total = [], 0
    for cls in classes_of("switchmdp").values():
        if cls.__module__.split(".")[1] in packages:
            for name, declared in declarations(cls).items():
                is_plain = declared.kind in (int, float) or isinstance(declared.kind, ArrayOf)
                checked = declared.shape or declared.rules or declared.scratch
                follows = issubclass(cls, PolicyAgent) and name in exempt
                total += is_plain
                if is_plain and not checked and not follows:
                    undeclared.append(f"{cls.__name__}.{name}")
    assert not undeclared
    assert total > 100


@pytest.mark.xdist_group("test_hostile_files")
@pytest.mark.parametrize("name", ["sw-ucrl", "ucrl2-r", "oracle", "omniscient", "random"])
def test_extra_and_missing_arrays_and_fields_are_rejected(
    name: str, contents: dict[str, Content], tmp_path: Path
) -> None:
    fields, arrays = contents[name]
    path = tmp_path / "agent"
    assert not is_rejected((fields, arrays), path)
    assert is_rejected((fields, arrays | {"more": arrays["starts"]}), path)
    for key in arrays:
        fewer = {k: v for k, v in arrays.items() if k != key}
        assert is_rejected((fields, fewer), path)
        assert is_rejected((fields, fewer | {f"{key}x": arrays[key]}), path)
    for place in places(fields["agent"]):
        other = replaced(fields, place, None)
        parent = value_at(other, place[:-1])
        del parent["fields"][place[-1]]
        added = getattr(classes_of("switchmdp")[parent["class"]], "added_fields", {})
        if place[-1] in added:  # files of earlier versions lack it
            assert not is_rejected((other, arrays), path)
            loaded = functools.reduce(getattr, place, load(path))
            assert loaded == added[place[-1]]
        else:
            assert is_rejected((other, arrays), path)
        assert is_rejected((replaced(fields, (*place[:-1], "more"), 1), arrays), path)
    other = copy.deepcopy(fields)
    other["agent"]["more"] = 1
    assert is_rejected((other, arrays), path)
    for component in ("Counts", "Window", "Never", "Optimism", "Doubling"):
        whole: Any = {"class": component, "fields": {}}
        assert is_rejected(({"version": 1, "agent": whole}, arrays), path)
        assert is_rejected(({"version": 1, "agent": whole}, {}), path)


def test_the_window_and_the_counts_must_agree(contents: dict[str, Content], tmp_path: Path) -> None:
    """Each value is within its own bounds, but contradicts the others."""
    for name in ("sw-ucrl", "sw-ucrl, lists"):
        fields, arrays = contents[name]
        memory = fields["agent"]["fields"]["memory"]["fields"]
        assert memory["head"] > 0
        path = tmp_path / "agent"
        for key, step in [("pairs", 1), ("slots", 1), ("rewards", -1e-9)]:
            ring = arrays[f"memory.{key}"]
            for i in (0, len(ring) // 2):
                other = ring.copy()
                other[i] = abs(other[i] - step) if key == "rewards" else (other[i] + step) % 3
                assert is_rejected((fields, arrays | {f"memory.{key}": other}), path)
        for key in ("visits", "high", "low", "count"):
            other = arrays[f"memory.counts.{key}"].copy()
            other[np.argmax(other)] -= 1
            assert is_rejected((fields, arrays | {f"memory.counts.{key}": other}), path)
        for head in range(int(memory["window"])):
            place = ("memory", "head")
            if head != memory["head"]:
                # A full ring may begin anywhere: the same steps in another order.
                assert not is_rejected((replaced(fields, place, head), arrays), path)
        for size in (0, 1, memory["size"] - 1, memory["size"] + 1):
            assert is_rejected((replaced(fields, ("memory", "size"), size), arrays), path)
        for window in (memory["window"] - 1, memory["window"] + 1, 2**62):
            assert is_rejected((replaced(fields, ("memory", "window"), window), arrays), path)


def test_values_whose_sums_overflow_are_rejected(
    contents: dict[str, Content], tmp_path: Path
) -> None:
    """Differences and sums of these values wrap around to valid numbers."""
    path, top = tmp_path / "agent", 2**63 - 1
    for name in ("sw-ucrl", "random"):
        fields, arrays = contents[name]
        assert is_rejected((fields, arrays | {"starts": np.array([0, top, -5, 6])}), path)
    fields, arrays = contents["ucrl2, lists"]
    for value in (top, top - 1, top - 3):
        offset = arrays["memory.counts.offset"].copy()
        offset[np.argmax(arrays["memory.counts.used"])] = value
        assert is_rejected((fields, arrays | {"memory.counts.offset": offset}), path)
    fields, arrays = contents["ucrl2-r"]
    used = arrays["memory.counts.visits"] > 0
    other = {f"memory.counts.{key}": np.where(used, 2**62, 0) for key in ("visits", "high", "low")}
    count = arrays["memory.counts.count"].reshape(6, 3).copy()
    count[used], count[used, 0] = 0, 2**62
    assert is_rejected((fields, arrays | other | {"memory.counts.count": count.ravel()}), path)


def test_blocks_that_overlap_or_share_a_successor_are_rejected(
    contents: dict[str, Content], tmp_path: Path
) -> None:
    fields, arrays = contents["ucrl2, lists"]
    path = tmp_path / "agent"
    used, offset = arrays["memory.counts.used"], arrays["memory.counts.offset"]
    one, two = np.nonzero(used > 1)[0][:2]
    other = offset.copy()
    other[one] = other[two]
    assert is_rejected((fields, arrays | {"memory.counts.offset": other}), path)
    target = arrays["memory.counts.target"].copy()
    target[offset[one]] = target[offset[one] + 1]
    assert is_rejected((fields, arrays | {"memory.counts.target": target}), path)
    count = arrays["memory.counts.count"].copy()
    count[-1] = 1
    assert is_rejected((fields, arrays | {"memory.counts.count": count}), path)


def test_counts_without_a_step_in_the_window_are_rejected(
    contents: dict[str, Content], tmp_path: Path
) -> None:
    """Steps with reward 0 leave no trace in the sums."""
    fields, arrays = contents["sw-ucrl"]
    visits, count = (arrays[f"memory.counts.{key}"].copy() for key in ("visits", "count"))
    pair = int(np.argmin(visits))
    visits[pair] += 5
    count[3 * pair] += 5
    other = {"memory.counts.visits": visits, "memory.counts.count": count}
    assert is_rejected((fields, arrays | other), tmp_path / "agent")


def test_counts_in_slots_that_are_not_in_use_are_rejected(
    contents: dict[str, Content], tmp_path: Path
) -> None:
    fields, arrays = contents["ucrl2, lists"]
    used, offset = arrays["memory.counts.used"], arrays["memory.counts.offset"]
    pair = int(np.nonzero(used == 3)[0][0])  # of four
    count = arrays["memory.counts.count"].copy()
    count[offset[pair] + 3], count[offset[pair]] = count[offset[pair]], 0
    other = arrays | {"memory.counts.count": count}
    assert is_rejected((fields, other), tmp_path / "agent")


def test_a_policy_of_actions_that_are_not_available_is_rejected(tmp_path: Path) -> None:
    mask = np.array([[True, False], [True, True]])
    mdp = sm.MDP(np.full((2, 2, 2), 0.5), [[0.5, 0.5], [0.1, 0.9]], available=mask)
    sm.agents.Omniscient(sm.SwitchingMDP([mdp, mdp, mdp], [5, 9])).save(tmp_path / "agent")
    fields, arrays = storage.load_arrays(tmp_path / "agent", "agent")
    assert arrays["policies"].tolist() == [[0, 1]] * 3
    path = tmp_path / "other"
    assert not is_rejected((fields, arrays | {"policies": np.array([[0, 0]] * 3)}), path)
    assert is_rejected((fields, arrays | {"policies": np.array([[0, 1], [1, 1], [0, 1]])}), path)
    assert is_rejected((fields, arrays | {"change_points": np.array([9, 5])}), path)
    assert is_rejected((fields, arrays | {"change_points": np.array([5, 5])}), path)


def test_a_small_file_cannot_claim_much_memory(
    contents: dict[str, Content], tmp_path: Path
) -> None:
    path, large = tmp_path / "agent", []
    fields, arrays = contents["omniscient"]
    large.append((replaced(fields, ("n_actions",), (2**31 - 1) // 3), arrays))
    fields, arrays = contents["ucrl2-r"]
    for place in [("n_states",), ("memory", "counts", "filled"), ("memory", "counts", "n_states")]:
        large.append((replaced(fields, place, 2**30), arrays))
    lists, kept = contents["ucrl2, lists"]
    large.append((lists, kept | {"memory.counts.used": np.full(140, 70)}))
    large.append((lists, kept | {"memory.counts.used": np.full(140, 2**40)}))
    for content in large:
        storage.save_arrays(path, "agent", *content)
        tracemalloc.start()
        with contextlib.suppress(DamagedFile):
            load(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 5_000_000


def test_vectorised_reward_parts_equal_the_scalar_ones() -> None:
    rng = np.random.default_rng(0)
    edges = [0.0, 1.0, 0.5, 2.0**-31, 2.0**-62, 2.0**-63, 5e-324, 1e-300, np.nextafter(1.0, 0.0),
             np.nextafter(2.0**-31, 0.0), np.nextafter(0.5, 1.0), 1 / 3]  # fmt: skip
    rewards = np.concatenate([edges, rng.random(20_000), rng.random(2000) ** 20])
    high, low = reward_parts(rewards)
    assert high.tolist() == [interpreted(high_part)(r) for r in rewards.tolist()]
    assert low.tolist() == [interpreted(low_part)(r) for r in rewards.tolist()]
    assert [high_part(r) for r in rewards[:500]] == high[:500].tolist()
    assert [low_part(r) for r in rewards[:500]] == low[:500].tolist()


def test_vectorised_block_sizes_equal_the_scalar_ones() -> None:
    used = np.array([*range(3000), 2**20 - 1, 2**20, 2**20 + 1, 2**31 - 1, 2**31])
    assert block_sizes(used).tolist() == [interpreted(block_size)(n) for n in used.tolist()]


@pytest.mark.parametrize("name", MAKERS)
def test_an_agent_is_consistent_at_every_step(name: str) -> None:
    agent = MAKERS[name]()
    for seed in range(250):
        live(agent, 1 + seed % 3, seed)
        check_agent_state(agent)
        if seed % 5 == 0:
            with np.errstate(over="ignore"):
                agent.act(0)
            check_agent_state(agent)
