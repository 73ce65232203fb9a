"""The content of an experiment file, and the list of all errors in it.

    horizon = 100_000
    n_problems = 100
    seed = 1

    [problems.random]
    problem = "random-switching"
    parameters = { n_states = 5, n_actions = 3, changes = { sweep = [2, 4] } }

    [agents.SW-UCRL]
    agent = "sw-ucrl"
    parameters = { window = { formula = "optimal-window", diameter = 1 }, delta = 0.1 }

A parameter is a plain value, `{ sweep = [...] }` (one variant for each entry), for agents also
`{ formula = "...", ... }` (a number that depends on the problem), and for problems
`{ choice = "...", ... }` (a function or law by name). `agent` and `problem` are registered names or
"module:Name", which only a trusted file may use. Unknown keys are errors.
"""

from __future__ import annotations

import codecs
import difflib
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from switchmdp.display import counted, shortened
from switchmdp.errors import Fault, InvalidExperiment

LARGEST_SEED = 2**62
LONGEST = 10**10
POINTS = 200
MOST_POINTS = 10_000
MOST_BYTES = 1_000_000
MOST_PARTS = 1000  # of a dotted key: longer ones take minutes to parse

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


def as_integer(value: Any) -> Any:
    """A float with an integer value (1e5) or a NumPy integer as an int; anything else unchanged.

    >>> as_integer(1e5), as_integer(1.5), as_integer(np.int64(7))
    (100000, 1.5, 7)
    """
    is_integer = isinstance(value, np.integer) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_integer else value


Integer = Annotated[int, BeforeValidator(as_integer)]


def _table_with(key: str) -> dict[str, Any]:
    return {"type": "object", "required": [key], "properties": {key: {"type": "string"}}}


PARAMETERS_SCHEMA = {
    "type": "object",
    "additionalProperties": {
        "anyOf": [
            {"type": ["boolean", "number", "string", "array"]},
            {
                "type": "object", "required": ["sweep"], "additionalProperties": False,
                "properties": {"sweep": {"type": "array", "minItems": 1}},
            },
            _table_with("formula"),
            _table_with("choice"),
        ]
    },
}  # fmt: skip
Parameters = Annotated[dict[str, Any], Field(json_schema_extra=PARAMETERS_SCHEMA)]


def _keep_summary(schema: dict[str, Any]) -> None:
    """Describe a table of an experiment file by the first sentence of the docstring."""
    if "description" in schema:  # `python -OO` removes docstrings
        schema["description"] = schema["description"].partition("\n\n")[0]


if TYPE_CHECKING:
    _Model = BaseModel
else:

    class _RaisesOurErrors(type(BaseModel)):
        """The class of models: calling one raises InvalidExperiment for invalid arguments.

        (A model with its own `__init__` could not be a part of another model.)
        """

        def __call__(cls, *given: Any, **named: Any) -> Any:
            try:
                return super().__call__(*given, **named)
            except ValidationError as error:
                raise InvalidExperiment([_fault_of(e, cls) for e in error.errors()]) from None

    class _Model(BaseModel, metaclass=_RaisesOurErrors):
        pass


class _Strict(_Model):
    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False,
        json_schema_extra=_keep_summary,
    )  # fmt: skip


class ProblemSpec(_Strict):
    """A family of problems in an experiment: the name of a generator, and its parameters.

    Parameters
    ----------
    problem
        A registered name, or "module:Name".
    parameters
        The arguments of the generator: values, sweeps and choices.
    """

    problem: Name
    parameters: Parameters = {}


class AgentSpec(_Strict):
    """An agent in an experiment: its name, and its parameters.

    Parameters
    ----------
    agent
        A registered name, or "module:Name".
    parameters
        The arguments of the agent: values, sweeps and formulas.
    """

    agent: Name
    parameters: Parameters = {}


