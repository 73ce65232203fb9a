"""doctor: is this installation in order? Each line says what was looked at, and what to do."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from switchmdp.cli import FAILED, FINE
from switchmdp.cli.say import say
from switchmdp.version import __version__

NEEDED = ("numpy", "numba", "scipy", "click", "pydantic", "rich")
EXTRAS = {"matplotlib": "plot", "jinja2": "plot", "pyarrow": "parquet",
          "starlette": "serve", "uvicorn": "serve", "distributed": "dask"}  # fmt: skip


def examine() -> int:
    """Look at everything; the exit code says whether all that is needed works."""
    broken = 0
    say(f"switchmdp {__version__}, Python {platform.python_version()}")
    for name in (*NEEDED, *EXTRAS):
        try:
            say(f"  ok      {name} {version(name)}")
        except PackageNotFoundError:
            broken += name in NEEDED
            how = f"[{EXTRAS[name]}]" if name in EXTRAS else ""
            word = "absent" if name in EXTRAS else "BROKEN"
            say(f"  {word}  {name} is not here: pip install 'switchmdp{how}'")
    checks = {
        "the cache of machine code": _cache,
        "compiled agents": _compiled,
        "writing and syncing files here": _writing,
        "processors": _cores,
    }
    for what, look in checks.items():
        try:
            say(f"  ok      {what}: {look()}")
        except Exception as error:  # whatever is broken is what we are here to report
            broken += 1
            say(f"  BROKEN  {what}: {type(error).__name__}: {error}")
    return FAILED if broken else FINE


def _cache() -> str:
    from switchmdp.compiled.cache import cache_folder

    folder = cache_folder()
    files = list(folder.glob("*")) if folder.exists() else []
    size = sum(file.stat().st_size for file in files)
    return f"{folder}, {len(files)} files, {size / 1e6:.1f} MB"


def _compiled() -> str:
    import numpy as np

    import switchmdp as sm

    problem = sm.problems.random_switching(5, 3, changes=1, horizon=20_000, seed=0)

    def regret(interpreted: bool, horizon: int) -> Any:
        agent = sm.agents.SWUCRL(5, 3, window=1000)
        return sm.simulate(agent, problem, horizon, seed=0, interpreted=interpreted).regret

    regret(False, 1000)
    same = np.array_equal(regret(False, 1000), regret(True, 1000))
    if not same:
        raise RuntimeError("machine code and Python disagree")
    return f"same results as Python, {_rate(lambda: regret(False, 20_000), 20_000)}"


def _rate(run: Callable[[], object], steps: int) -> str:
    began = time.perf_counter()
    run()
    return f"{steps / (time.perf_counter() - began) / 1e6:.0f} M steps/s"


def _writing() -> str:
    from switchmdp.storage import save_bytes

    with tempfile.TemporaryDirectory(dir=".") as folder:
        save_bytes(Path(folder) / "probe", b"probe")
    return os.getcwd()


def _cores() -> str:
    from switchmdp.experiments.execute import cores

    return str(cores())
