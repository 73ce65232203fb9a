"""All errors of an experiment are found before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments.plan import Plan, check, make_agent, make_problem
from switchmdp.experiments.spec import parse

Small = Callable[..., dict[str, Any]]


def errors_of(data: dict[str, Any], folder: Path | None = None) -> dict[str, str]:
    with pytest.raises(InvalidExperiment) as caught:
        check(parse(data), folder, trust=folder is not None)
    return {fault.path: str(fault).removeprefix(f"{fault.path}: ") for fault in caught.value.faults}


def agent(name: str = "ucrl2", **parameters: Any) -> dict[str, Any]:
    return {"A": {"agent": name, "parameters": parameters}}


def problem(name: str = "random-switching", **parameters: Any) -> dict[str, Any]:
    return {"P": {"problem": name, "parameters": parameters}}


def test_a_valid_experiment_becomes_a_plan(small: Small) -> None:
    plan = check(parse(small()))
    assert [v.name for v in plan.settings] == ["P [changes=1]", "P [changes=2]"]
    assert [v.name for v in plan.agents] == ["R", "U"]
    assert (plan.n_runs, plan.pairs, plan.modules) == (16, (6, 6), {})


def test_an_agent_and_a_problem_may_have_the_same_name(small: Small) -> None:
    plan = check(parse(small(problems=problem("random"), agents=agent("random"))))
    assert plan.generators["random"] is not plan.factories["random"]


def test_a_float_with_an_integer_value_is_accepted_as_an_integer_parameter(small: Small) -> None:
    formula = {"formula": "changes", "plus": 1.0}
    agents = {
        "W": {"agent": "sw-ucrl", "parameters": {"window": {"sweep": [1e2, 2e2]}}},
        "C": {"agent": "ucrl2-r", "parameters": {"changes": formula}},
    }
    plan = check(parse(small(problems=problem(n_states=3.0, changes=2.0), agents=agents)))
    (setting,) = plan.settings
    instance = make_problem(setting, plan.generators[setting.source], 300, 0)
    assert (instance.n_states, instance.changes) == (3, 2)
    values = [
        make_agent(one, plan.factories[one.source], instance, 300, 0)[1] for one in plan.agents
    ]  # fmt: skip
    assert values == [{"window": 100}, {"window": 200}, {"changes": 3}]
    assert all(type(number) is int for value in values for number in value.values())
    errors = errors_of(small(agents=agent("sw-ucrl", window=100.5)))
    assert errors["agents.A.parameters.window"] == "must be an integer >= 1, got 100.5"


def test_errors_in_names_parameters_values_and_claims_are_reported_together(small: Small) -> None:
    claim = {"quote": "q", "reading": "r", "measure": "better", "setting": "X", "agent": "Y"}
    data = small(
        problems=problem("random-swiching") | {"Q": {"problem": "random", "parameters": {"x": 1}}},
        agents={
            "A": {"agent": "ucrl9"},
            "B": {"agent": "ucrl2", "parameters": {"dleta": 0.1, "n_states": 5}},
            "C": {"agent": "sw-ucrl"},
            "D": {"agent": "oracle", "parameters": {"change_points": {"formula": "chnges"}}},
        },
        claims=[claim],
    )
    assert errors_of(data) == {
        "problems.P.problem": "unknown problem 'random-swiching'; did you mean 'random-switching'?",
        "problems.Q.parameters.x": "problems.Q.parameters: unknown parameter 'x'; expected one of "
        "'n_states', 'n_actions', 'rows', 'law'",
        "agents.A.agent": "unknown agent 'ucrl9'; did you mean 'ucrl3'?",
        "agents.B.parameters.dleta": "agents.B.parameters: unknown parameter 'dleta'; did you "
        "mean 'delta'?",
        "agents.B.parameters.n_states": "the experiment sets this parameter itself; leave it out",
        "agents.C.parameters.window": "missing required parameter",
        "agents.D.parameters.change_points.formula": "agents.D.parameters.change_points: unknown "
        "formula 'chnges'; did you mean 'changes'?",
        "claims.0.setting": "must be one of 'P', 'Q', got 'X'",
        "claims.0.agent": "must be one of 'A', 'B', 'C', 'D', got 'Y'",
        "claims.0.than": "claims.0: missing required key 'than'",
    }


def test_valid_entries_are_checked_even_if_others_have_errors(small: Small) -> None:
    agents = agent("ucrl2", delta=2.0) | {"B": {"agent": "ucrl9"}}
    errors = errors_of(small(agents=agents, initial_state=3))
    assert list(errors) == ["agents.B.agent", "initial_state", "agents.A.parameters.delta"]
    assert (
        errors["agents.A.parameters.delta"] == "must be a number strictly between 0 and 1, got 2.0"
    )
    assert errors["initial_state"] == "must be below the 3 states of 'P [changes=2]', got 3"


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**63, -(2**63), 16**5000, date(2020, 1, 1), None, b"x", (1, 2),
     "\ud800", {}, {"x": 1}, [1, [2, float("nan")]], [{"formula": "changes"}], {1, 2}, object()],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_nonsense_in_parameters_is_rejected(small: Small, toys: Path, value: Any) -> None:
    errors = errors_of(small(agents=agent("toys:Toy", favourite=value)), toys)
    (path,) = errors
    assert path.startswith("agents.A.parameters.favourite")


def test_nested_lists_have_a_maximal_depth(small: Small, toys: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    errors = errors_of(small(agents=agent("toys:Toy", favourite=endless)), toys)
    assert "at most 8 deep" in str(errors)


@pytest.mark.parametrize(
    "value",
    [
        {"sweep": []},
        {"sweep": 5},
        {"sweep": [1], "x": 2},
        {"sweep": [{"sweep": [1]}]},
        {"sweep": [1, {}]},
        {"sweep": [1, date(2020, 1, 1)]},
        {"sweep": {"a": 1}},
    ],
)
def test_invalid_sweeps_are_rejected(small: Small, value: Any) -> None:
    (path,) = errors_of(small(agents=agent("ucrl2", delta=value)))
    assert path.startswith("agents.A.parameters.delta")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"law": "bernouli"}, "unknown choice 'bernouli'; did you mean 'bernoulli'?"),
        (
            {"law": {"choice": "beta", "shar": 0.3}},
            "unknown parameter of the choice 'beta': 'shar'; did you mean 'share'?",
        ),
        (
            {"rows": {"choice": "uniform", "x": 1}},
            "unknown parameter of the choice 'uniform': 'x'; none are allowed here",
        ),
        ({"rows": {"choice": ["uniform"]}}, "unknown choice ['uniform']; did you mean 'uniform'?"),
        ({"rows": {"sweep": ["uniform", "unifrm"]}}, "did you mean 'uniform'?"),
        ({"changes": {"choice": "even"}}, "unknown choice 'even'; none are allowed here"),
    ],
)
def test_choices_that_do_not_exist_are_rejected(small: Small, parameters: Any, words: str) -> None:
    (message,) = errors_of(small(problems=problem(**parameters))).values()
    assert words in message


@pytest.mark.parametrize("values", [[1, 1], [1, "1"]])
def test_a_value_swept_twice_is_rejected(small: Small, values: list[Any]) -> None:
    errors = errors_of(small(problems=problem(changes={"sweep": values})))
    assert errors["problems.P"] == "2 variants have the same name 'P [changes=1]'"


def test_a_sweep_must_not_make_a_name_that_exists(small: Small) -> None:
    swept = {"A": {"agent": "ucrl2", "parameters": {"delta": {"sweep": [0.1, 0.2]}}}}
    errors = errors_of(small(agents=swept | {"A [delta=0.1]": {"agent": "random"}}))
    assert errors["agents.A [delta=0.1]"] == "2 variants have the same name 'A [delta=0.1]'"


def test_too_many_variants_are_rejected(small: Small) -> None:
    many = {"sweep": list(range(1, 41))}
    errors = errors_of(small(problems=problem(n_states=many, n_actions=many)))
    assert errors == {"problems.P.parameters": "must be at most 1000 variants, got 1600 variants"}


def test_too_many_runs_are_rejected_before_anything_is_tried(small: Small) -> None:
    many = {"sweep": list(range(1, 1001))}
    errors = errors_of(small(problems=problem(n_states=many), n_problems=10**6))
    assert "at most 100000 settings × agents and 100000000 runs" in errors["the experiment"]


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"formula": "nonsense"}, ".window.formula", "one of 'optimal-window'"),
        ({"formula": ["changes"]}, ".window.formula", "unknown formula ['changes']"),
        ({"formula": "optimal-window", "tmes": 2}, ".window.tmes", "did you mean 'times'?"),
        ({"formula": "change-points", "plus": 2}, ".window.plus", "none are allowed here"),
        ({"formula": "optimal-window", "times": float("nan")}, ".window.times", "a finite number"),
        ({"formula": "optimal-window", "times": -1}, "", "a positive number (for times)"),
        ({"formula": "optimal-window", "times": date(2020, 1, 1)}, ".window.times", "a number"),
        ({"formula": "optimal-window", "diameter": "big"}, "", "'exact' (for diameter)"),
        ({"formula": "changes", "plus": 0.5}, "", "(for plus)"),
        ({"choice": "beta"}, ".window", "a value, a list, a sweep, or a formula table"),
        (0, ".window", "an integer >="),
    ],
)
def test_wrong_formulas_are_rejected(small: Small, value: Any, path: str, words: str) -> None:
    errors = errors_of(small(agents=agent("sw-ucrl", window=value)))
    assert list(errors) == [f"agents.A.parameters{path}"]
    assert words in errors[f"agents.A.parameters{path}"]


@pytest.mark.parametrize(
    ("parameters", "path", "words"),
    [
        ({"seed": 3}, ".parameters.seed", "leave it out"),
        ({"law": "cauchy"}, ".parameters.law", "one of 'bernoulli'"),
        ({"law": {"choice": "beta", "share": -1.0}}, ".parameters", "(for share)"),
        ({"law": {"choice": "beta", "x": 1.0}}, ".parameters.law.x", "unknown parameter"),
        (
            {"law": {"choice": "beta", "share": date(2020, 1, 1)}},
            ".parameters.law.share",
            "a number",
        ),
        ({"law": {"formula": "changes"}}, ".parameters.law", "or a choice table"),
        ({"changes": -1}, ".parameters.changes", "an integer from 0 to 100000"),
        ({"n_states": 0}, ".parameters.n_states", "an integer >= 1"),
        ({"change_points": [10, 5], "changes": 2}, "", "must increase strictly"),
    ],
)
def test_wrong_parameters_of_problems_are_rejected(
    small: Small, parameters: dict[str, Any], path: str, words: str
) -> None:
    errors = errors_of(small(problems=problem(**parameters)))
    assert list(errors) == [f"problems.P{path}"]
    assert words in errors[f"problems.P{path}"]


def test_any_exception_of_a_user_constructor_is_an_error_of_the_configuration(
    small: Small, toys: Path
) -> None:
    (toys / "worse.py").write_text(
        "from switchmdp.problems import problem_factory\n"
        "class Agent:\n    def act(self): ...\n    def observe(self): ...\n"
        "class Exits(Agent):\n    def __init__(self, x): raise SystemExit('bye')\n"
        "class Mute(Agent):\n    def __init__(self, x): raise E\n"
        "class E(Exception):\n    def __str__(self): raise ValueError\n"
        "class Numb(Agent):\n    def __new__(cls, x): return 5\n"
        "class Nothing(Agent):\n    def __new__(cls, x): return None\n"
        "@problem_factory\ndef none(x): return None\n"
    )
    data = small(
        problems=problem("worse:none", x=[1]) | {"Q": {"problem": "random"}},
        agents={name: {"agent": f"worse:{name}", "parameters": {"x": [1]}}
                for name in ("Exits", "Mute", "Numb", "Nothing")},
    )  # fmt: skip
    errors = errors_of(data, toys)
    assert (
        "returns an MDP or a SwitchingMDP (for worse:none), got None"
        in errors["problems.P.parameters"]
    )
    assert (
        "parameters that the constructor accepts (SystemExit: bye), got {'x': [1]}"
        in errors["agents.Exits"]
    )
    assert "(E, which can't be shown)" in errors["agents.Mute"]
    assert (
        "with the methods act and observe (for worse:Numb), got 5"
        in errors["agents.Numb.parameters"]
    )
    assert "the methods act and observe" in errors["agents.Nothing.parameters"]


TARGETS = [("agents", "agent"), ("problems", "problem")]


@pytest.mark.parametrize(("group", "key"), TARGETS)
@pytest.mark.parametrize("trust", [None, False, True])
def test_a_configuration_cannot_run_a_shell_command(
    small: Small, group: str, key: str, trust: bool | None, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delenv("SWITCHMDP_TRUST", raising=False)
    shell = {key: "os:system", "parameters": {"command": f"touch {tmp_path / 'ran'}"}}
    with pytest.raises(InvalidExperiment, match=r"os:system") as caught:
        check(parse(small(**{group: {"X": shell}})), trust=trust)
    assert [fault.path for fault in caught.value.faults] == [f"{group}.X.{key}"]
    assert ("--trust" in str(caught.value)) == (not trust)
    assert not (tmp_path / "ran").exists()


def test_modules_are_imported_only_with_trust(
    small: Small, toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SWITCHMDP_TRUST", raising=False)
    data = parse(small(agents=agent("toys:Toy"), problems=problem("toys:two_states")))
    for trust in (None, False):
        with pytest.raises(InvalidExperiment, match=r"registered problem; .*\n.*registered agent"):
            check(data, toys, trust=trust)
        assert "toys" not in sys.modules
    assert check(data, toys, trust=True).trusted
    monkeypatch.setenv("SWITCHMDP_TRUST", "1")
    assert check(data, toys).trusted
    assert not check(parse(small()), trust=False).trusted


@pytest.mark.parametrize("swept", ["U [delta=0.1]", "U [delta=0.2]"])
def test_claims_refer_to_variants(small: Small, swept: str) -> None:
    claim = {
        "quote": "q", "reading": "r", "measure": "better", "setting": "P [changes=2]",
        "agent": swept, "than": "R",
    }  # fmt: skip
    agents = {
        "R": {"agent": "random"},
        "U": {"agent": "ucrl2", "parameters": {"delta": {"sweep": [0.1, 0.2]}}},
    }
    assert isinstance(check(parse(small(agents=agents, claims=[claim]))), Plan)
    errors = errors_of(small(agents=agents, claims=[claim | {"setting": "P", "than": "U"}]))
    assert errors == {
        "claims.0.setting": "must be one of 'P [changes=1]', 'P [changes=2]', got 'P'",
        "claims.0.than": "must be one of 'R', 'U [delta=0.1]', 'U [delta=0.2]', got 'U'",
    }


def test_a_claim_about_an_entry_with_errors_is_not_another_error(small: Small) -> None:
    claim = {
        "quote": "q", "reading": "r", "measure": "bumps", "setting": "P [changes=1]",
        "agent": "A [delta=2]",
    }  # fmt: skip
    swept = agent("ucrl2", delta={"sweep": [2, 2.5]}, x=1)
    assert list(errors_of(small(agents=swept, claims=[claim]))) == ["agents.A.parameters.x"]


def test_user_modules_are_part_of_the_plan(small: Small, toys: Path) -> None:
    agents = agent("toys:Toy") | {"R": {"agent": "random"}}
    plan = check(parse(small(problems=problem("toys:two_states"), agents=agents)), toys, trust=True)
    assert list(plan.modules) == ["toy_numbers", "toys"]
    assert plan.compiled == (False, True)
    assert plan.pairs == (4,)
