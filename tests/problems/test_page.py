"""The page about problems: its code runs, its configuration is sound, its tables complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from switchmdp.experiments import check, loads
from switchmdp.problems import CHOICES, PROBLEMS

PAGE = (Path(__file__).resolve().parents[2] / "docs/problems.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.S)


def test_the_code_on_the_page_runs(tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks("python")), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "transition variation" in done.stdout
    assert "[0.429 0.386 0.347 0.312 0.281 0.253]" in done.stdout


def test_the_configuration_on_the_page_is_valid() -> None:
    (block,) = blocks("toml")
    assert len(check(loads(block)).settings) == 4


def test_the_page_lists_every_problem_and_every_change_operator() -> None:
    for name in PROBLEMS:
        assert f"`{name}`" in PAGE
    for name in CHOICES["how"]:
        assert f'| `"{name}"` |' in PAGE
