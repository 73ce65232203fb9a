"""Exploration beyond the plan: none, or probes of pairs that the policy no longer visits.

An agent that follows one policy does not notice if another action becomes better. So from time
to time `DirectedProbes` leaves the policy, travels to a pair that it has not visited for long
(`plan_route`), tries it, and compares the data since then with the data before by a Bayes factor b.
Wald's sequential test says when to stop:

    b < 1                      no better: return to the policy, usually after one visit
    b > n k (k + 1) / δ        changed: forget the past of the pair (n pairs, k-th n tests)
    otherwise                  try again, up to 2 + 4 log b visits

The test looks for improvements. If the mean reward has changed, it has the prior Beta(2, 1); if the
row has changed, it has the learned prior (`plausible.posterior`). "The reward", "the row" and
"both" are equally likely, and b is the mean of the three Bayes factors. Without a change, b exceeds
n k (k + 1)/δ with probability at most δ over all tests until a restart, if the prior of the old law
is right (Ville's inequality, summed over the tests).

**Gaps and routes.** The empirical MDP has the observed means and frequencies, and contains the
pairs with a visit. With its optimal gain ρ and bias h, a visit to a pair costs the gap
Δ(s, a) = max_b Q(s, b) - Q(s, a), Q = r + p h. The regret of any stretch of steps is the sum of its
gaps, up to the span of h. The gap of a pair that was never visited is taken to be `UNKNOWN`. The
cheapest route to a pair (s*, a*) minimises the expected sum of gaps on the way:

    J(s*) = Δ(s*, a*),      J(s) = min_a { Δ(s, a) + ε + Σ p J }   for s ≠ s*,

with ε > 0, so that the route arrives. If the policy visits s* anyway, J is little more than
Δ(s*, a*).

**Which pair.** The one with the largest  age · √(w / (Δ + 0.02)).  Its age is the time since the
last visit, and w = max(1 - ρ, 1 - r - Δ) is the most that a change could gain: the advantage of the
pair if its reward becomes 1, possibly together with a transition back to its own state. If a visit
costs Δ, and changes with a gain of w come at random, a rate of visits proportional to √(w/Δ)
minimises the cost of probes plus the loss until they find something.

**How often.** One parameter, `share`, limits the cost of all probes in t steps to

    share · (1 - ρ) n^(3/4) √t        with n pairs.

What the first 64 n steps after a restart would add is not spent, because learning visits all pairs
then anyway. If an earlier configuration is recalled, t includes its data, but what they would add
is not spent either. No change can gain more than 1 - ρ per step. As the limit grows like √t, so
does the time between two rounds: cost and delay grow alike. (If every pair changes at the same
rate, the best limit grows like n; if every problem changes at the same rate, like √n.) A probe
that finds a change shows that there are changes which only probes can find. From then on the limit
grows `ZEAL` times as fast; tests that find nothing reduce this factor again.

In a service with many callers the first one who arrives at s* takes the probe.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    Probability,
    Range,
    Scratch,
    Shape,
    compiled,
    index,
    jit,
    make_scratch,
    require,
)
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.plausible.posterior import HIGHEST, LOWEST, learn_concentration
from switchmdp.special_functions import log_gamma, log_rising
from switchmdp.validation import check_not_negative, check_probability

NO_PAIR = -1
NO_STATE = -1
CHEAP = 0.02  # gaps far below this are as good as none
EARLY = 64  # steps per pair after a restart, in which learning visits all pairs anyway
ZEAL = 5.0
FADES = 8.0  # rounds over all pairs without a find until the zeal has faded
FEWEST, SHARE_OF_TIME = 32, 16  # steps between two looks: 32, and a sixteenth of the time
CANDIDATES = 4  # pairs to which a route is looked for
NOISE = 1e-6  # sums of rewards are rounded
STEP = 0.002  # ε, so that the route arrives
UNKNOWN = 0.25  # the gap of a pair without visits
MOST_SWEEPS, AT_FIRST = 200, 20
PRECISE = 5e-3
FAR = 1e6  # J where no route is known


@compiled
class AsPlanned:
    """No exploration beyond the plan."""

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """Leave the policy as it is."""

    def alarmed(self) -> bool:
        """Exploration finds no changes."""
        return False

    def suspect(self, suspects: Any, t: int) -> int:
        """Never called, as it raises no alarm."""
        return 0

    def start_over(self, suspects: Any) -> None:
        """Nothing: there is no state."""

    def destination(self) -> int:
        """NO_STATE: there are no probes."""
        return NO_STATE


@compiled
class DirectedProbes:
    """Probes that travel to pairs which the policy no longer visits.

    Parameters
    ----------
    share
        How much probes may cost, relative to the regret of learning; 0 for no probes.
    delta
        The probability of a false find, over all tests until a restart.

    Examples
    --------
    >>> DirectedProbes(share=0.2).share
    0.2
    """

    share: Annotated[float, Range(0.0, below=math.inf)]
    delta: Probability
    target: Annotated[int, Range(NO_PAIR, below="pairs")]
    goal: Annotated[int, Range(NO_STATE, below="states")]
    found: Annotated[int, Range(NO_PAIR, below="pairs")]
    opened: Annotated[int, Range(0, 2**53)]
    give_up: Annotated[int, Range(0, 2**54)]
    look: Annotated[int, Range(0, 2**54)]
    tests: Annotated[int, Range(0, 2**53)]
    zeal: Annotated[float, Range(1.0, ZEAL)]
    funds: Annotated[float, Range(-(2.0**60), 2.0**60)]  # what may be spent
    price: Annotated[float, Range(0.0, 2.0**60)]  # of the test that is under way
    earned: Annotated[float, Range(0.0, 2.0**53)]  # √ of the steps for which funds were granted
    wanted: Annotated[float, Range(0.0, 2.0**60)]  # the price of a test that was too expensive
    gain: Annotated[float, Range(0.0, 1.0)]
    concentration: Annotated[float, Range(LOWEST, HIGHEST)]
    learned_at: Annotated[int, Range(0, 2**53)]
    solved: Annotated[int, Range(0, 2**53)]  # the time at which the gaps were computed
    time: Annotated[int, Range(0, 2**53)]
    seen: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 2.0**53)]
    last: Annotated[NDArray[np.int64], Shape("pairs"), Range(-(2**53), 2**53)]
    before: Annotated[NDArray[np.float64], Shape("states + 2"), Range(0.0, 2.0**53)]
    route: Annotated[NDArray[np.int64], Shape("states"), Range(0, below="pairs")]
    bias: Annotated[NDArray[np.float64], Shape("states"), Range(-1e15, 1e15)]
    gaps: Annotated[NDArray[np.float64], Shape("pairs"), Range(-1.0, 2.0**60)]
    now: Annotated[NDArray[np.float64], Shape("states + 2"), Scratch()]
    cost: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    means: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]

    def __init__(self, share: float = 0.06, delta: float = 0.01) -> None:
        self.share = check_not_negative("share", share)
        self.delta = check_probability("delta", delta)

    def check_partners(self, memory: Any, episodes: Any) -> None:
        """The tests count whole visits."""
        if memory.counts.visits.dtype.kind == "f":
            raise InvalidParameter(
                "memory", memory, "a memory that counts whole visits, which probes need"
            )

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.target, self.goal, self.found = NO_PAIR, NO_STATE, NO_PAIR
        self.opened, self.give_up, self.look, self.tests = 0, 0, 0, 0
        self.zeal, self.funds, self.price, self.earned = 1.0, 0.0, 0.0, 0.0
        self.wanted, self.gain, self.solved, self.time = 0.0, 0.0, 0, 0
        self.concentration, self.learned_at = 1.0, 0
        self.seen = np.zeros(pairs.n_pairs)
        self.last = np.zeros(pairs.n_pairs, np.int64)
        self.before = np.zeros(pairs.n_states + 2)
        self.route = pairs.starts[:-1].copy()
        self.bias, self.gaps = np.zeros(pairs.n_states), np.full(pairs.n_pairs, -1.0)
        make_scratch(self, pairs)

    def grow(self, pairs: Pairs, place: Any) -> None:
        """Make room for more pairs; a probe that is under way is given up."""
        zeal = self.zeal
        self.allocate(pairs)
        self.zeal = zeal

    def check_invariants(self) -> None:
        """A test that is under way has a pair and its state."""
        agree = (self.target == NO_PAIR) == (self.goal == NO_STATE)
        require(agree, "DirectedProbes.goal does not fit its target")

    def adjust(self, starts: Any, counts: Any, t: int, choice: Any, quota: Any) -> None:
        """Test a pair that was tried, choose the next, and send the new episode there."""
        visits, seen, last = counts.visits, self.seen, self.last
        earlier = min(0, t - self.time)  # negative after a restart: ages stay what they were
        self.time = t
        for pair in range(seen.size):
            last[index(pair)] += earlier
            if visits[index(pair)] != seen[index(pair)]:
                seen[index(pair)], last[index(pair)] = visits[index(pair)], t
        if self.target != NO_PAIR:
            if visits[self.target] != self.before[0]:
                self.judge(counts)
                if self.found != NO_PAIR:
                    return
            elif not self.opened <= t < self.give_up:
                self.close()
        if self.target == NO_PAIR and t >= self.look:
            self.choose(starts, counts, t)
        if self.target != NO_PAIR:
            route = self.route
            for s in range(choice.size):
                if starts[index(s)] <= route[index(s)] < starts[index(s + 1)]:
                    choice[index(s)] = route[index(s)]
            quota[self.goal] = 1

    def choose(self, starts: Any, counts: Any, t: int) -> None:
        """Choose a pair whose test is affordable, and plan the route; or set when to look again."""
        visits, gaps, means, cost = counts.visits, self.gaps, self.means, self.cost
        self.look = t + max(FEWEST, t // SHARE_OF_TIME)
        total = 0.0
        for pair in range(visits.size):
            total += visits[pair]
        if total <= 0.0:
            return
        n_pairs = float(visits.size)
        scale = math.sqrt(n_pairs * math.sqrt(n_pairs))
        rate = self.share * self.zeal * (1.0 - self.gain) * scale
        # Only steps since the restart count, not the data that were kept or recalled.
        recalled = math.sqrt(max(0.0, total - t))
        if t >= EARLY * n_pairs:
            self.funds += rate * max(0.0, math.sqrt(total) - max(self.earned, recalled))
        self.earned = math.sqrt(total)
        if self.funds < self.wanted:
            return
        for pair in range(means.size):
            n = counts.reward_visits(pair)
            means[pair] = (counts.mean(pair) * n + 0.5) / (n + 1.0)
        if not self.solved <= t < self.solved + max(FEWEST, self.solved // SHARE_OF_TIME):
            self.solved = t
            if not self.learned_at <= t < self.learned_at + (self.learned_at + 1) // 2:
                self.learned_at = t
                self.concentration = learn_concentration(
                    counts.offset, counts.used, counts.count, self.bias.size
                )
            self.gain = solve_means(
                starts, counts.offset, counts.used, counts.target, counts.count, means, self.bias,
                cost, gaps,
            )  # fmt: skip
        gain, work = self.gain, 0
        for pair in range(counts.used.size):
            work += counts.used[pair]
        for _ in range(CANDIDATES):
            best, target, goal = 0.0, NO_PAIR, NO_STATE
            for s in range(starts.size - 1):
                known = False
                for pair in range(starts[s], starts[s + 1]):
                    known = known or gaps[pair] >= 0.0
                if not known:
                    continue  # the agent has never been there
                for pair in range(starts[s], starts[s + 1]):
                    gap = gaps[pair] if gaps[pair] >= 0.0 else UNKNOWN
                    worth = max(1.0 - gain, 1.0 - means[pair] - gap)
                    score = (t - self.last[pair]) * math.sqrt(worth / (gap + CHEAP))
                    if gap > 0.0 and score > best:
                        best, target, goal = score, pair, s
            if target == NO_PAIR:
                return
            plan_route(
                starts, counts.offset, counts.used, counts.target, counts.count, gaps, target,
                goal, cost, self.route,
            )  # fmt: skip
            price, reached = 0.0, 0.0  # from where the agent has been most
            for s in range(starts.size - 1):
                if cost[s] < FAR:
                    for pair in range(starts[s], starts[s + 1]):
                        price += visits[pair] * cost[s]
                        reached += visits[pair]
            if reached > 0.5 * total:
                self.wanted = price / reached
                if self.wanted <= self.funds:
                    self.open(counts, t, target, goal, self.wanted)
                    # There may be funds for more. But planning must not take most of the time.
                    self.look, self.wanted = t + work // 4, 0.0
                return  # or wait until it is affordable
            gaps[target] = 0.0  # there is no way

    def open(self, counts: Any, t: int, target: int, goal: int, price: float) -> None:
        """Start a test."""
        self.target, self.goal, self.opened, self.price = target, goal, t, price
        self.give_up = t + 100 + min(20 * self.bias.size, 2000)
        self.tests += 1
        self.funds -= price
        self.read(counts, target)
        for j in range(self.now.size):
            self.before[j] = self.now[j]

    def close(self) -> None:
        """End a test that has found nothing."""
        self.target, self.goal = NO_PAIR, NO_STATE
        self.zeal = max(1.0, self.zeal * (1.0 - 1.0 / (FADES * self.seen.size)))

    def read(self, counts: Any, pair: int) -> None:
        """Read the visits, rewards and successors of a pair."""
        now = self.now
        now[0] = counts.visits[pair]
        now[1] = counts.mean(pair) * counts.reward_visits(pair)
        for j in range(2, now.size):
            now[j] = 0.0
        for k in range(counts.offset[pair], counts.offset[pair] + counts.used[pair]):
            now[index(2 + np.int64(counts.target[k]))] += counts.count[k]

    def judge(self, counts: Any) -> None:
        """Decide by Wald's test whether the target has changed."""
        self.read(counts, self.target)
        now, before = self.now, self.before
        for j in range(now.size):
            if now[j] < before[j] - NOISE:  # the memory has forgotten a part of it
                self.close()
                return
        n_states, alpha = now.size - 2, self.concentration
        since, rewarded = now[0] - before[0], counts.reward_visits(self.target)
        # The memory has forgotten rewards only, or has recalled an earlier configuration.
        if rewarded < since or since > self.time - self.opened:
            self.close()
            return
        log_b = log_beta(1.0, rewarded - since, before[1]) - log_beta(1.0, rewarded, now[1])
        log_b += log_beta(2.0, since, now[1] - before[1]) - log_beta(2.0, 0.0, 0.0)
        whole = n_states * alpha
        log_p = log_rising(whole, now[0])
        log_p -= log_rising(whole, before[0]) + log_rising(whole, since)
        for j in range(2, now.size):
            if now[j] > before[j]:
                log_p += log_rising(alpha, now[j] - before[j])
                log_p += log_rising(alpha, before[j]) - log_rising(alpha, now[j])
        log_b = log_any_of(log_b, log_p)
        n_pairs = float(self.seen.size)
        turn = 1.0 + math.floor((self.tests - 1.0) / n_pairs)
        if log_b > math.log(n_pairs * turn * (turn + 1.0) / self.delta):
            self.found, self.zeal = self.target, ZEAL
        elif before[0] == 0.0 or log_b < 0.0 or since >= 2.0 + 4.0 * log_b:
            self.close()
        else:
            self.funds -= self.price  # once more

    def alarmed(self) -> bool:
        """Whether a test has found a change."""
        return self.found != NO_PAIR

    def suspect(self, suspects: Any, t: int) -> int:
        """Mark the changed pair; returns how many steps ago its test began."""
        for pair in range(suspects.size):
            suspects[pair] = pair == self.found
        return max(0, t - self.opened)

    def start_over(self, suspects: Any) -> None:
        """End the test that is under way.

        If all pairs are forgotten, the record of what was spent starts again, too.
        """
        everything = True
        for pair in range(suspects.size):
            everything = everything and suspects[pair]
        if everything:
            self.funds, self.earned, self.wanted, self.tests = 0.0, 0.0, 0.0, 0
        self.target, self.goal, self.found = NO_PAIR, NO_STATE, NO_PAIR
        self.opened, self.give_up, self.look = 0, 0, 0

    def destination(self) -> int:
        """The state to which the agent travels, or NO_STATE."""
        return self.goal


