"""Random numbers whose state is four words that callers can read, copy and pass on.

xoshiro256++ (Blackman and Vigna 2019), seeded by NumPy's `SeedSequence`. The same stream comes out
of interpreted and machine code, draw for draw, and costs machine code about a nanosecond.
The draws built on it use only `sqrt`, `log` and `exp`, which agree to the bit both ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from switchmdp.compiled import inlined, jit

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

    >>> stream(0).dtype, len(stream(0))
    (dtype('uint64'), 4)
    """
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return sequence.generate_state(4, np.uint64).astype(np.uint64)


def run_seeds(seed: int) -> list[np.random.SeedSequence]:
    """The seeds of a run's rewards, of its moves and of its agent, all from one.

    >>> rewards, moves, agent = run_seeds(0)
    """
    return [run_seed(seed, key) for key in range(3)]


def run_seed(seed: int, key: int) -> np.random.SeedSequence:
    """One of `run_seeds`."""
    # As SeedSequence(seed).spawn(3)[key], without the work of making the parent.
    return np.random.SeedSequence(seed, spawn_key=(key,))


def streams_of_runs(seeds: Sequence[int], key: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """`stream(run_seed(seed, key))` for many seeds below 2¹²⁸, one row each.

    It computes what `SeedSequence` computes, for all seeds at once: 1 µs each for a hundred of
    them, instead of 8 µs for an object that computes one.

    >>> bool((streams_of_runs([7, 2**50], 1)[1] == stream(run_seed(2**50, 1))).all())
    True
    """
    data = b"".join(seed.to_bytes(16, "little") for seed in seeds)
    words = np.frombuffer(data, "<u4").reshape(-1, 4).T.astype(np.uint32)
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
        pool[j] = mixed(pool[j], hashed(np.full(len(seeds), key, np.uint32)))
    state, constant = np.empty((len(seeds), 8), np.uint32), _INIT_B
    for j in range(8):
        value = pool[j % 4] ^ np.uint32(constant)
        constant = constant * _MULT_B & _MASK
        value = value * np.uint32(constant)
        state[:, j] = value ^ (value >> np.uint32(16))
    return state.astype("<u4").view("<u8").astype(np.uint64)


@inlined
def next_uniform(state: Any) -> Any:
    """(a number in [0, 1), the next state) of a stream whose four words are a tuple.

    The functions `next_…` have the same streams as those that take an array. A loop that makes many
    draws keeps the tuple in registers, which saves a fifth to a quarter of their time. They are for
    machine code only: as arguments from Python, the words would lose their type.
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
    return float(result >> _11) * _TO_UNIT, (s0, s1, s2, s3)


@inlined
def load_words(words: Any) -> Any:
    """The state of a stream as a tuple."""
    return words[0], words[1], words[2], words[3]


@inlined
def store_words(words: Any, state: Any) -> None:
    """Write a tuple back into the words of a stream."""
    words[0], words[1], words[2], words[3] = state


@jit
def uniform(words: Any) -> float:
    """A number in [0, 1), a multiple of 2⁻⁵³; advances the words.

    >>> words = stream(0)
    >>> 0.0 <= uniform(words) < 1.0
    True
    """
    u, state = next_uniform(load_words(words))
    store_words(words, state)
    return float(u)


@jit
def below(words: Any, n: int) -> int:
    """An integer in 0..n-1, uniform up to 2⁻⁵³·n."""
    return int(uniform(words) * n)


@inlined
def next_normal(state: Any) -> Any:
    """A standard normal number (Marsaglia's polar method; the second of the pair is dropped)."""
    while True:
        x, state = next_uniform(state)
        y, state = next_uniform(state)
        x, y = 2.0 * x - 1.0, 2.0 * y - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square), state


@jit
def normal(words: Any) -> float:
    """A standard normal number."""
    x, state = next_normal(load_words(words))
    store_words(words, state)
    return float(x)


@inlined
def next_gamma(state: Any, shape: float) -> Any:
    """A Gamma(shape, 1) number (Marsaglia and Tsang 2000), shape > 0."""
    boost = 1.0
    if shape < 1.0:
        u, state = next_uniform(state)
        boost = math.exp(math.log(1.0 - u) / shape)
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
        # Their squeeze implies the test that follows, and nine times in ten needs no logarithm.
        if u < 1.0 - 0.0331 * (x * x) * (x * x):
            return d * v * boost, state
        if math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * boost, state


@jit
def gamma(words: Any, shape: float) -> float:
    """A Gamma(shape, 1) number, shape > 0."""
    x, state = next_gamma(load_words(words), shape)
    store_words(words, state)
    return float(x)


FEW = 5  # up to this shape, a sum of exponential numbers is faster


@inlined
def next_gamma_of_count(state: Any, shape: float) -> Any:
    """A Gamma(shape, 1) number, shape >= 1, faster if the shape is a small whole number.

    It is then a sum of exponential numbers: one logarithm of a product of uniform ones.
    """
    if shape > FEW or shape != math.floor(shape):
        return next_gamma(state, shape)
    product = 1.0
    for _ in range(int(shape)):
        u, state = next_uniform(state)
        product *= 1.0 - u
    return -math.log(product), state


@jit
def beta(words: Any, a: float, b: float) -> float:
    """A Beta(a, b) number, a, b > 0."""
    x = gamma(words, a)
    y = gamma(words, b)
    if x + y == 0.0:
        # Both underflowed, which happens for a, b far below 1: the law is then nearly two-valued.
        return 1.0 if uniform(words) * (a + b) < a else 0.0
    return x / (x + y)
