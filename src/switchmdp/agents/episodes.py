"""Episode rules: how often a pair may be visited in an episode, and when the episode must end.

An episode may have to end at a step that depends on the time since step 1 or the last restart
(`since`). An agent calls `end` first and then `quota` for each state, so a quota may depend on the
time.
"""

from __future__ import annotations

import math
from typing import Annotated

from switchmdp.compiled import Range, compiled
from switchmdp.errors import InvalidParameter
from switchmdp.restarts import NEVER
from switchmdp.validation import check_integer, is_number


@compiled
class Doubling:
    """The rule of UCRL2: an episode ends when its visits to a pair equal those before it.

    Examples
    --------
    >>> Doubling().quota(4), Doubling().quota(0)
    (4, 1)
    """

    def quota(self, visits: int) -> int:
        """How often a pair may be visited in an episode."""
        return max(1, visits)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        return NEVER


@compiled
class Multiples(Doubling):
    """Doubling, and an episode also ends at every multiple of the period, counted from `since`.

    An episode that starts at a multiple lasts at least one step.
    """

    period: Annotated[int, Range(1, NEVER)]

    def __init__(self, period: int) -> None:
        self.period = check_integer("period", period, 1, NEVER)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        return since - 1 + ((t - since + 1) // self.period + 1) * self.period


@compiled
class Growing(Doubling):
    """The rule of TSDE: doubling, and at most one step more than the last episode.

    With t_0 = 0, as in the paper (Ouyang et al. 2017), the first episode has at most two steps.
    Restarts do not change this rule.

    Examples
    --------
    >>> rule = Growing()
    >>> rule.end(1, 1), rule.end(3, 1)
    (3, 6)
    """

    started: Annotated[int, Range(0, 2**53)]

    def __init__(self) -> None:
        self.started = 0

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        length, self.started = t - self.started, t
        return t + length + 1


@compiled
class Rooted(Doubling):
    """Doubling, and at most √n steps at time n.

    After n steps there are about 2√n episodes, the same order as with the rule of TSDE. But a short
    episode, for example because of a probe, does not shorten the next ones.

    Examples
    --------
    >>> Rooted().end(101, 1)
    112
    """

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        return t + 1 + int(math.sqrt(t - since))


@compiled
class Vanishing(Doubling):
    """The vanishing multiplicative rule (Boone and Gaujal 2025): visits grow by a factor near 1.

    The episode that starts at time n ends when the visits to a pair have grown from N to

        (1 + f(n)) N,        f(n) = √(log n / n),

    and after at least one. With doubling, f = 1, an agent that follows a bad policy after much
    learning does so for as long as it has learned. Here bad episodes become short in comparison.

    The paper's rule is for any f that vanishes; this choice is ours. At most log N / log(1 + f(n))
    of the first n steps end an episode because of one pair, as its visits grow by a factor of
    1 + f(n) each time. So there are O(SA √(n log n)) episodes, and if each costs D in the regret
    bound of UCRL2 or UCRL3, that bound keeps its order in n.

    Examples
    --------
    >>> rule = Vanishing()
    >>> rule.end(1000, 1) > 10**18, rule.quota(1000)
    (True, 84)
    """

    growth: Annotated[float, Range(0.0, 1.0)]

    def __init__(self) -> None:
        self.growth = 0.0

    def quota(self, visits: int) -> int:
        """How often a pair may be visited in an episode: ⌈f(n) N⌉, at least once."""
        return max(1, math.ceil(self.growth * visits))

    def end(self, t: int, since: int) -> int:
        """Compute f(n) for an episode that starts at t; there is no last step."""
        n = t - since + 1.0
        self.growth = math.sqrt(math.log(n) / n)
        return NEVER


@compiled
class Squares(Doubling):
    """Doubling, and an episode also ends gap·k² steps after the last restart, k = 1, 2, …

    Parameters
    ----------
    gap
        The number of steps until the first of these ends, at least 1.

    Raises
    ------
    InvalidParameter
        `gap` is not a number from 1 to 10⁹.

    Examples
    --------
    >>> Squares(10.0).end(1, 1), Squares(10.0).end(11, 1)
    (11, 41)
    """

    gap: Annotated[float, Range(1.0, 1e9)]

    def __init__(self, gap: float) -> None:
        self.gap = check_gap(gap)

    def end(self, t: int, since: int) -> int:
        """The step at which an episode that starts at t must end."""
        steps = t - since
        k = int(math.sqrt(steps / self.gap)) + 1.0
        while self.gap * k * k <= steps:  # the root is rounded
            k += 1.0
        return since + math.ceil(self.gap * k * k)


def check_gap(gap: float) -> float:
    """The steps until the first round of exploration: a number >= 1 and below 10⁹.

    >>> check_gap(10)
    10.0
    """
    if not is_number(gap) or not 1.0 <= gap <= 1e9:
        raise InvalidParameter("gap", gap, "a number from 1 to 10⁹")
    return float(gap)
