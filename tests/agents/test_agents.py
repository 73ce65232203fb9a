"""Properties of agents, invalid arguments, and combinations of components."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.agents import AGENTS, Episodic
from switchmdp.compiled import fields_of
from switchmdp.errors import InvalidAction, InvalidParameter, InvalidReward, InvalidState
from switchmdp.memory import Window
from switchmdp.plausible import KLBall, L1Ball
from switchmdp.restarts import Cubic, Never, Periodic, Told

MASK = np.array(
    [[True, False, True], [False, True, False], [True, True, True], [False, False, True]]
)


def uneven_problem(seed: int = 0) -> sm.SwitchingMDP:
    rng = np.random.default_rng(seed)
    configurations = [
        sm.MDP(rng.dirichlet(np.ones(4), (4, 3)), rng.random((4, 3)), available=MASK)
        for _ in range(2)
    ]
    return sm.SwitchingMDP(configurations, [1500])


def combined(memory: Any, restarts: Any, plausible: Any) -> Any:
    return Episodic(4, 3, memory=memory, plausible=plausible, restarts=restarts, available=MASK)


# Each combination takes about ten seconds to compile, so that registered agents and combinations of
# other tests are used where they have the components.
COMBINATIONS: dict[str, Any] = {
    "everything, never": lambda: sm.agents.UCRL2(4, 3, delta=0.2, available=MASK),
    "everything, periodic": lambda: sm.agents.UCRL2RW(4, 3, period=333, delta=0.2, available=MASK),
    "everything, cubic": lambda: sm.agents.UCRL2R(4, 3, changes=2, delta=0.2, available=MASK),
    "window, never": lambda: sm.agents.SWUCRL(4, 3, window=400, delta=0.2, available=MASK),
    "window, periodic": lambda: combined(Window(400), Periodic(333), L1Ball(0.2)),
    "window, cubic": lambda: combined(Window(400), Cubic(3), KLBall(0.2, True)),
}


@pytest.mark.xdist_group("L1Ball")
@pytest.mark.parametrize("make", COMBINATIONS.values(), ids=COMBINATIONS)
def test_any_memory_combines_with_any_restart_rule_compiled_and_interpreted(make: Any) -> None:
    runs = [
        sm.simulate(make(), uneven_problem(), 2500, 1, trajectory=True, interpreted=interpreted)
        for interpreted in (False, True)
    ]
    assert runs[0].trajectory is not None
    assert runs[1].trajectory is not None
    assert np.array_equal(runs[0].trajectory.actions, runs[1].trajectory.actions)
    assert np.array_equal(runs[0].regret, runs[1].regret)


@pytest.mark.parametrize("name", ["oracle-ucrl2b", "oracle-ucrl3", "oracle-kl-ucrl", "oracle-psrl"])
def test_agents_that_know_the_change_points_restart_exactly_there(name: str) -> None:
    cls: Any = AGENTS[name]
    agent = cls(4, 2, change_points=[3001])
    problem = sm.problems.random_switching(
        4, 2, changes=1, horizon=6000, seed=1, change_points=[3001]
    )
    first = sm.simulate(agent, problem, 2999, seed=0)
    assert agent.visits.sum() == 2999
    sm.simulate(agent, problem, 3500, resume=first)
    assert agent.since == 3001
    assert agent.visits.sum() == 500


def test_only_available_actions_are_chosen() -> None:
    problem = uneven_problem()
    makers = [
        sm.agents.SWUCRL(4, 3, window=500, available=MASK),
        sm.agents.Random(4, 3, available=MASK),
        sm.agents.Omniscient(problem),
    ]
    for agent in makers:
        record = sm.simulate(agent, problem, 3000, seed=2, trajectory=True)
        assert record.trajectory is not None
        assert MASK[record.trajectory.states, record.trajectory.actions].all()
    random = sm.simulate(
        sm.agents.Random(4, 3, available=MASK), problem, 3000, seed=3, trajectory=True
    )
    assert random.trajectory is not None
    taken = np.zeros((4, 3), bool)
    taken[random.trajectory.states, random.trajectory.actions] = True
    assert np.array_equal(taken, MASK)


def test_properties_show_the_estimates_of_an_agent() -> None:
    agent = sm.agents.SWUCRL(3, 2, window=4, delta=0.1)
    assert (agent.t, agent.episode) == (1, 0)
    steps = [(0, 0, 0.5, 1), (1, 1, 1.0, 0), (0, 0, 0.25, 2), (2, 0, 0.0, 0), (0, 0, 1.0, 1)]
    for step in steps:
        agent.act(step[0])
        agent.observe(*step)
    assert agent.t == 6
    assert agent.visits.tolist() == [[2, 0], [0, 1], [1, 0]]  # the first step has left the window
    assert agent.reward_estimates.tolist() == [[0.625, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert agent.transition_counts(0, 0) == {1: 1, 2: 1}
    assert agent.transition_estimates(0, 0) == {1: 0.5, 2: 0.5}
    assert agent.transition_estimates(2, 1) == {}
    sizes: dict[str, Any] = {"t": 6, "n_states": 3, "n_actions": 2, "delta": 0.1}
    assert agent.reward_radii[0, 0] == pytest.approx(sm.theory.reward_radius(visits=2, **sizes))
    radius = sm.theory.transition_radius(visits=0, **sizes)
    assert agent.transition_radii[2, 1] == pytest.approx(radius)
    assert agent.policy.shape == (3,)
    assert 0.0 <= agent.gain <= 1.0
    assert agent.sweeps >= 1


def test_the_arrays_of_agent_properties_are_read_only() -> None:
    agent = sm.agents.SWUCRL(3, 2, window=4)
    agent.act(0)
    for name in ("t", "episode", "policy", "gain", "sweeps", "visits", "reward_estimates",
                 "reward_radii", "transition_radii"):  # fmt: skip
        with pytest.raises(AttributeError):
            setattr(agent, name, 1)
    for table in (agent.policy, agent.visits, agent.reward_estimates, agent.reward_radii):
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 1
    assert agent.policy.tolist() == [0, 0, 0]


def test_reading_properties_does_not_change_a_run() -> None:
    problem = sm.problems.random_switching(4, 2, changes=1, horizon=2000, seed=0)

    class Looked(sm.agents.SWUCRL):
        def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
            sm.agents.SWUCRL.observe(self, state, action, reward, next_state)
            assert self.visits.sum() == min(self.t - 1, 300)

    looked = sm.simulate(Looked(4, 2, window=300), problem, 2000, seed=1, trajectory=True)
    plain = sm.simulate(sm.agents.SWUCRL(4, 2, window=300), problem, 2000, 1, trajectory=True)
    assert looked.trajectory is not None
    assert plain.trajectory is not None
    assert np.array_equal(looked.trajectory.actions, plain.trajectory.actions)


def test_steps_with_other_actions_than_the_policys_are_counted() -> None:
    agent = sm.agents.UCRL2(2, 2)
    assert agent.act(0) == 0
    agent.observe(0, 1, 1.0, 1)
    assert agent.visits.tolist() == [[0, 1], [0, 0]]
    assert agent.quota.tolist() == [1, 1]


def test_an_episode_ends_on_arrival_at_a_full_pair() -> None:
    agent = sm.agents.UCRL2(2, 1)
    agent.act(0)
    agent.observe(0, 0, 1.0, 0)
    assert agent.episode == 1
    agent.act(0)
    assert (agent.episode, agent.episode_start) == (2, 2)
    agent.observe(0, 0, 1.0, 1)
    agent.act(1)
    assert agent.episode == 2
    agent.observe(1, 0, 1.0, 0)
    agent.act(0)
    assert (agent.episode, agent.episode_start) == (3, 4)


@pytest.mark.parametrize("delta", [0.0, 5e-324, 1.0, -1, 2, True, None, "0.1", float("nan")])
def test_a_bad_delta_is_rejected(delta: Any) -> None:
    makers: list[Any] = [
        lambda: sm.agents.UCRL2(2, 2, delta=delta),
        lambda: sm.agents.SWUCRL(2, 2, window=10, delta=delta),
        lambda: sm.agents.UCRL2R(2, 2, changes=1, delta=delta),
        lambda: sm.agents.UCRL2RW(2, 2, period=10, delta=delta),
        lambda: sm.agents.OracleUCRL2(2, 2, change_points=[5], delta=delta),
    ]
    for make in makers:
        with pytest.raises(InvalidParameter, match="delta"):
            make()


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "3", None])
def test_bad_sizes_periods_and_schedules_are_rejected(bad: Any) -> None:
    calls: list[tuple[Any, str]] = [
        (lambda: sm.agents.UCRL2(bad, 2), "n_states"),
        (lambda: sm.agents.UCRL2(2, bad), "n_actions"),
        (lambda: sm.agents.SWUCRL(2, 2, window=bad), "window"),
        (lambda: sm.agents.UCRL2RW(2, 2, period=bad), "period"),
        (lambda: sm.agents.OracleUCRL2(2, 2, change_points=[bad]), "change_points"),
    ]
    if bad is not None:
        calls.append((lambda: sm.agents.UCRL2R(2, 2, changes=1, segments=bad), "segments"))
    for call, field in calls:
        with pytest.raises(InvalidParameter, match=field):
            call()
    with pytest.raises(InvalidParameter, match="change_points"):
        Told([5, 5])


def test_errors_name_the_value_and_what_is_allowed() -> None:
    agent = sm.agents.UCRL2(4, 3, available=MASK)
    with pytest.raises(InvalidState, match="state must be an integer from 0 to 3, got 4"):
        agent.act(4)
    with pytest.raises(InvalidAction, match=r"one of \[0, 2\], got 1"):
        agent.observe(0, 1, 0.5, 0)
    with pytest.raises(InvalidReward, match=r"a finite number in \[0, 1\], got 1.5"):
        agent.observe(0, 0, 1.5, 0)
    with pytest.raises(InvalidState, match="next_state"):
        agent.observe(0, 0, 0.5, -1)
    assert agent.t == 1


@pytest.mark.parametrize("segments", [1, 2, 3, 5, 17])
def test_the_cubic_schedule_is_that_of_the_theorem(segments: int) -> None:
    rule, t, times = Cubic(segments), 1, []
    while (t := rule.after(t)) <= 20_000:
        times.append(t)
    assert times == sm.theory.restart_times(horizon=20_000, segments=segments).tolist()


def test_numpy_scalars_are_accepted() -> None:
    agent: Any = sm.agents.UCRL2(np.int64(4), np.int32(3))
    action = agent.act(np.int64(1))
    agent.observe(np.int32(1), np.int8(action), np.float32(0.5), np.uint8(2))
    assert agent.visits.sum() == 1


@pytest.mark.parametrize(
    ("name", "component"),
    [
        ("memory", 100), ("memory", Window), ("memory", L1Ball(0.1)), ("plausible", 0.1),
        ("plausible", Window(5)), ("restarts", None), ("episodes", 5),
    ],
)  # fmt: skip
def test_a_value_that_is_not_a_component_is_rejected_by_name(name: str, component: Any) -> None:
    parts: dict[str, Any] = {"memory": Window(5), "plausible": L1Ball(0.1), "restarts": Never()}
    with pytest.raises(InvalidParameter, match=name):
        Episodic(3, 2, **{**parts, name: component})


def test_a_component_belongs_to_one_agent() -> None:
    window = Window(50)
    first = Episodic(3, 2, memory=window, plausible=L1Ball(0.1), restarts=Never())
    first.observe(0, 0, 1.0, 1)
    with pytest.raises(InvalidParameter, match="an agent already uses this object"):
        Episodic(3, 2, memory=window, plausible=L1Ball(0.1), restarts=Never())
    assert first.visits.sum() == 1


@pytest.mark.parametrize(
    "times",
    [np.array([9, 5], np.uint64), np.array([2**63 + 5], np.uint64), [[1], [2, 3]], [1], "ab"],
)
def test_restart_times_that_do_not_increase_are_rejected(times: Any) -> None:
    with pytest.raises(InvalidParameter, match="change_points"):
        sm.agents.OracleUCRL2(3, 2, change_points=times)


def test_before_the_first_episode_there_is_no_gain() -> None:
    agent = sm.agents.UCRL2(3, 2)
    assert np.isnan(agent.gain)
    agent.act(0)
    assert agent.gain == 1.0


def test_sizes_are_read_only_and_only_grow_changes_them() -> None:
    agent: Any = sm.agents.SWUCRL(4, 3, window=50)
    for size, value in (("n_states", 40), ("n_actions", 2)):
        with pytest.raises(InvalidParameter, match=f"{size} must be .*, got {value}"):
            setattr(agent, size, value)
    with pytest.raises(InvalidState):
        agent.observe(39, 2, 1, 39)
    assert (agent.n_states, agent.n_actions) == (4, 3)
    agent.grow(6, 3)
    assert (agent.n_states, agent.n_actions) == (6, 3)


def test_a_parameter_of_the_constructor_cannot_be_assigned_later() -> None:
    agent: Any = sm.agents.SWUCRL(5, 3, window=100)
    allowed = r"window must be set when the agent is made: SWUCRL\(..., window=...\), got 7"
    with pytest.raises(InvalidParameter, match=allowed):
        agent.window = 7
    with pytest.raises(AttributeError, match=r"no attribute 'window'; it has memory\.window$"):
        _ = agent.window
    assert not hasattr(agent, "window")
    assert agent.memory.window == 100
    field: Any = sm.agents.QLearning(5, 3, span=50.0)
    field.span = 20.0  # a field of the agent itself
    assert field.span == 20.0


@pytest.mark.parametrize("name", AGENTS)
def test_no_agent_has_a_parameter_whose_assignment_is_ignored(name: str) -> None:
    cls: Any = AGENTS[name]
    for parameter in inspect.signature(cls).parameters:
        is_field = parameter in fields_of(cls)
        assert is_field or hasattr(inspect.getattr_static(cls, parameter), "__set__")


class Labelled(sm.agents.SWUCRL):
    """An agent of a user, with attributes that the base class does not allow."""

    def __init__(self, n_states: int, n_actions: int, window: int) -> None:
        self.window = window
        super().__init__(n_states, n_actions, window=window)
        self.delta = 0.5


def test_a_users_subclass_may_have_attributes_of_these_names() -> None:
    agent = copy.deepcopy(pickle.loads(pickle.dumps(Labelled(5, 3, 70))))
    assert (agent.window, agent.delta) == (70, 0.5)
    agent.window = 80
    assert (agent.window, agent.memory.window) == (80, 70)
    assert {"window", "delta"} <= set(vars(agent))


@pytest.mark.parametrize("changes", [[50_000], np.array([10, 20]), ()])
def test_a_list_of_change_points_is_not_a_number_of_changes(changes: Any) -> None:
    with pytest.raises(InvalidParameter, match=r"changes must be a number \(OracleUCRL2, Ora"):
        sm.agents.UCRL2R(5, 3, changes=changes)
