"""The rows and patches of a switching MDP: built from configurations, or read from a file.

`Pool` collects them configuration by configuration, or patch by patch. A row that occurs again (in
another pair or an earlier configuration) is recognised by its content and stored once; rows that
differ only in their mean share their list of successors.

`build_from_stack` builds the same model at once from one stack of arrays, if every configuration
replaces all rows. Experiments with thousands of random problems need this speed.

`check_stored` checks what was read from a file before machine code uses its indices. The checksum
of a file proves that it is complete, not who wrote it, so every index is checked to lie inside its
array. Indices are compared, never subtracted: the difference of two 64-bit integers may overflow
and look valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import patient
from switchmdp.display import counted
from switchmdp.errors import InvalidMDP, InvalidParameter
from switchmdp.mdp.model import Model, row_sums
from switchmdp.mdp.pairs import MAX_PAIRS, Pairs
from switchmdp.mdp.parse import compress, dense_entries, entries_of_each, place
from switchmdp.validation import is_number

RowChange = tuple[int, int, Any, float | None]
Segment = tuple[int, int]  # where a list of successors starts and stops
Content = tuple[NDArray[np.uint32], NDArray[np.float64]]  # successors, probabilities


class Patches(NamedTuple):
    """Change i replaces rows `old` by `new` at the pairs of offsets[i]..offsets[i+1]-1."""

    offsets: NDArray[np.int64]
    pair: NDArray[np.int64]
    old: NDArray[np.int64]
    new: NDArray[np.int64]
    rewires: NDArray[np.bool_]  # whether a change removes edges from the graph

    @classmethod
    def of(cls, model: Model, offsets: Any, pair: Any, old: Any, new: Any) -> Patches:
        """The patches of a model; `rewires` follows from them."""
        return cls(offsets, pair, old, new, _changes_that_rewire(model, offsets, pair, old, new))

    def __repr__(self) -> str:
        changes = counted(len(self.offsets) - 1, "change")
        return f"Patches({changes}, {counted(len(self.pair), 'replaced row')})"


class Pool:
    """The rows so far, the current row of each pair, and the patches so far."""

    def __init__(self, pairs: Pairs, base: Model) -> None:
        self.pairs = pairs
        self.row = base.row.copy()
        self.start, self.stop = base.start.tolist(), base.stop.tolist()
        self.mean = base.mean.tolist()
        self.successors, self.probabilities = [base.successors], [base.probabilities]
        self.stored = len(base.successors)
        self.offsets = [0]
        self.patches: list[tuple[int, int, int]] = []  # (pair, old row, new row)
        self._base = self._last = base
        self._segments: dict[bytes, Segment] = {}
        self._rows: dict[tuple[Segment, float], int] = {}
        self._content: dict[Segment, Content] = {}
        self._indexed: set[int] = set()  # rows of the base that are recognised if they recur
        self._change: dict[int, tuple[int, int]] = {}  # pair: (old row, new row) of this change

    def change_to(self, model: Model) -> None:
        """Add a change to a whole configuration: only the rows that differ count."""
        pairs = _differing_pairs(self._last, model)
        rows = model.row[pairs]
        content = (pairs, model.start[rows], model.stop[rows], model.mean[rows])
        for pair, start, stop, mean in zip(*(column.tolist() for column in content), strict=True):
            self._replace(pair, model.successors[start:stop], model.probabilities[start:stop], mean)
        self._end_change()
        self._last = model

    def apply(self, patch: Sequence[RowChange]) -> None:
        """Add a change given as a list of row changes."""
        try:
            changes = [(s, a, transitions, mean) for s, a, transitions, mean in patch]
        except (TypeError, ValueError):
            raise InvalidMDP(
                f"a patch is a list of (state, action, transitions, mean), got {patch!r}"
            ) from None
        pairs: list[int] = []
        for state, action, _, _ in changes:
            try:
                pairs.append(self.pairs.pair(state, action))
            except InvalidParameter as error:
                raise InvalidMDP(f"change {len(self.offsets)}: {error}") from None
        given = [x for x, change in enumerate(changes) if change[2] is not None]
        rows = self._parse([changes[x][2] for x in given], [pairs[x] for x in given])
        for pair, (_, _, transitions, mean) in zip(pairs, changes, strict=True):
            now = int(self.row[pair])
            content = self._row_content(now) if transitions is None else next(rows)
            level = self.mean[now] if mean is None else self._parse_mean(pair, mean)
            self._replace(pair, *content, level)
        self._end_change()

    def finish(self) -> tuple[Model, Patches]:
        """The model in its first configuration, and the patches."""
        model = Model.of(
            starts=self.pairs.starts, row=self._base.row.copy(),
            start=np.array(self.start, np.int64), stop=np.array(self.stop, np.int64),
            mean=np.array(self.mean, np.float64), successors=np.concatenate(self.successors),
            probabilities=np.concatenate(self.probabilities),
        )  # fmt: skip
        columns = np.array(self.patches, np.int64).reshape(-1, 3).T
        pair, old, new = (np.ascontiguousarray(column) for column in columns)
        return model, Patches.of(model, np.array(self.offsets, np.int64), pair, old, new)

    def _replace(self, pair: int, successors: Any, probabilities: Any, mean: float) -> None:
        """Give a pair a row, which may be new or known."""
        old = int(self.row[pair])
        if old < len(self._base.mean) and old not in self._indexed:
            self._index(old)
        key = successors.tobytes() + probabilities.tobytes()
        segment = self._segments.get(key)
        if segment is None:
            segment = (self.stored, self.stored + len(successors))
            self._segments[key] = segment
            self._content[segment] = (successors, probabilities)
            self.successors.append(successors)
            self.probabilities.append(probabilities)
            self.stored += len(successors)
        new = self._rows.setdefault((segment, mean), len(self.mean))
        if new == len(self.mean):
            self.start.append(segment[0])
            self.stop.append(segment[1])
            self.mean.append(mean)
        if new != old:  # if a change gives a pair several rows, the last one counts
            self._change[pair] = (self._change.get(pair, (old, new))[0], new)
            self.row[pair] = new

    def _index(self, row: int) -> None:
        """Index a row of the base by its content, so that it is recognised if it recurs."""
        self._indexed.add(row)
        segment = (self.start[row], self.stop[row])
        successors, probabilities = self._row_content(row)
        self._segments.setdefault(successors.tobytes() + probabilities.tobytes(), segment)
        self._rows.setdefault((segment, self.mean[row]), row)

    def _row_content(self, row: int) -> Content:
        first, last = self.start[row], self.stop[row]
        if last <= len(self._base.successors):
            return self._base.successors[first:last], self._base.probabilities[first:last]
        return self._content[first, last]

    def _end_change(self) -> None:
        changed = [(pair, old, new) for pair, (old, new) in self._change.items() if old != new]
        self.patches += changed
        self.offsets.append(len(self.patches))
        self._change.clear()

    def _parse(self, rows: list[Any], pairs: list[int]) -> Iterator[Content]:
        """The successors and probabilities of new rows."""

        def where(x: int) -> str:
            return self._place(pairs[x])

        entries = entries_of_each(rows, self.pairs.n_states, where)
        indptr, successors, probabilities = compress(entries, len(rows), where)
        for first, last in pairwise(indptr.tolist()):
            yield successors[first:last], probabilities[first:last]

    def _parse_mean(self, pair: int, mean: Any) -> float:
        if not is_number(mean) or not 0.0 <= mean <= 1.0:
            raise InvalidMDP(f"{self._place(pair)}: mean reward {mean!r} is not in [0, 1]")
        return float(mean)

    def _place(self, pair: int) -> str:
        return f"change {len(self.offsets)}, {place(self.pairs, pair)}"


@patient
def _differing_pairs(a: Any, b: Any) -> Any:
    pairs = np.empty(a.row.size, np.int64)
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
            pairs[count] = pair
            count += 1
    return pairs[:count].copy()


@patient
def _changes_that_rewire(model: Any, offsets: Any, pair: Any, old: Any, new: Any) -> Any:
    """For each change, whether some row loses a successor."""
    rewires = np.zeros(offsets.size - 1, np.bool_)
    for change in range(rewires.size):
        for x in range(offsets[change], offsets[change + 1]):
            k = model.start[new[x]]
            for i in range(model.start[old[x]], model.stop[old[x]]):  # both lists increase
                while k < model.stop[new[x]] and model.successors[k] < model.successors[i]:
                    k += 1
                if k == model.stop[new[x]] or model.successors[k] != model.successors[i]:
                    rewires[change] = True
    return rewires


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
    if not ((flat >= 0.0) & (flat <= 1.0)).all():
        return None
    try:
        entries = dense_entries(rows.reshape(-1, n_states))
        indptr, successors, probabilities = compress(entries, flat.size, str)
    except InvalidMDP:  # `Pool` raises it again with its place
        return None
    model = Model.of(
        starts=pairs.starts, row=np.arange(pairs.n_pairs), start=indptr[:-1].copy(),
        stop=indptr[1:].copy(), mean=flat.ravel().copy(), successors=successors,
        probabilities=probabilities,
    )  # fmt: skip
    old = np.arange((n - 1) * pairs.n_pairs)
    pair, new = old % pairs.n_pairs, old + pairs.n_pairs
    return pairs, model, Patches.of(model, np.arange(n) * pairs.n_pairs, pair, old, new)


# Files.


TYPES = {
    "starts": np.int64, "row": np.int64, "start": np.int64, "stop": np.int64, "mean": np.float64,
    "successors": np.uint32, "probabilities": np.float64, "offsets": np.int64, "pair": np.int64,
    "old": np.int64, "new": np.int64, "actions": np.int64, "change_points": np.int64,
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
    _require(((probabilities > 0.0) & (probabilities <= 1.0)).all(), "probabilities")
    # A normalised row of k probabilities is off by at most k roundings: those of the sum that it
    # was divided by, and one in each quotient. The certificates of gains rely on this.
    off = np.abs(row_sums(start, stop, probabilities) - 1.0)
    _require((off <= (stop - start + 2) * 2.0**-53).all(), "probabilities")
    _require(len(offsets) == n_changes + 1, "offsets")
    _require(offsets[0] == 0 and offsets[-1] == n_patches, "offsets")
    _require((offsets[1:] >= offsets[:-1]).all(), "offsets")
    _require(_within(pair, n_pairs), "pair")
    for name in ("old", "new"):
        _require(len(arrays[name]) == n_patches and _within(arrays[name], n_rows), name)
    _require(_replaces_current_rows(row.copy(), pair, arrays["old"], arrays["new"]), "old")


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


@patient
def _replaces_current_rows(row: Any, pair: Any, old: Any, new: Any) -> bool:
    """Whether each patch's old row is the pair's row at that time."""
    for x in range(pair.size):
        if row[pair[x]] != old[x]:
            return False
        row[pair[x]] = new[x]
    return True
