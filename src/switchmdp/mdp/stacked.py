"""Configurations that come as one stack of arrays, all rows new in each: built in one go.

The same model as row by row, which is what experiments with thousands of random problems need;
where a row is not in order, or comes back, it is left to the general way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidMDP
from switchmdp.mdp.model import Model, cumulate
from switchmdp.mdp.pairs import Pairs
from switchmdp.mdp.parse import parse_stack
from switchmdp.mdp.pool import Patches, changes_that_rewire


def build(
    transitions: NDArray[np.float64], means: NDArray[np.float64]
) -> tuple[Pairs, Model, Patches] | None:
    """The model of (k, S, A, S) probabilities and (k, S, A) means, or None for the general way."""
    n, n_states, n_actions = means.shape
    pairs = Pairs.of(n_states, n_actions)
    flat = means.reshape(n, -1)
    rows = transitions.reshape(n, pairs.n_pairs, n_states)
    if n > 1 and not ((rows[1:] != rows[:-1]).any(axis=2) | (flat[1:] != flat[:-1])).all():
        return None
    try:
        indptr, successors, probabilities = parse_stack(rows, flat)
    except InvalidMDP:
        return None
    start, stop = indptr[:-1].copy(), indptr[1:].copy()
    model = Model(
        starts=pairs.starts, row=np.arange(pairs.n_pairs), start=start, stop=stop,
        mean=flat.ravel().copy(), successors=successors, probabilities=probabilities,
        cumulative=cumulate(start, stop, probabilities),
    )  # fmt: skip
    old = np.arange((n - 1) * pairs.n_pairs)
    pair, new = old % pairs.n_pairs, old + pairs.n_pairs
    offsets = np.arange(n) * pairs.n_pairs
    rewires = changes_that_rewire(model, offsets, pair, old, new)
    return pairs, model, Patches(offsets, pair, old, new, rewires)
