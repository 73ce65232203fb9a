"""The door before the learner: what is said to it is clean, or refused before anything happens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents.protocol import check_observe
from switchmdp.errors import InvalidAction, InvalidParameter
from switchmdp.mdp.pairs import find_pair
from switchmdp.validation import check_index

LONGEST_SESSION = 200


def checked_session(session: Any) -> str:
    """A session's key."""
    if not isinstance(session, str) or len(session) > LONGEST_SESSION:
        allowed = f"a text of at most {LONGEST_SESSION} characters"
        raise InvalidParameter("session", session, allowed)
    return session


def checked_action(agent: Any, state: int, action: Any, field: str) -> int:
    """An action that the state has."""
    found = check_index(action, agent.n_actions, field, InvalidAction)
    if find_pair(agent.starts, agent.actions, state, found) < 0:
        raise InvalidAction(field, found, f"one of {agent.pairs.at(state)}")
    return found


def checked_available(agent: Any, state: int, available: Any) -> list[int] | None:
    """The actions that can be taken right now, if it was said."""
    if available is None:
        return None
    if not isinstance(available, (list, tuple)) or not available:
        raise InvalidParameter("available", available, "a list of actions, one at least")
    return [checked_action(agent, state, action, "available") for action in available]


def checked_policy(agent: Any, policy: Any) -> list[int]:
    """An action for each state."""
    if not isinstance(policy, (list, tuple)) or len(policy) != agent.n_states:
        raise InvalidParameter("policy", policy, f"a list of {agent.n_states} actions")
    return [checked_action(agent, s, a, f"policy[{s}]") for s, a in enumerate(policy)]


def checked_rows(agent: Any, rows: Any) -> list[tuple[int, int, float, int]]:
    """Steps known from elsewhere."""
    for row in rows:
        if not isinstance(row, (list, tuple)) or len(row) != 4:
            raise InvalidParameter("rows", row, "of (state, action, reward, next state)")
    return [check_observe(agent, *row) for row in rows]


def checked_mask(
    field: str, chosen: Any, size: int, error: type[InvalidParameter]
) -> NDArray[np.bool_]:
    """A mask of these numbers, or of all.

    >>> checked_mask("available", [1], 3, InvalidAction).tolist()
    [False, True, False]
    """
    mask = np.full(size, chosen is None)
    if chosen is not None:
        if not isinstance(chosen, list):
            raise InvalidParameter(field, chosen, f"a list of integers from 0 to {size - 1}")
        for number in chosen:
            mask[check_index(number, size, field, error)] = True
    return mask
