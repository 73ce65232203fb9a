"""Equality of results: dataclasses whose fields may be arrays.

The `==` of a dataclass compares tuples of fields, which NumPy refuses for arrays. Here two objects
are equal if all their fields are: arrays have the same shape and entries, and NaN equals NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays entry by entry. NaN equals NaN.

    Parameters
    ----------
    one, other
        Numbers, texts, arrays, or tuples, lists and mappings of them.

    Returns
    -------
    bool
        Whether they are equal.

    Examples
    --------
    >>> same((np.array([1.0, np.nan]), "a"), (np.array([1.0, np.nan]), "a"))
    True
    >>> same(np.zeros(2), np.zeros((2, 1)))
    False
    """
    if one is other:
        return True
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        if type(one) is not type(other):
            return False
        return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    if isinstance(one, (tuple, list)) and type(one) is type(other):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other) or bool(one != one and other != other)  # NaN


class EqualByFields:
    """Base class of dataclasses that are equal if all their fields are (`eq=False`).

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Result(EqualByFields):
    ...     gains: np.ndarray
    >>> Result(np.ones(2)) == Result(np.ones(2)), Result(np.ones(2)) == Result(np.zeros(2))
    (True, False)
    """

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and same(vars(self), vars(other))

    def __hash__(self) -> int:
        # Equal objects have equal hashes: numbers and texts as they are, arrays by their shape.
        fields = vars(self).values()
        plain = [v for v in fields if isinstance(v, (int, str))]
        return hash((type(self), *plain, *(v.shape for v in fields if isinstance(v, np.ndarray))))
