"""How hard a problem is: the quantities that regret bounds depend on.

The diameter D = max_{s ≠ s'} min_π E[steps from s to s'] comes with a certified bracket
(`hitting_times`).

Per configuration M_i: the diameter D_i, the optimal gain ρ*_i, the span of the optimal bias h_i,
and the smallest positive gap  ρ* + h(s) - r̄(s,a) - Σ p h  of an action. Over the changes: the
variations

    B_r = Σ max_{s,a} |r̄_i - r̄_{i-1}|,      B_p = Σ max_{s,a} ‖p_i - p_{i-1}‖₁.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import jit, patient
from switchmdp.display import counted
from switchmdp.equality import EqualByFields
from switchmdp.errors import InvalidParameter, PrecisionNotReached
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.planning.gain import Plan, check_plan, optimal_gain
from switchmdp.planning.hitting_times import largest_hitting_times
from switchmdp.planning.wide import LARGEST, UNIT
from switchmdp.validation import check_probability

GAP_ERROR = 1e-5


class Diameter(float):
    """A diameter with its certified bracket: lower <= D <= upper.

    Parameters
    ----------
    value
        The estimate.
    lower
        The certified lower bound.
    upper
        The certified upper bound.

    Examples
    --------
    >>> d = Diameter(2.0, 1.5, 2.5)
    >>> d, d.lower, d.upper, d + 1
    (2.0, 1.5, 2.5, 3.0)
    """

    __slots__ = ("lower", "upper")

    lower: float
    upper: float

    def __new__(cls, value: float, lower: float, upper: float) -> Diameter:
        """The estimate and the bracket that it is in."""
        made = super().__new__(cls, value)
        made.lower, made.upper = float(lower), float(upper)
        return made

    def __getnewargs__(self) -> tuple[float, float, float]:  # type: ignore[override]
        """The constructor arguments for copies and pickles."""
        return float(self), self.lower, self.upper


def diameter(mdp: MDP, *, tolerance: float = 1e-9) -> Diameter:
    """The diameter, to a relative tolerance; `inf` if some state cannot be reached.

    The result is a float with a bracket [lower, upper], which holds in exact arithmetic and is at
    most `tolerance` times lower wide. If that cannot be certified, for example because the diameter
    exceeds 1.8e308, `PrecisionNotReached` is raised.

    Parameters
    ----------
    mdp
        The MDP.
    tolerance
        The largest width of the bracket, relative to the diameter.

    Returns
    -------
    Diameter
        A float with the attributes `lower` and `upper`.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    PrecisionNotReached
        If the tolerance cannot be certified; the error has the best certified bounds.

    Examples
    --------
    >>> diameter(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
    1.0
    >>> d = diameter(MDP([[[0.9, 0.1]], [[0.1, 0.9]]], [[1], [0]]))
    >>> d.lower <= 10.0 <= d.upper <= d.lower * (1 + 1e-9)
    True
    >>> diameter(MDP([[[1, 0]], [[0, 1]]], [[1], [0]]))
    inf
    """
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    tolerance = check_probability("tolerance", tolerance)
    if mdp.n_states == 1:
        return Diameter(0.0, 0.0, 0.0)
    if not is_communicating(mdp):
        return Diameter(np.inf, np.inf, np.inf)
    value, lower, upper = largest_hitting_times(mdp.model, tolerance).max(axis=0).tolist()
    if not upper - lower <= tolerance * lower:
        reason = f"the diameter of {mdp.n_states} states "
        if lower == LARGEST:
            reason += "is larger than every double"
        else:
            reason += f"could not be certified to {tolerance} relative"
        raise PrecisionNotReached(reason, lower, upper)
    return Diameter(value, lower, upper)


def is_communicating(mdp: MDP) -> bool:
    """Whether every state can be reached from every other under some policy.

    Parameters
    ----------
    mdp
        The MDP.

    Returns
    -------
    bool
        Whether the diameter is finite.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> is_communicating(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
    True
    """
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    return mdp.unconnected is None


@dataclass(frozen=True, eq=False, repr=False)
class Hardness(EqualByFields):
    """How hard a problem is: one entry per configuration, and the variations over all changes.

    Parameters
    ----------
    diameters
        The diameter of each configuration.
    gains
        The optimal gain of each configuration.
    spans
        The span of the optimal bias of each configuration.
    gaps
        The smallest positive gap of each configuration; infinite if there is none.
    reward_variation
        B_r.
    transition_variation
        B_p.
    """

    diameters: NDArray[np.float64]
    gains: NDArray[np.float64]
    spans: NDArray[np.float64]
    gaps: NDArray[np.float64]
    reward_variation: float
    transition_variation: float

    @property
    def diameter(self) -> float:
        """The largest diameter of the configurations, D in the paper."""
        return float(self.diameters.max())

    def __repr__(self) -> str:
        configurations = counted(len(self.gains), "configuration")
        return (
            f"Hardness({configurations}, diameter={self.diameter:.4g}, "
            f"gains {self.gains.min():.4g} to {self.gains.max():.4g}; print it for details)"
        )

    def __str__(self) -> str:
        rows = [
            f"configurations        {len(self.gains)}",
            f"diameter              {_between(self.diameters)}",
            f"optimal gain          {_between(self.gains)}",
            f"span of the bias      {_between(self.spans)}",
            f"smallest action gap   {self.gaps.min():.4g}",
            f"reward variation      {self.reward_variation:.4g}",
            f"transition variation  {self.transition_variation:.4g}",
        ]
        return "\n".join(rows)


def _between(values: NDArray[np.float64]) -> str:
    """The least and the largest value, or the only one."""
    least, most = f"{values.min():.4g}", f"{values.max():.4g}"
    return least if least == most else f"{least} … {most}"


def hardness(problem: SwitchingMDP | MDP, *, tolerance: float = 1e-6) -> Hardness:
    """Diameters, gains, spans, gaps and variations of a problem (diameters to this tolerance).

    Parameters
    ----------
    problem
        An MDP or a switching MDP.
    tolerance
        The relative precision of the diameters.

    Returns
    -------
    Hardness
        The quantities; `print` shows them.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    NotCommunicating
        If some states cannot reach each other.
    PrecisionNotReached
        If the tolerance cannot be certified; the error has the best certified bounds.

    Examples
    --------
    >>> cycle = [MDP([[[0, 1]], [[1, 0]]], [[x], [0]]) for x in (1.0, 0.5)]
    >>> print(hardness(SwitchingMDP(cycle, [10])))
    configurations        2
    diameter              1
    optimal gain          0.25 … 0.5
    span of the bias      0.25 … 0.5
    smallest action gap   inf
    reward variation      0.5
    transition variation  0
    """
    problem = as_switching(problem)
    diameters, gains, spans, gaps = [], [], [], []
    plan = None
    for mdp in problem.configurations():
        plan = optimal_gain(mdp, start=plan)
        diameters.append(diameter(mdp, tolerance=tolerance))
        gains.append(plan.gain)
        spans.append(plan.span)
        positive = action_gaps(mdp, plan)
        positive = positive[positive > 1e-9 * (1.0 + plan.span)]
        gaps.append(positive.min() if positive.size else np.inf)
    reward, transition = variations(problem)
    return Hardness(
        np.array(diameters), np.array(gains), np.array(spans), np.array(gaps), reward, transition
    )


def action_gaps(mdp: MDP, plan: Plan | None = None) -> NDArray[np.float64]:
    """ρ* + h(s) - r̄(s,a) - Σ p h for each state and action; NaN if an action does not exist.

    Raises `PrecisionNotReached` if the bias is so large that rounding hides an action's gap.

    Parameters
    ----------
    mdp
        The MDP.
    plan
        The plan of `optimal_gain`; computed if it is not given.

    Returns
    -------
    numpy.ndarray
        The (S, A) array of gaps.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    NotCommunicating
        If some states cannot reach each other.
    PrecisionNotReached
        If rounding hides the gap of an action.

    Examples
    --------
    >>> stay_or_go = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.2, 0], [0.8, 0]])
    >>> action_gaps(stay_or_go).round(6).tolist()
    [[0.6, 0.0], [0.0, 1.6]]
    """
    if plan is None:
        plan = optimal_gain(mdp)
    check_plan("plan", plan, mdp)  # machine code uses its bias without a check
    table = np.full((mdp.n_states, mdp.n_actions), np.nan)
    values, errors = _action_values(mdp.model, plan.bias)
    gaps = plan.gain - values
    unsure = ~(errors <= GAP_ERROR * (1.0 + np.abs(gaps)))
    if unsure.any():
        worst = int(np.argmax(unsure))
        state, action = int(mdp.pairs.states[worst]), int(mdp.pairs.actions[worst])
        reason = (
            f"the gap of action {action} in state {state} is beyond double precision: "
            f"the bias spans {plan.span:.3g}"
        )
        raise PrecisionNotReached(reason, 0.0, max(0.0, float(gaps[worst] + errors[worst])))
    table[mdp.pairs.states, mdp.pairs.actions] = gaps
    return table


@patient
def _action_values(model: Any, bias: Any) -> Any:
    """(r̄ + Σ p (h' - h(s)), a bound on its error) of each pair."""
    values, errors = np.empty(model.row.size), np.empty(model.row.size)
    for s in range(bias.size):
        for pair in range(model.starts[s], model.starts[s + 1]):
            y = model.row[pair]
            values[pair], size = model.mean[y], 0.0
            for k in range(model.start[y], model.stop[y]):
                there = bias[model.successors[k]]
                values[pair] += model.probabilities[k] * (there - bias[s])
                size += model.probabilities[k] * abs(there - bias[s])
                if model.successors[k] != s:  # the entries of the bias are rounded too
                    size += model.probabilities[k] * max(there, bias[s])
            errors[pair] = 8.0 * UNIT * size
    return values, errors


def variations(problem: SwitchingMDP | MDP) -> tuple[float, float]:
    """The variations B_r and B_p over all changes of a problem.

    Parameters
    ----------
    problem
        An MDP or a switching MDP.

    Returns
    -------
    tuple of float
        B_r and B_p.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> cycle = [MDP([[[0, 1]], [[1, 0]]], [[x], [0]]) for x in (1.0, 0.5)]
    >>> variations(SwitchingMDP(cycle, [10]))
    (0.5, 0.0)
    """
    problem = as_switching(problem)
    reward, transition = _variations(problem.model, problem.patches)
    return float(reward), float(transition)


@jit
def l1_distance(model: Any, a: int, b: int) -> float:
    """‖p_a - p_b‖₁ of two rows, whose successors increase."""
    i, j, total = model.start[a], model.start[b], 0.0
    while i < model.stop[a] or j < model.stop[b]:
        if j >= model.stop[b] or (i < model.stop[a] and model.successors[i] < model.successors[j]):
            total += model.probabilities[i]
            i += 1
        elif i >= model.stop[a] or model.successors[j] < model.successors[i]:
            total += model.probabilities[j]
            j += 1
        else:
            total += abs(model.probabilities[i] - model.probabilities[j])
            i += 1
            j += 1
    return total


@patient
def _variations(model: Any, patches: Any) -> Any:
    reward, transition = 0.0, 0.0
    for change in range(patches.offsets.size - 1):
        largest_r, largest_p = 0.0, 0.0
        for k in range(patches.offsets[change], patches.offsets[change + 1]):
            old, new = patches.old[k], patches.new[k]
            largest_r = max(largest_r, abs(model.mean[new] - model.mean[old]))
            largest_p = max(largest_p, l1_distance(model, old, new))
        reward += largest_r
        transition += largest_p
    return reward, transition
