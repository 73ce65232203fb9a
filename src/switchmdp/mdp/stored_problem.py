"""Checks of a switching MDP that was read from a file, before machine code uses its indices.

The checksum of a file proves that it is complete, not who wrote it, so every index is checked to
lie inside its array. Indices are compared, never subtracted: the difference of two 64-bit integers
may overflow and look valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.mdp.model import row_sums
from switchmdp.mdp.pairs import MAX_PAIRS
from switchmdp.mdp.pool import replaces_what_is_there

TYPES = {
    "starts": np.int64, "row": np.int64, "start": np.int64, "stop": np.int64, "mean": np.float64,
    "successors": np.uint32, "probabilities": np.float64, "offsets": np.int64, "pair": np.int64,
    "old": np.int64, "new": np.int64, "actions": np.int64,
    "change_points": np.int64,
}  # fmt: skip


def check_stored(fields: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise a ValueError that names the first array that is wrong."""
    for name, dtype in TYPES.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != 1:
            raise ValueError(f"array {name} must be one-dimensional {np.dtype(dtype)}")
    starts, actions, row = arrays["starts"], arrays["actions"], arrays["row"]
    start, stop, mean = arrays["start"], arrays["stop"], arrays["mean"]
    successors, probabilities = arrays["successors"], arrays["probabilities"]
    n_states, n_rows, n_pairs = len(starts) - 1, len(mean), len(actions)
    offsets, pair = arrays["offsets"], arrays["pair"]
    n_changes, n_patches = len(arrays["change_points"]), len(pair)

    _require(n_states >= 1 and starts[0] == 0 and starts[-1] == n_pairs, "starts")
    _require((starts[1:] > starts[:-1]).all(), "starts")
    n_actions = fields["n_actions"]
    known = isinstance(n_actions, int) and not isinstance(n_actions, bool)
    if not known or not 1 <= n_actions <= MAX_PAIRS // n_states:
        raise ValueError(f"n_actions is {n_actions!r}")
    _require(_within(actions, n_actions), "actions")
    inner = np.ones(n_pairs, bool)
    inner[starts[:-1]] = False
    _require((actions[1:] > actions[:-1])[inner[1:]].all(), "actions")
    _require(len(row) == n_pairs and _within(row, n_rows), "row")
    _require(len(start) == n_rows and len(stop) == n_rows, "start")
    _require((start >= 0).all() and (start < stop).all(), "start")
    _require((stop <= len(successors)).all(), "stop")
    _require(_are_apart(start, stop), "start")
    _require(_within(successors, n_states), "successors")
    _require(_increase(start, stop, successors), "successors")
    _require(len(probabilities) == len(successors), "probabilities")
    _require(((mean >= 0.0) & (mean <= 1.0)).all(), "mean")
    _require((probabilities > 0.0).all(), "probabilities")
    off = np.abs(row_sums(start, stop, probabilities) - 1.0)
    # Normalising rounds each of k probabilities, and adding them up rounds k times.
    _require((off <= (stop - start + 2) * 2.0**-52).all(), "probabilities")
    _require(len(offsets) == n_changes + 1, "offsets")
    _require(offsets[0] == 0 and offsets[-1] == n_patches, "offsets")
    _require((offsets[1:] >= offsets[:-1]).all(), "offsets")
    _require(_within(pair, n_pairs), "pair")
    for name in ("old", "new"):
        _require(len(arrays[name]) == n_patches and _within(arrays[name], n_rows), name)
    _require(replaces_what_is_there(row.copy(), pair, arrays["old"], arrays["new"]), "old")


def _are_apart(start: NDArray[np.int64], stop: NDArray[np.int64]) -> bool:
    """Whether any two rows have the same list of successors, or lists that do not overlap.

    A list that overlaps with another would overwrite its cumulative probabilities.
    """
    order = np.lexsort((stop, start))
    first, last = start[order], stop[order]
    same = (first[1:] == first[:-1]) & (last[1:] == last[:-1])
    return bool((same | (first[1:] >= last[:-1])).all())


def _increase(
    start: NDArray[np.int64], stop: NDArray[np.int64], successors: NDArray[np.uint32]
) -> bool:
    """Whether the successors of each row increase."""
    falls = np.zeros(len(successors), np.int64)
    np.cumsum(successors[1:] <= successors[:-1], out=falls[1:])
    return bool((falls[start] == falls[stop - 1]).all())


def _within(values: NDArray[Any], top: int) -> bool:
    return bool(((values >= 0) & (values < top)).all())


def _require(holds: Any, name: str) -> None:
    if not holds:
        raise ValueError(f"array {name} is inconsistent")
