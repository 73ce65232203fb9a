"""The components of MASTER: base instances on many time scales, and the tests that restart them.

**Schedule.** In a block of 2ⁿ steps (Wei, Luo 2021, MALG):

    for τ = 0 … 2ⁿ - 1, and m = n, n-1, …, 0 with 2^m | τ:
        with probability ρ(2ⁿ)/ρ(2^m) an instance of order m is to live in steps τ+1 … τ+2^m

At each step the live instance of the lowest order acts and learns; the others pause. Spans of one
order do not overlap, so that one instance of each order is enough. A shorter span lies within every
longer one that it overlaps, so that the active instance is the next to end.

The schedule is drawn step by step, each time up to the next start.

**Tests** (Wei, Luo 2021), and the rates that they use:

    ρ(t) = min( D S √(A/t) + D S A/t, D ),    ρ̂(t) = scale · 18 (log₂ T + 1) log(T/δ) ρ(t)

In a block of which t steps have passed, with optimistic gains g̃, rewards R, and U = min g̃ so far:

    Test 1, where an instance of order m ends:   the mean of R over its 2^m steps >= U + 9 ρ̂(2^m)
    Test 2, after every step:                    the mean of g̃ - R over the t steps >= 3 ρ̂(t)
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import FINITE, Equals, RandomWords, Range, Shape, compiled, require
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import MAX_PAIRS, Pairs
from switchmdp.memory import Counts
from switchmdp.randomness import stream, uniform

MOST_ORDERS = 54


@compiled
class Instances:
    """Which orders are live, and which start next. Steps are those of the agent's clock."""

    rho: Annotated[NDArray[np.float64], Shape("orders")]  # ρ(2^m)
    n: Annotated[int, Range(-1, below="orders")]
    begin: Annotated[int, Range(1, 2**53)]
    next_start: Annotated[int, Range("begin", 2**54)]
    starting: Annotated[NDArray[np.bool_], Shape("orders")]
    # the first step after an order's span; 0: not live
    ends: Annotated[NDArray[np.int64], Shape("orders"), Range(0, 2**54)]
    words: RandomWords

    def __init__(self, rho: NDArray[np.float64], seed: int = 0) -> None:
        self.rho = rho
        self.n, self.begin, self.next_start = -1, 1, 1
        self.starting = np.zeros(rho.size, np.bool_)
        self.ends = np.zeros(rho.size, np.int64)
        self.words = stream(seed)

    def open_block(self, clock: int) -> None:
        """Begin the next block, twice as long; after the last order all have the same length."""
        self.n = min(self.n + 1, self.rho.size - 1)
        self.begin = clock
        self.draw(0)

    def draw(self, tau: int) -> None:
        """Find the first τ, from here on, at which an instance starts, and which orders do."""
        n, rho, starting, words, any_starts = self.n, self.rho, self.starting, self.words, False
        for m in range(starting.size):
            starting[m] = False
        while tau < 1 << n and not any_starts:
            top = 0
            while top < n and tau & (1 << top) == 0:
                top += 1
            for m in range(top, -1, -1):
                if uniform(words) < rho[n] / rho[m]:
                    starting[m] = any_starts = True
            tau += 1
        self.next_start = self.begin + tau - 1 if any_starts else self.begin + (1 << self.n)

    def start(self) -> None:
        """Start the instances that are due, and draw the next."""
        for m in range(self.ends.size):
            if self.starting[m]:
                self.ends[m] = self.next_start + (1 << m)
        self.draw(self.next_start - self.begin + 1)

    def end(self, clock: int) -> None:
        """End the spans that are over."""
        for m in range(self.ends.size):
            if self.ends[m] <= clock:
                self.ends[m] = 0

    def end_all(self) -> None:
        """End all instances; the next block is the first."""
        self.n, self.next_start = -1, self.begin
        for m in range(self.ends.size):
            self.ends[m], self.starting[m] = 0, False

    def living(self, clock: int) -> int:
        """The lowest live order, or -1."""
        for m in range(self.ends.size):
            if self.ends[m] > clock:
                return m
        return -1

    def check_invariants(self) -> None:
        """Only the orders of this block live or start, and within the block."""
        orders, n = self.rho.size, self.n
        require(1 <= orders <= MOST_ORDERS, "Instances.rho must have 1 to 54 orders")
        size = 1 << max(0, n)
        require(size <= self.begin, "Instances.begin must follow the blocks before")
        require(self.next_start <= self.begin + size, "Instances.next_start lies after the block")
        require((self.ends <= self.begin + size).all(), "Instances.ends lies after the block")
        idle = not self.ends[n + 1 :].any() and not self.starting[n + 1 :].any()
        require(idle, "Instances has orders that are longer than the block")


