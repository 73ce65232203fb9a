"""The commands in docs/online.md work, in the order in which they appear.

Its Python is run by `tests/test_docs.py`.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "online.md").read_text(encoding="utf-8")
PROGRAM = [sys.executable, "-c", "from switchmdp.cli import main; main()"]
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The service as the page starts it, but for the port."""
    line = re.search(r"^switchmdp (serve .*)$", PAGE, re.M)
    assert line is not None
    command = [*PROGRAM, *shlex.split(line[1]), "--port", "0"]
    with open(tmp_path / "errors", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        assert said.startswith("listening on http://127.0.0.1:"), (tmp_path / "errors").read_text()
        yield said.split("//")[1].strip()
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()


def test_the_first_decision_is_made_and_answered(address: str, tmp_path: Path) -> None:
    first, then = (
        subprocess.run(
            ["sh", "-c", block.replace("localhost:8000", address)],
            capture_output=True, text=True, check=True,
        ).stdout
        for block in BLOCKS
    )  # fmt: skip
    answer = re.search(r'^\{"id".*$', PAGE, re.M)
    assert answer is not None
    shown, got = json.loads(answer[0]), json.loads(first)
    assert shown.keys() == got.keys()
    assert {**shown, "id": None} == {**got, "id": None}
    counted, again, health = re.findall(r"\{.*?\}", then)
    assert json.loads(counted) == {"counted": True}
    assert json.loads(again)["state"] == 3
    assert json.loads(health) == {"status": "ok"}


def test_the_documented_replay_commands_work(address: str, tmp_path: Path) -> None:
    for block in BLOCKS:
        subprocess.run(
            ["sh", "-c", block.replace("localhost:8000", address)], capture_output=True, check=True
        )
    lines = re.findall(r"^switchmdp (replay [^#\n]*)", PAGE, re.M)
    assert len(lines) == 2
    for line in lines:
        done = subprocess.run(
            [*PROGRAM, *shlex.split(line)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert "1 steps, 6 states, 4 actions" in done.stdout
