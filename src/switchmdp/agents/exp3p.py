"""EXP3.P: which arm to play in the next block, with high probability little worse than the best.

For n arms and B blocks, with gains g in [0, 1]:

    α = .95 √(ln n/(nB)),   β = √(ln n/(nB)),   γ = min(1, 1.05 √(n ln n/B));   q_j := 0
    p_j = (1 - γ) exp(α q_j)/Σ exp(α q) + γ/n;  draw an arm from p
    q_j += (β + 1{j was drawn} g) / p_j  for all j

(Auer, Cesa-Bianchi, Freund, Schapire 2002; in this form Bubeck and Cesa-Bianchi 2012, Theorem 3.3,
where our α is called η.) What their proof needs of the update was derived again and is tested:

- the estimate (β + 1{drawn} g)/p has mean g + β/p;
- E exp(β g - β · estimate) <= 1 for β <= 1, since e^x <= 1 + x + x² for x <= 1 bounds it by
  exp(-β²/p) (1 + β²/p): in sum no arm is underrated by more than ln(1/δ)/β;
- α · estimate <= 1, as exponential weights need, which follows from (1 + β) n α <= γ.

The last holds from B = 5.15² n ln n on. Below, their bound 5.15 √(B n ln n) on what is lost exceeds
B: it says nothing.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import RandomWords, Range, Shape, compiled, require
from switchmdp.randomness import stream, uniform
from switchmdp.restarts import Schedule
from switchmdp.validation import check_integer

LONGEST = 2**53


@compiled
class Exp3P(Schedule):
    """A restart every `block` steps, and which arm to play until the next."""

    block: Annotated[int, Range(1, LONGEST)]
    alpha: Annotated[float, Range(0.0, 1.0)]
    beta: Annotated[float, Range(0.0, 1.0)]
    gamma: Annotated[float, Range(0.0, 1.0)]
    scores: Annotated[NDArray[np.float64], Shape("arms")]
    chances: Annotated[NDArray[np.float64], Shape("arms"), Range(above=0.0, high=1.0)]
    arm: Annotated[int, Range(-1, below="arms")]
    earned: Annotated[float, Range(0.0, LONGEST)]
    seen: Annotated[int, Range(0, below=2**31)]
    words: RandomWords

    def __init__(self, arms: int, blocks: int, block: int, seed: int = 0) -> None:
        self.block = check_integer("block", block, 1)
        blocks = check_integer("blocks", blocks, 1)
        rate = math.sqrt(math.log(arms) / (arms * blocks))
        self.alpha, self.beta = 0.95 * rate, rate
        self.gamma = min(1.0, 1.05 * rate * arms)
        self.scores, self.chances = np.zeros(arms), np.full(arms, 1.0 / arms)
        self.arm, self.earned, self.seen = -1, 0.0, 0
        self.words = stream(check_integer("seed", seed, 0))

    def reseed(self, seed: Any) -> None:
        """Start the draws anew."""
        self.words = stream(seed)

    def after(self, t: int) -> int:
        """The first step of the next block, if one begins at t."""
        return t + self.block

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Add up the rewards of a log that were not seen yet."""
        for i in range(self.seen, n):
            self.earned += rewards[i]
        self.seen = n

    def log_emptied(self) -> None:
        """The log starts again at 0."""
        self.seen = 0

    def start_over(self, suspects: Any) -> None:
        """A block begins: learn from the one before, and draw an arm."""
        if self.arm >= 0:
            self.update(self.earned / self.block)
        self.draw()
        self.earned = 0.0

    def update(self, gain: float) -> None:
        """q_j += (β + 1{j was drawn} gain) / p_j."""
        for j in range(self.scores.size):
            self.scores[j] += self.beta / self.chances[j]
        self.scores[self.arm] += gain / self.chances[self.arm]

    def draw(self) -> None:
        """p = (1 - γ) softmax(α q) + γ/n, and an arm from it."""
        scores, chances, n = self.scores, self.chances, self.scores.size
        best, total = -np.inf, 0.0
        for j in range(n):
            best = max(best, scores[j])
        for j in range(n):
            chances[j] = math.exp(self.alpha * (scores[j] - best))
            total += chances[j]
        for j in range(n):
            chances[j] = (1.0 - self.gamma) * chances[j] / total + self.gamma / n
        left = uniform(self.words)
        self.arm = 0
        while self.arm < n - 1 and left >= chances[self.arm]:
            left -= chances[self.arm]
            self.arm += 1

    def check_invariants(self) -> None:
        """There is an arm to draw."""
        require(self.scores.size >= 1, "Exp3P.scores must have at least one arm")
