"""The rules of feedback, sessions, expiry and modes; what is refused has changed nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.online.workbench import A, Clock, S, answer, bits_of, live, sw_ucrl

import switchmdp as sm
from switchmdp.errors import (
    ConflictingFeedback,
    ForgottenDecision,
    InvalidAction,
    InvalidMDP,
    InvalidParameter,
    InvalidReward,
    InvalidState,
    SwitchmdpError,
    UnknownDecision,
)
from switchmdp.online import Decisions
from switchmdp.planning.inner_maximum import optimistic_row


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def decisions(tmp_path: Path, clock: Clock) -> Iterator[Decisions]:
    with Decisions(sw_ucrl(), tmp_path / "own", expiry=100, clock=clock, sync=False) as found:
        yield found


# Feedback.


def test_feedback_counts_once_however_often_it_is_given(decisions: Decisions) -> None:
    decision = decisions.decide(0)
    assert decisions.feedback(decision.id, 0.5, 1)
    before = bits_of(decisions)
    assert not decisions.feedback(decision.id, 0.5, 1)
    assert not decisions.feedback(decision.id, np.float64(0.5), np.int64(1))
    assert bits_of(decisions) == before
    assert decisions.learner.counted == 1
    assert decisions.learner.agent.t == 2


@pytest.mark.parametrize("other", [(0.5, 2), (0.25, 1), (1, 1), ("0.5", 1), (None, None)])
def test_feedback_that_contradicts_the_first_is_refused(
    other: tuple[Any, Any], decisions: Decisions
) -> None:
    decision = decisions.decide(0)
    decisions.feedback(decision.id, 0.5, 1)
    before = bits_of(decisions)
    with pytest.raises(ConflictingFeedback):
        decisions.feedback(decision.id, *other)
    assert bits_of(decisions) == before


def test_feedback_for_what_was_never_decided_here_is_refused(
    decisions: Decisions, tmp_path: Path
) -> None:
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


def test_the_key_alone_does_not_make_a_decision(decisions: Decisions) -> None:
    decisions.decide(0)
    with pytest.raises(UnknownDecision, match="never made"):
        decisions.feedback(decisions._id(2), 0.5, 1)


def test_out_of_order_feedback_is_learned_in_the_order_it_comes(tmp_path: Path) -> None:
    steps = {0: (1.0, 1), 1: (0.0, 2), 2: (0.5, 3), 3: (0.25, 0)}
    for i, order in enumerate(permutations(range(4))):
        with Decisions(sw_ucrl(), tmp_path / f"{i}", sync=False) as decisions:
            made = [decisions.decide(s) for s in range(4)]
            for k in order:
                assert decisions.feedback(made[k].id, *steps[k])
            agent = decisions.learner.agent
            assert agent.log_next[:4].tolist() == [steps[k][1] for k in order]
            assert [agent.visits[d.state, d.action] for d in made] == [1] * 4


def test_missing_feedback_leaves_time_where_it_is(decisions: Decisions) -> None:
    for _ in range(50):
        decisions.decide(0)
    assert decisions.learner.agent.t == 1
    assert len(decisions.learner.pending) == 50


def test_feedback_after_expiry_is_refused_even_if_nothing_happened_meanwhile(
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


def test_a_clock_that_goes_back_neither_revives_nor_expires(
    decisions: Decisions, clock: Clock
) -> None:
    first = decisions.decide(0)
    clock.now -= 500
    second = decisions.decide(0)
    assert decisions.feedback(first.id, 1, 0)
    clock.now += 600.5
    with pytest.raises(ForgottenDecision):
        decisions.feedback(second.id, 1, 0)


def test_the_oldest_of_too_many_open_decisions_are_forgotten(tmp_path: Path) -> None:
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


def test_answers_are_remembered_for_a_bounded_time_and_never_counted_again(tmp_path: Path) -> None:
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


def test_tables_shrink_at_once_where_the_limits_do(tmp_path: Path) -> None:
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


# Sessions.


def test_each_session_has_its_own_state_and_all_teach_one_agent(decisions: Decisions) -> None:
    for i, name in enumerate("abcd"):
        decisions.feedback(decisions.decide(0, session=name).id, 1, i)
    assert [decisions.decide(session=name).state for name in "abcd"] == [0, 1, 2, 3]
    assert decisions.learner.agent.t == 5


def test_a_session_is_where_it_decided_last_until_that_is_answered(decisions: Decisions) -> None:
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


def test_the_session_unused_longest_is_forgotten_first(tmp_path: Path) -> None:
    with Decisions(sw_ucrl(), tmp_path, most_sessions=3, sync=False) as decisions:
        for name in ("a", "b", "c", "a", "d"):
            decisions.decide(1, session=name)
        assert decisions.decide(session="a").state == 1
        with pytest.raises(InvalidState, match="this session has none yet"):
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


def test_a_shadow_records_what_the_agent_would_have_done(decisions: Decisions) -> None:
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


def test_a_warm_start_teaches_what_observing_would(decisions: Decisions) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (int(rng.integers(S)), int(rng.integers(A)), float(rng.random()), int(rng.integers(S)))
        for _ in range(2500)
    ]
    assert decisions.learn_from(iter(rows)) == 2500
    agent = sw_ucrl()
    for row in rows:
        agent.observe(*row)
    learned = decisions.learner.agent
    assert np.array_equal(learned.visits, agent.visits)  # type: ignore[attr-defined]
    assert learned.t == 2501
    assert decisions.learner.counted == 2500
    assert decisions.learner.rewards.size * 240 >= 2500


@pytest.mark.parametrize("how", ["history", "fixed", "late"])
def test_an_agent_starts_over_on_time_however_its_steps_come_in(how: str, tmp_path: Path) -> None:
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


def test_starting_over_forgets_what_was_learned_and_nothing_that_is_open(
    decisions: Decisions,
) -> None:
    live(decisions, 50)
    open_one = decisions.decide(0)
    decisions.start_over()
    assert decisions.learner.agent.visits.sum() == 0
    assert decisions.feedback(open_one.id, 1, 0)
    assert decisions.learner.agent.visits.sum() == 1
    assert decisions.learner.counted == 51


def test_an_agent_without_episodes_can_not_start_over(tmp_path: Path) -> None:
    with Decisions(sm.agents.Random(S, A), tmp_path) as decisions:
        decisions.decide(0)
        before = bits_of(decisions)
        with pytest.raises(InvalidParameter, match="learns in episodes"):
            decisions.start_over()
        assert bits_of(decisions) == before


# Unavailable actions.


def brute_force(agent: Any, state: int, available: list[int]) -> int:
    """The best of the actions by r̃ + max p̃·u over all states, a linear program's value."""
    counts, t, u = agent.memory.counts, agent.clock - agent.since + 1, agent.plausible.optimism
    worth = {}
    for action in sorted(available):
        pair = agent.pairs.pair(state, action)
        n = int(counts.visits[pair])
        reward = min(1.0, counts.mean(pair) + agent.plausible.reward_radius(n, t))
        estimate = np.zeros(agent.n_states)
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            estimate[counts.target[k]] += counts.count[k] / max(1, n)
        if n == 0:
            estimate[0] = 1.0  # any: its ball holds every distribution
        radius = agent.plausible.transition_radius(n, t) if n else 2.0
        worth[action] = reward + optimistic_row(estimate, radius, u.value) @ u.value
    return max(worth, key=lambda action: round(worth[action], 12))


