"""R-BOCPD: Bayesian online change-point detection with restarts (Alami, Mahfoud, Moulines 2023).

The detector of Alami, Maillard and Féraud (2020) reads the stream x_1 … x_n of next states of each
pair. Hypothesis s is that the stream changed at x_s. It predicts by Laplace's rule from its own
data,

    p_s(x) = (#{x since s} + 1) / (#{since s} + S),       with loss  -log p_s(x).

Its weight is the prior η times exp(-(loss of the first hypothesis before s) - (its own loss
since)). An alarm is raised when the weight of some s exceeds that of s = 1, "no change", which has
prior 1. In logs, with L = log Γ(S + n) - log Γ(S) - Σ_x log Γ(1 + #x), the loss of n observations,

    L(x_1 … x_n) - L(x_1 … x_{s-1}) - L(x_s … x_n)  >  log(1 / η),       η = w / n.

(Where successors are grouped into classes, S is the number of classes.)

The paper watches no rewards. Here the rewards of each pair are a second stream with two outcomes (a
reward r counts as r of one and 1-r of the other), which can be switched off.

**Two corrections of the printed formulas.**

- *Eq. 3* defines the loss of forecaster s as Σ_{s'=s..t} -log PRED(x_t | x_{s'}, …, x_{t-1}). This
  sums over forecasters s' that all predict the last symbol x_t. But Eq. 4 multiplies the weight of
  one forecaster by exp(-l_{s:t}) at each step, and so accumulates its own losses over time,
  L_{s:t} = Σ_{i=s..t} -log PRED(x_i | x_s, …, x_{i-1}). Alami et al. (2020) define L in this way,
  and so does this file, with the closed form above.
- *The prior η_{r,s,t}.* In Eq. 4 the ratios η_{r,s,t} / η_{r,s,t-1} telescope: a weight contains
  only the latest η, and that of s = r has η_{r,r,r} = 1 (Algorithm 1, line 1). Discussion 4.10
  says that η ≈ 1/n, with n observations since the restart, satisfies the condition of the theorem
  on false alarms (Eq. 6). It does not: with the change in the middle and large n, the right side of
  Eq. 6 is of order (δ² / (n log n))^α with α > 1, which is less than 1/n. So 1/n (`weight=1`) is
  printed but not proved, and Eq. 6 is proved but detects late. The default is w/n with
  w = δ / (number of streams).

**False alarms.** For w/n, Ville's inequality applies: for one s, the exponential of the left side
is a martingale with mean 1 if the law of the stream was itself drawn from the uniform prior. So
P(alarm by n) <= Σ_s w/s <= w (1 + log n). This is an average over laws, not a bound for each law,
and for w = 1 it is vacuous: with that prior, half of 400 stationary problems (S=5, A=3) had a false
alarm within 400 steps. With the default w the probability of any false alarm is at most δ (1 + log
n) in that sense; at δ = 0.1, 11 of those 400 problems had one in 100 000 steps.

**Pruning.** Only the s on the grid of `glr.Splits` are kept, and each is compared only when it is
due: O(S) for each of 6 hypotheses per visit instead of O(n). The weights that are left are exact,
because they are computed from counts. As no loss is negative, the advantage of s grows by no more
than the loss of "no change" does, so a hypothesis that cannot have reached log(1/η) since its last
comparison is skipped. Pruning adds two to four visits of delay, or about a fifth: from 0.5 to 0.9
after 300 visits it takes 43 visits instead of 38, from 0.2 to 0.4 after 1000 it takes 193 instead
of 167 (w = 1/600).
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from switchmdp.compiled import FINITE, Probability, Range, compiled
from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.restarts.glr import FIRST, REWARD, Splits, kept_at
from switchmdp.special_functions import log_factorial, log_gamma, log_rewards
from switchmdp.validation import check_positive, check_probability

# Columns: the loss of "no change" on all successors so far; that loss less what a hypothesis had
# spared when it was weighed last (at first nothing); and both for rewards.
MORE = 4


@compiled
class BOCPD(Splits):
    """The detector R-BOCPD: alarms when a change explains the data of a pair better than no change.

    Parameters
    ----------
    delta
        δ of the default weight, which bounds false alarms (see the module).
    weight
        w of the prior w/n; by default delta divided by the number of streams.
    rewards
        Watch rewards too, which the paper does not.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    R. Alami, M. Mahfoud and E. Moulines (2023). Restarted Bayesian online change-point detection
    for non-stationary Markov decision processes. CoLLAs.

    Examples
    --------
    >>> BOCPD(rewards=False).rewards
    False
    """

    delta: Probability
    weight: Annotated[float, Range(0.0, below=math.inf)]
    rewards: bool
    log_weight: Annotated[float, FINITE]
    log_start: Annotated[float, FINITE]

    def __init__(
        self, delta: float = 0.05, *, weight: float | None = None, rewards: bool = True
    ) -> None:
        self.delta = check_probability("delta", delta)
        self.weight = 0.0 if weight is None else check_positive("weight", weight)
        if not isinstance(rewards, bool):
            raise InvalidParameter("rewards", rewards, "True or False")
        self.rewards = rewards

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.make_room(pairs)
        self.log_start = log_gamma(float(self.width))
        streams = pairs.n_pairs * (2 if self.rewards else 1)
        self.log_weight = math.log(self.weight if self.weight > 0.0 else self.delta / streams)

    def more(self) -> int:
        """The number of columns of the detector's own."""
        return MORE

    def threshold(self, n: int) -> float:
        """The threshold log(1 / η)."""
        return math.log(n) - self.log_weight

    def note(self, now: Any, here: int, n: int) -> None:
        """Compute the losses of "no change" so far."""
        at = here + FIRST + self.width
        loss = log_factorial(self.width + n - 1) - self.log_start
        for column in range(here + FIRST, at):
            loss -= log_factorial(now[column])
        now[at], now[at + 1] = loss, loss
        if self.rewards:
            loss = -log_rewards(float(n), now[here + REWARD])
            now[at + 2], now[at + 3] = loss, loss

    def differ(
        self, now: Any, past: Any, here: int, block: int, n: int, shift: int,
        first: int, last: int, limit: float,
    ) -> bool:  # fmt: skip
        """Whether a change at one of these ages explains the data better than no change."""
        at, tick = here + FIRST + self.width, n >> shift
        for age in range(first, last + 1):
            there = kept_at(block, tick - age, self.columns)
            then, visits = there + FIRST + self.width, age << shift
            if now[at] - past[then + 1] > limit:
                spared = now[at] - past[then] + self.log_start
                spared -= log_factorial(self.width + visits - 1)
                for column in range(FIRST, FIRST + self.width):
                    spared += log_factorial(now[here + column] - past[there + column])
                if spared > limit:
                    return True
                past[then + 1] = now[at] - spared
            if now[at + 2] - past[then + 3] > limit:
                earned = now[here + REWARD] - past[there + REWARD]
                spared = now[at + 2] - past[then + 2] + log_rewards(float(visits), earned)
                if spared > limit:
                    return True
                past[then + 3] = now[at + 2] - spared
        return False
