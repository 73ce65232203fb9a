"""leaderboard: the suite, row by row, to its tables, figures and page."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from switchmdp.cli import FINE
from switchmdp.cli.progress import Silent, Stop
from switchmdp.cli.run import attend, deliver, shard_of
from switchmdp.cli.say import tell
from switchmdp.experiments import rivals
from switchmdp.experiments.campaign import settle, stages, standings
from switchmdp.experiments.execute import Tally, run_chunks
from switchmdp.experiments.suite import Suite, expected_runs


def play(out: Path | None, quick: bool, *, shard: str | None, quiet: bool, as_json: bool,
         **how: Any) -> int:  # fmt: skip
    """Do what is still to be done, then report on the rows that are complete."""
    suite, name = (rivals.QUICK, "-quick") if quick else (rivals.SUITE, "")
    part = shard_of(shard)
    folder = settle(suite, out or Path(f"results/leaderboard{name}"))
    rerun = "switchmdp leaderboard" + " --quick" * quick
    again = f"{rerun} {given(out=folder, shard=shard, **how)}"

    def work(show: Silent, stop: Stop) -> Tally:
        return _all_stages(suite, folder, show, stop, shard=part, **how)

    total, code = attend(
        work, max(row.horizon for row in suite.rows), folder, again=again,
        tracebacks=f"{folder}/rows/*/*/failures", quiet=quiet, as_json=as_json,
    )  # fmt: skip
    if not total.complete:
        return code
    shown = write_and_show(suite, folder, rerun, again=again, quiet=quiet, as_json=as_json)
    return max(code, shown)


def given(**options: object) -> str:
    """Options as they are typed, but for those that say nothing.

    >>> given(out="my runs", jobs=None, executor="auto", shard="2/8")
    "--out 'my runs' --shard 2/8"
    """
    said = {name: value for name, value in options.items() if value not in (None, "auto")}
    return " ".join(f"--{name} {shlex.quote(str(value))}" for name, value in said.items())


def _all_stages(
    suite: Suite, folder: Path, show: Silent, stop: Stop, *, shard: tuple[int, int], **how: Any
) -> Tally:
    """All stages in turn, counted together."""
    total = Tally(-(-expected_runs(suite) // shard[1]))
    for stage in stages(suite, folder):
        show.begin(f"{stage.row.name}, {stage.phase}")
        watch = _added(total, show)
        tally = run_chunks(stage.store, stage.plan, stop=stop, shard=shard, watch=watch, **how)
        total.lost += tally.lost
        total.disk_full |= tally.disk_full
        if stop.is_set():
            total.interrupted = not total.disk_full
            break
    return total


def _added(total: Tally, show: Silent) -> Callable[[Tally], None]:
    """What a stage has done is added to what was done before it."""
    done, failed = total.done, total.failed

    def watch(tally: Tally) -> None:
        total.done, total.failed = done + tally.done, failed + tally.failed
        show(total)

    return watch


def write_and_show(
    suite: Suite, folder: Path, rerun: str, *, again: str, quiet: bool, as_json: bool
) -> int:
    """Write the report of the rows that are complete; without extras, only the document."""
    from switchmdp.reports.leaderboard import (
        Leaderboard,
        summary,
        write_document,
        write_leaderboard,
    )

    found = Leaderboard(suite, standings(suite, folder), rerun)
    missing_rows = len(suite.rows) - len(found.standings)
    if missing_rows and not as_json:
        tell(f"{missing_rows} of {len(suite.rows)} rows wait for other shards; then: {again}")
    if not found.standings:
        return FINE
    relative = {
        row: {place.name: _number(place.relative.middle) for place in each}
        for row, each in found.board.items()
    }
    return deliver(
        found, folder / "report", "leaderboard", summary=summary, whole=write_leaderboard,
        plain=write_document, quiet=quiet, as_json=as_json, relative_regret=relative,
    )  # fmt: skip


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
