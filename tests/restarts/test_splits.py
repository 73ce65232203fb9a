"""What detectors share: which splits are kept, when alarms come, and how much room they take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import Episodic
from switchmdp.compiled import validate
from switchmdp.errors import InvalidParameter
from switchmdp.mdp import Pairs
from switchmdp.memory import Discounted, Everything, Window
from switchmdp.plausible import L1Ball, Varied
from switchmdp.restarts import BOCPD, GLR
from switchmdp.restarts.glr import KEPT, LEVELS

DETECTORS: dict[str, Callable[[], Any]] = {"glr": lambda: GLR(0.05), "bocpd": lambda: BOCPD(0.05)}
EACH = pytest.mark.parametrize("name", DETECTORS)


def log_of(steps: int, n_pairs: int, n_states: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n_pairs, steps).astype(np.uint32)
    return pairs, rng.integers(0, n_states, steps).astype(np.uint32), rng.random(steps)


def state_of(detector: Any) -> Any:
    arrays = (detector.visits, detector.now, detector.past)
    plain = (detector.steps, detector.clock, detector.found, detector.alarm)
    return [array.tobytes() for array in arrays], plain


def test_counts_are_kept_at_the_last_multiples_of_each_power_of_two() -> None:
    detector = GLR(0.5)
    detector.allocate(Pairs.of(2, 1))
    pairs, nexts, rewards = log_of(1000, 1, 2)
    detector.watch(pairs, nexts, rewards, 1000)
    assert not detector.found
    past = detector.past.reshape(2, LEVELS, KEPT, detector.columns)[0]
    kept = past[:, :, 1:].sum(axis=2)
    for level in range(LEVELS):
        unit = 4 << level
        multiples = list(range(unit, 1001, unit))[-KEPT:]
        assert sorted(kept[level][kept[level] > 0].tolist()) == multiples
    for level, at in np.argwhere(kept > 0):
        n = int(kept[level, at])
        assert past[level, at, 0] == pytest.approx(rewards[:n].sum())
        assert past[level, at, 1] == (nexts[:n] == 0).sum()


@EACH
def test_the_result_does_not_depend_on_how_the_log_is_split(name: str) -> None:
    pairs, nexts, rewards = log_of(3000, 6, 3)
    nexts[2000:] = 0  # a change
    states = []
    for sizes in ((3000,), (1, 2, 997, 1000, 1000), tuple([7] * 428 + [4])):
        detector = DETECTORS[name]()
        detector.allocate(Pairs.of(3, 2))
        at = 0
        for size in sizes:
            part = slice(at, at + size)
            detector.watch(pairs[part], nexts[part], rewards[part], size // 2)
            detector.watch(pairs[part], nexts[part], rewards[part], size)
            detector.log_emptied()
            at += size
        assert detector.alarmed()
        states.append(state_of(detector))
    assert states[0] == states[1] == states[2]


@EACH
def test_an_alarm_comes_at_the_end_of_a_stretch_and_resets_the_detector(name: str) -> None:
    detector = DETECTORS[name]()
    detector.allocate(Pairs.of(2, 1))
    steps = 0
    while not detector.alarmed():
        assert detector.look_at() == 1 + steps // 16 * 16 + 16
        n = detector.look_at() - 1 - steps
        target = np.full(n, steps >= 160, np.uint32)
        detector.watch(np.zeros(n, np.uint32), target, np.zeros(n), n)
        detector.log_emptied()
        steps += n
    assert steps <= 160 + 32
    suspects = np.zeros(2, bool)
    assert detector.suspect(suspects) == 0
    assert suspects.all()
    detector.start_over(suspects)
    fresh = DETECTORS[name]()
    fresh.allocate(Pairs.of(2, 1))
    fresh.clock = detector.clock
    assert state_of(detector) == state_of(fresh)


@EACH
def test_memory_is_bounded_whatever_the_number_of_states(name: str) -> None:
    widths = []
    for n_states in (5, 64, 100, 2000, 20_000):
        detector = DETECTORS[name]()
        detector.allocate(Pairs.of(n_states, 3))
        assert detector.past.size <= max(2**23, 3 * n_states * LEVELS * KEPT * 7)
        pairs, nexts, rewards = log_of(200, 3 * n_states, n_states)
        detector.watch(pairs, nexts, rewards, 200)
        widths.append(detector.width)
    assert widths[:3] == [5, 64, 64]
    assert widths[4] == 2
    with pytest.raises(InvalidParameter, match="at most"):
        DETECTORS[name]().allocate(Pairs.of(10**5, 2))


@EACH
def test_growth_resets_the_detector(name: str) -> None:
    detector = DETECTORS[name]()
    detector.allocate(Pairs.of(3, 2))
    detector.watch(*log_of(100, 6, 3), 100)
    detector.grow(Pairs.of(5, 2), np.arange(6))
    assert (detector.visits.size, detector.visits.sum(), detector.clock) == (10, 0, 101)


# Each combination takes about ten seconds to compile, so that registered agents and combinations of
# other tests are used where they have the components.
COMBINATIONS: dict[str, Callable[[], Any]] = {
    "glr, window": lambda: Episodic(
        3, 2, memory=Window(400), plausible=Varied(0.1), restarts=GLR(0.05)
    ),
    "glr, posterior": lambda: sm.agents.GLRPSRL(3, 2, delta=0.05),
    "bocpd, everything": lambda: sm.agents.RBOCPDUCRL2(3, 2, delta=0.1),
    "bocpd, discounted": lambda: Episodic(
        3, 2, memory=Discounted(0.995), plausible=L1Ball(0.1), restarts=BOCPD(0.05)
    ),
}  # fmt: skip


@pytest.mark.xdist_group("L1Ball")
@pytest.mark.parametrize("make", COMBINATIONS.values(), ids=COMBINATIONS)
def test_detectors_work_with_any_memory_and_set(make: Callable[[], Any]) -> None:
    problem = sm.problems.random_switching(3, 2, changes=2, horizon=2400, seed=3)
    agent = make()
    sm.simulate(agent, problem, 2000, seed=0)
    assert agent.since > 1, "it was never restarted: the test is blind"
    sm.check_agent(make, problem=problem, steps=1500, memory_steps=5000, strict=True)


@EACH
def test_an_agent_with_a_pending_alarm_continues_after_loading(name: str, tmp_path: Path) -> None:
    agent = Episodic(
        2, 1, memory=Everything(), plausible=L1Ball(0.1), restarts=DETECTORS[name]()
    )  # fmt: skip
    step = 0
    while not agent.restarts.found:
        agent.observe(step % 2, 0, float(step >= 600), (step + 1) % 2)
        agent.visits  # noqa: B018  # lets it look, in the midst of a stretch
        step += 1
    assert 600 < step < 700
    assert not agent.restarts.alarmed()
    agent.save(tmp_path / "agent")
    loaded = sm.agents.load(tmp_path / "agent")
    assert state_of(loaded.restarts) == state_of(agent.restarts)
    for twin in (agent, loaded):
        for later in range(step, step + 20):
            twin.act(later % 2)
            twin.observe(later % 2, 0, 1.0, (later + 1) % 2)
    assert agent.since == loaded.since > step


@EACH
def test_a_file_with_another_number_of_columns_is_rejected(name: str) -> None:
    """Machine code would write the detector's own columns behind the end."""
    detector = DETECTORS[name]()
    detector.allocate(Pairs.of(3, 2))
    validate(detector, states=3, pairs=6)
    for columns in (4, 5, 9):
        if columns != detector.columns:
            detector.columns = columns
            detector.now = np.zeros(6 * columns)
            detector.past = np.zeros(6 * LEVELS * KEPT * columns)
            with pytest.raises(ValueError, match="columns"):
                validate(detector, states=3, pairs=6)


