"""The public functions of `switchmdp.reports`."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import switchmdp as sm
from switchmdp import reports
from switchmdp.experiments.results import Results


@pytest.mark.parametrize("name", reports.__all__)
def test_every_public_name_has_a_docstring(name: str) -> None:
    docstring = inspect.getdoc(getattr(sm.reports, name))
    assert docstring
    assert not docstring.startswith(f"{name}(")  # the signature that a dataclass generates


def test_a_report_does_not_import_the_leaderboard() -> None:
    name = "switchmdp.reports.leaderboard"
    code = f"import sys, switchmdp.reports.report; print({name!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_public_names_do_not_hide_modules() -> None:
    modules = {file.stem for file in Path(reports.__file__).parent.glob("*.py")}
    assert not modules & set(reports.__all__)


def test_reports_tables_and_measures_of_results_are_public(
    make_results: Callable[..., Results], tmp_path: Path
) -> None:
    results = make_results(n=3, points=5)
    assert sm.reports.write_report(results, tmp_path)[0].name == "index.html"
    assert sm.reports.write_tables(results, tmp_path).name == "tables.md"
    (setting,) = results.settings.values()
    assert sm.reports.summary_table(setting).rows[0][0] == "window"
    final = setting.agents["window"].regret[:, -1]
    assert sm.reports.final_regret(setting, "window").middle == pytest.approx(final.mean())
