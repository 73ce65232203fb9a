"""Random numbers whose state is four words that callers can read, copy and pass on.

xoshiro256++ (Blackman and Vigna 2019), seeded by NumPy's `SeedSequence`. The same stream comes out
of interpreted and machine code, draw for draw, and costs machine code about a nanosecond.
The draws built on it use only `sqrt`, `log` and `exp`, which agree to the bit both ways.

There are two generators of normal and gamma numbers. `normal`, `gamma` and `beta` use Marsaglia's
polar method; the rewards of problems are drawn with them, so that their streams stay what they are.
`next_normal`, `next_exponential` and `next_gamma` use the ziggurat method (Marsaglia and Tsang
2000), which needs no logarithm in 99 of 100 draws: posteriors are drawn with them.

**The ziggurat.** The area below a decreasing density f is covered by 256 layers of equal area v.
Layer i > 0 is the rectangle of width x_i from height f(x_i) to f(x_{i+1}); layer 0 is the rectangle
of width x_1 and height f(x_1) together with the tail beyond x_1, drawn as if it had the width
x_0 = v / f(x_1). A point of a layer is drawn: x uniform below x_i. If x < x_{i+1} it lies below the
density, whatever its height. Otherwise its height decides, or the tail is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.compiled import inlined, jit
from switchmdp.errors import InvalidParameter

_0 = np.uint64(0)
_1 = np.uint64(1)
_17 = np.uint64(17)
_23 = np.uint64(23)
_45 = np.uint64(45)
_11 = np.uint64(11)
_64 = np.uint64(64)
_TO_UNIT = 2.0**-53
# The constants of `SeedSequence` (O'Neill 2015).
_INIT_A, _MULT_A, _INIT_B, _MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R, _MASK = np.uint32(0xCA01F9DD), np.uint32(0x4973F715), 2**32 - 1


def stream(seed: int | np.random.SeedSequence) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The four words of state of a new stream.

    Parameters
    ----------
    seed
        An integer or a numpy `SeedSequence`.

    Returns
    -------
    numpy.ndarray
        The state, which the draws change.

    Raises
    ------
    InvalidParameter
        If the seed is neither.

    Examples
    --------
    >>> stream(0).dtype, len(stream(0))
    (dtype('uint64'), 4)
    """
    if not isinstance(seed, np.random.SeedSequence):
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise InvalidParameter("seed", seed, "an integer >= 0 or a SeedSequence")
        seed = np.random.SeedSequence(int(seed))
    return seed.generate_state(4, np.uint64).astype(np.uint64)


def run_seeds(seed: int) -> list[np.random.SeedSequence]:
    """The seeds of the rewards, of the transitions and of the agent of a run.

    Parameters
    ----------
    seed
        The seed of the run.

    Returns
    -------
    list[np.random.SeedSequence]
        One seed for each.

    Examples
    --------
    >>> rewards, moves, agent = run_seeds(0)
    """
    return [run_seed(seed, key) for key in range(3)]


def run_seed(seed: int, key: int) -> np.random.SeedSequence:
    """One of `run_seeds`.

    Parameters
    ----------
    seed
        The seed of the run.
    key
        0 for the rewards, 1 for the transitions, 2 for the agent.

    Returns
    -------
    np.random.SeedSequence
        The seed.
    """
    # As SeedSequence(seed).spawn(3)[key], without the work of making the parent.
    return np.random.SeedSequence(seed, spawn_key=(key,))


def streams_of_runs(seeds: Sequence[int]) -> NDArray[np.uint64]:
    """`stream(run_seed(seed, key))` as row [key, i], for many seeds below 2¹²⁸ and all three keys.

    It computes what `SeedSequence` computes, for all seeds at once: 1 µs each for a hundred of
    them, instead of 8 µs for an object that computes one.

    Parameters
    ----------
    seeds
        The seeds of the runs.

    Returns
    -------
    NDArray[np.uint64]
        The states of the streams, an array (3, runs, 4).

    Examples
    --------
    >>> bool((streams_of_runs([7, 2**50])[1, 0] == stream(run_seed(7, 1))).all())
    True
    """
    data = b"".join(seed.to_bytes(16, "little") for seed in seeds) * 3
    words = np.frombuffer(data, "<u4").reshape(-1, 4).T.astype(np.uint32)
    keys = np.repeat(np.arange(3, dtype=np.uint32), len(seeds))
    constant = _INIT_A

    def hashed(value: Any) -> Any:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * _MULT_A & _MASK
        value = value * np.uint32(constant)
        return value ^ (value >> np.uint32(16))

    def mixed(x: Any, y: Any) -> Any:
        result = x * _MIX_L - y * _MIX_R
        return result ^ (result >> np.uint32(16))

    pool = [hashed(word) for word in words]
    for i in range(4):
        for j in range(4):
            if i != j:
                pool[j] = mixed(pool[j], hashed(pool[i]))
    for j in range(4):
        pool[j] = mixed(pool[j], hashed(keys))
    state, constant = np.empty((len(keys), 8), np.uint32), _INIT_B
    for j in range(8):
        value = pool[j % 4] ^ np.uint32(constant)
        constant = constant * _MULT_B & _MASK
        value = value * np.uint32(constant)
        state[:, j] = value ^ (value >> np.uint32(16))
    return state.astype("<u4").view("<u8").astype(np.uint64).reshape(3, len(seeds), 4)


