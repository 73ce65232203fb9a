"""Posterior sampling: draw one MDP from the posterior, and follow its optimal policy.

    p(s, a, ·) ~ Dirichlet(α + P(s, a, 1), …, α + P(s, a, S)),    r(s, a) ~ Beta(1 + R, 1 + N - R)

with N visits, P counted successors and rewards that sum to R, one draw for each episode (Osband,
Russo and Van Roy 2013; for average reward Ouyang, Gagrani, Nayyar and Jain 2017). The concentration
α is a parameter, or is learned from the counts of all pairs. A reward r in (0, 1) counts as r
successes and 1-r failures. The plan solves the drawn MDP.

**Concentration.** All rows are assumed to come from one symmetric law, Dirichlet(α, …, α) over S
states. A large concentration α means rows that are nearly uniform, α = 1 any distribution, and a
small α few successors. Given the counts P of all pairs, the probability of the observations is

    L(α) = Π over pairs of  Γ(Sα) / Γ(Sα + N) · Π_j Γ(α + P_j) / Γ(α).

α is chosen from the grid …, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30: hill climbing from α = 1, as long
as log L(α) - k²/2 grows, with k the distance from 1 in grid points. So α is 1 without data, and a
few uninformative visits do not change it. The grid ends at S α = 0.1, where one visit outweighs the
prior ten times.

α is a function of the counts only (empirical Bayes). It is computed again when the time since the
last restart has grown by half or has fallen, which takes O(observed transitions) for each α on the
way.

The prior of mean rewards is not learned. Where almost all rewards are 0, a learned prior would
imply that unvisited pairs earn nothing either, and the agent would stop looking for better ones.
The noise of rewards is learned (`memory.Apart`).

**Sharpness.** With sharpness κ, all counts are multiplied by κ before the draw, so that variances
are about κ times smaller. In a bandit with horizon T this reduces the regret of trying worse
actions by the factor 1/κ, and increases the probability of giving up the best action from about 1/T
to T^(-1/κ). It suits agents that explore by other means as well.

**Noise.** The memory may know that rewards vary less than rewards of 0 and 1 with the same mean
(`reward_noise`, the ratio of variances). Rewards then count 1/ratio times as much.

**Underflow.** With a small α a drawn probability may underflow. It is then raised to `LEAST`, so
that every drawn MDP is communicating, as policy iteration requires.

**Guarantee.** In a stationary communicating MDP the Bayesian regret is bounded (Ouyang et al.
2017). With a window, or after restarts by a detector, no guarantee is known: a heuristic.

**Many states.** Rows over all states (`Posterior`) cost O(S²A) per draw, and policy iteration,
which starts at the last policy, O(S³). `SparsePosterior` draws rows over observed successors, and
one share for all others. If m of the S states were observed, then by the aggregation property of
the Dirichlet law

    (p_1, …, p_m, Σ of all others)  ~  Dirichlet(α + P_1, …, α + P_m, α (S - m)),

which needs m + 1 gamma numbers instead of S. The last share is split *evenly* among the S - m
successors that were never observed.

*Difference to the full draw.* Rewards, the probability of each observed successor and the total
probability of all others have exactly the law of the full draw, and so has the mean of every row.
Only the split of the last share is replaced by its mean. Given the share q, the full draw splits it
by a Dirichlet(α, …, α), which adds to the value Σ p h of a row the variance

    q² Var(h) / (α (S - m) + 1),        Var(h) of the bias over the S - m states.

This variance is missing. For α = 1, S = 50 and no data (q = 1) the full draw adds a seventh of the
standard deviation of h, for S = 10,000 a hundredth. If α is small it adds more without data, but
then q is small after one or two visits.

*Prior.* With n visits the share of all other states is about α (S - m) / (α S + n). If pairs have
few successors, the learned α S becomes about as small as their number, and a few visits to a pair
outweigh the prior for any S.

*Cost.* Value iteration solves the drawn MDP. It costs O(pairs + observed transitions) per sweep
(`planning.iteration`). It starts at the values of the last plan, which the next draw changes less
and less. It stops at a gain within 0.1 / √t of the best, which costs at most about
Σ_t 0.1 / √t = 0.2 √T over T steps.

`posterior_for` selects `SparsePosterior` for more than `FULL_UP_TO` states. Up to there the full
draw is as fast.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    FINITE,
    RandomWords,
    Range,
    Scratch,
    Shape,
    compiled,
    index,
    jit,
    make_scratch,
)
from switchmdp.compiled.declarations import Names
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.model import Model
from switchmdp.mdp.pairs import Pairs
from switchmdp.planning.iteration import MOST_SWEEPS, iterate_policies, iterate_spread_values
from switchmdp.randomness import load_words, next_gamma, next_uniform, store_words, stream
from switchmdp.special_functions import log_gamma, log_rising_from
from switchmdp.validation import check_integer, check_positive

MOST = 10**7  # pairs times states
PRECISION = 1e-9  # of the gain in policy iteration
SPARSE_PRECISION = 0.1  # of the gain in value iteration, divided by √t
FULL_UP_TO = 32  # states
LEAST = 1e-9  # a drawn probability
UNDERFLOW = 1e-290
# 1, 3, 10, … are half a power of ten apart, nearly.
GRID = np.array([float(f"{digit}e{exponent}") for exponent in range(-8, 2) for digit in (1, 3)])
AT_ONE = 16  # GRID[AT_ONE] is 1
LEAST_TOTAL = 0.1  # of S α

LOWEST, HIGHEST = float(GRID[0]), 1e6  # concentrations


@jit
def log_evidence(offset: Any, used: Any, count: Any, n_states: int, alpha: float) -> float:
    """log L(α), up to a constant that does not depend on α."""
    total, of_alpha, of_all = 0.0, log_gamma(alpha), log_gamma(n_states * alpha)
    for pair in range(offset.size):
        n = 0.0
        for k in range(offset[index(pair)], offset[index(pair)] + used[index(pair)]):
            seen = count[index(k)]
            if seen > 0:
                total += log_rising_from(alpha, float(seen), of_alpha)
                n += seen
        if n > 0.0:
            total -= log_rising_from(n_states * alpha, n, of_all)
    return total


@jit
def learn_concentration(offset: Any, used: Any, count: Any, n_states: int) -> float:
    """The α on the grid that hill climbing from 1 finds."""
    best = AT_ONE
    top = log_evidence(offset, used, count, n_states, GRID[AT_ONE])
    for step in (-1, 1):
        if best != AT_ONE:
            break
        while 0 <= best + step < GRID.size:
            near: Any = best + step
            alpha = GRID[near]
            if n_states * alpha < LEAST_TOTAL:
                break
            away = near - AT_ONE
            value = log_evidence(offset, used, count, n_states, alpha) - 0.5 * away * away
            if value <= top:
                break
            best, top = near, value
    return float(GRID[best])


@compiled
class Draws:
    """Base of the posteriors: the random stream, and the mean rewards that were drawn.

    Parameters
    ----------
    seed
        The seed of the draws.
    concentration
        α; by default it is learned from the counts.
    sharpness
        κ, the factor of all counts, from 1 to 1000.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.
    """

    added_fields: ClassVar[dict[str, Any]] = {
        "learns": True, "concentration": 1.0, "learned_at": 0, "sharpness": 1.0,
    }  # fmt: skip

    words: RandomWords
    mean: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 1.0)]
    rewarded: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    learns: bool
    concentration: Annotated[float, Range(LOWEST, HIGHEST)]
    learned_at: Annotated[int, Range(0, 2**53)]
    sharpness: Annotated[float, Range(1.0, 1e3)]

    def __init__(
        self, seed: int = 0, concentration: float | None = None, sharpness: float = 1.0
    ) -> None:
        self.sharpness = check_positive("sharpness", sharpness)
        if not 1.0 <= self.sharpness <= 1e3:
            raise InvalidParameter("sharpness", sharpness, "a number from 1 to 1000")
        self.words = stream(check_integer("seed", seed, 0))
        self.learns = concentration is None
        self.concentration, self.learned_at = 1.0, 0
        if concentration is not None:
            given = check_positive("concentration", concentration)
            if not LOWEST <= given <= HIGHEST:
                allowed = f"a number from {LOWEST:g} to {HIGHEST:g}"
                raise InvalidParameter("concentration", concentration, allowed)
            self.concentration = given

    def reseed(self, seed: Any) -> None:
        """Seed the draws."""
        self.words = stream(seed)

    def learn(self, counts: Any, t: int) -> None:
        """Bring the concentration up to date if t has grown by half since, or has fallen."""
        if self.learns and not self.learned_at <= t < self.learned_at + (self.learned_at + 1) // 2:
            self.concentration = learn_concentration(
                counts.offset, counts.used, counts.count, counts.n_states
            )
            self.learned_at = t

    def sum_rewards(self, counts: Any) -> None:
        """Write the sum of the rewards of each pair into `mean`, and their number."""
        mean, rewarded = self.mean, self.rewarded
        weight = self.sharpness / counts.reward_noise()
        for pair in range(mean.size):
            rewarded[pair] = weight * counts.reward_visits(pair)
            mean[pair] = counts.mean(pair) * rewarded[pair]


def _rows(names: Names) -> NDArray[np.int64]:
    """The transition rows are full: one for each pair, with all states in order."""
    return np.arange(names["pairs"])


def _starts(names: Names) -> NDArray[np.int64]:
    return _rows(names) * names["states"]


def _stops(names: Names) -> NDArray[np.int64]:
    return _starts(names) + names["states"]


def _successors(names: Names) -> NDArray[np.uint32]:
    return np.tile(np.arange(names["states"], dtype=np.uint32), names["pairs"])


@jit
def draw_full_rows(
    words: Any, visits: Any, offset: Any, used: Any, target: Any, count: Any, n_states: int,
    rewarded: Any, alpha: float, weight: float, mean: Any, probabilities: Any,
) -> None:  # fmt: skip
    """Draw the rows and the mean rewards; `mean` holds the sums of rewards at first.

    One function for all draws: it keeps the state of the random stream in registers.
    """
    state = load_words(words)
    for pair in range(mean.size):
        n, rewards = visits[index(pair)], mean[index(pair)]
        # As `randomness.beta`, without its case for shapes below 1.
        x, state = next_gamma(state, 1.0 + rewards)
        y, state = next_gamma(state, 1.0 + max(0.0, rewarded[index(pair)] - rewards))
        mean[index(pair)] = x / (x + y)
        first, last = index(pair * n_states), index((pair + 1) * n_states)
        for k in range(first, last):
            probabilities[k] = alpha
        if n > 0:  # with decayed weights a pair may count as never visited
            for k in range(offset[index(pair)], offset[index(pair)] + used[index(pair)]):
                probabilities[first + index(target[index(k)])] += weight * count[index(k)]
        total = 0.0
        for k in range(first, last):
            x, state = next_gamma(state, probabilities[k])
            probabilities[k] = x
            total += x
        if total < UNDERFLOW:  # all shapes were tiny: the row is nearly a single successor
            u, state = next_uniform(state)
            probabilities[first + index(int(u * n_states))] = 1.0
            total = 1.0
        share = 1.0 / total
        for k in range(first, last):
            probabilities[k] = min(1.0, max(LEAST, share * probabilities[k]))
    store_words(words, state)


@compiled
class Posterior(Draws):
    """A posterior with Dirichlet rows over all states and Beta rewards.

    Parameters
    ----------
    seed
        The seed of the draws.
    concentration
        α; by default it is learned from the counts.
    sharpness
        κ, the factor of all counts, from 1 to 1000.

    Raises
    ------
    InvalidParameter
        A parameter is out of range, or the problem has too many states.

    Examples
    --------
    >>> Posterior(seed=1, concentration=0.5).concentration
    0.5
    """

    row: Annotated[NDArray[np.int64], Scratch(_rows)]
    start: Annotated[NDArray[np.int64], Scratch(_starts)]
    stop: Annotated[NDArray[np.int64], Scratch(_stops)]
    successors: Annotated[NDArray[np.uint32], Scratch(_successors)]
    probabilities: Annotated[NDArray[np.float64], Shape("pairs * states"), Range(0.0, 1.0)]
    bias: Annotated[NDArray[np.float64], Shape("states")]
    lower: Annotated[float, FINITE]
    upper: Annotated[float, FINITE]

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        size, n_states = pairs.n_pairs * pairs.n_states, pairs.n_states
        if size > MOST:
            allowed = f"at most {MOST}; SparsePosterior has no such limit"
            raise InvalidParameter("n_states * n_states * n_actions", size, allowed)
        make_scratch(self, pairs)
        self.mean = np.zeros(pairs.n_pairs)
        self.probabilities = np.zeros(size)
        self.bias = np.zeros(n_states)
        self.lower, self.upper = 0.0, 1.0

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Draw an MDP, and write its optimal policy, as a pair for each state, into `choice`."""
        self.learn(counts, t)
        self.draw(counts)
        model = Model(
            starts, self.row, self.start, self.stop, self.mean, self.successors,
            self.probabilities, self.probabilities,
        )  # fmt: skip
        self.lower, self.upper, _ = iterate_policies(model, choice, self.bias, PRECISION)

    def draw(self, counts: Any) -> None:
        """Draw an MDP from the posterior."""
        self.sum_rewards(counts)
        draw_full_rows(
            self.words, counts.visits, counts.offset, counts.used, counts.target, counts.count,
            self.bias.size, self.rewarded, self.concentration, self.sharpness, self.mean,
            self.probabilities,
        )  # fmt: skip

    def worth(self, counts: Any, t: int, pair: int) -> float:
        """r + p·h of a pair in the MDP that was drawn."""
        row = self.probabilities[self.start[pair] : self.stop[pair]]
        return float(self.mean[pair] + row @ self.bias)

    def gain(self) -> float:
        """The gain of the MDP that was drawn."""
        return (self.lower + self.upper) / 2.0

    def sweeps(self) -> int:
        """0: policy iteration has no sweeps."""
        return 0


