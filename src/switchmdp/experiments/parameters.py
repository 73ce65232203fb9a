"""What the parameters of an agent or a problem may be.

A plain value (number, text, truth, list), a sweep over several, a formula (for agents) or a choice
by name (for problems); each one that the constructor takes, and none that it needs left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from math import isfinite, prod
from typing import Any

from switchmdp.errors import Fault
from switchmdp.experiments.build import MOST_VARIANTS, accepts, is_table, parameters_of
from switchmdp.experiments.faults import NOTHING, showable
from switchmdp.experiments.formulas import FORMULAS

LARGEST = 2**63
DEEPEST = 8  # lists in lists


def faults_of(
    path: str, parameters: Mapping[str, Any], factory: Callable[..., Any], given: tuple[str, ...]
) -> list[Fault]:
    """What is wrong with an entry's parameters; `given` are those that the experiment sets."""
    known = parameters_of(factory)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in known.values())
    free = [n for n in known if accepts(factory, n) and n not in given]
    faults = []
    for name, value in parameters.items():
        here = f"{path}.parameters.{name}"
        if name in given:
            faults.append(Fault(here, showable(value), "left out: the experiment gives it"))
        elif known and not open_ended and name not in free:
            names = ", ".join(map(repr, free)) or "none: it takes no parameters"
            faults.append(Fault(here, showable(value), f"one of {names}" if free else names))
        else:
            faults += _value(here, value, path.startswith("agents"))
    wanted = [n for n in free if known[n].default is inspect.Parameter.empty]
    for name in wanted:
        if name not in parameters and not (path.startswith("problems") and name == "horizon"):
            faults.append(Fault(f"{path}.parameters.{name}", NOTHING, "given"))
    variants = prod(len(v["sweep"]) for v in parameters.values() if _is_sweep(v))
    if variants > MOST_VARIANTS:
        faults.append(Fault(f"{path}.parameters", NOTHING, f"at most {MOST_VARIANTS} variants"))
    return faults


def _is_sweep(value: Any) -> bool:
    return is_table(value, "sweep") and isinstance(value["sweep"], list)


def _value(path: str, value: Any, of_agent: bool) -> list[Fault]:
    if not is_table(value, "sweep"):
        return _one(path, value, of_agent, "a sweep, ")
    if list(value) != ["sweep"] or not isinstance(value["sweep"], list) or not value["sweep"]:
        allowed = "{ sweep = [...] } with at least one value and nothing else"
        return [Fault(path, showable(value), allowed)]
    swept = enumerate(value["sweep"])
    return [f for i, v in swept for f in _one(f"{path}.sweep.{i}", v, of_agent, "")]


def _one(path: str, value: Any, of_agent: bool, sweep: str) -> list[Fault]:
    if is_table(value, "formula") and of_agent:
        if value["formula"] not in list(FORMULAS):
            name = showable(value["formula"])
            return [Fault(f"{path}.formula", name, f"one of {', '.join(FORMULAS)}")]
        known = list(inspect.signature(FORMULAS[value["formula"]]).parameters)[1:]
        allowed = f"one of {', '.join(known)}" if known else "left out: the formula takes nothing"
        rest = [k for k in value if k not in ("formula", *known)]
        faults = [Fault(f"{path}.{k}", showable(value[k]), allowed) for k in rest]
        return faults + [f for k in known if k in value for f in _plain(f"{path}.{k}", value[k])]
    if is_table(value, "choice") and not of_agent:
        return [f for k, v in value.items() for f in _plain(f"{path}.{k}", v)]
    if isinstance(value, Mapping):
        table = "formula" if of_agent else "choice"
        return [Fault(path, showable(value), f"a value, a list, {sweep}or a {table} table")]
    return _plain(path, value)


def _plain(path: str, value: Any, depth: int = 0) -> list[Fault]:
    if isinstance(value, list) and depth < DEEPEST:
        return [f for i, v in enumerate(value) for f in _plain(f"{path}.{i}", v, depth + 1)]
    if isinstance(value, str):
        sound, allowed = value.encode("utf-8", "replace").decode() == value, "text"
    elif isinstance(value, float):
        sound, allowed = isfinite(value), "a finite number"
    elif isinstance(value, (bool, int)):
        sound, allowed = abs(value) < LARGEST, "a number within ±2**63"
    else:
        sound, allowed = False, f"a number, text, true, false or a list, at most {DEEPEST} deep"
    return [] if sound else [Fault(path, showable(value), allowed)]
