"""The heat map: a number in each cell, white where there is none, and the same bytes each time."""

from __future__ import annotations

import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.reports.canvas import rendered
from switchmdp.reports.heatmap import heat_map

NAN = float("nan")
LINES = {"one": [1.0, 2.5, NAN], "two": [0.5, 120.0, -3.0]}


def test_every_cell_says_its_number_and_what_is_unknown_or_not_positive_says_so() -> None:
    figure = heat_map(["a", "b", "c"], LINES, label="x")
    cells = [text.get_text() for text in figure.axes[0].texts]
    assert cells == ["1.0", "2.5", "–", "0.50", "120", "–"]


def test_names_stand_beside_their_lines_the_first_on_top() -> None:
    axis = heat_map(["a", "b", "c"], LINES, label="x").axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["one", "two"]
    assert [label.get_text() for label in axis.get_xticklabels()] == ["a", "b", "c"]
    assert axis.yaxis_inverted()


def test_the_scale_is_logarithmic_with_plain_labels() -> None:
    figure = heat_map(["a", "b", "c"], LINES, label="x")
    bar = figure.axes[1]
    assert bar.get_yscale() == "log"
    labels = [label.get_text() for label in bar.get_yticklabels()]
    assert labels == ["0.5", "1", "2", "5", "10", "20", "50", "100"]


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
def test_the_same_numbers_give_the_same_bytes(kind: str) -> None:
    first, second = (rendered(heat_map(["a", "b", "c"], LINES, label="x"), kind) for _ in range(2))
    assert first == second


def test_where_nothing_is_known_all_is_white() -> None:
    figure = heat_map(["a"], {"one": [NAN]}, label="x")
    assert [text.get_text() for text in figure.axes[0].texts] == ["–"]


def test_a_map_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidParameter):
        heat_map([], {}, label="x")
