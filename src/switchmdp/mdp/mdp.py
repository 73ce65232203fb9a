"""A finite Markov decision process M(S, A, p, F): data, validated once.

In state s an action a of A(s) earns a reward of mean r̄(s, a) in [0, 1], and leads to s' with
probability p(s' | s, a).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidMDP
from switchmdp.mdp.graph import unconnected_states
from switchmdp.mdp.laws import BETA, Bernoulli, Beta, Deterministic, RewardLaw
from switchmdp.mdp.model import Model
from switchmdp.mdp.pairs import OverPairs, Pairs
from switchmdp.mdp.parse import check_means, parse_means, parse_rows, place


class MDP(OverPairs):
    """A finite MDP.

    `transitions` is an (S, A, S) array; or a `scipy.sparse` matrix with a row s·A + a for each
    state and action; or a list of A sparse (S, S) matrices; or `transitions[s][a]` as a mapping or
    list of (next state, probability). `rewards` is the (S, A) array of means in [0, 1]. `available`
    is an (S, A) mask if some actions are not available. `law` is the distribution of the rewards
    around their means (default: Bernoulli).

    >>> two_cycle = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> two_cycle
    MDP(2 states, 1 actions, 2 transitions, Bernoulli())
    >>> two_cycle.successors(0, 0)
    ([1], [1.0])
    """

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        *,
        available: Any = None,
        law: RewardLaw | None = None,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
    ) -> None:
        means = parse_means(rewards)
        pairs = Pairs.of(means.shape[0], means.shape[1], available)
        mean = check_means(means, pairs)
        rows = parse_rows(transitions, pairs)
        model = Model.of(
            starts=pairs.starts, row=np.arange(pairs.n_pairs, dtype=np.int64),
            start=rows.indptr[:-1].copy(), stop=rows.indptr[1:].copy(), mean=mean,
            successors=rows.successors, probabilities=rows.probabilities,
        )  # fmt: skip
        self._set(pairs, model, Bernoulli() if law is None else law)
        check_law(self.law, mean, pairs)
        self.state_labels = check_labels("state_labels", state_labels, pairs.n_states)
        self.action_labels = check_labels("action_labels", action_labels, pairs.n_actions)

    def _set(self, pairs: Pairs, model: Model, law: RewardLaw) -> None:
        if not isinstance(law, (Bernoulli, Deterministic, Beta)):
            raise InvalidMDP(f"law must be Bernoulli(), Deterministic() or Beta(...), got {law!r}")
        self.pairs = pairs
        self.model = model
        self.law = law

    @classmethod
    def of_model(cls, pairs: Pairs, model: Model, law: RewardLaw) -> MDP:
        """An MDP of rows that are already validated."""
        self = cls.__new__(cls)
        self._set(pairs, model, law)
        return self

    def __repr__(self) -> str:
        stored = int((self.model.stop - self.model.start)[self.model.row].sum())
        sizes = f"{self.n_states} states, {self.n_actions} actions, {stored} transitions"
        return f"MDP({sizes}, {self.law})"

    @property
    def rewards(self) -> NDArray[np.float64]:
        """The (S, A) array of means, NaN for unavailable actions."""
        means = np.full((self.n_states, self.n_actions), np.nan)
        means[self.pairs.states, self.pairs.actions] = self.model.mean[self.model.row]
        return means

    @property
    def transitions(self) -> NDArray[np.float64]:
        """The dense (S, A, S) array, zero for unavailable actions."""
        dense = np.zeros((self.n_states, self.n_actions, self.n_states))
        m = self.model
        for pair, (s, a) in enumerate(zip(self.pairs.states, self.pairs.actions, strict=True)):
            part = slice(m.start[m.row[pair]], m.stop[m.row[pair]])
            dense[s, a, m.successors[part]] = m.probabilities[part]
        return dense

    @cached_property
    def unconnected(self) -> str | None:
        """A text that names states which no policy connects; None if all can reach each other."""
        return unconnected_states(self.model)

    def successors(self, state: int, action: int) -> tuple[list[int], list[float]]:
        """The next states of an action, and their probabilities."""
        y = self.model.row[self.pairs.pair(state, action)]
        part = slice(self.model.start[y], self.model.stop[y])
        return self.model.successors[part].tolist(), self.model.probabilities[part].tolist()


def check_law(law: RewardLaw, mean: NDArray[np.float64], pairs: Pairs) -> None:
    """Raise an error if a Beta law of fixed variance does not exist for some mean."""
    if law.code != BETA:
        return
    bad = np.nonzero(mean * (1.0 - mean) <= law.parameter)[0]
    if len(bad):
        m = mean[bad[0]]
        raise InvalidMDP(
            f"{place(pairs, bad[0])}: a reward in [0, 1] of mean {m} has a variance below "
            f"{m * (1.0 - m):.6g}, but {law} was asked for (Beta(share=...) suits every mean)"
        )


def check_labels(field: str, labels: Sequence[str] | None, size: int) -> tuple[str, ...] | None:
    """Check that labels are different strings, one for each state or action."""
    if labels is None:
        return None
    fits = isinstance(labels, Sequence) and not isinstance(labels, str) and len(labels) == size
    if not fits or not all(isinstance(x, str) for x in labels) or len(set(labels)) != size:
        raise InvalidMDP(f"{field} must be {size} different strings, got {labels!r}")
    return tuple(labels)
