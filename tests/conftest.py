"""What all tests share: which tests run on the same worker, Hypothesis profiles, a real browser.

CI tries a tenth of the examples of `make soak`, always the same ones. The browser is Debian's
`chromium` with `chromium-driver`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from tests.every_agent import component_family

from switchmdp.agents import AGENTS

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

# What these files test does not exist on Windows: forks, terminals, signals sent to a process, file
# permissions, `bash`.
if os.name == "nt":
    collect_ignore = [
        "agents/test_python_calls.py", "cli/test_database.py", "cli/test_output.py",
        "cli/test_serve.py", "cli/test_signals.py", "compiled/test_cache.py",
        "compiled/test_cache_folder.py", "compiled/test_locks.py", "deploy", "faults",
        "online/test_database.py", "online/test_disk_faults.py", "online/test_server.py",
        "online/test_service_limits.py", "simulation/test_interruptions.py", "soak",
        "test_concurrency.py",
    ]  # fmt: skip

# A shell script starts background jobs with Ctrl-C ignored, and all processes inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The first example may compile for many seconds, so that no time limit makes sense.
_COMMON: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}
settings.register_profile("ci", max_examples=20, derandomize=True, database=None, **_COMMON)
settings.register_profile("soak", max_examples=200, **_COMMON)
settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Exclude what was imported and collected from garbage collection: it stays until the end.

    Otherwise every full collection visits it, which took a twentieth of the processor time.
    """
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests that share expensive work, so that `--dist loadgroup` repeats less of it.

    One worker runs all tests of a family of agents, whose machine code shares most of its parts,
    and all tests of a module that use a module-scoped fixture. The scheduler starts with the
    largest groups; single tests follow, the long ones first.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("xdist_group") is None:
            group = _group_of(item)
            if group is not None:
                item.add_marker(pytest.mark.xdist_group(group))


def _group_of(item: pytest.Function) -> str | None:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    agent = parameters.get("name")
    if isinstance(agent, str) and agent in AGENTS:
        return component_family(AGENTS.aliases.get(agent, agent))
    fixtures = [definitions[-1] for definitions in item._fixtureinfo.name2fixturedefs.values()]
    if any(fixture.scope == "module" for fixture in fixtures):
        return item.path.stem
    return None


@pytest.fixture(scope="module")
def browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chrome]:
    """Chromium; where it is not, tests are skipped and say so, and under `CI` they fail."""
    missing = [str(path) for path in (CHROMIUM, DRIVER) if not path.exists()]
    if missing:
        absent = " and no ".join(missing)
        reason = f"THE PAGE WAS NOT TRIED IN A BROWSER ({request.node.name}): there is no {absent}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        plugins: Any = request.config.pluginmanager
        with plugins.get_plugin("capturemanager").global_and_fixture_disabled():
            print(reason, file=sys.__stderr__)  # skips are silent, and this one must not be
        pytest.skip(reason)
    from selenium.webdriver import Chrome, ChromeOptions  # only here: it takes a while
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = Service(str(DRIVER))
    try:
        driver = Chrome(options=options, service=service)
        try:
            yield driver
        finally:
            driver.quit()
    finally:
        service.stop()
