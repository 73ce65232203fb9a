"""The code and the configurations in the README and the docs work as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments import check, loads
from switchmdp.problems import CHOICES, PROBLEMS

ROOT = Path(__file__).resolve().parent.parent
PREAMBLE = """
import numpy as np, switchmdp as sm
rng = np.random.default_rng(0)
other = sm.MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)))
"""


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", read(page), re.S)


def shown_report() -> str:
    """What `check_agent` prints in the guide."""
    (report,) = re.findall(r"```\n(Broken violates.*?)```", read("docs/guide.md"), re.S)
    return str(report)


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        ("README.md", []),
        ("docs/index.md", ["EvidencePSRL          318 (252 … 389)"]),
        (
            "docs/guide.md",
            [shown_report(), "Greedy keeps the contract", "Careful keeps the contract"],
        ),
        ("docs/experiments.md", []),
        ("docs/gymnasium.md", []),
        ("docs/online.md", []),
        ("docs/agents.md", []),
        ("docs/evidence-psrl.md", []),
        (
            "docs/problems.md",
            ["transition variation", "[0.429 0.386 0.347 0.312 0.281 0.253]"],
        ),
    ],
)
def test_the_code_on_a_page_runs_without_warnings(
    page: str, printed: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "page.py"
    script.write_text(PREAMBLE + "\n".join(blocks(page, "python")), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    for text in printed:
        assert text in done.stdout


def test_the_configurations_on_the_page_about_experiments_are_valid() -> None:
    configurations = blocks("docs/experiments.md", "toml")
    assert len(configurations) == 2
    for configuration in configurations:
        check(loads(configuration))


def test_the_page_about_experiments_shows_the_errors_of_a_wrong_configuration() -> None:
    first, _ = blocks("docs/experiments.md", "toml")
    wrong = first.replace("window = { sweep = [1000, 4000, 16_000] }", "windw = { sweep = [1000] }")
    with pytest.raises(InvalidExperiment) as caught:
        check(loads(wrong))
    for fault in caught.value.faults:
        assert f"  {fault}\n" in read("docs/experiments.md")


def test_the_configuration_on_the_page_about_problems_is_valid() -> None:
    (configuration,) = blocks("docs/problems.md", "toml")
    assert len(check(loads(configuration)).settings) == 4


def test_the_page_about_problems_lists_every_problem_and_every_change_operator() -> None:
    page = read("docs/problems.md")
    for name in PROBLEMS:
        assert f"`{name}`" in page
    for name in CHOICES["how"]:
        assert f'| `"{name}"` |' in page