@jit
def log_beta(a: float, n: float, total: float) -> float:
    """log B(a + R, 1 + N - R): the rewards of a pair whose mean has the prior Beta(a, 1)."""
    successes = max(0.0, total)
    failures = max(0.0, n - total)  # a sum of parts may be rounded up
    return log_gamma(a + successes) + log_gamma(1.0 + failures) - log_gamma(a + 1.0 + n)


@jit
def log_any_of(log_rewards: float, log_row: float) -> float:
    """log of the mean Bayes factor of "the rewards, the row, or both have changed"."""
    both = log_rewards + log_row
    top = max(both, max(log_rewards, log_row))
    total = math.exp(log_rewards - top) + math.exp(log_row - top) + math.exp(both - top)
    return top + math.log(total / 3.0)


# Gaps and routes in the empirical MDP.


@jit
def expected(offset: Any, used: Any, target: Any, count: Any, pair: int, values: Any) -> Any:
    """The sum Σ P_j v_j over the counted successors of a pair, and its visits N."""
    total, n = 0.0, 0.0
    for k in range(offset[index(pair)], offset[index(pair)] + used[index(pair)]):
        seen = float(count[index(k)])
        total += seen * values[index(target[index(k)])]
        n += seen
    return total, n


@jit
def solve_means(
    starts: Any, offset: Any, used: Any, target: Any, count: Any, means: Any, bias: Any,
    change: Any, gaps: Any,
) -> float:  # fmt: skip
    """The optimal gain of the empirical MDP; updates `bias` and `gaps`.

    Relative value iteration from the given bias, up to `PRECISE`. The gap of a pair without visits
    is -1.
    """
    n_states, lower, upper = bias.size, 0.0, 1.0
    for _ in range(MOST_SWEEPS):
        lower, upper = np.inf, -np.inf
        for s in range(n_states):
            best = -np.inf
            for pair in range(starts[index(s)], starts[index(s + 1)]):
                gaps[index(pair)] = -1.0
                total, n = expected(offset, used, target, count, pair, bias)
                if n > 0.0:
                    value = means[index(pair)] + total / n
                    gaps[index(pair)] = value  # Q for now
                    best = max(best, value)
            change[index(s)] = best - bias[index(s)]
            if best == -np.inf:
                continue  # no action of this state is known: it keeps its value
            lower, upper = min(lower, change[index(s)]), max(upper, change[index(s)])
            for pair in range(starts[index(s)], starts[index(s + 1)]):
                if gaps[index(pair)] != -1.0:
                    gaps[index(pair)] = max(0.0, best - gaps[index(pair)])
        if not lower < np.inf:
            return 0.0  # nothing is known
        middle = 0.5 * (lower + upper)
        for s in range(n_states):
            if change[index(s)] > -np.inf:
                bias[index(s)] += 0.9 * (change[index(s)] - middle)  # the aperiodicity transform
        if upper - lower < PRECISE:
            break
    return min(1.0, max(0.0, 0.5 * (lower + upper)))


