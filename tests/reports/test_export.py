"""Exported tables: exact values, safe cells, atomic files."""

from __future__ import annotations

import csv
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.experiments.results import HARDNESS, Results, Runs, Setting
from switchmdp.reports import export
from switchmdp.reports.export import TABLES, export_tables

TIMES = np.array([10, 20, 25])
PARAMETERS = {
    "window": 1000, "delta": 0.1, "law": "=1+1", "points": [1, 2.5, "x"], "on": True, "none": None,
}  # fmt: skip
TEXTS = {
    "window": "1000", "delta": "0.1", "law": "=1+1", "points": '[1, 2.5, "x"]', "on": "true",
    "none": "null",
}  # fmt: skip
ODD = (
    "a,b", 'say "x"', "two\r\nlines", "\n", "=SUM(A1)", " spaced ", "ünï 名", "", "1e5", "nan", ";",
    "-1.5", "+2", "'=1", "'", "-", "@x",
)  # fmt: skip


def runs(seed: int, n: int, **parameters: Any) -> Runs:
    rng = np.random.default_rng(seed)
    regret = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-300, 300, (n, 3))
    regret[0] = [-0.0, 5e-324, 0.1]
    pseudo = np.asfortranarray(regret / 3)
    failed = np.arange(n) == n - 1
    regret[failed], pseudo[failed] = np.nan, np.nan
    return Runs(
        regret, pseudo, np.where(failed, -1, rng.integers(0, 2**62, n)), np.full(n, -1),
        np.where(failed, np.nan, 3.0), failed, rng.random(n), f"base {seed}", {}, parameters,
    )  # fmt: skip


def setting(name: str, n: int, agents: dict[str, Runs]) -> Setting:
    points = tuple(np.arange(i) * 7 + 2 for i in range(n))
    hardness = {measure: np.arange(n) / 3 + i for i, measure in enumerate(HARDNESS)}
    hardness["diameter"][:2] = [math.inf, math.nan]
    return Setting(name, TIMES, points, (), hardness, agents)


@pytest.fixture(scope="module")
def results() -> Results:
    odd = {name: runs(i, 4) for i, name in enumerate(ODD)}
    settings = {
        "l = 2": setting("l = 2", 5, {"A": runs(1, 5, **PARAMETERS), "B": runs(2, 5)}),
        'l, "4"': setting('l, "4"', 4, odd),
    }
    return Results("a test", 0.1, settings)


def unescaped(cell: str) -> str:
    """Remove the mark that keeps spreadsheets from executing a cell."""
    return cell.removeprefix("'")


PARSERS: dict[str, Any] = {
    "name": unescaped, "text": unescaped, "number": float, "count": int,
    "flag": {"true": True, "false": False}.__getitem__,
    "counts": lambda text: [int(word) for word in text.split(";")],
}  # fmt: skip


def read_csv(path: Path) -> list[dict[str, Any]]:
    """Read the rows of a file; empty cells are None."""
    kinds, _ = TABLES[path.stem]
    with open(path, encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file, strict=True)
    assert header == list(kinds)
    parsers = [PARSERS[kind] for kind in kinds.values()]
    return [
        {
            name: parse(text) if text else None
            for name, parse, text in zip(kinds, parsers, row, strict=True)
        }
        for row in rows
    ]


