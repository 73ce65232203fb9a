"""Posterior sampling for many states: rows over observed successors, and one share for all others.

`Posterior` draws p ~ Dirichlet(α + P_1, …, α + P_S), one gamma number for each of S states. If m of
them were observed, then by the aggregation property of the Dirichlet law

    (p_1, …, p_m, Σ of all others)  ~  Dirichlet(α + P_1, …, α + P_m, α (S - m)),

which needs m + 1 gamma numbers. `SparsePosterior` draws these, and splits the last share *evenly*
among the S - m successors that were never observed.

**Difference to the full draw.** Rewards, the probability of each observed successor and the total
probability of all others have exactly the law of the full draw, and so has the mean of every row.
Only the split of the last share is replaced by its mean. Given the share q, the full draw splits it
by a Dirichlet(α, …, α), which adds to the value Σ p h of a row the variance

    q² Var(h) / (α (S - m) + 1),        Var(h) of the bias over the S - m states.

This variance is missing. For α = 1, S = 50 and no data (q = 1) the full draw adds a seventh of the
standard deviation of h, for S = 10,000 a hundredth. If α is small it adds more without data, but
then q is small after one or two visits.

**Prior.** The concentration α is learned from the counts, as in `Posterior`. With n visits the
share of all other states is about α (S - m) / (α S + n). If pairs have few successors, α S becomes
about as small as their number, and a few visits to a pair outweigh the prior for any S.

**Cost.** Planning costs O(pairs + observed transitions) per sweep (`planning.iteration`). It starts
at the values of the last plan, which the next draw changes less and less. It stops at a gain within
0.1 / √t of the best, which costs at most about Σ_t 0.1 / √t = 0.2 √T over T steps.

`posterior_for` selects it for more than `FULL_UP_TO` states. Up to there the full draw is as fast.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import FINITE, Range, Scratch, Shape, compiled, index, jit, make_scratch
from switchmdp.mdp.pairs import Pairs
from switchmdp.planning.iteration import MOST_SWEEPS, iterate_spread_values
from switchmdp.plausible.posterior import Draws, Posterior
from switchmdp.randomness import load_words, next_gamma, next_uniform, store_words

FULL_UP_TO = 32  # states
PRECISION = 0.1  # divided by √t


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
            self.bias, self.change, choice, PRECISION / math.sqrt(t),
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
