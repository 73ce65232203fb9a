"""Pairs: the state-action pairs of an MDP, numbered state by state.

A state's actions are a range of pairs, so action sets may differ by state:

    state s has the pairs  starts[s] … starts[s+1]-1,   pair x means action  actions[x]

Where every action is available everywhere, the pair of (s, a) is s·A + a.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import inlined
from switchmdp.display import counted, visible
from switchmdp.errors import InvalidAction, InvalidMDP, InvalidParameter, InvalidState
from switchmdp.validation import check_index, check_integer

MAX_PAIRS = 2**31 - 1
# What machine code and other modules of the package use of a problem.
INTERNAL = ("full_rows", "label_like", "model", "model_at", "of_model", "patches", "unconnected")


@inlined
def find_pair(starts: Any, actions: Any, state: int, action: int) -> int:
    """The pair of an action in a state, or -1 where it is not available."""
    low, high = starts[state], starts[state + 1]
    if high - low == actions[high - 1] - actions[low] + 1:  # no gap between its actions
        return low + action - actions[low] if actions[low] <= action <= actions[high - 1] else -1
    for pair in range(low, high):
        if actions[pair] == action:
            return int(pair)
    return -1


@dataclass(frozen=True, eq=False, repr=False)
class Pairs:
    """The state-action pairs: which actions each state has.

    Parameters
    ----------
    n_states
        The number of states.
    n_actions
        The number of actions of each state.
    starts
        Where the pairs of each state start, and the number of pairs.
    actions
        The action of each pair.
    """

    n_states: int
    n_actions: int
    starts: NDArray[np.int64]
    actions: NDArray[np.int64]

    @classmethod
    def of(cls, n_states: Any, n_actions: Any, available: Any = None) -> Pairs:
        """All pairs, or those of a (states, actions) mask.

        Parameters
        ----------
        n_states
            The number of states.
        n_actions
            The number of actions of each state.
        available
            The (S, A) mask of available actions; by default all are.

        Returns
        -------
        Pairs
            The pairs.

        Raises
        ------
        InvalidParameter
            If a parameter has the wrong type or is out of range.
        InvalidMDP
            If the mask is not valid.

        Examples
        --------
        >>> Pairs.of(2, 2).n_pairs, Pairs.of(2, 2, [[True, False], [True, True]]).n_pairs
        (4, 3)
        """
        n_states = check_integer("n_states", n_states, 1)
        n_actions = check_integer("n_actions", n_actions, 1)
        if n_states * n_actions > MAX_PAIRS:
            raise InvalidParameter("n_states * n_actions", n_states * n_actions, f"<= {MAX_PAIRS}")
        if available is None:
            return _all_pairs(n_states, n_actions)
        try:
            mask = np.asarray(available)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidMDP(f"available must be a boolean array: {error}") from None
        if mask.shape != (n_states, n_actions) or mask.dtype != np.bool_:
            raise InvalidMDP(
                f"available must be a boolean array of shape ({n_states}, {n_actions}), "
                f"got {mask.dtype} of shape {mask.shape}"
            )
        counts = mask.sum(axis=1)
        if (counts == 0).any():
            raise InvalidMDP(f"state {int(np.argmin(counts))} has no available action")
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(n_states, n_actions, starts, np.nonzero(mask)[1].astype(np.int64))

    def __repr__(self) -> str:
        sizes = f"{counted(self.n_states, 'state')}, {counted(self.n_actions, 'action')}"
        return f"Pairs({sizes}, {self.n_pairs} of {self.n_states * self.n_actions} available)"

    @property
    def n_pairs(self) -> int:
        """The number of pairs."""
        return len(self.actions)

    @property
    def states(self) -> NDArray[np.int64]:
        """The state of each pair."""
        return np.repeat(np.arange(self.n_states), np.diff(self.starts))

    @property
    def available(self) -> NDArray[np.bool_]:
        """The (S, A) mask of available actions."""
        mask = np.zeros((self.n_states, self.n_actions), dtype=bool)
        mask[self.states, self.actions] = True
        return mask

    def pair(self, state: Any, action: Any) -> int:
        """The pair of an available action, checked.

        Parameters
        ----------
        state
            The state.
        action
            The action.

        Returns
        -------
        int
            The number of the pair.

        Raises
        ------
        InvalidState
            If the state does not exist.
        InvalidAction
            If the action is not available.
        """
        state = check_index(state, self.n_states, "state", InvalidState)
        action = check_index(action, self.n_actions, "action", InvalidAction)
        pair = int(find_pair(self.starts, self.actions, state, action))
        if pair < 0:
            raise InvalidAction(f"action in state {state}", action, f"one of {self.at(state)}")
        return pair

    def at(self, state: int) -> list[int]:
        """The actions of a state.

        Parameters
        ----------
        state
            The state.

        Returns
        -------
        list of int
            The actions, increasing.
        """
        return [int(a) for a in self.actions[self.starts[state] : self.starts[state + 1]]]

    def same_as(self, other: Pairs) -> bool:
        """Whether other pairs are the same.

        Parameters
        ----------
        other
            Other pairs.

        Returns
        -------
        bool
            Whether they are the same.
        """
        if self.starts is other.starts and self.actions is other.actions:
            return self.n_actions == other.n_actions
        return (
            self.n_states == other.n_states
            and self.n_actions == other.n_actions
            and np.array_equal(self.starts, other.starts)
            and np.array_equal(self.actions, other.actions)
        )


@lru_cache(maxsize=16)
def _all_pairs(n_states: int, n_actions: int) -> Pairs:
    """Every action in every state: the same arrays for all agents and problems of these sizes."""
    starts = np.arange(n_states + 1, dtype=np.int64) * n_actions
    return Pairs(n_states, n_actions, starts, np.arange(n_states * n_actions) % n_actions)


class OverPairs:
    """Base of `MDP` and `SwitchingMDP`: the sizes that follow from the pairs, and the labels."""

    pairs: Pairs
    state_labels: tuple[str, ...] | None = None
    action_labels: tuple[str, ...] | None = None

    @property
    def n_states(self) -> int:
        """The number of states."""
        return self.pairs.n_states

    @property
    def n_actions(self) -> int:
        """The number of actions."""
        return self.pairs.n_actions

    @property
    def available(self) -> NDArray[np.bool_]:
        """The (S, A) mask of available actions."""
        return self.pairs.available

    def __dir__(self) -> list[str]:
        return visible(self, INTERNAL)

    def label_like(self, other: OverPairs) -> Self:
        """Take over the labels of another MDP or problem.

        Parameters
        ----------
        other
            A problem with the same states and actions.

        Returns
        -------
        Self
            The object itself.
        """
        self.state_labels, self.action_labels = other.state_labels, other.action_labels
        return self
