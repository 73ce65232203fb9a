"""The HTML of the page: content, size, reproducible bytes and escaping."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from switchmdp.errors import MissingExtra
from switchmdp.experiments.results import Results
from switchmdp.reports.figures import COLOURS
from switchmdp.reports.page import render_page, write_page
from switchmdp.reports.report import Report, experiment_page

Maker = Callable[..., Results]
FILES = Path(__file__).parents[2] / "src/switchmdp/reports/page_files"


class Read(HTMLParser):
    """The elements of a page with their attributes, and the text by kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        for tag in set(self._open):
            self.texts[tag][-1] += data

    def names(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.elements)


def page_of(results: Results) -> str:
    return render_page(experiment_page(Report(results)))


def charts(page: str) -> Any:
    match = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.S)
    assert match
    return json.loads(match.group(1))


def test_the_same_results_give_the_same_bytes(make_results: Maker, tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_page(experiment_page(Report(make_results())), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_text(encoding="utf-8") == page_of(make_results())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_page_shows_settings_claims_tables_and_provenance(make_results: Maker) -> None:
    read = Read(page_of(make_results(settings=("first", "second"))))
    text = "".join(read.texts["body"])
    assert read.texts["h1"] == ["A window against restarts"]
    assert (
        "2 agents in 2 settings, with 8 problems per setting and 10\u00a0000 steps per run." in text
    )
    assert "1 claim: 1 reproduced." in text
    for words in ("The window wins.", "its mean final regret is lower", "✓ reproduced"):
        assert words in text
    headings = read.texts["h3"]
    for title in ("Final regret", "Paired comparisons", "Regret by segment", "Steps to adapt"):
        assert headings.count(title) == 2
    assert "Hardness of the problems" in headings
    assert "the change points: steps 2\u00a0501, 7\u00a0501." in text
    for words in ("switchmdp run experiment.toml", "1.2.3", "horizon = 10_000"):
        assert words in text
    anchors = {f"#{attributes['id']}" for _, attributes in read.elements if "id" in attributes}
    links = {attributes["href"] for tag, attributes in read.elements if tag == "a"}
    assert links <= anchors
    assert len(links) >= 5


def test_sections_without_content_are_left_out(make_results: Maker) -> None:
    page = page_of(make_results(claims=False, configuration="", provenance={}))
    for section in ("claims", "failures", "parameters", "further", "origin"):
        assert f'id="{section}"' not in page


def test_empty_results_give_a_page() -> None:
    page = page_of(Results("nothing yet", 0.1, {}))
    assert "No results." in page
    assert charts(page) == []


def test_the_content_security_policy_allows_only_the_two_scripts_of_the_page(
    make_results: Maker,
) -> None:
    page = page_of(make_results())
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    hashes = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert match
    rules = dict(rule.strip().split(" ", 1) for rule in html.unescape(match.group(1)).split(";"))
    assert len(hashes) == 2
    assert rules == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:",
        "script-src": " ".join(f"'sha256-{each}'" for each in hashes),
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_a_page_loads_nothing_from_the_network(make_results: Maker) -> None:
    page = page_of(make_results())
    for _, attributes in Read(page).elements:
        assert "src" not in attributes
        assert "srcset" not in attributes
        assert str(attributes.get("href", "#")).startswith("#")
    for style in re.findall(r"<style>(.*?)</style>", page, re.S):
        assert not re.search(r"url\(|@import", style)
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(", (FILES / "page.js").read_text("utf-8"))


def test_names_cannot_inject_elements(hostile_results: Results, hostile: tuple[str, str]) -> None:
    page = page_of(hostile_results)
    for name in hostile:
        assert name not in page
    read = Read(page)
    assert read.names("script") == 3
    assert read.names("img") == 0
    assert not [a for _, attributes in read.elements for a in attributes if a.startswith("on")]
    assert read.texts["h1"] == ["".join(hostile)]
    assert read.texts["title"] == ["".join(hostile)]
    assert "".join(hostile) in read.texts["pre"]
    assert charts(page)[0]["names"] == list(hostile)


def test_chart_data_contains_no_markup_characters(make_results: Maker) -> None:
    names = ("</ScRiPt >", "<!--", "&amp;", "\u2028\u2029")
    page = page_of(make_results(agents=names))
    match = re.search(r'id="charts">(.*?)</script>', page, re.S)
    assert match
    assert not re.search("[<>&\u2028\u2029]", match.group(1))
    assert charts(page)[0]["names"] == list(names)


def test_a_page_with_ten_agents_in_two_settings_is_below_a_megabyte(make_results: Maker) -> None:
    agents = [f"agent number {i}" for i in range(10)]
    page = page_of(make_results(agents=agents, settings=("first", "second"), points=200))
    assert len(page.encode()) < 1_000_000


def test_change_points_that_differ_between_problems_are_not_marked(make_results: Maker) -> None:
    results = make_results(n=6)
    (setting,) = results.settings.values()
    apart = tuple(np.array([1_000 * (i + 2)]) for i in range(6))
    page = page_of(
        replace(results, settings={"two changes": replace(setting, change_points=apart)})
    )
    assert charts(page)[0]["marks"] == []
    assert "Change points are not marked" in page


def test_failed_runs_leave_gaps_and_are_listed_with_one_traceback(make_results: Maker) -> None:
    results = make_results(n=30)
    (setting,) = results.settings.values()
    runs = setting.agents["restarts"]
    broken = replace(runs, regret=runs.regret * np.nan, failed=~runs.failed)
    failures = tuple(
        {"setting": "s", "agent": "restarts", "problem": i, "error": "E", "traceback": "line 7"}
        for i in range(30)
    )
    page = page_of(
        replace(
            results,
            settings={
                "two changes": replace(setting, agents={**setting.agents, "restarts": broken})
            },
            failures=failures,
        )
    )
    assert set(charts(page)[0]["views"][0]["curves"][1][0]) == {None}
    assert "30 runs failed and are excluded" in page
    assert page.count("line 7") == 1
    assert "problem 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 20 more" in page


def test_a_swept_parameter_is_an_axis_and_fixed_values_are_marked(make_results: Maker) -> None:
    results = make_results(agents=("small", "large", "as in the paper"))
    (name, setting), windows = next(iter(results.settings.items())), (1, 100, 4)
    agents = {
        agent: replace(
            runs, base="a" if window != 4 else agent, parameters={"window": window},
            swept={"window": window} if window != 4 else {},
        )
        for (agent, runs), window in zip(setting.agents.items(), windows, strict=True)
    }  # fmt: skip
    page = page_of(replace(results, settings={name: replace(setting, agents=agents)}))
    chart = charts(page)[-1]
    assert chart["x"] == [1, 100]
    assert chart["log"]
    assert chart["names"] == ["a"]
    assert chart["marks"] == [{"x": 4.0, "label": "as in the paper"}]
    assert "as in the paper = 4." in page


def test_many_settings_are_also_shown_side_by_side(make_results: Maker) -> None:
    read = Read(page_of(make_results(settings=("a & b", "c", "d"))))
    assert "Overview" in read.texts["h3"]
    assert "a & b" in read.texts["th"]
    assert 'id="further"' not in page_of(make_results(settings=("a", "b")))


def test_text_that_is_not_unicode_is_escaped(make_results: Maker, tmp_path: Path) -> None:
    failure = {
        "setting": "s", "agent": "a", "problem": 0, "error": "E", "traceback": "in \udcff.py",
    }  # fmt: skip
    write_page(experiment_page(Report(make_results(failures=(failure,)))), tmp_path / "page.html")
    assert "in \\udcff.py" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_failed_write_leaves_the_old_page(
    make_results: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_page(experiment_page(Report(make_results())), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_jinja_the_error_names_the_extra(
    make_results: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtra, match=r"switchmdp\[plot\]"):
        page_of(make_results())


def test_colours_match_the_figures_and_contrast_with_a_dark_background() -> None:
    light, dark = (FILES / "page.css").read_text("utf-8").split("prefers-color-scheme: dark", 1)
    series = [re.findall(r"--series-\d: (#\w{6});", part) for part in (light, dark)]
    assert [colour.lower() for colour in series[0]] == [colour.lower() for colour in COLOURS]
    (paper,) = re.findall(r"--paper: (#\w{6});", dark)
    assert len(set(series[1])) == len(COLOURS)
    for colour in series[1]:
        assert _contrast(colour, paper) >= 4.5


def _contrast(first: str, second: str) -> float:
    """The ratio of two colours' relative luminances (WCAG 2)."""
    values = []
    for colour in (first, second):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        values.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(values) + 0.05) / (min(values) + 0.05)


def test_the_page_contains_the_licence_of_uplot(make_results: Maker) -> None:
    licence = (FILES / "uPlot-LICENSE.txt").read_text("utf-8")
    assert "MIT License" in licence
    assert licence in "".join(Read(page_of(make_results())).texts["pre"])
