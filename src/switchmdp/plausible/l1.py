"""Confidence sets that are L1 balls, and optimistic plans in them.

All have the same form, with N⁺ = max(1, N):

    |r̃ - r̂|  <= w_r + sqrt( c_r(t) / N⁺ ),  r̃ <= 1,        ‖p̃ - p̂‖₁ <= w_p + sqrt( c_p(t) / N⁺ )

`L1Ball` is the set M_k of UCRL2 and SW-UCRL (Figure 1, steps 4 and 5; Jaksch et al. 2010):

    |r̃ - r̂|  <= sqrt( 7 log(2 S A t_k / δ) / (2 N⁺) )                 (Eq. 1)
    ‖p̃ - p̂‖₁ <= sqrt( 14 S log(2 A t_k / δ) / N⁺ )                    (Eq. 2)

`width` multiplies every radius (c_r and c_p by its square). The proofs need width 1. A smaller
width usually has less regret, without a guarantee.

**Widened balls** allow for changes within the data. Under drift, a plausible set may contain only
MDPs with a large diameter although all true MDPs have a small one; a widened set contains one with
a small diameter again (Cheung et al. call this the perils of drift and the blessing of more
optimism). Without drift, the widening costs regret.

`Widened`, for a horizon T, a widening η and L = log(S A T / δ):

    |r̃ - r̂|  <= sqrt( c L / N⁺ ),        ‖p̃ - p̂‖₁ <= sqrt( c S L / N⁺ ) + η

- SWUCRL2-CW (Cheung, Simchi-Levi, Zhu 2020) prints 2 sqrt(2 L / N⁺) and 2 sqrt(2 S L / N⁺) + η:
  c = 8, and η is a parameter.
- The base of MASTER-UCRL (Wei, Luo 2021) prints conf = 8 sqrt(L / N⁺) and √S conf + η: c = 64.
  `SpanBall` takes η = 1/T, 2/T, 4/T, … in each plan, until the span of the bias is at most 2D.

`Varied`, of variation-aware UCRL (Ortner, Gajane, Auer 2019), has confidence δ' = δ/(2τ²) in a
phase that starts at step τ. It counts t within the phase; V_r and V_p are the variations in the
phase:

    |r̃ - r̂|  <= V_r + sqrt( 8 log(8 S A t³ / δ') / N⁺ )
    ‖p̃ - p̂‖₁ <= V_p + sqrt( 8 S log(8 S A t³ / δ') / N⁺ )
"""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import (
    Equals,
    Probability,
    Range,
    Scratch,
    Shape,
    compiled,
    index,
    make_scratch,
)
from switchmdp.mdp.pairs import Pairs
from switchmdp.planning.inner_maximum import optimistic_row
from switchmdp.planning.optimism import Optimism
from switchmdp.validation import (
    check_integer,
    check_not_negative,
    check_positive,
    check_probability,
)


