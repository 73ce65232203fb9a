"""All that is wrong with an experiment, before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments.check import Plan, check
from switchmdp.experiments.spec import parse

Small = Callable[..., dict[str, Any]]


def faults(data: dict[str, Any], folder: Path | None = None) -> dict[str, str]:
    with pytest.raises(InvalidExperiment) as caught:
        check(parse(data), folder, trust=folder is not None)
    return {fault.path: str(fault).partition(": ")[2] for fault in caught.value.faults}


def agent(name: str = "ucrl2", **parameters: Any) -> dict[str, Any]:
    return {"A": {"agent": name, "parameters": parameters}}


def problem(name: str = "random-switching", **parameters: Any) -> dict[str, Any]:
    return {"P": {"problem": name, "parameters": parameters}}


def test_a_sound_experiment_becomes_a_plan(small: Small) -> None:
    plan = check(parse(small()))
    assert [v.name for v in plan.settings] == ["P [changes=1]", "P [changes=2]"]
    assert [v.name for v in plan.agents] == ["R", "U"]
    assert (plan.n_runs, plan.pairs, plan.modules) == (16, (6, 6), {})


def test_an_agent_and_a_problem_may_share_their_name(small: Small) -> None:
    plan = check(parse(small(problems=problem("random"), agents=agent("random"))))
    assert plan.generators["random"] is not plan.factories["random"]


def test_faults_of_names_parameters_values_and_claims_are_found_together(small: Small) -> None:
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
    assert faults(data) == {
        "problems.P.problem": "must be 'random-switching' (did you mean that?), "
        "got 'random-swiching'",
        "problems.Q.parameters.x": "must be one of 'n_states', 'n_actions', 'rows', 'law', got 1",
        "agents.A.agent": "must be 'ucrl3' (did you mean that?), got 'ucrl9'",
        "agents.B.parameters.dleta": "must be one of 'delta', got 0.1",
        "agents.B.parameters.n_states": "must be left out: the experiment gives it, got 5",
        "agents.C.parameters.window": "must be given, got nothing",
        "agents.D.parameters.change_points.formula": "must be one of optimal-window, changes, "
        "change-points, horizon, reward-variation, transition-variation, cw-window, "
        "cw-widening, exploration-rate, got 'chnges'",
        "claims.0.setting": "must be one of 'P', 'Q', got 'X'",
        "claims.0.agent": "must be one of 'A', 'B', 'C', 'D', got 'Y'",
        "claims.0.than": "must be given, got nothing",
    }


def test_what_can_be_tried_is_tried_beside_the_faults_of_others(small: Small) -> None:
    agents = agent("ucrl2", delta=2.0) | {"B": {"agent": "ucrl9"}}
    found = faults(small(agents=agents, initial_state=3))
    assert list(found) == ["agents.B.agent", "initial_state", "agents.A.parameters.delta"]
    assert (
        found["agents.A.parameters.delta"] == "must be a number strictly between 0 and 1, got 2.0"
    )
    assert found["initial_state"] == "must be below the 3 states of 'P [changes=2]', got 3"


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 2**63, -(2**63), 16**5000, date(2020, 1, 1), None, b"x", (1, 2),
     "\ud800", {}, {"x": 1}, [1, [2, float("nan")]], [{"formula": "changes"}], {1, 2}, object()],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_nonsense_in_parameters_is_refused(small: Small, toys: Path, value: Any) -> None:
    found = faults(small(agents=agent("toys:Toy", favourite=value)), toys)
    (path,) = found
    assert path.startswith("agents.A.parameters.favourite")


def test_lists_in_lists_have_an_end(small: Small, toys: Path) -> None:
    endless: list[Any] = []
    endless.append(endless)
    found = faults(small(agents=agent("toys:Toy", favourite=endless)), toys)
    assert "at most 8 deep" in str(found)


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
def test_sweeps_that_are_none_are_refused(small: Small, value: Any) -> None:
    (path,) = faults(small(agents=agent("ucrl2", delta=value)))
    assert path.startswith("agents.A.parameters.delta")


@pytest.mark.parametrize("values", [[1, 1], [1, "1"]])
def test_a_value_swept_twice_is_refused(small: Small, values: list[Any]) -> None:
    found = faults(small(problems=problem(changes={"sweep": values})))
    assert found["problems.P"] == "must be a name used only once, got 'P [changes=1]'"


def test_a_name_that_a_sweep_makes_is_used_only_once(small: Small) -> None:
    swept = {"A": {"agent": "ucrl2", "parameters": {"delta": {"sweep": [0.1, 0.2]}}}}
    found = faults(small(agents=swept | {"A [delta=0.1]": {"agent": "random"}}))
    assert found["agents.A [delta=0.1]"].startswith("must be a name used only once")


def test_too_many_variants_are_refused(small: Small) -> None:
    many = {"sweep": list(range(1, 41))}
    found = faults(small(problems=problem(n_states=many, n_actions=many)))
    assert found == {"problems.P.parameters": "must be at most 1000 variants, got nothing"}


def test_too_many_runs_are_refused_before_anything_is_tried(small: Small) -> None:
    many = {"sweep": list(range(1, 1001))}
    found = faults(small(problems=problem(n_states=many), n_problems=10**6))
    assert "at most 100000 and 100000000 runs" in found["the experiment"]


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"formula": "nonsense"}, ".window.formula", "one of optimal-window"),
        ({"formula": ["changes"]}, ".window.formula", "one of optimal-window"),
        ({"formula": "optimal-window", "tmes": 2}, ".window.tmes", "one of diameter, times"),
        ({"formula": "change-points", "plus": 2}, ".window.plus", "left out: the formula takes"),
        ({"formula": "optimal-window", "times": float("nan")}, ".window.times", "a finite number"),
        ({"formula": "optimal-window", "times": -1}, "", "a positive number (for times)"),
        ({"formula": "optimal-window", "times": date(2020, 1, 1)}, ".window.times", "a number"),
        ({"formula": "optimal-window", "diameter": "big"}, "", "'exact' (for diameter)"),
        ({"formula": "changes", "plus": 0.5}, "", "(for plus)"),
        ({"choice": "beta"}, ".window", "a value, a list, a sweep, or a formula table"),
        (0, ".window", "an integer >="),
    ],
)
def test_wrong_formulas_are_refused(small: Small, value: Any, path: str, words: str) -> None:
    found = faults(small(agents=agent("sw-ucrl", window=value)))
    assert list(found) == [f"agents.A.parameters{path}"]
    assert words in found[f"agents.A.parameters{path}"]


@pytest.mark.parametrize(
    ("parameters", "path", "words"),
    [
        ({"seed": 3}, ".parameters.seed", "left out"),
        ({"law": "cauchy"}, ".parameters.law", "one of 'bernoulli'"),
        ({"law": {"choice": "beta", "share": -1.0}}, ".parameters", "(for share)"),
        ({"law": {"choice": "beta", "x": 1.0}}, "", "TypeError"),
        ({"law": {"choice": "beta", "x": date(2020, 1, 1)}}, ".parameters.law.x", "a number"),
        ({"law": {"formula": "changes"}}, ".parameters.law", "or a choice table"),
        ({"changes": -1}, ".parameters.changes", "an integer from 0 to 100000"),
        ({"n_states": 0}, ".parameters.n_states", "an integer >= 1"),
        ({"change_points": [10, 5], "changes": 2}, "", "must increase strictly"),
    ],
)
def test_wrong_parameters_of_problems_are_refused(
    small: Small, parameters: dict[str, Any], path: str, words: str
) -> None:
    found = faults(small(problems=problem(**parameters)))
    assert list(found) == [f"problems.P{path}"]
    assert words in found[f"problems.P{path}"]


def test_whatever_a_users_constructor_raises_is_a_fault(small: Small, toys: Path) -> None:
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
    found = faults(data, toys)
    assert (
        "makes an MDP or SwitchingMDP (for worse:none), got None" in found["problems.P.parameters"]
    )
    assert "something that can be made (SystemExit: bye), got {'x': [1]}" in found["agents.Exits"]
    assert "(E, which can't be shown)" in found["agents.Mute"]
    assert "which act and observe (for worse:Numb), got 5" in found["agents.Numb.parameters"]
    assert "which act and observe" in found["agents.Nothing.parameters"]


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
def test_claims_speak_of_variants(small: Small, swept: str) -> None:
    claim = {
        "quote": "q", "reading": "r", "measure": "better", "setting": "P [changes=2]",
        "agent": swept, "than": "R",
    }  # fmt: skip
    agents = {
        "R": {"agent": "random"},
        "U": {"agent": "ucrl2", "parameters": {"delta": {"sweep": [0.1, 0.2]}}},
    }
    assert isinstance(check(parse(small(agents=agents, claims=[claim]))), Plan)
    found = faults(small(agents=agents, claims=[claim | {"setting": "P", "than": "U"}]))
    assert found == {
        "claims.0.setting": "must be one of 'P [changes=1]', 'P [changes=2]', got 'P'",
        "claims.0.than": "must be one of 'R', 'U [delta=0.1]', 'U [delta=0.2]', got 'U'",
    }


def test_a_claim_about_an_entry_with_a_fault_is_not_a_fault_of_its_own(small: Small) -> None:
    claim = {
        "quote": "q", "reading": "r", "measure": "bumps", "setting": "P [changes=1]",
        "agent": "A [delta=2]",
    }  # fmt: skip
    swept = agent("ucrl2", delta={"sweep": [2, 2.5]}, x=1)
    assert list(faults(small(agents=swept, claims=[claim]))) == ["agents.A.parameters.x"]


def test_modules_of_the_user_are_part_of_the_plan(small: Small, toys: Path) -> None:
    agents = agent("toys:Toy") | {"R": {"agent": "random"}}
    plan = check(parse(small(problems=problem("toys:two_states"), agents=agents)), toys, trust=True)
    assert list(plan.modules) == ["toy_numbers", "toys"]
    assert plan.compiled == (False, True)
    assert plan.pairs == (4,)
