"""An experiment is data: problems × agents × horizon × number of problems × seed.

    title = "windows"
    horizon = 100_000
    n_problems = 100
    seed = 1

    [problems.random]
    problem = "random-switching"
    parameters = { n_states = 5, n_actions = 3, changes = { sweep = [2, 4] } }

    [agents.SW-UCRL]
    agent = "sw-ucrl"
    parameters = { window = { formula = "optimal-window", diameter = 1 }, delta = 0.1 }

A parameter is a plain value, `{ sweep = [...] }` (one variant for each entry), or, for agents,
`{ formula = "...", ... }`: a number that depends on the problem. `agent` and `problem` are names
of the package's own, or "module:Name" of the user's, which only a trusted file may name. The file
is read strictly: what is not known is refused, and every fault is reported at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from switchmdp.errors import Fault, InvalidExperiment
from switchmdp.experiments.faults import NOTHING, Words, fault_of

LARGEST_SEED = 2**62
LONGEST = 10**10
POINTS = 200
MOST_POINTS = 10_000
MOST_BYTES = 1_000_000
MOST_PARTS = 1000

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]+$")]


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


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class ProblemSpec(_Strict):
    """A family of problems: a generator by name, and its parameters."""

    problem: Name
    parameters: Parameters = {}


class AgentSpec(_Strict):
    """An agent by name, and its parameters."""

    agent: Name
    parameters: Parameters = {}


class Claim(_Strict):
    """A sentence about the results that they can support or contradict.

    `better`: the mean final regret of `agent` is below that of `than`. `slightly-worse`: above it,
    by at most `margin` of it. `bumps`: at every change felt, regret grows faster in the `span`
    steps after it than in the `span` steps before.
    """

    quote: str
    reading: str
    measure: Literal["better", "slightly-worse", "bumps"]
    setting: str
    agent: str
    than: str | None = None
    margin: float = Field(default=0.25, gt=0.0, le=100.0)
    span: int = Field(default=5000, ge=1, le=LONGEST)


class Experiment(_Strict):
    """Problems × agents, as a frozen value.

    >>> experiment = Experiment(
    ...     title="two agents", horizon=2000, n_problems=3,
    ...     problems={"random": ProblemSpec(problem="random-switching")},
    ...     agents={"A": AgentSpec(agent="ucrl2"), "B": AgentSpec(agent="random")},
    ... )
    >>> experiment.grid, len(experiment.content_digest())
    (10, 64)
    """

    title: str = Field(min_length=1, max_length=200)
    horizon: int = Field(ge=1, le=LONGEST)
    n_problems: int = Field(ge=1, le=10**6)
    seed: int = Field(default=0, ge=0, le=LARGEST_SEED)
    initial_state: int = Field(default=0, ge=0, le=10**9)
    every: int | None = Field(
        default=None, ge=1, le=LONGEST, description="steps between two recorded points"
    )
    epsilon: float = Field(default=0.05, gt=0.0, le=1.0, description="what counts as ε-bad")
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

    @property
    def grid(self) -> int:
        """The steps between two recorded points: a two-hundredth of the horizon if not given."""
        return self.every if self.every is not None else max(1, self.horizon // POINTS)

    @property
    def points(self) -> int:
        """How many points a run records."""
        return -(-self.horizon // self.grid)

    def content(self) -> dict[str, Any]:
        """What the runs depend on: everything but the title and the claims."""
        return self.model_dump(mode="json", exclude={"title", "claims"}) | {"every": self.grid}

    def content_digest(self) -> str:
        """SHA-256 of what the runs depend on; the order of problems and agents is part of it."""
        return hashlib.sha256(canonical(self.content())).hexdigest()


def canonical(value: Any) -> bytes:
    """JSON with one way to write each value; tables keep their order."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace")  # what UTF-8 can't hold, as JSON escapes it


def parse(data: Mapping[str, Any]) -> Experiment:
    """An experiment from plain data, or every fault of it at once.

    >>> parse({"title": "x", "horizon": -1, "n_problems": 1, "agent": {}})
    Traceback (most recent call last):
    ...
    switchmdp.errors.InvalidExperiment: horizon: must be greater than or equal to 1, got -1
    problems: must be given, got nothing
    agents: must be given, got nothing
    agent: must be left out: no such key (did you mean 'agents'?), got {}
    """
    try:
        return Experiment.model_validate(dict(data) if isinstance(data, Mapping) else data)
    except ValidationError as error:
        raise InvalidExperiment([_fault(e) for e in error.errors()]) from None


def loads(text: str) -> Experiment:
    """An experiment from TOML text."""
    if any(part.count(".") > MOST_PARTS for part in re.split(r"[=,\[\]{}#]", text)):
        words = Words(f"a key of more than {MOST_PARTS} parts")  # which takes minutes to read
        raise InvalidExperiment([Fault("the file", words, "TOML with keys of a few parts")])
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of 5000 digits are a ValueError
        raise InvalidExperiment([Fault("the file", NOTHING, f"TOML ({error})")]) from None
    return parse(data)


def load(path: str | os.PathLike[str]) -> tuple[Experiment, str]:
    """An experiment from a TOML file, and the file's text."""
    name = str(path)
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise InvalidExperiment([Fault(name, Words("a larger file"), "at most 1 MB")])
        text = Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise InvalidExperiment([Fault(name, Words(reason), "a file to read")]) from None
    except UnicodeDecodeError as error:
        raise InvalidExperiment([Fault(name, Words(str(error)), "UTF-8 text")]) from None
    return loads(text), text


def schema() -> dict[str, Any]:
    """The JSON schema of a configuration file, for editors.

    >>> sorted(schema()["required"])
    ['agents', 'horizon', 'n_problems', 'problems', 'title']
    """
    found = Experiment.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def _fault(error: Any) -> Fault:
    place = error["loc"]
    models: dict[str, type[BaseModel]] = {
        "problems": ProblemSpec, "agents": AgentSpec, "claims": Claim,
    }  # fmt: skip
    model = models.get(str(place[0]), Experiment) if len(place) > 1 else Experiment
    return fault_of(error, model.model_fields)
