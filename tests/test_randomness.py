"""The random numbers: against an independent reference, the same both ways, of the right laws."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import switchmdp as sm
from switchmdp.compiled import JIT, jit
from switchmdp.errors import InvalidParameter
from switchmdp.randomness import (
    EXPONENTIAL_F,
    EXPONENTIAL_X,
    LAYERS,
    NORMAL_F,
    NORMAL_X,
    SQUEEZE,
    below,
    beta,
    gamma,
    load_words,
    next_exponential,
    next_gamma,
    next_normal,
    next_uniform,
    normal,
    store_words,
    stream,
    uniform,
)

ROOT = Path(__file__).parents[1]
MASK = 2**64 - 1
DRAWS = 100_000
SHAPES = [0.05, 0.5, 0.99, 1.0, 3.7, 250.0]
PARAMETERS = [(0.5, 0.5), (1.0, 1.0), (2.0, 5.0), (30.0, 0.3), (400.0, 600.0)]


def rotate_left(x: int, k: int) -> int:
    return ((x << k) | (x >> (64 - k))) & MASK


def xoshiro256plusplus(words: list[int]) -> Iterator[int]:
    """Blackman and Vigna's generator, in integers of any size."""
    s = list(words)
    while True:
        yield (rotate_left((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate_left(s[3], 45)


@jit
def _fill(which: int, a: float, b: float, words: Any, out: Any) -> None:
    for i in range(out.size):
        if which == 0:
            out[i] = uniform(words)
        elif which == 1:
            out[i] = normal(words)
        elif which == 2:
            out[i] = gamma(words, a)
        elif which == 3:
            out[i] = beta(words, a, b)
        else:
            out[i] = below(words, int(a))


@jit
def _fill_from_tuple(which: int, shape: float, words: Any, out: Any) -> None:
    state = load_words(words)
    for i in range(out.size):
        if which == 0:
            out[i], state = next_uniform(state)
        elif which == 1:
            out[i], state = next_normal(state)
        elif which == 2:
            out[i], state = next_gamma(state, shape)
        else:
            out[i], state = next_exponential(state)
    store_words(words, state)


@jit
def ziggurat_normal(words: Any) -> float:
    x, state = next_normal(load_words(words))
    store_words(words, state)
    return float(x)


@jit
def ziggurat_gamma(words: Any, shape: float) -> float:
    x, state = next_gamma(load_words(words), shape)
    store_words(words, state)
    return float(x)


LAWS = {"uniform": 0, "normal": 1, "gamma": 2, "beta": 3, "below": 4}


def draws(
    law: str, a: float = 0.0, b: float = 0.0, *, seed: int = 0, n: int = DRAWS
) -> NDArray[np.float64]:
    out = np.empty(n)
    with np.errstate(over="ignore"):
        _fill(LAWS[law], a, b, stream(seed), out)
    return out


def test_the_reference_starts_as_published() -> None:
    # The first outputs from the state 1, 2, 3, 4, worked out by hand from the published code.
    assert next(xoshiro256plusplus([1, 2, 3, 4])) == (5 << 23) + 1 == 41943041


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**128 + 7])
def test_uniform_numbers_are_those_of_the_reference(seed: int) -> None:
    reference = xoshiro256plusplus([int(w) for w in stream(seed)])
    expected = [(next(reference) >> 11) / 2**53 for _ in range(2000)]
    assert draws("uniform", seed=seed, n=2000).tolist() == expected


@pytest.mark.parametrize("words", [[1, 2, 3, 4], [MASK] * 4, [0, 0, 0, 1], [MASK, 0, MASK, 1]])
def test_the_words_wrap_around_as_in_the_reference(words: list[int]) -> None:
    reference, state = xoshiro256plusplus(words), np.array(words, np.uint64)
    with np.errstate(over="ignore"):
        numbers = [float(uniform(state)) for _ in range(100)]
    assert numbers == [(next(reference) >> 11) / 2**53 for _ in range(100)]


def test_the_state_of_a_stream_can_be_copied() -> None:
    whole, part = draws("uniform", n=50), stream(0)
    for _ in range(20):
        uniform(part)
    copied = part.copy()
    assert [float(uniform(copied)) for _ in range(30)] == whole[20:].tolist()
    assert [float(uniform(part)) for _ in range(30)] == whole[20:].tolist()


def test_streams_differ_by_seed_and_come_from_the_seed_sequence() -> None:
    assert np.array_equal(stream(3), stream(np.random.SeedSequence(3)))
    assert np.array_equal(stream(3), np.random.SeedSequence(3).generate_state(4, np.uint64))
    assert len({tuple(stream(seed).tolist()) for seed in range(1000)}) == 1000


SCRIPT = """
import numpy as np
from switchmdp.randomness import beta, gamma, normal, stream, uniform
from tests.test_randomness import ziggurat_gamma, ziggurat_normal
shapes, parameters = {shapes}, {parameters}
with np.errstate(over="ignore"):
    for draw, arguments in [
        (uniform, [()]), (normal, [()]), (gamma, shapes), (beta, parameters),
        (ziggurat_normal, [()]), (ziggurat_gamma, shapes),
    ]:
        for given in arguments:
            words = stream(9)
            print(*(float(draw(words, *given)).hex() for _ in range(200)), *words)
"""


@pytest.mark.skipif(not JIT, reason="compares machine code with interpreted code")
def test_interpreted_numbers_are_those_of_machine_code_to_the_last_bit() -> None:
    shapes = [(shape,) for shape in SHAPES]
    parameters = [*PARAMETERS, (1e-4, 1e-4), (1e-300, 2e-300)]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(shapes=shapes, parameters=parameters)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, cwd=ROOT,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    calls = [("uniform", ()), ("normal", ()), *(("gamma", s) for s in shapes)]
    calls += [("beta", p) for p in parameters]
    calls += [("ziggurat-normal", ()), *(("ziggurat-gamma", s) for s in shapes)]
    lines = done.stdout.splitlines()
    assert len(lines) == len(calls)
    for (law, given), line in zip(calls, lines, strict=True):
        words, out = stream(9), np.empty(200)
        a, b = (*given, 0.0, 0.0)[:2]
        if law in LAWS:
            _fill(LAWS[law], a, b, words, out)
        else:
            _fill_from_tuple(1 if law == "ziggurat-normal" else 2, a, words, out)
        assert line.split() == [*(x.hex() for x in out.tolist()), *map(str, words)], (law, given)


def assert_follows(sample: NDArray[np.float64], law: Any) -> None:
    """Mean and variance within five standard errors, the distribution by Kolmogorov-Smirnov."""
    mean, variance, _, excess = law.stats(moments="mvsk")
    assert abs(sample.mean() - mean) <= 5.0 * math.sqrt(variance / len(sample))
    error = variance * math.sqrt((excess + 2.0) / len(sample))
    assert abs(np.mean((sample - mean) ** 2) - variance) <= 5.0 * error
    assert stats.kstest(sample, law.cdf).pvalue > 1e-3


def from_tuple(which: int, shape: float = 0.0, *, seed: int = 0, n: int = DRAWS) -> Any:
    out = np.empty(n)
    with np.errstate(over="ignore"):
        _fill_from_tuple(which, shape, stream(seed), out)
    return out


def test_a_state_in_a_tuple_gives_the_same_uniform_numbers() -> None:
    words, out = stream(4), np.empty(1000)
    with np.errstate(over="ignore"):
        _fill_from_tuple(0, 0.0, words, out)
    expected, more = stream(4), np.empty(1000)
    with np.errstate(over="ignore"):
        _fill(0, 0.0, 0.0, expected, more)
    assert out.tolist() == more.tolist()
    assert words.tolist() == expected.tolist()


def test_uniform_numbers_are_uniform() -> None:
    sample = draws("uniform")
    assert sample.min() >= 0.0
    assert sample.max() < 1.0
    assert_follows(sample, stats.uniform())


def test_uniform_numbers_are_multiples_of_2_to_the_minus_53() -> None:
    scaled = draws("uniform", n=1000) * 2.0**53
    assert (scaled == np.floor(scaled)).all()
    assert (scaled % 2 == 1).any()


def test_successive_uniform_numbers_are_not_correlated() -> None:
    sample = draws("uniform")
    for lag in (1, 2, 3, 4, 7):
        correlation = np.corrcoef(sample[:-lag], sample[lag:])[0, 1]
        assert abs(correlation) <= 5.0 / math.sqrt(DRAWS)


def test_normal_numbers_are_normal() -> None:
    assert_follows(draws("normal"), stats.norm())


@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_numbers_are_gamma(shape: float) -> None:
    sample = draws("gamma", shape, seed=2)
    assert sample.min() >= 0.0
    assert_follows(sample, stats.gamma(shape))


@pytest.mark.parametrize(("a", "b"), PARAMETERS)
def test_beta_numbers_are_beta(a: float, b: float) -> None:
    sample = draws("beta", a, b, seed=3)
    assert sample.min() >= 0.0
    assert sample.max() <= 1.0
    assert_follows(sample, stats.beta(a, b))


@pytest.mark.parametrize(("a", "b"), [(1e-5, 3e-5), (0.001, 0.002), (1e-300, 3e-300)])
def test_beta_numbers_of_tiny_parameters_are_two_valued_with_the_right_mean(
    a: float, b: float
) -> None:
    sample = draws("beta", a, b)
    assert np.isfinite(sample).all()
    assert np.mean((sample > 1e-6) & (sample < 1.0 - 1e-6)) < 0.05
    assert abs(sample.mean() - a / (a + b)) <= 5.0 * math.sqrt(0.25 / DRAWS)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_integers_below_n_are_uniform(n: int) -> None:
    counts = np.bincount(draws("below", n).astype(int), minlength=n)
    assert len(counts) == n
    if n > 1:
        assert stats.chisquare(counts).pvalue > 1e-3


def test_the_largest_uniform_number_stays_below_n() -> None:
    assert all(int((1.0 - 2.0**-53) * n) == n - 1 for n in (1, 2, 3, 10, 2**31 - 1, 2**52))


MORE = 1_000_000  # enough to see an error of one layer, which holds a share of 1/256


def areas(widths: Any, heights: Any) -> Any:
    """The area of each layer but the lowest."""
    return widths[1:-1] * np.diff(heights[1:])


def test_all_layers_of_a_ziggurat_have_the_same_area() -> None:
    """Against the error function and the exponential function of the standard library."""
    tail = math.sqrt(math.pi / 2) * math.erfc(NORMAL_X[1] / math.sqrt(2))
    lowest = NORMAL_X[1] * NORMAL_F[1] + tail
    np.testing.assert_allclose(areas(NORMAL_X, NORMAL_F), lowest, rtol=1e-12)
    assert pytest.approx(lowest, rel=1e-15) == NORMAL_X[0] * NORMAL_F[1]
    np.testing.assert_allclose(NORMAL_F[1:], np.exp(-0.5 * NORMAL_X[1:] ** 2), rtol=1e-14)
    lowest = (EXPONENTIAL_X[1] + 1.0) * EXPONENTIAL_F[1]
    np.testing.assert_allclose(areas(EXPONENTIAL_X, EXPONENTIAL_F), lowest, rtol=1e-12)
    assert pytest.approx(lowest, rel=1e-15) == EXPONENTIAL_X[0] * EXPONENTIAL_F[1]
    np.testing.assert_allclose(EXPONENTIAL_F[1:], np.exp(-EXPONENTIAL_X[1:]), rtol=1e-14)
    for widths in (NORMAL_X, EXPONENTIAL_X):
        assert widths.size == LAYERS + 1
        assert (np.diff(widths) < 0.0).all()
        assert widths[-1] == 0.0


def test_the_tables_of_a_ziggurat_are_the_same_on_every_machine() -> None:
    tables = b"".join(t.tobytes() for t in (NORMAL_X, NORMAL_F, EXPONENTIAL_X, EXPONENTIAL_F))
    assert hashlib.sha256(tables).hexdigest()[:16] == TABLES


def ziggurat_of_the_reference(words: list[int], n: int) -> list[float]:
    """Normal numbers by the ziggurat, literally: a point of a layer, below the density or not."""
    bits = xoshiro256plusplus(words)
    numbers: list[float] = []

    def unit() -> float:
        return (next(bits) >> 11) / 2**53

    while len(numbers) < n:
        word = next(bits)
        i, sign = word % 256, -1.0 if word // 256 % 2 else 1.0
        x = (word >> 11) / 2**53 * float(NORMAL_X[i])
        if x < NORMAL_X[i + 1]:
            numbers.append(sign * x)
        elif i == 0:
            x, y = -math.log(1.0 - unit()) / float(NORMAL_X[1]), -math.log(1.0 - unit())
            if y + y >= x * x:
                numbers.append(sign * (float(NORMAL_X[1]) + x))
        else:
            low, high = float(NORMAL_F[i]), float(NORMAL_F[i + 1])
            if low + unit() * (high - low) < math.exp(-0.5 * x * x):
                numbers.append(sign * x)
    return numbers


def test_ziggurat_numbers_are_those_of_the_literal_method() -> None:
    words = stream(5)
    expected = ziggurat_of_the_reference([int(w) for w in words], 100_000)
    assert from_tuple(1, seed=5, n=100_000).tolist() == expected
    assert max(map(abs, expected)) > NORMAL_X[1], "no number came from the tail"


def test_ziggurat_normal_numbers_are_normal() -> None:
    sample = from_tuple(1, seed=11, n=MORE)
    assert_follows(sample, stats.norm())
    beyond = np.mean(np.abs(sample) > NORMAL_X[1])
    share = math.erfc(NORMAL_X[1] / math.sqrt(2))
    assert abs(beyond - share) <= 5.0 * math.sqrt(share / MORE)
    tail = np.abs(sample)[np.abs(sample) > 3.0]
    assert stats.kstest(tail, lambda x: 1.0 - stats.norm.sf(x) / stats.norm.sf(3.0)).pvalue > 1e-3


def test_ziggurat_exponential_numbers_are_exponential() -> None:
    sample = from_tuple(3, seed=12, n=MORE)
    assert sample.min() >= 0.0
    assert_follows(sample, stats.expon())
    tail = sample[sample > 5.0] - 5.0
    assert (tail > EXPONENTIAL_X[1] - 5.0).any()
    assert stats.kstest(tail, stats.expon().cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [0.01, 0.05, 0.5, 0.99, 1.0, 1.3, 2.0, 3.7, 250.0, 1e5])
def test_ziggurat_gamma_numbers_are_gamma(shape: float) -> None:
    sample = from_tuple(2, shape, seed=13)
    assert sample.min() >= 0.0
    if shape > 0.05:
        assert_follows(sample, stats.gamma(shape))
        return
    # Tiny numbers underflow: compare what does not, and how much there is of it.
    seen, law = sample > 1e-300, stats.gamma(shape)
    share = law.sf(1e-300)
    assert abs(seen.mean() - share) <= 5.0 * math.sqrt(share * (1.0 - share) / DRAWS)
    assert stats.kstest(sample[seen], lambda x: 1.0 - law.sf(x) / share).pvalue > 1e-3


@pytest.mark.parametrize("d", [2 / 3, 0.7, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 100.0, 1e4, 1e8])
def test_the_squeeze_of_the_gamma_numbers_accepts_only_what_the_exact_test_accepts(
    d: float,
) -> None:
    c = 1.0 / math.sqrt(9.0 * d)
    x = np.linspace(max(-1.0 / c + 1e-9, -40.0), 40.0, 400_001)
    v = (1.0 + c * x) ** 3
    f = 0.5 * x * x + d * (1.0 - v + np.log(v))
    lower = 1.0 - SQUEEZE * (c * x * x) ** 2
    assert (lower <= np.exp(f) + 1e-9 * d).all()


@pytest.mark.parametrize("shape", [0.2, 1.0, 40.0])
def test_both_gamma_generators_have_the_same_law(shape: float) -> None:
    one, other = from_tuple(2, shape, seed=14), draws("gamma", shape, seed=15)
    assert stats.ks_2samp(one, other).pvalue > 1e-3


TABLES = "a83b2efe0110649f"


@pytest.mark.parametrize("seed", [-1, 1.0, True, None, "1"])
def test_a_stream_needs_a_seed_that_is_not_negative(seed: Any) -> None:
    for use in (stream, sm.agents.Random(2, 2).reseed, sm.agents.EvidencePSRL(2, 2).reseed):
        with pytest.raises(
            InvalidParameter, match="seed must be an integer >= 0 or a SeedSequence"
        ):
            use(seed)
