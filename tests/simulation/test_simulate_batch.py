"""A batch gives the records of single runs, byte for byte."""

from __future__ import annotations

import copy
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp import concurrency
from switchmdp.agents.protocol import Agent
from switchmdp.compiled import compiled
from switchmdp.errors import Interrupted, InvalidAction, InvalidParameter, Mismatch, SharedAgent
from switchmdp.randomness import run_seed, stream, streams_of_runs
from switchmdp.simulation import batch as batch_module

HORIZON = 3000


class Cyclic:
    """A plain Python agent: the actions in turn."""

    def __init__(self) -> None:
        self.action = 0

    def act(self, state: int) -> int:
        return self.action

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.action = (action + 1) % 3


@pytest.fixture(scope="module")
def problems() -> list[sm.SwitchingMDP]:
    make = sm.problems.random_switching
    return [make(5, 3, changes=i, horizon=HORIZON, seed=i) for i in range(6)]


@compiled
class OddSeed(Agent):
    """A compiled agent whose only action depends on its seed."""

    action: int

    def __init__(self, n_states: int, n_actions: int) -> None:
        Agent.__init__(self, n_states, n_actions)
        self.action = 0

    def reseed(self, seed: Any) -> None:
        self.action = int(stream(seed)[0] % np.uint64(2))

    def act(self, state: int) -> int:
        return self.action

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        pass


def agents() -> list[Any]:
    """Of different classes: with draws of their own, with growing arrays, and plain Python."""
    return [
        sm.agents.SWUCRL(5, 3, window=300), sm.agents.SWUCRL(5, 3, window=7),
        sm.agents.Random(5, 3), sm.agents.EvidencePSRL(5, 3), sm.agents.UCRL2(5, 3), Cyclic(),
    ]  # fmt: skip


def content(record: sm.Record) -> tuple[Any, ...]:
    """All that a record holds, as bytes and numbers."""
    arrays = [record.times, record.regret, record.pseudo_regret, *record.words]
    for part in (record.episodes, record.trajectory):
        arrays += [] if part is None else list(vars(part).values())
    values = (record.agent, record.agent_t, record.seed, record.every, record.final_state)
    return *values, record.position, *(array.tobytes() for array in arrays)


@pytest.mark.parametrize(
    "options",
    [{}, {"every": 7, "initial_state": 2}, {"episodes": True, "trajectory": True}],
    ids=str,
)
def test_records_equal_those_of_single_runs(
    options: dict[str, Any], problems: list[sm.SwitchingMDP]
) -> None:
    seeds = [3, 3, 2**40, 2**62, 0, 1]
    batch = sm.simulate_batch(agents(), problems, HORIZON, seeds, **options)
    singles = [
        sm.simulate(agent, problem, HORIZON, seed, **options)
        for agent, problem, seed in zip(agents(), problems, seeds, strict=True)
    ]
    for record, single in zip(batch, singles, strict=True):
        assert content(record) == content(single)
    assert np.array_equal(batch.regret, [single.regret for single in singles])
    assert np.array_equal(batch.pseudo_regret, [single.pseudo_regret for single in singles])
    assert (batch.seconds > 0.0).all()


def test_agents_learn_the_same_as_in_single_runs(problems: list[sm.SwitchingMDP]) -> None:
    one, other = agents()[:5], agents()[:5]
    sm.simulate_batch(one, problems[:5], HORIZON)
    for i, agent in enumerate(other):
        sm.simulate(agent, problems[i], HORIZON, seed=i)
    more = sm.simulate_batch(one, problems[0], 500, experienced=True)
    for i, agent in enumerate(other):
        again = sm.simulate(agent, problems[0], 500, seed=i, experienced=True)
        assert content(again) == content(more[i])


def test_a_record_of_a_batch_can_be_resumed(problems: list[sm.SwitchingMDP]) -> None:
    (agent, other), problem = agents()[:2], problems[3]
    batch = sm.simulate_batch([agent, other], problem, 1000, [5, 6], every=10)
    resumed = sm.simulate(other, problem, HORIZON, resume=batch[1])
    whole = sm.simulate(agents()[1], problem, HORIZON, 6, every=10)
    assert content(resumed) == content(whole)


