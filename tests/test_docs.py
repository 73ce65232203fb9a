"""The code in the README and the guide runs as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from switchmdp.errors import InvalidExperiment
from switchmdp.experiments import check, loads

ROOT = Path(__file__).resolve().parent.parent
PREAMBLE = """
import numpy as np, switchmdp as sm
rng = np.random.default_rng(0)
other = sm.MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)))
"""


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/guide.md",
        "docs/experiments.md",
        "docs/gymnasium.md",
        "docs/online.md",
        "docs/agents.md",
        "docs/evidence-psrl.md",
    ],
)
def test_the_code_on_a_page_runs(page: str, tmp_path: Path) -> None:
    done = run_page(page, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_guide_shows_what_check_agent_prints(tmp_path: Path) -> None:
    shown = re.findall(r"```\n(Broken violates.*?)```", read("docs/guide.md"), re.S)
    assert len(shown) == 1
    done = run_page("docs/guide.md", tmp_path)
    assert shown[0] in done.stdout
    assert "Greedy keeps the contract" in done.stdout
    assert "Careful keeps the contract" in done.stdout


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def run_page(page: str, folder: Path) -> subprocess.CompletedProcess[str]:
    blocks = re.findall(r"```python\n(.*?)```", read(page), re.S)
    script = folder / "page.py"
    script.write_text(PREAMBLE + "\n".join(blocks), encoding="utf-8")
    command = [sys.executable, str(script)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_the_configurations_on_the_page_are_valid() -> None:
    page = read("docs/experiments.md")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    for block in blocks:
        check(loads(block))


def test_the_page_shows_the_errors_of_a_wrong_configuration() -> None:
    page = read("docs/experiments.md")
    block = re.findall(r"```toml\n(.*?)```", page, re.S)[0]
    wrong = block.replace("window = { sweep = [1000, 4000, 16_000] }", "windw = { sweep = [1000] }")
    with pytest.raises(InvalidExperiment) as caught:
        check(loads(wrong))
    for fault in caught.value.faults:
        assert f"  {fault}\n" in page
