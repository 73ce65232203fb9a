"""Helpers for tests that save agents and load them again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import switchmdp as sm
from switchmdp.agents import load
from switchmdp.agents.saving import described
from switchmdp.compiled.structs import fields_of


def contents(value: Any, kind: Any = None) -> Any:
    """All fields of an agent, bit for bit, with those of its components and the scratch fields.

    Unlike `pack`, it needs no machine code.
    """
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (bool, int, float, np.generic)):
        number = kind(value)
        return number.hex() if kind is float else number
    kinds = fields_of(type(value))
    return type(value), {name: contents(vars(value)[name], kinds[name]) for name in kinds}


def state(agent: Any) -> Any:
    """The saved state of an agent, bit for bit: everything except scratch fields."""
    fields, arrays = described(agent)
    return fields, {name: contents(array) for name, array in arrays.items()}


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(state(a) == state(b))


def live(agent: Any, steps: int, seed: int, state: int = 0) -> list[tuple[int, int, float, int]]:
    """Run steps with random rewards and next states through `act` and `observe`."""
    rng = np.random.default_rng(seed)
    lived = []
    with np.errstate(over="ignore"):
        for _ in range(steps):
            step = (state, int(agent.act(state)), float(rng.random()),
                    int(agent.n_states * rng.random() ** 2))  # fmt: skip
            agent.observe(*step)
            lived.append(step)
            state = step[3]
    return lived


def saved_and_loaded(agent: Any, path: Path, classes: Any = ()) -> Any:
    agent.save(path)
    return load(path, classes)


def aged(steps: int) -> Any:
    agent = sm.agents.SWUCRL(3, 2, window=20)
    live(agent, steps, 0)
    return agent
