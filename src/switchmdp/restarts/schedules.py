"""Restart schedules: never, at given steps, every W steps, or at the steps of UCRL2-R.

A schedule returns the first restart after step t, whatever the data are. A restart deletes the
counts, and the time in the radii starts again at 1.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Increasing, Range, Shape, compiled, jit, require
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import BOTH, ROWS
from switchmdp.validation import check_increasing_steps, check_integer

NEVER = 2**62


@jit
def mark_all(suspects: Any) -> int:
    """Mark all pairs as changed; returns 0, the steps since the change."""
    for pair in range(suspects.size):
        suspects[pair] = True
    return 0


@compiled
class Schedule:
    """Base class of the restart rules that do not look at the data."""

    def look_at(self) -> int:
        """NEVER: a schedule does not look at the log."""
        return NEVER

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Nothing: a schedule does not look at the log."""

    def log_emptied(self) -> None:
        """Nothing: a schedule does not look at the log."""

    def alarmed(self) -> bool:
        """Whether to restart now: a schedule raises no alarms."""
        return False

    def suspect(self, suspects: Any) -> int:
        """Mark the pairs that have changed; returns how many steps ago."""
        return mark_all(suspects)

    def start_over(self, suspects: Any) -> None:
        """Nothing: a schedule has no data."""


@compiled
class Never(Schedule):
    """No restarts.

    Examples
    --------
    >>> Never().after(1) == NEVER
    True
    """

    def after(self, t: int) -> int:
        """The first restart after step t."""
        return NEVER


@compiled
class Periodic(Schedule):
    """Restarts at 1 + period, 1 + 2·period, … (UCRL2-RW).

    Parameters
    ----------
    period
        The number of steps from one restart to the next.

    Raises
    ------
    InvalidParameter
        `period` is not a positive integer.

    Examples
    --------
    >>> Periodic(100).after(1), Periodic(100).after(101)
    (101, 201)
    """

    period: Annotated[int, Range(1, NEVER)]

    def __init__(self, period: int) -> None:
        self.period = check_integer("period", period, 1)

    def after(self, t: int) -> int:
        """The first restart after step t."""
        return 1 + ((t - 1) // self.period + 1) * self.period


@compiled
class Cubic(Schedule):
    """Restarts at ⌈i³/ℓ²⌉, i = 1, 2, … (UCRL2-R; Jaksch et al. 2010, Theorem 6).

    The first of these numbers repeat, and a restart at step 1 has no effect. So each step counts
    once, from step 2 on.

    Parameters
    ----------
    segments
        ℓ, the number of changes plus 1.

    Raises
    ------
    InvalidParameter
        `segments` is not an integer from 1 to 100 000.

    Examples
    --------
    >>> Cubic(3).after(2)
    3
    """

    segments: Annotated[int, Range(1, 10**5)]
    i: Annotated[int, Range(1)]

    def __init__(self, segments: int) -> None:
        self.segments = check_integer("segments", segments, 1, 10**5)
        self.i = 1

    def check_invariants(self) -> None:
        """Nothing in `time` overflows."""
        require(self.i * max(self.i, self.segments**2) <= NEVER, "Cubic.i is too large")

    def time(self) -> int:
        """⌈i³/ℓ²⌉ = i q + ⌈i r/ℓ²⌉ with i² = q ℓ² + r: the cube itself would overflow."""
        square = self.segments * self.segments
        q, r = self.i * self.i // square, self.i * self.i % square
        return self.i * q - (-(self.i * r) // square)

    def after(self, t: int) -> int:
        """The first restart after step t; t never decreases."""
        while self.time() <= max(1, t):
            self.i += 1
        return self.time()


@compiled
class Told(Schedule):
    """Restarts at given steps, for agents that know the change points.

    Parameters
    ----------
    times
        The steps, strictly increasing and at least 2.

    Raises
    ------
    InvalidParameter
        `times` are not strictly increasing integers from 2 on.

    Examples
    --------
    >>> Told([50, 80]).after(50)
    80
    """

    times: Annotated[NDArray[np.int64], Shape("n_times"), Range(2, below=NEVER), Increasing()]
    i: Annotated[int, Range(0, "n_times")]

    def __init__(self, times: Any) -> None:
        try:
            self.times = check_increasing_steps(times)
        except ValueError:
            allowed = "a list of integers from 2 on that increase strictly"
            raise InvalidParameter("change_points", times, allowed) from None
        self.i = 0

    def after(self, t: int) -> int:
        """The first restart after step t; t never decreases."""
        while self.i < self.times.size and self.times[self.i] <= t:
            self.i += 1
        return int(self.times[self.i]) if self.i < self.times.size else NEVER


@compiled
class ToldPairs(Told):
    """Restarts at given steps, of the pairs that change there.

    Parameters
    ----------
    times
        The steps, strictly increasing and at least 2.
    changed
        What changes, with a row for each step and a column for each pair: 0 nothing, 1 both, 2 the
        reward, 3 the transition row. By default everything changes at each step.

    Raises
    ------
    InvalidParameter
        `times` or `changed` is invalid, or `changed` does not fit the problem.

    Examples
    --------
    >>> ToldPairs([50], [[0, 2]]).after(1)
    50
    """

    changed: Annotated[NDArray[np.uint8], Shape("n_times", "pairs"), Range(0, ROWS)]

    def __init__(self, times: Any, changed: Any = None) -> None:
        Told.__init__(self, times)
        self.changed = np.zeros((0, 0), np.uint8) if changed is None else _codes(changed)

    def allocate(self, pairs: Pairs) -> None:
        """Check that there is a code for each step and pair."""
        shape = (self.times.size, pairs.n_pairs)
        if self.changed.size == 0:
            self.changed = np.full(shape, BOTH, np.uint8)
        if self.changed.shape != shape:
            raise InvalidParameter(
                "changed_pairs", self.changed.shape, f"of shape {shape}: change points x pairs"
            )

    def suspect(self, suspects: Any) -> int:
        """Mark the pairs that change at the step that is due."""
        for pair in range(suspects.size):
            suspects[pair] = self.changed[self.i, pair]
        return 0


def _codes(changed: Any) -> NDArray[np.uint8]:
    allowed = f"a matrix of integers from 0 to {ROWS}"
    try:
        codes = np.asarray(changed)
        if codes.ndim != 2 or not np.issubdtype(codes.dtype, np.integer):
            raise ValueError
    except ValueError:
        raise InvalidParameter("changed_pairs", changed, allowed) from None
    if codes.size and (codes.min() < 0 or codes.max() > ROWS):
        raise InvalidParameter("changed_pairs", changed, allowed)
    return codes.astype(np.uint8)
