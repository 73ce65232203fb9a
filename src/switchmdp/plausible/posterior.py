"""Posterior sampling: draw one MDP from the posterior, and follow its optimal policy.

    p(s, a, ·) ~ Dirichlet(1 + P(s, a, 1), …, 1 + P(s, a, S)),    r(s, a) ~ Beta(1 + R, 1 + N - R)

with N visits, P counted successors and rewards that sum to R, one draw for each episode (Osband,
Russo and Van Roy 2013; for average reward Ouyang, Gagrani, Nayyar and Jain 2017). A reward r in
(0, 1) counts as r successes and 1-r failures. Policy iteration solves the drawn MDP, starting at
the last policy.

In a stationary communicating MDP the Bayesian regret is bounded (Ouyang et al. 2017). With a window
or after restarts by a detector it is a heuristic: no guarantee is known in this setting.

Rows over all states cost O(S²A) per draw, and policy iteration O(S³). For many states agents
therefore take `SparsePosterior`, which costs O(observed transitions).
"""

from __future__ import annotations

from typing import Annotated, Any

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
from switchmdp.planning.iteration import iterate_policies
from switchmdp.randomness import load_words, next_gamma, store_words, stream
from switchmdp.validation import check_integer

MOST = 10**7  # pairs times states
PRECISION = 1e-9


@compiled
class Draws:
    """Base of the posteriors: the random stream, and the mean rewards that were drawn."""

    words: RandomWords
    mean: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 1.0)]
    rewarded: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]

    def __init__(self, seed: int = 0) -> None:
        self.words = stream(check_integer("seed", seed, 0))

    def reseed(self, seed: Any) -> None:
        """Seed the draws."""
        self.words = stream(seed)

    def sum_rewards(self, counts: Any) -> None:
        """Write the sum of the rewards of each pair into `mean`, and their number."""
        mean, rewarded = self.mean, self.rewarded
        for pair in range(mean.size):
            rewarded[pair] = counts.reward_visits(pair)
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
    rewarded: Any, mean: Any, probabilities: Any,
) -> None:  # fmt: skip
    """Draw the rows and the mean rewards; `mean` holds the sums of rewards at first.

    One function for all draws: it keeps the state of the random stream in registers.
    """
    state = load_words(words)
    for pair in range(mean.size):
        n, rewards = visits[pair], mean[pair]
        # As `randomness.beta`, without its case for shapes below 1.
        x, state = next_gamma(state, 1.0 + rewards)
        y, state = next_gamma(state, 1.0 + rewarded[pair] - rewards)
        mean[pair] = x / (x + y)
        first, last = pair * n_states, (pair + 1) * n_states
        for k in range(first, last):
            probabilities[index(k)] = 1.0
        if n > 0:  # with decayed weights a pair may count as never visited
            for k in range(offset[pair], offset[pair] + used[pair]):
                probabilities[index(first + np.int64(target[index(k)]))] += count[index(k)]
        total = 0.0
        for k in range(first, last):
            x, state = next_gamma(state, probabilities[index(k)])
            probabilities[index(k)] = x
            total += x
        for k in range(first, last):
            probabilities[index(k)] /= total
    store_words(words, state)


@compiled
class Posterior(Draws):
    """Draws from Dirichlet rows and Beta rewards, both uniform at first."""

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
        self.draw(counts)
        model = Model(
            starts, self.row, self.start, self.stop, self.mean, self.successors,
            self.probabilities, self.probabilities,
        )  # fmt: skip
        self.lower, self.upper, _ = iterate_policies(model, choice, self.bias, PRECISION)

    def draw(self, counts: Any) -> None:
        """One MDP from the posterior."""
        self.sum_rewards(counts)
        draw_full_rows(
            self.words, counts.visits, counts.offset, counts.used, counts.target, counts.count,
            self.bias.size, self.rewarded, self.mean, self.probabilities,
        )  # fmt: skip

    def worth(self, counts: Any, t: int, pair: int) -> float:
        """r + p·h of a pair in the MDP that was drawn."""
        row = self.probabilities[self.start[pair] : self.stop[pair]]
        return float(self.mean[pair] + row @ self.bias)

    def gain(self) -> float:
        """The gain of the MDP that was drawn."""
        return (self.lower + self.upper) / 2.0

    def sweeps(self) -> int:
        """Policy iteration has none."""
        return 0
