"""The live page in a real browser, before the real service: it follows, and it can't be misled.

Debian's `chromium` and `chromium-driver` are used where they are. Where they are not, the tests are
skipped, and say so; under `CI` they fail.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from switchmdp.agents import SWUCRL, Random
from switchmdp.agents.protocol import Agent
from switchmdp.online import Decisions
from switchmdp.online.beliefs import beliefs
from switchmdp.online.page import page
from switchmdp.online.server import Server, address_of, listen
from switchmdp.online.service import application

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE = 30  # seconds; only for what fails
TOKEN = "a-token-of-some-length"
HOSTILE = "<img src=x onerror='window.ran=1'></script><script>window.ran=1</script>"


class Running:
    """The real service over decisions, which can be stopped and started again at its address."""

    def __init__(self, decisions: Decisions, token: str | None = None) -> None:
        self.app, self.port, self.token = application(decisions, token=token), 0, token
        self.start()

    def start(self) -> None:
        bound = listen("127.0.0.1", self.port, self.token)
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


@pytest.fixture(scope="module")
def browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Chrome]:
    missing = [str(path) for path in (CHROMIUM, DRIVER) if not path.exists()]
    if missing:
        reason = f"THE LIVE PAGE WAS NOT TRIED IN A BROWSER: there is no {' and no '.join(missing)}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        plugins: Any = request.config.pluginmanager
        with plugins.get_plugin("capturemanager").global_and_fixture_disabled():
            plugins.get_plugin("terminalreporter").write_line(reason, yellow=True, bold=True)
        pytest.skip(reason)
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


Open = Callable[..., Running]


@pytest.fixture
def serve(browser: Chrome) -> Iterator[Open]:
    """Serve decisions and open their page; nothing may be complained of that was not looked at."""
    running: list[Running] = []

    def serve(decisions: Decisions, token: str | None = None) -> Running:
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


@pytest.fixture
def decisions(tmp_path: Path) -> Iterator[Decisions]:
    with Decisions(SWUCRL(3, 2, window=100), tmp_path, sync=False) as decisions:
        yield decisions


def live(decisions: Decisions, steps: int, reward: Callable[[Any], float] | None = None) -> None:
    rng = np.random.default_rng(0)
    state = 0
    for _ in range(steps):
        asked = decisions.decide(state, session="a")
        state = int(rng.integers(decisions.learner.agent.n_states))
        got = float(rng.random()) if reward is None else reward(asked)
        decisions.feedback(asked.id, got, state)


def complaints(browser: Chrome) -> list[str]:
    """What the browser's console was told since it was last asked."""
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]  # Selenium's lacks types
    return [str(entry["message"]) for entry in entries]


