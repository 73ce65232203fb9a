"""Gymnasium knows our problems, whichever package is imported first, and neither imports much."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

import switchmdp.registration as registration
from switchmdp.problems import PROBLEMS

IDS = [registration.identifier(problem) for problem in PROBLEMS]


def outcome(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_problem_has_an_id() -> None:
    assert set(registration.PROBLEM_NAMES) == set(PROBLEMS)
    assert len(set(IDS)) == len(PROBLEMS)
    assert all(gymnasium.registry[name].entry_point == "switchmdp.gym:make_env" for name in IDS)


@pytest.mark.parametrize(
    "code",
    [
        "import switchmdp; import gymnasium; gymnasium.make({id!r})",
        "import gymnasium; gymnasium.make('switchmdp:' + {id!r})",
        "import gymnasium; import switchmdp; gymnasium.spec({id!r})",
        "import switchmdp; import gymnasium; gymnasium.make('switchmdp:' + {id!r})",
        "import gymnasium; import switchmdp; gymnasium.make('switchmdp:' + {id!r})",
        "import switchmdp.gym; import gymnasium; gymnasium.spec({id!r})",
        "import switchmdp; from gymnasium.envs import registration; registration.spec({id!r})",
        "import switchmdp, importlib; import gymnasium; importlib.reload(gymnasium);"
        "importlib.reload(switchmdp); gymnasium.spec({id!r})",
    ],
)
def test_an_id_works_in_any_order_of_imports(code: str) -> None:
    asked = code.format(id="switchmdp/RandomSwitching-v0")
    count = "print(sum(name.startswith('switchmdp/') for name in gymnasium.registry))"
    assert outcome(f"{asked}; import gymnasium; {count}") == str(len(PROBLEMS))


def test_importing_the_package_imports_neither_gymnasium_nor_numpy() -> None:
    loaded = "print(*[m for m in ('gymnasium', 'numpy', 'numba') if m in sys.modules])"
    assert outcome(f"import sys, switchmdp; {loaded}") == ""


def test_registering_imports_nothing_that_makes_problems() -> None:
    loaded = "print(*[m for m in ('numba', 'switchmdp.gym', 'switchmdp.mdp') if m in sys.modules])"
    assert outcome(f"import sys, switchmdp, gymnasium; {loaded}") == ""
    assert outcome(f"import sys, gymnasium, switchmdp; {loaded}") == ""


def test_looking_for_gymnasium_without_importing_it_loses_nothing() -> None:
    code = (
        "import importlib.util, sys, switchmdp;"
        "spec = importlib.util.find_spec('gymnasium'); assert spec.origin.endswith('__init__.py');"
        "assert 'gymnasium' not in sys.modules; import gymnasium;"
        "print('switchmdp/Riverswim-v0' in gymnasium.registry)"
    )
    assert outcome(code) == "True"


def test_the_watch_goes_once_gymnasium_is_there() -> None:
    count = "print(sum('switchmdp' in type(f).__module__ for f in sys.meta_path))"
    code = f"import sys, switchmdp, importlib; importlib.reload(switchmdp); {count};"
    assert outcome(f"{code} import gymnasium; {count}").split() == ["1", "0"]


def test_a_missing_gymnasium_is_missed_as_ever() -> None:
    code = (
        "import sys, switchmdp\n"
        "for f in list(sys.meta_path):\n"
        "    if 'switchmdp' not in type(f).__module__: sys.meta_path.remove(f)\n"
        "try:\n    import gymnasium\n"
        "except ModuleNotFoundError as error: print(error)"
    )
    assert outcome(code) == "No module named 'gymnasium'"


def test_registering_twice_changes_nothing() -> None:
    before = dict(gymnasium.registry)
    registration.register_when_imported()
    registration.register_with(gymnasium)
    assert dict(gymnasium.registry) == before
