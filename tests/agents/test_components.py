"""Every component accepts the arguments with which agents call it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import switchmdp
from switchmdp.agents.episodic import PARTS

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text("utf-8")
BULLETS = {
    "memory": "- a memory:",
    "plausible": "- a plausible set or posterior:",
    "episodes": "- an episode rule:",
    "restarts": "- a restart rule:",
    "exploration": "- exploration:",
}
EVERY = "All components may have"


def _documented(begins: str) -> dict[str, list[str]]:
    """The methods that a paragraph of CONTRIBUTING.md names, with their parameters."""
    text = PAGE[PAGE.index(begins) :]
    text = re.split(r"\n- |\n\n", text, maxsplit=1)[0]
    return {
        name: re.findall(r"\w+", parameters)
        for name, parameters in re.findall(r"(\w+)\(([^)]*)\)", text)
    }


def _classes() -> list[type]:
    """Every class that the package defines."""
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(switchmdp.__path__, "switchmdp.")
        if not module.name.endswith("__main__")
    ]
    return sorted(
        {
            cls
            for module in modules
            for _, cls in inspect.getmembers(module, inspect.isclass)
            if cls.__module__.startswith("switchmdp.")
        },
        key=lambda cls: f"{cls.__module__}.{cls.__qualname__}",
    )


def _offers(cls: type, part: str) -> bool:
    return all(hasattr(cls, verb) for verb in PARTS[part] if verb != "counts")


COMPONENTS = [(part, cls) for cls in _classes() for part in PARTS if _offers(cls, part)]


def test_every_kind_of_component_is_found() -> None:
    names = {cls.__name__ for _, cls in COMPONENTS}
    assert {"Window", "Everything", "LastVisit", "L1Ball", "Posterior", "Never", "GLR"} <= names
    assert {"Doubling", "AsPlanned", "DirectedProbes"} <= names
    assert {part for part, _ in COMPONENTS} == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_the_enforced_methods_are_documented(part: str) -> None:
    documented = _documented(BULLETS[part])
    assert {verb for verb in PARTS[part] if verb != "counts"} <= set(documented)


@pytest.mark.parametrize(
    ("part", "cls"), COMPONENTS, ids=[f"{cls.__name__} as {part}" for part, cls in COMPONENTS]
)
def test_a_component_takes_the_documented_arguments(part: str, cls: type) -> None:
    documented = _documented(BULLETS[part]) | _documented(EVERY)
    checked = [name for name in documented if hasattr(cls, name)]
    assert checked
    for name in checked:
        _, *parameters = inspect.signature(getattr(cls, name)).parameters.values()
        kinds = {p.kind for p in parameters}
        assert kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}, name
        assert len(parameters) == len(documented[name]), (
            f"{name} takes {[p.name for p in parameters]}"
        )
