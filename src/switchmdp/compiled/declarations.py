"""Declared state: what each field of an agent or a component may hold.

The annotation of a field gives its type and, in `Annotated`, what machine code relies on:

    visits: Annotated[NDArray[np.int64], Shape("pairs"), Range(0, 2**32 - 1)]
    target: Annotated[NDArray[np.uint32], Shape("slots"), Range(0, below="states")]
    filled: Annotated[int, Range(0, "slots")]
    radius: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]

Saving, loading and validation follow from the declarations. An invariant that relates several
fields is a method `check_invariants`, which raises a ValueError; it runs after the declared fields
and the components of the object have been checked. Base classes are checked first.

**Names.** A size or a bound is a number, an expression with `+`, `-`, `*`, `min` and `max` such as
"states + 1", or a function of all names (one of the module: annotations cannot hold lambdas). A
name is a dimension of the agent (`states`, `actions`, `pairs`), an integer field of the same
object, or a size that the first array with this name sets for the whole object. An object may have
a method `dimensions` that returns names for itself and for what it holds.

**Floats** are finite, unless a declared range includes infinity. NaN is never valid.

**Scratch** is working memory whose content does not outlive a call. It is not saved. Loading
allocates it again, after all state was checked, so that a small file cannot claim much memory.

Values are compared with bounds and never subtracted: a difference may wrap around.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled.structs import fields_of
from switchmdp.validation import LEAST_PROBABILITY

Names = Mapping[str, int]
Bound = int | float | str | Callable[[Names], int | float]

PLAIN = (bool, int, float, np.generic, np.ndarray)
AGENT_DIMENSIONS = ("states", "actions", "pairs")
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
}  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}


class Shape:
    """The shape of an array: a number or an expression for each axis.

    Parameters
    ----------
    sizes
        The size of each axis: a number, a name or an expression.

    Examples
    --------
    >>> Shape("pairs", 2).sizes
    ('pairs', 2)
    """

    def __init__(self, *sizes: int | str) -> None:
        self.sizes = sizes


class Rule:
    """Base class of the rules for the values of a field."""

    def holds(self, value: Any, names: Names) -> bool:
        """Whether all values follow the rule.

        Parameters
        ----------
        value
            The value of the field.
        names
            The dimensions and integer fields, by name.

        Returns
        -------
        bool
            Whether they do.
        """
        raise NotImplementedError

    def text(self, names: Names) -> str:
        """The rule in words, as in "must ...".

        Parameters
        ----------
        names
            The dimensions and integer fields, by name.

        Returns
        -------
        str
            The rule in words.
        """
        raise NotImplementedError


class Range(Rule):
    """The rule low <= value <= high and above < value < below.

    Parameters
    ----------
    low, high
        The bounds of an interval that includes them; by default none.
    above, below
        The bounds of an interval that does not include them; by default none.

    Examples
    --------
    >>> Range(0, below="pairs").holds(3, {"pairs": 3})
    False
    """

    def __init__(
        self, low: Bound | None = None, high: Bound | None = None, *,
        above: Bound | None = None, below: Bound | None = None,
    ) -> None:  # fmt: skip
        bounds = ((">=", low), ("<=", high), (">", above), ("<", below))
        self.bounds = [(symbol, bound) for symbol, bound in bounds if bound is not None]

    def holds(self, value: Any, names: Names) -> bool:
        """Whether all values lie in the range, which no NaN does."""
        return all(
            np.all(COMPARISONS[symbol](value, evaluate(bound, names)))
            for symbol, bound in self.bounds
        )

    def text(self, names: Names) -> str:
        """The bounds, with their values."""
        return "be " + " and ".join(f"{s} {evaluate(bound, names)}" for s, bound in self.bounds)


COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
FINITE = Range(above=-math.inf, below=math.inf)


class Equals(Range):
    """The rule that all values equal one value.

    Parameters
    ----------
    value
        The value: a number, a name or an expression.

    Examples
    --------
    >>> Equals("pairs + 1").holds(4, {"pairs": 3})
    True
    """

    def __init__(self, value: Bound) -> None:
        Range.__init__(self, value, value)


class Increasing(Rule):
    """The rule that the values increase strictly."""

    def holds(self, value: Any, names: Names) -> bool:
        """Whether each value is above the one before it."""
        return bool(np.all(value[1:] > value[:-1]))

    def text(self, names: Names) -> str:
        """The rule in words."""
        return "increase strictly"


class Permutation(Rule):
    """The rule that the values are the numbers 0, 1, 2, … in some order."""

    def holds(self, value: Any, names: Names) -> bool:
        """Whether each index occurs once."""
        return bool(np.array_equal(np.sort(value), np.arange(value.size)))

    def text(self, names: Names) -> str:
        """The rule in words."""
        return "be a permutation"


class NotAllZero(Rule):
    """The rule that at least one value is not 0, as a random generator needs."""

    def holds(self, value: Any, names: Names) -> bool:
        """Whether any value is not 0."""
        return bool(np.any(value))

    def text(self, names: Names) -> str:
        """The rule in words."""
        return "not be all zero"


class Scratch:
    """Working memory, which is not saved, and is allocated again when an object is loaded.

    Parameters
    ----------
    fill
        The value of every element, or a function of the named dimensions that makes the whole
        field.

    Examples
    --------
    >>> Scratch(1.0).fill
    1.0
    """

    def __init__(self, fill: float | Callable[[Names], Any] = 0) -> None:
        self.fill = fill


RandomWords = Annotated[NDArray[np.uint64], Shape(4), NotAllZero()]
Probability = Annotated[float, Range(LEAST_PROBABILITY, below=1.0)]


class Declaration:
    """What the annotation of one field declares."""

    def __init__(self, kind: Any, hint: Any) -> None:
        marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        self.kind = kind
        self.declared = bool(marks)
        self.shape = next((mark for mark in marks if isinstance(mark, Shape)), None)
        self.scratch = next((mark for mark in marks if isinstance(mark, Scratch)), None)
        self.rules = [mark for mark in marks if isinstance(mark, Rule)]
        is_float = kind is float or getattr(getattr(kind, "dtype", None), "kind", "") == "f"
        if self.declared and is_float and not any(isinstance(r, Range) for r in self.rules):
            self.rules.append(FINITE)


def declarations(cls: type) -> dict[str, Declaration]:
    """The declaration of each annotated field of a class.

    Parameters
    ----------
    cls
        A class.

    Returns
    -------
    dict[str, Declaration]
        The declarations, by field.

    Examples
    --------
    >>> import numpy as np
    >>> from typing import Annotated
    >>> from numpy.typing import NDArray
    >>> class Averages:
    ...     rate: Annotated[float, Range(0.0, 1.0)]
    ...     average: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 1.0)]
    ...     sums: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    >>> list(declarations(Averages))
    ['rate', 'average', 'sums']
    """
    return _declarations(cls)


@cache
def _declarations(cls: type) -> dict[str, Declaration]:
    hints = get_type_hints(cls, include_extras=True)
    return {name: Declaration(kind, hints[name]) for name, kind in fields_of(cls).items()}


def state_fields(cls: type) -> dict[str, Any]:
    """The annotated fields of a class that are saved, with their types.

    Parameters
    ----------
    cls
        A class.

    Returns
    -------
    dict[str, Any]
        The types, by field.

    Examples
    --------
    >>> import numpy as np
    >>> from typing import Annotated
    >>> from numpy.typing import NDArray
    >>> class Averages:
    ...     rate: Annotated[float, Range(0.0, 1.0)]
    ...     average: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 1.0)]
    ...     sums: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    >>> list(state_fields(Averages))
    ['rate', 'average']
    """
    return {name: d.kind for name, d in declarations(cls).items() if d.scratch is None}


def evaluate(bound: Bound, names: Names) -> int | float:
    """The value of a size or a bound.

    >>> evaluate("2 + 3 * states", {"states": 5}), evaluate(0.5, {})
    (17, 0.5)
    """
    if isinstance(bound, str):
        return _value(_parsed(bound), names)
    return bound(names) if callable(bound) else bound


@cache
def _parsed(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def _value(node: ast.expr, names: Names) -> int | float:
    result: int | float
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, names), _value(node.right, names)
        result = OPERATORS[type(node.op)](left, right)
        return result
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        result = FUNCTIONS[node.func.id](*(_value(part, names) for part in node.args))
        return result
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    raise TypeError(f"{ast.unparse(node)!r} must be a name, a number, a sum or a product")


def require(condition: Any, message: str) -> None:
    """Raise a ValueError where an invariant does not hold.

    Parameters
    ----------
    condition
        What must hold.
    message
        The message of the error.

    Raises
    ------
    ValueError
        If the condition does not hold.

    Examples
    --------
    >>> require(1 <= 2, "the steps do not increase")
    """
    if not condition:
        raise ValueError(message)


def validate(instance: Any, **dimensions: int) -> None:
    """Check an object and all that it holds.

    Parameters
    ----------
    instance
        The object.
    dimensions
        The dimensions, by name.

    Raises
    ------
    ValueError
        If a field is wrong; the message names the first one.

    Examples
    --------
    >>> class Ring:
    ...     room: Annotated[int, Range(1, 100)]
    ...     head: Annotated[int, Range(0, below="room")]
    >>> ring = Ring()
    >>> ring.room, ring.head = 5, 5
    >>> validate(ring)
    Traceback (most recent call last):
    ...
    ValueError: Ring.head must be >= 0 and < 5, got 5
    """
    _validate(instance, dimensions, rebuild=False)


def complete(instance: Any, **dimensions: int) -> None:
    """Validate an object that was loaded, and allocate its scratch fields.

    Parameters
    ----------
    instance
        The object.
    dimensions
        The dimensions, by name.

    Raises
    ------
    ValueError
        If a field is wrong; the message names the first one.

    Examples
    --------
    >>> import numpy as np
    >>> from typing import Annotated
    >>> from numpy.typing import NDArray
    >>> class Averages:
    ...     rate: Annotated[float, Range(0.0, 1.0)]
    ...     average: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 1.0)]
    ...     sums: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    >>> averages = Averages()
    >>> averages.rate, averages.average = 0.5, np.ones(2)
    >>> complete(averages, pairs=2)
    >>> averages.sums
    array([0., 0.])
    """
    _validate(instance, dimensions, rebuild=True)


def _validate(instance: Any, dimensions: Names, *, rebuild: bool) -> None:
    cls = type(instance)
    if hasattr(instance, "dimensions"):
        dimensions = {**dimensions, **instance.dimensions()}
    names = _names(instance, dimensions)
    state = {n: d for n, d in declarations(cls).items() if d.declared and d.scratch is None}
    for name, declaration in state.items():
        if declaration.shape is not None:
            _name_sizes(declaration.shape, np.shape(getattr(instance, name)), names)
    for name, declaration in state.items():
        _check_field(f"{cls.__name__}.{name}", getattr(instance, name), declaration, names)
    if rebuild:
        _fill(instance, names)
    for name in state_fields(cls):
        value = getattr(instance, name)
        if not isinstance(value, PLAIN):
            _validate(value, dimensions, rebuild=rebuild)
    for base in reversed(cls.__mro__):
        if "check_invariants" in vars(base):
            vars(base)["check_invariants"](instance)
    _check_by_old_names(instance, dimensions)


def _names(instance: Any, dimensions: Names) -> dict[str, int]:
    """The integer fields of an object by name, and the dimensions, which come first."""
    cls = type(instance)
    numbers = {
        name: int(getattr(instance, name))
        for name, declaration in declarations(cls).items()
        if declaration.kind is int and isinstance(getattr(instance, name, None), (int, np.integer))
    }
    return {**numbers, **dimensions}


def _name_sizes(shape: Shape, actual: tuple[int, ...], names: dict[str, int]) -> None:
    """Give each name that is new the size that the array has."""
    for size, length in zip(shape.sizes, actual, strict=False):
        if isinstance(size, str) and size.isidentifier() and size not in AGENT_DIMENSIONS:
            names.setdefault(size, length)


def _check_field(place: str, value: Any, declaration: Declaration, names: Names) -> None:
    try:
        if declaration.shape is not None:
            wanted = tuple(evaluate(size, names) for size in declaration.shape.sizes)
            shape = np.shape(value)
            require(shape == wanted, f"{place} must have shape {wanted}, got {shape}")
        for rule in declaration.rules:
            got = "" if declaration.shape else f", got {value!r}"
            require(rule.holds(value, names), f"{place} must {rule.text(names)}{got}")
    except KeyError as error:
        if error.args[0] not in AGENT_DIMENSIONS:
            raise
        message = f"{place} needs the dimension {error}: its agent must derive from Agent"
        raise ValueError(message) from None


def make_scratch(instance: Any, pairs: Any) -> None:
    """Allocate the scratch fields of a component for these state-action pairs.

    Parameters
    ----------
    instance
        The component.
    pairs
        The state-action pairs of the agent.

    Examples
    --------
    >>> import switchmdp as sm
    >>> import numpy as np
    >>> from typing import Annotated
    >>> from numpy.typing import NDArray
    >>> class Averages:
    ...     rate: Annotated[float, Range(0.0, 1.0)]
    ...     average: Annotated[NDArray[np.float64], Shape("pairs"), Range(0.0, 1.0)]
    ...     sums: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    >>> averages = Averages()
    >>> make_scratch(averages, sm.MDP([[[1.0]]], [[0.5]]).pairs)
    >>> averages.sums
    array([0.])
    """
    dimensions = {"states": pairs.n_states, "actions": pairs.n_actions, "pairs": pairs.n_pairs}
    _fill(instance, _names(instance, dimensions))


def _fill(instance: Any, names: Names) -> None:
    cls = type(instance)
    for name, declaration in declarations(cls).items():
        if declaration.scratch is not None:
            setattr(instance, name, _scratch(declaration, declaration.scratch.fill, names))


def _scratch(declaration: Declaration, fill: Any, names: Names) -> Any:
    if callable(fill):
        return fill(names)
    if declaration.shape is None:
        return declaration.kind(fill)
    shape = [int(evaluate(size, names)) for size in declaration.shape.sizes]
    return np.full(shape, fill, declaration.kind.dtype)


def _check_by_old_names(instance: Any, dimensions: Names) -> None:
    """`check_state` and `check_sizes`, which classes of users may still have."""
    sizes = dimensions.get("states", 0), dimensions.get("pairs", 0)
    for old, arguments in (("check_sizes", sizes), ("check_state", ())):
        if hasattr(instance, old):
            message = f"{type(instance).__name__}.{old}: use check_invariants and declared fields"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            getattr(instance, old)(*arguments)
