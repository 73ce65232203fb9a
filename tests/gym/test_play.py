"""Any agent on any discrete environment: what the agent observes, and errors of environments."""

from __future__ import annotations

import signal
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
import pytest
from tests.agents.saving_helpers import contents

import switchmdp as sm
from switchmdp.errors import (
    InvalidAction,
    InvalidEnvironment,
    InvalidParameter,
    Mismatch,
    PlayInterrupted,
)
from switchmdp.gym import SwitchingEnv, make_env, play, to_mdp

FAILS_AT = 8
HUGE = 10**400


class Scripted(gymnasium.Env[Any, Any]):
    """Returns or raises `results[i]` at step i; after the last step, the last result again."""

    def __init__(
        self, *results: Any, n_states: int = 4, n_actions: int = 2, start: int = 0,
        first_action: int = 0, resets: Any = ((0, {}),),
    ) -> None:  # fmt: skip
        self.observation_space = gymnasium.spaces.Discrete(n_states, start=start)
        self.action_space = gymnasium.spaces.Discrete(n_actions, start=first_action)
        self.results, self.resets = results, resets
        self.steps, self.times_reset = 0, 0
        self.actions: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.times_reset += 1
        return _returned_or_raised(self.resets[min(self.times_reset, len(self.resets)) - 1])

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.actions.append(action)
        return _returned_or_raised(self.results[min(self.steps, len(self.results)) - 1])


def _returned_or_raised(result: Any) -> Any:
    if isinstance(result, BaseException):
        raise result
    return result


class Recorder:
    """An agent that always takes the same action, and records its states and observations."""

    n_states, n_actions = 4, 2

    def __init__(self, action: Any = 1) -> None:
        self.action = action
        self.states: list[int] = []
        self.observed: list[tuple[Any, ...]] = []

    def act(self, state: int) -> Any:
        self.states.append(state)
        return self.action

    def observe(self, *step: Any) -> None:
        self.observed.append(step)


class Watched(sm.agents.SWUCRL):
    """Keeps its state from right after its last action."""

    after_act = ""  # without an annotation, as it is no field of the agent

    def act(self, state: int) -> int:
        action = super().act(state)
        self.after_act = state_of(self)
        return action


def state_of(agent: Any) -> str:
    return repr(contents(agent))


def fine(state: Any = 1, reward: Any = 0.5, *flags: bool) -> tuple[Any, ...]:
    terminated, truncated = flags or (False, False)
    return state, reward, terminated, truncated, {}