@compiled
class Orders:
    """The counts of one instance of each order: row m·P + x counts pair x of P for order m."""

    orders: Annotated[int, Range(1, MOST_ORDERS)]
    n_pairs: Annotated[int, Range(1, MAX_PAIRS)]
    counts: Counts

    def __init__(self, orders: int) -> None:
        self.orders = orders

    def dimensions(self) -> dict[str, int]:
        """The counts have a row for each order and pair."""
        return {"pairs": self.orders * self.n_pairs}

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.n_pairs = pairs.n_pairs
        self.counts = Counts(self.rows(pairs))

    def rows(self, pairs: Pairs) -> Pairs:
        """As many pairs, over the same states, as there are rows."""
        n = self.orders * pairs.n_pairs
        if n > MAX_PAIRS:
            raise InvalidParameter("n_states * n_actions * orders", n, f"<= {MAX_PAIRS}")
        none = np.zeros(pairs.n_states + 1, np.int64)
        return Pairs(pairs.n_states, pairs.n_actions, none, np.zeros(n, np.int64))

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        into = np.arange(self.orders)[:, None] * pairs.n_pairs + place
        self.counts = self.counts.moved(self.rows(pairs), into.ravel())
        self.n_pairs = pairs.n_pairs

    def absorb(self, order: int, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log for one order; the log then holds rows."""
        first = order * self.n_pairs
        for i in range(n):
            pairs[i] += first
        self.counts.add(pairs, nexts, rewards, 0, n)

    def clear(self, order: int) -> None:
        """Delete the counts of an order."""
        counts = self.counts
        for row in range(order * self.n_pairs, (order + 1) * self.n_pairs):
            if counts.visits[row] > 0:
                for k in range(counts.offset[row], counts.offset[row] + counts.used[row]):
                    counts.count[k] = 0
                counts.visits[row], counts.high[row], counts.low[row] = 0, 0, 0
                if not counts.full:
                    counts.used[row] = 0


@compiled
class Paused:
    """The policy and progress of each order's instance while another one acts."""

    choices: Annotated[NDArray[np.int64], Shape("orders", "states"), Range(0, below="pairs")]
    quotas: Annotated[NDArray[np.int64], Shape("orders", "states"), Range(0)]
    gains: Annotated[NDArray[np.float64], Shape("orders"), Range(0.0, 2.0)]
    widenings: Annotated[NDArray[np.float64], Shape("orders"), Range(above=0.0, high=4.0)]
    steps: Annotated[NDArray[np.int64], Shape("orders"), Range(0, 2**53)]
    drifts: Annotated[NDArray[np.float64], Shape("orders")]  # Γ

    def __init__(self, orders: int, choice: NDArray[np.int64]) -> None:
        self.choices = np.tile(choice, (orders, 1))
        self.quotas = np.zeros_like(self.choices)
        self.gains, self.widenings = np.ones(orders), np.ones(orders)
        self.steps, self.drifts = np.zeros(orders, np.int64), np.zeros(orders)

    def put(self, order: int, choice: Any, quota: Any) -> None:
        """An instance pauses."""
        for s in range(choice.size):
            self.choices[order, s], self.quotas[order, s] = choice[s], quota[s]

    def take(self, order: int, choice: Any, quota: Any) -> None:
        """An instance resumes."""
        for s in range(choice.size):
            choice[s], quota[s] = self.choices[order, s], self.quotas[order, s]

    def start(self, order: int) -> None:
        """Start a new instance of an order; its quotas are 0, so that it plans first."""
        self.steps[order], self.drifts[order] = 0, 0.0
        for s in range(self.quotas.shape[1]):
            self.quotas[order, s] = 0

    def grow(self, choice: NDArray[np.int64], place: Any) -> None:
        """Make room for more pairs, where pair x is now place[x]; all instances plan again."""
        choices = np.tile(choice, (self.steps.size, 1))
        choices[:, : self.choices.shape[1]] = place[self.choices]
        self.choices, self.quotas = choices, np.zeros_like(choices)

    def planned(self, order: int, gain: float, widening: float) -> None:
        """An episode of the instance begins."""
        self.gains[order], self.widenings[order] = gain, widening

    def spend(self, order: int, steps: int) -> None:
        """The instance acted for some steps: each adds its widening to Γ."""
        for _ in range(steps):
            self.drifts[order] += self.widenings[order]
        self.steps[order] += steps


@compiled
class StationarityTests:
    """The sums of a block that the two tests need, and the tests.

    >>> tests = StationarityTests(
    ...     5, 3, horizon=100_000, diameter=1.0, delta=0.1, scale=1.0, orders=17)
    >>> round(tests.rho(100_000), 5), round(tests.rho_hat(100_000), 1)
    (0.02754, 120.6)
    """

    n_states: Annotated[int, Equals("states")]
    n_actions: Annotated[int, Equals("actions")]
    diameter: Annotated[float, Range(above=0.0, below=math.inf)]
    factor: Annotated[float, Range(above=0.0, below=math.inf)]
    earned: Annotated[float, FINITE]  # ΣR
    gap: Annotated[float, FINITE]  # Σ(g̃ - R)
    lowest: Annotated[float, Range(0.0, math.inf)]  # U
    # ΣR when the instance of each order started
    earned_before: Annotated[NDArray[np.float64], Shape("orders")]

    def __init__(
        self, n_states: int, n_actions: int, *,
        horizon: int, diameter: float, delta: float, scale: float, orders: int,
    ) -> None:  # fmt: skip
        self.n_states, self.n_actions, self.diameter = n_states, n_actions, diameter
        self.factor = scale * 18.0 * (math.log2(horizon) + 1.0) * math.log(horizon / delta)
        self.earned_before = np.zeros(orders)
        self.begin()

    def rho(self, t: int) -> float:
        """ρ(t), the base's regret per step after t of them, up to logarithms."""
        ratio = self.n_actions / t
        return self.diameter * min(1.0, self.n_states * (math.sqrt(ratio) + ratio))

    def rho_hat(self, t: int) -> float:
        """ρ̂(t)."""
        return self.factor * self.rho(t)

    def begin(self) -> None:
        """A block begins."""
        self.earned, self.gap, self.lowest = 0.0, 0.0, np.inf

    def start(self, order: int) -> None:
        """An instance starts."""
        self.earned_before[order] = self.earned

    def take_in(self, rewards: Any, first: int, last: int, gain: float) -> None:
        """Add the rewards first..last-1 of a log, from steps with g̃ = `gain`."""
        earned, gap = self.earned, self.gap
        for i in range(first, last):
            earned += rewards[i]
            gap += gain - rewards[i]
        self.earned, self.gap, self.lowest = earned, gap, min(self.lowest, gain)

    def test_1_fails(self, order: int) -> bool:
        """Whether an instance that ended earned more than its block's optimism allows."""
        span = 1 << order
        mean = (self.earned - self.earned_before[order]) / span
        return bool(mean >= self.lowest + 9.0 * self.rho_hat(span))

    def test_2_fails(self, t: int) -> bool:
        """Whether t steps of a block earned less than their optimistic gains allow."""
        return self.gap >= self.most_gap(t)

    def most_gap(self, t: int) -> float:
        """3 t ρ̂(t), which rises with t: what Σ(g̃ - R) must stay below."""
        return 3.0 * t * self.rho_hat(t)
