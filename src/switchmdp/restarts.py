"""When to start over: never, at given steps, every W steps, or at UCRL2-R's schedule.

A rule answers one question: the first step after t at which all is forgotten. There the counts go,
and the time in the radii starts again at 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import whole

NEVER = 2**62


@compiled
class Never:
    """No restarts."""

    def after(self, t: int) -> int:
        """The first restart after step t."""
        return NEVER


@compiled
class Periodic:
    """Restarts at 1 + period, 1 + 2·period, … (UCRL2-RW)."""

    period: int

    def __init__(self, period: int) -> None:
        self.period = whole("period", period, 1)

    def after(self, t: int) -> int:
        """The first restart after step t."""
        return 1 + ((t - 1) // self.period + 1) * self.period


@compiled
class Cubic:
    """Restarts at ⌈i³/ℓ²⌉, i = 1, 2, … (UCRL2-R; Jaksch et al. 2010, Theorem 6).

    The first times repeat, and one restart at step 1 would be none: times count once, from 2 on.
    """

    segments: int
    i: int

    def __init__(self, segments: int) -> None:
        self.segments = whole("segments", segments, 1, 10**6)
        self.i = 1

    def after(self, t: int) -> int:
        """The first restart after step t, which never falls."""
        square = self.segments * self.segments
        while -(-(self.i * self.i * self.i) // square) <= max(1, t):
            self.i += 1
        return -(-(self.i * self.i * self.i) // square)


@compiled
class Told:
    """Restarts at given steps (the oracle that is told the change points)."""

    times: NDArray[np.int64]
    i: int

    def __init__(self, times: Any) -> None:
        values = np.asarray(times)
        if values.size == 0:
            values = np.empty(0, np.int64)
        if values.ndim != 1 or values.dtype.kind not in "iu" or (np.diff(values) <= 0).any():
            raise InvalidParameter("restart times", times, "strictly increasing integers")
        if values.size and values[0] < 2:
            raise InvalidParameter("restart times", times, "integers >= 2")
        self.times = values.astype(np.int64)
        self.i = 0

    def after(self, t: int) -> int:
        """The first restart after step t, which never falls."""
        while self.i < self.times.size and self.times[self.i] <= t:
            self.i += 1
        return int(self.times[self.i]) if self.i < self.times.size else NEVER