@compiled
class L1Set:
    """Base of the L1 balls: a subclass has `reward_scale` and `transition_scale`, c_r and c_p.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.
    """

    delta: Probability
    width: Annotated[float, Range(above=0.0, below=math.inf)]
    n_states: Annotated[int, Equals("states")]
    n_actions: Annotated[int, Equals("actions")]
    optimism: Optimism
    reward: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]
    radius: Annotated[NDArray[np.float64], Shape("pairs"), Scratch()]

    added_fields: ClassVar = {"width": 1.0}

    def __init__(self, delta: float, width: float = 1.0) -> None:
        self.delta = check_probability("delta", delta)
        self.width = check_positive("width", width)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        self.n_states, self.n_actions = pairs.n_states, pairs.n_actions
        self.optimism = Optimism(pairs.n_states)
        make_scratch(self, pairs)

    def reward_scale(self, t: int) -> float:
        """c_r(t), the scale of the reward radii."""
        raise NotImplementedError

    def transition_scale(self, t: int) -> float:
        """c_p(t), the scale of the transition radii."""
        raise NotImplementedError

    def reward_widening(self) -> float:
        """w_r, the widening of the reward radii."""
        return 0.0

    def transition_widening(self) -> float:
        """w_p, the widening of the transition radii."""
        return 0.0

    def reward_radius(self, visits: int, t: int) -> float:
        """The confidence radius of a mean reward."""
        return self.reward_widening() + math.sqrt(self.reward_scale(t) / max(1, visits))

    def transition_radius(self, visits: int, t: int) -> float:
        """The confidence radius of a transition row, in L1 distance."""
        return self.transition_widening() + math.sqrt(self.transition_scale(t) / max(1, visits))

    def plan(self, starts: Any, counts: Any, t: int, choice: Any) -> None:
        """Write the optimistic policy, as a pair for each state, into `choice`."""
        self.plan_rows(starts, counts, 0, t, choice)

    def plan_rows(self, starts: Any, counts: Any, first: int, t: int, choice: Any) -> None:
        """Plan with the counts of row first + x for pair x."""
        # With many states most pairs are hardly known for long, and this is most of the time.
        if not counts.full and self.all_states_may_earn_one(starts, counts, first, t, choice):
            self.optimism.stop_at_once()
            return
        self.bound(counts, first, t)
        self.solve(starts, counts, first, t, choice)

    def all_states_may_earn_one(
        self, starts: Any, counts: Any, first: int, t: int, choice: Any
    ) -> bool:
        """Whether each state has an action with r̃ = 1; the lowest of them goes into `choice`.

        Then one sweep suffices: all values are equal after it, and this is its policy.
        """
        visits = counts.visits
        w_r, c_r = self.reward_widening(), self.reward_scale(t)
        for s in range(choice.size):
            pick = -1
            for pair in range(starts[index(s)], starts[index(s + 1)]):
                n = visits[index(first + pair)]
                # The first test says the same without a division: the radius alone is 1.
                if n <= c_r or counts.mean(first + pair) + (w_r + math.sqrt(c_r / n)) >= 1.0:
                    pick = pair
                    break
            if pick < 0:
                return False
            choice[index(s)] = pick
        return True

    def bound(self, counts: Any, first: int, t: int) -> None:
        """Compute r̃ and the radii of all pairs."""
        visits, reward, radius = counts.visits, self.reward, self.radius
        w_r, w_p = self.reward_widening(), self.transition_widening()
        c_r, c_p = self.reward_scale(t), self.transition_scale(t)
        # The same radii, with the logarithms outside the loop. Every row is plausible for a pair
        # that was never visited, even if the user chose a small scale.
        unseen_radius = max(2.0, w_p + math.sqrt(c_p))
        for pair in range(reward.size):
            n = visits[first + pair]
            if n == 0:
                reward[pair], radius[pair] = 1.0, unseen_radius
            else:
                reward[pair] = min(1.0, counts.mean(first + pair) + (w_r + math.sqrt(c_r / n)))
                radius[pair] = w_p + math.sqrt(c_p / n)

    def solve(self, starts: Any, counts: Any, first: int, t: int, choice: Any) -> None:
        """Run extended value iteration over these balls, up to 1/√t."""
        last = first + self.reward.size
        self.optimism.estimate(counts, first, self.radius)
        # All rows give the best state at least d/2 > 0, so this converges long before it gives up.
        self.optimism.iterate(
            starts, counts.offset[first:last], counts.used[first:last], counts.target, counts.full,
            self.reward, self.radius, 1.0 / math.sqrt(t), choice,
        )  # fmt: skip

    def worth(self, counts: Any, t: int, pair: int) -> float:
        """r̃ + max p̃·u of a pair with these counts; u are the values of the last plan."""
        value, visits = self.optimism.value, counts.visits[pair]
        reward = min(1.0, counts.mean(pair) + self.reward_radius(visits, t))
        radius, best = self.transition_radius(visits, t), int(np.argmax(value))
        if visits == 0 or radius >= 2.0:
            return float(reward + value[best])
        block = slice(counts.offset[pair], counts.offset[pair] + counts.used[pair])
        slots = zip(counts.target[block].tolist(), counts.count[block].tolist(), strict=True)
        estimate = {best: 0.0} | {target: n / visits for target, n in slots if n > 0}
        values = value[list(estimate)]
        row = optimistic_row(list(estimate.values()), radius, values)
        return float(reward + row @ values)

    def gain(self) -> float:
        """The optimistic gain of the last plan."""
        return (self.optimism.lower + self.optimism.upper) / 2.0

    def sweeps(self) -> int:
        """The sweeps that the last plan took."""
        return self.optimism.sweeps


