"""An experiment written as TOML, as a person would."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from switchmdp.experiments.spec import Experiment

BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(experiment: Experiment) -> str:
    """TOML text that `loads` reads back as the same experiment.

    >>> from switchmdp.experiments.spec import AgentSpec, ProblemSpec, loads
    >>> experiment = Experiment(
    ...     title="x", horizon=10, n_problems=1, agents={"a b": AgentSpec(agent="random")},
    ...     problems={"P": ProblemSpec(problem="random", parameters={"n_states": 3})},
    ... )
    >>> loads(dumps(experiment)) == experiment
    True
    """
    content = experiment.model_dump(mode="json", exclude_none=True)
    tables = {name: content.pop(name) for name in ("problems", "agents", "claims")}
    lines = [f"{key} = {_value(value)}" for key, value in content.items()]
    for group in ("problems", "agents"):
        for name, spec in tables[group].items():
            lines += ["", f"[{group}.{_key(name)}]"]
            lines += [f"{key} = {_value(value)}" for key, value in spec.items()]
    for claim in tables["claims"]:
        lines += ["", "[[claims]]"]
        lines += [f"{key} = {_value(value)}" for key, value in claim.items()]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, float):
        return repr(value)
    # JSON's strings, numbers and booleans are TOML's too, but for one control character.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
