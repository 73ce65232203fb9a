"""leaderboard: the suite, row by row, to its tables, figures and page."""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from switchmdp.cli import FINE, USAGE
from switchmdp.cli.progress import Silent, clock, progress, stoppable
from switchmdp.cli.run import exit_code, shard_of
from switchmdp.cli.say import printable, say, say_json, tell
from switchmdp.errors import MissingExtra
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
    again = f"switchmdp leaderboard{' --quick' * quick} --out {shlex.quote(str(folder))}"
    horizon = max(row.horizon for row in suite.rows)
    show = progress(horizon, quiet=quiet, as_json=as_json)
    total = Tally(-(-expected_runs(suite) // part[1]))
    with stoppable(show) as stop:
        try:
            _do(suite, folder, total, show, stop, shard=part, **how)
        except KeyboardInterrupt:
            total.interrupted = True
        finally:
            show.close()
    code = exit_code(total, stop.signal)
    if as_json:
        say_json(
            "finished", folder=str(folder), done=total.done, runs=total.runs, failed=total.failed,
            lost=[account.error for account in total.lost], exit=code,
        )  # fmt: skip
    else:
        _conclude(folder, total, show, quiet, again)
    if not total.complete:
        return code
    return max(code, write_and_show(suite, folder, quiet=quiet, as_json=as_json, again=again))


def _do(
    suite: Suite, folder: Path, total: Tally, show: Silent, stop: threading.Event, **how: Any
) -> None:
    """All stages in turn, counted together."""
    for stage in stages(suite, folder):
        show.begin(f"{stage.row.name}, {stage.phase}")
        before = Tally(0, total.done, total.failed)
        tally = run_chunks(
            stage.store, stage.plan, stop=stop, watch=_added(total, before, show), **how
        )
        total.lost += tally.lost
        total.disk_full |= tally.disk_full
        if stop.is_set():
            total.interrupted = not total.disk_full
            return


def _added(total: Tally, before: Tally, show: Silent) -> Callable[[Tally], None]:
    """What a stage has done is added to what was done before it."""
    known = False

    def watch(tally: Tally) -> None:
        nonlocal known
        total.done, total.failed = before.done + tally.done, before.failed + tally.failed
        show(total)
        if not known:  # what was there already tells nothing of the speed
            known = True
            show.before += tally.done if before.done else 0
            show.seen.clear()
            show.seen.append((time.monotonic(), total.done))

    return watch


def _conclude(folder: Path, total: Tally, show: Silent, quiet: bool, again: str) -> None:
    """What became of it, and what to do next."""
    if total.disk_full:
        tell(f"the disk is full: {total.done} runs are kept; free some space, then: {again}")
    elif total.interrupted:
        tell(f"stopped: {total.done} of {total.runs} runs are kept; go on with: {again}")
    elif not quiet and show.before == total.done:
        tell(f"nothing to run: all {total.done} runs are there")
    elif not quiet:
        took = clock(time.monotonic() - show.began)
        tell(f"{total.done - show.before} runs done in {took}")
    for account in total.lost[:5]:
        if not total.disk_full:
            reason = printable(account.error)
            tell(f"chunk {account.chunk} could not be done ({reason}); try: {again}")
    if total.failed:
        tell(f"{total.failed} runs failed; tracebacks: {folder}/rows/*/*/failures")


def write_and_show(suite: Suite, folder: Path, *, quiet: bool, as_json: bool, again: str) -> int:
    """Write the report of the rows that are complete; without extras, only the document."""
    from switchmdp.reports.leaderboard import (
        Leaderboard,
        summary,
        write_document,
        write_leaderboard,
    )

    found = Leaderboard(suite, standings(suite, folder))
    missing_rows = len(suite.rows) - len(found.standings)
    if missing_rows and not as_json:
        tell(f"{missing_rows} of {len(suite.rows)} rows wait for other shards; then: {again}")
    if not found.standings:
        return FINE
    target = folder / "report"
    if not (as_json or quiet):
        say(summary(found))
    code, missing = FINE, None
    try:
        files = write_leaderboard(found, target)
    except MissingExtra as error:
        code, missing, files = USAGE, str(error), [write_document(found, target)]
        if not as_json:
            tell(f"no figures and no page: {error}")
    if as_json:
        board = {
            row: {place.name: _number(place.relative.middle) for place in each}
            for row, each in found.board.items()
        }
        say_json("leaderboard", relative_regret=board, files=list(map(str, files)), missing=missing)
    elif not quiet:
        say(f"\nreport: {files[0]}")
    return code


def _number(value: float) -> float | None:
    return None if value != value else value
