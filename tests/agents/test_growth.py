"""A grown agent keeps everything, and equals an agent that had this size from the start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.agents.saving_helpers import contents

import switchmdp as sm
from switchmdp.agents import Episodic, load
from switchmdp.agents.saving import check_agent_state
from switchmdp.compiled import compiled
from switchmdp.errors import InvalidAction, InvalidMDP, InvalidParameter, InvalidState
from switchmdp.memory import Window
from switchmdp.plausible import KLBall, L1Ball
from switchmdp.restarts import Cubic, Never, Periodic

Make = Callable[[int, int, Any], Any]
Steps = list[tuple[int, int, float, int]]

MAKERS: dict[str, Make] = {
    "sw-ucrl": lambda s, a, m: sm.agents.SWUCRL(s, a, window=700, available=m),
    "sw-ucrl, short": lambda s, a, m: sm.agents.SWUCRL(s, a, window=13, available=m),
    "sw-ucrl, long": lambda s, a, m: sm.agents.SWUCRL(s, a, window=10**6, available=m),
    "ucrl2": lambda s, a, m: sm.agents.UCRL2(s, a, available=m),
    "ucrl2-r": lambda s, a, m: sm.agents.UCRL2R(s, a, changes=3, available=m),
    "ucrl2-rw": lambda s, a, m: sm.agents.UCRL2RW(s, a, period=900, available=m),
    "oracle": lambda s, a, m: sm.agents.OracleUCRL2(s, a, change_points=[500, 2500], available=m),
    "window, cubic": lambda s, a, m: Episodic(
        s, a, memory=Window(300), plausible=KLBall(0.1, True), restarts=Cubic(9), available=m
    ),
    "window, periodic": lambda s, a, m: Episodic(
        s, a, memory=Window(2000), plausible=L1Ball(0.1), restarts=Periodic(1700), available=m
    ),
}  # fmt: skip
# (states, actions) before and after. Rows are full up to 64 states, and lists from there on.
SIZES = [((3, 2), (4, 2)), ((3, 2), (3, 4)), ((4, 2), (6, 5)), ((63, 2), (64, 3)),
         ((63, 2), (65, 2)), ((64, 3), (70, 3)), ((66, 2), (80, 4)), ((3, 2), (3, 2))]  # fmt: skip


def mask(rng: np.random.Generator, n_states: int, n_actions: int) -> NDArray[np.bool_]:
    available = rng.random((n_states, n_actions)) < 0.7
    available[np.arange(n_states), rng.integers(0, n_actions, n_states)] = True
    return available


def steps_among(available: NDArray[np.bool_], n: int, rng: np.random.Generator) -> Steps:
    """Steps anywhere among these pairs, with few successors each."""
    states, actions = np.nonzero(available)
    pairs = rng.integers(0, len(states), n)
    nexts = (states[pairs] * 7 + actions[pairs] + rng.integers(0, 3, n)) % len(available)
    rewards = rng.random(n)
    return [
        (int(states[x]), int(actions[x]), float(r), int(s))
        for x, r, s in zip(pairs, rewards, nexts, strict=True)
    ]


def teach(agent: Any, steps: Steps) -> None:
    """Observe steps and restart as in a run, without asking for an action."""
    for step in steps:
        if agent.clock >= agent.restart_at:
            agent.start_over()
        agent.observe(*step)


def remembered(agent: Any) -> dict[str, Any]:
    """Visits, sums and successors of every pair, by state and action."""
    agent.absorb()
    counts, pairs = agent.memory.counts, agent.pairs
    content: dict[str, Any] = {"size": getattr(agent.memory, "size", None), "clock": agent.clock}
    for x, (s, a) in enumerate(zip(pairs.states.tolist(), pairs.actions.tolist(), strict=True)):
        block = range(counts.offset[x], counts.offset[x] + counts.used[x])
        row = {int(counts.target[k]): int(counts.count[k]) for k in block if counts.count[k]}
        sums = (int(counts.visits[x]), int(counts.high[x]), int(counts.low[x]))
        content[f"{s}, {a}"] = (*sums, dict(sorted(row.items())))
    return content


def window_of(agent: Any) -> list[tuple[int, int, float]]:
    """The window's steps, the oldest first."""
    memory, counts = agent.memory, agent.memory.counts
    where = (memory.head + np.arange(memory.size)) % memory.pairs.size
    pairs = memory.pairs[where].astype(int)
    nexts = counts.target[counts.offset[pairs] + memory.slots[where]]
    return list(zip(pairs.tolist(), nexts.tolist(), memory.rewards[where].tolist(), strict=True))


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_a_grown_agent_equals_one_that_had_this_size_from_the_start(
    name: str, sizes: tuple[tuple[int, int], tuple[int, int]], tmp_path: Path
) -> None:
    small, large = sizes
    rng = np.random.default_rng([*small, *large, len(name)])
    later = mask(rng, *large)
    before = later[: small[0], : small[1]].copy()
    before[:, 0] |= ~before.any(axis=1)
    later[: small[0], : small[1]] = before
    grown, born = MAKERS[name](*small, before), MAKERS[name](*large, later)
    first = steps_among(before, 1500, rng)
    for agent in (grown, born):
        teach(agent, first)
    known = remembered(born)
    policy = grown.policy.copy()
    grown.grow(*large, later)
    check_agent_state(grown)
    assert remembered(grown) == known
    assert np.array_equal(grown.policy[: small[0]], policy)
    assert not grown.quota.any()
    if hasattr(grown.memory, "window"):
        assert window_of(grown) == window_of(born)

    second = steps_among(later, 900, rng)
    for i in range(0, 900, 90):  # the window forgets the same steps in the same order
        for agent in (grown, born):
            teach(agent, second[i : i + 90])
        assert remembered(grown) == remembered(born), f"after {i + 90} steps"
    if type(grown) is not Episodic:  # of those without a name it would be compiled for this alone
        for agent in (grown, born):
            agent.plan()
        assert np.array_equal(grown.policy, born.policy)
        assert np.array_equal(grown.quota, born.quota)
        assert grown.gain == pytest.approx(born.gain, abs=1e-12)
    check_agent_state(grown)
    grown.save(tmp_path / "agent")
    loaded = load(tmp_path / "agent")
    assert remembered(loaded) == remembered(grown)


