"""Reward laws on [0, 1] with a given mean.

An MDP fixes the mean reward r̄(s, a) of every pair; its law says how a reward scatters around it:

    Bernoulli       1 with probability r̄, else 0                     variance r̄(1 - r̄)
    Deterministic   r̄ itself                                         variance 0
    Beta            Beta(ν r̄, ν(1 - r̄)), ν = r̄(1 - r̄)/variance - 1   the variance asked for

A law on [0, 1] with mean m has a variance of at most m(1 - m), and Beta's is below that. So its
variance is given either outright or, for means anywhere in [0, 1], as a share of m(1 - m).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from switchmdp.compiled import inlined, jit
from switchmdp.errors import InvalidParameter
from switchmdp.randomness import beta, uniform
from switchmdp.validation import is_number

BERNOULLI, DETERMINISTIC, BETA, BETA_SHARE = 0, 1, 2, 3
SMALLEST = 1e-300  # variance or share: below it ν overflows, and drawing a reward never ends


@dataclass(frozen=True)
class RewardLaw:
    """The distribution of rewards around their mean: one of the laws below.

    Parameters
    ----------
    code
        The kind of law.
    parameter
        Its parameter.
    """

    code: int
    parameter: float = 0.0

    def largest_variance(self, mean: float) -> float:
        """The largest variance of a law with this mean.

        Parameters
        ----------
        mean
            The mean of the reward.

        Returns
        -------
        float
            The variance m(1 - m).
        """
        return mean * (1.0 - mean)


class Bernoulli(RewardLaw):
    """Rewards 0 and 1.

    Examples
    --------
    >>> Bernoulli()
    Bernoulli()
    """

    def __init__(self) -> None:
        super().__init__(BERNOULLI)

    def __repr__(self) -> str:
        return "Bernoulli()"


class Deterministic(RewardLaw):
    """Every reward is the mean.

    Examples
    --------
    >>> Deterministic()
    Deterministic()
    """

    def __init__(self) -> None:
        super().__init__(DETERMINISTIC)

    def __repr__(self) -> str:
        return "Deterministic()"


class Beta(RewardLaw):
    """Rewards in [0, 1] with this variance, or with this share of the largest possible variance.

    Parameters
    ----------
    variance
        The variance of every reward, below 0.25.
    share
        The variance as a share of the largest one for the mean, below 1.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> Beta(variance=0.01), Beta(share=0.25)
    (Beta(variance=0.01), Beta(share=0.25))
    """

    def __init__(self, variance: float | None = None, *, share: float | None = None) -> None:
        if (variance is None) == (share is None):
            raise InvalidParameter(
                "Beta", (variance, share), "given exactly one of variance and share"
            )
        if variance is not None:
            super().__init__(BETA, _inside("variance", variance, 0.25))
        else:
            super().__init__(BETA_SHARE, _inside("share", share, 1.0))

    def __repr__(self) -> str:
        name = "variance" if self.code == BETA else "share"
        return f"Beta({name}={self.parameter!r})"


def _inside(field: str, value: Any, top: float) -> float:
    if not is_number(value) or not SMALLEST <= value < top:
        raise InvalidParameter(field, value, f"a number from {SMALLEST} to below {top}")
    return float(value)


def law_from_code(code: int, parameter: float) -> RewardLaw:
    """The law with this code and parameter, as stored in files."""
    if code == BERNOULLI:
        return Bernoulli()
    if code == DETERMINISTIC:
        return Deterministic()
    if code == BETA:
        return Beta(variance=parameter)
    if code == BETA_SHARE:
        return Beta(share=parameter)
    raise InvalidParameter("law code", code, "one of 0, 1, 2, 3")


@inlined
def draw_reward(code: int, parameter: float, mean: float, words: Any) -> float:
    """One reward of the law with this mean."""
    if code == BERNOULLI:
        return 1.0 if uniform(words) < mean else 0.0
    if code == DETERMINISTIC:
        return mean
    return _draw_beta(code, parameter, mean, words)


@jit
def _draw_beta(code: int, parameter: float, mean: float, words: Any) -> float:
    if mean <= 0.0 or mean >= 1.0:
        return mean
    variance_share = parameter / (mean * (1.0 - mean)) if code == BETA else parameter
    concentration = 1.0 / variance_share - 1.0
    return beta(words, concentration * mean, concentration * (1.0 - mean))


def variance_of(law: RewardLaw, mean: float) -> float:
    """The variance of a reward with this mean.

    >>> variance_of(Bernoulli(), 0.5), variance_of(Beta(share=0.5), 0.5)
    (0.25, 0.125)
    """
    if law.code == DETERMINISTIC or math.isclose(mean * (1.0 - mean), 0.0, abs_tol=0.0):
        return 0.0
    return {
        BERNOULLI: mean * (1.0 - mean),
        BETA: law.parameter,
        BETA_SHARE: law.parameter * mean * (1.0 - mean),
    }[law.code]
