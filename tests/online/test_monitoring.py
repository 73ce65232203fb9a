"""The change signal: its definition, false alarms and detections; the reward history."""

from __future__ import annotations

import copy
import math
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import bits_of

import switchmdp as sm
from switchmdp.agents.policy_agent import Choice
from switchmdp.errors import InvalidParameter
from switchmdp.online import ChangeSignal, Decisions, learner
from switchmdp.online.learner import choose
from switchmdp.online.monitoring import MOST_BUCKETS, RewardHistory
from switchmdp.online.snapshots import parts_of, restored, same_learner
from switchmdp.online.views import history_of

Step = tuple[int, int, float, int]


def literal(steps: list[Step], window: int, delta: float, n_states: int, n_pairs: int) -> float:
    """The strength, computed for all pairs and successors from the formula in the docstring."""
    recent = steps[-2 * window :]
    half = len(recent) // 2
    recent = recent[len(recent) - 2 * half :]
    earlier, later = recent[:half], recent[half:]
    found = 0.0
    for pair in {(s, a) for s, a, _, _ in recent}:
        then = [(r, to) for s, a, r, to in earlier if (s, a) == pair]
        now = [(r, to) for s, a, r, to in later if (s, a) == pair]
        if not then or not now:
            continue
        n, m = len(then), len(now)
        log = math.log(2 * n_pairs * (n_states + 1) / delta)
        threshold = math.sqrt((1 / n + 1 / m) / 2 * log)
        differences = [abs(sum(r for r, _ in then) / n - sum(r for r, _ in now) / m)]
        differences += [
            abs(sum(to == s for _, to in then) / n - sum(to == s for _, to in now) / m)
            for s in range(n_states)
        ]
        found = max(found, max(differences) / threshold)
    return found