def test_a_full_window_can_grow(tmp_path: Path) -> None:
    """The ring then starts in the middle, and slots of successors have been reused."""
    rng = np.random.default_rng(3)
    everywhere = np.ones((70, 2), bool)
    grown, born = (sm.agents.SWUCRL(n, 2, window=1500) for n in (70, 75))
    for agent in (grown, born):
        rng = np.random.default_rng(3)
        teach(agent, steps_among(everywhere, 7000, rng))
        agent.absorb()
    assert grown.memory.head > 0
    grown.grow(75, 2)
    assert window_of(grown) == window_of(born)
    assert remembered(grown) == remembered(born)
    for agent in (grown, born):
        rng = np.random.default_rng(4)
        teach(agent, steps_among(everywhere, 700, rng))
    assert remembered(grown) == remembered(born)
    assert window_of(grown) == window_of(born)


def test_an_agent_can_grow_repeatedly() -> None:
    rng = np.random.default_rng(0)
    agent, born = sm.agents.SWUCRL(60, 1, window=400), sm.agents.SWUCRL(70, 3, window=400)
    for i in range(10):
        steps = steps_among(np.ones((60 + i, 1 + i // 5), bool), 150, rng)
        teach(agent, steps)
        teach(born, steps)
        agent.grow(61 + i, 1 + (i + 1) // 5)
        check_agent_state(agent)
    known = remembered(born)
    assert remembered(agent) == known


@pytest.mark.parametrize("mask_of_new", [None, "all"])
def test_by_default_new_states_have_all_actions_and_new_actions_exist_in_all_states(
    mask_of_new: Any,
) -> None:
    old = np.array([[True, False], [True, True]])
    agent = sm.agents.UCRL2(2, 2, available=old)
    expected = np.ones((3, 3), bool)
    expected[0, 1] = False
    agent.grow(3, 3, None if mask_of_new is None else expected)
    assert np.array_equal(agent.pairs.available, expected)
    assert agent.act(2) in (0, 1, 2)


BAD: dict[str, tuple[tuple[Any, ...], type[Exception]]] = {
    "fewer states": ((2, 2), InvalidParameter),
    "fewer actions": ((3, 1), InvalidParameter),
    "a float": ((4.0, 2), InvalidParameter),
    "a bool": ((True, 2), InvalidParameter),
    "too many": ((2**20, 2**20), InvalidParameter),
    "a mask that lacks a pair": ((4, 2, np.tri(4, 2) > 0), InvalidParameter),
    "a mask of another size": ((4, 2, np.ones((3, 2), bool)), InvalidMDP),
    "a mask of numbers": ((4, 2, np.ones((4, 2))), InvalidMDP),
    "a state without actions": (
        (4, 2, np.array([[1, 1], [1, 1], [1, 1], [0, 0]], bool)), InvalidMDP
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_invalid_growth_is_rejected_and_changes_nothing(what: str) -> None:
    agent = sm.agents.SWUCRL(3, 2, window=100)
    rng = np.random.default_rng(0)
    for step in steps_among(np.ones((3, 2), bool), 50, rng):
        agent.observe(*step)
    before = contents(agent)
    arguments, error = BAD[what]
    with pytest.raises(error):
        agent.grow(*arguments)
    assert contents(agent) == before
    assert agent.logged == 50


@pytest.mark.parametrize(
    ("make", "larger"),
    [
        (lambda: sm.agents.GLRUCRL(3, 2), (60_000, 2)),
        (lambda: sm.agents.RBOCPDUCRL2(3, 2), (60_000, 2)),
        (lambda: sm.agents.EvidencePSRL(3, 2), (3000, 2)),
    ],
)
def test_growth_beyond_the_capacity_of_a_component_changes_nothing(
    make: Any, larger: tuple[int, int]
) -> None:
    agent = make()
    rng = np.random.default_rng(0)
    for step in steps_among(np.ones((3, 2), bool), 50, rng):
        agent.observe(*step)
    before = contents(agent)
    with pytest.raises(InvalidParameter, match="at most"):
        agent.grow(*larger)
    assert contents(agent) == before
    assert agent.act(0) in (0, 1)


def test_after_growth_new_states_and_actions_are_accepted() -> None:
    agent = sm.agents.SWUCRL(2, 2, window=100)
    with pytest.raises(InvalidState):
        agent.observe(2, 0, 1.0, 0)
    agent.grow(3, 3)
    agent.observe(2, 2, 1.0, 2)
    assert agent.visits[2, 2] == 1
    with pytest.raises(InvalidAction):
        agent.observe(2, 3, 1.0, 2)


def test_a_random_agent_can_grow() -> None:
    agent = sm.agents.Random(2, 2, seed=1)
    agent.grow(3, 4)
    assert {agent.act(2) for _ in range(100)} == {0, 1, 2, 3}


@compiled
class Forgetful:
    """A user's memory without `grow`."""

    counts: Any

    def allocate(self, pairs: Any) -> None:
        self.counts = sm.memory.Counts(pairs)

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        return

    def keep(self, steps: int, suspects: Any) -> int:
        return 0


def test_a_memory_without_growth_raises_an_error_before_any_change() -> None:
    agent = Episodic(2, 2, memory=Forgetful(), plausible=L1Ball(0.1), restarts=Never())
    with pytest.raises(InvalidParameter, match="a memory that supports new states and actions"):
        agent.grow(3, 3)
    assert (agent.n_states, agent.n_actions, len(agent.actions)) == (2, 2, 4)
