"""The code in the README and the guide runs as printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GIVEN = """
import numpy as np, switchmdp as sm
rng = np.random.default_rng(0)
other = sm.MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)))
"""


@pytest.mark.parametrize(
    ("page", "last_words"),
    [("README.md", ""), ("docs/guide.md", "ContractViolation: act(-1) is not refused")],
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
