"""The theorem, its window, its corollaries, UCRL2's bounds and schedules, and invalid arguments."""

from __future__ import annotations

import inspect
import math
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from switchmdp import theory
from switchmdp.errors import InvalidParameter, OutsideValidity

# The paper's experiment; log₃5 - 3 is negative, so that the diameter counts as 1.
PAPER: dict[str, Any] = {
    "horizon": 100_000,
    "diameter": 1,
    "n_states": 5,
    "n_actions": 3,
    "delta": 0.1,
}

# A setting in which every function of the module is defined.
VALID: dict[str, Any] = {
    "horizon": 100_000,
    "diameter": 20,
    "n_states": 10,
    "n_actions": 10,
    "changes": 2,
    "window": 1000,
    "delta": 0.1,
    "epsilon": 0.5,
    "segments": 3,
    "visits": 7,
    "t": 50,
}
OTHERS = ("proposition_1", "cw_window", "cw_widening")  # tested elsewhere, with their arguments
FUNCTIONS = [getattr(theory, name) for name in theory.__all__ if name not in OTHERS]


def call(function: Any, **overrides: Any) -> Any:
    """`function` on the valid setting, changed here and there."""
    setting = VALID | overrides
    return function(**{name: setting[name] for name in inspect.signature(function).parameters})


