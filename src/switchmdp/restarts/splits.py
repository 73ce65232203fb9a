"""Has a pair changed? Its visits split in two, before and since, at points on a geometric grid.

A detector that asks of each pair whether its rewards and successors have changed compares what was
counted before some visit with what was counted since. To compare at *every* earlier visit costs
O(n) a visit. Here the counts are kept at few of them:

    level k:   the last 4 visits whose number is a multiple of 2ᵏ,

and at visit n, for every level with 2ᵏ | n, a change 3·2ᵏ or 4·2ᵏ visits ago is looked for (at
level 0 one of 1, 2, 3 or 4 visits ago). That is 6 comparisons a visit, amortised, whatever n. Near
an age m the comparisons are m/4 apart and made every m/4 visits: what this loses in delay is about
a quarter (the detectors say what was measured). Ages go up to 4·2¹⁵ = 131 072 visits to a pair.

An alarm is raised at the end of the next stretch of 16 steps, so that it comes at the same step
whatever the pieces in which the log is handed over; then all is forgotten.

**Many states.** Successors are put together in classes by their number (j mod the classes): as many
as states up to 64, and fewer where the arrays would have more than 2²³ entries; two at least.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import compiled
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.schedules import NEVER

KEPT, LEVELS = 4, 16
STRETCH = 16
WIDEST, ENTRIES, MOST_PAIRS = 64, 2**23, 10**5
REWARD, FIRST = 0, 1  # columns: the sum of rewards, and the first class of successors


@compiled
class Splits:
    """Base of the detectors that compare a pair's visits before and since.

    A detector says how many columns `more` than rewards and successors it wants kept (`allocate`),
    fills them (`note`), and tells what a split must exceed at visit n (`threshold`) and whether it
    does (`differ`).
    """

    width: int
    steps: int
    seen: int
    clock: int
    found: bool
    alarm: bool
    visits: NDArray[np.int64]
    now: NDArray[np.float64]
    past: NDArray[np.float64]

    def make_room(self, pairs: Pairs, more: int) -> None:
        """Room for these pairs, with so many columns more."""
        n = pairs.n_pairs
        if n > MOST_PAIRS:
            raise InvalidParameter("n_states * n_actions", n, f"at most {MOST_PAIRS} pairs")
        most = ENTRIES // (n * LEVELS * KEPT) - FIRST - more
        self.width = min(pairs.n_states, WIDEST, max(2, most))
        columns = FIRST + self.width + more
        self.visits = np.zeros(n, np.int64)
        self.now = np.zeros((n, columns))
        self.past = np.zeros((n, LEVELS, KEPT, columns))
        self.steps, self.seen, self.clock = 0, 0, 1
        self.found, self.alarm = False, False

    def after(self, t: int) -> int:
        """No restart is known beforehand."""
        return NEVER

    def look_at(self) -> int:
        """The step at which the agent should let it look at what was logged."""
        return self.clock + STRETCH - self.steps % STRETCH

    def watch(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Take in the steps of a log that were not seen yet."""
        now, past, visits, width = self.now, self.past, self.visits, self.width
        for i in range(self.seen, n):
            if not self.found:
                pair = pairs[i]
                visits[pair] += 1
                now[pair, REWARD] += rewards[i]
                successor = FIRST + nexts[i] % width
                now[pair, successor] += 1.0
                self.note(now, pair, successor, visits[pair])
                self.found = self.compare(now, past, pair, visits[pair])
            self.steps += 1
            if self.steps % STRETCH == 0:
                self.alarm = self.found
        self.clock += n - self.seen
        self.seen = n

    def compare(self, now: Any, past: Any, pair: int, n: int) -> bool:
        """Look at the splits whose turn it is, and keep the counts where they will be wanted."""
        level, limit = 0, self.threshold(n)
        while level < LEVELS and n & ((1 << level) - 1) == 0:
            tick = n >> level
            for j in range(1 if level == 0 else KEPT // 2 + 1, min(KEPT, tick - 1) + 1):
                at = (tick - j) % KEPT
                if self.differ(now, past, pair, level, at, n, j << level, limit):
                    return True
            at = tick % KEPT
            for column in range(now.shape[1]):
                past[pair, level, at, column] = now[pair, column]
            level += 1
        return False

    def log_emptied(self) -> None:
        """The log starts again at 0."""
        self.seen = 0

    def alarmed(self) -> bool:
        """Whether to start over now."""
        return self.alarm

    def start_over(self) -> int:
        """The agent starts over: how many of its last steps it may keep."""
        self.visits[:] = 0
        self.now[:, :] = 0.0
        self.past[:, :, :, :] = 0.0
        self.steps, self.found, self.alarm = 0, False, False
        return 0

    def check_fits(self, n_states: int, n_pairs: int) -> None:
        """Raise a ValueError unless it belongs to an agent of this size, and can go on."""
        columns = self.now.shape[-1]
        good = self.visits.shape == (n_pairs,) and self.now.shape == (n_pairs, columns)
        good = good and self.past.shape == (n_pairs, LEVELS, KEPT, columns)
        good = good and 1 <= self.width <= min(n_states, WIDEST, columns - FIRST)
        good = good and bool(((self.visits >= 0) & (self.visits < 2**53)).all())
        counted = slice(0, FIRST + self.width)
        now, past = self.now[:, counted], self.past[..., counted]
        good = good and bool(((now >= 0.0) & (now <= self.visits[:, None])).all())
        good = good and bool(((past >= 0.0) & (past <= now[:, None, None, :])).all())
        good = good and bool(np.isfinite(self.now).all() and np.isfinite(self.past).all())
        good = good and 0 <= self.seen < 2**31 and 0 <= self.steps < 2**53
        if not (good and 1 <= self.clock < 2**53):
            raise ValueError(f"{type(self).__name__} is not consistent")
