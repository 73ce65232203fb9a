"""Configurations with random errors, as from typing mistakes, scripts or bad disks.

`mutated(i)` is the i-th mutated text; it is always the same. Reading and checking it ends soon,
with a plan that can be stored or with a list of errors.
"""

from __future__ import annotations

import re
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.workbench import run

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments.plan import block_sizes, check
from switchmdp.experiments.spec import load, shipped
from switchmdp.experiments.store import digest_of

SMALL = """\
title = "small"
horizon = 50
n_problems = 1
seed = 3
initial_state = 0
epsilon = 0.1

[problems.swept]
problem = "random-switching"
parameters = { n_states = 3, n_actions = 2, changes = { sweep = [0, 2] }, rows = "uniform" }

[problems.river]
problem = "riverswim"
parameters = { n_states = 4, law = { choice = "beta", share = 0.5 } }

[problems.sparse]
problem = "random-sparse"
parameters = { n_states = 8, n_actions = 2, successors = 3 }

[agents.window]
agent = "sw-ucrl"
parameters = { window = { sweep = [20, { formula = "horizon", times = 0.5 }] }, delta = 0.1 }

[agents.chance]
agent = "random"

[[claims]]
quote = "q"
reading = "r"
measure = "better"
setting = "river"
agent = "chance"
than = "window [window=20]"
margin = 0.5
span = 10
"""
NUMBERS = (
    "0", "-1", "1", "2", "7", "1000", "1000000", "1000000000", "9223372036854775808",
    "1" + "0" * 30, "1" + "0" * 5000, "0.5", "-0.0", "1e-320", "1e308", "1e999", "inf", "-inf",
    "nan", "0x10", "1_0", "0001",
)  # fmt: skip
VALUES = (
    '"7"', '""', "true", "[]", "{}", "[1, 2]", "[[]]", "1979-05-27", "07:32:00", "'\\'",
    '"\\u0000"', '"a\\nb"', '"é"', '"' + "x" * 300 + '"', "{ a = 1 }", "[{}, []]", "none", "=",
)  # fmt: skip
TABLES = (
    "{ sweep = [1, 2] }", "{ sweep = [] }", "{ sweep = 3 }", "{ sweep = [1], more = 2 }",
    "{ sweep = [1, 1] }", "{ sweep = [{ sweep = [1] }] }", "{ sweep = [[1], [[2]]] }",
    "{ sweep = [" + "1, " * 1001 + "2] }", '{ sweep = ["a", 1.5, true] }',
    '{ formula = "horizon" }', '{ formula = "no-such" }', "{ formula = 3 }", "{ formula = [] }",
    '{ formula = "horizon", times = inf }', '{ formula = "horizon", times = 1e300 }',
    '{ formula = "optimal-window", diameter = "exact", times = nan }',
    '{ formula = "optimal-window", diameter = [1] }', '{ formula = "changes", plus = -1 }',
    '{ formula = "changes", plus = 1000000000000 }', '{ formula = "change-points" }',
    '{ formula = { formula = "horizon" } }', '{ choice = "beta", share = nan }',
    '{ choice = "uniform", x = 1 }', "{ choice = [] }", '{ choice = "even" }',
)  # fmt: skip
DEPTHS = (10, 100, 260, 320, 500, 1000, 3000)
MOST_MEMORY = 8 << 30  # bytes of address space beyond what is in use

Random = np.random.Generator
NUMBER = re.compile(rb"(?<![\w.-])\d[\d_]*(\.\d+)?")
VALUE = re.compile(rb"(?<= = )(\"[^\"\n]*\"|\d[\d_.]*|\{[^\n]*\}|\[[^\n]*\])")
WORD = re.compile(rb"[A-Za-z][\w-]*")


def _replaced(text: bytes, where: re.Pattern[bytes], by: bytes, rng: Random) -> bytes:
    matches = list(where.finditer(text))
    if not matches:
        return text
    match = matches[int(rng.integers(len(matches)))]
    return text[: match.start()] + by + text[match.end() :]


def _one_of(options: tuple[str, ...], rng: Random) -> bytes:
    return options[int(rng.integers(len(options)))].encode()


def flip_a_bit(text: bytes, rng: Random) -> bytes:
    damaged = bytearray(text)
    damaged[int(rng.integers(len(text)))] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def cut(text: bytes, rng: Random) -> bytes:
    first, last = sorted(rng.integers(0, len(text) + 1, 2).tolist())
    return text[:first] if rng.random() < 0.3 else text[:first] + text[min(last, first + 40) :]