@jit
def draw_sparse_rows(
    words: Any, visits: Any, offset: Any, used: Any, target: Any, count: Any, n_states: int,
    rewarded: Any, alpha: float, weight: float, mean: Any, first: Any, successors: Any, excess: Any,
    elsewhere: Any,
) -> None:  # fmt: skip
    """Draw the rows and the mean rewards; `mean` holds the sums of rewards at first."""
    state, last = load_words(words), 0
    for pair in range(mean.size):
        first[pair] = last
        rewards = mean[pair]
        if rewarded[pair] <= 0:
            mean[pair], state = next_uniform(state)
        else:
            x, state = next_gamma(state, 1.0 + rewards)
            y, state = next_gamma(state, 1.0 + max(0.0, rewarded[pair] - rewards))
            mean[pair] = x / (x + y)
        if visits[pair] <= 0:
            elsewhere[pair] = 1.0 / n_states
            continue
        total = 0.0
        for k in range(offset[pair], offset[pair] + used[pair]):
            if count[index(k)] > 0:
                x, state = next_gamma(state, alpha + weight * count[index(k)])
                successors[index(last)], excess[index(last)] = target[index(k)], x
                total += x
                last += 1
        others, each = n_states - (last - first[pair]), 0.0
        if others > 0:
            x, state = next_gamma(state, alpha * others)
            total += x
            each = x / total / others
        elsewhere[pair] = each
        for k in range(first[pair], last):
            excess[index(k)] = excess[index(k)] / total - each
    first[mean.size] = last
    store_words(words, state)


