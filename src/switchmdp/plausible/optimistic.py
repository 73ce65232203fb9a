"""The parts that `intervals` and `kl_ball` have in common: from confidence bounds to a policy.

A subclass computes the largest plausible reward of each pair and the bounds of its transition row
(`measure`), and the row with the largest value within the bounds (`highest`).
`planning.optimism.Sweeps` does the value iteration. Each set works with every memory and every
restart rule.

**Windows.** The bounds hold for all numbers of visits at once, if the data start with the agent or
at a restart. A window may start at any step. With `windowed=True`, δ is shared among all possible
starts: a window that starts at step τ gets δ / (τ (τ+1)), and these sum to at most δ. Use it if the
memory is a `Window`.

**Width.** `width` multiplies the radii (the logarithms in them by its square). The proofs need
width 1. A smaller width usually has less regret, without a guarantee.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    Equals,
    Probability,
    Range,
    Scratch,
    Shape,
    compiled,
    make_scratch,
)
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.planning.optimism import Sweeps
from switchmdp.validation import check_positive, check_probability


@compiled
class Optimistic:
    """Base of the sets tighter than an L1 ball; a subclass has `measure`, `arrange` and `highest`.

    Parameters
    ----------
    delta
        The probability with which the true MDP may lie outside the plausible set.
    windowed
        Share delta among all steps at which a window may start.
    width
        A factor of all radii. The proofs need 1; less is usually better, without a guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.
    """

    delta: Probability
    width: Annotated[float, Range(above=0.0, below=math.inf)]
    windowed: bool
    n_states: Annotated[int, Equals("states")]
    n_actions: Annotated[int, Equals("actions")]
    work: Sweeps
    reward: Annotated[NDArray[np.float64], Shape("pairs"), Scratch(1.0)]
    free: Annotated[NDArray[np.bool_], Shape("pairs"), Scratch(True)]
    confidence: Annotated[float, Scratch()]  # 1 - probability of the bounds of this plan

    added_fields: ClassVar = {"width": 1.0}

    def __init__(self, delta: float, windowed: bool = False, width: float = 1.0) -> None:
        self.delta = check_probability("delta", delta)
        self.width = check_positive("width", width)
        if not isinstance(windowed, bool):
            raise InvalidParameter("windowed", windowed, "true or false")
        self.windowed = windowed

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.n_states, self.n_actions = pairs.n_states, pairs.n_actions
        self.work = Sweeps(pairs.n_states)
        make_scratch(self, pairs)

    def begin(self, counts: Any, t: int) -> None:
        """Prepare to measure pairs with these counts, at this step."""

    def measure(self, counts: Any, t: int, pair: int) -> None:
        """Compute the bounds of a pair that was visited, and its optimistic reward."""
        raise NotImplementedError

    def arrange(self) -> None:
        """Called after the values have changed."""

    def highest(self, counts: Any, pair: int, wanted: float) -> float:
        """The largest Σ p u over the plausible rows of the pair; see `planning.optimism`."""
        raise NotImplementedError

    def share_delta(self, counts: Any, t: int) -> None:
        """Set the confidence of this plan.

        It is δ/(τ(τ+1)) if the window starts at step τ, and δ without a window.
        """
        start = 1.0 * t
        for pair in range(counts.visits.size):
            start -= counts.visits[pair]
        self.confidence = self.delta / (start * (start + 1.0)) if self.windowed else self.delta

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Write the optimistic policy, as a pair for each state, into `choice`."""
        self.share_delta(counts, t)
        self.begin(counts, t)
        for pair in range(counts.visits.size):
            self.consider(counts, t, pair)
        # The best state can be reached from everywhere and nothing is periodic, so this converges.
        precision = 1.0 / math.sqrt(t)
        self.work.iterate(self, starts, counts, self.reward, self.free, precision, choice)

    def consider(self, counts: Any, t: int, pair: int) -> None:
        """Compute the bounds of a pair; everything is plausible if it was never visited."""
        self.free[pair] = counts.visits[pair] == 0
        self.reward[pair] = 1.0
        if counts.visits[pair] > 0:
            self.measure(counts, t, pair)

    def worth(self, counts: Any, t: int, pair: int) -> float:
        """r̃ + max p̃·u of a pair with these counts; u are the values of the last plan."""
        self.share_delta(counts, t)
        self.begin(counts, t)
        self.consider(counts, t, pair)
        best = self.work.top
        if not self.free[pair] and best > 0.0:
            best = self.highest(counts, pair, -math.inf)
        return float(self.reward[pair] + best)

    def gain(self) -> float:
        """The optimistic gain of the last plan."""
        return (self.work.lower + self.work.upper) / 2.0

    def sweeps(self) -> int:
        """The sweeps that the last plan took."""
        return self.work.done
