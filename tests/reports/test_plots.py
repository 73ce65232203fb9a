"""Figures: what is drawn, and that the same data gives the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from switchmdp.errors import MissingExtra
from switchmdp.reports.plots import Curve, save_regret_figure

TIMES = np.arange(1.0, 101.0)
CURVES = {
    name: Curve(TIMES, TIMES * slope, TIMES * slope * 0.9, TIMES * slope * 1.1)
    for name, slope in (("first", 1.0), ("second <b>", 2.0))
}


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_same_data_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_regret_figure(tmp_path / f"{name}.{suffix}", [("title", CURVES, [50])])
    first, second = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in ("a", "b"))
    assert first == second
    assert len(first) > 5000


def test_a_figure_names_its_curves_and_panels(tmp_path: Path) -> None:
    save_regret_figure(tmp_path / "figure.svg", [("left", CURVES, []), ("right", CURVES, [10, 20])])
    text = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    for words in ("left", "right", "first", "regret", "time step"):
        assert f"<!-- {words} -->" in text
    assert "<b>" not in text.replace("<!-- second <b> -->", "")


def test_without_matplotlib_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"switchmdp\[plot\]"):
        save_regret_figure(tmp_path / "figure.svg", [("title", CURVES, [])])