@pytest.mark.parametrize("n_states", [4, 70])
def test_where_the_choice_is_not_available_the_best_that_is_gets_taken(
    n_states: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(n_states)
    known, steps = (4, 20_000) if n_states == 4 else (2, 40_000)  # of the others nothing is known
    means = rng.random((known, 4))
    rows = rng.dirichlet([0.1] * n_states, (known, 4)).cumsum(axis=2)
    agent = sm.agents.SWUCRL(n_states, 4, window=100_000, delta=0.5)
    other, tried = 0, 0
    with Decisions(agent, tmp_path, sync=False) as decisions:
        learned: Any = decisions.learner.agent
        history = []
        for _ in range(steps):
            s, a = int(rng.integers(known)), int(rng.integers(4))
            reward = float(rng.random() < means[s, a])
            history.append((s, a, reward, int(np.searchsorted(rows[s, a], rng.random()))))
        decisions.learn_from(history)
        decisions.decide(0)
        for _ in range(300):
            state = int(rng.integers(known))
            available = rng.permutation(4)[: int(rng.integers(1, 5))].tolist()
            quota, choice = learned.quota.copy(), int(learned.policy[state])
            episode = learned.episode
            decision = decisions.decide(state, available=available)
            assert decision.action in available
            assert decision.would is None
            if learned.episode != episode:
                continue
            if choice in available:
                quota[state] -= 1
                assert decision.action == choice
            else:
                tried += 1
                other += decision.action != min(available)
                assert decision.action == brute_force(learned, state, available)
            assert np.array_equal(learned.quota, quota)
    assert tried > 50
    assert other > 10


def test_what_an_action_is_worth_to_extended_value_iteration(tmp_path: Path) -> None:
    """The chosen pair's worth is its state's next value, and no other pair's is more."""
    agent: Any = sm.agents.UCRL2(5, 3, delta=0.3)
    problem = sm.problems.random_switching(5, 3, changes=0, horizon=20_000, seed=1)
    sm.simulate(agent, problem, 20_000)
    agent.start_episode()
    counts, t = agent.memory.counts, agent.clock - agent.since + 1
    value = agent.plausible.optimism.next_value
    worth = [agent.plausible.worth(counts, t, pair) for pair in range(15)]
    for s in range(5):
        assert worth[agent.choice[s]] == pytest.approx(value[s], abs=1e-12)
        assert max(worth[3 * s : 3 * s + 3]) == pytest.approx(value[s], abs=1e-12)


def test_an_agent_without_episodes_takes_the_first_that_is_available(tmp_path: Path) -> None:
    with Decisions(sm.agents.Random(S, 3, seed=1), tmp_path) as decisions:
        found = {decisions.decide(0, available=[2, 1]).action for _ in range(40)}
        assert found == {1, 2}


# What can't be taken.

Call = Callable[[Decisions], Any]


class Text(str):
    """A text of one's own."""


BAD: dict[str, tuple[Call, type[SwitchmdpError]]] = {
    "state too large": (lambda d: d.decide(S), InvalidState),
    "state negative": (lambda d: d.decide(-1), InvalidState),
    "state a float": (lambda d: d.decide(1.0), InvalidState),
    "state a bool": (lambda d: d.decide(True), InvalidState),
    "state a text": (lambda d: d.decide("1"), InvalidState),
    "state a list": (lambda d: d.decide([1]), InvalidState),
    "state an array": (lambda d: d.decide(np.array([1])), InvalidState),
    "state huge": (lambda d: d.decide(10**5000), InvalidState),
    "no state": (lambda d: d.decide(session="never seen"), InvalidState),
    "session a number": (lambda d: d.decide(0, session=5), InvalidParameter),
    "session nothing": (lambda d: d.decide(0, session=None), InvalidParameter),
    "session a list": (lambda d: d.decide(0, session=[]), InvalidParameter),
    "session too long": (lambda d: d.decide(0, session="x" * 201), InvalidParameter),
    "none available": (lambda d: d.decide(0, available=[]), InvalidParameter),
    "available a number": (lambda d: d.decide(0, available=1), InvalidParameter),
    "available a text": (lambda d: d.decide(0, available="01"), InvalidParameter),
    "available a mask": (lambda d: d.decide(0, available=[True, False, True]), InvalidAction),
    "available out of range": (lambda d: d.decide(0, available=[0, A]), InvalidAction),
    "available not there": (lambda d: d.decide(3, available=[0, 2]), InvalidAction),
    "available floats": (lambda d: d.decide(0, available=np.array([0.0, 1.0])), InvalidAction),
    "available nested": (lambda d: d.decide(0, available=[[0]]), InvalidAction),
    "available a generator": (lambda d: d.decide(0, available=iter([0])), InvalidParameter),
    "taken out of range": (lambda d: d.decide(0, taken=A), InvalidAction),
    "taken not there": (lambda d: d.decide(3, taken=2), InvalidAction),
    "taken a float": (lambda d: d.decide(0, taken=1.0), InvalidAction),
    "taken a list": (lambda d: d.decide(0, taken=[1]), InvalidAction),
    "reward above 1": (lambda d: d.feedback(d._id(1), 1.1, 0), InvalidReward),
    "reward below 0": (lambda d: d.feedback(d._id(1), -0.1, 0), InvalidReward),
    "reward NaN": (lambda d: d.feedback(d._id(1), float("nan"), 0), InvalidReward),
    "reward infinite": (lambda d: d.feedback(d._id(1), float("inf"), 0), InvalidReward),
    "reward a bool": (lambda d: d.feedback(d._id(1), True, 0), InvalidReward),
    "reward a text": (lambda d: d.feedback(d._id(1), "1", 0), InvalidReward),
    "reward nothing": (lambda d: d.feedback(d._id(1), None, 0), InvalidReward),
    "reward a list": (lambda d: d.feedback(d._id(1), [1], 0), InvalidReward),
    "reward complex": (lambda d: d.feedback(d._id(1), np.complex128(1), 0), InvalidReward),
    "reward huge": (lambda d: d.feedback(d._id(1), 10**5000, 0), InvalidReward),
    "next state too large": (lambda d: d.feedback(d._id(1), 1, S), InvalidState),
    "next state a float": (lambda d: d.feedback(d._id(1), 1, 0.0), InvalidState),
    "next state nothing": (lambda d: d.feedback(d._id(1), 1, None), InvalidState),
    "row too short": (lambda d: d.learn_from([(0, 0, 1.0, 1), (0, 0, 1.0)]), InvalidParameter),
    "row too long": (lambda d: d.learn_from([(0, 0, 1.0, 1, 1)]), InvalidParameter),
    "row a number": (lambda d: d.learn_from([5]), InvalidParameter),
    "row a text": (lambda d: d.learn_from(["abcd"]), InvalidParameter),
    "rows a number": (lambda d: d.learn_from(5), InvalidParameter),
    "row of a bad state": (lambda d: d.learn_from([(0, 0, 1.0, 1), (S, 0, 1.0, 1)]), InvalidState),
    "row of a bad action": (lambda d: d.learn_from([(3, 2, 1.0, 1)]), InvalidAction),
    "row of a bad reward": (lambda d: d.learn_from([(0, 0, 2.0, 1)]), InvalidReward),
    "rows of floats": (lambda d: d.learn_from(np.zeros((3, 4))), InvalidState),
    "mode unknown": (lambda d: d.set_mode("off"), InvalidParameter),
    "mode a list": (lambda d: d.set_mode(["agent"]), InvalidParameter),
    "mode nothing": (lambda d: d.set_mode(None), InvalidParameter),
    "no policy": (lambda d: d.set_mode("fixed"), InvalidParameter),
    "policy too short": (lambda d: d.set_mode("fixed", [0] * (S - 1)), InvalidParameter),
    "policy a number": (lambda d: d.set_mode("shadow", 0), InvalidParameter),
    "policy a text": (lambda d: d.set_mode("shadow", "0000"), InvalidParameter),
    "policy out of range": (lambda d: d.set_mode("fixed", [A] * S), InvalidAction),
    "policy not there": (lambda d: d.set_mode("fixed", [2] * S), InvalidAction),
    "policy of floats": (lambda d: d.set_mode("fixed", [0.0] * S), InvalidAction),
    "new state with none": (lambda d: d.add_state([]), InvalidMDP),
    "new state out of range": (lambda d: d.add_state([0, A]), InvalidAction),
    "new state of a number": (lambda d: d.add_state(1), InvalidParameter),
    "new state of a text": (lambda d: d.add_state("01"), InvalidParameter),
    "new state of a mask": (lambda d: d.add_state([True]), InvalidAction),
    "new action out of range": (lambda d: d.add_action([S]), InvalidState),
    "new action of a number": (lambda d: d.add_action(1), InvalidParameter),
    "new action of a dict": (lambda d: d.add_action({0: True}), InvalidParameter),
}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Decisions]:
    """One open decision, steps that are not absorbed yet, and a pair that is not there."""
    available = np.ones((S, A), bool)
    available[3, 2] = False
    agent = sm.agents.SWUCRL(S, A, window=60, available=available)
    with Decisions(agent, tmp_path_factory.mktemp("lived"), sync=False) as decisions:
        decisions.decide(0)
        live(decisions, 41)
        assert decisions.learner.agent.logged > 0
        yield decisions


