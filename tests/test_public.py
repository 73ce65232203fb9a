"""The public surface: its names, and that nothing heavy is imported before it is used."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import switchmdp as sm

DOCUMENTED = ("contract", "display", "gym", "mdp", "planning", "problems", "theory")


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


@pytest.mark.parametrize(
    "module",
    ["agents", "experiments", "mdp", "memory", "planning", "plausible", "problems", "reports",
     "restarts", "theory"],
)  # fmt: skip
def test_tab_completion_offers_only_public_names(module: str) -> None:
    content = import_module(f"switchmdp.{module}")
    assert dir(content) == sorted(content.__all__)


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "('numpy', 'numba', 'scipy')"
    code = f"import sys, switchmdp; print(*[m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_agents_and_sparse_problems_work_without_scipy() -> None:
    code = (
        "import sys; sys.modules['scipy'] = None; import switchmdp as sm;"
        "p = sm.problems.random_sparse_mdp(200, 2, 3); sm.problems.ring_with_shortcuts(30);"
        "record = sm.simulate(sm.agents.Random(200, 2), p, 100); print(record.horizon)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "100"


def test_simulating_does_not_import_scipy_or_matplotlib() -> None:
    code = (
        "import sys, switchmdp as sm; p = sm.problems.random_switching(horizon=100);"
        "sm.simulate(sm.agents.Random(5, 3), p, 100);"
        "print(*[m for m in ('scipy.sparse', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def public_functions(module: str) -> Iterator[tuple[str, Any]]:
    """The public functions, classes and methods of a module."""
    content = importlib.import_module(f"switchmdp.{module}")
    for name in getattr(content, "__all__", vars(content)):
        thing = getattr(content, name)
        ours = getattr(thing, "__module__", "").startswith(f"switchmdp.{module}")
        if name.startswith("_") or not ours or not callable(thing):
            continue
        yield name, thing
        for method, function in vars(thing).items() if inspect.isclass(thing) else ():
            plain = getattr(function, "__func__", function)
            if not method.startswith("_") and inspect.isfunction(plain):
                yield f"{name}.{method}", plain


def parameters_of(thing: Any) -> list[str]:
    """The names that a caller may pass."""
    special = isinstance(thing, type) and (
        issubclass(thing, Exception) or getattr(thing, "_is_protocol", False)
    )
    if special or getattr(thing, "__init__", None) is object.__init__:
        return []
    names = inspect.signature(thing).parameters
    return [name for name in names if name not in ("self", "cls")]


def documented_parameters(text: str) -> set[str]:
    """The names in the section Parameters of a docstring."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+$|\Z)", text, re.M | re.S)
    heads = re.findall(r"^(\S.*)$", section[1], re.M) if section else []
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def documents_result(text: str) -> bool:
    """Whether a docstring has a section about what the function returns or yields."""
    return re.search(r"^(Returns|Yields)\n-+$", text, re.M) is not None


@pytest.mark.parametrize("module", DOCUMENTED)
def test_every_parameter_and_result_of_a_public_function_is_documented(module: str) -> None:
    missing = []
    for name, thing in public_functions(module):
        text = inspect.getdoc(thing) or ""
        known = documented_parameters(text)
        missing += [f"{name}({p})" for p in parameters_of(thing) if p not in known]
        result = None if inspect.isclass(thing) else inspect.signature(thing).return_annotation
        if result not in (None, "None", inspect.Signature.empty) and not documents_result(text):
            missing.append(f"{name}: Returns")
        if not text:
            missing.append(f"{name}: no docstring")
    assert not missing
