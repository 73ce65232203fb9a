"""A memory that recognises configurations that have been active before.

When data are forgotten after a change, `Recall` stores the counts of the configuration that has
ended in a library. Then it compares the data since the change with each stored configuration c.
Under a uniform prior, the log Bayes factor of "c again" against "new" is

    Σ over what was forgotten of  log m(c + since) - log m(c) - log m(since)

with m the Dirichlet-multinomial probability of successors, or the Beta-binomial one of rewards. If
it exceeds 10 for the best c, the counts of c are added to those of the forgotten data. A single
clear contradiction is a veto, however much the other pairs agree: c is excluded if the data of one
stream (the rewards, or the row, of one pair) favour "new" by a factor above 2n/δ with n pairs and δ
= 0.01. If c is back and the prior is right, a wrong veto has probability at most δ in one test, by
Markov's inequality.

The test is repeated as data arrive, 16, 32, 64, … steps after the alarm, with only the data since
the alarm. So a configuration that was recalled by mistake is withdrawn again. After 16 n steps
with n pairs nothing is recalled any more: by then the agent follows a good policy, and good
policies of different configurations earn similar rewards.

**Library.** At most 8 configurations, and 2²² counts of successors. A configuration that was
recognised is stored in its old place, and one that matches another when it ends is merged with it.
If the library is full, the one that was not active for the longest time is dropped. Configurations
that lasted less than 32 n steps are not stored, because several alarms may follow one change.

The library stores full rows, so it recognises nothing in problems with more than 64 states. No
guarantee is known: the prior may be wrong, and a configuration that agrees with a stored one in all
visited pairs may differ in others. Detectors and probes notice that later, as after any change.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Range, Shape, compiled, require
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import HIGH, Apart
from switchmdp.memory.counts import BOTH, MOST_VISITS, REWARDS, ROWS
from switchmdp.special_functions import log_factorial, log_rewards

PLACES, ENTRIES = 8, 2**22
EVIDENCE = 10.0
DELTA = 0.01  # of the veto
LATEST = 16  # steps per pair until a configuration must be recognised
SHORTEST = 32  # steps per pair of a configuration that is stored
NONE = -1


@compiled
class Recall(Apart):
    """A memory since the last change, with a library of up to 8 earlier configurations.

    Parameters
    ----------
    room
        The number of latest steps that are stored, so that some can be kept after a restart.

    Examples
    --------
    >>> Recall(room=1000).room
    1000
    """

    places: Annotated[int, Range(0, PLACES)]
    stored_count: Annotated[int, Range(0, "places")]
    active: Annotated[int, Range(NONE, below="places")]  # the configuration recognised last
    began: Annotated[int, Range(0, "total")]  # the last alarm
    check_at: Annotated[int, Range(0)]
    waits: bool  # whether to compare at `check_at`
    left: Annotated[NDArray[np.int64], Shape("places"), Range(0, "total")]  # when each ended
    open_rewards: Annotated[NDArray[np.bool_], Shape("pairs")]  # forgotten, and not recalled yet
    open_rows: Annotated[NDArray[np.bool_], Shape("pairs")]
    past_high: Annotated[NDArray[np.int64], Shape("places", "pairs"), Range(0)]
    past_low: Annotated[NDArray[np.int64], Shape("places", "pairs"), Range(0)]
    past_rewarded: Annotated[NDArray[np.int64], Shape("places", "pairs"), Range(0, MOST_VISITS)]
    past_visits: Annotated[NDArray[np.int64], Shape("places", "pairs"), Range(0, MOST_VISITS)]
    past_count: Annotated[
        NDArray[np.int64], Shape("places", "pairs", "cells"), Range(0, MOST_VISITS)
    ]
    allocate_apart = Apart.allocate  # what is overridden below: machine code has no super()
    absorb_steps = Apart.absorb
    keep_apart = Apart.keep
    grow_apart = Apart.grow

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.allocate_apart(pairs)
        self.open_library(pairs)

    def open_library(self, pairs: Pairs) -> None:
        """Empty the library."""
        n, width = pairs.n_pairs, pairs.n_states if self.counts.full else 1
        self.places = min(PLACES, ENTRIES // (n * width)) if self.counts.full else 0
        self.stored_count, self.active, self.began, self.check_at = 0, NONE, 0, 0
        self.waits = False
        self.left = np.zeros(self.places, np.int64)
        self.open_rewards, self.open_rows = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        self.past_high = np.zeros((self.places, n), np.int64)
        self.past_low = np.zeros((self.places, n), np.int64)
        self.past_rewarded = np.zeros((self.places, n), np.int64)
        self.past_visits = np.zeros((self.places, n), np.int64)
        self.past_count = np.zeros((self.places, n, width), np.int64)

    def check_invariants(self) -> None:
        """Stored counts fit together."""
        limit = self.past_rewarded * int(HIGH)
        fits = (self.past_high <= limit).all() and (self.past_low <= limit).all()
        require(fits, "Recall.past_high or past_low exceeds the visits")
        totals = self.past_count.sum(axis=-1)
        require(np.array_equal(totals, self.past_visits), "Recall.past_count must add up to visits")
        require(self.active < self.stored_count, "Recall.active must be a stored configuration")

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; the library is emptied."""
        self.grow_apart(pairs, place)
        began = self.began
        self.open_library(pairs)
        self.began = began

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log, and compare with the library if that is due."""
        self.counts.learn_noise(pairs, rewards, n)
        self.absorb_steps(pairs, nexts, rewards, n)
        if self.waits and self.total >= self.check_at:
            self.recognise()

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget all but the last steps of the suspects, and look for them in the library."""
        if self.places == 0:
            return self.keep_apart(steps, suspects)
        counts, n, width = self.counts, suspects.size, self.past_count.shape[2]
        high, low = counts.high.copy(), counts.low.copy()
        rewarded, visits = counts.rewarded.copy(), counts.visits.copy()
        count = counts.count.copy()
        kept = self.keep_apart(steps, suspects)
        waited = self.waits and self.active == NONE
        for pair in range(n):
            forgets_rewards = suspects[pair] == BOTH or suspects[pair] == REWARDS
            forgets_row = suspects[pair] == BOTH or suspects[pair] == ROWS
            if forgets_rewards:  # what is kept belongs to the new configuration
                high[pair] -= counts.high[pair]
                low[pair] -= counts.low[pair]
                rewarded[pair] -= counts.rewarded[pair]
            if forgets_row:
                visits[pair] -= counts.visits[pair]
                for k in range(pair * width, (pair + 1) * width):
                    count[k] -= counts.count[k]
            self.open_rewards[pair] = forgets_rewards or (waited and self.open_rewards[pair])
            self.open_rows[pair] = forgets_row or (waited and self.open_rows[pair])
        if self.total - self.began >= SHORTEST * n:
            self.store(high, low, rewarded, visits, count)
        self.active, self.began, self.waits = NONE, self.total, self.stored_count > 0
        if self.waits:
            self.recognise()
        return kept

    def evidence(self, place: int, rewarded: Any, means: Any, visits: Any, count: Any) -> float:
        """The log Bayes factor of "this configuration again", given the data that are open.

        It is -inf if one stream contradicts.
        """
        total, width = 0.0, self.past_count.shape[2]
        veto = -math.log(2.0 * visits.size / DELTA)
        for pair in range(visits.size):
            of_rewards, of_row = 0.0, 0.0
            n, m = float(self.past_rewarded[place, pair]), float(rewarded[pair])
            if self.open_rewards[pair] and n > 0.0 and m > 0.0:
                high, low = self.past_high[place, pair], self.past_low[place, pair]
                past = min(n, high / HIGH + low / HIGH / HIGH)
                earned = min(m, means[pair] * m)
                of_rewards = log_rewards(n + m, past + earned)
                of_rewards -= log_rewards(n, past) + log_rewards(m, earned)
            n, m = float(self.past_visits[place, pair]), float(visits[pair])
            if self.open_rows[pair] and n > 0.0 and m > 0.0:
                of_row = log_factorial(width - 1.0 + n) + log_factorial(width - 1.0 + m)
                of_row -= log_factorial(width - 1.0 + n + m) + log_factorial(width - 1.0)
                for j in range(width):
                    past_moves, moves = self.past_count[place, pair, j], count[pair * width + j]
                    if past_moves > 0 and moves > 0:
                        of_row += log_factorial(past_moves + moves)
                        of_row -= log_factorial(past_moves) + log_factorial(moves)
            if min(of_rewards, of_row) < veto:
                return -np.inf
            total += of_rewards + of_row
        return total

    def best_match(self, rewarded: Any, means: Any, visits: Any, count: Any) -> int:
        """The stored configuration with the most evidence, or NONE if it is not enough."""
        best, found = EVIDENCE, NONE
        for place in range(self.stored_count):
            value = self.evidence(place, rewarded, means, visits, count)
            if value > best:
                best, found = value, place
        return found

    def recognise(self) -> None:
        """Compare what is known since the last alarm with the library, and recall a match."""
        counts, n, age = self.counts, self.open_rows.size, self.total - self.began
        if self.active != NONE:
            self.add_stored(self.active, -1)
        elif age > LATEST * n:
            self.waits = False
            return
        self.active = NONE
        means = np.zeros(n)
        for pair in range(n):
            means[pair] = counts.mean(pair)
        self.active = self.best_match(counts.rewarded, means, counts.visits, counts.count)
        if self.active != NONE:
            self.add_stored(self.active, 1)
        self.check_at = self.total + max(16, age)

    def add_stored(self, place: int, sign: int) -> None:
        """Add the counts of a stored configuration where they are open, or subtract them."""
        counts, width = self.counts, self.past_count.shape[2]
        for pair in range(self.open_rows.size):
            if self.open_rewards[pair]:
                counts.high[pair] += sign * self.past_high[place, pair]
                counts.low[pair] += sign * self.past_low[place, pair]
                counts.rewarded[pair] += sign * self.past_rewarded[place, pair]
            if self.open_rows[pair]:
                counts.visits[pair] += sign * self.past_visits[place, pair]
                for j in range(width):
                    counts.count[pair * width + j] += sign * self.past_count[place, pair, j]

    def store(self, high: Any, low: Any, rewarded: Any, visits: Any, count: Any) -> None:
        """Store the configuration that has ended: in its place, merged, or in a new place."""
        place, adds = self.active, 0
        if place == NONE:
            place, adds = self.similar(high, low, rewarded, visits, count), 1
        if place == NONE:
            place, adds = self.free_place(), 0
        width = self.past_count.shape[2]
        for pair in range(visits.size):
            self.past_high[place, pair] = adds * self.past_high[place, pair] + high[pair]
            self.past_low[place, pair] = adds * self.past_low[place, pair] + low[pair]
            known = adds * self.past_rewarded[place, pair] + rewarded[pair]
            self.past_rewarded[place, pair] = known
            self.past_visits[place, pair] = adds * self.past_visits[place, pair] + visits[pair]
            for j in range(width):
                before = adds * self.past_count[place, pair, j]
                self.past_count[place, pair, j] = before + count[pair * width + j]
        self.left[place] = self.total

    def similar(self, high: Any, low: Any, rewarded: Any, visits: Any, count: Any) -> int:
        """The stored configuration that matches these counts of all pairs, or NONE."""
        n = visits.size
        means, rewards_were, rows_were = np.zeros(n), self.open_rewards, self.open_rows
        everything = np.ones(n, np.bool_)
        for pair in range(n):
            total = high[pair] / HIGH + low[pair] / HIGH / HIGH
            means[pair] = total / max(1, rewarded[pair])
        self.open_rewards, self.open_rows = everything, everything
        place = self.best_match(rewarded, means, visits, count)
        self.open_rewards, self.open_rows = rewards_were, rows_were
        return place

    def free_place(self) -> int:
        """A place for a new configuration: the next, or that which ended first."""
        if self.stored_count < self.places:
            self.stored_count += 1
            return self.stored_count - 1
        oldest = 0
        for place in range(1, self.places):
            if self.left[place] < self.left[oldest]:
                oldest = place
        return oldest
