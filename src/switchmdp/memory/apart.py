"""A memory that can forget the rewards of a pair and keep its successors, or the reverse.

It is `Since` for each of the two kinds of data: for each pair the rewards since its mean reward
last changed, and the successors since its row last changed. `keep` reads from the codes BOTH,
REWARDS and ROWS what to forget of a pair.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import Range, Shape, compiled, index
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory.counts import (
    BOTH,
    HIGH,
    MOST_VISITS,
    REWARDS,
    ROWS,
    Counts,
    add_reward,
    all_marked,
)
from switchmdp.memory.since import Since


@compiled
class CountsApart(Counts):
    """Counts whose rewards and successors may come from different numbers of visits.

    `visits` belongs to the successors, and `rewarded` to the rewards.
    """

    rewarded: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, MOST_VISITS)]

    def __init__(self, pairs: Pairs) -> None:
        Counts.__init__(self, pairs)
        self.rewarded = np.zeros(pairs.n_pairs, np.int64)

    def reward_visits(self, pair: int) -> int:
        """The number of visits whose rewards are remembered."""
        return int(self.rewarded[pair])

    def mean(self, pair: int) -> float:
        """r̂ = R / max(1, N)."""
        total = self.high[pair] / HIGH + self.low[pair] / HIGH / HIGH
        return float(total / max(1, self.rewarded[pair]))

    def add(self, pairs: Any, nexts: Any, rewards: Any, first: int, last: int) -> None:
        """Count the steps first..last-1; `nexts` then holds slots in place of states."""
        if not self.full:
            self.add_rewards(pairs, rewards, first, last)
            self.add_successors(pairs, nexts, first, last)
            return
        visits, rewarded, high, low = self.visits, self.rewarded, self.high, self.low
        offset, count = self.offset, self.count
        for i in range(first, last):  # one pass is faster than two
            pair = index(pairs[index(i)])
            visits[pair] += 1
            rewarded[pair] += 1
            add_reward(high, low, pair, rewards[index(i)], 1)
            count[index(offset[pair] + nexts[index(i)])] += 1

    def add_rewards(self, pairs: Any, rewards: Any, first: int, last: int) -> None:
        """Count the rewards of the steps first..last-1."""
        rewarded, high, low = self.rewarded, self.high, self.low
        for i in range(first, last):
            pair = index(pairs[index(i)])
            rewarded[pair] += 1
            add_reward(high, low, pair, rewards[index(i)], 1)

    def add_successors(self, pairs: Any, nexts: Any, first: int, last: int) -> None:
        """Count the successors of the steps first..last-1."""
        visits, offset, count = self.visits, self.offset, self.count
        if self.full:
            for i in range(first, last):
                pair = index(pairs[index(i)])
                visits[pair] += 1
                count[index(offset[pair] + nexts[index(i)])] += 1
        else:
            for i in range(first, last):
                slot = self.slot_of(pairs[i], nexts[i])
                nexts[i] = slot
                self.visits[pairs[i]] += 1
                self.count[self.offset[pairs[i]] + slot] += 1

    def moved(self, pairs: Pairs, place: Any) -> CountsApart:
        """The same counts among more pairs, where pair x is now place[x]."""
        new = CountsApart(pairs)
        self.copy_slots(new, place)
        new.high[place], new.low[place] = self.high, self.low
        new.rewarded[place] = self.rewarded
        return new

    def forget_rewards(self, pair: int) -> None:
        """Delete the rewards of a pair."""
        self.rewarded[pair], self.high[pair], self.low[pair] = 0, 0, 0

    def forget(self, pair: int) -> None:
        """Delete the counts of a pair."""
        self.empty_block(pair)
        self.forget_rewards(pair)

    def clear(self) -> None:
        """Delete all counts."""
        self.empty_slots()
        for pair in range(self.high.size):
            self.forget_rewards(pair)


@compiled
class Apart(Since):
    """Counts each pair's rewards and successors since they last changed, each on their own."""

    counts: CountsApart
    first_reward: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, "total")]
    make_steps = Since.allocate  # what is overridden below: machine code knows no super()
    move_steps = Since.grow

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.make_steps(pairs)
        self.counts = CountsApart(pairs)
        self.first_reward = np.zeros(pairs.n_pairs, np.int64)

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget all but the last stored steps of what is marked; returns how many are kept."""
        kept = min(steps, self.size)
        counts = self.counts
        marked = np.zeros(suspects.size, np.bool_)
        for pair in range(suspects.size):
            marked[pair] = suspects[pair] == BOTH or suspects[pair] == REWARDS
        oldest = self.choose(kept, marked, self.first_reward)
        for pair in range(marked.size):
            if marked[pair]:
                counts.forget_rewards(pair)
        pairs, nexts, rewards, n = self.stored(oldest, marked, self.first_reward)
        counts.add_rewards(pairs, rewards, 0, n)
        for pair in range(suspects.size):
            marked[pair] = suspects[pair] == BOTH or suspects[pair] == ROWS
        oldest = self.choose(kept, marked, self.first)
        if all_marked(marked):
            counts.empty_slots()  # also frees their slots
        else:
            for pair in range(marked.size):
                if marked[pair]:
                    counts.empty_block(pair)
        pairs, nexts, rewards, n = self.stored(oldest, marked, self.first)
        counts.add_successors(pairs, nexts, 0, n)
        return kept

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        self.move_steps(pairs, place)
        first = np.zeros(pairs.n_pairs, np.int64)
        first[place] = self.first_reward
        self.first_reward = first
