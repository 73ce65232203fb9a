"""A memory with decaying weights: a new step has weight 1, and its weight decreases with its age.

    N(s, a) = Σ_τ γ^(age of τ) 1{s_τ = s, a_τ = a},     and R, P likewise,

so that about 1/(1-γ) steps are remembered (Garivier and Moulines 2011 for bandits; for MDPs it is
a heuristic: no guarantee is known in this setting).

**When weights decay.** A decay at every step would cost a pass over all pairs. So weights decay
every b = ⌈1/(32 (1-γ))⌉ steps by γᵇ, so the error of a weight is at most 1/32. When they decay
depends only on the number of steps, and a step is one addition, so the result has the same bits
however the log is split. Up to γ = 31/32 weights decay at every step.

**What is counted.** The fields are those of `Counts`, as doubles, so every plausible set, posterior
and episode rule can read them (the rule of UCRL2 allows ⌊N⌋ visits, at least one). After each decay
N is the sum of the weights of the successors, so that p̂ is a distribution. While N is below 1,
`visits` is 0, so that no set divides by a tiny number; the weights are kept. A successor with
a weight below 2⁻²⁰ frees its slot, which keeps lists short.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Probability, Range, Shape, compiled, require
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import Slots, all_marked
from switchmdp.validation import check_probability

LEAST = 1.0
FAINT = 2.0**-20
PARTS = 32


@compiled
class Weights(Slots):
    """Weights of rewards and successors of every pair: `Counts` with decay.

    `mass` is N; `visits` is N where N >= 1, and 0 elsewhere.

    Parameters
    ----------
    pairs
        The state-action pairs that are counted.

    Examples
    --------
    >>> from switchmdp.mdp import MDP
    >>> mdp = MDP([[[0.5, 0.5]], [[1.0, 0.0]]], [[0.2], [0.8]])
    >>> Weights(mdp.pairs).mean(0)
    0.0
    """

    visits: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, below=2.0**53)]
    mass: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, below=2.0**53)]
    rewards: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, below=2.0**53)]
    count: Annotated[NDArray[np.float64], Shape("slots"), Range(0.0, below=2.0**53)]

    def __init__(self, pairs: Pairs) -> None:
        self.lay_out(pairs, np.float64)
        self.mass, self.rewards = np.zeros(pairs.n_pairs), np.zeros(pairs.n_pairs)

    def reward_visits(self, pair: int) -> float:
        """The weight of the visits whose rewards are remembered."""
        return float(self.visits[pair])

    def mean(self, pair: int) -> float:
        """r̂ = R / N, and 0 where never visited."""
        if self.visits[pair] == 0.0:
            return 0.0
        return float(min(1.0, self.rewards[pair] / self.mass[pair]))

    def variance(self, pair: int) -> float:
        """An upper bound of the variance of the rewards."""
        mean = self.mean(pair)
        return mean * (1.0 - mean)

    def is_forgotten(self, pair: int) -> bool:
        """Whether a pair has no weight; one with a small weight is only not shown."""
        return bool(self.mass[pair] == 0.0)

    def add(self, pairs: Any, nexts: Any, rewards: Any, first: int, last: int) -> None:
        """Count the steps first..last-1."""
        for i in range(first, last):
            pair = pairs[i]
            slot = nexts[i] if self.full else self.slot_of(pair, nexts[i])
            self.mass[pair] += 1.0
            self.visits[pair] = self.mass[pair]
            self.rewards[pair] += rewards[i]
            self.count[self.offset[pair] + slot] += 1.0

    def fade(self, keep: float) -> None:
        """Multiply all by `keep`."""
        mass, rewards, count = self.mass, self.rewards, self.count
        for pair in range(mass.size):
            if mass[pair] == 0.0:
                continue
            left = 0.0
            for k in range(self.offset[pair], self.offset[pair] + self.used[pair]):
                faded = keep * count[k]
                count[k] = faded if faded >= FAINT else 0.0
                left += count[k]
            rewards[pair] *= left / mass[pair]
            mass[pair] = left
            self.visits[pair] = left if left >= LEAST else 0.0

    def moved(self, pairs: Pairs, place: Any) -> Weights:
        """The same weights among more pairs, where pair x is now place[x]."""
        new = Weights(pairs)
        self.copy_slots(new, place)
        new.mass[place], new.rewards[place] = self.mass, self.rewards
        return new

    def forget(self, pair: int) -> None:
        """Delete the weights of a pair."""
        self.empty_block(pair)
        self.mass[pair], self.rewards[pair] = 0.0, 0.0

    def clear(self) -> None:
        """Delete all weights."""
        self.empty_slots()
        for pair in range(self.rewards.size):
            self.mass[pair], self.rewards[pair] = 0.0, 0.0

    def check_invariants(self) -> None:
        """`visits` shows the mass of a pair where it is at least one visit."""
        shown = np.where(self.mass >= LEAST, self.mass, 0.0)
        require(np.array_equal(shown, self.visits), "Weights.visits must show Weights.mass")


@compiled
class Discounted:
    """A memory of every step, with a weight that decays by the factor `discount` per step.

    Parameters
    ----------
    discount
        γ, in (0, 1). About 1/(1-γ) steps are remembered.

    Raises
    ------
    InvalidParameter
        `discount` is not between 0 and 1.

    Examples
    --------
    >>> memory = Discounted(0.999)
    >>> memory.block, round(memory.keeps, 6)
    (32, 0.968491)
    """

    discount: Probability
    block: Annotated[int, Range(1, 2**53)]
    keeps: Probability
    counts: Weights
    age: Annotated[int, Range(0, below="block")]

    def __init__(self, discount: float) -> None:
        self.discount = check_probability("discount", discount)
        self.block = max(1, math.ceil(1.0 / (PARTS * (1.0 - self.discount))))
        self.keeps = self.discount**self.block

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Weights(pairs)
        self.age = 0

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log, with decay when it is due."""
        done = 0
        while done < n:
            until = min(n, done + self.block - self.age)
            self.counts.add(pairs, nexts, rewards, done, until)
            self.age += until - done
            done = until
            if self.age == self.block:
                self.counts.fade(self.keeps)
                self.age = 0

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        self.counts = self.counts.moved(pairs, place)

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget these pairs; single steps are not stored, so that none is kept."""
        self.counts.forget_pairs(suspects)
        if all_marked(suspects):
            self.age = 0
        return 0
