"""Run `switchmdp serve` on a free port of the loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STOP_TIMEOUT = 30  # seconds for the service to stop


@contextmanager
def serving(database: Path) -> Iterator[str]:
    """Serve the models of a database during the block. Yields the address.

    Without `--no-sync` every answer would wait for the disk, and here there is one caller at a
    time: nobody to share that wait with. A simulation can be run again.
    """
    program = "from switchmdp.cli import main; main()"
    options = ["serve", "--database", str(database), "--port", "0", "--no-sync"]
    log = database.with_suffix(".log")
    with open(log, "w", encoding="utf-8") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *options],
            stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        words = process.stdout.readline().split()
        if words[:2] != ["listening", "on"]:
            raise RuntimeError(f"the service did not start: {log.read_text(encoding='utf-8')}")
        yield words[2]
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