class Nothing:
    """Neither a state nor a reward; its repr is the same in every process."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = Nothing()

BAD_REWARDS: list[Any] = [
    float("nan"), float("inf"), -float("inf"), None, "0.5", "", b"1", 0.5 + 0j, True, False,
    np.bool_(True), np.array(0.5), np.array([0.5]), np.array([0.5, 0.5]), [0.5], (0.5,), {},
    NOTHING, np.float64("nan"), np.float32("inf"), np.complex128(0.5), HUGE, -HUGE, Fraction(HUGE),
    1.0000001, -1e-9, 2, np.int64(-1), np.str_("1"), np.datetime64("2020-01-01"),
]  # fmt: skip
BAD_STATES: list[Any] = [
    4, -1, HUGE, -HUGE, 2**63, np.int64(4), np.uint8(255), 1.0, 0.5, float("nan"), np.float64(1.0),
    True, np.bool_(True), np.array([1]), np.array([1, 2]), np.array(1.0), np.array(True),
    np.array([]), None, "1", b"1", [1], (1,), {"state": 1}, 1 + 0j, NOTHING,
]  # fmt: skip
BAD_FLAGS: list[Any] = [
    0,
    1,
    None,
    "False",
    0.0,
    np.array([False]),
    np.array(True),
    [],
    np.int64(0),
]
BAD_ANSWERS: list[Any] = [
    None, 1, "step", (), (1,), (1, 0.5, False, {}), (1, 0.5, False, False, {}, {}),
    [1, 0.5, False, False, {}], np.zeros(5), {"state": 1}, (1, 0.5, False, False, None),
    (1, 0.5, False, False, []), (0.5, 1, False, False, {}), ({}, 0.5, False, False, 1),
]  # fmt: skip
ERRORS: list[Any] = [
    RuntimeError("broken"), ValueError(), KeyError(3), ZeroDivisionError(), AssertionError("no"),
    StopIteration(), RecursionError(), MemoryError(), NotImplementedError(), EOFError(),
    TypeError("step() takes 1 positional argument"), gymnasium.error.ResetNeeded("reset first"),
]  # fmt: skip
BAD_RESETS: list[Any] = [
    0, None, (0,), (0, {}, {}), [0, {}], (0, None), (4, {}), (-1, {}), (0.0, {}), (True, {}),
    (None, {}), (np.array([0]), {}), ("0", {}), ({}, 0),
]  # fmt: skip
BAD_STEPS = [
    *(fine(reward=reward) for reward in BAD_REWARDS),
    *(fine(state=state) for state in BAD_STATES),
    *((1, 0.5, flag, False, {}) for flag in BAD_FLAGS),
    *((1, 0.5, False, flag, {}) for flag in BAD_FLAGS),
    *BAD_ANSWERS,
    *ERRORS,
]


def rejected_in_its_step(env: Scripted, steps: int = 50) -> InvalidEnvironment:
    """The error; it is raised in the same step, and the agent is unchanged."""
    agent = Watched(4, 2, window=20, delta=0.1)
    with pytest.raises(InvalidEnvironment) as caught:
        play(agent, env, steps, seed=0)
    assert env.steps == FAILS_AT
    assert agent.t == FAILS_AT
    assert state_of(agent) == agent.after_act
    return caught.value


def test_at_least_forty_bad_steps_are_tested() -> None:
    assert len(BAD_STEPS) >= 40


@pytest.mark.parametrize("bad", BAD_STEPS, ids=lambda bad: f"{type(bad).__name__}-{bad!r:.60}")
def test_an_invalid_step_is_rejected_and_the_agent_is_unchanged(bad: Any) -> None:
    error = rejected_in_its_step(Scripted(*[fine()] * (FAILS_AT - 1), bad, fine()))
    if isinstance(bad, Exception):
        assert error.__cause__ is bad
        assert type(bad).__name__ in str(error)


@pytest.mark.parametrize("bad", [*BAD_RESETS, *ERRORS], ids=lambda bad: f"{bad!r:.60}")
@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_a_bad_reset_is_rejected_in_the_step_that_needed_it(bad: Any, flags: Any) -> None:
    results = [*[fine()] * (FAILS_AT - 1), fine(1, 0.5, *flags)]
    rejected_in_its_step(Scripted(*results, resets=((0, {}), bad)))


@pytest.mark.parametrize("bad", [*BAD_RESETS, *ERRORS], ids=lambda bad: f"{bad!r:.60}")
def test_a_bad_first_reset_is_rejected_before_the_agent_acts(bad: Any) -> None:
    agent = sm.agents.SWUCRL(4, 2, window=20)
    before = state_of(agent)
    with pytest.raises(InvalidEnvironment, match=r"reset|observation"):
        play(agent, Scripted(fine(), resets=(bad,)), 10)
    assert state_of(agent) == before


def test_after_an_error_the_agent_can_play_another_environment() -> None:
    agent = sm.agents.SWUCRL(6, 2, window=20)
    with pytest.raises(InvalidEnvironment):
        play(agent, Scripted(fine(), fine(reward=None), n_states=6), 5)
    assert len(play(agent, make_env("riverswim"), 20, seed=0).rewards) == 20
    assert agent.t == 22


def test_an_interruption_is_not_an_error_of_the_environment() -> None:
    with pytest.raises(KeyboardInterrupt):
        play(Recorder(), Scripted(fine(), KeyboardInterrupt()), 5)


@pytest.mark.parametrize(
    "reward",
    [0, 1, 0.25, np.float32(0.5), np.float64(1.0), np.float16(0.5), np.int64(1), np.uint8(0),
     Fraction(1, 2)],
)  # fmt: skip
def test_numbers_of_any_kind_are_rewards(reward: Any) -> None:
    agent = Recorder()
    assert play(agent, Scripted(fine(reward=reward)), 1).rewards.tolist() == [float(reward)]
    assert agent.observed[0][2] == float(reward)
    assert type(agent.observed[0][2]) is float


@pytest.mark.parametrize(
    "state", [2, np.int64(2), np.int8(2), np.uint64(2), np.array(2), np.array(2, np.uint8)]
)
def test_integers_of_any_kind_are_states(state: Any) -> None:
    agent = Recorder()
    play(agent, Scripted(fine(state=state)), 2)
    assert agent.states == [0, 2]
    assert all(type(state) is int for state in agent.states)


def test_numpy_booleans_are_accepted_as_flags() -> None:
    result: Any = (1, 0.5, np.bool_(True), np.bool_(False), {})
    assert play(Recorder(), Scripted(result), 3).resets.tolist() == [1, 2, 3]


def test_spaces_that_start_elsewhere_count_from_zero_for_the_agent() -> None:
    env = Scripted(fine(12), fine(10), fine(13), start=10, first_action=-5, resets=((11, {}),))
    agent = Recorder(action=1)
    play(agent, env, 3)
    assert agent.states == [1, 2, 0]
    assert agent.observed == [(1, 1, 0.5, 2), (2, 1, 0.5, 0), (0, 1, 0.5, 3)]
    assert env.actions == [-4, -4, -4]
    for outside in (9, 14, 0):
        with pytest.raises(InvalidEnvironment, match="from 10 to 13"):
            play(Recorder(), Scripted(fine(outside), start=10, resets=((10, {}),)), 1)


def test_on_termination_the_action_led_to_the_reset_state() -> None:
    env = Scripted(fine(1), fine(2, 1.0, True, False), fine(3), resets=((0, {}), (3, {})))
    agent = Recorder()
    played = play(agent, env, 3)
    assert agent.observed == [(0, 1, 0.5, 1), (1, 1, 1.0, 3), (3, 1, 0.5, 3)]
    assert agent.states == [0, 1, 3]
    assert played.resets.tolist() == [2]
    assert env.times_reset == 2


def test_nothing_is_learned_across_a_truncation() -> None:
    env = Scripted(fine(1), fine(2, 1.0, False, True), fine(3), resets=((0, {}), (3, {})))
    agent = Recorder()
    played = play(agent, env, 3)
    assert agent.observed == [(0, 1, 0.5, 1), (1, 1, 1.0, 2), (3, 1, 0.5, 3)]
    assert agent.states == [0, 1, 3]
    assert played.resets.tolist() == [2]


def test_an_episode_that_is_terminated_and_truncated_counts_as_terminated() -> None:
    env = Scripted(fine(2, 1.0, True, True), resets=((0, {}), (3, {})))
    agent = Recorder()
    play(agent, env, 1)
    assert agent.observed == [(0, 1, 1.0, 3)]


def test_rewards_are_mapped_from_their_range() -> None:
    agent = Recorder()
    results = [fine(reward=reward) for reward in (-10, 0, 5.0, 10)]
    played = play(agent, Scripted(*results), 4, reward_range=(-10, 10))
    assert [step[2] for step in agent.observed] == [0.0, 0.5, 0.75, 1.0]
    assert played.rewards.tolist() == [-10, 0, 5, 10]
    assert played.mean_reward == 1.25


def test_a_reward_out_of_its_range_is_an_error_or_clipped() -> None:
    results = [fine(reward=reward) for reward in (-100, 0, 11, 1e300, 10**30)]
    with pytest.raises(
        InvalidEnvironment, match=r"reward_range = \(-10.0, 10.0\) \(or pass clip=True\)"
    ):
        play(Recorder(), Scripted(*results), 5, reward_range=(-10, 10))
    agent = Recorder()
    played = play(agent, Scripted(*results), 5, reward_range=(-10, 10), clip=True)
    assert [step[2] for step in agent.observed] == [0.0, 0.5, 1.0, 1.0, 1.0]
    assert played.rewards.tolist() == [-100, 0, 11, 1e300, 1e30]


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None, "1", HUGE])
def test_clipping_accepts_only_numbers(reward: Any) -> None:
    with pytest.raises(InvalidEnvironment):
        play(Recorder(), Scripted(fine(reward=reward)), 1, clip=True)


@pytest.mark.parametrize("low", [0.1, -0.3, 1e-300, -1e300])
def test_the_ends_of_a_range_are_0_and_1_exactly(low: float) -> None:
    high = low + max(1.0, abs(low) / 3)
    agent = Recorder()
    play(agent, Scripted(fine(reward=low), fine(reward=high)), 2, reward_range=(low, high))
    assert [step[2] for step in agent.observed] == [0.0, 1.0]


BAD_RANGES: list[Any] = [
    (1, 0), (0, 0), (0,), (0, 1, 2), None, 1, "01", (0, "1"), (None, None), (float("nan"), 1),
    (0, float("inf")), (-1e308, 1e308), (0, HUGE), (False, True),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD_RANGES)
def test_a_range_is_two_finite_numbers_in_order(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="reward_range must be") as caught:
        play(Recorder(), Scripted(fine()), 1, reward_range=bad)
    assert caught.value.field == "reward_range"


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"steps": 0}, "steps"), ({"steps": 1.5}, "steps"), ({"steps": True}, "steps"),
        ({"seed": -1}, "seed"), ({"seed": "0"}, "seed"), ({"clip": "no"}, "clip"),
    ],
)  # fmt: skip
def test_invalid_parameters_are_named(parameters: dict[str, Any], field: str) -> None:
    env = Scripted(fine())
    with pytest.raises(InvalidParameter) as caught:
        play(Recorder(), env, **{"steps": 5, **parameters})
    assert caught.value.field == field
    assert env.times_reset == 0


def test_agent_and_environment_must_have_the_same_sizes() -> None:
    for agent in (sm.agents.UCRL2(5, 2), sm.agents.UCRL2(4, 3)):
        env = Scripted(fine())
        with pytest.raises(Mismatch, match="the agent has n_"):
            play(agent, env, 5)
        assert env.times_reset == 0


def test_spaces_must_be_discrete() -> None:
    env = Scripted(fine())
    env.observation_space = gymnasium.spaces.Box(0, 1)
    with pytest.raises(InvalidParameter, match="observation_space must be a Discrete space"):
        play(Recorder(), env, 5)
    env = Scripted(fine())
    env.action_space = gymnasium.spaces.MultiDiscrete([2, 2])
    with pytest.raises(InvalidParameter, match="action_space must be a Discrete space"):
        play(Recorder(), env, 5)


@pytest.mark.parametrize("env", [None, "FrozenLake-v1", Scripted, sm.agents.UCRL2(3, 2)])
def test_the_error_for_an_object_that_is_no_environment_says_so(env: Any) -> None:
    for use in (lambda: play(Recorder(), env, 5), lambda: to_mdp(env)):
        with pytest.raises(InvalidParameter, match="env must be a Gymnasium environment, such as"):
            use()


def test_for_a_problem_the_error_names_the_class_that_makes_it_an_environment() -> None:
    problem: Any = sm.problems.riverswim()
    with pytest.raises(InvalidParameter, match=r"env must be .*, here SwitchingEnv\(problem\)"):
        play(Recorder(), problem, 5)


@pytest.mark.parametrize("action", [2, -1, 1.0, None, True, "1"])
def test_an_agents_bad_action_never_reaches_the_environment(action: Any) -> None:
    env = Scripted(fine())
    with pytest.raises(InvalidAction, match="the agent's action"):
        play(Recorder(action), env, 5)
    assert env.steps == 0


def test_progress_is_called_every_thousand_steps_and_at_the_end() -> None:
    calls: list[tuple[int, int]] = []
    note: Callable[[int, int], None] = lambda done, steps: calls.append((done, steps))  # noqa: E731
    play(Recorder(), Scripted(fine()), 2500, progress=note)
    assert calls == [(1000, 2500), (2000, 2500), (2500, 2500)]


def with_gaps() -> sm.MDP:
    available = [[True, False, True], [False, True, True]]
    rewards = [[0.2, 0.0, 0.4], [0.0, 0.9, 0.1]]
    return sm.MDP([[[0.5, 0.5]] * 3, [[0.5, 0.5]] * 3], rewards, available=available)


def test_an_agent_for_the_available_actions_takes_only_those() -> None:
    mdp = with_gaps()
    agent = sm.agents.UCRL2(2, 3, available=mdp.available)
    play(agent, SwitchingEnv(mdp), 200, seed=0)
    assert agent.visits.sum() == 200
    assert (agent.visits[~mdp.available] == 0).all()


def test_an_agent_with_unavailable_actions_is_rejected() -> None:
    agent = sm.agents.UCRL2(2, 3)
    with pytest.raises(Mismatch, match=r"action 1 in state 0, .* available="):
        play(agent, SwitchingEnv(with_gaps()), 200)
    assert agent.t == 1


def test_an_unavailable_action_of_a_plain_agent_raises_invalid_action() -> None:
    class TakesOne(Recorder):
        n_states, n_actions = 2, 3

    agent = TakesOne(action=1)
    with pytest.raises(InvalidAction, match="action in state 0 must be one of"):
        play(agent, SwitchingEnv(with_gaps()), 5)
    assert agent.observed == []


def test_the_same_seed_gives_the_same_rewards() -> None:
    runs = [
        play(
            sm.agents.UCRL2(16, 4), gymnasium.make("FrozenLake-v1"), 300, seed=seed
        ).resets.tolist()
        for seed in (1, 1, 2)
    ]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


class Seeded:
    """Records its seed."""

    n_states, n_actions = 6, 2

    def __init__(self) -> None:
        self.seeds: list[np.random.SeedSequence] = []

    def reseed(self, seed: np.random.SeedSequence) -> None:
        self.seeds.append(seed)

    def act(self, state: int) -> int:
        return 0

    def observe(self, *step: Any) -> None: ...


def test_the_agent_is_seeded_as_in_a_simulation() -> None:
    played, simulated, unseeded = Seeded(), Seeded(), Seeded()
    play(played, make_env("riverswim"), 1, seed=5)
    sm.simulate(simulated, sm.problems.riverswim(), 1, seed=5)
    play(unseeded, make_env("riverswim"), 1)
    states = [agent.seeds[0].generate_state(4).tolist() for agent in (played, simulated)]
    assert states[0] == states[1]
    assert len(played.seeds) == 1
    assert unseeded.seeds == []


def test_replications_of_a_random_agent_differ() -> None:
    """The environment always does the same, so that only the agent's own draws differ."""

    def actions(seed: int) -> list[Any]:
        env = Scripted(fine())
        play(sm.agents.Random(4, 2, seed=0), env, 50, seed=seed)
        return env.actions

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)


