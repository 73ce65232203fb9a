"""The rules of feedback, sessions, expiry and modes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import A, Clock, S, answer, bits, bits_of, live, sw_ucrl

import switchmdp as sm
from switchmdp.agents import Random
from switchmdp.errors import (
    ConflictingFeedback,
    ForgottenDecision,
    InvalidParameter,
    InvalidState,
    UnknownDecision,
)
from switchmdp.online import Decisions, rebuild


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def decisions(tmp_path: Path, clock: Clock) -> Iterator[Decisions]:
    with Decisions(
        sw_ucrl(), tmp_path / "own", expiry=100, clock=clock, timer=clock, sync=False
    ) as found:
        yield found


# Feedback.


def test_repeated_feedback_counts_once(decisions: Decisions) -> None:
    decision = decisions.decide(0)
    assert decisions.feedback(decision.id, 0.5, 1)
    before = bits_of(decisions)
    assert not decisions.feedback(decision.id, 0.5, 1)
    assert bits_of(decisions) == before
    assert decisions.learner.counted == 1
    assert decisions.learner.agent.t == 2


@pytest.mark.parametrize("other", [(0.5, 2), (0.25, 1), (1, 1), ("0.5", 1), (None, None)])
def test_conflicting_feedback_is_rejected(other: tuple[Any, Any], decisions: Decisions) -> None:
    decision = decisions.decide(0)
    decisions.feedback(decision.id, 0.5, 1)
    before = bits_of(decisions)
    with pytest.raises(ConflictingFeedback):
        decisions.feedback(decision.id, *other)
    assert bits_of(decisions) == before


def test_feedback_for_unknown_decisions_is_rejected(decisions: Decisions, tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path / "foreign") as others:
        foreign = others.decide(0).id
    mine = decisions.decide(0).id
    tag = mine.partition("-")[2]
    before = bits_of(decisions)
    made_up: list[Any] = [
        foreign, "", "1", "1-", f"2-{tag}", f"01-{tag}", f"1-{tag}x", f"1-{tag[:-1]}", f"-1-{tag}",
        f"1-{tag.upper()}x", f"+1-{tag}", f"١-{tag}", f"1-{tag}\ud800", f"{'9' * 400}-{tag}",
        1, 1.0, None, b"1-" + tag.encode(), [mine], {"id": mine}, True,
    ]  # fmt: skip
    for name in made_up:
        with pytest.raises(UnknownDecision):
            decisions.feedback(name, 0.5, 1)
    assert bits_of(decisions) == before
    assert decisions.feedback(mine, 0.5, 1)


def test_a_forged_id_without_a_decision_is_rejected(decisions: Decisions) -> None:
    decisions.decide(0)
    with pytest.raises(UnknownDecision, match="there is no decision"):
        decisions.feedback(decisions._id(2), 0.5, 1)


def test_out_of_order_feedback_is_learned_in_order_of_arrival(tmp_path: Path) -> None:
    steps = {0: (1.0, 1), 1: (0.0, 2), 2: (0.5, 3), 3: (0.25, 0)}
    for i, order in enumerate(permutations(range(4))):
        with Decisions(sw_ucrl(), tmp_path / f"{i}", sync=False) as decisions:
            made = [decisions.decide(s) for s in range(4)]
            for k in order:
                assert decisions.feedback(made[k].id, *steps[k])
            agent = decisions.learner.agent
            assert agent.log_next[:4].tolist() == [steps[k][1] for k in order]
            assert [agent.visits[d.state, d.action] for d in made] == [1] * 4


def test_missing_feedback_does_not_advance_the_agents_time(decisions: Decisions) -> None:
    for _ in range(50):
        decisions.decide(0)
    assert decisions.learner.agent.t == 1
    assert len(decisions.learner.pending) == 50


def test_feedback_after_expiry_is_rejected_without_other_events(
    decisions: Decisions, clock: Clock
) -> None:
    early, late = decisions.decide(0), decisions.decide(1)
    clock.now += 100
    assert decisions.feedback(early.id, 1, 0)
    clock.now += 0.001
    before = bits_of(decisions)
    with pytest.raises(ForgottenDecision):
        decisions.feedback(late.id, 1, 0)
    assert bits_of(decisions) == before
    assert not decisions.feedback(early.id, 1, 0)  # it is still known that this was said
    decisions.decide(0)
    assert decisions.learner.expired == 1
    assert len(decisions.learner.pending) == 1


def test_setting_the_clock_back_does_not_affect_expiry(decisions: Decisions, clock: Clock) -> None:
    first = decisions.decide(0)
    clock.now -= 500
    second = decisions.decide(0)
    assert decisions.feedback(first.id, 1, 0)
    clock.now += 600.5
    with pytest.raises(ForgottenDecision):
        decisions.feedback(second.id, 1, 0)


def test_the_oldest_of_too_many_pending_decisions_expire(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path, most_pending=5, sync=False) as decisions:
        made = [decisions.decide(0) for _ in range(8)]
        assert decisions.learner.expired == 3
        before = bits_of(decisions)
        for decision in made[:3]:
            with pytest.raises(ForgottenDecision):
                decisions.feedback(decision.id, 1, 0)
        assert bits_of(decisions) == before
        for decision in made[3:]:
            assert decisions.feedback(decision.id, 1, 0)


def test_old_feedback_is_forgotten_but_never_counted_again(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path, most_pending=5, sync=False) as decisions:
        made = [decisions.decide(0) for _ in range(5)]
        made += [decisions.decide(0) for d in made if decisions.feedback(d.id, 1, 0)]
        assert all(decisions.feedback(d.id, 1, 0) for d in made[5:])
        assert len(decisions.learner.answered) == 5
        for decision in made[:5]:
            with pytest.raises(ForgottenDecision):
                decisions.feedback(decision.id, 1, 0)
        assert not any(decisions.feedback(d.id, 1, 0) for d in made[5:])
        assert decisions.learner.counted == 10


def test_lower_limits_apply_at_once(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path, sync=False) as decisions:
        for i in range(10):
            decisions.feedback(decisions.decide(0, session=f"{i}").id, 1, 0)
        for i in range(10):
            decisions.decide(0, session=f"{i}")
    with Decisions(None, tmp_path, most_pending=3, most_sessions=2, sync=False) as decisions:
        learner = decisions.learner
        assert len(learner.pending) == 3
        last = decisions.decide(0, session="new")
        decisions.feedback(last.id, 1, 0)
        assert len(learner.pending) <= 3
        assert len(learner.answered) == 3
        assert [*learner.sessions] == ["9", "new"]


# Time.


def test_jumps_of_the_wall_clock_do_not_affect_expiry(tmp_path: Path) -> None:
    clock, timer = Clock(1e9), Clock(0.0)
    with Decisions(
        sw_ucrl(), tmp_path, expiry=100, sync=False, clock=clock, timer=timer
    ) as decisions:
        made = []
        for jump in (1e8, -2e8, 3.0, -1e9):  # far ahead, far back, and before 1970
            made.append(decisions.decide(0))
            clock.now += jump
            timer.now += 10
            decisions.decide(1)
        assert decisions.learner.expired == 0
        assert decisions.feedback(made[0].id, 1, 0)
        timer.now += 75  # the second was made 105 seconds ago
        with pytest.raises(ForgottenDecision):
            decisions.feedback(made[1].id, 1, 0)
        assert decisions.feedback(made[2].id, 1, 0)
        timer.now += 1000
        decisions.decide(0)
        assert len(decisions.learner.pending) == 1
        after = bits_of(decisions)
    assert bits(rebuild(tmp_path)) == after
    with Decisions(None, tmp_path, sync=False, clock=clock, timer=timer) as decisions:
        assert bits_of(decisions) == after


def test_time_stops_while_the_folder_is_closed(tmp_path: Path) -> None:
    timer = Clock()
    for _ in range(3):
        with Decisions(sw_ucrl(), tmp_path, expiry=100, sync=False, timer=timer) as decisions:
            decisions.decide(0)
            timer.now += 40
            decisions.decide(0)
        timer.now = 7.0  # of another process, or after a reboot
    assert decisions.learner.expired == 1
    assert decisions.learner.now == 120.0


def test_short_steps_add_up_to_the_elapsed_time(tmp_path: Path) -> None:
    timer = Clock(0.0)
    with Decisions(sw_ucrl(), tmp_path, sync=False, timer=timer) as decisions:
        for _ in range(1000):
            timer.now += 0.0003
            decisions.set_mode("agent")
        assert decisions.learner.now == pytest.approx(0.3, abs=0.001)
        decision = decisions.decide(0)
        timer.now += 5
        for _ in range(3):
            with pytest.raises(InvalidState):
                decisions.decide(-1)
        assert decisions.learner.now == pytest.approx(0.3, abs=0.001)
        decisions.feedback(decision.id, 1, 0)
        assert decisions.learner.now == pytest.approx(5.3, abs=0.001)
        timer.now -= 3  # a timer that is not what it should be
        decisions.decide(0)
        assert decisions.learner.now == pytest.approx(5.3, abs=0.001)
        after = bits_of(decisions)
    assert bits(rebuild(tmp_path)) == after


# Sessions.


def test_each_session_has_its_own_state_and_all_teach_one_agent(decisions: Decisions) -> None:
    for i, name in enumerate("abcd"):
        decisions.feedback(decisions.decide(0, session=name).id, 1, i)
    assert [decisions.decide(session=name).state for name in "abcd"] == [0, 1, 2, 3]
    assert decisions.learner.agent.t == 5


def test_a_sessions_state_is_that_of_its_latest_decision(decisions: Decisions) -> None:
    first = decisions.decide(1, session="a")
    assert decisions.decide(session="a").state == 1
    last = decisions.decide(2, session="a")
    decisions.feedback(first.id, 1, 3)
    assert decisions.learner.sessions["a"] == (2, 3)
    decisions.feedback(last.id, 1, 0)
    assert decisions.decide(session="a").state == 0


def test_late_feedback_does_not_move_a_session_back(decisions: Decisions) -> None:
    early, late = decisions.decide(0, session="a"), decisions.decide(1, session="a")
    decisions.feedback(late.id, 1, 2)
    decisions.feedback(early.id, 1, 3)
    assert decisions.decide(session="a").state == 2


def test_the_least_recently_used_session_is_forgotten_first(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path, most_sessions=3, sync=False) as decisions:
        for name in ("a", "b", "c", "a", "d"):
            decisions.decide(1, session=name)
        assert decisions.decide(session="a").state == 1
        with pytest.raises(InvalidState, match="this session has no state yet"):
            decisions.decide(session="b")


# Who chooses.


def test_a_fixed_policy_chooses_and_the_agent_learns_from_it(decisions: Decisions) -> None:
    live(decisions, 20)
    episode = decisions.learner.agent.episode
    decisions.set_mode("fixed", [2, 1, 0, 1])
    for state, action in enumerate([2, 1, 0, 1]):
        before = int(decisions.learner.agent.visits[state, action])
        decision = decisions.decide(state)
        assert (decision.action, decision.would) == (action, None)
        decisions.feedback(decision.id, 1, state)
        assert decisions.learner.agent.visits[state, action] == before + 1
    assert decisions.decide(0, available=[1, 0]).action == 0
    assert decisions.learner.agent.episode == episode
    decisions.set_mode("agent")
    assert decisions.decide(0).action == decisions.learner.agent.policy[0]


def test_shadow_mode_records_the_agents_own_choice(decisions: Decisions) -> None:
    policy = [2, 1, 0, 1]
    decisions.set_mode("shadow", np.array(policy))
    rng, agreed = np.random.default_rng(1), 0
    for _ in range(200):
        decision = decisions.decide(int(rng.integers(S)))
        assert decision.action == policy[decision.state]
        assert decision.would == decisions.learner.agent.policy[decision.state]
        agreed += decision.would == decision.action
        answer(decisions, rng, decision.id)
    learner = decisions.learner
    assert (learner.shadowed, learner.agreed) == (200, agreed)
    assert 0 < agreed < 200


def test_an_action_taken_elsewhere_is_learned_from(decisions: Decisions) -> None:
    decision = decisions.decide(1, taken=2)
    assert decision.action == 2
    assert decision.would == decisions.learner.agent.policy[1]
    decisions.feedback(decision.id, 1, 0)
    assert decisions.learner.agent.visits[1].tolist() == [0, 0, 1]


def test_a_warm_start_equals_observing_the_steps(decisions: Decisions) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (int(rng.integers(S)), int(rng.integers(A)), float(rng.random()), int(rng.integers(S)))
        for _ in range(2500)
    ]
    assert decisions.learn_from(iter(rows)) == 2500
    agent: Any = sw_ucrl()
    for row in rows:
        agent.observe(*row)
    learned = decisions.learner.agent
    assert np.array_equal(learned.visits, agent.visits)
    assert learned.t == 2501
    assert decisions.learner.counted == 2500
    assert decisions.learner.rewards.size * 240 >= 2500


@pytest.mark.parametrize("how", ["history", "fixed", "late"])
def test_restarts_are_on_time_for_decisions_and_history(how: str, tmp_path: Path) -> None:
    agent = sm.agents.UCRL2RW(S, A, period=100)
    with Decisions(agent, tmp_path, sync=False) as decisions:
        if how == "history":
            decisions.learn_from([(0, 0, 0.5, 0)] * 250)
        elif how == "fixed":
            decisions.set_mode("fixed", [0] * S)
            for _ in range(250):
                decisions.feedback(decisions.decide(0).id, 0.5, 0)
        else:
            for made in [decisions.decide(0, taken=0) for _ in range(250)]:
                decisions.feedback(made.id, 0.5, 0)
        decisions.decide(0)
        assert decisions.learner.agent.visits.sum() == 50
        assert decisions.learner.agent.since == 201


def test_a_restart_forgets_estimates_but_not_pending_decisions(
    decisions: Decisions,
) -> None:
    live(decisions, 50)
    open_one = decisions.decide(0)
    decisions.start_over()
    assert decisions.learner.agent.visits.sum() == 0
    assert decisions.feedback(open_one.id, 1, 0)
    assert decisions.learner.agent.visits.sum() == 1
    assert decisions.learner.counted == 51


def test_an_agent_without_episodes_cannot_start_over(tmp_path: Path) -> None:
    with Decisions(sm.agents.Random(S, A), tmp_path) as decisions:
        decisions.decide(0)
        before = bits_of(decisions)
        with pytest.raises(InvalidParameter, match="learns in episodes"):
            decisions.start_over()
        assert bits_of(decisions) == before


def test_a_split_test_compares_only_decisions_made_since_its_start(tmp_path: Path) -> None:
    rule = [{"name": "rule", "share": 0.5, "policy": [1]}]
    with Decisions(Random(1, 2), tmp_path, sync=False) as decisions:
        for _ in range(50):
            decisions.feedback(decisions.decide(0).id, 1.0, 0)
        late = decisions.decide(0)
        decisions.set_arms(rule)
        arms = decisions.learner.arms
        assert [(arm.decided, arm.count) for arm in arms.values()] == [(0, 0), (0, 0)]
        decisions.feedback(late.id, 1.0, 0)  # of a decision made before the test
        assert arms["main"].count == 0
        for _ in range(50):
            decisions.feedback(decisions.decide(0).id, 0.0, 0)
        assert sum(arm.decided for arm in arms.values()) == 50
        assert [arm.mean for arm in arms.values()] == [0.0, 0.0]
        assert arms["main"].totals[:, 2].sum() == 51  # the metrics never restart

        waiting = [decisions.decide(0, session=str(i)) for i in range(20)]
        decisions.set_arms([])
        decisions.set_arms(rule)
        for one in waiting:  # of the earlier test, whose arm had the same name
            decisions.feedback(one.id, 1.0, 0)
        assert [arm.count for arm in decisions.learner.arms.values()] == [0, 0]
        after = bits_of(decisions)
    assert bits(rebuild(tmp_path)) == after
    with Decisions(None, tmp_path) as decisions:
        assert bits_of(decisions) == after


def test_new_shares_of_a_running_split_test_keep_its_results(tmp_path: Path) -> None:
    with Decisions(Random(1, 2), tmp_path, sync=False) as decisions:
        for share in (0.5, 0.6):
            decisions.set_arms([{"name": "rule", "share": share, "policy": [1]}])
            for _ in range(50):
                decisions.feedback(decisions.decide(0).id, 0.0, 0)
        assert sum(arm.decided for arm in decisions.learner.arms.values()) == 100


def test_events_of_versions_that_compared_all_decisions_still_do(tmp_path: Path) -> None:
    with Decisions(Random(1, 2), tmp_path, sync=False) as decisions:
        decisions.feedback(decisions.decide(0).id, 1.0, 0)
        learner = decisions.learner
        arms = [{"name": "rule", "share": 0.5, "policy": [1]}]
        learner.apply({"event": "arms", "arms": arms, "salt": "s", "time": 0.0, "elapsed": 0.0})
        assert (learner.arms["main"].decided, learner.arms["main"].count) == (1, 1)
