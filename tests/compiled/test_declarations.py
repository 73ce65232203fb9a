"""Declared fields: shapes in named dimensions, ranges, scratch, and rejected values."""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
import pytest
from numpy.typing import NDArray

from switchmdp.compiled import (
    FINITE,
    Equals,
    Increasing,
    Permutation,
    RandomWords,
    Range,
    Scratch,
    Shape,
    complete,
    declarations,
    make_scratch,
    require,
    state_fields,
    validate,
)
from switchmdp.compiled.declarations import Names, evaluate
from switchmdp.mdp import Pairs


def double(names: Names) -> int:
    return 2 * names["pairs"]


class Part:
    """A field of each kind."""

    n_states: Annotated[int, Equals("states")]
    head: Annotated[int, Range(0, below="room")]
    twice: Annotated[int, Equals(double)]
    share: Annotated[float, Range(above=0.0, high=1.0)]
    limit: Annotated[float, Range(0.0, math.inf)]
    total: Annotated[float, FINITE]
    ring: Annotated[NDArray[np.uint32], Shape("room"), Range(0, below="pairs")]
    sums: Annotated[NDArray[np.float64], Shape("pairs", "states + 1")]
    times: Annotated[NDArray[np.int64], Shape("changes"), Increasing()]
    order: Annotated[NDArray[np.int64], Shape("min(states, 2)"), Permutation()]
    words: RandomWords
    work: Annotated[NDArray[np.float64], Shape("pairs"), Scratch(0.5)]
    free: Any

    def __init__(self) -> None:
        self.n_states, self.head, self.twice = 3, 4, 12
        self.share, self.limit, self.total, self.free = 1.0, math.inf, -2.0, None
        self.ring, self.sums = np.zeros(5, np.uint32), np.zeros((6, 4))
        self.times, self.order = np.array([-5, 0, 7]), np.array([1, 0])
        self.words = np.arange(4, dtype=np.uint64)

    def check_invariants(self) -> None:
        require(self.free is None, "Part.free must be None")


class Whole:
    """Defines dimensions for its component."""

    part: Part
    size: int

    def __init__(self) -> None:
        self.part, self.size = Part(), 6

    def dimensions(self) -> dict[str, int]:
        return {"states": 3, "pairs": self.size}


BAD: list[tuple[str, Any]] = [
    ("n_states", 4), ("head", 5), ("head", -1), ("twice", 11), ("share", 0.0), ("share", 1.0001),
    ("share", math.nan), ("limit", -0.5), ("limit", math.nan), ("total", math.inf),
    ("total", math.nan), ("ring", np.full(5, 6, np.uint32)), ("ring", np.zeros(4, np.uint32)),
    ("ring", np.zeros((5, 1), np.uint32)), ("sums", np.zeros((6, 3))), ("sums", np.zeros((5, 4))),
    ("sums", np.full((6, 4), np.nan)), ("sums", np.full((6, 4), np.inf)),
    ("times", np.array([0, 0])), ("times", np.array([2**63 - 1, -(2**63)])),
    ("order", np.array([1, 1])), ("order", np.array([0, 2])), ("order", np.array([0])),
    ("words", np.zeros(4, np.uint64)), ("words", np.ones(3, np.uint64)), ("free", Part),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_value_outside_its_declaration_is_rejected_by_name(field: str, value: Any) -> None:
    part = Part()
    validate(part, states=3, pairs=6)
    setattr(part, field, value)
    place = r"Part\.(head|ring)" if field in ("head", "ring") else rf"Part\.{field}"
    with pytest.raises(ValueError, match=place):
        validate(part, states=3, pairs=6)


def test_names_come_from_the_object_that_holds_the_part() -> None:
    whole = Whole()
    validate(whole)
    whole.size = 7
    with pytest.raises(ValueError, match=r"Part\.twice must be >= 14 and <= 14, got 12"):
        validate(whole)


def test_a_component_that_needs_a_dimension_of_the_agent_is_rejected_without_it() -> None:
    with pytest.raises(ValueError, match="must derive from Agent"):
        validate(Part())


def test_scratch_is_not_state_and_is_allocated_for_the_dimensions() -> None:
    part = Part()
    assert "work" not in state_fields(Part)
    assert "work" in declarations(Part)
    make_scratch(part, Pairs.of(3, 2))
    assert part.work.tolist() == [0.5] * 6
    loaded = Whole()
    assert not hasattr(loaded.part, "work")
    complete(loaded)
    assert loaded.part.work.tolist() == [0.5] * 6


def test_scratch_is_allocated_only_after_the_state_was_checked() -> None:
    whole = Whole()
    whole.size = 10**12
    with pytest.raises(ValueError, match="Part"):
        complete(whole)
    assert not hasattr(whole.part, "work")


def test_invariants_of_base_classes_come_first() -> None:
    class Derived(Part):
        def check_invariants(self) -> None:
            require(False, "derived")

    part = Derived()
    with pytest.raises(ValueError, match="derived"):
        validate(part, states=3, pairs=6)
    part.free = 1
    with pytest.raises(ValueError, match=r"Part\.free"):
        validate(part, states=3, pairs=6)


@pytest.mark.parametrize("expression", ["a / 2", "a.b", "print(a)", "'a'", "a if a else 1"])
def test_expressions_contain_only_sums_and_products(expression: str) -> None:
    with pytest.raises((TypeError, KeyError)):
        evaluate(expression, {"a": 3})


def test_bounds_are_compared_exactly_for_every_integer_type() -> None:
    for dtype in (np.uint32, np.uint64, np.int64):
        top = np.iinfo(dtype).max
        values = np.array([0, top], dtype)
        assert Range(0, int(top)).holds(values, {})
        assert not Range(0, int(top) - 1).holds(values, {})
        assert not Range(0, below=int(top)).holds(values, {})
    assert not Range(0).holds(np.array([-1]), {})
    assert Range(-(2**70), 2**70).holds(np.array([2**63 - 1]), {})