class Claim(_Strict):
    """A statement that the results can support or contradict.

    The measures compare the mean final regret of `agent` with that of `than`. `better`: it is
    lower. `slightly-worse`: it is higher, by at most the fraction `margin`. `close`: it differs by
    at most that fraction. The measure `bumps` is about `agent` alone: after every change point
    within the horizon, regret grows faster in the next `span` steps than in the `span` steps
    before.

    Parameters
    ----------
    quote
        The sentence that makes the claim.
    reading
        The precise meaning of the sentence, which is tested.
    measure
        `"better"`, `"slightly-worse"`, `"close"` or `"bumps"`.
    setting
        The setting on which the claim is tested.
    agent
        The agent that the claim is about.
    than
        The agent with which it is compared.
    margin
        The largest relative difference, for `slightly-worse` and `close`.
    span
        The number of steps before and after a change, for `bumps`.
    """

    quote: str
    reading: str
    measure: Literal["better", "slightly-worse", "close", "bumps"]
    setting: str
    agent: str
    than: str | None = None
    margin: float = Field(default=0.25, gt=0.0, le=100.0)
    span: Integer = Field(default=5000, ge=1, le=LONGEST)


class Experiment(_Strict):
    """An experiment: problems × agents, as a frozen value.

    Parameters
    ----------
    title
        The title of reports.
    horizon
        The number of steps of every run.
    n_problems
        The number of problems of each family; every agent runs on each of them.
    seed
        The seed of all random numbers.
    initial_state
        The state before the first step of every run.
    every
        The number of steps between two recorded points; by default 1/200 of the horizon.
    epsilon
        The tolerance of ε-bad steps and of adaptation.
    problems
        The families of problems, by name.
    agents
        The agents, by name.
    claims
        Statements that the report tests.

    Examples
    --------
    >>> experiment = Experiment(
    ...     title="two agents", horizon=2000, n_problems=3,
    ...     problems={"random": ProblemSpec(problem="random-switching")},
    ...     agents={"A": AgentSpec(agent="ucrl2"), "B": AgentSpec(agent="random")},
    ... )
    >>> experiment.grid, len(experiment.content_digest())
    (10, 64)
    """

    title: str = Field(default="experiment", min_length=1, max_length=200)
    horizon: Integer = Field(ge=1, le=LONGEST)
    n_problems: Integer = Field(ge=1, le=10**6)
    seed: Integer = Field(default=0, ge=0, le=LARGEST_SEED)
    initial_state: Integer = Field(default=0, ge=0, le=10**9)
    every: Integer | None = Field(
        default=None, ge=1, le=LONGEST, description="steps between two recorded points"
    )
    epsilon: float = Field(
        default=0.05, gt=0.0, le=1.0, description="tolerance for ε-bad steps and for adaptation"
    )
    problems: dict[Name, ProblemSpec] = Field(min_length=1, max_length=1000)
    agents: dict[Name, AgentSpec] = Field(min_length=1, max_length=1000)
    claims: tuple[Claim, ...] = Field(default=(), max_length=1000, strict=False)

    @field_validator("every")
    @classmethod
    def _few_points(cls, every: int | None, info: Any) -> int | None:
        horizon = info.data.get("horizon", 1)
        if every is not None and horizon / every > MOST_POINTS:
            least = -(-horizon // MOST_POINTS)
            raise ValueError(f"at least {least}: a run records at most {MOST_POINTS} points")
        return every

    def __repr__(self) -> str:
        families = counted(len(self.problems), "family", "families")
        sizes = f"{families} of {counted(self.n_problems, 'problem')}"
        return (
            f"Experiment({shortened(self.title)}, {sizes}, {counted(len(self.agents), 'agent')}, "
            f"horizon={self.horizon}, seed={self.seed})"
        )

    @property
    def grid(self) -> int:
        """The number of steps between two recorded points; by default 1/200 of the horizon."""
        return self.every if self.every is not None else max(1, self.horizon // POINTS)

    @property
    def points(self) -> int:
        """The number of points that a run records."""
        return -(-self.horizon // self.grid)

    @property
    def needs_trust(self) -> bool:
        """Whether it names user modules, which are imported only with trust."""
        names = [spec.problem for spec in self.problems.values()]
        return any(map(in_user_module, [*names, *(spec.agent for spec in self.agents.values())]))

    def content(self) -> dict[str, Any]:
        """Everything that the runs depend on: all fields except the title and the claims."""
        return self.model_dump(mode="json", exclude={"title", "claims"}) | {"every": self.grid}

    def content_digest(self) -> str:
        """SHA-256 of `content`. The order of problems, agents and parameters matters."""
        return hashlib.sha256(canonical(self.content())).hexdigest()


def in_user_module(name: str) -> bool:
    """Whether the name of an agent or problem has the form "module:Name"."""
    return ":" in name


def is_table(value: Any, key: str) -> bool:
    """Whether a parameter is written as a table with this key."""
    return isinstance(value, Mapping) and key in value


def canonical(value: Any) -> bytes:
    """Canonical JSON: exactly one text for each value. Tables keep their order."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")  # lone surrogates become JSON escapes


def parse(data: Mapping[str, Any], *, look_up_names: bool = True) -> Experiment:
    """Validate plain data as an experiment; raises InvalidExperiment with all errors.

    If the data does not have the right shape, the names and parameters of the valid entries are
    checked as well (with `look_up_names`), so that one attempt shows all errors.

    >>> parse({"horizon": -1, "n_problems": 1, "agent": {}})
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidExperiment: horizon: must be greater than or equal to 1, got -1
    missing required key 'problems'
    missing required key 'agents'
    unknown key 'agent'; did you mean 'agents'?
    """
    try:
        return Experiment.model_validate(dict(data) if isinstance(data, Mapping) else data)
    except ValidationError as error:
        faults = [_fault_of(e) for e in error.errors()]
        if look_up_names:
            from switchmdp.experiments.names import entry_faults  # imports all agents

            faults += entry_faults(data)
        raise InvalidExperiment(faults) from None


def loads(text: str, title: str | None = None) -> Experiment:
    """An experiment from TOML text.

    Parameters
    ----------
    text
        The text of a configuration.
    title
        The title, if the text has none.

    Returns
    -------
    Experiment
        The experiment.

    Raises
    ------
    InvalidExperiment
        If the text has errors; the exception lists all of them.

    Examples
    --------
    >>> loads(shipped()["figure-1"]).n_problems
    1000
    """
    if any(part.count(".") > MOST_PARTS for part in re.split(r"[=,\[\]{}#]", text)):
        value = Words(f"a key of more than {MOST_PARTS} parts")
        raise InvalidExperiment([Fault("the file", value, "TOML with shorter keys")])
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # integers of 5000 digits are a ValueError
        message = f"the file is not valid TOML: {error}{_line_of(error, text)}"
        raise InvalidExperiment([ConfigError("the file", NOTHING, "TOML", message)]) from None
    if title is not None:
        data.setdefault("title", title)
    return parse(data)


def _line_of(error: Exception, text: str) -> str:
    """The line that an error of the TOML parser names, for the message."""
    place = re.search(r"\(at line (\d+),", str(error))
    lines = text.splitlines()
    number = int(place[1]) - 1 if place else len(lines)
    return f": {shortened(lines[number].strip(), 80)}" if number < len(lines) else ""


def load(path: str | os.PathLike[str]) -> tuple[Experiment, str]:
    """An experiment from a TOML file, and the text of the file.

    Parameters
    ----------
    path
        The file. Its name is the title, if the text has none.

    Returns
    -------
    tuple[Experiment, str]
        The experiment and the text.

    Raises
    ------
    InvalidExperiment
        If the file has errors or is no file; the exception lists all errors.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "mine.toml")
    ...     _ = path.write_text(shipped()["figure-1"], encoding="utf-8")
    ...     experiment, text = load(path)
    >>> experiment == loads(text)
    True
    """
    name = str(path)
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise InvalidExperiment([Fault(name, Words("a larger file"), "at most 1 MB")])
        text = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"{name}: can't read the file: {reason}"
        if Path(path).is_dir():
            message += "; load_results(open_store(folder)) loads the results in a folder"
        raise InvalidExperiment([ConfigError(name, Words(reason), "a file", message)]) from None
    except UnicodeDecodeError as error:
        where = Words(f"the byte {error.object[error.start]:#x} at position {error.start}")
        raise InvalidExperiment([Fault(name, where, "UTF-8 text")]) from None
    return loads(text, Path(path).stem[:200] or None), text


def shipped() -> dict[str, str]:
    """The configurations that come with the package.

    Returns
    -------
    dict[str, str]
        Their TOML text, by name.

    Examples
    --------
    >>> "figure-1" in shipped()
    True
    """
    folder = resources.files("switchmdp.experiments") / "shipped"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in files}


def dumps(experiment: Experiment) -> str:
    """TOML text that `loads` reads back as the same experiment.

    `tomli_w` is not an option: it writes a table's plain values before its subtables. That changes
    the order of the parameters, and with it the digest: `{ window = { sweep = [1] }, delta = 0.1 }`
    would be read back with `delta` first. Here parameters are inline tables, which keep their
    order.

    Parameters
    ----------
    experiment
        The experiment.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> experiment = Experiment(
    ...     horizon=10, n_problems=1, agents={"a b": AgentSpec(agent="random")},
    ...     problems={"P": ProblemSpec(problem="random", parameters={"n_states": 3})},
    ... )
    >>> loads(dumps(experiment)) == experiment
    True
    """
    content = experiment.model_dump(mode="json", exclude_none=True)
    problems, agents, claims = (content.pop(name) for name in ("problems", "agents", "claims"))
    blocks = [("", content)]
    blocks += [(f"\n[problems.{_toml_key(name)}]", spec) for name, spec in problems.items()]
    blocks += [(f"\n[agents.{_toml_key(name)}]", spec) for name, spec in agents.items()]
    blocks += [("\n[[claims]]", claim) for claim in claims]
    lines = []
    for header, table in blocks:
        lines += [header] * bool(header)
        lines += [f"{key} = {_toml_value(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_toml_key(k)} = {_toml_value(v)}" for k, v in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, float):
        return repr(value)
    # Strings, integers and booleans are the same as in JSON, except for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def schema() -> dict[str, Any]:
    """The JSON schema of experiment files, for editors.

    Returns
    -------
    dict[str, Any]
        The schema, as plain data.

    Examples
    --------
    >>> sorted(schema()["required"])
    ['agents', 'horizon', 'n_problems', 'problems']
    """
    content = Experiment.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **content}


# Errors of a configuration: where, what is wrong, and what is allowed instead.


@dataclass(frozen=True)
class ConfigError(Fault):
    """An error with its own message, because "must be ..., got ..." would read badly."""

    message: str = ""

    def __str__(self) -> str:
        return self.message or super().__str__()


class Words:
    """A text in place of a value that can't be shown or is missing; printed without quotes."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NOTHING = Words("nothing")
FIRST_LINES = "write keys of the whole experiment before the first [table]"

_ALLOWED = {
    "dict_type": "a table", "model_type": "a table", "model_attributes_type": "a table",
    "string_unicode": "text", "string_pattern_mismatch": "a name without control characters",
    "string_too_short": "at least {min_length} long", "too_short": "a table with entries",
    "string_too_long": "at most {max_length} long", "too_long": "at most {max_length} long",
    "literal_error": "one of {expected}", "invalid_key": "a key that is text",
}  # fmt: skip


def _fault_of(error: Any, made: Any = None) -> Fault:
    """Our error for an error of pydantic; `made` is the class that was called, if any."""
    top: type[BaseModel] = made or Experiment
    parts = [str(part) for part in error["loc"] if part != "[key]"]
    shown = [part if part.isprintable() and part else repr(part) for part in parts]
    path, parent = ".".join(shown) or "the experiment", ".".join(shown[:-1])
    kind, message = error["type"], error["msg"]
    if kind == "missing":
        return missing(path, parent, f"key {parts[-1]!r}")
    if kind == "extra_forbidden":
        models: dict[str, type[BaseModel]] = {
            "problems": ProblemSpec, "agents": AgentSpec, "claims": Claim,
        }  # fmt: skip
        model = models.get(parts[0], top) if len(parts) > 1 else top
        more = f" (parameters are written as parameters = {{ {shown[-1]} = ... }})"
        more = more if "parameters" in model.model_fields else ""
        if len(parts) > 1 and parts[-1] in top.model_fields:
            message = f"{parent}: {parts[-1]!r} is not a key of this table; {FIRST_LINES}"
            return ConfigError(path, showable(error["input"]), "left out", message)
        return unknown("key", parts[-1], model.model_fields, path, parent, error["input"], more)
    if kind == "string_type" and parts[-1] in ("agent", "problem"):
        allowed = f"a string: a registered name, or 'module:Name' for your own {parts[-1]}"
    elif kind in _ALLOWED:
        allowed = _ALLOWED[kind].format(**error.get("ctx", {}))
    else:
        message = message.removeprefix("Value error, ").removeprefix("Input should be ")
        allowed = message.replace("a valid integer", "an integer").replace("a valid ", "a ")
    return Fault(path, showable(error["input"]), allowed)


def missing(path: str, place: str, what: str) -> Fault:
    """The error for a missing required key or parameter; `place` is empty at the top level.

    >>> print(missing("agents.A.agent", "agents.A", "key 'agent'"))
    agents.A: missing required key 'agent'
    """
    message = f"{place}: missing required {what}" if place else f"missing required {what}"
    return ConfigError(path, NOTHING, "given", message)


def unknown(
    what: str, name: Any, known: Iterable[str], path: str, place: str, value: Any = NOTHING,
    more: str = "",
) -> Fault:  # fmt: skip
    """The error for an unknown name. It suggests the nearest known name, or lists all names.

    >>> print(unknown("agent", "SW-UCRL", ["ucrl2", "sw-ucrl"], "agents.A.agent", "agents.A"))
    agents.A: unknown agent 'SW-UCRL'; did you mean 'sw-ucrl'?
    """
    names = list(known)
    allowed = f"one of {', '.join(map(repr, names))}{more}" if names else "left out"
    by_lower_case = {name.lower(): name for name in names}
    typed = str(name).lower()
    same = [known for known in by_lower_case if _letters(known) == _letters(typed)]
    begun = [known for known in by_lower_case if len(typed) > 2 and known.startswith(typed)]
    close = same or begun or difflib.get_close_matches(typed, by_lower_case, 1)
    if close:
        advice = f"did you mean {by_lower_case[close[0]]!r}?"
    else:
        advice = f"expected {allowed}" if names else "none are allowed here"
    message = f"unknown {what} {showable(name)!r}; {advice}"
    message = f"{place}: {message}" if place else message
    return ConfigError(path, showable(name if value is NOTHING else value), allowed, message)


def _letters(name: str) -> str:
    """A name without separators: the class `SWUCRL` is the agent `sw-ucrl`."""
    return name.replace("-", "").replace("_", "")


def showable(value: Any) -> Any:
    """The value itself if it can be printed; an integer of 5000 digits can't.

    >>> showable(7), showable(16**5000)
    (7, a value that can't be shown)
    """
    try:
        repr(value)
    except Exception:  # a value's __repr__ may raise anything
        return Words("a value that can't be shown")
    return value


def describe_error(error: BaseException) -> str:
    """An exception from user code, in one line.

    >>> describe_error(KeyError("x"))
    "KeyError: 'x'"
    """
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, which can't be shown"
