"""Hypothesis strategies: MDPs and switching MDPs with all their corners, agents' parameters.

The corners: one state, one action, deterministic rows, cycles, rows that leave a state almost
never (with probabilities down to the smallest a float can hold), unequal action sets, rewards of
exactly 0 and 1, changes in consecutive steps and changes that never come.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

import switchmdp as sm
from switchmdp.agents import AGENTS

TINY = (5e-324, 1e-300, 1e-200, 1e-16, 1e-8, 1e-3)
LAWS = (sm.Bernoulli(), sm.Deterministic(), sm.Beta(share=0.3))

Mask = NDArray[np.bool_]


@st.composite
def masks(draw: st.DrawFn, max_states: int = 5, max_actions: int = 3) -> Mask:
    """Which actions exist: at least one in every state."""
    n_states = draw(st.integers(1, max_states))
    n_actions = draw(st.integers(1, max_actions))
    if draw(st.booleans()):
        return np.ones((n_states, n_actions), bool)
    cells = st.lists(st.booleans(), min_size=n_actions, max_size=n_actions)
    mask = np.array([draw(cells) for _ in range(n_states)])
    mask[~mask.any(axis=1), draw(st.integers(0, n_actions - 1))] = True
    return mask


@st.composite
def rows(draw: st.DrawFn, n_states: int, target: int, tiny: tuple[float, ...]) -> Any:
    """A distribution over next states in which `target` has a positive probability."""
    row = np.zeros(n_states)
    kind = draw(st.sampled_from(("certain", "spread", "uniform", "rare")))
    if kind == "certain" or n_states == 1:
        row[target] = 1.0
    elif kind == "uniform":
        row[:] = 1.0
    elif kind == "spread":
        weights = st.floats(0.01, 1.0)
        row[:] = [draw(weights) for _ in range(n_states)]
    else:
        row[draw(st.integers(0, n_states - 1))] = 1.0
        row[target] += draw(st.sampled_from(tiny))
    return row / row.sum()


@st.composite
def mdps(draw: st.DrawFn, mask: Mask | None = None, tiny: tuple[float, ...] = TINY) -> sm.MDP:
    """An MDP in which every state can be reached from every other, if only just.

    The first action of each state may lead to the next state, so all of them form a cycle.
    """
    available = draw(masks()) if mask is None else mask
    n_states, n_actions = available.shape
    transitions = np.zeros((n_states, n_actions, n_states))
    for s, a in np.argwhere(available):
        onward = a == np.argmax(available[s])
        target = (s + 1) % n_states if onward else draw(st.integers(0, n_states - 1))
        transitions[s, a] = draw(rows(n_states, int(target), tiny))
    means = st.sampled_from((0.0, 0.5, 1.0)) | st.floats(0.0, 1.0, allow_subnormal=False)
    rewards = np.array([[draw(means) for _ in range(n_actions)] for _ in range(n_states)])
    law = draw(st.sampled_from(LAWS))
    return sm.MDP(transitions, rewards, available=available, law=law)


@st.composite
def switching_mdps(
    draw: st.DrawFn, horizon: int = 300, mask: Mask | None = None,
    tiny: tuple[float, ...] = TINY,
) -> sm.SwitchingMDP:  # fmt: skip
    """A problem with up to four changes, some perhaps in consecutive steps or past the horizon."""
    first = draw(mdps(mask, tiny))
    steps = st.integers(2, 5) | st.integers(2, horizon) | st.just(horizon + 7)
    points = sorted(draw(st.sets(steps, max_size=4)))
    others = [draw(mdps(first.available, tiny)) for _ in points]
    configurations = [
        sm.MDP(mdp.transitions, np.nan_to_num(mdp.rewards), available=mdp.available, law=first.law)
        for mdp in [first, *others]
    ]
    return sm.SwitchingMDP(configurations, points)


# What every parameter of a registered agent may be; `None` is allowed where it is the default.
PARAMETERS: dict[str, st.SearchStrategy[Any]] = {
    "window": st.integers(1, 400),
    "delta": st.floats(1e-9, 0.999),
    "changes": st.integers(0, 9),
    "segments": st.integers(1, 9),
    "period": st.integers(1, 300),
    "change_points": st.sets(st.integers(2, 400), max_size=5).map(sorted),
    "steps": st.integers(2, 400),
    "seed": st.integers(0, 2**40),
    "gap": st.floats(1.0, 400.0),
    "width": st.just(1.0) | st.floats(1e-6, 10.0),
    "share": st.just(0.0) | st.floats(1e-6, 2.0),
    "detector_delta": st.floats(1e-9, 0.999),
    "changed_pairs": st.none(),
    "horizon": st.integers(3, 2000),
    "arms": st.none(),
    "widening": st.floats(0.0, 2.0),
    "reward_variation": st.floats(0.0, 3.0),
    "transition_variation": st.floats(0.0, 3.0),
    "phase_reward_variation": st.floats(0.0, 1.0),
    "phase_transition_variation": st.floats(0.0, 1.0),
    "diameter": st.floats(1.0, 50.0),
    "scale": st.floats(1e-6, 10.0),
    "confidence": st.floats(0.01, 10.0),
    "explore": st.floats(0.0, 0.5),
    "span": st.floats(2.0, 200.0),
    "bonus": st.floats(0.0, 2.0),
    "weight": st.floats(1e-6, 1.0),
    "rewards": st.booleans(),
    "independent": st.booleans(),
}


@st.composite
def agent_makers(draw: st.DrawFn, names: tuple[str, ...] = tuple(AGENTS)) -> Any:
    """A function that makes the same registered agent, with any parameters, for any problem."""
    name = draw(st.sampled_from(names))
    cls: Any = AGENTS[name]
    arguments: dict[str, Any] = {}
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.name in ("n_states", "n_actions", "available", "problem"):
            continue
        required = parameter.default is inspect.Parameter.empty
        if required or draw(st.booleans()):
            arguments[parameter.name] = draw(PARAMETERS[parameter.name])
    return Maker(name, arguments)


class Maker:
    """Makes one kind of agent; shows as its name and parameters where a test fails."""

    def __init__(self, name: str, parameters: dict[str, Any]) -> None:
        self.name, self.parameters = name, parameters

    def __call__(self, problem: sm.SwitchingMDP) -> Any:
        cls: Any = AGENTS[self.name]
        if self.name == "omniscient":
            return cls(problem)
        sizes = (problem.n_states, problem.n_actions)
        return cls(*sizes, available=problem.available, **self.parameters)

    def __repr__(self) -> str:
        return f"{self.name} {self.parameters}"