@compiled
class L1Ball(L1Set):
    """The L1 confidence set of UCRL2 and SW-UCRL.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    T. Jaksch, R. Ortner and P. Auer (2010). Near-optimal regret bounds for reinforcement learning.
    Journal of Machine Learning Research 11.

    Examples
    --------
    >>> L1Ball(0.1).delta
    0.1
    """

    def reward_scale(self, t: int) -> float:
        """c_r(t) of Eq. 1."""
        log = math.log(2.0 * self.n_states * self.n_actions * t / self.delta)
        return self.width * self.width * (3.5 * log)

    def transition_scale(self, t: int) -> float:
        """c_p(t) of Eq. 2."""
        log = math.log(2.0 * self.n_actions * t / self.delta)
        return self.width * self.width * (14.0 * self.n_states * log)


CHEUNG, WEI_LUO = 8.0, 64.0
LONGEST = 2**53


@compiled
class Widened(L1Set):
    """L1 balls with radii √(c L/N⁺) and √(c S L/N⁺) + η, where c = `scale` and η = `widening`.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    horizon
        T, the number of steps of the run.
    widening
        η, by which the transition radii are wider.
    scale
        c, the factor in the radii: 8 in SWUCRL2-CW, 64 in MASTER-UCRL.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    W. C. Cheung, D. Simchi-Levi and R. Zhu (2020). Reinforcement learning for non-stationary Markov
    decision processes: the blessing of (more) optimism. ICML.

    Examples
    --------
    >>> Widened(0.1, horizon=1000, widening=0.5).widening
    0.5
    """

    horizon: Annotated[int, Range(1, LONGEST)]
    widening: Annotated[float, Range(0.0, below=math.inf)]
    scale: Annotated[float, Range(above=0.0, below=math.inf)]
    log: Annotated[float, Range(0.0, below=math.inf)]  # L

    def __init__(
        self, delta: float, *,
        horizon: int, widening: float = 0.0, scale: float = CHEUNG, width: float = 1.0,
    ) -> None:  # fmt: skip
        L1Set.__init__(self, delta, width)
        self.horizon = check_integer("horizon", horizon, 1, LONGEST)
        self.widening = check_not_negative("widening", widening)
        self.scale = check_positive("scale", scale)

    def allocate(self, pairs: Pairs) -> None:
        """Make room for these pairs."""
        L1Set.allocate(self, pairs)
        self.log = math.log(float(self.n_states) * self.n_actions * self.horizon / self.delta)

    def reward_scale(self, t: int) -> float:
        """c L, the scale of the reward radii."""
        return self.width * self.width * (self.scale * self.log)

    def transition_scale(self, t: int) -> float:
        """c S L, the scale of the transition radii."""
        return self.n_states * self.reward_scale(t)

    def transition_widening(self) -> float:
        """η, the widening of the transition radii."""
        return self.widening


