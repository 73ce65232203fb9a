"""Only the outermost function is optimised and emitted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from switchmdp.compiled import JIT, _cached, compiler, jit, patient
from switchmdp.compiled.compiler import OuterFunction, _Library

pytestmark = pytest.mark.skipif(not JIT, reason="without machine code there is no compiler")


@pytest.fixture
def optimised(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that were optimised as a module."""
    names: list[str] = []
    original = _Library.__mro__[1]._optimize_final_module

    def note(library: Any) -> None:
        names.append(library.name.rpartition(".")[2])
        original(library)

    monkeypatch.setattr(_Library.__mro__[1], "_optimize_final_module", note)
    return names


def test_an_outer_function_is_optimised_once_together_with_its_callees(
    optimised: list[str],
) -> None:
    @jit
    def square(x: float) -> float:
        return x * x

    @jit
    def cube(x: float) -> float:
        return x * square(x)

    def both(x: float) -> float:
        return cube(x) + square(x)

    assert OuterFunction(both)(3.0) == 36.0
    assert optimised == ["both"]


def test_python_can_call_an_inner_function_before_and_after_machine_code_did() -> None:
    @jit
    def half(x: float) -> float:
        return x / 2.0

    assert half(3.0) == 1.5
    assert OuterFunction(lambda x: half(x) + 1.0)(3.0) == 2.5
    assert half(5.0) == 2.5
    assert half(4) == 2.0  # other types compile another version


def test_an_outer_function_inside_another_works_in_both_places(optimised: list[str]) -> None:
    def inner(x: float) -> float:
        return x + 1.0

    plus_one = OuterFunction(inner)

    def outer(x: float) -> Any:
        return 2.0 * plus_one(x)

    assert OuterFunction(outer)(2.0) == 6.0
    assert plus_one(2.0) == 3.0
    assert optimised == ["inner", "outer"]


def test_an_outer_function_that_another_loads_from_disk_can_be_called_from_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def triple(x: float) -> float:
        return 3.0 * x

    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path / "cache"))
    assert _cached(triple, "_triple", "some sources")(2.0) == 6.0
    stored = _cached(triple, "_triple", "some sources")

    def outer(x: float) -> Any:
        return stored(x) + 1.0

    assert OuterFunction(outer)(2.0) == 7.0
    assert sum(stored.stats.cache_hits.values()) == 1
    assert stored(3.0) == 9.0


def test_functions_of_other_packages_are_compiled_as_usual(optimised: list[str]) -> None:
    @jit
    def ours(x: float) -> float:
        return x - 1.0

    @numba.njit  # type: ignore[untyped-decorator]  # Numba ships no types
    def theirs(x: float) -> float:
        return ours(x) * 10.0

    assert theirs(3.0) == 20.0
    assert OuterFunction(lambda x: theirs(x))(2.0) == 10.0
    assert ours(1.5) == 0.5
    assert optimised.count("theirs") == 1


def test_python_can_call_a_function_of_another_package_after_ours_called_it() -> None:
    @numba.njit  # type: ignore[untyped-decorator]  # Numba ships no types
    def theirs(x: float) -> float:
        return x * 10.0

    assert OuterFunction(lambda x: theirs(x))(2.0) == 20.0
    assert theirs(3.0) == 30.0


def test_threads_can_compile_at_the_same_time() -> None:
    def make(k: int) -> Any:
        @jit
        def inner(x: float) -> float:
            return x + k

        return OuterFunction(lambda x: inner(x) * 2.0)

    functions = [make(k) for k in range(8)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda function: function(1.0), functions))
    assert results == [2.0 * (1.0 + k) for k in range(8)]


def test_an_error_while_compiling_leaves_the_compiler_usable(optimised: list[str]) -> None:
    @jit
    def broken(x: float) -> Any:
        return x.no_such_attribute  # type: ignore[attr-defined]

    with pytest.raises(numba.TypingError):
        OuterFunction(lambda x: broken(x))(1.0)
    optimised.clear()

    @numba.njit  # type: ignore[untyped-decorator]  # Numba ships no types
    def works(x: float) -> float:
        return x

    assert works(1.0) == 1.0
    assert optimised == ["works"]


@jit
def _halved(x: Any) -> float:
    return float(x / 2)


@patient
def _halves(values: Any) -> Any:
    """(the sum of halves, the number of values)."""
    total = 0.0
    for value in values:
        total += _halved(value)
    return total, values.size


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A patient function without machine code on disk."""
    monkeypatch.setenv("SWITCHMDP_CACHE", str(tmp_path))
    monkeypatch.setattr(_halves, "_outer", None)
    return _halves


def test_a_patient_function_runs_interpreted_while_its_arguments_are_small(
    halves: Any, optimised: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = np.ones(9), np.ones(20)
    monkeypatch.setattr(compiler, "SMALL", 10)
    assert halves(small) == (4.5, 9)
    assert list(map(type, halves(small))) == [float, int], "as machine code returns them"
    assert optimised == []
    assert halves(large) == (10.0, 20)
    assert optimised == ["_halves"]


def test_a_patient_function_that_has_run_for_long_is_compiled(
    halves: Any, optimised: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "PATIENCE", 1e-9)
    assert [halves(np.ones(3))[0] for _ in range(3)] == [1.5, 1.5, 1.5]
    assert optimised == ["_halves"]


def test_a_patient_function_does_not_run_interpreted_if_machine_code_is_on_disk(
    halves: Any, optimised: list[str]
) -> None:
    _cached(halves.py_func, "_test_compiler._halves", "sources")(np.ones(3))
    assert halves(np.ones(3)) == (1.5, 3)
    assert halves._seconds_left == 0.0


def test_machine_code_can_call_a_patient_function(halves: Any) -> None:
    assert OuterFunction(lambda x: halves(x)[0])(np.ones(3)) == 1.5


def test_an_error_in_a_patient_function_does_not_leave_others_interpreted(halves: Any) -> None:
    with pytest.raises(TypeError):
        halves(None)
    assert not compiler._here.interpreting
