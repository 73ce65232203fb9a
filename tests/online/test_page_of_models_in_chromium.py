"""The live page with many models: the list, one of them, explanations and split tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from tests.browser import ask, complaints, one, resize, scheme
from tests.online.watching import Running, fact, text, wait

from switchmdp.online.models import Models
from switchmdp.online.sqlite import SQLite

STATES, ACTIONS = ["new", "basket"], ["sport", "voucher"]
OTHERS = 120  # models besides the shop


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Models]:
    """A shop with a split test, which has learned something, and many other models."""
    store = SQLite(tmp_path_factory.mktemp("models") / "all.sqlite", sync=False)
    with Models(store) as models:
        for i in range(OTHERS):
            models.create(f"other-{i:03}", "random", states=3, actions=2)
        models.create("a-shop", "random", states=STATES, actions=ACTIONS)
        shop = models.load("a-shop")
        shop.set_arms([{"name": "control", "share": 0.5, "policy": [0, 0]}])
        for i in range(200):
            asked = shop.decide(i % 2, session=f"visitor {i % 20}")
            shop.feedback(asked.id, float(asked.action == 1), (i + 1) % 2)
        yield models


@pytest.fixture(scope="module")
def service(models: Models) -> Iterator[Running]:
    running = Running(models)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def page(browser: Chrome, service: Running) -> Iterator[Chrome]:
    """The page when it is opened. Fail if the browser logs messages."""
    resize(browser, 1300)
    scheme(browser, "light")
    browser.get("about:blank")
    complaints(browser)
    browser.get(service.address)
    wait(browser, lambda: len(names(browser)) > 1)
    yield browser
    assert complaints(browser) == []


def names(page: Chrome) -> list[str]:
    script = "[...document.querySelectorAll('#models tbody a')].map((link) => link.textContent)"
    return list(ask(page, script))


def cells(page: Chrome, selector: str) -> list[list[str]]:
    script = """[...document.querySelectorAll(`${arguments[0]} tbody tr`)].map((row) =>
        [...row.children].map((cell) => cell.textContent))"""
    rows = ask(page, script, selector)
    return [[str(cell).replace("\u00a0", " ") for cell in row] for row in rows]


def open_shop(page: Chrome) -> None:
    page.execute_script("location.hash = '#/models/a-shop'")
    wait(page, lambda: one(page, "#content").is_displayed() and cells(page, "#why-table"))


def test_an_empty_list_says_how_to_create_a_model(browser: Chrome, tmp_path: Path) -> None:
    with Models(SQLite(tmp_path / "none.sqlite", sync=False)) as models:
        running = Running(models)
        try:
            browser.get(running.address)
            wait(browser, lambda: one(browser, "#first").is_displayed())
            assert text(browser, "#first").startswith("Create the first model with POST /models:")
            one(browser, "#first a").click()
            wait(browser, lambda: browser.title == "switchmdp: routes")
            assert "A first model (replace localhost:8000" in one(browser, "main").text
        finally:
            running.stop()


def test_the_list_shows_one_page_of_models(page: Chrome) -> None:
    assert page.title == "Models · switchmdp"
    assert names(page) == ["a-shop", *[f"other-{i:03}" for i in range(49)]]
    first, second = cells(page, "#models")[:2]
    assert first[2:6] == [first[2], "200", "0", "0"]
    assert 0 < float(first[2]) < 1
    assert first[7:] == ["random", "2 × 2"]
    assert second[1] == "no feedback"
    line = one(page, "#models .spark")
    assert line.aria_role in {"img", "image"}
    assert line.accessible_name.startswith("mean reward from ")


def test_the_small_line_leaves_out_a_last_bucket_of_few_rewards(page: Chrome) -> None:
    drawn = "spark(arguments[0]).querySelector('polyline').getAttribute('points').split(' ').length"
    buckets = [{"n": 80, "mean": 0.1}, {"n": 80, "mean": 0.1}]
    assert ask(page, drawn, [*buckets, {"n": 3, "mean": 0.7}]) == 2
    assert ask(page, drawn, [*buckets, {"n": 40, "mean": 0.7}]) == 3


def test_the_list_can_be_read_page_by_page(page: Chrome) -> None:
    assert not one(page, "#previous").is_enabled()
    one(page, "#next").click()
    wait(page, lambda: names(page)[0] == "other-049")
    assert text(page, "#range") == "51 to 100 of the models"
    one(page, "#next").click()
    wait(page, lambda: names(page)[0] == "other-099")
    assert len(names(page)) == 21
    assert not one(page, "#next").is_enabled()
    one(page, "#previous").send_keys(Keys.ENTER)
    wait(page, lambda: names(page)[0] == "other-049")


def test_models_are_found_by_a_part_of_their_name(page: Chrome) -> None:
    search = one(page, "#search")
    assert search.accessible_name == "Search by name"
    search.send_keys("11")
    wait(page, lambda: names(page) == ["other-011", *[f"other-{i}" for i in range(110, 120)]])
    assert text(page, "#range") == "All models whose names contain “11” (11)"
    search.send_keys(" no such model")
    wait(page, lambda: text(page, "#range").startswith("There are no models whose names contain"))
    assert not one(page, "#models").is_displayed()
    search.clear()
    search.send_keys("shop")
    wait(page, lambda: names(page) == ["a-shop"])


def test_a_model_is_opened_and_left_by_keyboard(page: Chrome) -> None:
    page.find_element(By.LINK_TEXT, "a-shop").send_keys(Keys.ENTER)
    wait(page, lambda: one(page, "#content").is_displayed())
    wait(page, lambda: ask(page, "document.activeElement.id") == "name")
    assert page.title == "a-shop · switchmdp"
    assert text(page, "h1") == "a-shop"
    assert not one(page, "#list").is_displayed()
    assert fact(page, "Feedback counted") == "200"
    assert text(page, "#policy thead") == "Statesportvoucher"
    assert cells(page, "#policy")[0][0].startswith("new")
    page.find_element(By.LINK_TEXT, "All models").send_keys(Keys.ENTER)
    wait(page, lambda: one(page, "#list").is_displayed())
    wait(page, lambda: page.title == "Models · switchmdp")
    page.back()
    wait(page, lambda: page.title == "a-shop · switchmdp")


def test_the_explanation_shows_each_action_with_its_interval(page: Chrome) -> None:
    open_shop(page)
    sport, voucher = cells(page, "#why-table")
    assert sport[0] == "sport"
    assert sport[1].startswith("0.00 ")
    assert voucher[1].startswith("1.00 ")
    assert " to " in voucher[1]
    assert float(voucher[2]) > 0 > float(sport[2]), "the voucher is better"
    assert "%" in sport[4]
    assert sport[5] == "none"
    assert "95 % credible interval" in text(page, "#why-note")
    given = one(page, "#why-state")
    assert given.accessible_name == "State (name or number)"
    given.clear()
    given.send_keys("basket", Keys.ENTER)
    wait(page, lambda: text(page, "#why-note").startswith("basket, from "))
    given.clear()
    given.send_keys("nowhere", Keys.ENTER)
    wait(page, lambda: "nowhere" in text(page, "#why-note"))
    assert not one(page, "#why-table").is_displayed()
    assert all("422" in complaint for complaint in complaints(page))


def test_the_split_test_shows_intervals_and_a_verdict_in_words(page: Chrome) -> None:
    open_shop(page)
    main, control = cells(page, "#arms-table")
    assert [main[0], *main[3:5]] == ["main", "the model’s agent", "50 %"]
    assert [control[0], *control[3:5]] == ["control", "a fixed policy", "50 %"]
    assert int(main[5]) + int(control[5]) == 200
    assert control[1].startswith("0.00 ")
    assert control[2] in {"worse than main", "no clear difference yet"}


def test_an_address_that_was_cut_off_is_reported(page: Chrome) -> None:
    page.execute_script("location.hash = '#/models/%E0%A4%A'")
    wait(page, lambda: "there is no model '%E0%A4%A'" in text(page, "#status-text"))
    page.execute_script("location.hash = '#/models'")
    wait(page, lambda: text(page, "#status-text") == "live")
    assert all("404" in complaint for complaint in complaints(page))


def test_a_model_that_does_not_exist_is_reported(page: Chrome) -> None:
    page.execute_script("location.hash = '#/models/nothing'")
    wait(page, lambda: "nothing" in text(page, "#status-text"))
    assert one(page, "#retry").is_displayed()
    page.execute_script("location.hash = '#/models'")
    wait(page, lambda: text(page, "#status-text") == "live")
    assert all("404" in complaint for complaint in complaints(page))


@pytest.mark.parametrize("width", [400, 1300])
def test_neither_view_scrolls_sideways(page: Chrome, width: int) -> None:
    resize(page, width)
    assert ask(page, "document.documentElement.scrollWidth") <= width
    open_shop(page)
    assert ask(page, "document.documentElement.scrollWidth") <= width


CONTRAST = """(() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const found = rgb(getComputedStyle(node).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility()) continue;
    if (node.closest("svg, :disabled, script, style, noscript")) continue;
    const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(`${node.tagName} ${node.className}: ${ratio.toFixed(2)}`);
  }
  return faint;
})()
"""


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_all_text_has_enough_contrast(page: Chrome, colours: str) -> None:
    """WCAG 2.2, 1.4.3: at least 4.5 : 1."""
    scheme(page, colours)
    assert ask(page, CONTRAST) == []
    open_shop(page)
    assert ask(page, CONTRAST) == []


def test_everything_that_can_be_operated_has_a_name(page: Chrome) -> None:
    open_shop(page)
    found = page.find_elements(
        By.CSS_SELECTOR, "a, button, input, [tabindex='0'], [role='meter'], [role='region'], table"
    )
    nameless = [
        node.get_attribute("outerHTML")
        for node in found
        if node.is_displayed() and not node.accessible_name
    ]
    assert nameless == []
