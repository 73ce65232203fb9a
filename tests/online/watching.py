"""The live page of the real service, in a real browser."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait
from tests.browser import ask

from switchmdp.online import Decisions
from switchmdp.online.models import Models
from switchmdp.online.server import Server, Tokens, address_of, application, listen

PATIENCE = 120  # seconds; an agent may have to be compiled meanwhile on a busy machine


class Running:
    """The real service, which can be stopped and started again at its address."""

    def __init__(self, decisions: Decisions | Models, token: str | Tokens | None = None) -> None:
        self.app, self.port, self.token = application(decisions, token=token), 0, token
        self.start()

    def start(self) -> None:
        bound = listen("127.0.0.1", self.port, has_token=self.token is not None)
        self.address, self.port = address_of(bound), bound.getsockname()[1]
        ready = threading.Event()
        self.server = Server(self.app, ready.set)
        self.thread = threading.Thread(target=self.server.run, args=([bound],))
        self.thread.start()
        assert ready.wait(PATIENCE)

    def stop(self) -> None:
        self.server.stop()
        self.server.stop()  # asked twice: the browser's connections are not waited for
        self.thread.join()


Open = Callable[..., Running]


def live(decisions: Decisions, steps: int, reward: Callable[[Any], float] | None = None) -> None:
    rng = np.random.default_rng(0)
    state = 0
    for _ in range(steps):
        asked = decisions.decide(state, session="a")
        state = int(rng.integers(decisions.learner.agent.n_states))
        got = float(rng.random()) if reward is None else reward(asked)
        decisions.feedback(asked.id, got, state)


def text(browser: Chrome, selector: str) -> str:
    found = ask(browser, "document.querySelector(arguments[0])?.textContent ?? ''", selector)
    return str(found).replace("\u00a0", " ")


def wait(browser: Chrome, for_what: Callable[[], Any]) -> None:
    WebDriverWait(browser, PATIENCE, 0.05).until(lambda _: for_what())


def until_says(browser: Chrome, selector: str, words: str) -> None:
    wait(browser, lambda: words in text(browser, selector))


def until_counted(browser: Chrome, n: int) -> None:
    """Wait until the page shows the n-th feedback."""
    wait(browser, lambda: fact(browser, "Feedback counted") == str(n))


def fact(browser: Chrome, name: str) -> str:
    script = """([...document.querySelectorAll('#facts dt')].find((node) =>
        node.textContent === arguments[0])?.nextSibling.firstChild.textContent)"""
    return str(ask(browser, script, name)).replace("\u00a0", " ")


def points(browser: Chrome) -> int:
    line = ask(browser, "document.querySelector('.trailing[points]').getAttribute('points')")
    return len(str(line).split(" "))


def chosen(browser: Chrome) -> list[str]:
    """The marks in each row."""
    script = """[...document.querySelectorAll('#policy tbody tr')].map((row) =>
        [...row.querySelectorAll('td')].map((cell) => cell.querySelector('.mark').textContent))"""
    return [" | ".join(row) for row in ask(browser, script)]


def shown_as(value: str, number: float | None) -> bool:
    """Whether the page shows this number, or that it is unknown.

    JavaScript and Python round a tie such as 0.125 to different decimals.
    """
    if number is None or value == "unknown":
        return number is None and value == "unknown"
    return abs(float(value) - number) <= 0.005 + 1e-12
