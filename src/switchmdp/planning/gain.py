"""The optimal gain ρ*, certified; the gain of a policy; the best reward in T steps.

`optimal_gain` returns a bracket [lower, upper] that contains ρ* of the MDP (rows normalised in
exact arithmetic) and is no wider than the tolerance, or raises `PrecisionNotReached` with the
bracket that it reached.

**Which method.** The methods are tried in this order until one certifies the gain:

    up to 64 states   policy iteration (`iteration`), O(S³) each;
                      again in numbers with more range (`wide_iteration`)
    up to 2000        value iteration (`iteration`), as long as that costs less than O(S³);
                      then the same as for 64 states
    more (`large`)    value iteration, 64 rounds: enough if the MDP mixes fast;
                      policy iteration by components, for rings and long cycles;
                      value iteration, 20,000 rounds;
                      policy iteration with sparse factors, for long chains

Doubles fail if the span of the bias times 2⁻⁵² exceeds the tolerance, or if an intermediate policy
has a bias beyond 1e300. `policy_gain` uses state reduction (`iteration`), or `large` for more than
2000 states.

**Clairvoyant reward**: the best expected reward in T steps if all changes are known in advance,

    V_{T+1} = 0,     V_t(s) = max_a  r̄_t(s, a) + Σ_s' p_t(s' | s, a) V_{t+1}(s'),

from the last step back to the first, each with the configuration that is active then.

Regret is measured against Σ ρ*_t, which is not the same. Without a change the two differ by at most
the span of the optimal bias: T ρ* + h(s) - max h <= V_1(s) <= T ρ* + h(s) - min h. Every change may
add as much in either direction: an agent that starts in the right state earns more than Σ ρ*, and
one that has to walk to where the reward has moved earns less. Rounding takes less than T² · 2⁻⁵².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import entry
from switchmdp.display import counted, few, html_table, present
from switchmdp.equality import EqualByFields
from switchmdp.errors import InvalidAction, InvalidParameter, NotCommunicating, PrecisionNotReached
from switchmdp.mdp import MDP, SwitchingMDP, as_switching
from switchmdp.planning.iteration import (
    DONE,
    LIMIT,
    ROUNDING,
    gains_of_policy,
    iterate_policies,
    iterate_values,
    solve_configurations,
)
from switchmdp.planning.large import (
    QUICK,
    gains_of_large_chain,
    iterate_by_components,
    iterate_large_policies,
    iterate_large_values,
)
from switchmdp.planning.wide_iteration import iterate_wide_policies
from switchmdp.validation import check_integer, check_positive

TOLERANCE = 1e-9
SMALL = 64
DENSE = 2000
SWEEPS_FOR_LARGE = 20_000


@dataclass(frozen=True, eq=False, repr=False)
class Plan(EqualByFields):
    """An optimal policy with lower <= ρ* <= upper; `gain` is the midpoint.

    The smallest entry of the bias is 0. Entries beyond 1.8e308 are set to that.

    Parameters
    ----------
    gain
        The midpoint of the bracket.
    bias
        The bias of each state.
    policy
        The action of each state.
    lower
        The certified lower bound of the optimal gain.
    upper
        The certified upper bound of the optimal gain.
    """

    gain: float
    bias: NDArray[np.float64]
    policy: NDArray[np.int64]
    lower: float
    upper: float

    def __repr__(self) -> str:
        width = self.upper - self.lower
        states = counted(len(self.policy), "state")
        return (
            f"Plan(gain={self.gain:.10g}, certified to {width:.1e}, span={self.span:.6g}, {states})"
        )

    def _repr_html_(self) -> str:
        rows = {
            "gain": f"{self.gain:.10g}", "certified to": f"{self.upper - self.lower:.1e}",
            "span of the bias": f"{self.span:.6g}", "policy": few(self.policy.tolist()),
        }  # fmt: skip
        return html_table("Plan", rows)

    def plot(self) -> Any:
        """Draw the bias of each state, coloured by its action (extra `plot`).

        Returns
        -------
        matplotlib.figure.Figure
            The figure. A notebook shows it; `reports.save_figure` writes it to a file.

        Examples
        --------
        >>> plan = optimal_gain(MDP([[[0, 1]], [[1, 0]]], [[1], [0]]))
        >>> plan.plot().axes[0].get_ylabel()
        'bias'
        """
        return present("plot", self)

    @property
    def span(self) -> float:
        """max bias - min bias."""
        return float(self.bias.max() - self.bias.min())


def optimal_gain(mdp: MDP, *, tolerance: float = TOLERANCE, start: Plan | None = None) -> Plan:
    """The optimal average reward, an optimal policy and its bias; `start` is an initial guess.

    Parameters
    ----------
    mdp
        The MDP.
    tolerance
        The largest width of the certified bracket.
    start
        The plan of a similar MDP, as an initial guess.

    Returns
    -------
    Plan
        The gain with its bracket, a policy that attains it, and its bias.

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
    >>> two_cycle = MDP([[[0, 1]], [[1, 0]]], [[1], [0]])
    >>> plan = optimal_gain(two_cycle)
    >>> plan.gain, plan.lower <= 0.5 <= plan.upper
    (0.5, True)
    """
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    tolerance = check_positive("tolerance", tolerance)
    if mdp.unconnected is not None:
        raise NotCommunicating(f"the optimal gain may depend on the first state: {mdp.unconnected}")
    choice = mdp.pairs.starts[:-1].copy()
    bias = np.zeros(mdp.n_states)
    if start is not None:
        check_plan("start", start, mdp)
        choice = np.array([mdp.pairs.pair(s, int(a)) for s, a in enumerate(start.policy)])
        bias = start.bias.copy()
    lower, upper, status = _solve(mdp, choice, bias, tolerance)
    if status != DONE:
        raise _not_reached(status, bias, tolerance, lower, upper)
    bias -= bias.min()
    policy = mdp.pairs.actions[choice]
    return Plan((lower + upper) / 2.0, bias, policy, lower, upper)


def check_plan(field: str, plan: Any, mdp: MDP) -> None:
    """Raise `InvalidParameter` unless this is a plan for as many states as the MDP has."""
    size = (mdp.n_states,)
    if not isinstance(plan, Plan) or plan.policy.shape != size or plan.bias.shape != size:
        raise InvalidParameter(field, plan, f"a Plan for {mdp.n_states} states")


def _solve(mdp: MDP, choice: Any, bias: Any, tolerance: float) -> tuple[float, float, int]:
    """(lower, upper, status), by the methods in the order of the module's docstring."""
    if mdp.n_states > DENSE:
        return _solve_large(mdp, choice, bias, tolerance)
    n_states, stored = mdp.n_states, len(mdp.model.successors)
    solved: tuple[float, float, int]
    if n_states > SMALL:
        # Policy iteration costs about S³: value iteration may cost as much before it gives way.
        budget = max(32, n_states**3 // stored)
        solved = iterate_values(mdp.model, choice, bias, tolerance, budget)
        if solved[2] == DONE:
            return solved
    first = choice.copy()
    solved = iterate_policies(mdp.model, choice, bias, tolerance)
    if solved[2] != DONE:
        choice[:] = first
        solved = iterate_wide_policies(mdp.model, choice, bias, tolerance)
    return solved


def _solve_large(mdp: MDP, choice: Any, bias: Any, tolerance: float) -> tuple[float, float, int]:
    model = mdp.model
    solved: tuple[float, float, int]
    solved = iterate_large_values(model, choice, bias, tolerance, QUICK, False)
    if solved[2] == LIMIT:
        solved = iterate_by_components(model, choice, bias, tolerance)
    if solved[2] == LIMIT:
        solved = iterate_large_values(model, choice, bias, tolerance, SWEEPS_FOR_LARGE, True)
    if solved[2] == DONE:
        return solved
    return iterate_large_policies(model, choice, bias, tolerance)


def _not_reached(
    status: int, bias: Any, tolerance: float, lower: float, upper: float
) -> PrecisionNotReached:
    if status == ROUNDING:
        span = float(bias.max() - bias.min())
        reason = (
            f"a tolerance of {tolerance} can't be certified in double precision here: the bias "
            f"spans {span:.3g}"
        )
    else:
        reason = f"a tolerance of {tolerance} was not reached within the limit of iterations"
    return PrecisionNotReached(reason, float(lower), float(upper))


_known: WeakKeyDictionary[SwitchingMDP, NDArray[np.float64]] = WeakKeyDictionary()
_last: WeakKeyDictionary[SwitchingMDP, Plan] = WeakKeyDictionary()


def optimal_gain_brackets(problem: SwitchingMDP, last: int | None = None) -> NDArray[np.float64]:
    """(lower, upper) of ρ* of configurations 0..last, one row each, to the default tolerance.

    They are solved on first use and cached. The numbers do not depend on how many are requested at
    a time: each configuration of a small problem is solved on its own, each one of a large problem
    from the plan of the one before.

    Parameters
    ----------
    problem
        A switching MDP.
    last
        The last configuration; by default all are used.

    Returns
    -------
    numpy.ndarray
        Lower and upper bound, one row for each configuration.

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
    >>> import switchmdp as sm
    >>> problem = sm.problems.random_switching(5, 3, changes=1, horizon=1000, seed=0)
    >>> brackets = optimal_gain_brackets(problem)
    >>> brackets.shape, bool((brackets[:, 1] - brackets[:, 0] <= 1e-9).all())
    ((2, 2), True)
    """
    if not isinstance(problem, SwitchingMDP):
        raise InvalidParameter("problem", problem, "a SwitchingMDP")
    last = problem.changes if last is None else check_integer("last", last, 0, problem.changes)
    known = _known.get(problem, np.empty((0, 2)))
    first = len(known)
    if last >= first:
        problem.check_connected(last)
        if problem.n_states <= SMALL:
            none = np.empty((0, problem.n_states), np.int64)
            fresh = _solve_small(problem, first, last, none)
        else:
            plans = _solve_from_plan_to_plan(problem, first, last, _last.get(problem))
            _last[problem] = plans[-1]
            fresh = np.array([(plan.lower, plan.upper) for plan in plans])
        known = np.concatenate([known, fresh])
        _known[problem] = known
    return known[: last + 1].copy()


def _solve_from_plan_to_plan(
    problem: SwitchingMDP, first: int, last: int, before: Plan | None = None
) -> list[Plan]:
    """Configurations first..last, each from the plan of the one before."""
    plans: list[Plan] = []
    for mdp in problem.configurations(first, last):
        before = optimal_gain(mdp, start=before)
        plans.append(before)
    return plans


def _solve_small(problem: SwitchingMDP, first: int, last: int, choices: Any) -> NDArray[np.float64]:
    """(lower, upper) of configurations first..last of a small problem, by machine code.

    If `choices` has rows, the optimal pairs are written there.
    """
    out = np.empty((last + 1 - first, 2))
    choice, bias = problem.pairs.starts[:-1].copy(), np.zeros(problem.n_states)
    solved = 0
    while solved < len(out):
        model = problem.configuration(first + solved).model
        failed = solve_configurations(
            model, problem.patches, first + solved, choice, bias, TOLERANCE, out[solved:],
            choices[solved:],
        )  # fmt: skip
        if failed < 0:
            break
        solved += failed
        model = problem.configuration(first + solved).model
        choice = problem.pairs.starts[:-1].copy()
        lower, upper, status = iterate_wide_policies(model, choice, bias, TOLERANCE)
        if status != DONE:
            raise _not_reached(status, bias, TOLERANCE, lower, upper)
        out[solved] = lower, upper
        choices[solved : solved + 1] = choice
        solved += 1
    return out


def optimal_policies(problem: SwitchingMDP | MDP) -> NDArray[np.int64]:
    """An optimal policy of each configuration: a (configurations, S) array of actions.

    Parameters
    ----------
    problem
        An MDP or a switching MDP.

    Returns
    -------
    numpy.ndarray
        One row of actions for each configuration.

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
    >>> stay = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.2, 0], [0.8, 0]])
    >>> optimal_policies(SwitchingMDP([stay])).tolist()
    [[1, 0]]
    """
    problem = as_switching(problem)
    problem.check_connected()
    if problem.n_states <= SMALL:
        choices = np.empty((problem.changes + 1, problem.n_states), np.int64)
        _solve_small(problem, 0, problem.changes, choices)
        return problem.pairs.actions[choices]
    return np.array([plan.policy for plan in _solve_from_plan_to_plan(problem, 0, problem.changes)])


def optimal_gains(problem: SwitchingMDP, last: int | None = None) -> NDArray[np.float64]:
    """The optimal gain ρ* of configurations 0..last; by default of all.

    Parameters
    ----------
    problem
        A switching MDP.
    last
        The last configuration; by default all are used.

    Returns
    -------
    numpy.ndarray
        The gain of each configuration.

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
    >>> m = [MDP([[[0, 1]], [[1, 0]]], [[x], [0]]) for x in (1.0, 0.5)]
    >>> optimal_gains(SwitchingMDP(m, [10])).tolist()
    [0.5, 0.25]
    """
    brackets = optimal_gain_brackets(problem, last)
    return (brackets[:, 0] + brackets[:, 1]) / 2.0


def policy_gain(mdp: MDP, policy: Any) -> NDArray[np.float64]:
    """The average reward of a stationary policy, from each state.

    The relative error is at most 1e-9 (or the absolute error at most 1e-300). With more than 2000
    states the absolute error is at most 1e-9; `PrecisionNotReached` is raised if that cannot be
    ensured. If the policy has one closed class, all entries are equal.

    Parameters
    ----------
    mdp
        The MDP.
    policy
        An action for each state.

    Returns
    -------
    numpy.ndarray
        The gain from each state.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.
    InvalidAction
        If the policy is not a list of available actions.
    PrecisionNotReached
        If the precision cannot be ensured.
    MissingExtra
        With more than 2000 states, if SciPy is not installed.

    Examples
    --------
    >>> stay = MDP([[[1, 0], [0, 1]], [[0, 1], [1, 0]]], [[0.2, 0], [0.8, 0]])
    >>> policy_gain(stay, [0, 0]).tolist(), policy_gain(stay, [1, 0]).tolist()
    ([0.2, 0.8], [0.8, 0.8])
    """
    if not isinstance(mdp, MDP):
        raise InvalidParameter("mdp", mdp, "an MDP")
    try:
        given = np.asarray(policy)
    except (TypeError, ValueError, OverflowError, RecursionError):
        given = np.empty(0)
    if given.shape != (mdp.n_states,) or given.dtype.kind not in "iu":
        raise InvalidAction("policy", policy, f"a list of {mdp.n_states} actions, as numbers")
    choice = np.array([mdp.pairs.pair(s, int(a)) for s, a in enumerate(given)])
    if mdp.n_states > DENSE:
        return gains_of_large_chain(mdp.model, choice)
    rewards = mdp.model.mean[mdp.model.row[choice]]
    gains: NDArray[np.float64] = gains_of_policy(
        mdp.model, choice, np.arange(mdp.n_states), rewards
    )
    return gains


def clairvoyant_reward(problem: SwitchingMDP | MDP, horizon: int) -> NDArray[np.float64]:
    """The best expected reward of the first `horizon` steps, from each initial state.

    In the example, staying in a state earns a reward in state 0 up to step 5, and in state 1 from
    step 6 on. Moving to the other state takes a step.

    Parameters
    ----------
    problem
        An MDP or a switching MDP.
    horizon
        The number of steps of a run.

    Returns
    -------
    numpy.ndarray
        The expected reward from each initial state.

    Raises
    ------
    InvalidParameter
        If a parameter has the wrong type or is out of range.

    Examples
    --------
    >>> stay_or_go = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
    >>> first, second = MDP(stay_or_go, [[1, 0], [0, 0]]), MDP(stay_or_go, [[0, 0], [1, 0]])
    >>> clairvoyant_reward(SwitchingMDP([first, second], [6]), horizon=10).tolist()
    [9.0, 8.0]
    """
    problem = as_switching(problem)
    horizon = check_integer("horizon", horizon, 1)
    last = problem.active(horizon)
    model = problem.configuration(last).model
    values: NDArray[np.float64] = _backwards(
        model._replace(row=model.row.copy()), problem.patches, problem.change_points[:last], horizon
    )
    return values


@entry
def _backwards(model: Any, patches: Any, points: Any, horizon: int) -> Any:
    """V_1, where model.row is that of the last step; the rows are changed on the way."""
    n_states, row, change = model.starts.size - 1, model.row, points.size
    later, values = np.zeros(n_states), np.zeros(n_states)
    for t in range(horizon, 0, -1):
        if change > 0 and t < points[change - 1]:
            change -= 1
            for k in range(patches.offsets[change], patches.offsets[change + 1]):
                row[patches.pair[k]] = patches.old[k]
        for s in range(n_states):
            best = -np.inf
            for pair in range(model.starts[s], model.starts[s + 1]):
                y = row[pair]
                worth = model.mean[y]
                for k in range(model.start[y], model.stop[y]):
                    worth += model.probabilities[k] * later[model.successors[k]]
                best = max(best, worth)
            values[s] = best
        later, values = values, later
    return later
