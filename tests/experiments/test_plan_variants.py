"""Sweeps, seeds by role, and the arguments of constructors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from switchmdp.agents import UCRL2, Random
from switchmdp.errors import InvalidParameter
from switchmdp.experiments.names import accepts
from switchmdp.experiments.plan import make_agent, make_problem, problem_seed, run_seed
from switchmdp.experiments.results import Variant, expand
from switchmdp.experiments.spec import AgentSpec, ProblemSpec
from switchmdp.mdp import MDP, Beta, Deterministic, SwitchingMDP
from switchmdp.problems import random_switching


class Idle:
    """An agent that does nothing."""

    def act(self, state: int) -> int:
        return 0

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None: ...


def variant(source: str = "x", **parameters: Any) -> Variant:
    return Variant("name", "name", source, parameters, {})


def test_an_entry_without_sweeps_is_one_variant_of_the_same_name() -> None:
    (only,) = expand({"A": AgentSpec(agent="ucrl2", parameters={"delta": 0.1})})
    assert only == Variant("A", "A", "ucrl2", {"delta": 0.1}, {})


def test_sweeps_multiply_and_name_their_variants() -> None:
    parameters = {"n_states": {"sweep": [3, 4]}, "changes": {"sweep": [1, 2, 5]}, "n_actions": 2}
    variants = expand({"P": ProblemSpec(problem="random-switching", parameters=parameters)})
    assert [v.name for v in variants] == [
        f"P [n_states={s}, changes={c}]" for s in (3, 4) for c in (1, 2, 5)
    ]
    assert variants[4].parameters == {"n_states": 4, "changes": 2, "n_actions": 2}
    assert variants[4].swept == {"n_states": 4, "changes": 2}
    assert {v.base for v in variants} == {"P"}


def test_swept_formulas_and_choices_are_named_readably() -> None:
    window = {"sweep": [10, {"formula": "optimal-window", "times": 0.5}, {"formula": "horizon"}]}
    law = {"sweep": ["bernoulli", {"choice": "beta", "share": 0.1}]}
    agents = expand({"A": AgentSpec(agent="sw-ucrl", parameters={"window": window})})
    problems = expand({"P": ProblemSpec(problem="random", parameters={"law": law})})
    assert [v.name for v in agents] == [
        "A [window=10]",
        "A [window=optimal-window(times=0.5)]",
        "A [window=horizon]",
    ]
    assert [v.name for v in problems] == ["P [law=bernoulli]", "P [law=beta(share=0.1)]"]


def test_seeds_differ_by_experiment_role_and_problem_and_fit_62_bits() -> None:
    seeds = [role(seed, i) for role in (problem_seed, run_seed) for seed in range(20)
             for i in range(50)]  # fmt: skip
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**62 for seed in seeds)
    assert problem_seed(2**62, 10**6) == problem_seed(2**62, 10**6)


def test_a_problem_gets_its_seed_and_the_horizon_unless_the_horizon_is_set() -> None:
    def factory(*, seed: int, horizon: int, n: int) -> MDP:
        calls.append((seed, horizon, n))
        return MDP([[[1.0]]], [[0.5]])

    calls: list[Any] = []
    assert isinstance(make_problem(variant(n=1), factory, 100, 7), SwitchingMDP)
    make_problem(variant(n=2, horizon=50), factory, 100, 7)
    assert calls == [(7, 100, 1), (7, 50, 2)]


def test_a_problem_gets_only_arguments_that_it_accepts() -> None:
    def factory(**anything: Any) -> MDP:
        assert not anything
        return MDP([[[1.0]]], [[0.5]])

    make_problem(variant(), factory, 100, 7)


def test_a_factory_that_makes_no_problem_is_rejected() -> None:
    with pytest.raises(InvalidParameter, match="a function that returns an MDP or a SwitchingMDP"):
        make_problem(variant("user:f"), lambda: 5, 100, 7)


def test_functions_and_laws_are_chosen_by_name() -> None:
    law: Any = {"choice": "beta", "share": 0.3}
    beta = make_problem(variant(law=law, change_points="even"), random_switching, 100, 7)
    assert beta.law == Beta(share=0.3)
    assert beta.change_points.tolist() == [34, 67]
    fixed = make_problem(variant(law="deterministic", rows="uniform"), random_switching, 100, 7)
    assert fixed.law == Deterministic()


def test_an_agent_gets_the_arguments_that_it_names() -> None:
    class Curious(Idle):
        def __init__(self, n_states: int, problem: Any, available: Any, seed: int, x: int) -> None:
            self.arguments = (n_states, problem, available.shape, seed, x)

    problem = random_switching(3, 2, changes=1, horizon=100, seed=0)
    agent, shown = make_agent(variant(x={"formula": "changes"}), Curious, problem, 100, 7)
    n_states, problem_seen, shape, seed, x = agent.arguments
    assert (n_states, problem_seen is problem, shape, x) == (3, True, (3, 2), 1)
    assert shown == {"x": 1}
    assert seed != 7
    assert make_agent(variant(x=1), Curious, problem, 100, 7)[0].arguments[3] == seed
    assert make_agent(variant(x=1), Curious, problem, 100, 8)[0].arguments[3] != seed


def test_the_resolved_parameters_of_an_agent_are_returned() -> None:
    class WithFormulas(Idle):
        def __init__(self, at: Any, window: int) -> None:
            assert isinstance(at, np.ndarray)

    problem = random_switching(3, 2, changes=2, horizon=100, seed=0)
    with_formulas = variant(
        at={"formula": "change-points"}, window={"formula": "horizon", "times": 0.5}
    )
    assert make_agent(with_formulas, WithFormulas, problem, 100, 0)[1] == {
        "at": [50, 100],
        "window": 50,
    }


def test_a_formula_uses_the_agents_own_delta() -> None:
    problem = random_switching(3, 2, changes=2, horizon=10**6, seed=0)
    window = {"formula": "optimal-window", "diameter": 1}

    class Windowed(Idle):
        def __init__(self, window: int, delta: float = 0.05) -> None:
            self.window = window

    def window_with(**parameters: Any) -> int:
        return int(
            make_agent(variant(window=window, **parameters), Windowed, problem, 10**6, 0)[0].window
        )

    assert window_with() == window_with(delta=0.05) != window_with(delta=0.5)


@pytest.mark.parametrize("value", [None, 5, Idle])
def test_a_factory_that_makes_no_agent_is_rejected(value: Any) -> None:
    problem = random_switching(3, 2, changes=2, horizon=100, seed=0)
    with pytest.raises(
        InvalidParameter, match="user:f must be a class or function that returns an agent"
    ):
        make_agent(variant("user:f"), lambda: value, problem, 100, 0)


def test_the_only_missing_method_of_an_agent_is_named() -> None:
    problem = random_switching(3, 2, changes=2, horizon=100, seed=0)
    deaf = type("Deaf", (), {"act": lambda self, state: 0})
    with pytest.raises(InvalidParameter, match=r"act and observe \(here observe is missing\)"):
        make_agent(variant("user:f"), deaf, problem, 100, 0)


def test_a_factory_accepts_only_arguments_that_it_names() -> None:
    def factory(a: int, /, b: int, *rest: int, c: int = 3, **more: int) -> None: ...

    assert [n for n in ("a", "b", "rest", "c", "more", "d") if accepts(factory, n)] == ["b", "c"]
    assert accepts(UCRL2, "delta")
    assert not accepts(Random, "delta")
