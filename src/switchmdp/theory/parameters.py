"""What each parameter may be, and the arithmetic and conditions that the bounds share.

A parameter out of range raises `InvalidParameter`. Valid numbers that a claim does not cover raise
`OutsideValidity`.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from switchmdp.errors import InvalidParameter, OutsideValidity
from switchmdp.validation import is_number

# Far more than any number of steps, and small enough that no bound overflows a float.
LARGEST = 10**30

P = ParamSpec("P")
R = TypeVar("R")


def integer(field: str, value: Any, least: int) -> int:
    """`value` as a Python int; bools and floats are not integers."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            number = least - 1
        if least <= number <= LARGEST:
            return number
    raise InvalidParameter(field, value, f"an integer from {least} to {LARGEST:g}")


def real(field: str, value: Any, least: float, most: float) -> float:
    """`value` as a float; the comparison also rejects nan and the infinities."""
    if is_number(value) and least <= value <= most:
        return float(value)
    raise InvalidParameter(field, value, f"a number from {least:g} to {most:g}")


def _at_least_one(field: str, value: Any) -> int:
    return integer(field, value, 1)


def _not_negative(field: str, value: Any) -> int:
    return integer(field, value, 0)


def _diameter(field: str, value: Any) -> float:
    """Between two states it is at least 1; for a single state the bounds take 1."""
    return real(field, value, 1, LARGEST)


def _confidence(field: str, value: Any) -> float:
    if is_number(value) and 0 < value < 1:
        return float(value)
    raise InvalidParameter(field, value, "a number strictly between 0 and 1")


def _precision(field: str, value: Any) -> float:
    return real(field, value, 1 / LARGEST, 1)


def _variation(field: str, value: Any) -> float | None:
    return None if value is None else real(field, value, 0, LARGEST)


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("horizon", "n_states", "n_actions", "window", "segments", "t"), _at_least_one),
    **dict.fromkeys(("changes", "visits"), _not_negative),
    **dict.fromkeys(("reward_variation", "transition_variation"), _variation),
    "diameter": _diameter,
    "delta": _confidence,
    "epsilon": _precision,
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Check every keyword argument by its name, and pass it on as a Python number."""
    checks = {name: CHECKS[name] for name in inspect.signature(function).parameters}

    @wraps(function)
    def call(*positional: P.args, **arguments: P.kwargs) -> R:
        for name, value in arguments.items():
            if name in checks:
                arguments[name] = checks[name](name, value)
        return function(*positional, **arguments)

    return call


def log_ratio(numerator: float, delta: float) -> float:
    """log(numerator/delta), finite for every delta > 0."""
    return math.log(numerator) - math.log(delta)


def ceil_div(numerator: int, denominator: int) -> int:
    """⌈numerator/denominator⌉, exactly."""
    return -(-numerator // denominator)


def ceil_div_sqrt(numerator: int, radicand: int) -> int:
    """⌈numerator/√radicand⌉, exactly: the least n with n² ≥ numerator²/radicand."""
    return math.isqrt(ceil_div(numerator**2, radicand) - 1) + 1


def leading_factor(T: int, D: float, S: int, A: int, delta: float) -> float:
    """ψ = D S √(A log(T/δ)), the factor that Theorem 1 and everything after it share."""
    return D * S * math.sqrt(A * log_ratio(T, delta))


def require_horizon(claim: str, T: int, least: float, meaning: str) -> None:
    """Raise `OutsideValidity` if the horizon is too short for the claim."""
    if least > T:
        raise OutsideValidity(f"{claim} needs horizon >= {meaning} = {least:g}, got {T}")


def require_window(claim: str, T: int, S: int, A: int, W: float, delta: float) -> None:
    """Raise `OutsideValidity` if Theorem 1 does not cover the window.

    W is on both sides of the second condition, but log₂²(8x)/x decreases for x = W/(SA) ≥ 1: if a
    window meets the condition, every longer one does.
    """
    if S * A > W:
        raise OutsideValidity(f"{claim} needs window >= n_states * n_actions = {S * A}, got {W:g}")
    least = A * math.log2(8 * W / (S * A)) ** 2 / log_ratio(T, delta)
    if least > W:
        raise OutsideValidity(
            f"{claim} needs window >= A log2(8W/(SA))^2 / log(T/delta) = {least:g}, got {W:g}"
        )


def require_theorem_1(claim: str, T: int, S: int, A: int, W: float, delta: float) -> None:
    """Raise `OutsideValidity` if Theorem 1's conditions on T and W do not hold."""
    require_horizon(claim, T, max(8, 2 * A) * delta, "max(8, 2 A) delta")
    require_window(claim, T, S, A, W, delta)
