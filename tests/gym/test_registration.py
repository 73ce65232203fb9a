"""`import switchmdp.gym` registers every problem; Gymnasium is optional."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

from switchmdp.gym import identifier, register
from switchmdp.problems import PROBLEMS

IDS = [identifier(problem) for problem in PROBLEMS]


def output_of(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_problem_has_its_own_id() -> None:
    assert len(set(IDS)) == len(PROBLEMS)
    assert "switchmdp/RandomSwitching-v0" in IDS
    registered = [name for name in gymnasium.registry if name.startswith("switchmdp/")]
    assert sorted(registered) == sorted(IDS)
    assert all(gymnasium.registry[name].entry_point == "switchmdp.gym:make_env" for name in IDS)


@pytest.mark.parametrize(
    "code",
    [
        "import gymnasium, switchmdp.gym; gymnasium.make({id!r})",
        "import switchmdp.gym, gymnasium; gymnasium.make({id!r})",
        "import gymnasium, switchmdp; switchmdp.gym; gymnasium.spec({id!r})",
        "import gymnasium; gymnasium.make('switchmdp.gym:' + {id!r})",
    ],
)
def test_an_id_works_once_switchmdp_gym_is_imported(code: str) -> None:
    run = code.format(id="switchmdp/RandomSwitching-v0")
    count = "print(sum(name.startswith('switchmdp/') for name in gymnasium.registry))"
    assert output_of(f"{run}; {count}") == str(len(PROBLEMS))


def test_importing_the_package_leaves_the_import_system_and_gymnasium_alone() -> None:
    code = (
        "import sys; before = list(sys.meta_path); import switchmdp;"
        "assert sys.meta_path == before;"
        "print(*[m for m in ('gymnasium', 'numpy', 'numba') if m in sys.modules])"
    )
    assert output_of(code) == ""


def test_without_gymnasium_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import switchmdp as sm\n"
        "sm.problems.riverswim()\n"
        "try:\n    sm.gym\n"
        "except sm.errors.MissingExtra as error: print(error)"
    )
    assert output_of(code) == "switchmdp.gym needs Gymnasium: pip install 'switchmdp[gym]'"


def test_registering_twice_changes_nothing() -> None:
    before = dict(gymnasium.registry)
    register(gymnasium.registry)
    assert dict(gymnasium.registry) == before