@jit
def better_way(
    starts: Any, offset: Any, used: Any, successors: Any, count: Any, gaps: Any, goal: int,
    cost: Any, s: int, way: int,
) -> Any:  # fmt: skip
    """The cost J of a state, its best pair, and the probability of moving to `goal`.

    J of the other states is given. Successors from which no route is known yet are left out, as if
    the step were repeated.
    """
    best, arrives = FAR, 0.0
    for pair in range(starts[index(s)], starts[index(s + 1)]):
        if gaps[index(pair)] < 0.0:
            continue
        away, n, leaves, there = 0.0, 0.0, 0.0, 0.0
        for k in range(offset[index(pair)], offset[index(pair)] + used[index(pair)]):
            seen, successor = float(count[index(k)]), index(successors[index(k)])
            n += seen
            if successor != index(s) and cost[successor] < FAR:
                leaves += seen
                away += seen * cost[successor]
                there += seen if successor == index(goal) else 0.0
        if leaves > 0.0:
            value = ((gaps[index(pair)] + STEP) * n + away) / leaves
            if value < best:
                best, way, arrives = value, pair, there / leaves
    return best, way, arrives


@jit
def plan_route(
    starts: Any, offset: Any, used: Any, successors: Any, count: Any, gaps: Any,
    target: int, goal: int, cost: Any, route: Any,
) -> None:  # fmt: skip
    """J of the cheapest way to a pair of state `goal`, from each state, and that way.

    Value iteration, forwards and backwards in turns. If all values change in the same direction,
    all are also moved by one number, which takes the slowest part of the error away: J is too high
    or too low by the same amount everywhere.
    """
    n_states = cost.size
    for s in range(n_states):
        cost[index(s)], route[index(s)] = FAR, starts[index(s)]
    last = gaps[index(target)]
    cost[index(goal)], route[index(goal)] = last if last >= 0.0 else UNKNOWN, target
    for sweep in range(MOST_SWEEPS):
        largest, total, arriving, fell, rose = 0.0, 0.0, 0.0, False, False
        for i in range(n_states):
            s = i if sweep % 2 == 1 else n_states - 1 - i
            if s == goal:
                continue
            value, way, arrives = better_way(
                starts, offset, used, successors, count, gaps, goal, cost, s, route[index(s)]
            )
            change = value - cost[index(s)]
            if change != 0.0:
                largest = max(largest, abs(change) / value)
                total += change
                arriving += arrives
                fell, rose = fell or change < 0.0, rose or change > 0.0
            cost[index(s)], route[index(s)] = value, way
        if largest < PRECISE:
            break
        if fell != rose and arriving > 0.0 and 0 < sweep < AT_FIRST and abs(total) < FAR:
            for s in range(n_states):
                if s != goal and cost[index(s)] < FAR:
                    moved = cost[index(s)] + total / arriving
                    cost[index(s)] = max(STEP, 0.1 * cost[index(s)], moved)
