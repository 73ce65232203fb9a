"""Our problems' Gymnasium ids, known to Gymnasium as soon as both packages are imported.

Whichever of the two is imported first, neither imports the other: if Gymnasium is there already it
is told at once, else when it has been imported. What an id stands for is imported when it is made.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# The names in PROBLEMS, here so that they are known without importing what makes the problems.
PROBLEM_NAMES = (
    "random-switching", "random", "random-sparse", "riverswim", "ring-with-shortcuts",
    "random-changes", "garnet", "riverswim-flips", "gradual-drift", "random-walk",
    "perils-of-drift", "lower-bound", "combination-lock", "ad-placement", "inventory",
)  # fmt: skip


def identifier(problem: str) -> str:
    """The Gymnasium id of a problem.

    >>> identifier("random-switching")
    'switchmdp/RandomSwitching-v0'
    """
    return f"switchmdp/{''.join(part.capitalize() for part in problem.split('-'))}-v0"


def register_with(gymnasium: Any) -> None:
    """Make every problem known to Gymnasium; doing it twice changes nothing."""
    for problem in PROBLEM_NAMES:
        if identifier(problem) not in gymnasium.registry:
            gymnasium.register(
                identifier(problem), entry_point="switchmdp.gym:make_env",
                kwargs={"problem": problem},
            )  # fmt: skip


def register_when_imported() -> None:
    """Make every problem known to Gymnasium now or, if it has not been imported, once it is."""
    if "gymnasium" in sys.modules:
        register_with(importlib.import_module("gymnasium"))  # waits if a thread is importing it
    elif not any(isinstance(finder, _Watch) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Watch())


class _Watch:
    """Finds Gymnasium as it would have been found, and registers when it has been executed.

    It goes only then: to look for a module is not to import it.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The other finders' answer; of any other module than Gymnasium this one knows nothing."""
        if name != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        loader: Any = spec and spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                register_with(module)

            loader.exec_module = exec_module
        return spec
