"""The live page: accessibility, printing, dark mode and security."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from tests.browser import ask, complaints, one, resize, scheme
from tests.online.watching import (
    Open,
    live,
    text,
    until_counted,
)

from switchmdp.agents import SWUCRL
from switchmdp.agents.protocol import Agent
from switchmdp.online import Decisions
from switchmdp.online.views import page

HOSTILE = "<img src=x onerror='window.ran=1'></script><script>window.ran=1</script>"


def test_names_are_escaped(browser: Chrome, serve: Open, tmp_path: Path) -> None:
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


def test_injected_scripts_and_styles_are_blocked(
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


def test_the_page_loads_nothing_from_other_servers() -> None:
    assert "http://www.w3.org/2000/svg" in page()
    rest = page().replace("http://www.w3.org/2000/svg", "")
    assert not any(word in rest for word in ("http:", "https:", "//cdn", "@import", "innerHTML"))


def test_the_curve_can_be_read_by_keyboard_and_pointer(
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


def test_the_printed_curve_fits_the_paper(
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


def test_without_javascript_the_page_links_to_the_data(
    browser: Chrome, serve: Open, decisions: Decisions
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        serve(decisions)
        assert "This page needs JavaScript." in one(browser, "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
