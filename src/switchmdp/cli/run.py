"""run, resume, reproduce, leaderboard: from a configuration to a report."""

from __future__ import annotations

import contextlib
import math
import re
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from switchmdp.cli import Exit, command, printable, say_json, tell, warn
from switchmdp.cli.progress import Lines, Stop, clock, display, stoppable
from switchmdp.cli.report import resume_command, write_and_print, write_and_show
from switchmdp.errors import ForeignFolder, InvalidExperiment, InvalidParameter, SwitchmdpError
from switchmdp.experiments.execute import Progress, run_chunks
from switchmdp.experiments.leaderboard import (
    Suite,
    create_folder,
    run_suite,
    shipped_suite,
    standings,
)
from switchmdp.experiments.plan import Plan, check
from switchmdp.experiments.spec import Experiment, dumps, load, loads
from switchmdp.experiments.spec import shipped as shipped
from switchmdp.experiments.store import Store, create, inspect_chunk, open_store


def reproduce(out: Path, problems: int | None, sensitivity: bool, **how: Any) -> int:
    """Run the paper's experiment and, with `sensitivity`, variations of it."""
    code = run_named("figure-1", out, problems, **how)
    for name in ("sensitivity", "window-scan") if sensitivity and code == Exit.FINE else ():
        code = max(code, run_named(name, Path(f"{out}-{name}"), problems, **how))
    return code


def run_named(
    config: str, out: Path | None, problems: int | None, trust: bool | None = None, **how: Any
) -> int:
    """Run a configuration file, or a configuration that comes with the package."""
    known = shipped()
    if config in known and not Path(config).is_file():
        experiment, text, modules = loads(known[config]), known[config], None
    elif not Path(config).exists() and not config.endswith(".toml"):
        names = ", ".join(known)
        raise InvalidParameter("CONFIG", config, f"a TOML file or one of {names}")
    else:
        experiment, text = load(config)
        modules = _modules_of(Path(config))
    if problems is not None:
        experiment = experiment.model_copy(update={"n_problems": problems})
        text = _with_problems(text, problems, experiment)
    plan = check(experiment, modules, trust=trust)
    try:
        store = create(out or Path("results") / Path(config).stem, plan, text, modules)
    except ForeignFolder as error:
        raise ForeignFolder(f"{error}\n  to use another folder: --out FOLDER") from None
    return _run_and_report(store, plan, **how)


def _modules_of(config: Path) -> Path:
    """The folder of the user modules: the file's or, for a results folder, the original one."""
    with contextlib.suppress(SwitchmdpError, OSError):
        if folder := open_store(config.parent).module_folder():
            return folder
    return config.resolve().parent


def _with_problems(text: str, problems: int, wanted: Experiment) -> str:
    """The text with another number of problems, so that it describes what was run."""
    edited = re.sub(r"(?m)^n_problems\s*=\s*\w+", f"n_problems = {problems}", text, count=1)
    with contextlib.suppress(InvalidExperiment):
        if loads(edited, wanted.title) == wanted:
            return edited
    return dumps(wanted)


def resume_folder(folder: Path, retry_failed: bool, trust: bool | None, **how: Any) -> int:
    """Resume an interrupted experiment."""
    store = open_store(folder)
    plan = store.plan(trust=trust)
    store.make_folders()
    if retry_failed:
        for chunk in store.chunks():
            if inspect_chunk(store, chunk)[1]:
                store.delete(chunk)
    return _run_and_report(store, plan, **how)


def _run_and_report(store: Store, plan: Plan, *, shard: tuple[int, int], **how: Any) -> int:
    def work(show: Lines, stop: Stop) -> Progress:
        return run_chunks(store, plan, shard=shard, stop=stop, watch=show, **how)

    again = " ".join([resume_command(store), *format_options(shard=shard)])
    progress, code = _run_with_progress(
        work, store.experiment.horizon, store.path, again, command("status", store.path)
    )
    if progress.complete and shard == (1, 1):
        write_and_show(store.path)
    elif progress.complete:
        tell(f"this shard is done; when all shards are done: {command('report', store.path)}")
    return code