def test_ctrl_c_stops_between_two_steps() -> None:
    agent = sm.agents.UCRL2(6, 2)
    steps = 0

    def interrupt(done: int, steps_in_all: int) -> None:
        nonlocal steps
        if not steps:  # the signal takes effect a little later, perhaps after the next call
            steps = done
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        play(agent, make_env("riverswim"), 10**7, seed=0, progress=interrupt)
    assert agent.t - 1 >= steps == 1000
    assert agent.visits.sum() == agent.t - 1


def test_sw_ucrl_learns_to_cross_a_small_lake() -> None:
    """Two steps lead to the goal, so the optimal gain is 1/2; a random walk earns 1/8."""
    env = gymnasium.make("FrozenLake-v1", desc=["SF", "FG"], is_slippery=False)
    agent = sm.agents.SWUCRL(4, 4, window=20_000, delta=0.1)
    assert play(agent, env, 10_000, seed=0).mean_reward > 0.2


def test_an_interrupted_play_keeps_its_rewards() -> None:
    def stop(done: int, steps: int) -> None:
        raise KeyboardInterrupt

    agent = sm.agents.Random(6, 2)
    with pytest.raises(PlayInterrupted, match=r"after 1,000 of 5,000 steps; error.played") as error:
        play(agent, make_env("riverswim"), 5000, seed=0, progress=stop)
    whole = play(sm.agents.Random(6, 2), make_env("riverswim"), 1000, seed=0)
    assert np.array_equal(error.value.played.rewards, whole.rewards)
    assert np.array_equal(error.value.played.resets, whole.resets)


def test_a_class_in_place_of_an_agent_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="an object with the methods act and observe"):
        play(sm.agents.Random, make_env("riverswim"), 10)
