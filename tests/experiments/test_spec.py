"""A configuration is read strictly, and all errors are reported at once."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pydantic
import pytest

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments.spec import (
    LARGEST_SEED,
    AgentSpec,
    Experiment,
    ProblemSpec,
    dumps,
    load,
    loads,
    parse,
    schema,
)

Small = Callable[..., dict[str, Any]]


def errors_of(data: Any) -> dict[str, str]:
    with pytest.raises(InvalidExperiment) as caught:
        parse(data)
    return {fault.path: str(fault).removeprefix(f"{fault.path}: ") for fault in caught.value.faults}


def test_all_errors_are_reported_at_once_with_path_value_and_what_is_allowed(small: Small) -> None:
    data = small(
        title="", horizon=0, n_problems=2.5, seed=-1, epsilon=2.0, initial_state="x",
        problems={"P": {"parameters": 3}}, agents={"A": {"agent": 5}},
    )  # fmt: skip
    assert errors_of(data) == {
        "title": "must be at least 1 long, got ''",
        "horizon": "must be greater than or equal to 1, got 0",
        "n_problems": "must be an integer, got 2.5",
        "seed": "must be greater than or equal to 0, got -1",
        "initial_state": "must be an integer, got 'x'",
        "epsilon": "must be less than or equal to 1, got 2.0",
        "problems.P.problem": "problems.P: missing required key 'problem'",
        "problems.P.parameters": "must be a table, got 3",
        "agents.A.agent": "must be a string: a registered name, or 'module:Name' for your own "
        "agent, got 5",
    }


def test_an_unknown_key_is_an_error_that_suggests_the_nearest_known_one(small: Small) -> None:
    errors = errors_of(
        small(
            horzon=1,
            agents={"A": {"agent": "random", "paramters": {}}},
            claims=[{"quotes": "x"}],
            nonsense={},
        )
    )
    assert errors["horzon"] == "unknown key 'horzon'; did you mean 'horizon'?"
    message = "agents.A: unknown key 'paramters'; did you mean 'parameters'?"
    assert errors["agents.A.paramters"] == message
    assert errors["claims.0.quotes"] == "claims.0: unknown key 'quotes'; did you mean 'quote'?"
    assert errors["nonsense"].startswith("unknown key 'nonsense'; expected one of 'title', ")


def test_a_parameter_in_the_wrong_place_is_an_error_that_shows_the_right_one(small: Small) -> None:
    errors = errors_of(small(agents={"A": {"agent": "sw-ucrl", "window": 100}}))
    assert errors["agents.A.window"] == (
        "agents.A: unknown key 'window'; expected one of 'agent', 'parameters' "
        "(parameters are written as parameters = { window = ... })"
    )


def test_other_errors_are_reported_even_if_keys_are_missing(small: Small) -> None:
    agents = {
        "A": {"agent": "SW-UCRL"},
        "B": {"agent": "sw-ucrl", "parameters": {"windw": 3}},
        "C": {"agent": "module:Name"},
    }
    data = small(agents=agents)
    del data["horizon"], data["title"]
    assert errors_of(data) == {
        "horizon": "missing required key 'horizon'",
        "agents.A.agent": "unknown agent 'SW-UCRL'; did you mean 'sw-ucrl'?",
        "agents.B.parameters.windw": "agents.B.parameters: unknown parameter 'windw'; "
        "did you mean 'window'?",
        "agents.B.parameters.window": "missing required parameter",
    }


def test_the_title_is_optional_and_defaults_to_the_file_name(small: Small, tmp_path: Path) -> None:
    data = small()
    del data["title"]
    assert parse(data).title == "experiment"
    assert parse(data).content_digest() == parse(small()).content_digest()
    text = "\n".join(
        line for line in dumps(parse(small())).splitlines() if not line.startswith("title")
    )
    (tmp_path / "windows.toml").write_text(text)
    assert load(tmp_path / "windows.toml")[0].title == "windows"


def test_a_float_with_an_integer_value_is_an_integer(small: Small) -> None:
    fields = ("horizon", "n_problems", "seed", "initial_state", "every")
    integers = dict(zip(fields, (100_000, 4, 5, 2, 500), strict=True))
    floats = {name: float(value) for name, value in integers.items()}
    experiment = parse(small(**floats))
    assert experiment.content_digest() == parse(small(**integers)).content_digest()
    assert all(type(getattr(experiment, name)) is int for name in fields)
    assert "horizon = 100000\n" in dumps(experiment)
    assert set(errors_of(small(horizon=1.5, seed=float("inf")))) == {"horizon", "seed"}


@pytest.mark.parametrize("seed", [0, LARGEST_SEED])
def test_seeds_within_their_bounds_are_accepted(small: Small, seed: int) -> None:
    assert parse(small(seed=seed)).seed == seed


@pytest.mark.parametrize("seed", [-1, LARGEST_SEED + 1, 1.5, True, "1", None])
def test_seeds_beyond_their_bounds_are_rejected(small: Small, seed: Any) -> None:
    assert list(errors_of(small(seed=seed))) == ["seed"]


@pytest.mark.parametrize("epsilon", [float("nan"), float("inf"), 0.0, -0.1, "0.1"])
def test_an_epsilon_outside_0_to_1_is_rejected(small: Small, epsilon: Any) -> None:
    assert list(errors_of(small(epsilon=epsilon))) == ["epsilon"]


@pytest.mark.parametrize("data", [None, [1, 2], "title", 3, {1: 2}])
def test_data_that_is_not_a_table_is_rejected(data: Any) -> None:
    with pytest.raises(InvalidExperiment):
        parse(data)


def test_no_problems_and_no_agents_are_rejected(small: Small) -> None:
    assert list(errors_of(small(problems={}, agents={}))) == ["problems", "agents"]


def test_names_with_control_characters_are_rejected_and_shown_escaped(small: Small) -> None:
    errors = errors_of(small(agents={"a\x1b[2J": {"agent": "random"}, "": {"agent": "random"}}))
    assert list(errors) == [r"agents.'a\x1b[2J'", "agents.''"]


def test_a_run_records_at_most_ten_thousand_points(small: Small) -> None:
    assert parse(small(horizon=10**6, every=100)).grid == 100
    errors = errors_of(small(horizon=10**6, every=99))
    assert errors["every"].startswith("must be at least 100: a run records at most 10000 points")


def test_every_number_has_bounds(small: Small) -> None:
    claim = {"quote": "q", "reading": "r", "measure": "bumps", "setting": "P", "agent": "A"}
    huge = 16**5000
    data = small(claims=[claim | {"span": huge, "margin": float("inf")}])
    fields = ("horizon", "n_problems", "seed", "initial_state", "every")
    errors = errors_of(data | dict.fromkeys(fields, huge))
    assert set(errors) == {*fields, "claims.0.span", "claims.0.margin"}


def test_the_grid_is_a_two_hundredth_of_the_horizon_or_every_step(small: Small) -> None:
    grids = [parse(small(horizon=horizon)).grid for horizon in (1, 199, 200, 399, 400, 100_000)]
    assert grids == [1, 1, 1, 1, 2, 500]


def test_an_experiment_is_immutable(small: Small) -> None:
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        parse(small()).horizon = 5


def test_the_digest_depends_on_everything_except_title_and_claims(small: Small) -> None:
    claim = {
        "quote": "q", "reading": "r", "measure": "bumps", "setting": "P [changes=1]", "agent": "R",
    }  # fmt: skip
    first = parse(small()).content_digest()
    assert parse(small(title="other", claims=[claim])).content_digest() == first
    ucrl2, chance = {"agent": "ucrl2"}, {"agent": "random"}
    others: list[dict[str, Any]] = [
        {"horizon": 301}, {"n_problems": 5}, {"seed": 6}, {"initial_state": 1}, {"every": 7},
        {"epsilon": 0.06}, {"agents": {"R": chance}}, {"agents": {"R": chance, "V": ucrl2}},
        {"agents": {"R": chance, "U": ucrl2 | {"parameters": {"delta": 0.2}}}},
        {"agents": {"U": ucrl2 | {"parameters": {"delta": 0.1}}, "R": chance}},
        {"problems": {"P": {"problem": "random-switching"}}},
    ]  # fmt: skip
    digests = {parse(small(**change)).content_digest() for change in others}
    assert len(digests | {first}) == len(others) + 1


def test_the_default_grid_has_the_same_digest_as_an_explicit_one(small: Small) -> None:
    horizon = small()["horizon"]
    written = parse(small(every=horizon // 200))
    assert written.content_digest() == parse(small()).content_digest()


def test_python_and_toml_give_the_same_value() -> None:
    text = """
        title = "x"
        horizon = 10
        n_problems = 1
        [problems.P]
        problem = "random"
        parameters = { n_states = 3, rows = "uniform" }
        [agents.A]
        agent = "random"
    """
    data = {
        "title": "x", "horizon": 10, "n_problems": 1, "agents": {"A": {"agent": "random"}},
        "problems": {
            "P": {"problem": "random", "parameters": {"n_states": 3, "rows": "uniform"}}
        },
    }  # fmt: skip
    assert loads(text) == parse(data) == Experiment.model_validate_json(json.dumps(data))


@pytest.mark.parametrize(
    "text",
    ["title = ", "a = 1\na = 2", "seed = 9", "x = [", "x = 1979-13-45", "\x00", "title = 'x"],
)
def test_text_that_is_not_toml_is_an_error(text: str) -> None:
    with pytest.raises(InvalidExperiment, match="the file is not valid TOML"):
        loads(text + text[-1] * 5000)


def test_the_error_shows_the_line_that_is_not_toml() -> None:
    with pytest.raises(InvalidExperiment, match=r"\(at line 2, column 11\): 'agent = random'$"):
        loads("seed = 1\n  agent = random\n")


def test_a_key_of_the_experiment_below_a_table_is_explained() -> None:
    text = """
        [problems.P]
        problem = "random"
        [agents.A]
        agent = "random"
        horizon = 10
        n_problems = 1
    """
    with pytest.raises(InvalidExperiment) as caught:
        loads(text)
    shown = str(caught.value)
    for key in ("horizon", "n_problems"):
        assert f"agents.A: '{key}' is not a key of this table; write keys of the whole" in shown
    assert "did you mean 'problem'" not in shown


@pytest.mark.parametrize("value", [object, 3, None])
def test_an_agent_must_be_given_by_name(value: Any) -> None:
    with pytest.raises(InvalidExperiment, match="agent: must be a string: a registered name"):
        AgentSpec(agent=value)


def test_the_error_for_a_table_without_entries_is_readable(small: Small) -> None:
    with pytest.raises(InvalidExperiment, match=r"agents: must be a table with entries, got {}"):
        parse(small(agents={}))


def test_dates_and_huge_numbers_are_reported_like_other_errors() -> None:
    with pytest.raises(InvalidExperiment) as caught:
        loads(f"title = 2020-01-01\nhorizon = 07:30:00\nn_problems = 0x{'f' * 5000}\nseed = inf")
    text = str(caught.value)
    assert "title: must be a string, got datetime.date(2020, 1, 1)" in text
    assert "horizon: must be an integer, got datetime.time(7, 30)" in text
    assert (
        "n_problems: must be less than or equal to 1000000, got a value that can't be shown" in text
    )
    assert "seed: must be an integer, got inf" in text


def test_a_file_is_read_with_its_text(tmp_path: Path, small: Small) -> None:
    file = tmp_path / "x.toml"
    text = 'title = "é"\nhorizon = 10\nn_problems = 1\n'
    text += '[problems.P]\nproblem = "random"\n[agents.A]\nagent = "random"\n'
    file.write_text(text, "utf-8")
    experiment, content = load(file)
    assert (experiment.title, content) == ("é", text)


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "notepad.toml"
    text = "horizon = 10\r\nn_problems = 1\r\n"
    text += '[problems.P]\r\nproblem = "random"\r\n[agents.A]\r\nagent = "random"\r\n'
    file.write_bytes(text.encode("utf-8-sig"))
    assert load(file) == (loads(text, "notepad"), text)


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    (tmp_path / "large.toml").write_bytes(b"#" * 1_000_001)
    (tmp_path / "latin.toml").write_bytes(b'title = "\xe9"')
    for name, words in (
        ("none.toml", "can't read the file: No such file"),
        ("large.toml", "at most 1 MB"),
        ("latin.toml", "UTF-8 text"),
        ("", "can't read the file: Is a directory; load_results"),
    ):
        with pytest.raises(InvalidExperiment, match=words):
            load(tmp_path / name)


def test_claims_are_read_strictly_too(small: Small) -> None:
    claim = {"quote": "q", "reading": "r", "setting": "P", "agent": "A"}
    errors = errors_of(
        small(
            claims=[
                claim | {"measure": "best"},
                claim | {"measure": "better", "margin": "0.1", "span": 0},
                "better",
            ]
        )
    )
    assert errors["claims.0.measure"].startswith("must be one of 'better', 'slightly-worse'")
    assert list(errors)[1:] == ["claims.1.margin", "claims.1.span", "claims.2"]


@pytest.mark.parametrize("name", ["figure-1", "sensitivity", "window-scan"])
def test_the_shipped_configurations_are_valid_and_fit_the_schema(name: str) -> None:
    file = resources.files("switchmdp.experiments") / "shipped" / f"{name}.toml"
    text = file.read_text("utf-8")
    loads(text)
    known = json.loads(json.dumps(schema()))
    must_fit(tomllib.loads(text), known, known["$defs"])


def test_the_schema_rejects_what_the_parser_rejects(small: Small) -> None:
    known = schema()
    must_fit(small(), known, known["$defs"])
    changes: list[dict[str, Any]] = [
        {"horzon": 1}, {"horizon": 0}, {"agents": {}}, {"problems": {"P": {}}},
        {"agents": {"A": {"agent": "random", "parameters": {"x": {"y": 1}}}}},
        {"agents": {"A": {"agent": "random", "parameters": {"x": {"sweep": []}}}}},
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(AssertionError):
            must_fit(small(**change), known, known["$defs"])


def must_fit(value: Any, rule: dict[str, Any], named: dict[str, Any]) -> None:
    """Validate a value, for the part of JSON Schema that our schema uses."""
    if "$ref" in rule:
        must_fit(value, named[rule["$ref"].removeprefix("#/$defs/")], named)
    if "anyOf" in rule:
        assert any(fits(value, option, named) for option in rule["anyOf"]), (value, rule)
    if "enum" in rule:
        assert value in rule["enum"]
    kinds = rule.get("type", [])
    types = {
        "object": dict, "array": list, "string": str, "integer": int, "number": (int, float),
        "boolean": bool, "null": type(None),
    }  # fmt: skip
    kinds = [kinds] if isinstance(kinds, str) else kinds
    assert not kinds or any(isinstance(value, types[k]) for k in kinds), (value, rule)  # type: ignore[arg-type]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        assert rule.get("minimum", value) <= value <= rule.get("maximum", value)
    if isinstance(value, list):
        assert len(value) >= rule.get("minItems", 0)
        for item in value:
            must_fit(item, rule.get("items", {}), named)
    if isinstance(value, dict):
        assert set(rule.get("required", [])) <= set(value), (value, rule)
        assert len(value) >= rule.get("minProperties", 0)
        others = rule.get("additionalProperties", {})
        for pattern, inside in rule.get("patternProperties", {}).items():
            assert all(re.search(pattern, key) for key in value)
            others = inside
        for key, item in value.items():
            inside = rule.get("properties", {}).get(key, others)
            assert inside is not False, key
            must_fit(item, {} if inside is True else inside, named)


def fits(value: Any, rule: dict[str, Any], named: dict[str, Any]) -> bool:
    try:
        must_fit(value, rule, named)
    except AssertionError:
        return False
    return True


def test_experiments_made_in_python_raise_the_errors_of_files() -> None:
    known: dict[str, Any] = {"horizon": 10, "n_problems": 1}
    agents, problems = {"A": AgentSpec(agent="random")}, {"P": ProblemSpec(problem="random")}
    with pytest.raises(InvalidExperiment, match="horizon: must be greater than or equal to 1") as e:
        Experiment(horizon=-1, n_problems=1, agents=agents, problems=problems)
    assert [fault.path for fault in e.value.faults] == ["horizon"]
    with pytest.raises(InvalidExperiment, match="unknown key 'horizn'; did you mean 'horizon'"):
        Experiment(**known, horizn=10, agents=agents, problems=problems)  # type: ignore[call-arg]
    with pytest.raises(InvalidExperiment, match="unknown key 'agnt'; did you mean 'agent'"):
        AgentSpec(agnt="random")  # type: ignore[call-arg]
    with pytest.raises(InvalidExperiment, match="missing required key 'problem'"):
        ProblemSpec()  # type: ignore[call-arg]
    with pytest.raises(InvalidExperiment, match=r"agents.A: missing required key 'agent'"):
        Experiment(**known, agents={"A": {}}, problems=problems)  # type: ignore[dict-item]
