"""Figures: what is drawn, where, and reproducible bytes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.reports.figures import (
    COLUMN_WIDTH,
    FORMATS,
    METADATA,
    PAGE_WIDTH,
    Panel,
    distribution_figure,
    heat_map,
    own_style,
    parameter_figure,
    regret_figure,
    render_figure,
    save_figure,
)
from switchmdp.reports.resampling import Band

NAN = float("nan")
CELLS = {"one": [1.0, 2.5, NAN], "two": [0.5, 120.0, -3.0]}
TIMES = np.arange(1000, 100_001, 1000)
AWKWARD = (
    "$\\frac{", "$x$ and $y$", "100 %", "_hidden", "__", "a_b^c", "\\alpha", "ünï λ ≥ ½",
    "<b>&amp;", "tab\tand\nline", "bell\a", "lone \ud800", "", " ", "nolegend", "_nolegend_",
)  # fmt: skip
LONG = ("a rather long name that has to be broken somewhere, " * 3, "one_word_without_a_break" * 6)


def line(slope: float = 1.0, times: Any = TIMES) -> Band:
    middle = slope * np.asarray(times, dtype=np.float64)
    return Band(np.asarray(times), middle, middle * 0.75, middle * 1.25)


def lines(*names: str) -> dict[str, Band]:
    return {name: line(1.0 + i) for i, name in enumerate(names)}


def two_panels() -> Figure:
    curves = lines("first", "second <b>")
    return regret_figure(
        [Panel("left", curves, [50_000]), Panel("right", curves, [20_000, 40_000])]
    )


def a_scan() -> Figure:
    scan = {"first": line(1.0, [100, 1000, 10_000]), "second": line(2.0, [200, 2000])}
    return parameter_figure([Panel("a", scan)], xlabel="window", log=True, marks={"W*": 2500.0})


def some_bars() -> Figure:
    return distribution_figure([("left", {"first": (1, 2, 3, 4, 5), "second": (2, 3, 4, 5, 6)})])


def a_heat_map() -> Figure:
    return heat_map(["a", "b", "c"], CELLS, label="x")


FIGURES = {
    "regret": two_panels, "parameter": a_scan, "distribution": some_bars, "heat map": a_heat_map,
}  # fmt: skip


def legend_of(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_the_same_data_gives_the_same_bytes_as_matplotlib_saves_them(
    draw: Callable[[], Figure], tmp_path: Path
) -> None:
    """Whatever the caller's settings are. Rendering does not change the figure."""
    first = draw()
    with matplotlib.rc_context({"font.size": 20, "savefig.dpi": 30, "axes.grid": True}):
        second = draw()
        canvas, dpi = second.canvas, second.dpi
        for kind in FORMATS:
            save_figure(second, tmp_path / f"a.{kind.upper()}")
            assert (second.canvas, second.dpi) == (canvas, dpi)
    for kind in FORMATS:
        expected = io.BytesIO()
        with own_style():
            first.savefig(expected, format=kind, metadata=METADATA[kind])
        content = (tmp_path / f"a.{kind.upper()}").read_bytes()
        assert content == expected.getvalue()
        assert len(content) > 3000
        for word in (b"CreationDate", b"Matplotlib v", b"matplotlib.org", b"dc:date"):
            assert word not in content


IN_ANY_PROCESS = """
import hashlib, numpy as np
from switchmdp.reports.figures import Panel, regret_figure, render_figure
from switchmdp.reports.resampling import Band
x = np.arange(9.0)
figure = regret_figure([Panel("λ", {name: Band(x, x, x, x + 1) for name in "abcdefghij"}, [3])])
digests = [hashlib.sha256(render_figure(figure, k)).hexdigest() for k in ("svg", "pdf", "png")]
"""


