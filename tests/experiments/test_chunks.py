"""A chunk is a pure function of the experiment and the chunk's id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.agents import UCRL2, Random
from switchmdp.experiments.chunks import Outcome, compute, problem_of
from switchmdp.experiments.plan import (
    Plan,
    block_sizes,
    check,
    make_agent,
    make_problem,
    problem_seed,
    run_seed,
)
from switchmdp.experiments.results import HARDNESS, MOST_PROBLEMS, Chunk, all_chunks
from switchmdp.experiments.spec import parse
from switchmdp.planning import hardness, optimal_gains
from switchmdp.problems import random_switching
from switchmdp.simulation import simulate
from switchmdp.simulation.bad_steps import count_bad_steps

Small = Callable[..., dict[str, Any]]


def plan_of(data: dict[str, Any], folder: Path | None = None) -> Plan:
    return check(parse(data), folder, trust=folder is not None)


def lane(plan: Plan, setting: int, agent: int | None, first: int = 0) -> Outcome:
    return compute(plan, Chunk(setting, agent, 0, first, plan.experiment.n_problems))


def same(one: Outcome, two: Outcome) -> bool:
    return one.fields == two.fields and all(
        a.dtype == two.arrays[name].dtype and a.tobytes() == two.arrays[name].tobytes()
        for name, a in one.arrays.items()
    )


@pytest.mark.parametrize("n_problems", [1, 2, 7, 500, 1234])
@pytest.mark.parametrize("blocks", [((1,),), ((2, 3), (500, 7)), ((4, 1, 2), (1, 1, 1), (9, 9, 9))])
def test_chunks_cover_every_run_and_every_problem_exactly_once(
    n_problems: int, blocks: tuple[tuple[int, ...], ...]
) -> None:
    chunks = all_chunks(n_problems, blocks)
    covered = Counter((c.setting, c.agent, i) for c in chunks for i in range(c.first, c.last))
    lanes = [(s, a) for s, sizes in enumerate(blocks) for a in (None, *range(len(sizes)))]
    assert covered == Counter((s, a, i) for s, a in lanes for i in range(n_problems))
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    limits = {(s, a): MOST_PROBLEMS if a is None else blocks[s][a] for s, a in lanes}
    assert all(0 < len(c) <= limits[c.setting, c.agent] for c in chunks)


def test_blocks_depend_on_sizes_alone_and_shrink_with_the_horizon(small: Small, toys: Path) -> None:
    agents = small()["agents"] | {"T": {"agent": "toys:Toy"}}
    sizes = [
        block_sizes(plan_of(small(agents=agents, horizon=horizon), toys))
        for horizon in (300, 300, 10**5, 10**9)
    ]
    assert sizes[0] == sizes[1]
    assert sizes[0][0] == (500, 500, 100)
    assert sizes[2][0][0] > sizes[2][0][2] == 1
    assert sizes[3] == ((1, 1, 1), (1, 1, 1))


def test_a_chunk_does_not_depend_on_what_else_is_computed(small: Small) -> None:
    first, second = plan_of(small()), plan_of(small())
    chunks = all_chunks(4, ((1, 3), (2, 4)))
    forwards = [compute(first, chunk) for chunk in chunks]
    backwards = [compute(second, chunk) for chunk in reversed(chunks)]
    assert all(map(same, forwards, reversed(backwards)))
    with ThreadPoolExecutor(4) as pool:
        assert all(map(same, forwards, pool.map(lambda chunk: compute(second, chunk), chunks)))


def test_a_run_does_not_depend_on_the_number_of_problems_or_its_chunk(small: Small) -> None:
    few, many = plan_of(small(n_problems=2)), plan_of(small(n_problems=6))
    whole = lane(many, 1, 1).arrays
    assert all((a == whole[name][:2]).all() for name, a in lane(few, 1, 1).arrays.items())
    alone = compute(many, Chunk(1, 1, 5, 5, 6)).arrays
    assert all((a == whole[name][5:]).all() for name, a in alone.items())


def test_adding_agents_or_settings_changes_no_other_run(small: Small, toys: Path) -> None:
    data = small()
    alone = plan_of(small(agents={"U": data["agents"]["U"]}))
    more = {"first": {"agent": "toys:Toy"}, **data["agents"], "last": {"agent": "omniscient"}}
    problems = {"Q": {"problem": "toys:two_states"}, **data["problems"]}
    crowd = plan_of(small(agents=more, problems=problems), toys)
    assert [v.name for v in crowd.settings][1:] == [v.name for v in alone.settings]
    for setting in (0, 1):
        assert same(lane(alone, setting, 0), lane(crowd, setting + 1, 2))
        assert same(lane(alone, setting, None), lane(crowd, setting + 1, None))


def test_an_agent_that_reads_the_problem_does_not_affect_other_agents(
    small: Small, toys: Path
) -> None:
    parameters = {"n_states": 5, "n_actions": 3, "changes": 20}
    problems = {"P": {"problem": "random-switching", "parameters": parameters}}
    agents = {"Q": {"agent": "toys:Peeking"}, "R": {"agent": "random"}}
    alone = plan_of(small(problems=problems, agents=small()["agents"], n_problems=30))
    crowd = plan_of(small(problems=problems, agents=agents, n_problems=30), toys)
    lane(crowd, 0, 0)
    assert same(lane(alone, 0, 0), lane(crowd, 0, 1))


def test_all_agents_face_the_same_problems_and_randomness(small: Small) -> None:
    twice = {name: {"agent": "ucrl2", "parameters": {"delta": 0.1}} for name in ("A", "B")}
    plan = plan_of(small(agents=twice))
    assert same(lane(plan, 0, 0), lane(plan, 0, 1))
    assert same(lane(plan, 0, 0), lane(plan_of(small()), 0, 1))


def test_problems_and_runs_differ_by_index_and_by_seed(small: Small) -> None:
    plan, other = plan_of(small()), plan_of(small(seed=6))
    diameters = [lane(p, 0, None).arrays["hardness"][:, 0] for p in (plan, other)]
    regrets = [lane(p, 0, 0).arrays["regret"][:, -1] for p in (plan, other)]
    assert len(np.unique(diameters)) == len(np.unique(regrets)) == 8


def test_settings_that_differ_in_changes_begin_with_the_same_mdp(small: Small) -> None:
    plan = plan_of(small())
    one, two = (problem_of(plan, s, 3).configuration(0) for s in (0, 1))
    assert (one.rewards == two.rewards).all()


def test_cached_problems_of_two_plans_are_distinguished(small: Small) -> None:
    plans = [plan_of(small(seed=seed)) for seed in (1, 2)]
    means = [
        make_problem(plan.settings[0], random_switching, 300, problem_seed(seed, 0)).model.mean
        for plan, seed in zip(plans, (1, 2), strict=True)
    ]
    for i in [0, 1] * 10:
        copy = replace(plans[i])  # in the place in memory of the one before
        assert (problem_of(copy, 0, 0).model.mean == means[i]).all()
        assert problem_of(copy, 0, 0) is problem_of(copy, 0, 0)
        del copy


def test_facts_are_changes_gains_and_hardness_of_each_problem(small: Small) -> None:
    plan = plan_of(small())
    arrays = lane(plan, 1, None).arrays
    problems = [problem_of(plan, 1, i) for i in range(4)]
    assert arrays["counts"].tolist() == [[2, 3]] * 4
    assert arrays["change_points"].tolist() == [150, 300] * 4
    gains = [optimal_gains(problem).tolist() for problem in problems]
    assert arrays["gains"].reshape(4, 3).tolist() == gains
    expected = hardness(problems[2])
    row = dict(zip(HARDNESS, arrays["hardness"][2], strict=True))
    assert row["diameter"] == expected.diameter
    assert (row["span"], row["gap"]) == (max(expected.spans), min(expected.gaps))
    assert row["reward_variation"] == expected.reward_variation
    assert row["transition_variation"] == expected.transition_variation


def test_gains_after_the_horizon_are_left_out(small: Small) -> None:
    late = {"n_states": 3, "n_actions": 2, "changes": 2, "change_points": [301, 302]}
    plan = plan_of(small(problems={"P": {"problem": "random-switching", "parameters": late}}))
    arrays = lane(plan, 0, None).arrays
    assert arrays["counts"].tolist() == [[2, 1]] * 4


def test_bad_steps_use_the_visited_states_if_policies_have_several_gains(
    small: Small, toys: Path
) -> None:
    """A policy that stays in each of two states has two closed classes."""
    data = small(problems={"P": {"problem": "toys:two_states"}}, horizon=1000)
    plan = plan_of(data, toys)
    arrays = lane(plan, 0, 1).arrays
    for i in range(4):
        how: dict[str, Any] = {"seed": run_seed(5, i), "episodes": True, "every": 5}
        problem, agents = problem_of(plan, 0, i), [UCRL2(2, 2, delta=0.1) for _ in range(2)]
        brief = simulate(agents[0], problem, 1000, **how)
        whole = simulate(agents[1], problem, 1000, trajectory=True, **how)
        assert count_bad_steps(brief, problem, 0.05) is None
        assert arrays["bad_steps"][i] == count_bad_steps(whole, problem, 0.05)
        assert arrays["regret"][i].tolist() == brief.regret.tolist()


def seeds_of_agents(plan: Plan) -> list[int]:
    """The seeds that are passed to an agent's constructor, for each problem."""

    class Asking(Random):
        def __init__(self, seed: int) -> None:
            self.seed = seed

    n, seed = plan.experiment.n_problems, plan.experiment.seed
    variant = plan.agents[0]
    bare_variant = type(variant)(variant.name, variant.base, variant.source, {}, {})
    return [
        make_agent(bare_variant, Asking, problem_of(plan, 0, i), 300, run_seed(seed, i))[0].seed
        for i in range(n)
    ]


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("constructor", "RuntimeError: not this one"),
        ("act", "RuntimeError: not this one"),
        ("observe", "RuntimeError: not this one"),
        ("exit", "SystemExit: 7"),
        ("action", "InvalidAction: the action that the agent chose in state 0 must be"),
        ("unspeakable", "Unspeakable, which can't be shown"),
        ("surrogate", "RuntimeError: \ud800"),
    ],
)
def test_a_failing_agent_does_not_affect_other_runs(
    small: Small, toys: Path, where: str, error: str
) -> None:
    agents = {"X": {"agent": "toys:Picky", "parameters": {"where": where}}}
    plan = plan_of(small(agents=agents | small()["agents"], n_problems=6), toys)
    failing = [i for i, seed in enumerate(seeds_of_agents(plan)) if seed % 2]
    assert 0 < len(failing) < 6
    outcome = lane(plan, 1, 0)
    arrays = outcome.arrays
    assert np.flatnonzero(arrays["failed"]).tolist() == failing
    for name in ("regret", "pseudo_regret"):
        assert np.isnan(arrays[name][failing]).all()
        assert not np.isnan(np.delete(arrays[name], failing, axis=0)).any()
    assert np.isnan(arrays["bad_steps"]).all()
    assert (arrays["episodes"] == -1).all()
    assert [f["problem"] for f in outcome.failures] == failing
    first = outcome.failures[0]
    assert (first["agent"], first["setting"]) == ("X", "P [changes=2]")
    assert first["error"].startswith(error)
    assert where == "action" or "toys.py" in first["traceback"]
    assert not lane(plan, 1, 1).failures


