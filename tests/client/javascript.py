"""Run scripts that use the JavaScript client in Node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[2] / "clients" / "javascript" / "switchmdp.js"
# A script is the body of an async function with the arguments `sm` (the module), `client`, `url`.
CALL = """
const run = async (sm, url, script) => {
  const client = new sm.Client(url, { retries: 3, firstPause: 0.001 });
  const body = new (async () => {}).constructor("sm", "client", "url", script);
  try {
    return { value: (await body(sm, client, url)) ?? null };
  } catch (error) {
    const { name, message, status, title, type, extensions, retryAfter } = error;
    return { error: { name, message, status, title, type, extensions, retryAfter,
                      typed: error instanceof sm.ServiceError } };
  }
};
"""
Run = Callable[..., Any]


@contextmanager
def in_node(url: str) -> Iterator[Run]:
    """Run scripts in Node. Without Node, the tests are skipped; under `CI`, they fail."""
    node = shutil.which("node")
    if node is None:
        reason = "THE JAVASCRIPT CLIENT WAS NOT TRIED IN NODE: there is no node"
        if os.environ.get("CI"):
            pytest.fail(reason)
        print(reason, file=sys.__stderr__)  # skips are silent, and this one must not be
        pytest.skip(reason)
    program = f"""{CALL}
        import {{ createInterface }} from "node:readline";
        import * as sm from {json.dumps(FILE.as_uri())};
        for await (const line of createInterface({{ input: process.stdin }})) {{
          console.log(JSON.stringify(await run(sm, {json.dumps(url)}, JSON.parse(line))));
        }}"""
    command = [node, "--input-type=module", "--eval", program]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(script: str) -> Any:
            print(json.dumps(script), file=process.stdin, flush=True)
            assert process.stdout is not None
            return json.loads(process.stdout.readline())

        yield run