def _run_with_progress(
    work: Callable[[Lines, Stop], Progress], steps: int, folder: Path, again: str, tracebacks: str
) -> tuple[Progress, int]:
    """Show the progress of `work` until it is done or stopped, then print a summary.

    A run has `steps` steps, `again` is the command that resumes the work, and `tracebacks` says
    where those of failed runs are. Returns the progress and the exit code.
    """
    show = display(steps)
    with stoppable(show) as stop:
        try:
            progress = work(show, stop)
        except KeyboardInterrupt:
            progress = show.progress
            progress.interrupted = True
        finally:
            show.close()
    code = _exit_code(progress, stop.signal)
    say_json(
        "finished", folder=str(folder), done=progress.done, runs=progress.runs,
        failed=progress.failed, lost=[report.error for report in progress.lost], exit=code,
    )  # fmt: skip
    _print_summary(progress, time.monotonic() - show.began, again, tracebacks)
    return progress, code


def _exit_code(progress: Progress, number: int | None) -> int:
    """The exit code; `number` is the signal that stopped the program."""
    if progress.disk_full:
        return Exit.FULL
    if progress.interrupted:
        return Exit.TERMINATED if number == signal.SIGTERM else Exit.INTERRUPTED
    return Exit.FAILED if progress.failed or progress.lost else Exit.FINE


def _print_summary(progress: Progress, seconds: float, again: str, tracebacks: str) -> None:
    """Print the outcome and what to do next."""
    saved = f"{progress.done} of {progress.runs} runs are saved"
    saved = saved if progress.runs else "nothing is lost"
    if progress.disk_full:
        warn(f"the disk is full: {saved}; free some space, then run: {again}")
    elif progress.interrupted:
        warn(f"stopped: {saved}; to resume: {again}")
    elif progress.before == progress.done and not progress.lost:
        tell(f"nothing to run: all {progress.done} runs are done")
    else:
        tell(f"{progress.done - progress.before} runs done in {clock(seconds)}")
    for report in [] if progress.disk_full else progress.lost[:5]:
        reason = printable(report.error)
        warn(f"chunk {report.chunk} was not completed ({reason}); to try again: {again}")
    if progress.failed:
        warn(f"{progress.failed} runs failed; for their tracebacks: {tracebacks}")


def run_leaderboard(out: Path | None, quick: bool, *, shard: tuple[int, int], **how: Any) -> int:
    """Run what is not done yet of the suite, then write the report of the complete rows."""
    suite = shipped_suite(quick=quick)
    folder = create_folder(suite, out or Path("results/leaderboard" + "-quick" * quick))
    rerun = "switchmdp leaderboard" + " --quick" * quick
    again = " ".join([rerun, *format_options(out=folder, shard=shard, **how)])

    def work(show: Lines, stop: Stop) -> Progress:
        return run_suite(suite, folder, shard=shard, stop=stop, begin=show.begin, watch=show, **how)

    progress, code = _run_with_progress(
        work, max(row.horizon for row in suite.rows), folder, again, f"{folder}/rows/*/*/failures"
    )
    return max(code, _report_suite(suite, folder, rerun, again)) if progress.complete else code


def format_options(shard: tuple[int, int], **options: object) -> list[str]:
    """Options as the user would type them, without those that have their default value.

    >>> format_options((2, 8), out="my runs", jobs=None, executor="auto")
    ["--out 'my runs'", '--shard 2/8']
    """
    part = None if shard == (1, 1) else f"{shard[0]}/{shard[1]}"
    values = {name: value for name, value in options.items() if value not in (None, "auto")}
    values |= {} if part is None else {"shard": part}
    return [f"--{name} {shlex.quote(str(value))}" for name, value in values.items()]


def _report_suite(suite: Suite, folder: Path, rerun: str, again: str) -> int:
    """Write the report of the complete rows; without the extra, only the document."""
    from switchmdp.reports.leaderboard import (
        Leaderboard,
        summary,
        write_document,
        write_leaderboard,
    )

    content = Leaderboard(suite, standings(suite, folder), rerun)
    missing_rows = len(suite.rows) - len(content.standings)
    if missing_rows:
        rows = f"{missing_rows} of {len(suite.rows)} rows"
        warn(f"{rows} are not complete; when all shards are done, run: {again}")
    if not content.standings:
        return Exit.FINE
    relative = {
        row: {place.name: _or_none(place.relative.middle) for place in places}
        for row, places in content.board.items()
    }
    return write_and_print(
        content, folder / "report", "leaderboard", summary=summary, whole=write_leaderboard,
        plain=write_document, relative_regret=relative,
    )  # fmt: skip


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value