def without_empty(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace empty names and lists by None, because CSV cannot distinguish them."""
    return [{k: None if v in ("", []) else v for k, v in row.items()} for row in rows]


def known(value: Any) -> Any:
    """Replace values that mean "not measured" by None."""
    return None if value != value or value == -1 else value


def expected(results: Results) -> dict[str, list[dict[str, Any]]]:
    """Compute the expected tables, cell by cell."""
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for s, setting in results.settings.items():
        for i, points in enumerate(setting.change_points):
            row = {"setting": s, "problem": i, "change_points": points.tolist()}
            for measure in HARDNESS:
                row[measure] = known(float(setting.hardness[measure][i]))
            tables["problems"].append(row)
        for a, did in setting.agents.items():
            who = {"setting": s, "agent": a}
            for parameter in did.parameters or [None]:
                text = TEXTS[parameter] if parameter else None
                row = {"base": did.base, "parameter": parameter, "value": text}
                tables["agents"].append(who | row)
            for i in range(setting.n_problems):
                row = who | {
                    "problem": i,
                    "final_regret": known(float(did.regret[i, -1])),
                    "final_pseudo_regret": known(float(did.pseudo_regret[i, -1])),
                }
                for name in ("episodes", "sweeps", "bad_steps", "failed", "seconds"):
                    row[name] = known(getattr(did, name)[i].item())
                tables["runs"].append(row)
                for k, step in enumerate(TIMES.tolist()):
                    regret, pseudo = float(did.regret[i, k]), float(did.pseudo_regret[i, k])
                    row = {"problem": i, "step": step, "regret": known(regret)}
                    tables["regret"].append(who | row | {"pseudo_regret": known(pseudo)})
    return tables


@pytest.mark.parametrize("table", TABLES)
def test_parquet_contains_the_exact_results(table: str, results: Results, tmp_path: Path) -> None:
    export_tables(results, tmp_path, ["parquet"])
    rows = pq.read_table(tmp_path / f"{table}.parquet").to_pylist()
    assert repr(rows) == repr(
        expected(results)[table]
    )  # repr distinguishes -0.0 from 0.0 and 1 from 1.0


@pytest.mark.parametrize("table", TABLES)
def test_csv_contains_the_exact_results(table: str, results: Results, tmp_path: Path) -> None:
    export_tables(results, tmp_path, ["csv"])
    rows = read_csv(tmp_path / f"{table}.csv")
    assert repr(rows) == repr(without_empty(expected(results)[table]))


FORMULAS = (
    "=cmd|'/C calc'!A0", "=1+1", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "=",
    '=HYPERLINK("http://example.org")', "＝1+1", "＋1", "－1+1", "＠x",
)  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_csv_cell_is_a_formula(formula: str, tmp_path: Path) -> None:
    did = replace(runs(1, 2, **{formula: formula, "list": [formula]}), base=formula)
    results = Results("x", 0.1, {formula: setting(formula, 2, {formula: did})})
    for path in export_tables(results, tmp_path, ["csv"]):
        with open(path, encoding="utf-8", newline="") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert f"'{formula}" in cells
        starts = {cell[0] for cell in cells if cell and not is_number(cell)}
        assert not starts & set("=+-@\t\r\n＝＋－＠")


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("number", ["-1.5", "+2", "-1e-9", "-Infinity", "-0"])
def test_signed_numbers_are_not_escaped(number: str, tmp_path: Path) -> None:
    did = runs(1, 2, x=number, y=float(number))
    *_, agents = export_tables(
        Results("x", 0.1, {"s": setting("s", 2, {"a": did})}), tmp_path, ["csv"]
    )
    with open(agents, encoding="utf-8", newline="") as file:
        x, y = (row["value"] for row in csv.DictReader(file))
    assert x == number
    assert float(y) == float(number)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_block_size_does_not_change_the_rows(
    form: str, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _, _, _ = export_tables(results, tmp_path / "whole", [form])
    monkeypatch.setattr(export, "BLOCK", 7)
    parts, _, _, _ = export_tables(results, tmp_path / "parts", [form])
    if form == "csv":
        assert parts.read_bytes() == whole.read_bytes()
    else:
        assert repr(pq.read_table(parts).to_pylist()) == repr(pq.read_table(whole).to_pylist())
        assert pq.ParquetFile(parts).num_row_groups == 2 * 3 + len(ODD) * 2


def test_a_row_group_belongs_to_one_setting_and_agent(results: Results, tmp_path: Path) -> None:
    regret, *_ = export_tables(results, tmp_path, ["parquet"])
    file = pq.ParquetFile(regret)
    groups = [file.read_row_group(i).to_pylist() for i in range(file.num_row_groups)]
    names = [{(row["setting"], row["agent"]) for row in group} for group in groups]
    assert all(len(each) == 1 for each in names)
    assert len(names) == 2 + len(ODD)


def test_csv_lines_end_as_in_rfc_4180(results: Results, tmp_path: Path) -> None:
    regret, *_ = export_tables(results, tmp_path, ["csv"])
    first, second, *_ = regret.read_bytes().split(b"\r\n")
    assert first == b"setting,agent,problem,step,regret,pseudo_regret"
    assert second == b"l = 2,A,0,10,-0.0,-0.0"


def test_names_are_dictionary_encoded(results: Results, tmp_path: Path) -> None:
    regret, *_ = export_tables(results, tmp_path, ["parquet"])
    column = pq.ParquetFile(regret).metadata.row_group(0).column(1)
    assert column.path_in_schema == "agent"
    assert column.has_dictionary_page
    assert str(pq.read_schema(regret).field("agent").type).startswith("dictionary<values=string")


def test_the_same_results_give_the_same_bytes(results: Results, tmp_path: Path) -> None:
    first, second = (export_tables(results, tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == [path.name for path in second]
    assert len(first) == 8
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_exactly_the_returned_files_are_written(results: Results, tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    for _ in range(2):
        paths = export_tables(results, folder, ["csv", "parquet", "csv"])
        assert sorted(paths) == sorted(folder.iterdir())
        assert len(paths) == 8


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_experiment_without_settings_gives_empty_tables(form: str, tmp_path: Path) -> None:
    for path in export_tables(Results("", 0.1, {}), tmp_path, [form]):
        if form == "csv":
            assert read_csv(path) == []
        else:
            assert pq.read_table(path).num_rows == 0
            assert pq.read_schema(path).names == list(TABLES[path.stem][0])


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_failed_export_leaves_the_old_files(
    form: str, results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("no space")

    before = {path: path.read_bytes() for path in export_tables(results, tmp_path, [form])}
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="no space"):
            export_tables(Results("", 0.1, {}), tmp_path, [form])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_interrupted_export_leaves_no_files(form: str, results: Results, tmp_path: Path) -> None:
    unwritable = Results("", 0.1, {**results.settings, "\ud800": results.settings["l = 2"]})
    with pytest.raises(UnicodeEncodeError):
        export_tables(unwritable, tmp_path, [form])
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("formats", [["xlsx"], ["csv", "CSV"], "csv", [""]])
def test_the_error_for_an_unknown_format_lists_the_known_ones(
    formats: Any, results: Results, tmp_path: Path
) -> None:
    with pytest.raises(InvalidParameter, match="formats must be one of csv, parquet"):
        export_tables(results, tmp_path, formats)
    assert os.listdir(tmp_path) == []


def test_without_pyarrow_the_error_names_the_extra_and_csv_still_works(
    results: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"switchmdp\[parquet\]"):
        export_tables(results, tmp_path)
    assert os.listdir(tmp_path) == []
    assert len(export_tables(results, tmp_path, ["csv"])) == 4
