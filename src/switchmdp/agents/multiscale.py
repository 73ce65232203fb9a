"""Base instances on many time scales: when each lives, and what each remembers.

In a block of 2ⁿ steps (Wei, Luo 2021, MALG):

    for τ = 0 … 2ⁿ - 1, and m = n, n-1, …, 0 with 2^m | τ:
        with probability ρ(2ⁿ)/ρ(2^m) an instance of order m is to live in steps τ+1 … τ+2^m

At each step the instance of the lowest order that lives acts and learns; the others pause. Spans of
one order don't overlap, so that one instance of each order is enough. A shorter span lies within
every longer one that it meets, so that whoever acts is the next to end.

The schedule is drawn as time goes on, each time up to the next start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import MAX_PAIRS, Pairs
from switchmdp.memory import Counts
from switchmdp.randomness import stream, uniform


@compiled
class Instances:
    """Which orders live, and which start next. Steps are counted by the agent's clock."""

    rho: NDArray[np.float64]  # ρ(2^m)
    n: int
    begin: int
    next_start: int
    starting: NDArray[np.bool_]
    ends: NDArray[np.int64]  # the first step after an order's span; 0: none lives
    words: NDArray[np.uint64]

    def __init__(self, rho: NDArray[np.float64], seed: int = 0) -> None:
        self.rho = rho
        self.n, self.begin, self.next_start = -1, 1, 1
        self.starting = np.zeros(rho.size, np.bool_)
        self.ends = np.zeros(rho.size, np.int64)
        self.words = stream(seed)

    def open_block(self, clock: int) -> None:
        """The next block begins, twice as long; beyond the last order all are equally long."""
        self.n = min(self.n + 1, self.rho.size - 1)
        self.begin = clock
        self.draw(0)

    def draw(self, tau: int) -> None:
        """Find the first τ, from here on, at which an instance starts, and which orders do."""
        n, rho, starting, words, found = self.n, self.rho, self.starting, self.words, False
        for m in range(starting.size):
            starting[m] = False
        while tau < 1 << n and not found:
            top = 0
            while top < n and tau & (1 << top) == 0:
                top += 1
            for m in range(top, -1, -1):
                if uniform(words) < rho[n] / rho[m]:
                    starting[m] = found = True
            tau += 1
        self.next_start = self.begin + tau - 1 if found else self.begin + (1 << self.n)

    def start(self) -> None:
        """Start those whose time has come, and draw the next."""
        for m in range(self.ends.size):
            if self.starting[m]:
                self.ends[m] = self.next_start + (1 << m)
        self.draw(self.next_start - self.begin + 1)

    def end(self, clock: int) -> None:
        """Forget the spans that are over."""
        for m in range(self.ends.size):
            if self.ends[m] <= clock:
                self.ends[m] = 0

    def end_all(self) -> None:
        """No instance lives, and the next block is the first."""
        self.n, self.next_start = -1, self.begin
        for m in range(self.ends.size):
            self.ends[m], self.starting[m] = 0, False

    def living(self, clock: int) -> int:
        """The lowest order that lives, or -1."""
        for m in range(self.ends.size):
            if self.ends[m] > clock:
                return m
        return -1

    def check_state(self) -> None:
        """Whether what a file says makes sense."""
        orders, n = self.rho.size, self.n
        sound = self.rho.shape == self.starting.shape == self.ends.shape == (orders,)
        sound = sound and 1 <= orders <= 54 and -1 <= n < orders
        size = 1 << max(0, n) if sound else 0
        sound = sound and size <= self.begin <= self.next_start <= self.begin + size
        sound = sound and bool(((self.ends >= 0) & (self.ends <= self.begin + size)).all())
        sound = sound and not self.ends[n + 1 :].any() and not self.starting[n + 1 :].any()
        if not sound or self.words.shape != (4,) or not self.words.any():
            raise ValueError("Instances is not consistent")


@compiled
class Orders:
    """What one instance of each order remembers: row m·P + x counts pair x of P for order m."""

    orders: int
    n_pairs: int
    counts: Counts

    def __init__(self, orders: int) -> None:
        self.orders = orders

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
        """Let an order forget all."""
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
    """Where the instance of each order stands while another acts."""

    choices: NDArray[np.int64]
    quotas: NDArray[np.int64]
    gains: NDArray[np.float64]
    widenings: NDArray[np.float64]
    steps: NDArray[np.int64]
    drifts: NDArray[np.float64]  # Γ

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
        """It goes on."""
        for s in range(choice.size):
            choice[s], quota[s] = self.choices[order, s], self.quotas[order, s]

    def start(self, order: int) -> None:
        """A new instance takes the order's place; without a quota left it will plan first."""
        self.steps[order], self.drifts[order] = 0, 0.0
        for s in range(self.quotas.shape[1]):
            self.quotas[order, s] = 0

    def grow(self, choice: NDArray[np.int64], place: Any) -> None:
        """Know more pairs, where pair x is now place[x]; all instances will plan anew."""
        choices = np.tile(choice, (self.steps.size, 1))
        choices[:, : self.choices.shape[1]] = place[self.choices]
        self.choices, self.quotas = choices, np.zeros_like(choices)

    def planned(self, order: int, gain: float, widening: float) -> None:
        """An episode of the instance begins."""
        self.gains[order], self.widenings[order] = gain, widening

    def spend(self, order: int, steps: int) -> None:
        """The instance acted: each step adds its widening to Γ."""
        for _ in range(steps):
            self.drifts[order] += self.widenings[order]
        self.steps[order] += steps

    def check_state(self) -> None:
        """Whether what a file says makes sense."""
        n = self.steps.size
        per_order = (self.steps, self.gains, self.widenings, self.drifts)
        sound = all(array.shape == (n,) for array in per_order)
        sound = sound and bool(((self.steps >= 0) & (self.steps <= 2**53)).all())
        sound = sound and self.choices.shape == self.quotas.shape == (n, self.choices.shape[-1])
        sound = sound and bool((self.quotas >= 0).all()) and bool(np.isfinite(self.drifts).all())
        sound = sound and bool(((self.gains >= 0.0) & (self.gains <= 2.0)).all())
        if not sound or not ((self.widenings > 0.0) & (self.widenings <= 4.0)).all():
            raise ValueError("Paused is not consistent")
