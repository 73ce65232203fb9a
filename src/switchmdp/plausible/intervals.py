"""Sets of rows given by an interval for each entry, and UCRL2B's.

`Bernstein`: an empirical Bernstein bound for each entry of p̂ and for r̂, with n visits

    |p̃(s') - p̂(s')| <= sqrt( 2 p̂(s') (1 - p̂(s')) b / n ) + 3 b / n,
    |r̃ - r̂| <= sqrt( 2 r̂ (1 - r̂) b / n ) + 3 b / n,          b = log( 3 S A (S+1) n (n+1) / δ ).

Audibert, Munos and Szepesvári (2009) have it for one mean, of numbers in [0, 1] whose empirical
variance is V: it is off by at most sqrt(2 V log(3/δ')/n) + 3 log(3/δ')/n with probability 1 - δ'.
Here δ' = δ / (S A (S+1) n (n+1)): pairs times entries and the reward, and Σ 1/(n(n+1)) = 1 over n.
The variance of an entry is p̂(1 - p̂); r̂(1 - r̂) is no less than that of the rewards.
(Fruit, Pirotta and Lazaric's UCRL2B prints another constant; the form is theirs.)
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Scratch, Shape, compiled
from switchmdp.mdp.pairs import Pairs
from switchmdp.planning.inner_maximum import Ranking
from switchmdp.plausible.optimistic import Optimistic


@compiled
class Intervals(Optimistic):
    """Base: a subclass has `terms`, numbers from n and δ alone, and with them `upper`, `lower`."""

    ranking: Ranking
    # Bounds for each slot of the counts (`reserve` makes room), and for all states never seen.
    low: Annotated[NDArray[np.float64], Shape(0), Scratch()]
    high: Annotated[NDArray[np.float64], Shape(0), Scratch()]
    left: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    beyond: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        Optimistic.allocate(self, pairs)
        self.ranking = Ranking(pairs.n_states)

    def terms(self, n: float, delta: float) -> tuple[float, float]:
        """What the bounds of a pair with n visits have in common."""
        raise NotImplementedError

    def upper(self, p: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean of numbers in [0, 1] with average p."""
        raise NotImplementedError

    def lower(self, p: float, terms: tuple[float, float]) -> float:
        """The smallest plausible mean of numbers in [0, 1] with average p."""
        raise NotImplementedError

    def begin(self, counts: Any, t: int) -> None:
        """Pairs will be measured with these counts."""
        self.reserve(counts)

    def reserve(self, counts: Any) -> None:
        """The counts may have taken more room."""
        if self.low.size != counts.count.size:
            self.low, self.high = np.zeros(counts.count.size), np.zeros(counts.count.size)

    def measure(self, counts: Any, t: int, pair: int) -> None:
        """The bounds of a pair that was visited, and its optimistic reward."""
        low, high, count, n = self.low, self.high, counts.count, 1.0 * counts.visits[pair]
        terms = self.terms(n, self.confidence(t))
        self.reward[pair] = self.upper(counts.mean(pair), terms)
        self.beyond[pair] = self.upper(0.0, terms)
        left = 1.0
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            if count[k] > 0:
                low[k] = self.lower(count[k] / n, terms)
                high[k] = self.upper(count[k] / n, terms)
                left -= low[k]
        self.left[pair] = max(0.0, left)

    def arrange(self) -> None:
        """The values have changed."""
        self.ranking.arrange(self.work.value)

    def highest(self, counts: Any, pair: int, wanted: float) -> float:
        """max Σ p u within the intervals."""
        n, total = self.ranking.gather(counts, pair, self.low, self.high)
        allowed = self.allowed(pair, n, total)
        return total + self.ranking.inside(n, self.left[pair], self.beyond[pair], allowed)

    def allowed(self, pair: int, n: int, total: float) -> int:
        """How many of the states never seen after a pair may be given any mass: all."""
        return self.n_states


@compiled
class Bernstein(Intervals):
    """Empirical Bernstein intervals (UCRL2B)."""

    def terms(self, n: float, delta: float) -> tuple[float, float]:
        """(2 b / n, 3 b / n)."""
        among = 3.0 * self.n_states * self.n_actions * (self.n_states + 1.0)
        b = math.log(among * n * (n + 1.0) / delta)
        return 2.0 * b / n, 3.0 * b / n

    def upper(self, p: float, terms: tuple[float, float]) -> float:
        """The largest plausible mean."""
        return min(1.0, p + (math.sqrt(p * (1.0 - p) * terms[0]) + terms[1]))

    def lower(self, p: float, terms: tuple[float, float]) -> float:
        """The smallest plausible mean."""
        return max(0.0, p - (math.sqrt(p * (1.0 - p) * terms[0]) + terms[1]))