@compiled
class SpanBall(Widened):
    """Widened balls with η = 1/T, 2/T, 4/T, … in each plan, until the span of the bias is small.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    horizon
        T, the number of steps of the run.
    span
        The largest span of the bias that a plan may have, 2D.
    scale
        c, the factor in the radii.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    C.-Y. Wei and H. Luo (2021). Non-stationary reinforcement learning without prior knowledge: an
    optimal black-box approach. COLT.

    Examples
    --------
    >>> SpanBall(0.1, horizon=1000, span=2.0).widening
    0.001
    """

    span: Annotated[float, Range(above=0.0, below=math.inf)]
    widening: Annotated[float, Range(above=0.0, high=4.0)]

    def __init__(self, delta: float, *, horizon: int, span: float, scale: float = WEI_LUO) -> None:
        Widened.__init__(self, delta, horizon=horizon, scale=scale)
        self.span = check_positive("span", span)
        self.widening = 1.0 / self.horizon

    def plan_rows(self, starts: Any, counts: Any, first: int, t: int, choice: Any) -> None:
        """Plan with the counts of row first + x for pair x, and find η."""
        self.widening = 1.0 / self.horizon
        self.bound(counts, first, t)
        self.solve(starts, counts, first, t, choice)
        # From η = 2 on every ball holds all distributions, and wider ones change nothing.
        while self.bias_span() > self.span and self.widening < 2.0:
            self.widening *= 2.0
            self.bound(counts, first, t)
            self.solve(starts, counts, first, t, choice)

    def follow(self, gain: float, widening: float) -> None:
        """Return to an earlier plan with this gain and η."""
        self.optimism.lower, self.optimism.upper, self.widening = gain, gain, widening

    def bias_span(self) -> float:
        """max u - min u of the last plan; extended value iteration keeps min u = 0."""
        span = 0.0
        for value in self.optimism.value:
            span = max(span, value)
        return span


@compiled
class Varied(L1Set):
    """The L1 balls of variation-aware UCRL; `start_phase` sets the step at which a phase starts.

    Parameters
    ----------
    delta
        A bound on the probability that the true MDP is not in the plausible set.
    reward_variation
        V_r, the variation of the mean rewards within a phase.
    transition_variation
        V_p, the variation of the rows within a phase.
    width
        A factor on all radii. The proofs need 1; less is usually better, but has no guarantee.

    Raises
    ------
    InvalidParameter
        A parameter has the wrong type or is out of range.

    References
    ----------
    R. Ortner, P. Gajane and P. Auer (2019). Variational regret bounds for reinforcement learning.
    UAI.

    Examples
    --------
    >>> Varied(0.1, reward_variation=0.2).reward_variation
    0.2
    """

    reward_variation: Annotated[float, Range(0.0, below=math.inf)]
    transition_variation: Annotated[float, Range(0.0, below=math.inf)]
    phase: Annotated[int, Range(1, 2**62)]

    def __init__(
        self, delta: float, *,
        reward_variation: float = 0.0, transition_variation: float = 0.0, width: float = 1.0,
    ) -> None:  # fmt: skip
        L1Set.__init__(self, delta, width)
        self.reward_variation = check_not_negative("reward_variation", reward_variation)
        self.transition_variation = check_not_negative("transition_variation", transition_variation)
        self.phase = 1

    def start_phase(self, t: int) -> None:
        """Start a phase at step t."""
        self.phase = t

    def reward_scale(self, t: int) -> float:
        """8 log(8SAt³/δ'), 1/δ' = 2τ²/δ; a sum of logarithms, because t³ may overflow."""
        constant = math.log(8.0 * self.n_states * self.n_actions / self.delta)
        confidence = math.log(2.0) + 2.0 * math.log(self.phase)
        log = constant + 3.0 * math.log(t) + confidence
        return self.width * self.width * (8.0 * log)

    def transition_scale(self, t: int) -> float:
        """8 S log(8SAt³/δ')."""
        return self.n_states * self.reward_scale(t)

    def reward_widening(self) -> float:
        """V_r, the widening of the reward radii."""
        return self.reward_variation

    def transition_widening(self) -> float:
        """V_p, the widening of the transition radii."""
        return self.transition_variation
