"""An experiment written as TOML is read back unchanged."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

import pytest

from switchmdp.experiments import AgentSpec, Claim, Experiment, ProblemSpec, dumps, loads

NAMES = [
    "plain", "two words", "dotted.name", 'a "quoted" one', "back\\slash", "ünï – código", "[x]",
    "#", "=", "'", "'''", '"""', "\u2028", "\u009b", "12", "true", "\U0001f3b2", "x" * 100,
]  # fmt: skip
VALUES: list[Any] = [
    0, -1, 2**63 - 1, 0.1, 1e22, 1e-7, -0.0, 5e-324, 1.7976931348623157e308, True, False, "",
    "text", "\b\t\n\f\r\x00\x1f\x7f\"\\", [], [1, 2.5, "x", [True]], {"sweep": [1, 2]},
    {"sweep": [0.5]}, {"formula": "optimal-window", "diameter": "exact", "times": 2.0},
    {"choice": "beta", "strength": 3}, {"sweep": [{"formula": "horizon", "times": 0.5}, 7]},
]  # fmt: skip


def experiment(**more: Any) -> Experiment:
    fields: dict[str, Any] = {
        "title": "x", "horizon": 10, "n_problems": 1,
        "problems": {"P": ProblemSpec(problem="random-switching")},
        "agents": {"A": AgentSpec(agent="random")},
    }  # fmt: skip
    return Experiment(**fields | more)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_is_read_back_unchanged(name: str) -> None:
    expected = experiment(
        title=name, problems={name: ProblemSpec(problem=name)}, agents={name: AgentSpec(agent=name)}
    )
    assert loads(dumps(expected)) == expected


@pytest.mark.parametrize("value", VALUES)
def test_any_parameter_is_read_back_with_its_type(value: Any) -> None:
    agent = AgentSpec(agent="sw-ucrl", parameters={"a key": value, "b": value})
    expected = experiment(agents={"A": agent})
    actual = loads(dumps(expected))
    assert actual == expected
    assert repr(actual.agents["A"].parameters) == repr(agent.parameters)  # 1 is not 1.0 nor True
    assert actual.content_digest() == expected.content_digest()


def test_all_other_fields_are_read_back_unchanged() -> None:
    claim = Claim(
        quote="“Better”,\nit says.", reading="less", measure="better", setting="P", agent="A",
        than="A", margin=0.1, span=3,
    )  # fmt: skip
    expected = experiment(
        seed=2**62, initial_state=2, every=3, epsilon=0.25, claims=(claim, claim),
        agents={name: AgentSpec(agent="random") for name in NAMES},
    )  # fmt: skip
    assert loads(dumps(expected)) == expected
    assert list(loads(dumps(expected)).agents) == NAMES  # their order is part of the experiment


def test_missing_fields_are_left_out() -> None:
    assert "every" not in dumps(experiment())
    assert "than" not in dumps(experiment())
    assert "claims" not in dumps(experiment())


def test_the_toml_text_is_readable() -> None:
    agent = AgentSpec(agent="sw-ucrl", parameters={"window": {"sweep": [10, 20]}, "delta": 0.1})
    assert dumps(experiment(agents={"SW-UCRL": agent, "two words": agent})).endswith(
        "\n[agents.SW-UCRL]\n"
        'agent = "sw-ucrl"\n'
        "parameters = { window = { sweep = [10, 20] }, delta = 0.1 }\n"
        '\n[agents."two words"]\n'
        'agent = "sw-ucrl"\n'
        "parameters = { window = { sweep = [10, 20] }, delta = 0.1 }\n"
    )


def test_the_shipped_configurations_are_read_back_unchanged() -> None:
    for file in (resources.files("switchmdp.experiments") / "shipped").iterdir():
        expected = loads(file.read_text("utf-8"))
        assert loads(dumps(expected)) == expected
        assert tomllib.loads(dumps(expected))["title"] == expected.title
