"""How detectors do: which changes they find, how late, and how often they cry for nothing.

A change at step c, felt until step c' (the next change, or the end), is *found* if the agent starts
over, or forgets a part, in c < t < c'; its delay is then t - c for the first such t. All other
restarts are false alarms, so that a second one in a segment is one too. A change at the very last
step is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from switchmdp.experiments.results import Setting
from switchmdp.reports.curves import runs_of
from switchmdp.reports.resampling import Floats, Interval, interval

Steps = NDArray[np.int64]


@dataclass(frozen=True)
class Detection:
    """What an agent's restarts come to in a setting."""

    found: Interval  # share of the changes felt; NaN where there are none
    delay: float  # the median over all changes felt, a missed one being infinitely late
    false_alarms: Interval  # in each 100 000 steps


def detection(setting: Setting, agent: str) -> Detection | None:
    """The agent's restarts against the problems' changes; None where they are not known.

    >>> from dataclasses import replace
    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([50_000, 100_000], {"a": [[0, 0]]}, change_points=[100, 60_000])
    >>> runs = replace(setting.agents["a"], restarts=(np.array([50, 107, 900]),))
    >>> found = detection(replace(setting, agents={"a": runs}), "a")
    >>> found.found.middle, found.delay, found.false_alarms.middle
    (0.5, inf, 2.0)
    """
    shares, delays, false = [], [], []
    known = runs_of(setting, agent).restarts
    for points, restarts in zip(
        setting.change_points, known or (None,) * setting.n_problems, strict=True
    ):
        if restarts is None:
            continue
        felt = points[points < setting.horizon]
        late = _delays(felt, restarts, setting.horizon)
        hits = int(np.isfinite(late).sum())
        shares.append(hits / len(felt) if len(felt) else np.nan)
        delays.append(late)
        false.append((len(restarts) - hits) * 1e5 / setting.horizon)
    if not delays:
        return None
    every = np.sort(np.concatenate(delays))
    # The middle one, and no mean of two of which one may be infinite.
    median = float(every[len(every) // 2]) if len(every) else np.nan
    return Detection(interval(shares), median, interval(false))


def _delays(felt: Steps, restarts: Steps, horizon: int) -> Floats:
    """Steps from each change to the first restart after it, inf where none comes in time."""
    ends = np.append(felt[1:], horizon + 1)
    first = np.searchsorted(restarts, felt, side="right")
    at = np.append(restarts, horizon + 1)[first]
    return np.where(at < ends, at - felt, np.inf)
