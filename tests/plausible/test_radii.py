"""The radii of each plausible set, compared with its paper by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Everything
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall, L1Ball, Varied, Widened
from switchmdp.plausible.laplace import interval_end, proxy, slope

S, A, DELTA = 4, 3, 0.1


def measured(plausible: Any, successors: list[int], reward: float, t: int) -> tuple[Any, Any]:
    """The set after pair 0 was followed by these states, each time with this reward."""
    pairs, memory = Pairs.of(S, A), Everything()
    memory.allocate(pairs)
    plausible.allocate(pairs)
    n = len(successors)
    memory.absorb(np.zeros(n, np.uint32), np.array(successors, np.uint32), np.full(n, reward), n)
    plausible.plan(pairs.starts, memory.counts, t, np.zeros(S, np.int64))
    return plausible, memory.counts


def test_ucrl2s_radii_are_equations_1_and_2() -> None:
    ball = L1Ball(DELTA)
    ball.allocate(Pairs.of(S, A))
    assert ball.reward_radius(9, 50) == math.sqrt(7 * math.log(2 * S * A * 50 / DELTA) / 18)
    assert ball.transition_radius(9, 50) == math.sqrt(14 * S * math.log(2 * A * 50 / DELTA) / 9)
    assert ball.transition_radius(0, 50) == ball.transition_radius(1, 50)


def test_swucrl2_cws_radii_have_the_horizon_and_the_widening() -> None:
    ball = Widened(DELTA, horizon=1000, widening=0.25)
    ball.allocate(Pairs.of(S, A))
    log = math.log(S * A * 1000 / DELTA)
    assert ball.reward_radius(9, 50) == pytest.approx(2 * math.sqrt(2 * log / 9), rel=1e-14)
    expected = 2 * math.sqrt(2 * S * log / 9) + 0.25
    assert ball.transition_radius(9, 50) == pytest.approx(expected, rel=1e-14)
    assert ball.transition_radius(9, 50) == ball.transition_radius(9, 999)


def test_variation_aware_radii_have_the_phases_confidence_and_its_variation() -> None:
    ball = Varied(DELTA, reward_variation=0.125, transition_variation=0.5)
    ball.allocate(Pairs.of(S, A))
    for phase in (1, 77):
        ball.start_phase(phase)
        log = math.log(8 * S * A * 50**3 / (DELTA / (2 * phase**2)))
        expected = 0.125 + math.sqrt(8 * log / 9)
        assert ball.reward_radius(9, 50) == pytest.approx(expected, rel=1e-14)
        expected = 0.5 + math.sqrt(8 * S * log / 9)
        assert ball.transition_radius(9, 50) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("windowed", [False, True])
def test_bernstein_intervals_are_the_empirical_bernstein_inequality(windowed: bool) -> None:
    t, n = 500, 100
    plausible, _ = measured(Bernstein(DELTA, windowed), [0] * 60 + [1] * 40, 0.25, t)
    delta = DELTA / (t * (t + 1)) if windowed else DELTA
    b = math.log(3 * S * A * (S + 1) * n * (n + 1) / delta)

    def width(p: float) -> float:
        return math.sqrt(2 * p * (1 - p) * b / n) + 3 * b / n

    expected = min(1.0, 0.25 + width(0.25))
    assert plausible.reward[0] == pytest.approx(expected, rel=1e-14)
    for k, p in enumerate((0.6, 0.4)):
        assert plausible.low[k] == pytest.approx(max(0.0, p - width(p)), rel=1e-12)
        assert plausible.high[k] == pytest.approx(min(1.0, p + width(p)), rel=1e-14)
    assert plausible.beyond[0] == pytest.approx(3 * b / n, rel=1e-14)
    assert plausible.left[0] == pytest.approx(1 - plausible.low[:2].sum(), rel=1e-14)
    assert plausible.free[1:].all()
    assert not plausible.free[0]


def laplace_end(p: float, n: int, d: float, up: bool) -> float:
    """The end of {x : |x - p| <= sqrt(2 g(x) (1 + 1/n) log(2 sqrt(n+1)/d) / n)}, by brentq."""
    scale = 2 * (1 + 1 / n) * math.log(2 * math.sqrt(n + 1) / d) / n

    def excess(x: float) -> float:
        g = (0.5 - x) / math.log(1 / x - 1) if x != 0.5 else 0.25
        if x >= 0.5 and not up:
            g = x * (1 - x)
        return abs(x - p) - math.sqrt(scale * g)

    return float(brentq(excess, p, 1 - 1e-9 if up else 1e-9, xtol=1e-14))


def test_ucrl3s_intervals_are_the_smaller_of_two_bounds() -> None:
    n, t, d = 400, 500, DELTA / (2 * S * A)
    successors = [0] * 370 + [1] * 30
    plausible, _ = measured(BernsteinLaplace(DELTA), successors, 0.75, t)
    beta = 2 * math.log(math.log(n)) + math.log(3 / d)
    smaller = set()
    for k, p in enumerate((370 / 400, 30 / 400)):
        bernstein = math.sqrt(p * beta / n) + beta / (3 * n)
        ups = {p + bernstein: "bernstein", laplace_end(p, n, d, True): "laplace"}
        downs = {p - bernstein: "bernstein", laplace_end(p, n, d, False): "laplace"}
        assert plausible.high[k] == pytest.approx(min(ups), abs=1e-10)
        assert plausible.low[k] == pytest.approx(max(downs), abs=1e-10)
        smaller |= {ups[min(ups)], downs[max(downs)]}
    assert smaller == {"bernstein", "laplace"}
    bernstein = math.sqrt(0.75 * beta / n) + beta / (3 * n)
    expected = min(0.75 + bernstein, laplace_end(0.75, n, d, True))
    assert plausible.reward[0] == pytest.approx(expected, abs=1e-10)
    assert plausible.beyond[0] == pytest.approx(beta / (3 * n), abs=1e-10)


def test_a_bernoulli_is_sub_gaussian_as_the_laplace_bound_has_it() -> None:
    """log E exp(λ(X - p)) <= λ² g/2; above the mean with p(1-p) where p >= 1/2, below it not."""
    for p in (0.01, 0.2, 0.4999, 0.5, 0.5004, 0.7, 0.97):
        narrow = {True: False, False: False}
        for size in np.logspace(-2, 2, 60):
            for sign in (1.0, -1.0):
                x = sign * size
                log_mgf = np.logaddexp(math.log(1 - p) - x * p, math.log(p) + x * (1 - p))
                assert log_mgf <= x * x * proxy(p) / 2 + 1e-12
                narrow[sign > 0] |= bool(log_mgf > x * x * p * (1 - p) / 2 + 1e-9)
        if p >= 0.5:
            assert not narrow[True]  # p̂ > p: the variance will do
        if abs(p - 0.5) > 0.1:
            assert narrow[p < 0.5]  # on the other side it would be too narrow


def test_the_slope_of_the_proxy_is_its_derivative() -> None:
    for p in (0.001, 0.1, 0.4, 0.4951, 0.499, 0.5, 0.503, 0.506, 0.8, 0.999):
        h = 1e-6
        assert slope(p) == pytest.approx(
            (proxy(p + h) - proxy(p - h)) / (2 * h), rel=1e-6, abs=1e-8
        )


def test_intervals_hold_the_estimate_and_stay_within_0_and_1() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        n = int(10 ** rng.uniform(0, 7))
        p = rng.integers(0, n + 1) / n
        scale = float(10 ** rng.uniform(-7, 1.5))
        for outside in (min(1.0, p + rng.random()), max(0.0, p - rng.random())):
            end = interval_end(p, outside, scale)
            assert min(p, outside) <= end <= max(p, outside)


@pytest.mark.parametrize("windowed", [False, True])
def test_kl_ucrls_ball_is_c_p_over_n(windowed: bool) -> None:
    t, n = 500, 100
    plausible, _ = measured(KLBall(DELTA, windowed), [0] * 60 + [1] * 40, 0.25, t)
    delta = DELTA / (t * (t + 1)) if windowed else DELTA
    log_t = math.log(t)
    b = math.log(2 * math.e * S * S * A * log_t / delta)
    c = b + 1 / log_t
    c_p = S * (b + math.log(c) * (1 + 1 / c))
    assert plausible.budget[0] == pytest.approx(c_p / n, rel=1e-13)
    expected = 0.25 + math.sqrt(math.log(4 * S * A * log_t / delta) / (1.99 * n))
    assert plausible.reward[0] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("make", [Bernstein, BernsteinLaplace, KLBall])
@pytest.mark.parametrize("bad", [{"delta": 0.0}, {"delta": 0.1, "windowed": 1}])
def test_bad_parameters_of_a_set_are_refused(make: Any, bad: Any) -> None:
    with pytest.raises(InvalidParameter, match=list(bad)[-1]):
        make(**bad)


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, "0", None, True])
def test_bad_widenings_are_refused(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="widening"):
        Widened(0.1, horizon=10, widening=bad)
    with pytest.raises(InvalidParameter, match="reward_variation"):
        Varied(0.1, reward_variation=bad)
