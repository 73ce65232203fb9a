"""Memories of the steps since the last change of each pair.

`Since` forgets all steps of a pair. `Apart` can forget the rewards of a pair and keep its
successors, or the reverse: for each pair it has the rewards since its mean reward last changed, and
the successors since its row last changed. The codes BOTH, REWARDS and ROWS say what `keep` forgets.

**What is kept after a change.** All steps since the detected change are kept for each affected
pair. Some steps from before it are still useful if the change is small, and the delay of the
detection bounds its size: a change that was detected after v visits to a pair is about as large as
v visits can resolve, so the data from before are worth about v visits. Under drift, data lose value
with their age a: data that are m steps old are worth v visits, older data m v / a. So

    the j-th last visit to a pair, a steps ago and before the change, is kept if  j a <= m v / 4

and j <= 4: enough to start with something, too few to dominate the new data. Here the change was m
steps ago, and v = m / (visited pairs) is the average number of visits since then. After a large
change, which is detected at once, nothing is kept. This is a heuristic.

**Noise of the rewards.** `Apart` also learns, for all pairs together (empirical Bayes), how large
the variance of rewards is relative to that of rewards of 0 and 1 with the same mean. For a reward r
with mean m

    E[r (1 - r)] = m (1 - m) - variance,

so that 1 - Σ r (1 - r) / Σ m (1 - m) estimates the ratio: 1 for rewards of 0 and 1, and 0 for
deterministic ones. It is learned from a few steps of each log, with m estimated before the step.
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
    copy_steps,
)
from switchmdp.validation import check_integer

MOST = 4  # visits from before a change
READ = 16  # rewards of each log from which the noise is learned
LEAST_NOISE = 0.01


@compiled
class Since:
    """A memory of every step since the last change of its pair.

    The last `room` steps are also stored one by one. To keep only the last steps of some pairs, it
    deletes their counts and counts those steps again.

    Parameters
    ----------
    room
        The number of latest steps that are stored.

    Raises
    ------
    InvalidParameter
        `room` is not a positive integer.

    Examples
    --------
    >>> Since(room=1000).room
    1000
    """

    room: Annotated[int, Range(1, 2**32)]
    counts: Counts
    pairs: Annotated[NDArray[np.uint32], Shape("room"), Range(0, below="pairs")]
    nexts: Annotated[NDArray[np.uint32], Shape("room"), Range(0, below="states")]
    rewards: Annotated[NDArray[np.float64], Shape("room"), Range(0.0, 1.0)]
    at: Annotated[int, Range(0, below="room")]
    size: Annotated[int, Range(0, "room")]
    total: Annotated[int, Range("size", below=2**53)]
    first: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, "total")]

    def __init__(self, room: int = 2**16) -> None:
        self.room = check_integer("room", room, 1, 2**32)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.counts = Counts(pairs)
        self.pairs, self.nexts = np.zeros(self.room, np.uint32), np.zeros(self.room, np.uint32)
        self.rewards = np.zeros(self.room)
        self.at, self.size, self.total = 0, 0, 0
        self.first = np.zeros(pairs.n_pairs, np.int64)  # which of all steps is a pair's first kept

    def absorb(self, pairs: Any, nexts: Any, rewards: Any, n: int) -> None:
        """Count the n steps of a log."""
        done = 0
        while done < n:  # one contiguous part of the ring after the other
            part = min(n - done, self.room - self.at)
            copy_steps(
                pairs, nexts, rewards, done, self.pairs, self.nexts, self.rewards, self.at, part
            )
            done += part
            self.at += part
            if self.at == self.room:
                self.at = 0
        self.size, self.total = min(self.room, self.size + n), self.total + n
        self.counts.add(pairs, nexts, rewards, 0, n)

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget all but the last stored steps of the suspects; returns how many steps are kept."""
        kept = min(steps, self.size)
        oldest = self.choose(kept, suspects, self.first)
        self.counts.forget_pairs(suspects)
        pairs, nexts, rewards, n = self.stored(oldest, suspects, self.first)
        self.counts.add(pairs, nexts, rewards, 0, n)
        return kept

    def stored(self, oldest: int, suspects: Any, first: Any) -> tuple[Any, Any, Any, int]:
        """The last `oldest` steps of these pairs, each from the first kept one on, as a log."""
        pairs, nexts = np.empty(oldest, np.uint32), np.empty(oldest, np.uint32)
        rewards = np.empty(oldest)
        n = 0
        for age in range(oldest, 0, -1):
            k = (self.at - age) % self.room
            pair = self.pairs[k]
            if suspects[pair] and self.total - age >= first[pair]:
                pairs[n], nexts[n], rewards[n] = pair, self.nexts[k], self.rewards[k]
                n += 1
        return pairs, nexts, rewards, n

    def choose(self, steps: int, suspects: Any, first: Any) -> int:
        """Set each suspected pair's first kept step by the rule above; returns the oldest age."""
        before, rank = np.empty(first.size, np.int64), np.zeros(first.size, np.int64)
        for pair in range(suspects.size):
            before[pair] = first[pair]
            if suspects[pair]:
                first[pair] = self.total
        met, worth, oldest = 0, 0.0, 0
        for age in range(1, self.size + 1):
            if age == steps + 1:
                worth = steps / 4.0 * steps / max(1, met)
            if age > steps and age > worth:
                break
            pair = self.pairs[(self.at - age) % self.room]
            rank[pair] += 1
            met += rank[pair] == 1
            lasts = age <= steps or (rank[pair] <= MOST and rank[pair] * age <= worth)
            if lasts and suspects[pair] and self.total - age >= before[pair]:
                first[pair], oldest = self.total - age, age
        return oldest

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; pair x is now place[x]."""
        self.counts = self.counts.moved(pairs, place)
        where = (self.at - self.size + np.arange(self.size)) % self.room
        self.pairs[where] = place[self.pairs[where]]
        first = np.zeros(pairs.n_pairs, np.int64)
        first[place] = self.first
        self.first = first


@compiled
class CountsApart(Counts):
    """Counts whose rewards and successors may come from different numbers of visits.

    `visits` belongs to the successors, and `rewarded` to the rewards.

    Parameters
    ----------
    pairs
        The state-action pairs that are counted.

    Examples
    --------
    >>> from switchmdp.mdp import MDP
    >>> mdp = MDP([[[0.5, 0.5]], [[1.0, 0.0]]], [[0.2], [0.8]])
    >>> CountsApart(mdp.pairs).reward_visits(0)
    0
    """

    rewarded: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, MOST_VISITS)]
    between: Annotated[float, Range(0.0, 2.0**53)]  # Σ r (1 - r): 0 if rewards are 0 or 1
    largest: Annotated[float, Range(0.0, 2.0**53)]  # Σ m (1 - m): the most that it could be

    def __init__(self, pairs: Pairs) -> None:
        Counts.__init__(self, pairs)
        self.between, self.largest = 0.0, 0.0
        self.rewarded = np.zeros(pairs.n_pairs, np.int64)

    def reward_visits(self, pair: int) -> int:
        """The number of visits whose rewards are remembered."""
        return int(self.rewarded[pair])

    def mean(self, pair: int) -> float:
        """r̂ = R / max(1, N)."""
        total = self.high[pair] / HIGH + self.low[pair] / HIGH / HIGH
        return float(total / max(1, self.rewarded[pair]))

    def reward_noise(self) -> float:
        """The variance of rewards relative to rewards of 0 and 1 with the same mean.

        A reward with mean m has E[r (1 - r)] = m (1 - m) - its variance. The 1 stands for a few
        rewards of 0 and 1, the prior.
        """
        return max(LEAST_NOISE, 1.0 - self.between / (1.0 + self.largest))

    def learn_noise(self, pairs: Any, rewards: Any, n: int) -> None:
        """Read the first few steps of a log, before they are counted."""
        for i in range(min(n, READ)):
            mean = self.mean(pairs[i])
            seen = self.rewarded[pairs[i]]
            mean = (mean * seen + 0.5) / (seen + 1.0)
            self.between += rewards[i] * (1.0 - rewards[i])
            self.largest += mean * (1.0 - mean)

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
        new.between, new.largest = self.between, self.largest
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
    """A memory of the rewards and the successors of each pair since they last changed.

    Rewards and successors are forgotten independently of each other.

    Parameters
    ----------
    room
        The number of latest steps that are stored.

    Raises
    ------
    InvalidParameter
        `room` is not a positive integer.

    Examples
    --------
    >>> Apart(room=1000).room
    1000
    """

    counts: CountsApart
    first_reward: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, "total")]
    make_steps = Since.allocate  # what is overridden below: machine code has no super()
    move_steps = Since.grow

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.make_steps(pairs)
        self.counts = CountsApart(pairs)
        self.first_reward = np.zeros(pairs.n_pairs, np.int64)

    def keep(self, steps: int, suspects: Any) -> int:
        """Forget all but the last stored steps of the suspects; returns how many steps are kept."""
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
