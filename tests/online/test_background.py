"""Planning in the background: the old policy is used meanwhile, and the swap is an event."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.online.workbench import A, S, bits, bits_of, copied, kill, live, sw_ucrl

import switchmdp as sm
from switchmdp.online import Decisions, events_of, rebuild
from switchmdp.online import decisions as module


class Planner:
    """An agent that plans only when the test allows it."""

    def __init__(self) -> None:
        self.begun, self.go_on, self.ended = (threading.Semaphore(0) for _ in range(3))

    def __call__(self, agent: Any) -> None:
        self.begun.release()
        assert self.go_on.acquire(timeout=60)
        try:
            agent.plan()
        finally:
            self.ended.release()


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Iterator[Planner]:
    found = Planner()
    monkeypatch.setattr(module, "compute_plan", found)
    yield found
    for thread in threading.enumerate():
        if thread.name == "planner":
            found.go_on.release()
            thread.join()


@pytest.fixture
def decisions(tmp_path: Path, planner: Planner) -> Decisions:
    return Decisions(sw_ucrl(), tmp_path / "own", replan="background")


def events(folder: Path) -> list[str]:
    return [record["event"] for _, record in events_of(folder)]


def until_planning(decisions: Decisions, planner: Planner) -> None:
    """Make decisions until a plan is being computed."""
    for seed in range(1000):
        if decisions.learner.planning is not None:
            assert planner.begun.acquire(timeout=60)
            return
        live(decisions, 1, seed)
    raise AssertionError("nothing was ever planned")


def swapped(decisions: Decisions, planner: Planner) -> None:
    """Let the plan finish, and wait for the swap."""
    threads = [thread for thread in threading.enumerate() if thread.name == "planner"]
    planner.go_on.release()
    for thread in threads:
        thread.join()


def test_the_old_policy_is_used_during_background_planning(
    decisions: Decisions, planner: Planner
) -> None:
    until_planning(decisions, planner)
    agent: Any = decisions.learner.agent
    policy, episode = agent.policy.tolist(), agent.episode
    assert episode == 1  # the first one was planned at once: there was nothing to serve
    for i in range(50):
        state = i % S
        decision = decisions.decide(state)
        assert decision.action == policy[state]
        assert decisions.feedback(decision.id, 0.5, (i + 1) % S)
    assert agent.episode == episode
    assert (agent.quota >= 0).all()
    swapped(decisions, planner)
    assert agent.episode == episode + 1
    assert decisions.learner.planning is None
    decisions.close()


def test_only_one_plan_runs_at_a_time_and_each_swap_is_logged(
    decisions: Decisions, planner: Planner
) -> None:
    for _ in range(4):
        until_planning(decisions, planner)
        live(decisions, 20)
        assert not planner.begun.acquire(blocking=False)
        swapped(decisions, planner)
    decisions.close()
    told = [event for event in events(decisions.database) if event in ("plan", "swap", "cancel")]
    assert told[:8] == ["plan", "swap"] * 4
    assert bits(rebuild(decisions.database)) == bits(decisions.learner)


def test_a_plan_uses_the_data_from_when_it_started(decisions: Decisions, planner: Planner) -> None:
    until_planning(decisions, planner)
    path = decisions.database.with_name("then")
    decisions.look(lambda learner: learner.agent.save(path))
    live(decisions, 30)
    swapped(decisions, planner)
    agent: Any = decisions.learner.agent
    alone: Any = sm.agents.load(path)
    alone.plan()
    assert agent.policy.tolist() == alone.policy.tolist()
    assert agent.gain == alone.gain
    assert agent.visits.sum() > alone.visits.sum()
    path.unlink()
    decisions.close()


@pytest.mark.parametrize("finished", [True, False])
def test_a_process_killed_between_plan_and_swap_loses_neither(
    finished: bool, decisions: Decisions, planner: Planner, tmp_path: Path
) -> None:
    until_planning(decisions, planner)
    live(decisions, 7)
    open_one = decisions.decide(0)
    left = copied(decisions.database.parent, tmp_path / "left")
    if finished:
        planner.go_on.release()
        assert planner.ended.acquire(timeout=60)
    kill(decisions)
    with Decisions(None, left) as again:
        assert events(left)[-1] == "swap"
        assert again.learner.planning is None
        assert again.learner.agent.episode == 2
        assert bits_of(again) == bits(rebuild(left))
        assert again.feedback(open_one.id, 1.0, 1)
        live(again, 10)
    assert bits(rebuild(left)) == bits(again.learner)


def test_closing_cancels_a_plan_at_once(decisions: Decisions, planner: Planner) -> None:
    until_planning(decisions, planner)
    decisions.close()
    assert events(decisions.database)[-1] == "cancel"
    before = bits(decisions.learner)
    swapped(decisions, planner)  # it is finished in vain
    assert bits(decisions.learner) == before
    assert events(decisions.database)[-1] == "cancel"
    with Decisions(None, decisions.database) as again:
        assert bits_of(again) == before
        until_planning(again, planner)  # and started again where it is due
        swapped(again, planner)


def test_a_restart_cancels_a_plan(decisions: Decisions, planner: Planner) -> None:
    until_planning(decisions, planner)
    decisions.start_over()
    episode = decisions.learner.agent.episode
    swapped(decisions, planner)
    assert decisions.learner.agent.episode == episode
    until_planning(decisions, planner)
    swapped(decisions, planner)
    assert decisions.learner.agent.episode == episode + 1
    decisions.close()
    assert bits(rebuild(decisions.database)) == bits(decisions.learner)


def test_no_snapshot_is_taken_during_planning(tmp_path: Path, planner: Planner) -> None:
    decisions = Decisions(sw_ucrl(), tmp_path, replan="background", snapshot_every=10)
    until_planning(decisions, planner)
    saved = decisions._saved
    live(decisions, 40)
    assert decisions._saved == saved
    swapped(decisions, planner)
    live(decisions, 1)
    assert decisions._saved > saved
    kill(decisions)
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)
    with Decisions(None, tmp_path) as again:
        assert bits_of(again) == bits(rebuild(tmp_path))


def test_a_failed_plan_is_cancelled_and_the_old_policy_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Any] = []

    def fails(agent: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(module, "compute_plan", fails)
    monkeypatch.setattr(threading, "excepthook", failures.append)
    with Decisions(sw_ucrl(), tmp_path, replan="background") as decisions:
        for seed in range(60):
            live(decisions, 1, seed)
        for thread in threading.enumerate():
            if thread.name == "planner":
                thread.join()
        assert decisions.learner.agent.episode == 1
    assert failures
    assert "cancel" in events(tmp_path)
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)


def test_inline_planning_starts_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planner: Planner
) -> None:
    with Decisions(sm.agents.UCRL2(S, A), tmp_path) as decisions:
        live(decisions, 100)
        assert decisions.learner.agent.episode > 3
    assert not planner.begun.acquire(blocking=False)
    assert not {"plan", "swap", "cancel"} & set(events(tmp_path))


def test_background_plans_take_effect_at_the_next_decision(tmp_path: Path) -> None:
    """If every plan is swapped in before the next decision, that decision already follows it."""
    with Decisions(sw_ucrl(), tmp_path, replan="background") as decisions:
        for seed in range(300):
            live(decisions, 1, seed)
            for thread in threading.enumerate():
                if thread.name == "planner":
                    thread.join()
        assert decisions.learner.agent.episode > 5
    assert bits(rebuild(tmp_path)) == bits(decisions.learner)
    assert events(tmp_path).count("plan") == events(tmp_path).count("swap")