def resize(browser: Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def scheme(browser: Chrome, value: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": value}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def ask(browser: Chrome, script: str, *arguments: Any) -> Any:
    browser.execute_async_script(
        "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
    )
    return browser.execute_script(f"return {script}", *arguments)


def one(browser: Chrome, selector: str) -> WebElement:
    return browser.find_element(By.CSS_SELECTOR, selector)


def text(browser: Chrome, selector: str) -> str:
    found = ask(browser, "document.querySelector(arguments[0])?.textContent ?? ''", selector)
    return str(found).replace("\u00a0", " ")


def wait(browser: Chrome, for_what: Callable[[], Any]) -> None:
    WebDriverWait(browser, PATIENCE, 0.05).until(lambda _: for_what())


def until_says(browser: Chrome, selector: str, words: str) -> None:
    wait(browser, lambda: words in text(browser, selector))


def until_counted(browser: Chrome, n: int) -> None:
    """Until the page has heard of the n-th feedback."""
    wait(browser, lambda: fact(browser, "Feedbacks counted") == str(n))


def fact(browser: Chrome, name: str) -> str:
    script = """([...document.querySelectorAll('#facts dt')].find((node) =>
        node.textContent === arguments[0])?.nextSibling.firstChild.textContent)"""
    return str(ask(browser, script, name)).replace("\u00a0", " ")


def points(browser: Chrome) -> int:
    line = ask(browser, "document.querySelector('.trailing[points]').getAttribute('points')")
    return len(str(line).split(" "))


def chosen(browser: Chrome) -> list[str]:
    """What is marked in each row."""
    script = """[...document.querySelectorAll('tbody tr')].map((row) =>
        [...row.querySelectorAll('td')].map((cell) => cell.querySelector('.mark').textContent))"""
    return [" | ".join(row) for row in ask(browser, script)]


def test_the_page_says_what_the_agent_believes(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 150)
    serve(decisions)
    until_counted(browser, 150)
    told = beliefs(decisions)
    assert browser.title == "SWUCRL · switchmdp"
    assert text(browser, "#summary") == "3 states · 2 actions · window 100 · delta 0.05"
    assert text(browser, "#status-text") == "live"
    policy = [row["policy"] for row in told["states"]]
    assert policy == decisions.learner.agent.policy.tolist()
    assert chosen(browser) == ["▶ chosen | " if a == 0 else " | ▶ chosen" for a in policy]
    plans = ask(browser, "[...document.querySelectorAll('.plan')].map((p) => p.textContent)")
    assert plans == [f"▶ action {action}" for action in policy]
    values = ask(browser, "[...document.querySelectorAll('.value')].map((v) => v.textContent)")
    assert values == [
        f"{pair['estimate']:.2f}" if pair["visits"] else "unknown"
        for row in told["states"]
        for pair in row["actions"]
    ]
    assert fact(browser, "Decisions made") == "150"
    assert fact(browser, "Episode") == str(told["episode"]["number"])
    assert "100 of 100 steps" in text(browser, "#window-text")


def test_the_curve_grows_as_feedback_arrives(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    serve(decisions)
    until_says(browser, "#curve", "No feedback has come in yet.")
    seen = []
    for total in (10, 30):
        live(decisions, total - decisions.learner.counted)
        until_counted(browser, total)
        seen.append(points(browser))
    assert seen == [10, 30]
    assert "Feedback 30" in text(browser, "#readout")
    live(decisions, 470)
    until_counted(browser, 500)
    assert 40 < points(browser) <= 80, "neighbours are joined"
    assert text(browser, "#readout").split(" (")[0].endswith(" to 500")


def test_an_alert_appears_after_a_change(browser: Chrome, serve: Open, tmp_path: Path) -> None:
    with Decisions(Random(1, 2), tmp_path, sync=False, signal_window=100) as decisions:
        live(decisions, 200, lambda asked: float(asked.action))
        serve(decisions)
        until_counted(browser, 200)
        assert "None so far." in text(browser, "#alerts")
        assert "No sign of a change" in text(browser, "#signal-text")
        live(decisions, 100, lambda asked: 0.0)
        until_counted(browser, 300)
        (alert,) = decisions.learner.alerts
        assert f"▲ Feedback {alert.step}" in text(browser, "#alerts")
        assert "the reward of action 1 in state 0, from 1.00 to " in text(browser, "#alerts")
        assert "▲ A change is likely" in text(browser, "#signal-text")
        assert float(str(one(browser, "#signal").get_attribute("aria-valuenow"))) >= 1
        assert len(browser.find_elements(By.CSS_SELECTOR, "#curve line.alert")) == 1


def test_an_agent_without_policy_or_estimates_can_be_looked_at(
    browser: Chrome, serve: Open, tmp_path: Path
) -> None:
    with Decisions(Random(2, 2), tmp_path, sync=False) as decisions:
        live(decisions, 5)
        serve(decisions)
        until_counted(browser, 5)
    assert set(chosen(browser)) == {" | "}
    assert "does not tell what it remembers" in text(browser, "#window-text")
    assert fact(browser, "Optimistic gain") == "–"


def test_a_fixed_policy_stands_beside_the_agents_own(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 20)
    decisions.set_mode("shadow", [1, 1, 1])
    live(decisions, 20)
    serve(decisions)
    until_counted(browser, 40)
    assert fact(browser, "Who chooses") == "fixed policy"
    assert "of 20" in text(browser, "#facts")
    for row, own in zip(chosen(browser), decisions.learner.agent.policy, strict=True):
        assert row == ("▶ chosen | ■ fixed" if own == 0 else " | ▶ chosen ■ fixed")


def test_new_states_and_actions_appear(browser: Chrome, serve: Open, decisions: Decisions) -> None:
    live(decisions, 5)
    serve(decisions)
    until_counted(browser, 5)
    decisions.add_state([0])
    decisions.add_action([0])
    wait(browser, lambda: len(browser.find_elements(By.CSS_SELECTOR, "tbody tr")) == 4)
    assert text(browser, "thead") == "StateAction 0Action 1Action 2"
    assert "not available" in text(browser, "tbody tr:last-child")


def test_a_token_is_asked_for_and_kept_in_the_tab(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 5)
    serve(decisions, token=TOKEN)
    wait(browser, one(browser, "#ask").is_displayed)
    assert not one(browser, "#content").is_displayed()
    assert ask(browser, "document.activeElement.id") == "token"
    assert one(browser, "#token").get_attribute("type") == "password"
    for wrong, why in (("no such token", "ASCII"), ("notthetoken", "not accepted"), ("ö", "ASCII")):
        one(browser, "#token").clear()
        one(browser, "#token").send_keys(wrong, Keys.ENTER)
        until_says(browser, "#ask-why", why)
    one(browser, "#token").clear()
    one(browser, "#token").send_keys(TOKEN, Keys.ENTER)
    until_counted(browser, 5)
    assert not one(browser, "#ask").is_displayed()
    browser.refresh()
    until_counted(browser, 5)
    assert TOKEN not in browser.current_url
    assert all("401" in complaint for complaint in complaints(browser))


def test_a_service_that_is_gone_is_said_to_be_and_found_again(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 5)
    service = serve(decisions)
    until_counted(browser, 5)
    service.stop()
    until_says(browser, "#status-text", "can’t be reached since")
    assert one(browser, "#retry").is_displayed()
    assert fact(browser, "Feedbacks counted") == "5", "what was known is still shown"
    live(decisions, 5)
    service.start()
    one(browser, "#retry").send_keys(Keys.ENTER)
    until_counted(browser, 10)
    assert text(browser, "#status-text") == "live"
    assert not one(browser, "#retry").is_displayed()
    assert all("ERR_" in complaint for complaint in complaints(browser))


def test_it_finds_the_service_again_by_itself(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    service = serve(decisions)
    until_counted(browser, 0)
    service.stop()
    until_says(browser, "#status-text", "can’t be reached since")
    service.start()
    until_says(browser, "#status-text", "live")
    complaints(browser)


def test_an_answer_that_is_an_error_or_nonsense_is_said_plainly(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    serve(decisions)
    until_counted(browser, 0)
    for status, body, words in (
        (503, "{}", "answers with an error (503)"),
        (200, "no JSON", "answer can’t be read"),
        (200, "[]", "answer can’t be read"),
    ):
        browser.execute_script(
            "window.fetch = async () => new Response(arguments[1], { status: arguments[0] })",
            status, body,
        )  # fmt: skip
        until_says(browser, "#status-text", words)


def test_it_rests_while_nobody_looks(browser: Chrome, serve: Open, decisions: Decisions) -> None:
    serve(decisions)
    until_counted(browser, 0)
    for hidden in ("true", "false"):
        browser.execute_script(
            f"Object.defineProperty(document, 'hidden', {{ value: {hidden}, configurable: true }});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        until_says(browser, "#status-text", "paused" if hidden == "true" else "live")


def test_names_are_shown_as_they_are_and_run_nothing(
    browser: Chrome, serve: Open, tmp_path: Path
) -> None:
    def act(self: Any, state: int) -> int:
        return 0

    def observe(self: Any, *step: Any) -> None:
        pass

    hostile: Any = type(HOSTILE, (Agent,), {"act": act, "observe": observe})
    agent = hostile(2, 2)
    with Decisions(agent, tmp_path, sync=False, classes=[hostile]) as decisions:
        asked = decisions.decide(0, session=HOSTILE)
        decisions.feedback(asked.id, 1.0, 0)
        serve(decisions)
        until_counted(browser, 1)
    assert text(browser, "h1") == HOSTILE
    assert browser.title == f"{HOSTILE} · switchmdp"
    assert ask(browser, "document.querySelectorAll('img').length") == 0
    assert ask(browser, "document.querySelectorAll('script').length") == 1
    assert ask(browser, "window.ran === undefined")


def test_a_script_or_style_that_was_not_put_there_is_refused(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    serve(decisions)
    until_counted(browser, 0)
    browser.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'window.ran = true'; document.body.append(script);"
        "const style = document.createElement('style');"
        "style.textContent = 'h1 { display: none }'; document.head.append(style)"
    )
    assert ask(browser, "window.ran === undefined")
    assert one(browser, "h1").is_displayed()
    found = complaints(browser)
    assert len(found) == 2
    assert all("Content Security Policy" in complaint for complaint in found)


def test_the_page_needs_nothing_from_elsewhere() -> None:
    assert "http://www.w3.org/2000/svg" in page()
    rest = page().replace("http://www.w3.org/2000/svg", "")
    assert not any(word in rest for word in ("http:", "https:", "//cdn", "@import", "innerHTML"))


def test_the_curve_is_read_by_keyboard_and_by_pointing(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 70)
    serve(decisions)
    until_counted(browser, 70)
    curve = one(browser, "#curve")
    assert curve.aria_role == "slider"
    assert curve.accessible_name == "Reward rate over time"
    read = []
    for key in (Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.END):
        curve.send_keys(key)
        read.append(text(browser, "#readout").split(" (")[0])
    assert read == [f"Feedback {n}" for n in (1, 2, 3, 2, 70)]
    assert curve.get_attribute("aria-valuetext") == ask(browser, "readout.textContent")
    assert ask(browser, "getComputedStyle(arguments[0]).outlineStyle", curve) == "solid"
    curve.send_keys(Keys.HOME)
    until = text(browser, "#readout")
    live(decisions, 1)
    until_counted(browser, 71)
    assert text(browser, "#readout") == until, "the point that is read stays while the curve grows"
    browser.execute_script("document.activeElement.blur()")
    ActionChains(browser).move_to_element(curve).perform()
    middle = text(browser, "#readout").split(" (")[0]
    assert 25 < int(middle.removeprefix("Feedback ")) < 45
    ActionChains(browser).move_to_element(one(browser, "h1")).perform()
    assert text(browser, "#readout").startswith("Feedback 71 ")


def test_meters_and_tables_have_names(browser: Chrome, serve: Open, decisions: Decisions) -> None:
    live(decisions, 50)
    serve(decisions)
    until_counted(browser, 50)
    names = {"#signal": "Change signal", "#window": "Memory", "#policy": "Policy and estimates"}
    assert {id_: one(browser, id_).accessible_name for id_ in names} == names
    assert text(browser, "#window-text") == "Window: 50 of 100 steps, 50 % full."
    assert one(browser, "#window").get_attribute("aria-valuetext") == "50 of 100 steps"


@pytest.mark.parametrize("width", [400, 1600])
def test_the_page_does_not_scroll_sideways(
    width: int, browser: Chrome, serve: Open, tmp_path: Path
) -> None:
    with Decisions(SWUCRL(30, 20, window=1000), tmp_path, sync=False) as decisions:
        live(decisions, 50)
        serve(decisions)
        until_counted(browser, 50)
        resize(browser, width)
        assert ask(browser, "document.documentElement.scrollWidth") <= width
        svg = ask(browser, "document.querySelector('#curve svg').getBoundingClientRect().right")
        assert width / 3 < svg <= width
        label = "getComputedStyle(document.querySelector('.which')).display"
        assert (ask(browser, label) != "none") == (width == 400), "as a list where it is narrow"


def test_the_page_follows_light_and_dark(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    serve(decisions)
    until_counted(browser, 0)
    colours = "[document.body, document.querySelector('.card')].map((e) => getComputedStyle(e))"
    shown = f"{colours}.map((style) => style.backgroundColor + style.color)"
    light = ask(browser, shown)
    scheme(browser, "dark")
    assert not set(light) & set(ask(browser, shown))
    scheme(browser, "light")
    assert ask(browser, shown) == light


def test_it_prints_with_the_curve_at_the_width_of_the_paper(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    live(decisions, 50)
    serve(decisions)
    until_counted(browser, 50)
    width = "document.querySelector('#curve svg').getAttribute('width')"
    before = ask(browser, width)
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script(f"return {width}") == "680"
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert ask(browser, width) == before
    pdf = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")


def test_without_scripts_it_says_where_the_data_is(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        serve(decisions)
        assert "This page is drawn by a script." in one(browser, "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