def settings(number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Random settings, some of them outside Theorem 1's conditions."""
    rng = np.random.default_rng(seed)
    return [
        {
            "horizon": int(10 ** rng.uniform(1, 12)),
            "diameter": float(10 ** rng.uniform(0, 3)),
            "n_states": int(rng.integers(1, 40)),
            "n_actions": int(rng.integers(1, 20)),
            "changes": int(rng.integers(1, 50)),
            "delta": float(rng.uniform(0.001, 0.999)),
        }
        for _ in range(number)
    ]


def rounded_up(value: float) -> float:
    """To two decimals, as the paper rounds its constants."""
    return float(Decimal(value).quantize(Decimal("0.01"), ROUND_CEILING))


def psi(setting: dict[str, Any]) -> float:
    T, D, S, A = (setting[k] for k in ("horizon", "diameter", "n_states", "n_actions"))
    return float(D * S * math.sqrt(A * math.log(T / setting["delta"])))


# Constants


def test_the_constant_of_e1_is_its_three_terms_rounded_up() -> None:
    assert rounded_up(math.sqrt(5 / 4) + 1 + math.sqrt(5)) == theory.E1_CONSTANT == 4.36


def test_the_constant_of_lemma_2_is_proposition_1s_over_batches_of_two_windows() -> None:
    assert pytest.approx(math.sqrt(2) * (1 + (math.sqrt(2) + 1))) == theory.VISITS


def test_the_constant_of_e2_is_both_lemmas_rounded_up() -> None:
    derived = 1 + (2 * math.sqrt(28) + 2) * (2 * math.sqrt(2) + 2)
    assert rounded_up(derived) == theory.E2_CONSTANT == 61.76


def test_the_theorems_constant_is_the_sum_of_the_printed_ones() -> None:
    assert pytest.approx(theory.E1_CONSTANT + theory.E2_CONSTANT) == theory.REGRET_CONSTANT
    assert theory.REGRET_CONSTANT == 66.12


def test_the_windows_constant_is_a_quarter_of_the_theorems() -> None:
    assert theory.WINDOW_CONSTANT == theory.REGRET_CONSTANT / 4 == 16.53


def test_corollary_1s_constant_is_the_theorem_at_the_optimal_window_rounded_up() -> None:
    c = theory.WINDOW_CONSTANT
    derived = 2 * c ** (2 / 3) + theory.REGRET_CONSTANT / c ** (1 / 3)
    assert derived == pytest.approx(6 * c ** (2 / 3))
    assert rounded_up(derived) == theory.COROLLARY_CONSTANT == 38.94


# The window


@pytest.mark.parametrize("seed", range(30))
def test_optimal_window_minimises_the_theorems_bound(seed: int) -> None:
    (setting,) = settings(1, seed)
    changes: int = setting["changes"]
    learning: float = 66.12 * setting["horizon"] * psi(setting)

    def bound(log_window: float) -> float:
        window = math.exp(log_window)
        return 2 * changes * window + learning / math.sqrt(window)

    exact: float = theory.optimal_window_exact(**setting)
    minimum = minimize_scalar(bound, bracket=(0, 30), options={"xtol": 1e-12})
    assert bound(math.log(exact)) <= minimum.fun * (1 + 1e-12)
    assert exact == pytest.approx(math.exp(minimum.x), rel=1e-4)


def test_optimal_window_equals_that_of_the_papers_experiment() -> None:
    assert theory.optimal_window(changes=2, **PAPER) == 89_119
    assert theory.optimal_window(changes=4, **PAPER) == 56_142


def test_optimal_window_is_the_horizon_where_nothing_changes() -> None:
    assert theory.optimal_window(changes=0, **PAPER) == PAPER["horizon"]


def test_optimal_window_is_eq_3_rounded_into_its_range() -> None:
    inside = 0
    for setting in settings(500):
        window = theory.optimal_window(**setting)
        exact = theory.optimal_window_exact(**setting)
        least, most = setting["n_states"] * setting["n_actions"], setting["horizon"]
        assert type(window) is int
        assert min(least, most) <= window <= most
        if least <= exact <= most:
            inside += 1
            assert abs(window - exact) <= 0.5
    assert inside > 100


def test_optimal_window_is_cut_at_both_ends() -> None:
    assert theory.optimal_window(changes=1, **PAPER | {"diameter": 1e6}) == PAPER["horizon"]
    assert theory.optimal_window(changes=10**12, **PAPER) == 15
    assert theory.optimal_window(changes=10**12, **PAPER | {"horizon": 9}) == 9


# Theorem 1 and its corollaries


def test_theorem_1_is_two_windows_a_change_plus_the_learning() -> None:
    without = theory.regret_bound(changes=0, window=1000, **PAPER)
    assert without == pytest.approx(66.12 * math.ceil(1e5 / math.sqrt(1000)) * psi(PAPER))
    one_more = [theory.regret_bound(changes=n, window=1000, **PAPER) for n in (3, 4)]
    assert one_more[1] - one_more[0] == pytest.approx(2 * 1000)


def test_the_repaired_bound_adds_up_its_parts() -> None:
    setting = PAPER | {"diameter": 7}
    kappa = math.sqrt(1 + 3 / 2000)
    spoiled = 2 * 3 * 1000 + 3 * (5 + 7)
    deviations = 4.36 * 7 * math.sqrt(1e5 * math.log(1e6))
    learning = 61.76 * kappa * (1e5 / math.sqrt(1000) + math.sqrt(1000)) * psi(setting)
    repaired = theory.repaired_regret_bound(changes=3, window=1000, **setting)
    assert repaired == pytest.approx(spoiled + deviations + learning, rel=1e-12)


def test_e1_and_e2_add_up_to_the_theorem_unless_the_window_dwarfs_the_horizon() -> None:
    def parts(window: int) -> float:
        one = {k: PAPER[k] for k in ("horizon", "diameter", "delta")}
        return theory.e1_bound(**one) + theory.e2_bound(window=window, **PAPER)

    def whole(window: int) -> float:
        return theory.regret_bound(changes=0, window=window, **PAPER)

    for window in (100, 12_345, 100_000):
        assert parts(window) <= whole(window) * (1 + 1e-12)
    # D √T ≤ ⌈T/√W⌉ D S √A asks for W ≤ S² A T or so.
    assert parts(100 * PAPER["horizon"] ** 2) > whole(100 * PAPER["horizon"] ** 2)


def test_the_printed_theorem_contradicts_the_lower_bound_for_a_window_past_the_horizon() -> None:
    T = 10**13
    setting = {"horizon": T, "diameter": 20, "n_states": 10, "n_actions": 10}
    window, delta = T**2, 1 / T
    printed = theory.regret_bound(changes=0, window=window, delta=delta, **setting)
    repaired = theory.repaired_regret_bound(changes=0, window=window, delta=delta, **setting)
    # With probability delta the bound may fail, at the price of T at most.
    assert printed + delta * T < theory.ucrl2_lower_bound(**setting) < repaired


def test_the_exact_ceiling_is_the_ceiling_of_the_real_quotient() -> None:
    rng = np.random.default_rng(1)
    for T, W in rng.integers(1, 10**6, size=(500, 2)).tolist():
        n = theory.ceil_div_sqrt(T, W)
        assert n**2 * W >= T**2 > (n - 1) ** 2 * W
    assert theory.ceil_div_sqrt(10**20, 10**20) == 10**10
    assert theory.ceil_div_sqrt(10**20 + 1, 10**20) == 10**10 + 1


def test_corollary_1_covers_the_theorem_without_its_ceiling() -> None:
    for setting in settings(200, seed=2):
        setting["horizon"] += 100
        window = theory.optimal_window_exact(**setting)
        learning = 66.12 * setting["horizon"] / math.sqrt(window) * psi(setting)
        leading = 2 * setting["changes"] * window + learning
        assert leading <= theory.corollary_1_bound(**setting) <= 1.001 * leading


def test_corollary_1_misses_the_theorems_ceiling_in_the_papers_experiment() -> None:
    window = theory.optimal_window(changes=4, **PAPER)
    corollary = theory.corollary_1_bound(changes=4, **PAPER)
    assert theory.regret_bound(changes=4, window=window, **PAPER) > corollary


def test_the_repaired_corollary_is_the_repaired_theorem_at_the_optimal_window() -> None:
    repaired = theory.repaired_corollary_1_bound(changes=2, **PAPER)
    assert repaired == theory.repaired_regret_bound(changes=2, window=89_119, **PAPER)
    without = theory.repaired_corollary_1_bound(changes=0, **PAPER)
    assert without == theory.repaired_regret_bound(changes=0, window=100_000, **PAPER)


@pytest.mark.parametrize("epsilon", [1, 0.3, 0.01])
def test_corollary_2_brings_the_average_of_corollary_1_below_epsilon(epsilon: float) -> None:
    for setting in settings(50, seed=3):
        del setting["horizon"]
        steps = theory.corollary_2_steps(epsilon=epsilon, **setting)
        for T in (steps, 2 * steps, 1000 * steps):
            assert theory.corollary_1_bound(horizon=T, **setting) <= epsilon * T
        # Half as many would not do.
        T = steps // 2
        assert theory.corollary_1_bound(horizon=T, **setting) > epsilon * T


# UCRL2, with and without restarts


def test_confidence_radii_follow_eq_1_and_2() -> None:
    pair: dict[str, Any] = {"visits": 8, "t": 1000, "n_states": 5, "n_actions": 3, "delta": 0.1}
    assert theory.reward_radius(**pair) ** 2 == pytest.approx(7 * math.log(300_000) / 16)
    assert theory.transition_radius(**pair) ** 2 == pytest.approx(70 * math.log(60_000) / 8)


@pytest.mark.parametrize("radius", [theory.reward_radius, theory.transition_radius])
def test_a_pair_never_visited_has_the_radius_of_one_visit(radius: Any) -> None:
    none, one, four = (call(radius, visits=n) for n in (0, 1, 4))
    assert none == one == pytest.approx(2 * four)


def test_ucrl2s_bounds_follow_their_formulas() -> None:
    T, D, S, A, delta = 10**8, 50, 12, 11, 0.05
    sizes = {"horizon": T, "n_states": S, "n_actions": A}
    root = math.sqrt(math.log(T / delta))
    assert theory.ucrl2_regret_bound(diameter=D, delta=delta, **sizes) == pytest.approx(
        34 * D * S * math.sqrt(A * T) * root
    )
    assert theory.ucrl2_lower_bound(diameter=D, **sizes) == pytest.approx(
        0.015 * math.sqrt(D * S * A * T)
    )
    assert theory.restart_regret_bound(
        diameter=D, delta=delta, segments=8, **sizes
    ) == pytest.approx(65 * 2 * T ** (2 / 3) * D * S * math.sqrt(A) * root)
    assert theory.ucrl2_episodes_bound(**sizes) == theory.episodes_bound(window=T, **sizes)


def test_the_lower_bound_accepts_the_least_diameter_it_names() -> None:
    # log(18³)/log(18) comes out a little above 3.
    sizes = {"horizon": 10**9, "n_states": 18**3, "n_actions": 18}
    assert math.log(18**3) / math.log(18) > 3
    assert theory.ucrl2_lower_bound(diameter=60, **sizes) > 0
    with pytest.raises(OutsideValidity, match="diameter"):
        theory.ucrl2_lower_bound(diameter=59.999, **sizes)


@pytest.mark.parametrize("horizon", [1, 2, 30, 5000])
@pytest.mark.parametrize("most", [1, 2, 3, 7, 30])
def test_restart_times_are_the_distinct_steps_of_the_schedule(horizon: int, most: int) -> None:
    segments = min(horizon, most)
    last = math.ceil((horizon * segments**2) ** (1 / 3)) + 2
    steps = {math.ceil(Fraction(i**3, segments**2)) for i in range(1, last)}
    times = theory.restart_times(horizon=horizon, segments=segments)
    assert times.dtype == np.int64
    assert times.tolist() == sorted(step for step in steps if 1 < step <= horizon)


def test_restart_times_that_repeat_are_listed_once() -> None:
    assert [math.ceil(i**3 / 100) for i in range(1, 9)] == [1, 1, 1, 1, 2, 3, 4, 6]
    assert theory.restart_times(horizon=6, segments=6).tolist() == [2, 4, 6]
    assert theory.restart_times(horizon=20, segments=10).tolist() == [2, 3, 4, 6, 8, 10, 14, 18]


def test_restart_times_stay_exact_where_floats_do_not() -> None:
    # i³ passes 2⁵³ at i = 208 064.
    times = theory.restart_times(horizon=10**16 + 10**12, segments=1)
    assert times[-1] == (len(times) + 1) ** 3 > 2**53


def test_restart_confidence_divides_delta_by_the_segments_squared() -> None:
    assert theory.restart_confidence(segments=5, delta=0.1) == pytest.approx(0.1 / 25)


# The diameter


def test_the_printed_diameter_bound_is_negative_in_the_papers_experiment() -> None:
    raw = theory.raw_diameter_lower_bound(n_states=5, n_actions=3)
    assert raw == pytest.approx(math.log(5, 3) - 3)
    assert raw < -1.5
    assert theory.diameter_lower_bound(n_states=5, n_actions=3) == 1


def test_the_diameter_bound_speaks_only_past_the_fourth_power_of_the_actions() -> None:
    assert theory.diameter_lower_bound(n_states=3**4, n_actions=3) == pytest.approx(1)
    assert theory.diameter_lower_bound(n_states=3**6, n_actions=3) == pytest.approx(3)


def test_with_one_action_no_chain_has_a_smaller_diameter_than_a_cycle() -> None:
    def diameter(P: np.ndarray) -> float:
        S = len(P)
        others = [[s for s in range(S) if s != goal] for goal in range(S)]
        return max(
            float(np.linalg.solve(np.eye(S - 1) - P[np.ix_(rest, rest)], np.ones(S - 1)).max())
            for rest in others
        )

    rng = np.random.default_rng(4)
    for S in range(2, 8):
        least = theory.diameter_lower_bound(n_states=S, n_actions=1)
        assert diameter(np.roll(np.eye(S), 1, axis=1)) == pytest.approx(least)
        for concentration in (0.1, 1, 10):
            chains = rng.dirichlet(np.full(S, concentration), size=(20, S))
            assert min(map(diameter, chains + 1e-9)) >= least * (1 - 1e-6)


def test_a_single_state_counts_as_diameter_one() -> None:
    assert theory.diameter_lower_bound(n_states=1, n_actions=1) == 1
    assert theory.diameter_lower_bound(n_states=1, n_actions=4) == 1


# Refusals

INTEGERS = {"horizon", "n_states", "n_actions", "changes", "window", "segments", "visits", "t"}
NOT_INTEGERS = [True, 3.0, math.nan, math.inf, "3", None, -1, 10**31]
NOT_NUMBERS = [True, math.nan, math.inf, -math.inf, "2", None, 1j]
BAD: dict[str, list[Any]] = {field: [*NOT_INTEGERS, 0] for field in INTEGERS}
BAD |= {"changes": NOT_INTEGERS, "visits": NOT_INTEGERS}
BAD |= {
    "diameter": [*NOT_NUMBERS, 0, 0.99, -3],
    "delta": [*NOT_NUMBERS, 0, 1, -0.1, 1.5],
    "epsilon": [*NOT_NUMBERS, 0, 1.01, -0.1],
}


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_bad_parameter_is_named_with_its_value(function: Any) -> None:
    call(function)
    for field in inspect.signature(function).parameters:
        for value in BAD[field]:
            with pytest.raises(InvalidParameter) as caught:
                call(function, **{field: value})
            assert caught.value.field == field
            assert caught.value.value is value
            assert field in str(caught.value)
            assert repr(value) in str(caught.value)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_numpy_numbers_give_the_same_as_pythons(function: Any) -> None:
    small = {k: np.int32(VALID[k]) for k in INTEGERS}
    reals = {k: np.float64(VALID[k]) for k in ("diameter", "delta", "epsilon")}
    assert np.array_equal(call(function, **small, **reals), call(function))


@pytest.mark.parametrize("function", [*FUNCTIONS, theory.proposition_1], ids=lambda f: f.__name__)
def test_every_parameter_is_a_keyword(function: Any) -> None:
    kinds = {p.kind for p in inspect.signature(function).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_the_largest_parameters_give_finite_bounds() -> None:
    largest = dict.fromkeys(("diameter", "n_states", "n_actions", "changes"), 10**30)
    assert math.isfinite(theory.corollary_2_steps(delta=5e-324, epsilon=1e-30, **largest))
    assert math.isfinite(theory.optimal_window_exact(horizon=10**30, delta=5e-324, **largest))


THEOREM_1 = [theory.regret_bound, theory.repaired_regret_bound]
OUTSIDE = [
    *((f, {"horizon": 1, "delta": 0.9, "n_actions": 1}, "8, 2 A.*7.2, got 1") for f in THEOREM_1),
    *((f, {"window": 99}, "n_states . n_actions = 100, got 99") for f in THEOREM_1),
    *(
        (f, {"n_states": 1, "n_actions": 50, "window": 60, "horizon": 100}, r"log2.*got 60")
        for f in [*THEOREM_1, theory.e2_bound, theory.repaired_e2_bound]
    ),
    (theory.regret_bound, {"horizon": 17, "delta": 0.9}, "8, 2 A.*18, got 17"),
    (theory.optimal_window_exact, {"changes": 0}, "changes >= 1"),
    (theory.corollary_1_bound, {"changes": 0}, "changes >= 1"),
    (theory.corollary_1_bound, {"changes": 10**12}, "Corollary 1 needs window"),
    (theory.corollary_1_bound, {"horizon": 17, "delta": 0.9}, "Corollary 1 needs horizon"),
    (theory.repaired_corollary_1_bound, {"horizon": 50}, "window"),
    (theory.corollary_2_steps, {"changes": 0}, "changes >= 1"),
    (theory.episodes_bound, {"horizon": 99}, "100, got 99"),
    (theory.episodes_bound, {"window": 99}, "100, got 99"),
    (theory.e1_bound, {"horizon": 1, "delta": 0.9}, "8 delta = 7.2, got 1"),
    (theory.e2, {"window": 99}, "Lemma 1 needs window"),
    (theory.repaired_e2, {"window": 99}, "Lemma 1 needs window"),
    (theory.e2_bound, {"horizon": 17, "delta": 0.9}, "2 A delta = 18, got 17"),
    (theory.e2_bound, {"window": 99}, "window"),
    (theory.repaired_e2_bound, {"horizon": 7, "delta": 0.9, "n_actions": 1}, "7.2, got 7"),
    (theory.repaired_e2_bound, {"window": 99}, "window"),
    (theory.ucrl2_regret_bound, {"horizon": 1}, "2, got 1"),
    (theory.restart_regret_bound, {"horizon": 1, "segments": 1}, "2, got 1"),
    (theory.ucrl2_episodes_bound, {"horizon": 99}, "100, got 99"),
    (theory.ucrl2_lower_bound, {"n_states": 9}, "got 9 and 10"),
    (theory.ucrl2_lower_bound, {"n_actions": 9}, "got 10 and 9"),
    (theory.ucrl2_lower_bound, {"diameter": 19}, "diameter .* = 20, got 19"),
    (theory.ucrl2_lower_bound, {"horizon": 1999}, "2000, got 1999"),
    (theory.raw_diameter_lower_bound, {"n_actions": 1}, "n_actions >= 2"),
]


@pytest.mark.parametrize(("function", "overrides", "message"), OUTSIDE)
def test_outside_its_conditions_a_claim_is_rejected(
    function: Any, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(OutsideValidity, match=message):
        call(function, **overrides)


def test_more_segments_than_steps_are_rejected() -> None:
    for function in (theory.restart_times, theory.restart_regret_bound):
        with pytest.raises(InvalidParameter, match=r"segments .* horizon, 10, got 11"):
            call(function, horizon=10, segments=11)


@pytest.mark.parametrize(
    "overrides",
    [{"horizon": 17, "delta": 0.9}, {"window": 99}, {"n_states": 1, "n_actions": 50, "window": 60}],
)
def test_the_flag_is_down_where_the_theorem_rejects(overrides: dict[str, Any]) -> None:
    assert call(theory.theorem_1_holds)
    assert not call(theory.theorem_1_holds, **{"horizon": 100} | overrides)


def test_once_a_window_is_long_enough_every_longer_one_is() -> None:
    for S, A, T in [(1, 50, 100), (1, 1, 20), (2, 7, 50), (5, 3, 100_000)]:
        holds = [
            call(theory.theorem_1_holds, n_states=S, n_actions=A, horizon=T, window=W)
            for W in range(1, 3000)
        ]
        assert holds[-1]
        assert holds == sorted(holds)