def shuffle_lines(text: bytes, rng: Random) -> bytes:
    lines = text.split(b"\n")
    i, j = rng.integers(len(lines), size=2).tolist()
    what = int(rng.integers(3))
    if what == 0:
        del lines[i]
    elif what == 1:
        lines.insert(j, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return b"\n".join(lines)


def change_a_number(text: bytes, rng: Random) -> bytes:
    return _replaced(text, NUMBER, _one_of(NUMBERS, rng), rng)


def change_a_value(text: bytes, rng: Random) -> bytes:
    return _replaced(text, VALUE, _one_of(NUMBERS + VALUES, rng), rng)


def insert_a_table(text: bytes, rng: Random) -> bytes:
    return _replaced(text, VALUE if rng.random() < 0.5 else NUMBER, _one_of(TABLES, rng), rng)


def rename(text: bytes, rng: Random) -> bytes:
    words = WORD.findall(text)
    other = words[int(rng.integers(len(words)))]
    return _replaced(text, WORD, other if rng.random() < 0.7 else other.upper() + b"_", rng)


def nest(text: bytes, rng: Random) -> bytes:
    n = int(DEPTHS[int(rng.integers(len(DEPTHS)))])
    what = int(rng.integers(4))
    if what == 0:
        return _replaced(text, VALUE, b"[" * n + b"]" * n, rng)
    if what == 1:
        return _replaced(text, VALUE, b"{ a = " * n + b"1" + b" }" * n, rng)
    line = b".".join([b"a"] * n)
    return shuffle_lines(text, rng) + (b"\n[%b]\n" % line if what == 2 else b"\n%b = 1\n" % line)


MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    flip_a_bit, cut, shuffle_lines, change_a_number, change_a_value, insert_a_table, rename, nest,
)  # fmt: skip


def mutated(i: int) -> bytes:
    """The i-th mutated configuration; the kinds of mutations alternate."""
    rng = np.random.default_rng([6, i])
    text = (shipped()["figure-1"] if i % 3 == 0 else SMALL).encode()
    text = MUTATIONS[i % len(MUTATIONS)](text, rng)
    for _ in range(max(0, int(rng.integers(-2, 3)))):
        text = MUTATIONS[int(rng.integers(len(MUTATIONS)))](text, rng) if text else text
    return text


@contextmanager
def within_limits(seconds: int = 60) -> Iterator[None]:
    """A time limit that holds even for code that catches all exceptions, and a memory limit."""

    def ring(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, hard))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def judge(file: Path) -> str:
    """Read and check a configuration as a run does before it starts."""
    try:
        plan = check(load(file)[0])
        digest_of(plan)
        block_sizes(plan)
    except InvalidExperiment as error:
        return "rejected" if error.faults and str(error) else "rejected without a word"
    return "in order"


def mutated_configurations(scratch: Path, count: int) -> str:
    """Check `count` mutated configurations, one in a hundred through the command line."""
    file, wrong = scratch / "spoilt.toml", []
    progress: Counter[str] = Counter()
    slowest = (0.0, 0)
    for i in range(count):
        file.write_bytes(mutated(i))
        began = time.perf_counter()
        try:
            with within_limits():
                progress[judge(file)] += 1
        except (KeyboardInterrupt, Exception) as error:
            wrong.append(f"#{i}: {type(error).__name__}: {str(error)[:200]}")
        slowest = max(slowest, (time.perf_counter() - began, i))
    complaints = [_through_the_command_line(scratch, i) for i in range(0, count, 100)]
    wrong += [complaint for complaint in complaints if complaint]
    assert not wrong, "\n".join(wrong)
    assert progress["rejected"] + progress["in order"] == count
    return (
        f"{count} mutated configurations: {progress['rejected']} rejected with their faults, "
        f"{progress['in order']} in order, the slowest (#{slowest[1]}) in {slowest[0]:.1f} s; "
        f"{len(complaints)} of them through the command line: exit code 2, no traceback"
    )


def _through_the_command_line(scratch: Path, i: int) -> str:
    """Run the next invalid configuration; describes a wrong answer, or is empty."""
    file, never = scratch / "spoilt.toml", scratch / "never"
    while True:
        file.write_bytes(mutated(i))
        with within_limits():
            if judge(file) == "rejected":
                break
        i += 1
    done = run("run", file, "--out", never, "--quiet")
    fine = done.returncode == 2 and "in the configuration:" in done.stderr and not never.exists()
    return "" if fine and "Traceback" not in done.stderr else f"#{i}: {done.stderr[-500:]}"