@inlined
def next_word(state: Any) -> Any:
    """64 random bits, and the next state of a stream whose four words are a tuple.

    The functions `next_…` keep the state in registers, which saves a loop that makes many draws a
    fifth to a quarter of their time. They are for machine code only: as arguments from Python, the
    words would lose their type.

    Parameters
    ----------
    state
        The state of the stream, a tuple.

    Returns
    -------
    Any
        The bits and the next state.
    """
    s0, s1, s2, s3 = state
    total = s0 + s3
    result = ((total << _23) | (total >> (_64 - _23))) + s0
    shifted = s1 << _17
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << _45) | (s3 >> (_64 - _45))
    return result, (s0, s1, s2, s3)


@inlined
def next_uniform(state: Any) -> Any:
    """A number in [0, 1), the same as that of `uniform`, and the next state.

    Parameters
    ----------
    state
        The state of the stream, a tuple.

    Returns
    -------
    Any
        The number and the next state.
    """
    word, state = next_word(state)
    return float(word >> _11) * _TO_UNIT, state


@inlined
def load_words(words: Any) -> Any:
    """The state of a stream as a tuple.

    Parameters
    ----------
    words
        The state of a stream, an array.

    Returns
    -------
    Any
        The same state as a tuple.
    """
    return words[0], words[1], words[2], words[3]


@inlined
def store_words(words: Any, state: Any) -> None:
    """Write the state of a stream back into its array.

    Parameters
    ----------
    words
        The array.
    state
        The state, a tuple.
    """
    words[0], words[1], words[2], words[3] = state


@jit
def uniform(words: Any) -> float:
    """A number in [0, 1), a multiple of 2⁻⁵³; advances the words.

    Parameters
    ----------
    words
        The state of the stream.

    Returns
    -------
    float
        The number.

    Examples
    --------
    >>> words = stream(0)
    >>> 0.0 <= uniform(words) < 1.0
    True
    """
    u, state = next_uniform(load_words(words))
    store_words(words, state)
    return float(u)


@jit
def below(words: Any, n: int) -> int:
    """An integer in 0..n-1, uniform up to 2⁻⁵³·n.

    Parameters
    ----------
    words
        The state of the stream.
    n
        The number of values.

    Returns
    -------
    int
        The integer.
    """
    return int(uniform(words) * n)


@jit
def normal(words: Any) -> float:
    """A standard normal number (Marsaglia's polar method; the second of the pair is dropped).

    Parameters
    ----------
    words
        The state of the stream.

    Returns
    -------
    float
        The number.
    """
    state = load_words(words)
    while True:
        x, state = next_uniform(state)
        y, state = next_uniform(state)
        x, y = 2.0 * x - 1.0, 2.0 * y - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            store_words(words, state)
            return float(x * math.sqrt(-2.0 * math.log(square) / square))