@EACH
@pytest.mark.parametrize("delta", [0.0, 1.0, np.nan])
def test_a_file_with_an_impossible_delta_is_rejected(name: str, delta: float) -> None:
    detector = DETECTORS[name]()
    detector.allocate(Pairs.of(3, 2))
    detector.delta = delta
    with pytest.raises(ValueError, match="delta"):
        validate(detector, states=3, pairs=6)


@pytest.mark.xdist_group("L1Ball")
@pytest.mark.parametrize("agent", [sm.agents.GLRUCRL, sm.agents.RBOCPDUCRL2])
def test_the_contract_holds_with_many_states(agent: Any) -> None:
    rng = np.random.default_rng(0)
    rows = np.zeros((70, 2, 70))
    for s in range(70):  # few successors, so that counts soon have all their slots
        rows[s, 0, (s + 1) % 70], rows[s, 1, (s - 1) % 70] = 1.0, 1.0
    ring = sm.SwitchingMDP([sm.MDP(rows, rng.random((70, 2)))])
    make = lambda: agent(70, 2, delta=0.05)  # noqa: E731
    sm.check_agent(make, problem=ring, steps=400, memory_steps=4000, strict=True)


@EACH
def test_hostile_values_are_rejected(name: str) -> None:
    def fresh() -> Any:
        detector = DETECTORS[name]()
        detector.allocate(Pairs.of(3, 2))
        detector.watch(*log_of(700, 6, 3), 700)
        return detector

    validate(fresh(), states=3, pairs=6)
    for field, bad in (
        ("width", 4), ("columns", 3), ("seen", -1), ("steps", -1), ("clock", 0),
        ("visits", fresh().visits + 1), ("now", fresh().now + 0.5), ("past", fresh().past + 1.0),
        ("now", fresh().now[:-1]), ("visits", -fresh().visits), ("past", fresh().past * np.nan),
    ):  # fmt: skip
        detector = fresh()
        setattr(detector, field, bad)
        with pytest.raises(ValueError, match=type(detector).__name__):
            validate(detector, states=3, pairs=6)
    with pytest.raises(ValueError, match="shape"):
        validate(fresh(), states=3, pairs=4)