def random_steps(rng: np.random.Generator, n: int, n_states: int, n_actions: int) -> list[Step]:
    return [
        (int(rng.integers(n_states)), int(rng.integers(n_actions)), float(rng.random()),
         int(rng.integers(n_states)))
        for _ in range(n)
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_the_signal_matches_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_states, n_actions = int(rng.integers(1, 6)), int(rng.integers(1, 4))
    window = int(rng.choice([1, 2, 7, 40, 90]))
    signal, steps = ChangeSignal(window, 0.05), []
    compared = 0
    for step in random_steps(rng, 400, n_states, n_actions):
        steps.append(step)
        if not signal.add(*step) or rng.random() < 0.7:
            continue
        compared += 1
        found = signal.compare(n_states, n_actions, n_states * n_actions)
        wanted = literal(steps, window, 0.05, n_states, n_states * n_actions)
        assert (0.0 if found is None else found.strength) == pytest.approx(wanted, abs=1e-9)
        if found is None:
            continue
        assert found.step == len(steps)
        recent = steps[-2 * min(window, len(steps) // 2) :]
        halves = recent[: len(recent) // 2], recent[len(recent) // 2 :]
        for half, mean in zip(halves, (found.before, found.now), strict=True):
            here = [(r, to) for s, a, r, to in half if (s, a) == (found.state, found.action)]
            values = [r if found.next_state is None else to == found.next_state for r, to in here]
            assert np.mean(values) == pytest.approx(mean, abs=1e-9)
    assert compared >= 5


def chain(
    rng: np.random.Generator, n: int, means: Any, rows: Any, state: int = 0
) -> tuple[list[Step], int]:
    """A walk with uniform actions."""
    n_states, n_actions = means.shape
    actions, draws = rng.integers(0, n_actions, n), rng.random((2, n))
    cumulated, steps = rows.cumsum(axis=2), []
    for i in range(n):
        action = int(actions[i])
        to = min(int(np.searchsorted(cumulated[state, action], draws[0, i])), n_states - 1)
        steps.append((state, action, float(draws[1, i] < means[state, action]), to))
        state = to
    return steps, state


def alarms(signal: ChangeSignal, steps: list[Step], n_states: int, n_actions: int) -> list[int]:
    """The steps at which the signal fires."""
    found = []
    for step in steps:
        if signal.add(*step):
            told = signal.compare(n_states, n_actions, n_states * n_actions)
            if told is not None and told.strength >= 1.0:
                found.append(told.step)
    return found


@pytest.mark.parametrize(("delta", "most"), [(0.5, 400), (0.05, 40), (0.01, 10)])
def test_the_signal_rarely_fires_without_a_change(delta: float, most: int) -> None:
    """Thirty runs of ten windows have 6000 comparisons, of which at most a share δ may fire. Far
    fewer do, because the bound is crude. Comparisons that share most steps fire together."""
    fired = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        means, rows = rng.random((4, 3)), rng.dirichlet([1.0] * 4, (4, 3))
        steps, _ = chain(rng, 4000, means, rows)
        fired += len(alarms(ChangeSignal(400, delta), steps, 4, 3))
    assert fired <= most


@pytest.mark.parametrize("what", ["rewards", "transitions"])
@pytest.mark.parametrize("seed", range(8))
def test_the_signal_fires_within_one_window_and_stops_after_two(what: str, seed: int) -> None:
    rng, window = np.random.default_rng([seed, 1]), 2000
    means, rows = rng.random((4, 2)), rng.dirichlet([1.0] * 4, (4, 2))
    others = 1.0 - means if what == "rewards" else means
    changed = rows if what == "rewards" else np.roll(rows, 1, axis=2)
    signal = ChangeSignal(window)
    steps, state = chain(rng, 6000, means, rows)
    more, _ = chain(rng, 8000, others, changed, state)
    found = alarms(signal, steps + more, 4, 2)
    assert found
    assert 6000 < found[0] <= 6000 + window
    assert max(found) <= 6000 + 2 * window
    assert signal.latest is not None
    assert signal.latest.strength < 1.0


def test_the_signal_names_what_changed() -> None:
    signal = ChangeSignal(1000)
    for i in range(1000):
        signal.add(0, 1, 0.25, 0)
        signal.add(2, 0, 0.5, 1 if i < 500 else 2)
    found = signal.compare(3, 2, 6)
    assert found is not None
    assert (found.state, found.action, found.next_state) in ((2, 0, 1), (2, 0, 2))
    assert {found.before, found.now} == {0.0, 1.0}


def test_pairs_visited_in_one_window_only_are_not_compared() -> None:
    signal = ChangeSignal(50)
    for i in range(100):
        signal.add(0, int(i >= 50), float(i >= 50), 0)
    assert signal.compare(1, 2, 2) is None
    assert signal.latest is None
    assert ChangeSignal(50).compare(1, 1, 1) is None


@pytest.mark.parametrize("window", [1, 600, 700, 5000])
def test_the_signals_memory_is_bounded_by_two_windows(window: int) -> None:
    signal = ChangeSignal(window)
    for i in range(12_000):
        signal.add(0, 0, 0.5, 0)
        assert signal.rewards.size == signal.ring.shape[1] <= 2 * window
        assert signal.rewards.size <= max(1024, 2 * (i + 1))
    assert signal.rewards.size == 2 * window


@pytest.mark.parametrize("steps", [0, 5, 1023, 1024, 1025, 3000])
def test_a_restored_signal_continues_identically(steps: int) -> None:
    rng = np.random.default_rng(steps)
    signal = ChangeSignal(1200, 0.1)
    taken = random_steps(rng, steps + 500, 3, 2)
    for step in taken[:steps]:
        signal.add(*step)
    signal.compare(3, 2, 6)
    fields, arrays = signal.state()
    again = ChangeSignal.from_state(fields, {name: array.copy() for name, array in arrays.items()})
    assert again.latest == signal.latest
    for step in taken[steps:]:
        assert signal.add(*step) == again.add(*step)
    assert signal.compare(3, 2, 6) == again.compare(3, 2, 6)


@pytest.mark.parametrize(("window", "delta"), [(0, 0.1), (1.5, 0.1), (10, 0.0), (10, 1.0)])
def test_invalid_signal_parameters_are_rejected(window: Any, delta: Any) -> None:
    with pytest.raises(InvalidParameter):
        ChangeSignal(window, delta)


def test_the_last_hundred_alerts_survive_reopening(tmp_path: Path) -> None:
    """Rewards change every ten steps, so the signal fires, is quiet, and fires again."""
    agent = sm.agents.Random(1, 1)
    with Decisions(agent, tmp_path, sync=False, signal_window=10, signal_delta=0.9) as decisions:
        told = []
        for i in range(9000):
            decisions.learn_from([(0, 0, float(i // 20 % 2), 0)])
            told.append(decisions.learner.alarmed)
        rises = sum(b and not a for a, b in pairwise(told))
        assert rises > 100
        assert len(decisions.learner.alerts) == 100
        assert all(alert.strength >= 1.0 for alert in decisions.learner.alerts)
        assert decisions.learner.alerts[-1].step > 8000
        before = bits_of(decisions)
    with Decisions(None, tmp_path) as decisions:
        assert bits_of(decisions) == before


def test_the_time_of_an_alert_is_that_of_its_event(tmp_path: Path) -> None:
    """Also after a kill and a late restart, when a bucket of rewards spans the pause."""
    now = [1000.0]
    agent = sm.agents.Random(1, 1)
    with Decisions(
        agent, tmp_path, sync=False, clock=lambda: now[0], signal_window=10, signal_delta=0.9
    ) as decisions:
        decisions.learn_from([(0, 0, 0.0, 0)] * 600)  # more than one reward in each bucket
        while not decisions.learner.alerts:
            now[0] += 1.0
            decisions.learn_from([(0, 0, 1.0, 0)])
        raised = now[0]
        shutil.copytree(tmp_path, tmp_path / "killed")
    now[0] += 5000.0
    with Decisions(None, tmp_path / "killed", sync=False, clock=lambda: now[0]) as decisions:
        decisions.learn_from([(0, 0, 1.0, 0)] * 4)
        (change,) = decisions.look(lambda learner: history_of(learner, 100))["changes"]
        assert change["time"] == decisions.learner.alerts[0].time == raised
        without = copy.deepcopy(decisions.learner)
        without.alerts = [replace(alert, time=None) for alert in without.alerts]
        assert same_learner(without, decisions.learner)
        without.alerts = [replace(alert, step=1) for alert in without.alerts]
        assert not same_learner(without, decisions.learner)


# Restarts of the agent.


def changing(decisions: Decisions, steps: int, best: int) -> None:
    """One action is always rewarded."""
    for _ in range(steps):
        asked = decisions.decide(0)
        decisions.feedback(asked.id, float(asked.action == best), 0)


def test_a_restart_is_noted_with_its_step_and_time(tmp_path: Path) -> None:
    now = [1000.0]
    agent = sm.agents.EvidencePSRL(1, 2)
    with Decisions(agent, tmp_path, sync=False, clock=lambda: now[0]) as decisions:
        changing(decisions, 200, best=0)
        assert decisions.learner.restarts == []
        while not decisions.learner.restarts and decisions.learner.counted < 1000:
            now[0] += 1.0
            changing(decisions, 1, best=1)
        (restart,) = decisions.learner.restarts
        assert restart.asked is False
        assert 200 < decisions.learner.counted <= restart.step + 1
        assert restart.time == now[0]
        assert 0 < restart.kept <= restart.step - 190  # the data since the change, about
        decisions.start_over()
        assert decisions.learner.restarts[1:] == [(decisions.learner.counted, now[0], 0, True)]
        before = bits_of(decisions)
        shutil.copytree(tmp_path, tmp_path / "killed")
    for place in (tmp_path, tmp_path / "killed"):
        with Decisions(None, place, sync=False) as decisions:
            assert bits_of(decisions) == before


def test_scheduled_restarts_are_noted_and_their_number_is_bounded(tmp_path: Path) -> None:
    with Decisions(sm.agents.UCRL2RW(1, 1, period=10), tmp_path, sync=False) as decisions:
        changing(decisions, 25, best=0)
        steps = [restart.step for restart in decisions.learner.restarts]
        assert steps == [10, 20]
        changing(decisions, 1500, best=0)
        assert len(decisions.learner.restarts) == 100
        assert decisions.learner.restarts[-1].step == 1520


def test_a_new_policy_that_forgets_nothing_is_no_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[Choice] = []

    def choosing(*given: Any, **options: Any) -> Choice:
        chosen.append(choose(*given, **options))
        return chosen[-1]

    monkeypatch.setattr(learner, "choose", choosing)
    agent = sm.agents.MASTER(1, 2, horizon=1000, diameter=1.0)
    with Decisions(agent, tmp_path, sync=False) as decisions:
        changing(decisions, 200, best=0)
        assert decisions.learner.restarts == []
    assert any(choice.replaced for choice in chosen)


def test_a_snapshot_of_an_earlier_version_has_no_restarts(tmp_path: Path) -> None:
    with Decisions(sm.agents.UCRL2RW(1, 1, period=10), tmp_path, sync=False) as decisions:
        changing(decisions, 25, best=0)
        new = copy.deepcopy(decisions.learner)
    fields, arrays = parts_of(new)
    old = restored({k: v for k, v in fields.items() if "restarts" not in k}, arrays, "old")
    assert (old.restarts, old.knows_restarts) == ([], False)
    assert same_learner(old, new)
    again = restored(*parts_of(old), "again")  # its later snapshots do not know the first ones
    assert same_learner(again, new)
    new.restarts = new.restarts[:1]
    known = restored(fields, arrays, "known")
    assert not same_learner(known, new)


# The reward rate beside it.


def test_the_reward_history_is_bounded_and_counts_every_reward() -> None:
    history, rng, total = RewardHistory(), np.random.default_rng(0), 0.0
    for i in range(5000):
        reward = float(rng.integers(0, 2))
        history.add(reward, float(i))
        total += reward
        assert len(history.buckets) <= MOST_BUCKETS
    assert sum(n for _, _, n, _ in history.buckets) == 5000
    assert sum(part for *_, part in history.buckets) == total
    assert history.buckets[0][0] == 0.0
    assert history.buckets[-1][1] == 4999.0
    assert all(n == history.size for _, _, n, _ in history.buckets[:-1])
    ends = [(first, last) for first, last, _, _ in history.buckets]
    assert all(a[1] < b[0] for a, b in pairwise(ends))


def test_the_signal_says_how_many_steps_it_has_compared() -> None:
    signal = ChangeSignal(100)
    assert signal.compared == 0
    for total, compared in ((100, 50), (250, 100)):
        while signal.steps < total:
            signal.add(0, 0, 0.0, 0)
        signal.compare(1, 1, 1)
        assert signal.compared == compared