@pytest.mark.parametrize("what", BAD)
def test_what_can_not_be_taken_is_refused_and_changes_nothing(what: str, lived: Decisions) -> None:
    call, error = BAD[what]
    before, number = bits_of(lived), lived._journal.log.number
    with pytest.raises(error) as refused:
        call(lived)
    assert type(refused.value) is error
    assert str(refused.value)
    assert bits_of(lived) == before
    assert lived._journal.log.number == number


def test_numbers_of_numpy_and_any_collection_can_be_taken(lived: Decisions) -> None:
    collections: list[Any] = [
        [np.int64(1)], (0, 1), {0, 1}, frozenset([1]), range(2), np.arange(2), np.uint8([1, 0])
    ]  # fmt: skip
    for available in collections:
        decision = lived.decide(np.int32(1), available=available, session=Text("me"))
        assert decision.action in (0, 1)
        assert lived.feedback(decision.id, np.float32(0.5), np.uint8(1))
    decision = lived.decide(0, taken=np.int64(2))
    assert lived.feedback(decision.id, np.longdouble(1), 1)
    assert lived.learn_from([np.array([0, 0, 1, 1]), (np.int8(0), 0, np.float16(0.5), 1)]) == 2
    lived.set_mode("fixed", [np.int64(0)] * S)
    lived.set_mode("agent", None)
