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
GIVEN = """
import numpy as np, switchmdp as sm
rng = np.random.default_rng(0)
other = sm.MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)))
"""


@pytest.mark.parametrize(
    ("page", "last_words"),
    [
        ("README.md", ""),
        ("docs/guide.md", "ContractViolation: act(-1) is not refused"),
        ("docs/experiments.md", ""),
        ("docs/gymnasium.md", ""),
        ("docs/online.md", ""),
    ],
)
def test_the_code_on_a_page_runs(page: str, last_words: str, tmp_path: Path) -> None:
    """The guide's last line is there to be refused, and says so."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    script = tmp_path / "page.py"
    script.write_text(GIVEN + "\n".join(blocks), encoding="utf-8")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout
    if last_words:
        assert done.stderr.strip().endswith(last_words)
    else:
        assert done.returncode == 0, done.stderr


def test_the_configurations_on_the_page_are_in_order() -> None:
    page = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    for block in blocks:
        check(loads(block))


def test_the_faults_on_the_page_are_what_is_said() -> None:
    page = (ROOT / "docs/experiments.md").read_text(encoding="utf-8")
    block = re.findall(r"```toml\n(.*?)```", page, re.S)[0]
    wrong = block.replace("window = { sweep = [1000, 4000, 16_000] }", "windw = { sweep = [1000] }")
    with pytest.raises(InvalidExperiment) as caught:
        check(loads(wrong))
    for fault in caught.value.faults:
        assert f"  {fault}\n" in page
