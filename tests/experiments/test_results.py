"""Results loaded from a folder equal those of direct calls of `simulate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import SeedSequence

import switchmdp as sm
from switchmdp.errors import DamagedFile
from switchmdp.experiments.execute import run_chunks
from switchmdp.experiments.plan import Plan
from switchmdp.experiments.results import Results
from switchmdp.experiments.store import KIND, Store, load_results
from switchmdp.simulation.bad_steps import count_bad_steps
from switchmdp.storage import save_arrays

Small = Callable[..., dict[str, Any]]
Prepare = Callable[..., tuple[Store, Plan]]


@pytest.fixture
def store_and_plan(small: Small, prepare: Prepare, tmp_path: Path) -> tuple[Store, Plan]:
    return prepare(small(every=70, n_problems=3), tmp_path / "out")


@pytest.fixture
def results(store_and_plan: tuple[Store, Plan]) -> Results:
    assert run_chunks(*store_and_plan, jobs=2).complete
    return load_results(store_and_plan[0])


def seed_of(role: int, i: int) -> int:
    """62 bits derived from the experiment's seed, the role and the problem."""
    low, high = SeedSequence(5, spawn_key=(role, i)).generate_state(2)
    return int(low) + int(high) % 2**30 * 2**32


def by_hand(changes: int, i: int, agent: Any) -> tuple[sm.SwitchingMDP, sm.Record]:
    problem = sm.problems.random_switching(3, 2, changes=changes, horizon=300, seed=seed_of(0, i))
    record = sm.simulate(agent, problem, 300, seed=seed_of(1, i), every=70, episodes=True)
    return problem, record


@pytest.mark.parametrize("changes", [1, 2])
@pytest.mark.parametrize("i", range(3))
def test_results_are_what_simulate_gives_with_the_same_seeds(
    results: Results, changes: int, i: int
) -> None:
    setting = results.settings[f"P [changes={changes}]"]
    for name, agent in (("R", sm.agents.Random(3, 2)), ("U", sm.agents.UCRL2(3, 2, delta=0.1))):
        problem, record = by_hand(changes, i, agent)
        runs = setting.agents[name]
        assert runs.regret[i].tolist() == record.regret.tolist()
        assert runs.pseudo_regret[i].tolist() == record.pseudo_regret.tolist()
        assert setting.times.tolist() == record.times.tolist() == [70, 140, 210, 280, 300]
        assert setting.change_points[i].tolist() == problem.change_points.tolist()
        assert setting.gains[i].tolist() == sm.optimal_gains(problem).tolist()
        assert setting.hardness["diameter"][i] == sm.hardness(problem).diameter
    episodes = record.episodes
    assert episodes is not None
    assert setting.agents["U"].episodes[i] == len(episodes)
    assert setting.agents["U"].sweeps[i] == episodes.sweeps.sum()
    assert setting.agents["U"].bad_steps[i] == count_bad_steps(record, problem, 0.05)


def test_an_agent_without_episodes_has_the_count_minus_one(results: Results) -> None:
    runs = results.settings["P [changes=1]"].agents["R"]
    assert runs.episodes.tolist() == runs.sweeps.tolist() == [-1] * 3
    assert np.isnan(runs.bad_steps).all()
    assert runs.restarts == (None,) * 3


def test_restarts_are_stored_for_each_run(small: Small, prepare: Prepare, tmp_path: Path) -> None:
    period = {"agent": "ucrl2-rw", "parameters": {"period": {"sweep": [100, 299, 1000]}}}
    store, plan = prepare(small(agents={"P": period}), tmp_path / "out")
    assert run_chunks(store, plan, jobs=1).complete
    agents = load_results(store).settings["P [changes=1]"].agents
    restarts = [
        [steps.tolist() for steps in runs.restarts if steps is not None] for runs in agents.values()
    ]
    assert restarts == [[[101, 201]] * 4, [[300]] * 4, [[]] * 4]


def test_results_have_their_shapes_names_and_parameters(results: Results) -> None:
    assert list(results.settings) == ["P [changes=1]", "P [changes=2]"]
    assert results.agents == ("R", "U")
    for changes, setting in enumerate(results.settings.values(), start=1):
        assert (setting.n_problems, setting.horizon) == (3, 300)
        assert (setting.base, setting.swept) == ("P", {"changes": changes})
        assert setting.parameters["changes"] == changes
        for runs in setting.agents.values():
            assert runs.regret.shape == runs.pseudo_regret.shape == (3, 5)
            assert not runs.failed.any()
            assert (runs.seconds > 0).all()
    assert results.settings["P [changes=1]"].agents["U"].parameters == {"delta": 0.1}
    assert (results.title, results.epsilon, results.failures) == ("small", 0.05, ())
    assert results.provenance["runs"] == "12"
    assert results.provenance["seed"] == "5"


