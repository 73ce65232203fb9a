"""Export results as tidy tables: one row per observation, one column per variable.

    regret    setting, agent, problem, step, regret, pseudo_regret
    runs      setting, agent, problem, and totals of the run
    problems  setting, problem, change_points, and hardness
    agents    setting, agent, base, parameter, value (text; JSON unless the value is a string)

Problems are numbered from 0. Unmeasured values (NaN, or -1 for counts) are null in Parquet and
empty in CSV. CSV files follow RFC 4180, are encoded as UTF-8, and keep numbers exactly. Names and
texts come from configurations of unknown origin, and a spreadsheet would execute some of them as
formulas. So a CSV cell of text that starts with one of = + - @ ', a tab or a line break, and is not
a number, gets an additional ' in front. Programs that read such a cell remove the first '.
Parquet (extra `parquet`) keeps all text unchanged, and has one row group per setting and agent.
Tables are written in blocks, so that memory use is bounded.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.experiments.results import HARDNESS, Results
from switchmdp.storage import replacing

BLOCK = 250_000  # rows in memory at once
EXECUTED = tuple("=+-@\t\r\n＝＋－＠")  # first characters of formulas, including full-width forms
Column = str | NDArray[Any] | Sequence[Any]  # one value for all rows, or one per row
Block = tuple[Column, ...]  # in the order of the table's columns
Kinds = Mapping[str, str]  # the type of each column; a name is a text shared by many rows


def export_tables(
    results: Results,
    folder: str | os.PathLike[str],
    formats: Sequence[str] = ("csv", "parquet"),
) -> list[Path]:
    """Write every table in the given formats. Each file is replaced atomically.

    Parameters
    ----------
    results
        The results: of `experiments.load_results`, or `sm.compare(...).results`.
    folder
        The folder to write to; it is created if it does not exist.
    formats
        Any of "csv" and "parquet" (extra `parquet`).

    Returns
    -------
    list[Path]
        The paths of the written files.

    Raises
    ------
    InvalidParameter
        If a format is unknown.
    MissingExtra
        If Parquet is requested and not installed.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     paths = export_tables(Results("Nothing yet", 0.1, {}), folder, ["csv"])
    ...     print(*(path.name for path in paths))
    ...     print(paths[-1].read_text())
    regret.csv runs.csv problems.csv agents.csv
    setting,agent,base,parameter,value
    <BLANKLINE>
    """
    for name in formats:
        if name not in _WRITERS:
            raise InvalidParameter("formats", name, f"one of {', '.join(_WRITERS)}")
    if "parquet" in formats:
        _pyarrow()  # raise MissingExtra before anything is written
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for name in dict.fromkeys(formats):
        for table, (kinds, blocks) in TABLES.items():
            path = Path(folder, f"{table}.{name}")
            with replacing(path) as file:
                _WRITERS[name](file, kinds, blocks(results))
            paths.append(path)
    return paths


def table_columns(results: Results, table: str) -> dict[str, NDArray[Any]]:
    """A whole table in memory, as one array for each column.

    Parameters
    ----------
    results
        The results: of `experiments.load_results`, or `sm.compare(...).results`.
    table
        `"regret"` or `"runs"`.

    Returns
    -------
    dict of numpy.ndarray
        The columns by name.

    Examples
    --------
    >>> list(table_columns(Results("Nothing yet", 0.1, {}), "regret"))
    ['setting', 'agent', 'problem', 'step', 'regret', 'pseudo_regret']
    """
    kinds, blocks = TABLES[table]
    parts: dict[str, list[Any]] = {name: [] for name in kinds}
    for block in blocks(results):
        size = next(len(column) for column in block if not isinstance(column, str))
        for name, column in zip(kinds, block, strict=True):
            parts[name].append([column] * size if isinstance(column, str) else column)
    return {name: np.concatenate(columns or [[]]) for name, columns in parts.items()}


def write_table(path: str | os.PathLike[str], kinds: Kinds, blocks: Iterable[Block]) -> None:
    """Write one table atomically. The ending of the file's name sets the format: .csv or .parquet.

    Args:
        path: the file.
        kinds: the type of each column: name, text, number, count, counts or flag.
        blocks: parts of the table, each with one value per column or one per row.

    Raises:
        InvalidParameter: the name of the file has another ending.
        MissingExtra: Parquet is not installed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "table.csv")
    ...     write_table(path, {"step": "count", "agent": "name"}, [([1, 2], "UCRL2")])
    ...     path.read_text()
    'step,agent\\n1,UCRL2\\n2,UCRL2\\n'
    """
    ending = Path(path).suffix.removeprefix(".")
    if ending not in _WRITERS:
        allowed = f"a file that ends in .{' or .'.join(_WRITERS)}"
        raise InvalidParameter("path", str(path), allowed)
    if ending == "parquet":
        _pyarrow()  # raise MissingExtra before anything is written
    with replacing(path) as file:
        _WRITERS[ending](file, kinds, blocks)


# Tables ------------------------------------------------------------------------------------------


def _regret(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        points = len(setting.times)
        size = max(1, BLOCK // points)  # problems in a block
        for agent, runs in setting.agents.items():
            for start in range(0, setting.n_problems, size):
                rows = np.arange(start, min(start + size, setting.n_problems))
                problem, step = np.repeat(rows, points), np.tile(setting.times, len(rows))
                regret, pseudo = runs.regret[rows].ravel(), runs.pseudo_regret[rows].ravel()
                yield name, agent, problem, step, regret, pseudo


def _runs(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        for agent, runs in setting.agents.items():
            finals = runs.regret[:, -1], runs.pseudo_regret[:, -1]
            costs = runs.episodes, runs.sweeps, runs.bad_steps, runs.failed, runs.seconds
            yield name, agent, np.arange(setting.n_problems), *finals, *costs


def _problems(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        points = [each.tolist() for each in setting.change_points]
        hardness = [setting.hardness[measure] for measure in HARDNESS]
        yield name, np.arange(setting.n_problems), points, *hardness


def _agents(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        for agent, runs in setting.agents.items():
            values = [
                value if isinstance(value, str) else json.dumps(value, default=str)
                for value in runs.parameters.values()
            ]
            # An agent without parameters has one row, too.
            yield name, agent, runs.base, list(runs.parameters) or [None], values or [None]


TABLES: Mapping[str, tuple[Kinds, Callable[[Results], Iterator[Block]]]] = {
    "regret": (
        {"setting": "name", "agent": "name", "problem": "count", "step": "count",
         "regret": "number", "pseudo_regret": "number"},
        _regret,
    ),
    "runs": (
        {"setting": "name", "agent": "name", "problem": "count", "final_regret": "number",
         "final_pseudo_regret": "number", "episodes": "count", "sweeps": "count",
         "bad_steps": "number", "failed": "flag", "seconds": "number"},
        _runs,
    ),
    "problems": (
        {"setting": "name", "problem": "count", "change_points": "counts",
         **dict.fromkeys(HARDNESS, "number")},
        _problems,
    ),
    "agents": (
        {"setting": "name", "agent": "name", "base": "name", "parameter": "name", "value": "text"},
        _agents,
    ),
}  # fmt: skip


# Formats -----------------------------------------------------------------------------------------


def _write_csv(file: BinaryIO, kinds: Kinds, blocks: Iterable[Block]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(kinds)
    for block in blocks:
        columns = map(_cells, kinds.values(), block)
        writer.writerows(zip(*columns))  # noqa: B905 (a single value is repeated without end)
    text.detach()


def _cells(kind: str, column: Column) -> Iterable[Any]:
    if isinstance(column, str):
        return repeat(as_text(column))
    values: Sequence[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    match kind:
        case "number" | "count":
            unknown = _unknown(kind, column)
            return [None if no else value for value, no in zip(values, unknown, strict=True)]
        case "counts":
            return [";".join(map(str, value)) for value in values]
        case "flag":
            return ["true" if value else "false" for value in values]
        case _:
            return [None if value is None else as_text(value) for value in values]


def _unknown(kind: str, column: Any) -> NDArray[np.bool_]:
    return np.isnan(column) if kind == "number" else np.asarray(column) < 0


def as_text(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula; numbers stay unchanged.

    >>> [as_text(cell) for cell in ("UCRL2", "=1+1", "-1.5", "'quoted'")]
    ['UCRL2', "'=1+1", '-1.5', "''quoted'"]
    """
    if not cell.startswith((*EXECUTED, "'")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _write_parquet(file: BinaryIO, kinds: Kinds, blocks: Iterable[Block]) -> None:
    arrow, parquet = _pyarrow()
    types = {
        "name": arrow.dictionary(arrow.int32(), arrow.string()),
        "text": arrow.string(),
        "number": arrow.float64(),
        "count": arrow.int64(),
        "counts": arrow.list_(arrow.int64()),
        "flag": arrow.bool_(),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    repeated = [name for name, kind in kinds.items() if kind in ("name", "count")]

    def array(kind: str, column: Column, n: int) -> Any:
        if isinstance(column, str):
            return arrow.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), [column])
        if kind == "name":
            return arrow.array(column, arrow.string()).dictionary_encode()
        mask = _unknown(kind, column) if kind in ("number", "count") else None
        return arrow.array(column, types[kind], mask=mask)

    with parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=repeated) as writer:
        for block in blocks:
            n = next(len(column) for column in block if not isinstance(column, str))
            arrays = [
                array(kind, column, n) for kind, column in zip(kinds.values(), block, strict=True)
            ]
            writer.write_table(arrow.table(arrays, schema=schema))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra("Parquet needs pyarrow: pip install 'switchmdp[parquet]'") from error
    return pyarrow, pyarrow.parquet


_WRITERS: Mapping[str, Callable[[BinaryIO, Kinds, Iterable[Block]], None]] = {
    "csv": _write_csv,
    "parquet": _write_parquet,
}
