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
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "online.md").read_text(encoding="utf-8")
PROGRAM = [sys.executable, "-c", "from switchmdp.cli import main; main()"]
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The service, started as on the page, except for the port."""
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


def run_blocks(address: str) -> list[list[Any]]:
    """Run the commands of the page in order. Returns the JSON answers of each block."""
    found = []
    for block in BLOCKS:
        done = subprocess.run(
            ["sh", "-c", block.replace("localhost:8000", address)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        found.append(values_in(done.stdout))
    return found


def values_in(text: str) -> list[Any]:
    """All JSON values in a text, in order."""
    values, at = [], 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = json.JSONDecoder().raw_decode(text, at)
        values.append(value)
    return values


def test_the_printed_commands_get_the_printed_answers(address: str) -> None:
    first, then, models, arms = run_blocks(address)
    printed = re.search(r'^\{"id".*?\}$', PAGE, re.M | re.S)
    assert printed is not None
    shown, [got] = json.loads(printed[0]), first
    assert list(shown) == list(got)
    assert {**shown, "id": None} == {**got, "id": None}
    counted, again, health = then
    assert counted == {"counted": True}
    assert again["state"] == 3
    assert health == {"status": "ok"}
    created, named = models
    assert created["name"] == "offers"
    assert named["state_name"] == "basket"
    assert named["action_name"] in ("discount", "gift", "none")
    for answer in arms:
        assert [one["name"] for one in answer["arms"]] == ["main", "control", "rival"]


def test_the_documented_replay_commands_work(address: str, tmp_path: Path) -> None:
    run_blocks(address)
    lines = re.findall(r"^switchmdp (replay [^#\n]*)", PAGE, re.M)
    assert len(lines) == 2
    for line in lines:
        done = subprocess.run(
            [*PROGRAM, *shlex.split(line)], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert "1 step, 6 states, 4 actions" in done.stdout
