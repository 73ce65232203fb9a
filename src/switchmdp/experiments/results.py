"""What an experiment found, in memory: settings × agents × problems.

A *setting* is one family of problems (a generator with its parameters); row i of everything in it
belongs to its i-th problem, which every agent met with the same randomness. Reports read only this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

HARDNESS = ("diameter", "span", "gap", "reward_variation", "transition_variation")


def no_runs(n: int, points: int) -> dict[str, NDArray[Any]]:
    """The arrays of `Runs` that are results, for n runs of which none is done."""
    return {
        "regret": np.full((n, points), np.nan), "pseudo_regret": np.full((n, points), np.nan),
        "episodes": np.full(n, -1, np.int64), "sweeps": np.full(n, -1, np.int64),
        "bad_steps": np.full(n, np.nan), "failed": np.zeros(n, np.bool_),
        "n_restarts": np.full(n, -1, np.int64),
    }  # fmt: skip


@dataclass(frozen=True)
class Runs:
    """One agent on every problem of one setting."""

    regret: NDArray[np.float64]  # (problems, points), NaN where the run failed
    pseudo_regret: NDArray[np.float64]
    episodes: NDArray[np.int64]  # (problems,), -1 where there are none to count
    sweeps: NDArray[np.int64]  # of extended value iteration, over all episodes; -1 likewise
    bad_steps: NDArray[np.float64]  # steps whose policy is ε-bad, NaN where not measured
    failed: NDArray[np.bool_]
    seconds: NDArray[np.float64]  # wall time of the run, NaN where unknown
    base: str = ""  # the agent's name in the experiment, before sweeps gave it several variants
    swept: Mapping[str, Any] = field(default_factory=dict)  # swept parameters and their values here
    parameters: Mapping[str, Any] = field(default_factory=dict)  # all of them, on the first problem
    restarts: tuple[NDArray[np.int64] | None, ...] = ()  # steps of each run's, None where unknown


@dataclass(frozen=True)
class Setting:
    """One family of problems, and what each agent did on them."""

    name: str
    times: NDArray[np.int64]  # (points,): the steps after which regret was recorded
    change_points: tuple[NDArray[np.int64], ...]  # of each problem, those past the horizon too
    gains: tuple[NDArray[np.float64], ...]  # ρ* of each problem's configurations met
    hardness: Mapping[str, NDArray[np.float64]]  # HARDNESS -> (problems,), NaN where not computed
    agents: Mapping[str, Runs]
    base: str = ""
    swept: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_problems(self) -> int:
        """How many problems were drawn."""
        return len(self.change_points)

    @property
    def horizon(self) -> int:
        """The number of steps of every run."""
        return int(self.times[-1])


@dataclass(frozen=True)
class Results:
    """A whole experiment: its settings, what it claims, and where it came from."""

    title: str
    epsilon: float  # what counts as ε-bad and as adapted
    settings: Mapping[str, Setting]
    claims: tuple[Any, ...] = ()  # `experiments.spec.Claim`s
    configuration: str = ""  # the experiment as TOML
    provenance: Mapping[str, str] = field(default_factory=dict)  # version, digest, seed, …
    failures: tuple[Mapping[str, Any], ...] = ()  # setting, agent, problem, error, traceback

    @property
    def agents(self) -> tuple[str, ...]:
        """Every agent's name, in order of appearance."""
        names = [name for setting in self.settings.values() for name in setting.agents]
        return tuple(dict.fromkeys(names))


def as_setting(
    times: ArrayLike, regret: Mapping[str, ArrayLike], change_points: Sequence[int] = ()
) -> Setting:
    """Curves from anywhere as a setting: for each agent an array (problems, points).

    A row that is NaN anywhere is a failed run. Regret stands for pseudo-regret too, and all
    problems change at the same steps.

    >>> as_setting([10, 20], {"a": [[1, 2], [3, 4], [5, 6]]}, change_points=[11]).n_problems
    3
    """
    agents = {}
    n = 0
    for name, rows in regret.items():
        curve: NDArray[np.float64] = np.array(rows, dtype=np.float64)
        n = len(curve)
        unknown = np.full(n, np.nan)
        uncounted = np.full(n, -1, dtype=np.int64)
        failed = np.isnan(curve).sum(axis=1) > 0
        agents[name] = Runs(curve, curve, uncounted, uncounted, unknown, failed, unknown, base=name)
    points = np.array(change_points, dtype=np.int64)
    gains = np.full(len(points) + 1, np.nan)
    steps = np.array(times, dtype=np.int64)
    return Setting("curves", steps, (points,) * n, (gains,) * n, {}, agents)
