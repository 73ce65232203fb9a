"""Every package imports only what the package and its extra in pyproject.toml install."""

from __future__ import annotations

import ast
import functools
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "switchmdp"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = {  # of files and folders; the others need no extra
    "client": {"client"},
    "gym": {"gym"},
    "online": {"serve"},
    "online/postgres.py": {"postgres"},
    "planning/large.py": {"sparse"},
    "experiments/execute.py": {"dask"},
    "reports": {"plot", "parquet"},
}
OPTIONAL = {  # what is used only if the user has installed it, besides the extras
    "reports/present.py": {"pandas", "polars"},
}
COMES_WITH = {"llvmlite": "numba", "markupsafe": "jinja2"}


def imported(file: Path) -> set[str]:
    """The top-level names of all absolute imports in a file, also in functions."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"switchmdp"}


def installed_for(place: str) -> set[str]:
    """The distributions that the extras of a file install, and those without an extra."""
    extras = set[str]().union(
        *(some for where, some in EXTRAS.items() if place == where or place.startswith(f"{where}/"))
    )
    lines = list(PROJECT["dependencies"])
    for extra in extras:
        lines += PROJECT["optional-dependencies"][extra]
    return {canonicalize_name(Requirement(line).name) for line in lines}


@functools.cache
def distributions_of_packages() -> dict[str, list[str]]:
    """What each installed package belongs to; reads the metadata of all distributions."""
    return dict(packages_distributions())


FILES = sorted(file.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py"))


def test_the_named_files_exist() -> None:
    assert all((SOURCE / place).exists() for place in (*EXTRAS, *OPTIONAL))
    assert "scipy" in imported(SOURCE / "online" / "views.py")


@pytest.mark.parametrize("place", FILES)
def test_a_file_imports_only_what_its_extra_installs(place: str) -> None:
    distributions = distributions_of_packages()
    needed = {
        canonicalize_name(distributions.get(name, [name])[0])
        for name in {COMES_WITH.get(name, name) for name in imported(SOURCE / place)}
        - OPTIONAL.get(place, set())
    }
    assert needed <= installed_for(place)
