"""The radii of each plausible set, compared with its paper by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.mdp.pairs import Pairs
from switchmdp.memory import Everything, EverythingWithVariance
from switchmdp.plausible import Bernstein, BernsteinLaplace, KLBall, L1Ball, Varied, Widened
from switchmdp.plausible.tight import bernstein_end, interval_end, proxy, slope

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


@pytest.mark.parametrize(
    "ball",
    [
        lambda width: L1Ball(DELTA, width=width),
        lambda width: Widened(DELTA, horizon=1000, width=width),
        lambda width: Varied(DELTA, width=width),
    ],
)
def test_the_width_multiplies_the_radii(ball: Any) -> None:
    full, half = ball(1.0), ball(0.5)
    for plausible in (full, half):
        plausible.allocate(Pairs.of(S, A))
    for radius in ("reward_radius", "transition_radius"):
        expected = getattr(full, radius)(9, 50)
        assert getattr(half, radius)(9, 50) == pytest.approx(expected / 2, rel=1e-14)


def test_the_width_multiplies_the_logarithms_of_tight_sets_by_its_square() -> None:
    seen = [0] * 60 + [1] * 40
    wide, _ = measured(KLBall(DELTA), seen, 0.25, 200)
    narrow, _ = measured(KLBall(DELTA, width=0.5), seen, 0.25, 200)
    assert narrow.budget[0] == pytest.approx(wide.budget[0] / 4, rel=1e-14)
    narrow, _ = measured(Bernstein(DELTA, width=0.5), seen, 0.25, 200)
    b = math.log(3 * S * A * (S + 1) * 100 * 101 / DELTA) / 4
    expected = 0.25 + math.sqrt(2 * 0.25 * 0.75 * b / 100) + 3 * b / 100
    assert narrow.reward[0] == pytest.approx(expected, rel=1e-14)


def test_the_confidence_of_a_window_that_is_not_full_counts_one_start() -> None:
    plausible, _ = measured(Bernstein(DELTA, windowed=True), [0] * 100, 0.25, 101)
    assert plausible.confidence == DELTA / 2


@pytest.mark.parametrize("width", [0.0, -1.0, math.inf, math.nan, True, "1"])
def test_a_width_that_is_not_a_positive_number_is_rejected(width: Any) -> None:
    for plausible in (L1Ball, Bernstein, KLBall):
        with pytest.raises(InvalidParameter, match="width"):
            plausible(DELTA, width=width)


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
    start = t - 100  # of the window with 100 steps
    delta = DELTA / (start * (start + 1)) if windowed else DELTA
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


@pytest.mark.parametrize("n", [1, 2, 30, 1000])
def test_ucrl2bs_interval_lies_within_that_of_the_paper(n: int) -> None:
    plausible = Bernstein(DELTA)
    plausible.allocate(Pairs.of(S, A))
    x = math.log(6 * S * A * n / DELTA)
    for variance in (0.0, 0.01, 0.25):
        printed = 2 * math.sqrt(variance * x / n) + 6 * x / n
        assert plausible.upper_reward(0.0, variance, plausible.terms(n, DELTA)) <= printed


def test_ucrl2b_and_ucrl3_use_the_empirical_variance_of_the_rewards() -> None:
    """Rewards of 0.2 and 0.4 in turn have variance 0.01; r̂(1 - r̂) would be 0.21."""
    n, variance = 10_000, 0.01
    b = math.log(3 * S * A * (S + 1) * n * (n + 1) / DELTA)
    level = DELTA / (3 + 3 * S) / (S * A)
    slices = math.log(n) * math.log(1.12 * n) / math.log(1.12) ** 2
    ell = 1.12 * math.log(slices / level)
    laplace = math.sqrt(2 * (1 + 1 / n) * math.log(math.sqrt(n + 1) / level) / n) / 2
    expected = {
        Bernstein: math.sqrt(2 * variance * b / n) + 3 * b / n,
        BernsteinLaplace: max(laplace, math.sqrt(2 * variance * ell / n) + 7 * ell / (3 * n)),
    }
    for make, width in expected.items():
        pairs, memory, plausible = Pairs.of(S, A), EverythingWithVariance(), make(DELTA)
        memory.allocate(pairs)
        plausible.allocate(pairs)
        rewards = np.where(np.arange(n) % 2 == 0, 0.2, 0.4)
        memory.absorb(np.zeros(n, np.uint32), np.zeros(n, np.uint32), rewards, n)
        plausible.plan(pairs.starts, memory.counts, n + 1, np.zeros(S, np.int64))
        assert plausible.reward[0] == pytest.approx(0.3 + width, abs=1e-8)


def is_plausible(q: float, p: float, n: int, delta: float) -> bool:
    """The printed inequalities of UCRL3's C(s, a, s'), Section 3.1."""
    level = delta / (3 + 3 * S) / (S * A)
    beta = math.sqrt(2 * (1 + 1 / n) * math.log(math.sqrt(n + 1) / level) / n)
    g = (0.5 - q) / math.log(1 / q - 1) if q != 0.5 else 0.25
    g_right = g if q < 0.5 else q * (1 - q)
    laplace = -math.sqrt(g) <= (p - q) / beta <= math.sqrt(g_right)
    if n == 1:
        return laplace
    ell = 1.12 * math.log(math.log(n) * math.log(1.12 * n) / (math.log(1.12) ** 2 * level))
    return laplace and abs(p - q) <= math.sqrt(2 * q * (1 - q) / n * ell) + ell / (3 * n)


@pytest.mark.parametrize("delta", [0.1, 1e-9])
@pytest.mark.parametrize("n", [1, 2, 7, 40, 400, 40_000])
def test_ucrl3s_intervals_are_the_printed_inequalities(n: int, delta: float) -> None:
    plausible = BernsteinLaplace(DELTA)
    plausible.allocate(Pairs.of(S, A))
    terms, step = plausible.terms(float(n), delta), 1e-7
    for p in sorted({0, n // 50, n // 3, n // 2, n - n // 20, n}):
        low, high = plausible.lower(p / n, terms), plausible.upper(p / n, terms)
        assert 0.0 <= low <= p / n <= high <= 1.0
        for inside in (low + step, high - step):
            if 0.0 < inside < 1.0 and low < high - 2 * step:
                assert is_plausible(inside, p / n, n, delta)
        for outside in (low - step, high + step):
            if 1e-5 < outside < 1.0 - 1e-5:
                assert not is_plausible(outside, p / n, n, delta)


def test_each_of_ucrl3s_two_bounds_is_sometimes_the_smaller_one() -> None:
    plausible = BernsteinLaplace(DELTA)
    plausible.allocate(Pairs.of(S, A))
    smaller = set()
    for n, p in ((20, 0.5), (40_000, 0.001)):
        ell, scale = plausible.terms(float(n), DELTA)
        bernstein, both = bernstein_end(p, ell), plausible.upper(p, (ell, scale))
        smaller.add("Bernstein" if both == bernstein else "Laplace")
    assert smaller == {"Bernstein", "Laplace"}


@pytest.mark.parametrize("q", [0.03, 0.3, 0.5, 0.9])
def test_ucrl3s_bounds_hold_at_all_times_with_their_probability(q: float) -> None:
    """Lemma 7 and Corollary 1, with d = 0.1 for each side, on 4000 streams of 1000 numbers."""
    d, runs, steps = 0.1, 4000, 1000
    draws = np.random.default_rng(1).random((runs, steps)) < q
    n = np.arange(1, steps + 1)
    off = np.cumsum(draws, axis=1) / n - q
    beta = np.sqrt(2 * (1 + 1 / n) * np.log(np.sqrt(n + 1) / d) / n)
    right = math.sqrt(proxy(q) if q < 0.5 else q * (1 - q))
    assert (off > beta * right).any(axis=1).mean() <= d
    assert (off < -beta * math.sqrt(proxy(q))).any(axis=1).mean() <= d
    if q <= 0.5:  # one event, not two
        assert (np.abs(off) > beta * right).any(axis=1).mean() <= d
    m = n[1:]
    ell = 1.12 * np.log(np.log(m) * np.log(1.12 * m) / (math.log(1.12) ** 2 * d))
    width = np.sqrt(2 * q * (1 - q) * ell / m) + ell / (3 * m)
    assert (off[:, 1:] > width).any(axis=1).mean() <= d
    assert (off[:, 1:] < -width).any(axis=1).mean() <= d


def test_bernoulli_rewards_are_sub_gaussian_with_the_proxy_of_the_laplace_bound() -> None:
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
    start = t - 100  # of the window with 100 steps
    delta = DELTA / (start * (start + 1)) if windowed else DELTA
    log_t = math.log(t)
    b = math.log(2 * math.e * S * S * A * log_t / delta)
    c = b + 1 / log_t
    c_p = S * (b + math.log(c) * (1 + 1 / c))
    assert plausible.budget[0] == pytest.approx(c_p / n, rel=1e-13)
    expected = 0.25 + math.sqrt(math.log(4 * S * A * log_t / delta) / (1.99 * n))
    assert plausible.reward[0] == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("make", [Bernstein, BernsteinLaplace, KLBall])
@pytest.mark.parametrize("bad", [{"delta": 0.0}, {"delta": 0.1, "windowed": 1}])
def test_bad_parameters_of_a_set_are_rejected(make: Any, bad: Any) -> None:
    with pytest.raises(InvalidParameter, match=list(bad)[-1]):
        make(**bad)


@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, "0", None, True])
def test_bad_widenings_are_rejected(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="widening"):
        Widened(0.1, horizon=10, widening=bad)
    with pytest.raises(InvalidParameter, match="reward_variation"):
        Varied(0.1, reward_variation=bad)
