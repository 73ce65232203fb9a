"""The package works where the parts of Python are missing that only Unix has, as on Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Other packages are imported first: they have their own ways to deal with other systems.
WITHOUT_UNIX = """
import asyncio, importlib, os, pkgutil, signal, sqlite3, subprocess, sys, tempfile
for name in ("click", "filelock", "gymnasium", "httpx", "jinja2", "matplotlib.figure", "numba",
             "numpy", "platformdirs", "prometheus_client", "psycopg", "pyarrow", "pydantic",
             "scipy.sparse.linalg", "starlette.applications", "uvicorn"):
    importlib.import_module(name)

for name in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[name] = None
for name in ("O_DIRECTORY", "O_NOFOLLOW", "fork", "geteuid", "getuid",
             "killpg", "register_at_fork", "sched_getaffinity", "setsid", "uname"):
    if hasattr(os, name):
        delattr(os, name)
os.supports_dir_fd = set()
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2"):
    if hasattr(signal, name):
        delattr(signal, name)

import switchmdp as sm
for module in pkgutil.walk_packages(sm.__path__, "switchmdp."):
    importlib.import_module(module.name)

comparison = sm.compare(sm.problems.random_switching, {"Random": sm.agents.Random}, horizon=50)
print(comparison)
with tempfile.TemporaryDirectory() as folder:
    with sm.online.Decisions(sm.agents.Random(2, 2), folder) as decisions:
        decision = decisions.decide(0)
        decisions.feedback(decision.id, 1.0, 1)
        try:
            sm.online.Decisions(sm.agents.Random(2, 2), folder)
        except sm.errors.ForeignFolder as error:
            print("locked:", "in use by another process" in str(error))
"""


def test_the_package_works_without_what_only_unix_has(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "SWITCHMDP_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_UNIX], capture_output=True, text=True, env=environment,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Random" in done.stdout
    assert "locked: True" in done.stdout