def test_missing_runs_are_nan_and_not_failed(store_and_plan: tuple[Store, Plan]) -> None:
    store, plan = store_and_plan
    results = load_results(store)
    setting = results.settings["P [changes=2]"]
    assert np.isnan(setting.agents["U"].regret).all()
    assert not setting.agents["U"].failed.any()
    assert [len(points) for points in setting.change_points] == [0, 0, 0]
    assert results.provenance["runs"] == "0 of 12: not complete"
    run_chunks(store, plan, jobs=1, shard=(1, 2))
    half = load_results(store)
    done = sum(
        int((~np.isnan(runs.regret[:, -1])).sum())
        for setting in half.settings.values()
        for runs in setting.agents.values()
    )
    assert 0 < done < 12
    assert half.provenance["runs"] == f"{done} of 12: not complete"


def test_failed_runs_are_nan_and_have_tracebacks(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path
) -> None:
    agents = {
        "X": {"agent": "toys:Picky", "parameters": {"where": "observe"}}, "R": {"agent": "random"},
    }  # fmt: skip
    store, plan = prepare(small(agents=agents), tmp_path / "out", toys)
    run_chunks(store, plan, jobs=2, executor="threads")
    results = load_results(store)
    setting = results.settings["P [changes=1]"]
    failed = setting.agents["X"].failed
    assert 0 < failed.sum() < 4
    assert np.isnan(setting.agents["X"].regret[failed]).all()
    assert not np.isnan(setting.agents["X"].regret[~failed]).any()
    assert np.isnan(setting.agents["X"].seconds[failed]).all()
    assert not setting.agents["R"].failed.any()
    here = [f for f in results.failures if f["setting"] == "P [changes=1]"]
    assert [f["problem"] for f in here] == np.flatnonzero(failed).tolist()
    assert all("not this one" in f["traceback"] for f in here)


def test_contradictory_facts_are_damage(store_and_plan: tuple[Store, Plan]) -> None:
    store, plan = store_and_plan
    run_chunks(store, plan, jobs=1)
    chunk = next(c for c in store.chunks() if c.agent is None)
    fields, arrays = store.load(chunk)
    for change in ({"counts": arrays["counts"] + 1}, {"counts": -arrays["counts"]}):
        save_arrays(store.chunk_path(chunk), KIND, fields, arrays | change)
        with pytest.raises(DamagedFile, match="do not fit"):
            load_results(store)


def test_a_users_own_agent_and_problem_are_run_and_named(
    small: Small, prepare: Prepare, toys: Path, tmp_path: Path
) -> None:
    data = small(
        problems={"mine": {"problem": "toys:two_states", "parameters": {"mean": 0.75}}},
        agents={"T": {"agent": "toys:Toy", "parameters": {"favourite": 0}}},
        initial_state=1, n_problems=2,
    )  # fmt: skip
    store, plan = prepare(data, tmp_path / "out", toys)
    assert run_chunks(store, plan, jobs=1).complete
    runs = load_results(store).settings["mine"].agents["T"]

    class Toy:
        """A second implementation of the user agent."""

        seen = 0

        def act(self, state: int) -> int:
            return self.seen % 2

        def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
            self.seen += next_state

    problem = sm.MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.75, 0], [0.25, 0]])
    for i in range(2):
        record = sm.simulate(Toy(), problem, 300, seed=seed_of(1, i), initial_state=1, every=1)
        assert runs.regret[i].tolist() == record.regret.tolist()


WRAP = np.full(4, 2**62)  # whose sum wraps around to 0


@pytest.mark.parametrize(
    ("group", "change", "words"),
    [
        ("facts", {"counts": np.stack([WRAP, WRAP], 1), "gains": np.zeros(0),
                   "change_points": np.zeros(0, np.int64)}, "do not fit the change points"),
        ("facts", {"change_points": -np.arange(4)}, "change points must be"),
        ("facts", {"change_points": np.zeros((1, 4), np.int64)}, "has the wrong type or shape"),
        ("runs", {"n_restarts": WRAP, "restarts": np.zeros(0, np.int64)}, "do not fit the rest"),
        ("runs", {"restarts": np.zeros((0, 3), np.int64)}, "has the wrong type or shape"),
    ],
)  # fmt: skip
def test_a_chunk_with_the_right_checksum_and_hostile_numbers_is_damage(
    small: Small, prepare: Prepare, tmp_path: Path, group: str, change: Any, words: str
) -> None:
    store, plan = prepare(small(n_problems=4), tmp_path / "out", tiny=False)
    run_chunks(store, plan, jobs=1)
    chunk = next(c for c in store.chunks() if (c.agent is None) == (group == "facts"))
    fields, arrays = store.load(chunk)
    assert all(array.dtype == arrays[name].dtype for name, array in change.items())
    save_arrays(store.chunk_path(chunk), KIND, fields, arrays | change)
    with pytest.raises(DamagedFile, match=words):
        load_results(store)


def test_parameters_that_are_not_a_table_are_damage(store_and_plan: tuple[Store, Plan]) -> None:
    store, plan = store_and_plan
    run_chunks(store, plan, jobs=1)
    chunk = next(c for c in store.chunks() if c.agent is not None)
    fields, arrays = store.load(chunk)
    for other in ([1], "x", None, 3):
        save_arrays(store.chunk_path(chunk), KIND, fields | {"parameters": other}, arrays)
        with pytest.raises(DamagedFile, match="parameters must be a table"):
            load_results(store)
