"""Fixtures: a folder with history, served decisions, and their page in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.online.serving import Client, serving
from tests.online.workbench import bits, kill, live, snapshots_in, sw_ucrl

from switchmdp.agents import SWUCRL
from switchmdp.online import Decisions

if TYPE_CHECKING:
    from selenium.webdriver import Chrome
    from tests.online.watching import Running

    from switchmdp.online.server import Tokens


@pytest.fixture
def lived(tmp_path: Path) -> tuple[Path, Any]:
    """A folder with snapshots whose process was killed, and the state of its learner."""
    folder = tmp_path / "lived"
    decisions = Decisions(sw_ucrl(), folder, sync=False, snapshot_every=50)
    for seed in range(5):
        live(decisions, 33, seed)
        saver = decisions._saver
        assert saver is not None
        saver.join()
    decisions._every = 10**9
    live(decisions, 33, 5)  # the last events are in no snapshot
    kill(decisions)
    assert len(snapshots_in(folder)) == 3
    return folder, bits(decisions.learner)


@pytest.fixture
def decisions(tmp_path: Path) -> Iterator[Decisions]:
    with Decisions(SWUCRL(3, 2, window=100), tmp_path / "data", sync=False) as found:
        yield found


@pytest.fixture
def client(decisions: Decisions) -> Iterator[Client]:
    with serving(decisions) as found:
        yield found


@pytest.fixture
def serve(browser: Chrome) -> Iterator[Callable[..., Running]]:
    """Serve decisions and open their page. Fail if the browser logs messages that no test read."""
    from tests.browser import complaints, resize, scheme
    from tests.online.watching import Running

    running: list[Running] = []

    def serve(decisions: Decisions, token: str | Tokens | None = None) -> Running:
        running.append(Running(decisions, token))
        resize(browser, 1400)
        scheme(browser, "light")
        browser.get(running[-1].address)
        return running[-1]

    complaints(browser)
    try:
        yield serve
        assert complaints(browser) == []
    finally:
        browser.get("about:blank")
        for service in running:
            if service.thread.is_alive():
                service.stop()
