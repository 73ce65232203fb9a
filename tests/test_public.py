"""The public surface: its names, and that nothing heavy is imported before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import switchmdp as sm


def test_every_public_name_exists() -> None:
    for name in sm.__all__:
        assert getattr(sm, name) is not None
    for name in (
        "SWUCRL",
        "UCRL2",
        "UCRL2R",
        "UCRL2RW",
        "OracleUCRL2",
        "Omniscient",
        "Random",
        "Episodic",
    ):
        assert hasattr(sm.agents, name)
    assert callable(sm.problems.random_switching)
    assert callable(sm.theory.optimal_window)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sm.nothing  # noqa: B018


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "('numpy', 'numba', 'scipy')"
    code = f"import sys, switchmdp; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_simulating_does_not_import_scipy_or_matplotlib() -> None:
    code = (
        "import sys, switchmdp as sm; p = sm.problems.random_switching(horizon=100);"
        "sm.simulate(sm.agents.Random(5, 3), p, 100);"
        "print(*[m for m in ('scipy.sparse', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