@jit
def gamma(words: Any, shape: float) -> float:
    """A Gamma(shape, 1) number (Marsaglia and Tsang 2000), shape > 0.

    Parameters
    ----------
    words
        The state of the stream.
    shape
        The shape, above 0.

    Returns
    -------
    float
        The number.
    """
    boost = 1.0
    if shape < 1.0:
        boost = math.exp(math.log(1.0 - uniform(words)) / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(words)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = 1.0 - uniform(words)
        # Their squeeze implies the test that follows, and nine times in ten needs no logarithm.
        if u < 1.0 - 0.0331 * (x * x) * (x * x):
            return d * v * boost
        if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * boost


@jit
def beta(words: Any, a: float, b: float) -> float:
    """A Beta(a, b) number, a, b > 0.

    Parameters
    ----------
    words
        The state of the stream.
    a, b
        The parameters, above 0.

    Returns
    -------
    float
        The number.
    """
    x = gamma(words, a)
    y = gamma(words, b)
    if x + y == 0.0:
        # Both underflowed, which happens for a, b far below 1: the law is then nearly two-valued.
        return 1.0 if uniform(words) * (a + b) < a else 0.0
    return x / (x + y)


LAYERS = 256
DIGITS = 24
NORMAL_EDGE = Decimal("3.6541528853610087963519472518")
EXPONENTIAL_EDGE = Decimal("7.6971174701310497140446280481")


def _layers(
    edge: Decimal, height: Decimal, tail: Decimal, inverse: Callable[[Decimal], Decimal]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(x_0 … x_256, f(x_0) … f(x_256)) of the layers whose first has this edge, height and tail."""
    area = edge * height + tail
    # The height at x_0 is never used.
    widths, heights = [area / height, edge], [Decimal(0), height]
    for _ in range(LAYERS - 2):
        heights.append(heights[-1] + area / widths[-1])
        widths.append(inverse(heights[-1]))
    widths, heights = [*widths, Decimal(0)], [*heights, Decimal(1)]
    return np.array([float(x) for x in widths]), np.array([float(y) for y in heights])


def _tables() -> tuple[NDArray[np.float64], ...]:
    """The layers of the normal and of the exponential density.

    Decimal numbers are the same on every machine; a platform's `exp` may differ in the last bit.
    """
    with localcontext(Context(prec=DIGITS)):
        edge = NORMAL_EDGE
        height, fraction = (-edge * edge / 2).exp(), edge
        for k in range(100, 0, -1):  # Laplace's continued fraction of the tail
            fraction = edge + k / fraction
        normal_layers = _layers(edge, height, height / fraction, lambda y: (-2 * y.ln()).sqrt())
        height = (-EXPONENTIAL_EDGE).exp()
        exponential_layers = _layers(EXPONENTIAL_EDGE, height, height, lambda y: -y.ln())
    return *normal_layers, *exponential_layers


NORMAL_X, NORMAL_F, EXPONENTIAL_X, EXPONENTIAL_F = _tables()
EDGE = float(NORMAL_X[1])
FAR = float(EXPONENTIAL_X[1])
_LAYER = np.uint64(LAYERS - 1)
_SIGN = np.uint64(LAYERS)


@inlined
def next_normal(state: Any) -> Any:
    """A standard normal number, and the next state.

    Parameters
    ----------
    state
        The state of the stream, a tuple.

    Returns
    -------
    Any
        The number and the next state.
    """
    while True:
        word, state = next_word(state)  # bits 0-7: the layer; 8: the sign; 11-63: the point
        layer = word & _LAYER
        x = float(word >> _11) * _TO_UNIT * NORMAL_X[layer]
        sign = -1.0 if word & _SIGN else 1.0
        if x < NORMAL_X[layer + _1]:
            return sign * x, state
        u, state = next_uniform(state)
        if layer == _0:
            # Marsaglia's tail: x beyond the edge, with an exponential number as the proposal.
            w, state = next_uniform(state)
            x = -math.log(1.0 - u) / EDGE
            if -2.0 * math.log(1.0 - w) >= x * x:
                return sign * (EDGE + x), state
        else:
            low, high = NORMAL_F[layer], NORMAL_F[layer + _1]
            if low + u * (high - low) < math.exp(-0.5 * x * x):
                return sign * x, state


@inlined
def next_exponential(state: Any) -> Any:
    """A number with the standard exponential law, and the next state.

    Parameters
    ----------
    state
        The state of the stream, a tuple.

    Returns
    -------
    Any
        The number and the next state.
    """
    beyond = 0.0
    while True:
        word, state = next_word(state)
        layer = word & _LAYER
        x = float(word >> _11) * _TO_UNIT * EXPONENTIAL_X[layer]
        if x < EXPONENTIAL_X[layer + _1]:
            return beyond + x, state
        if layer == _0:
            beyond += FAR  # the tail is the same law again
            continue
        u, state = next_uniform(state)
        low, high = EXPONENTIAL_F[layer], EXPONENTIAL_F[layer + _1]
        if low + u * (high - low) < math.exp(-x):
            return beyond + x, state


SQUEEZE = 0.199


@inlined
def next_gamma(state: Any, shape: float) -> Any:
    """A Gamma(shape, 1) number, and the next state.

    Marsaglia and Tsang (2000): d v is accepted with probability exp(f), where

        d = shape - 1/3,  c = 1 / √(9d),  v = (1 + c x)³,  f = x²/2 + d (1 - v + log v).

    Since f is about -x⁴ / (108 d), their squeeze u < 1 - 0.0331 x⁴, which saves the logarithms, is
    too strict for large shapes. Here it is u < 1 - 0.199 (c x²)² <= exp(f) for all d >= 2/3.

    For a shape a < 1 a Gamma(1 + a) number is multiplied by U^(1/a), and -log U is exponential.

    Parameters
    ----------
    state
        The state of the stream, a tuple.
    shape
        The shape, above 0.

    Returns
    -------
    Any
        The number and the next state.
    """
    boost = 1.0
    if shape < 1.0:
        x, state = next_exponential(state)
        boost = math.exp(-x / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x, state = next_normal(state)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u, state = next_uniform(state)
        u = 1.0 - u
        square = x * x
        if u < 1.0 - SQUEEZE * (c * square) * (c * square):
            return d * v * boost, state
        if math.log(u) < 0.5 * square + d - d * v + d * math.log(v):
            return d * v * boost, state
