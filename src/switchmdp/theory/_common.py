"""What each parameter may be, in one place, and the arithmetic the bounds share.

A parameter out of range is an `InvalidParameter`; numbers that are fine in themselves but for
which a claim was not made are `OutsideValidity`.
"""

from __future__ import annotations

import math
import operator
from numbers import Real

from switchmdp.errors import InvalidParameter, OutsideValidity

# Far past any count of steps, and small enough that no bound overflows a float.
LARGEST = 10**30

_MAY_BE_ZERO = frozenset({"changes", "visits"})


def integer(field: str, value: int, least: int) -> int:
    """`value` as a Python int; bools and floats are not integers."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            number = least - 1
        if least <= number <= LARGEST:
            return number
    raise InvalidParameter(field, value, f"an integer from {least} to {LARGEST:g}")


def counts(**values: int) -> list[int]:
    """The values as Python ints, each checked under its own name."""
    return [integer(field, n, 0 if field in _MAY_BE_ZERO else 1) for field, n in values.items()]


def real(field: str, value: float, least: float, most: float) -> float:
    """`value` as a float; the comparison also refuses nan and the infinities."""
    if isinstance(value, Real) and not isinstance(value, bool) and least <= value <= most:
        return float(value)
    raise InvalidParameter(field, value, f"a number from {least:g} to {most:g}")


def at_least_one(diameter: float) -> float:
    """A diameter. Between two states it is at least 1; for one state alone the bounds take 1."""
    return real("diameter", diameter, 1, LARGEST)


def confidence(delta: float) -> float:
    """A probability of failure, strictly between 0 and 1."""
    if isinstance(delta, Real) and not isinstance(delta, bool) and 0 < delta < 1:
        return float(delta)
    raise InvalidParameter("delta", delta, "a number strictly between 0 and 1")


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
    """Refuse a horizon that is too short for the claim."""
    if least > T:
        raise OutsideValidity(f"{claim} needs horizon >= {meaning} = {least:g}, got {T}")


def require_window(claim: str, T: int, S: int, A: int, W: float, delta: float) -> None:
    """Refuse a window that Theorem 1 does not cover.

    W stands on both sides of the second condition, but log₂²(8x)/x falls for x = W/(SA) ≥ 1:
    once a window meets it, every longer one does.
    """
    if S * A > W:
        raise OutsideValidity(f"{claim} needs window >= n_states * n_actions = {S * A}, got {W:g}")
    least = A * math.log2(8 * W / (S * A)) ** 2 / log_ratio(T, delta)
    if least > W:
        raise OutsideValidity(
            f"{claim} needs window >= A log2(8W/(SA))^2 / log(T/delta) = {least:g}, got {W:g}"
        )