def test_a_problem_that_cannot_be_made_fails_the_runs_on_it(small: Small, toys: Path) -> None:
    problems = {"P": {"problem": "toys:sometimes"}}
    seed = next(s for s in range(100) if [problem_seed(s, i) % 2 for i in range(4)] == [0, 1, 0, 1])
    plan = plan_of(small(problems=problems, seed=seed), toys)
    facts, runs = lane(plan, 0, None), lane(plan, 0, 1)
    assert runs.arrays["failed"].tolist() == [False, True, False, True]
    assert facts.arrays["counts"].tolist() == [[0, 1], [0, 0], [0, 1], [0, 0]]
    assert len(facts.arrays["gains"]) == 2
    assert np.isnan(facts.arrays["hardness"][[1, 3]]).all()
    for outcome in (facts, runs):
        assert [f["problem"] for f in outcome.failures] == [1, 3]
        assert outcome.failures[0]["error"] == "ArithmeticError: an odd seed"


def test_resolved_parameters_are_stored(small: Small, toys: Path) -> None:
    favourite = {"formula": "changes", "plus": 3}
    agents = {"T": {"agent": "toys:Toy", "parameters": {"favourite": favourite}}}
    plan = plan_of(small(agents=agents), toys)
    shown = [lane(plan, setting, 0).fields for setting in (0, 1)]
    assert shown == [{"parameters": {"favourite": n}} for n in (4, 5)]


def test_a_last_point_is_recorded_at_the_horizon_off_the_grid(small: Small) -> None:
    plan = plan_of(small(every=70))
    arrays = lane(plan, 0, 0).arrays
    assert arrays["regret"].shape == (4, 5)
    assert not np.isnan(arrays["regret"]).any()


def test_seconds_are_not_part_of_the_results(small: Small) -> None:
    outcome = lane(plan_of(small()), 0, 0)
    assert len(outcome.seconds) == 4
    assert all(s > 0 for s in outcome.seconds)
    assert not {"seconds", "time"} & (set(outcome.arrays) | set(outcome.fields))
