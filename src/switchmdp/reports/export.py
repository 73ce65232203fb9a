"""Export results as tidy tables: one row per observation, one column per variable.

    regret    setting, agent, problem, t, regret, pseudo_regret
    runs      setting, agent, problem, and totals of the run
    problems  setting, problem, change_points, and hardness
    agents    setting, agent, base, parameter, value (text; JSON unless the value is a string)

Problems are numbered from 0. Unmeasured values (NaN, or -1 for counts) are null in Parquet and
empty in CSV. CSV files follow RFC 4180, are encoded as UTF-8, and keep numbers exactly. Names and
texts come from configurations of unknown origin, and a spreadsheet would execute some of them as
formulas. Therefore a ' is put before every CSV cell of text that starts with one of = + - @ ', a
tab or a line break, and is not a number; programs that read such a cell remove the first '.
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
EXECUTED = tuple("=+-@\t\r\n＝＋－＠")  # how formulas start, including full-width forms
Column = str | NDArray[Any] | Sequence[Any]  # one value for all rows, or one per row
Block = Mapping[str, Column]
Kinds = Mapping[str, str]  # the type of each column; a name is a text shared by many rows

TABLES: Mapping[str, Kinds] = {
    "regret": {
        "setting": "name", "agent": "name", "problem": "count", "t": "count",
        "regret": "number", "pseudo_regret": "number",
    },
    "runs": {
        "setting": "name", "agent": "name", "problem": "count", "final_regret": "number",
        "final_pseudo_regret": "number", "episodes": "count", "sweeps": "count",
        "bad_steps": "number", "failed": "flag", "seconds": "number",
    },
    "problems": {
        "setting": "name", "problem": "count", "change_points": "counts",
        **dict.fromkeys(HARDNESS, "number"),
    },
    "agents": {
        "setting": "name", "agent": "name", "base": "name", "parameter": "name", "value": "text",
    },
}  # fmt: skip


def export_tables(
    results: Results,
    folder: str | os.PathLike[str],
    formats: Sequence[str] = ("csv", "parquet"),
) -> list[Path]:
    """Write every table in the given formats; each file is written atomically.

    Args:
        results: what `experiments.load_results` returns, or `sm.compare(...).results`.
        folder: where to write; it is created if it does not exist.
        formats: any of "csv" and "parquet" (extra `parquet`).

    Returns:
        The paths of the written files.

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
        for table, kinds in TABLES.items():
            path = Path(folder, f"{table}.{name}")
            with replacing(path) as file:
                _WRITERS[name](file, kinds, _BLOCKS[table](results))
            paths.append(path)
    return paths


def _regret(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        points = len(setting.times)
        step = max(1, BLOCK // points)
        for agent, runs in setting.agents.items():
            for start in range(0, setting.n_problems, step):
                problems = np.arange(start, min(start + step, setting.n_problems))
                yield {
                    "setting": name,
                    "agent": agent,
                    "problem": np.repeat(problems, points),
                    "t": np.tile(setting.times, len(problems)),
                    "regret": runs.regret[problems].ravel(),
                    "pseudo_regret": runs.pseudo_regret[problems].ravel(),
                }


def _runs(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        for agent, runs in setting.agents.items():
            yield {
                "setting": name,
                "agent": agent,
                "problem": np.arange(setting.n_problems),
                "final_regret": runs.regret[:, -1],
                "final_pseudo_regret": runs.pseudo_regret[:, -1],
                "episodes": runs.episodes,
                "sweeps": runs.sweeps,
                "bad_steps": runs.bad_steps,
                "failed": runs.failed,
                "seconds": runs.seconds,
            }


def _problems(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        yield {
            "setting": name,
            "problem": np.arange(setting.n_problems),
            "change_points": [points.tolist() for points in setting.change_points],
            **{measure: setting.hardness[measure] for measure in HARDNESS},
        }


def _agents(results: Results) -> Iterator[Block]:
    for name, setting in results.settings.items():
        for agent, runs in setting.agents.items():
            values = [
                value if isinstance(value, str) else json.dumps(value, default=str)
                for value in runs.parameters.values()
            ]
            yield {
                "setting": name,
                "agent": agent,
                "base": runs.base,
                "parameter": list(runs.parameters) or [None],  # also list agents without parameters
                "value": values or [None],
            }


_BLOCKS: Mapping[str, Callable[[Results], Iterator[Block]]] = {
    "regret": _regret, "runs": _runs, "problems": _problems, "agents": _agents,
}  # fmt: skip


def _write_csv(file: BinaryIO, kinds: Kinds, blocks: Iterable[Block]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text)
    writer.writerow(kinds)
    for block in blocks:
        writer.writerows(zip(*(_cells(kind, block[name]) for name, kind in kinds.items())))  # noqa: B905
    text.detach()


def _cells(kind: str, column: Column) -> Iterable[Any]:
    if isinstance(column, str):
        return repeat(as_text(column))
    values: Sequence[Any] = column.tolist() if isinstance(column, np.ndarray) else column
    match kind:
        case "number":
            return [None if value != value else value for value in values]
        case "count":
            return [None if value < 0 else value for value in values]
        case "counts":
            return [";".join(map(str, value)) for value in values]
        case "flag":
            return ["true" if value else "false" for value in values]
        case _:
            return [None if value is None else as_text(value) for value in values]


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
    with parquet.ParquetWriter(file, schema, compression="zstd", use_dictionary=repeated) as writer:
        for block in blocks:
            n = next(len(column) for column in block.values() if not isinstance(column, str))
            columns = [_array(kind, block[name], types[kind], n) for name, kind in kinds.items()]
            writer.write_table(arrow.table(columns, schema=schema))


def _array(kind: str, column: Column, of_type: Any, n: int) -> Any:
    arrow, _ = _pyarrow()
    if isinstance(column, str):
        return arrow.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), [column])
    match kind:
        case "name":
            return arrow.array(column, arrow.string()).dictionary_encode()
        case "number":
            return arrow.array(column, of_type, mask=np.isnan(column))
        case "count":
            return arrow.array(column, of_type, mask=np.asarray(column) < 0)
        case _:
            return arrow.array(column, of_type)


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