def test_one_problem_and_consecutive_seeds_are_the_default(
    problems: list[sm.SwitchingMDP],
) -> None:
    mdp = problems[0].configuration(0)
    batch = sm.simulate_batch(agents()[:3], mdp, 200)
    assert [record.seed for record in batch] == [0, 1, 2]
    assert content(batch[1]) == content(sm.simulate(agents()[1], mdp, 200, 1))


TEMPLATES: list[Callable[[], Any]] = [
    lambda: sm.agents.SWUCRL(5, 3, window=7),
    lambda: sm.agents.EvidencePSRL(5, 3),
    lambda: sm.agents.Random(5, 3, seed=9),
    Cyclic,
]


@pytest.mark.parametrize("make", TEMPLATES, ids=["window", "draws", "every step", "plain Python"])
@pytest.mark.parametrize("options", [{}, {"episodes": True, "trajectory": True}], ids=str)
def test_copies_of_one_agent_give_the_records_of_single_runs(
    make: Callable[[], Any], options: dict[str, Any], problems: list[sm.SwitchingMDP]
) -> None:
    agent, seeds = make(), [5, 2**40, 5, 0, 1, 2]
    batch = sm.simulate_batch(agent, problems, HORIZON, seeds, every=7, **options)
    for i, (problem, seed) in enumerate(zip(problems, seeds, strict=True)):
        single = sm.simulate(make(), problem, HORIZON, seed, every=7, **options)
        assert content(batch[i]) == content(single)
    assert content(sm.simulate(agent, problems[0], 100)) == content(
        sm.simulate(make(), problems[0], 100)
    )


