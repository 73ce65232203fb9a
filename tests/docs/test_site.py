"""The documentation site: it is built without warnings, and works on phones and offline."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from tests.browser import ask, complaints, one, resize, scheme

ROOT = Path(__file__).resolve().parent.parent.parent
PHONE, DESKTOP = 390, 1280

pytestmark = pytest.mark.xdist_group("site")
for package in ("material", "mkdocs", "mkdocstrings"):
    pytest.importorskip(package, reason="the site needs the extra `docs`")


def build(*options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run mkdocs (not with --quiet, which makes it ignore warnings in strict mode, too)."""
    command = [sys.executable, "-m", "mkdocs", "build", *map(str, options)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = build("--site-dir", target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    """The address of a server of the site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            pass

    handler = partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}"
        serving.shutdown()
        thread.join()


@pytest.fixture
def show(browser: Chrome, site: Path) -> Iterator[Callable[..., None]]:
    """Open a page as a file; fail if the browser logs errors."""

    def show(page: str, width: int = DESKTOP, colours: str = "light") -> None:
        resize(browser, width)
        scheme(browser, colours)
        browser.get((site / page).as_uri())

    complaints(browser)
    yield show
    assert complaints(browser) == []


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> Any:
    """The value of a condition as soon as it is true."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return value


def test_every_page_of_the_sources_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert (site / page.relative_to(ROOT / "docs").with_suffix(".html")).exists(), page


def test_the_site_loads_nothing_from_other_sites(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        for attribute in ('src="http', 'src="//', 'rel="stylesheet" href="http', "fonts.g"):
            assert attribute not in text, (page, attribute)


def test_the_reference_documents_functions_and_not_modules_of_their_name(site: Path) -> None:
    for page in (site / "reference").glob("*.html"):
        assert "doc-symbol-module" not in page.read_text(encoding="utf-8"), page


def test_examples_in_the_reference_are_shown_as_code(site: Path) -> None:
    for page in (site / "reference").glob("*.html"):
        assert "<blockquote>" not in page.read_text(encoding="utf-8"), page


def test_a_broken_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    index = tmp_path / "docs" / "index.md"
    config = tmp_path / "mkdocs.yml"
    plain = "plugins: []\nhooks: []\nextra_css: []\nextra_javascript: []\nnav: [index.md]\n"
    config.write_text(f"INHERIT: {ROOT / 'mkdocs.yml'}\n{plain}", encoding="utf-8")
    for text, code in (("# A\n[good](#a)", 0), ("# A\n[bad](b.md)", 1), ("# A\n[bad](#b)", 1)):
        index.write_text(text, encoding="utf-8")
        done = build("--config-file", config)
        assert done.returncode == code, (text, done.stderr)


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize(
    "page",
    [
        "index.html",
        "leaderboard.html",
        "gallery.html",
        "operations.html",
        "reference/planning.html",
    ],
)
def test_pages_fit_the_screen(
    page: str, width: int, browser: Chrome, show: Callable[..., None]
) -> None:
    show(page, width)
    assert ask(browser, "document.documentElement.scrollWidth") <= width


def test_the_theme_follows_the_system(browser: Chrome, show: Callable[..., None]) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    show("gallery.html", colours="light")
    assert ask(browser, background) == "rgb(255, 255, 255)"
    show("gallery.html", colours="dark")
    assert ask(browser, background) != "rgb(255, 255, 255)"
    figure = "getComputedStyle(document.querySelector('article img')).backgroundColor"
    assert ask(browser, figure) == "rgb(255, 255, 255)"


def search(browser: Chrome, width: int, text: str) -> list[str]:
    """The titles of the pages that the search finds."""
    if width == PHONE:
        one(browser, ".md-header__button[for=__search]").click()
    else:
        one(browser, ".md-search__input").click()
    one(browser, ".md-search__input").send_keys(text)
    found = "[...document.querySelectorAll('.md-search-result__link')].map((a) => a.href)"
    return list(wait_for(lambda: ask(browser, found)))


@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_search_works_in_files(width: int, browser: Chrome, show: Callable[..., None]) -> None:
    show("index.html", width)
    found = search(browser, width, "EvidencePSRL")
    assert any("evidence-psrl.html" in address for address in found)
    assert any("reference/agents.html" in address for address in found)


def test_the_search_works_on_a_server(browser: Chrome, server: str) -> None:
    resize(browser, DESKTOP)
    browser.get(f"{server}/index.html")
    found = search(browser, DESKTOP, "EvidencePSRL")
    assert any("evidence-psrl.html" in address for address in found)
    assert complaints(browser) == []


def shown(browser: Chrome, column: str) -> list[str]:
    """The visible cells of a column of the table of results."""
    cells = f"[...document.querySelectorAll('.results tbody tr:not([hidden]) .{column}')]"
    return [str(text) for text in ask(browser, f"{cells}.map((cell) => cell.textContent)")]


def test_the_results_are_filtered_by_row_and_agent(
    browser: Chrome, show: Callable[..., None]
) -> None:
    show("leaderboard.html")
    assert set(shown(browser, "row")) == {"all rows of the open suite"}
    choice = Select(one(browser, ".results select"))
    choice.select_by_visible_text("paper, 2 changes")
    assert set(shown(browser, "row")) == {"paper, 2 changes"}
    assert one(browser, ".results output").text == f"{len(shown(browser, 'row'))} results"
    one(browser, ".results input").send_keys("evidence")
    assert shown(browser, "agent") == ["EvidencePSRL"]
    choice.select_by_visible_text("every row")
    assert len(set(shown(browser, "row"))) == len(shown(browser, "row")) > 1


def test_the_results_are_sorted_with_unknown_values_last(
    browser: Chrome, show: Callable[..., None]
) -> None:
    show("leaderboard.html")
    buttons = browser.find_elements(By.CSS_SELECTOR, ".results th button")
    rank = next(button for button in buttons if button.text.startswith("rank"))
    for direction in ("ascending", "descending"):
        rank.click()
        assert one(browser, ".results th.rank").get_attribute("aria-sort") == direction
        cells = shown(browser, "rank")
        known = [float(cell) for cell in cells if cell != "–"]
        assert known == sorted(known, reverse=direction == "descending")
        assert len(known) > 20
        assert set(cells[len(known) :]) == {"–"}


def test_the_results_are_shown_without_javascript(
    browser: Chrome, show: Callable[..., None]
) -> None:
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        show("leaderboard.html")
        text = one(browser, ".results").text
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert "EvidencePSRL" in text
