"""The page in a real browser: charts, keyboard and mouse, colour schemes, printing, security."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from tests.browser import ask, complaints, one, resize, scheme

from switchmdp.experiments.results import Results
from switchmdp.reports.page import write_page
from switchmdp.reports.report import Report, experiment_page

Maker = Callable[..., Results]
Open = Callable[[Results], None]


@pytest.fixture
def show(browser: Chrome, tmp_path: Path) -> Iterator[Open]:
    """Open the page of results at 1400 × 900, light; fail if the browser logs errors."""

    def show(results: Results) -> None:
        write_page(experiment_page(Report(results)), tmp_path / "page.html")
        resize(browser, 1400)
        scheme(browser, "light")
        browser.get((tmp_path / "page.html").as_uri())

    complaints(browser)
    yield show
    assert complaints(browser) == []


def drawing(browser: Chrome) -> str:
    return str(ask(browser, "document.querySelector('canvas').toDataURL()"))


def readout(browser: Chrome) -> str:
    return str(ask(browser, "document.querySelector('.readout').textContent"))


def values(browser: Chrome) -> list[str]:
    script = "[...document.querySelectorAll('figure')[0].querySelectorAll('.value')]"
    return [str(text) for text in ask(browser, f"{script}.map((v) => v.textContent)")]


def test_every_chart_is_drawn(browser: Chrome, show: Open, make_results: Maker) -> None:
    show(make_results(settings=("first", "second"), n=40))
    figures = browser.find_elements(By.CSS_SELECTOR, "figure")
    assert len(figures) == 4
    coloured = """[...document.querySelectorAll('canvas')].map((canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        const blue = (i) => data[i + 2] > data[i] + 100 && data[i + 3] === 255;
        return Array.from({ length: data.length / 4 }, (_, i) => 4 * i).filter(blue).length;
    })"""
    counts = ask(browser, coloured)
    assert len(counts) == 4
    assert min(counts) > 200


def test_names_are_shown_literally_and_run_no_code(
    browser: Chrome, show: Open, hostile_results: Results, hostile: tuple[str, str]
) -> None:
    show(hostile_results)
    both = "".join(hostile)
    assert browser.title == both
    assert one(browser, "h1").text == both
    assert one(browser, "blockquote").text == both
    figure = browser.find_elements(By.CSS_SELECTOR, "figure")[0]
    buttons = figure.find_elements(By.CSS_SELECTOR, ".agent")
    assert [button.text for button in buttons] == list(hostile)
    assert ask(browser, "document.querySelectorAll('img').length") == 0
    assert ask(browser, "document.querySelectorAll('script').length") == 3
    plots = browser.find_elements(By.CSS_SELECTOR, ".plot")
    assert any(hostile[0] in str(plot.get_attribute("aria-label")) for plot in plots)
    plots[0].send_keys(Keys.ARROW_LEFT)
    assert all(name in readout(browser) for name in hostile)
    assert ask(browser, "document.querySelectorAll('img').length") == 0


def test_an_injected_script_does_not_run(browser: Chrome, show: Open, make_results: Maker) -> None:
    show(make_results())
    browser.execute_script(
        "const script = document.createElement('script');"
        "script.textContent = 'window.ran = true'; document.body.append(script)"
    )
    assert ask(browser, "window.ran === undefined")
    (complaint,) = complaints(browser)
    assert "Content Security Policy" in complaint


def test_the_legend_hides_and_shows_agents_by_keyboard(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results())
    before = drawing(browser)
    button = one(browser, ".agent")
    assert button.tag_name == "button"
    button.send_keys(Keys.ENTER)
    assert button.get_attribute("aria-pressed") == "false"
    assert values(browser)[0] == "hidden"
    assert drawing(browser) != before
    assert ask(browser, "document.activeElement === arguments[0]", button)
    assert ask(browser, "getComputedStyle(arguments[0]).outlineStyle", button) == "solid"
    button.send_keys(Keys.SPACE)
    assert button.get_attribute("aria-pressed") == "true"
    assert drawing(browser) == before


def test_arrow_keys_move_through_the_chart_step_by_step(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results(points=50))
    plot = one(browser, ".plot")
    assert one(browser, ".readout").get_attribute("aria-live") == "polite"
    assert "at step 10\u00a0000" in readout(browser)
    last = values(browser)
    steps = []
    for key in (Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.END):
        plot.send_keys(key)
        steps.append(readout(browser).split("at step ")[1].split(".")[0].replace("\u00a0", ""))
    assert steps == ["0", "200", "400", "200", "10000"]
    assert "window: " in readout(browser)
    plot.send_keys(Keys.HOME)
    assert values(browser)[0].startswith("0 ")
    plot.send_keys(Keys.TAB)
    assert values(browser) == last


def test_every_recorded_step_can_be_reached(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results(points=200))
    one(browser, ".plot").send_keys(Keys.HOME)
    read = browser.execute_async_script("""
        const done = arguments[0], plot = document.querySelector('.plot'), read = [];
        const next = () => {
            read.push(document.querySelector('.readout').textContent);
            if (read.length > 200) return done(read);
            plot.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }));
            setTimeout(next);
        };
        next();
    """)
    steps = [text.split("at step ")[1].split(".")[0].replace("\u00a0", "") for text in read]
    recorded = {*range(0, 10_001, 50), 2_501, 7_501}
    assert list(map(int, steps)) == sorted(recorded)[:201]


def test_hovering_shows_the_values(browser: Chrome, show: Open, make_results: Maker) -> None:
    show(make_results())
    last = values(browser)
    over = one(browser, ".u-over")
    ActionChains(browser).move_to_element(over).perform()
    assert "at step 5\u00a0000" in readout(browser)
    assert values(browser) != last
    ActionChains(browser).move_to_element(one(browser, "h2")).perform()
    assert values(browser) == last


def test_dragging_zooms_and_the_button_or_escape_resets(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results())
    reset, plot = one(browser, ".reset"), one(browser, ".plot")
    assert not reset.is_enabled()
    for undo in (reset.click, lambda: plot.send_keys(Keys.ESCAPE)):
        whole = drawing(browser)
        over = one(browser, ".u-over")
        drag = ActionChains(browser).move_to_element(over).click_and_hold()
        drag.move_by_offset(200, 0).release().perform()
        assert drawing(browser) != whole
        assert reset.is_enabled()
        plot.send_keys(Keys.HOME)
        assert "at step 5\u00a0000" in readout(browser)
        undo()
        assert not reset.is_enabled()
        plot.send_keys(Keys.HOME)
        assert "at step 0" in readout(browser)
        plot.send_keys(Keys.TAB)
    plot.send_keys("+")
    assert reset.is_enabled()
    plot.send_keys(Keys.HOME)
    assert "at step 2\u00a0500" in readout(browser)
    plot.send_keys("-")
    assert "at step 2\u00a0500" in readout(browser)
    plot.send_keys("-")
    assert not reset.is_enabled()


def test_the_view_within_segments_restarts_at_a_change(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results(points=50))
    before = drawing(browser)
    views = browser.find_elements(By.CSS_SELECTOR, ".views input")
    views[0].send_keys(Keys.ARROW_LEFT)  # wraps around to the last view
    assert "Mean regret within each segment" in readout(browser)
    assert drawing(browser) != before
    plot = one(browser, ".plot")
    plot.send_keys(Keys.HOME)
    while "at step 2\u00a0501" not in readout(browser):
        plot.send_keys(Keys.ARROW_RIGHT)
    assert float(values(browser)[0].split(" ")[0]) < 5


def test_every_chart_has_its_own_choice_of_view(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results(settings=("first", "second")))
    chosen = "[...document.querySelectorAll('.views input')].map((input) => input.checked)"
    assert ask(browser, chosen) == [True, False, False, True, False, False]
    browser.find_elements(By.CSS_SELECTOR, ".views input")[0].send_keys(Keys.ARROW_RIGHT)
    assert ask(browser, chosen) == [False, True, False, True, False, False]


@pytest.mark.parametrize("width", [400, 1400])
def test_the_page_does_not_scroll_sideways(
    width: int, browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results(agents=[f"agent{'x' * 30}{i}" for i in range(10)]))
    resize(browser, width)
    assert ask(browser, "document.documentElement.scrollWidth") <= width
    canvas = ask(browser, "document.querySelector('canvas').getBoundingClientRect().right")
    assert width / 2 < canvas <= width


def test_charts_follow_the_colour_scheme(browser: Chrome, show: Open, make_results: Maker) -> None:
    show(make_results())
    background = "getComputedStyle(document.body).backgroundColor"
    light = drawing(browser)
    assert ask(browser, background) == "rgb(255, 255, 255)"
    scheme(browser, "dark")
    assert ask(browser, background) == "rgb(20, 23, 27)"
    assert drawing(browser) != light
    scheme(browser, "light")
    assert drawing(browser) == light


def test_printing_opens_details_and_uses_light_sharp_charts(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    show(make_results())
    scheme(browser, "dark")
    dark = drawing(browser)
    closed = "document.querySelectorAll('main details:not([open])').length"
    assert ask(browser, closed) == 1
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert ask(browser, closed) == 0
    canvas = "document.querySelector('canvas')"
    shown = ask(browser, f"{canvas}.getBoundingClientRect().width")
    assert shown == pytest.approx(640, abs=1)
    assert ask(browser, f"{canvas}.width") >= 3 * 639
    assert ask(browser, "getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert ask(browser, closed) == 1
    assert drawing(browser) == dark
    pdf = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF")
    assert drawing(browser) == dark


def test_without_javascript_tables_are_shown_and_charts_explain_why_not(
    browser: Chrome, show: Open, make_results: Maker
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show(make_results())
        text = one(browser, "main").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "This chart needs JavaScript" in text
    assert "interquartile mean" in text
    assert browser.find_elements(By.CSS_SELECTOR, "canvas") == []
