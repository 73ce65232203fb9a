"""Checks of arguments: each returns a clean value, or raises an error that names the field.

Booleans are never numbers here, and floats are never integers, even where Python accepts them.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidAction, InvalidParameter, InvalidReward, InvalidState


def check_index(value: Any, top: int, field: str, error: type[InvalidParameter]) -> int:
    """A plain integer from 0 to top - 1: no bool, no float, no array.

    Parameters
    ----------
    value
        The argument.
    top
        The number of allowed values.
    field
        The name of the argument, for the message.
    error
        The error to raise.

    Returns
    -------
    int
        The integer.

    Examples
    --------
    >>> check_index(2, 3, "arm", InvalidParameter)
    2
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < top:
        raise error(field, value, f"an integer from 0 to {top - 1}")
    return int(value)


def check_state(value: Any, n_states: int, field: str = "state") -> int:
    """A state as an integer.

    Parameters
    ----------
    value
        The argument.
    n_states
        The number of states.
    field
        The name of the argument, for the message.

    Returns
    -------
    int
        The state.

    Examples
    --------
    >>> check_state(2, n_states=3)
    2
    """
    return check_index(value, n_states, field, InvalidState)


def check_action(value: Any, n_actions: int) -> int:
    """An action as an integer.

    Parameters
    ----------
    value
        The argument.
    n_actions
        The number of actions.

    Returns
    -------
    int
        The action.

    Examples
    --------
    >>> check_action(1, n_actions=2)
    1
    """
    return check_index(value, n_actions, "action", InvalidAction)


def check_reward(value: Any) -> float:
    """A reward as a float.

    Parameters
    ----------
    value
        The argument.

    Returns
    -------
    float
        The reward.

    Raises
    ------
    InvalidReward
        If the value is not a number in [0, 1].

    Examples
    --------
    >>> check_reward(1)
    1.0
    """
    if (
        isinstance(value, (bool, np.bool_))
        or not isinstance(value, (int, float, np.integer, np.floating))
        or not 0.0 <= value <= 1.0
    ):
        raise InvalidReward("reward", value, "a finite number in [0, 1]")
    return float(value)


def check_integer(field: str, value: Any, least: int, most: int = 2**62) -> int:
    """An integer in a range.

    Parameters
    ----------
    field
        The name of the argument, for the message.
    value
        The argument.
    least
        The least allowed value.
    most
        The largest allowed value.

    Returns
    -------
    int
        The integer.

    Raises
    ------
    InvalidParameter
        If the value is not an integer in the range.

    Examples
    --------
    >>> check_integer("window", 5, least=1)
    5
    >>> check_integer("window", 2.5, least=1)
    Traceback (most recent call last):
        ...
    switchmdp.errors.InvalidParameter: window must be an integer >= 1, got 2.5
    """
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, np.integer))
        or not least <= value <= most
    ):
        too_large = isinstance(value, (int, np.integer)) and value > most
        limit = f"an integer from {least} to {'2**62' if most == 2**62 else most}"
        if most == 2**62 and not too_large:
            limit = f"an integer >= {least}"
        raise InvalidParameter(field, value, limit)
    return int(value)


def check_increasing_steps(values: Any) -> NDArray[np.int64]:
    """Change points or restart times: strictly increasing integers from 2 on.

    Parameters
    ----------
    values
        The argument.

    Returns
    -------
    NDArray[np.int64]
        The steps.

    Raises
    ------
    ValueError
        If the values are anything else.

    Examples
    --------
    >>> check_increasing_steps([100, 200])
    array([100, 200])
    """
    try:
        steps = np.asarray(values)
        if steps.ndim == 1 and steps.size == 0:
            return np.empty(0, np.int64)
        if steps.ndim != 1 or steps.dtype.kind not in "iu" or steps.max() >= 2**62:
            raise ValueError
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise ValueError(f"must be a list of integers below 2**62, got {values!r}") from None
    steps = steps.astype(np.int64)
    if steps[0] < 2:
        raise ValueError(f"must be >= 2, got {steps[0]} first")
    falls = np.nonzero(steps[1:] <= steps[:-1])[0]  # a difference may wrap around
    if len(falls):
        i = falls[0]
        raise ValueError(f"must increase strictly, got {steps[i]} then {steps[i + 1]}")
    return steps


def is_number(value: Any) -> bool:
    """Whether a value is a plain number: no bool, no complex, no string, no array.

    Parameters
    ----------
    value
        Any object.

    Returns
    -------
    bool
        Whether it is one.

    Examples
    --------
    >>> is_number(0.5), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real) and not isinstance(value, (bool, np.bool_))


# Agents divide a confidence by numbers of pairs and steps. The result must not become 0.
LEAST_PROBABILITY = 1e-200


def check_probability(field: str, value: Any) -> float:
    """A number strictly between 0 and 1.

    Parameters
    ----------
    field
        The name of the argument, for the message.
    value
        The argument.

    Returns
    -------
    float
        The number.

    Raises
    ------
    InvalidParameter
        If the value is anything else.

    Examples
    --------
    >>> check_probability("delta", 0.05)
    0.05
    """
    if not is_number(value) or not 0.0 < value < 1.0:
        raise InvalidParameter(field, value, "a number strictly between 0 and 1")
    if value < LEAST_PROBABILITY:
        raise InvalidParameter(field, value, f"at least {LEAST_PROBABILITY}")
    return float(value)


def check_positive(field: str, value: Any) -> float:
    """A positive, finite number.

    Parameters
    ----------
    field
        The name of the argument, for the message.
    value
        The argument.

    Returns
    -------
    float
        The number.

    Raises
    ------
    InvalidParameter
        If the value is anything else.

    Examples
    --------
    >>> check_positive("gap", 10)
    10.0
    """
    if not is_number(value) or not 0.0 < value < float("inf"):
        raise InvalidParameter(field, value, "a positive number")
    return float(value)


def check_not_negative(field: str, value: Any) -> float:
    """A finite number that is not negative.

    Parameters
    ----------
    field
        The name of the argument, for the message.
    value
        The argument.

    Returns
    -------
    float
        The number.

    Raises
    ------
    InvalidParameter
        If the value is anything else.

    Examples
    --------
    >>> check_not_negative("bonus", 0)
    0.0
    """
    if not is_number(value) or not 0.0 <= value < float("inf"):
        raise InvalidParameter(field, value, "a number >= 0")
    return float(value)