@compiled
class SparsePosterior(Draws):
    """A posterior for many states: Dirichlet rows over observed successors, and Beta rewards.

    The successors that were never observed share one probability evenly.

    Parameters
    ----------
    seed
        The seed of the draws.
    concentration
        α; by default it is learned from the counts.
    sharpness
        κ, the factor of all counts, from 1 to 1000.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    Examples
    --------
    >>> posterior = SparsePosterior(seed=1)
    >>> posterior.allocate(Pairs.of(1000, 2))
    >>> posterior.elsewhere.size, posterior.successors.size
    (2000, 0)
    """

    # Pair x has the successors first[x] … first[x+1]-1. `excess` is how much more likely one is
    # than a state that was not observed, which has the probability elsewhere[x].
    first: Annotated[NDArray[np.int64], Shape("pairs + 1"), Range(0, "entries")]
    successors: Annotated[NDArray[np.uint32], Shape("entries"), Range(0, below="states")]
    excess: Annotated[NDArray[np.float64], Shape("entries"), Range(-1.0, 1.0)]
    elsewhere: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 1.0)]
    bias: Annotated[NDArray[np.float64], Shape("states")]
    change: Annotated[NDArray[np.float64], Shape("states"), Scratch()]
    lower: Annotated[float, FINITE]
    upper: Annotated[float, FINITE]
    done: Annotated[int, Range(0, MOST_SWEEPS)]

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        make_scratch(self, pairs)
        self.mean = np.zeros(pairs.n_pairs)
        self.first = np.zeros(pairs.n_pairs + 1, np.int64)
        self.successors, self.excess = np.zeros(0, np.uint32), np.zeros(0)
        self.elsewhere = np.full(pairs.n_pairs, 1.0 / pairs.n_states)
        self.bias = np.zeros(pairs.n_states)
        self.lower, self.upper, self.done = 0.0, 1.0, 0

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Draw an MDP, and write its best policy, as a pair for each state, into `choice`."""
        self.learn(counts, t)
        self.draw(counts)
        self.lower, self.upper, self.done = iterate_spread_values(
            starts, self.first, self.successors, self.excess, self.elsewhere, self.mean,
            self.bias, self.change, choice, SPARSE_PRECISION / math.sqrt(t),
        )  # fmt: skip

    def reserve(self, used: Any) -> None:
        """Make room for as many successors as there are slots in use."""
        entries = 0
        for pair in range(used.size):
            entries += used[pair]
        if entries > self.successors.size:
            entries += entries // 4
            self.successors, self.excess = np.zeros(entries, np.uint32), np.zeros(entries)

    def draw(self, counts: Any) -> None:
        """Draw an MDP from the posterior."""
        self.reserve(counts.used)
        self.sum_rewards(counts)
        draw_sparse_rows(
            self.words, counts.visits, counts.offset, counts.used, counts.target, counts.count,
            self.bias.size, self.rewarded, self.concentration, self.sharpness, self.mean,
            self.first, self.successors, self.excess, self.elsewhere,
        )  # fmt: skip

    def worth(self, counts: Any, t: int, pair: int) -> float:
        """r + p·h of a pair in the MDP that was drawn."""
        here = slice(self.first[pair], self.first[pair + 1])
        known = self.excess[here] @ self.bias[self.successors[here]]
        return float(self.mean[pair] + self.elsewhere[pair] * self.bias.sum() + known)

    def gain(self) -> float:
        """The gain of the MDP that was drawn."""
        return (self.lower + self.upper) / 2.0

    def sweeps(self) -> int:
        """The sweeps over all actions that the last plan took."""
        return self.done


def posterior_for(n_states: Any, seed: int, sharpness: float = 1.0) -> Posterior | SparsePosterior:
    """The posterior for a problem with this many states.

    Parameters
    ----------
    n_states
        The number of states.
    seed
        The seed of the draws.
    sharpness
        κ, the factor of all counts, from 1 to 1000.

    Returns
    -------
    Posterior or SparsePosterior
        The full posterior for up to 32 states, the sparse one for more.

    Examples
    --------
    >>> type(posterior_for(5, 0)).__name__, type(posterior_for(500, 0)).__name__
    ('Posterior', 'SparsePosterior')
    """
    # If it is not an integer, the agent raises the error: it checks its sizes next.
    many = isinstance(n_states, (int, np.integer)) and n_states > FULL_UP_TO
    return (SparsePosterior if many else Posterior)(seed, sharpness=sharpness)