def test_a_call_that_is_cut_short_continues_with_the_copy(problems: list[sm.SwitchingMDP]) -> None:
    """Episodes fill the room of their log, and the flag is set, in the middle of runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_module, "ROOM", 1)
        patch.setattr(concurrency, "INTERVAL", 0.002)
        agent = sm.agents.EvidencePSRL(5, 3)
        cut = sm.simulate_batch(agent, problems[0], 200_000, range(4), episodes=True)
    for seed, record in enumerate(cut):
        single = sm.simulate(
            sm.agents.EvidencePSRL(5, 3), problems[0], 200_000, seed, episodes=True
        )
        assert content(record) == content(single)


def test_an_agent_whose_seed_sets_more_than_its_random_words_is_copied_in_python() -> None:
    problem = sm.problems.random_mdp(4, 2, seed=0)
    batch = sm.simulate_batch(OddSeed(4, 2), problem, 50, range(3))
    for seed in range(3):
        assert content(batch[seed]) == content(sm.simulate(OddSeed(4, 2), problem, 50, seed))
    assert len({record.regret.tobytes() for record in batch}) > 1


def test_an_empty_batch_has_no_records(problems: list[sm.SwitchingMDP]) -> None:
    batch = sm.simulate_batch([], problems[0], 10)
    assert len(batch) == 0
    assert batch.regret.shape == (0, 10)


def test_progress_counts_the_steps_of_all_runs(problems: list[sm.SwitchingMDP]) -> None:
    calls: list[tuple[int, int]] = []
    sm.simulate_batch(
        agents(), problems, HORIZON, progress=lambda done, total: calls.append((done, total))
    )
    assert calls[-1] == (6 * HORIZON, 6 * HORIZON)
    assert calls == sorted(calls)


def test_bad_input_is_rejected_before_any_agent_changes(problems: list[sm.SwitchingMDP]) -> None:
    fresh = agents()
    with pytest.raises(InvalidParameter, match="seeds"):
        sm.simulate_batch(fresh, problems, 100, [1, 2])
    with pytest.raises(InvalidParameter, match="one problem for each of the 6 runs"):
        sm.simulate_batch(fresh, problems[:2], 100)
    wrong: Any
    for wrong in (5, "agents", sm.agents.SWUCRL):
        with pytest.raises(InvalidParameter, match="an agent, or a list with one agent"):
            sm.simulate_batch(wrong, problems, 100)
    with pytest.raises(InvalidParameter, match="one agent with a list of problems or seeds"):
        sm.simulate_batch(fresh[0], problems[0], 100)
    for wrong in (3, "12345", 1.5):
        with pytest.raises(InvalidParameter, match="a list with one seed"):
            sm.simulate_batch(fresh, problems, 100, wrong)
    for wrong in (None, 7):
        with pytest.raises(InvalidParameter, match="a problem, or a list with one for each run"):
            sm.simulate_batch(fresh, wrong, 100)
    with pytest.raises(InvalidParameter, match="a separate agent for each run"):
        sm.simulate_batch([fresh[0], fresh[0]], problems[0], 100)
    with pytest.raises(Mismatch, match="n_states"):
        sm.simulate_batch([fresh[0], sm.agents.UCRL2(4, 3)], problems[0], 100)
    used = sm.agents.UCRL2(5, 3)
    sm.simulate(used, problems[0], 10)
    with pytest.raises(Mismatch, match="already run 10 steps"):
        sm.simulate_batch([fresh[0], used], problems[0], 100)
    assert content(sm.simulate(fresh[0], problems[0], 100, 9)) == content(
        sm.simulate(agents()[0], problems[0], 100, 9)
    )


def test_an_invalid_action_is_reported(problems: list[sm.SwitchingMDP]) -> None:
    bad = Cyclic()
    bad.action = 3
    with pytest.raises(InvalidAction, match="chose in state 0"):
        sm.simulate_batch([agents()[0], bad], problems[0], 100)


def test_an_agent_that_is_in_use_is_rejected(problems: list[sm.SwitchingMDP]) -> None:
    class Elsewhere(Cyclic):
        def act(self, state: int) -> int:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(sm.simulate_batch, [self], problems[0], 1).result()
            return 0

    with pytest.raises(SharedAgent):
        sm.simulate_batch([Elsewhere()], problems[0], 10)


def test_ctrl_c_keeps_the_records_before_and_the_interrupted_one(
    problems: list[sm.SwitchingMDP],
) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    class Slow(Cyclic):
        def act(self, state: int) -> int:
            time.sleep(0.001)
            return super().act(state)

    slow, not_begun = Slow(), Cyclic()
    fast = agents()[0]
    with pytest.raises(Interrupted) as caught:
        sm.simulate_batch([fast, slow, not_begun], problems[0], 500, every=1, progress=stop)
    error = caught.value
    assert [record.horizon for record in error.before] == [500]
    assert 0 < error.record.horizon < 500
    assert not_begun.action == 0
    resumed = sm.simulate(slow, problems[0], 500, resume=error.record)
    assert content(resumed)[5:] == content(sm.simulate(Cyclic(), problems[0], 500, 1, every=1))[5:]


@pytest.mark.parametrize("key", [0, 1, 2])
def test_streams_of_runs_equal_those_of_numpys_seed_sequences(key: int) -> None:
    seeds = [0, 1, 12345, 2**32 - 1, 2**32, 2**64 + 17, 2**127 + 3]
    expected = [stream(run_seed(seed, key)) for seed in seeds]
    assert np.array_equal(streams_of_runs(seeds)[key], expected)
    spawned = np.random.SeedSequence(12345).spawn(3)[key]
    assert np.array_equal(expected[2], stream(spawned))


def test_records_of_compiled_agents_can_be_pickled_and_copied() -> None:
    problem = sm.problems.random_switching(4, 3, changes=1, horizon=50, seed=0)
    records = sm.simulate_batch(
        sm.agents.Random(4, 3), problem, 50, [1, 2], trajectory=True, episodes=True
    )
    for twin in (pickle.loads(pickle.dumps(records)), copy.deepcopy(records)):
        assert np.array_equal(twin.regret, records.regret)
        assert list(twin) == list(records)