def test_another_process_gives_the_same_bytes() -> None:
    here: dict[str, Any] = {}
    exec(IN_ANY_PROCESS, here)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    elsewhere = subprocess.run(
        [sys.executable, "-c", f"{IN_ANY_PROCESS}print(*digests)"],
        env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert elsewhere.stdout.split() == here["digests"]


def test_the_callers_backend_and_settings_do_not_change() -> None:
    code = """
import sys
from switchmdp.reports import figures
print("matplotlib" in sys.modules)
import matplotlib
matplotlib.rcParams["font.size"] = 17
before = matplotlib.rcParams.copy()  # dict() would choose a backend
figure = figures.distribution_figure([("a", {"b": (1, 2, 3, 4, 5)})])
figure._repr_png_()
print("matplotlib.pyplot" in sys.modules)
print(matplotlib.rcParams.copy() == before)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    imported_early, pyplot_imported, settings_kept = done.stdout.split()
    assert imported_early == "False"
    assert pyplot_imported == "False"  # it would choose a backend
    assert settings_kept == "True"


def test_a_figure_names_its_curves_and_panels(tmp_path: Path) -> None:
    save_figure(two_panels(), tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    for words in ("left", "right", "first", "regret", "time step", "change point", "100k"):
        assert f"<!-- {words} -->" in text
    assert "<b>" not in text.replace("<!-- second <b> -->", "")


def test_lines_and_bands_show_the_data() -> None:
    curve = Band(np.array([1, 2, 4]), np.array([1.0, 3, 2]), np.array([0.5, 2, 1]), np.full(3, 4.0))
    axis: Any = regret_figure([Panel("", {"a": curve})]).axes[0]
    assert axis.lines[0].get_xydata().tolist() == [[1, 1], [2, 3], [4, 2]]
    corners = {tuple(corner) for corner in axis.collections[0].get_paths()[0].vertices.tolist()}
    assert corners == {(1, 0.5), (2, 2), (4, 1), (1, 4), (2, 4), (4, 4)}


def test_only_change_points_within_the_run_are_marked() -> None:
    figure = regret_figure([Panel("", lines("a"), np.array([5, 99_999, 100_000]))])
    segments: Any = figure.axes[0].collections[-1]
    assert [float(s[0][0]) for s in segments.get_segments()] == [5, 99_999]
    assert legend_of(figure) == ["a", "change point"]
    assert legend_of(regret_figure([Panel("", lines("a"), [200_000])])) == ["a"]


def test_a_name_has_the_same_style_in_every_panel() -> None:
    figure = regret_figure([Panel("", lines("a", "b")), Panel("", lines("c", "b", "a"))])
    left, right = (axis.lines for axis in figure.axes)
    assert left[1].get_color() == right[1].get_color()
    assert left[0].get_color() == right[2].get_color()
    assert legend_of(figure) == ["a", "b", "c"]


def test_the_first_49_lines_have_different_styles() -> None:
    figure = regret_figure([Panel("", lines(*map(str, range(49))))])
    drawn: Any = figure.axes[0].lines
    looks = {(each.get_color(), str(each._dash_pattern)) for each in drawn}
    assert len(looks) == 49


def test_names_are_drawn_literally() -> None:
    panel = Panel("".join(AWKWARD), lines(*AWKWARD), [1], dict.fromkeys(AWKWARD[:3], 50_000.0))
    figures = [
        regret_figure([panel], ylabel=AWKWARD[0]),
        parameter_figure([panel], xlabel=AWKWARD[0], marks={AWKWARD[1]: 3.0}),
        distribution_figure([(AWKWARD[0], dict.fromkeys(AWKWARD, (1, 2, 3, 4, 5)))]),
    ]
    for figure in figures:
        for kind in FORMATS:
            assert len(render_figure(figure, kind)) > 3000
        assert not any(text.get_parse_math() for text in figure.findobj(Text))
    shown = legend_of(figures[0])
    assert shown[:9] == list(AWKWARD[:9])
    assert shown[9:12] == ["tab and line", "bell\ufffd", "lone \ufffd"]
    assert shown[-3:] == ["nolegend", "_nolegend_", "change point"]


@pytest.mark.parametrize("names", [("a",), tuple(map(str, range(30))), LONG, AWKWARD])
@pytest.mark.parametrize("n_panels", [1, 2, 7])
def test_the_legend_lies_below_the_panels_and_inside_the_figure(
    names: tuple[str, ...], n_panels: int
) -> None:
    figure = regret_figure([Panel("title", lines(*names), [10]) for _ in range(n_panels)])
    box = figure.legends[0].get_window_extent()
    whole = figure.bbox
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1
    assert whole.y0 <= box.y0
    for axis in figure.axes:
        around = axis.get_tightbbox()
        assert around is not None
        assert box.y1 <= around.y0
        assert axis.get_window_extent().height > 150  # at 150 dpi


def test_one_panel_is_as_wide_as_a_column_and_several_as_a_page() -> None:
    widths = [
        figure.get_size_inches()[0]
        for figure in (regret_figure([Panel("", lines("a"))] * n) for n in (1, 2, 5))
    ]
    assert widths == [COLUMN_WIDTH, PAGE_WIDTH, PAGE_WIDTH]


def test_the_y_axis_starts_at_zero_unless_regret_is_negative() -> None:
    assert regret_figure([Panel("", {"a": line()})]).axes[0].get_ylim()[0] == 0
    assert regret_figure([Panel("", {"a": line(-1.0)})]).axes[0].get_ylim()[0] <= -125_000


def test_empty_panels_can_be_drawn() -> None:
    nothing = np.full(len(TIMES), np.nan)
    failed = Panel("", {"a": Band(TIMES, nothing, nothing, nothing), "b": line()})
    figures = [
        regret_figure([Panel("", {}), failed]),
        parameter_figure([Panel("", {}), failed], xlabel="", log=True),
        distribution_figure([("", {}), ("", {"a": [np.nan] * 5})]),
    ]
    for figure in figures:
        assert len(figure.axes) == 2
        assert render_figure(figure, "png").startswith(b"\x89PNG")


def test_a_parameter_figure_shows_points_intervals_and_marks() -> None:
    axis: Any = a_scan().axes[0]
    assert axis.lines[0].get_xydata().tolist() == [[100, 100], [1000, 1000], [10_000, 10_000]]
    assert axis.collections[1].get_segments()[0].tolist() == [[200, 300], [200, 500]]
    assert axis.lines[-1].get_xdata() == [2500, 2500]
    assert [text.get_text() for text in axis.texts] == ["W*"]
    assert axis.get_xscale() == "log"
    inside = [tick for tick in axis.get_xticklabels() if 100 <= tick.get_position()[0] <= 10_000]
    assert [tick.get_text() for tick in inside] == ["100", "200", "500", "1k", "2k", "5k", "10k"]


def test_marks_of_a_panel_are_drawn_only_there() -> None:
    panels = [Panel("", lines("a"), marks={"W*": place}) for place in (20_000.0, 50_000.0)]
    left, right = parameter_figure(panels, xlabel="", marks={"T/2": 5e4}).axes
    assert [text.get_text() for text in left.texts] == ["W*", "T/2"]
    assert left.texts[0].xy == (20_000, 1)  # type: ignore[attr-defined]
    assert {text.xy for text in right.texts} == {(50_000, 1)}  # type: ignore[attr-defined]


def test_names_of_marks_do_not_overlap_each_other_or_the_title() -> None:
    marks = {f"mark number {i}": 50_000.0 + 700 * i for i in range(4)}
    axis = parameter_figure([Panel("title", lines("a"), marks=marks)], xlabel="").axes[0]
    boxes = [text.get_window_extent() for text in (*axis.texts, axis.title)]
    assert len(boxes) == 5
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    assert not any(box.overlaps(axis.get_window_extent()) for box in boxes)


@pytest.mark.parametrize("value", [0, -5])
def test_a_logarithmic_axis_rejects_values_that_are_not_positive(value: int) -> None:
    with pytest.raises(InvalidParameter, match=f"positive.*{value}"):
        parameter_figure([Panel("", {"a": line(1.0, [value, 10])})], xlabel="", log=True)


def test_bars_show_the_quantiles() -> None:
    axis: Any = some_bars().axes[0]
    spans = [bar.get_segments()[0][:, 0].tolist() for bar in axis.collections]
    assert spans == [[1, 5], [2, 4], [2, 6], [3, 5]]
    assert [dot.get_xdata().tolist() for dot in axis.lines[:2]] == [[3], [4]]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["first", "second"]


def test_long_names_beside_the_bars_do_not_overlap() -> None:
    names = (*LONG, "short", *(name + "!" for name in LONG))
    figure = distribution_figure([("", dict.fromkeys(names, (1, 2, 3, 4, 5)))] * 2)
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert all(upper.y0 > lower.y1 for upper, lower in pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0
    assert [axis.yaxis.get_tick_params()["labelleft"] for axis in figure.axes] == [True, False]


def test_a_pdf_embeds_truetype_fonts(tmp_path: Path) -> None:
    save_figure(two_panels(), tmp_path / "figure.pdf")
    content = (tmp_path / "figure.pdf").read_bytes()
    assert b"/FontFile2" in content
    assert b"/Type3" not in content


def test_a_notebook_shows_a_figure_at_its_size() -> None:
    figure: Any = two_panels()
    content, size = figure._repr_png_()
    assert content.startswith(b"\x89PNG")
    assert size["width"] == PAGE_WIDTH * 96


@pytest.mark.parametrize("name", ["figure", "figure.jpg", ".svg", "figure.svg.gz", "svg"])
def test_the_error_for_an_unknown_suffix_lists_the_known_ones(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"\.svg, \.pdf or \.png"):
        save_figure(some_bars(), tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_swapped_arguments_of_save_figure_are_named(tmp_path: Path) -> None:
    path: Any = tmp_path / "figure.svg"
    with pytest.raises(InvalidParameter, match="figure must be a matplotlib figure; the path"):
        save_figure(path, some_bars())  # type: ignore[arg-type]


def test_a_failed_write_leaves_the_old_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space")

    path = tmp_path / "figure.svg"
    path.write_bytes(b"old")
    figure = some_bars()
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="no space"):
            save_figure(figure, path)
    assert os.listdir(tmp_path) == ["figure.svg"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("draw", [regret_figure, distribution_figure])
def test_a_figure_needs_at_least_one_panel(draw: Callable[[list[Any]], Figure]) -> None:
    with pytest.raises(InvalidParameter, match="at least one panel"):
        draw([])


@pytest.mark.parametrize("draw", FIGURES.values(), ids=FIGURES)
def test_without_matplotlib_the_error_names_the_extra(
    draw: Callable[[], Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"switchmdp\[plot\]"):
        draw()


def test_every_cell_shows_its_number_or_a_dash_if_unknown_or_not_positive() -> None:
    figure = a_heat_map()
    cells = [text.get_text() for text in figure.axes[0].texts]
    assert cells == ["1.0", "2.5", "–", "0.50", "120", "–"]


def test_row_names_are_on_the_left_with_the_first_on_top() -> None:
    axis = a_heat_map().axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["one", "two"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["a", "b", "c"]
    assert axis.yaxis_inverted()


def test_the_colour_scale_is_logarithmic_with_plain_labels() -> None:
    figure = a_heat_map()
    bar = figure.axes[1]
    assert bar.get_yscale() == "log"
    labels = [label.get_text() for label in bar.get_yticklabels()]
    assert labels == ["0.5", "1", "2", "5", "10", "20", "50", "100"]


def test_a_heat_map_of_unknown_numbers_can_be_drawn() -> None:
    figure = heat_map(["a"], {"one": [NAN]}, label="x")
    assert [text.get_text() for text in figure.axes[0].texts] == ["–"]


def test_a_heat_map_needs_rows_and_columns() -> None:
    with pytest.raises(InvalidParameter):
        heat_map([], {}, label="x")
