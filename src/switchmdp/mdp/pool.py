"""Builds the rows and patches of a switching MDP.

`Pool` collects them configuration by configuration, or patch by patch. A row that occurs again (in
another pair or an earlier configuration) is recognised by its content and stored once; rows that
differ only in their mean share their list of successors.

`build_from_stack` builds the same model at once from one stack of arrays, if every configuration
replaces all rows. Experiments with thousands of random problems need this speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry
from switchmdp.errors import InvalidMDP, InvalidParameter
from switchmdp.mdp.model import Model, cumulate
from switchmdp.mdp.pairs import Pairs
from switchmdp.mdp.parse import ROW_SUM_TOLERANCE, parse_stack, place
from switchmdp.validation import is_number

RowChange = tuple[int, int, Any, float | None]
Segment = tuple[int, int]


class Patches(NamedTuple):
    """Change i replaces rows `old` by `new` at the pairs of offsets[i]..offsets[i+1]-1."""

    offsets: NDArray[np.int64]
    pair: NDArray[np.int64]
    old: NDArray[np.int64]
    new: NDArray[np.int64]
    rewires: NDArray[np.bool_]  # whether a change removes edges from the graph

    def __repr__(self) -> str:
        return f"Patches({len(self.offsets) - 1} changes, {len(self.pair)} replaced rows)"


class Pool:
    """The rows so far, the current row of each pair, and the patches so far."""

    def __init__(self, pairs: Pairs, base: Model) -> None:
        self.pairs = pairs
        self.base = base.row.copy()
        self.row = base.row.copy()
        self.start, self.stop = base.start.tolist(), base.stop.tolist()
        self.mean = base.mean.tolist()
        self.successors, self.probabilities = [base.successors], [base.probabilities]
        self.stored = len(base.successors)
        self._segments: dict[bytes, Segment] = {}
        self._rows: dict[tuple[Segment, float], int] = {}
        self._content: dict[Segment, tuple[NDArray[np.uint32], NDArray[np.float64]]] = {}
        self._first = self._last = base
        self._entered = [False] * len(base.mean)  # base rows, found by content once replaced
        self.offsets = [0]
        self.pair: list[int] = []
        self.old: list[int] = []
        self.new: list[int] = []

    def change_to(self, model: Model) -> None:
        """Add a change to a whole configuration: only the rows that differ count."""
        pairs = _differing_pairs(self._last, model)
        rows = model.row[pairs]
        content = (pairs, model.start[rows], model.stop[rows], model.mean[rows])
        for pair, start, stop, mean in zip(*(column.tolist() for column in content), strict=True):
            self._replace(pair, model.successors[start:stop], model.probabilities[start:stop], mean)
        self._close()
        self._last = model

    def apply(self, patch: Sequence[RowChange]) -> None:
        """Add a change given as a list of row changes."""
        try:
            changes = [(s, a, transitions, mean) for s, a, transitions, mean in patch]
        except (TypeError, ValueError):
            raise InvalidMDP(
                f"a patch is a list of (state, action, transitions, mean), got {patch!r}"
            ) from None
        for state, action, transitions, mean in changes:
            try:
                pair = self.pairs.pair(state, action)
            except InvalidParameter as error:
                raise InvalidMDP(f"change {len(self.offsets)}: {error}") from None
            now = int(self.row[pair])
            successors, probabilities = self._segment_content((self.start[now], self.stop[now]))
            if transitions is not None:
                successors, probabilities = self._parse(pair, transitions)
            level = self.mean[now] if mean is None else self._parse_mean(pair, mean)
            self._replace(pair, successors, probabilities, level)
        self._close()

    def finish(self) -> tuple[Model, Patches]:
        """The model in its first configuration, and the patches."""
        start, stop = np.array(self.start, np.int64), np.array(self.stop, np.int64)
        probabilities = np.concatenate(self.probabilities)
        model = Model(
            starts=self.pairs.starts, row=self.base, start=start, stop=stop,
            mean=np.array(self.mean, np.float64), successors=np.concatenate(self.successors),
            probabilities=probabilities, cumulative=cumulate(start, stop, probabilities),
        )  # fmt: skip
        pair, old, new = (np.array(x, np.int64) for x in (self.pair, self.old, self.new))
        offsets = np.array(self.offsets, np.int64)
        rewires = changes_that_rewire(model, offsets, pair, old, new)
        return model, Patches(offsets, pair, old, new, rewires)

    def _replace(self, pair: int, successors: Any, probabilities: Any, mean: float) -> None:
        """Give a pair a row, which may be new or known."""
        old = int(self.row[pair])
        if old < len(self._entered) and not self._entered[old]:
            self._enter(old)
        key = successors.tobytes() + probabilities.tobytes()
        segment = self._segments.get(key)
        if segment is None:
            segment = (self.stored, self.stored + len(successors))
            self._segments[key] = segment
            self._content[segment] = (successors, probabilities)
            self.successors.append(successors)
            self.probabilities.append(probabilities)
            self.stored += len(successors)
        new = self._rows.get((segment, mean))
        if new is None:
            new = len(self.mean)
            self._rows[segment, mean] = new
            self.start.append(segment[0])
            self.stop.append(segment[1])
            self.mean.append(mean)
        if new != old:
            self.pair.append(pair)
            self.old.append(old)
            self.new.append(new)
            self.row[pair] = new

    def _enter(self, row: int) -> None:
        """Index a row of the base by its content, so that it is recognised if it recurs."""
        self._entered[row] = True
        segment = (self.start[row], self.stop[row])
        successors, probabilities = self._segment_content(segment)
        self._segments.setdefault(successors.tobytes() + probabilities.tobytes(), segment)
        self._rows.setdefault((segment, self.mean[row]), row)

    def _segment_content(self, segment: Segment) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        found = self._content.get(segment)
        if found is None:  # only the base's rows are not entered as they come
            part = slice(*segment)
            found = self._first.successors[part], self._first.probabilities[part]
            self._content[segment] = found
        return found

    def _close(self) -> None:
        """End a change; if a pair got several rows in it, the last one counts."""
        first = self.offsets[-1]
        if len(set(self.pair[first:])) < len(self.pair) - first:
            merged: dict[int, tuple[int, int]] = {}
            for pair, old, new in zip(
                self.pair[first:], self.old[first:], self.new[first:], strict=True
            ):
                merged[pair] = (merged.get(pair, (old, new))[0], new)
            kept = [(pair, old, new) for pair, (old, new) in merged.items() if old != new]
            self.pair[first:], self.old[first:], self.new[first:] = (
                [row[i] for row in kept] for i in range(3)
            )
        self.offsets.append(len(self.pair))

    def _parse(self, pair: int, transitions: Any) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
        n_states = self.pairs.n_states
        try:
            if isinstance(transitions, Mapping):
                transitions = list(transitions.items())
            values = np.asarray(transitions)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._fault(pair, f"transitions are not numbers: {error}") from None
        if values.dtype.kind not in "fiu":
            raise self._fault(pair, f"transitions are not numbers: {transitions!r}")
        values = values.astype(np.float64)
        if values.ndim == 2 and values.shape[1] == 2:
            targets, given = values[:, 0], values[:, 1]
            if not np.isin(targets, np.arange(n_states)).all():
                raise self._fault(pair, f"next states {targets} are not all in 0..{n_states - 1}")
            if not (given >= 0.0).all():
                raise self._fault(pair, f"probabilities {given} are not all >= 0")
            values = np.bincount(targets.astype(np.int64), given, n_states).astype(np.float64)
        if values.shape != (n_states,):
            raise self._fault(pair, f"{n_states} probabilities expected, got shape {values.shape}")
        if not values.min() >= 0.0:
            bad = int(np.argmin(values >= 0.0))
            raise self._fault(pair, f"probability {values[bad]} of next state {bad} is not >= 0")
        total = float(np.cumsum(values)[-1])  # from left to right, as in `parse`
        if not abs(total - 1.0) <= ROW_SUM_TOLERANCE:
            raise self._fault(pair, f"probabilities sum to {total:.12g}, not to 1")
        successors = values.nonzero()[0].astype(np.uint32)
        return successors, values[successors] / total

    def _parse_mean(self, pair: int, mean: Any) -> float:
        if not is_number(mean):
            raise self._fault(pair, f"mean reward {mean!r} is not a number")
        if not 0.0 <= mean <= 1.0:
            raise self._fault(pair, f"mean reward {mean} is outside [0, 1]")
        return float(mean)

    def _fault(self, pair: int, what: str) -> InvalidMDP:
        return InvalidMDP(f"change {len(self.offsets)}, {place(self.pairs, pair)}: {what}")


@entry
def _differing_pairs(a: Any, b: Any) -> Any:
    found = np.empty(a.row.size, np.int64)
    count = 0
    for pair in range(a.row.size):
        x, y = a.row[pair], b.row[pair]
        width = a.stop[x] - a.start[x]
        same = a.mean[x] == b.mean[y] and width == b.stop[y] - b.start[y]
        if same:
            for k in range(width):
                i, j = a.start[x] + k, b.start[y] + k
                if a.successors[i] != b.successors[j] or a.probabilities[i] != b.probabilities[j]:
                    same = False
                    break
        if not same:
            found[count] = pair
            count += 1
    return found[:count].copy()


@entry
def changes_that_rewire(model: Any, offsets: Any, pair: Any, old: Any, new: Any) -> Any:
    """For each change, whether some row loses a successor."""
    found = np.zeros(offsets.size - 1, np.bool_)
    for change in range(found.size):
        for x in range(offsets[change], offsets[change + 1]):
            k = model.start[new[x]]
            for i in range(model.start[old[x]], model.stop[old[x]]):  # both lists increase
                while k < model.stop[new[x]] and model.successors[k] < model.successors[i]:
                    k += 1
                if k == model.stop[new[x]] or model.successors[k] != model.successors[i]:
                    found[change] = True
    return found


@entry
def replaces_what_is_there(row: Any, pair: Any, old: Any, new: Any) -> bool:
    """Whether each patch's old row is the pair's row at that time."""
    for x in range(pair.size):
        if row[pair[x]] != old[x]:
            return False
        row[pair[x]] = new[x]
    return True


def build_from_stack(
    transitions: NDArray[np.float64], means: NDArray[np.float64]
) -> tuple[Pairs, Model, Patches] | None:
    """The model of (k, S, A, S) probabilities and (k, S, A) means, or None if `Pool` is needed."""
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
