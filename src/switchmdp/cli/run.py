"""run, resume, reproduce, leaderboard, report: from a configuration to a report.

Modules that run experiments are imported only where they are needed, so that `report` starts
quickly.
"""

from __future__ import annotations

import json
import math
import shlex
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from switchmdp import experiments
from switchmdp.cli import (
    Exit,
    Lines,
    Stop,
    clock,
    command,
    count_runs,
    display,
    printable,
    say,
    say_json,
    stoppable,
    tell,
    warn,
)
from switchmdp.errors import (
    DamagedFile,
    ForeignFolder,
    InvalidParameter,
    MissingExtra,
    SwitchmdpError,
)
from switchmdp.experiments import Results, Store, load_results, open_store

if TYPE_CHECKING:
    from switchmdp.experiments import Plan, Progress
    from switchmdp.experiments.leaderboard import Published, Suite
    from switchmdp.reports.leaderboard import Leaderboard

Content = TypeVar("Content")


PAPERS = {
    "sw-ucrl": ("figure-1", ("sensitivity", "window-scan")),
    "r-bocpd": ("r-bocpd", ("r-bocpd-sensitivity",)),
}  # the experiment of each paper, and its variations


def reproduce(
    paper: str, out: Path | None, problems: int | None, sensitivity: bool, **how: Any
) -> int:
    """Run the experiment of a paper and, with `sensitivity`, variations of it."""
    main, variations = PAPERS[paper]
    folder = out or Path("results") / main
    code = run_named(main, folder, problems, **how)
    for name in variations if sensitivity and code == Exit.FINE else ():
        suffix = name.removeprefix(f"{main}-")
        code = max(code, run_named(name, Path(f"{folder}-{suffix}"), problems, **how))
    return code


def run_named(
    config: str, out: Path | None, problems: int | None, trust: bool | None = None, **how: Any
) -> int:
    """Run a configuration file, or a configuration that comes with the package."""
    if Path(config).is_dir() and config not in experiments.shipped():
        again = command("resume", Path(config))
        raise SwitchmdpError(f"{config} is a folder, not a file; to resume its experiment: {again}")
    folder = out or Path("results") / Path(config).stem
    try:
        store, plan = experiments.prepare(config, folder, n_problems=problems, trust=trust)
    except ForeignFolder as error:
        raise ForeignFolder(f"{error}\n  to use another folder, add: --out FOLDER") from None
    return _run_and_report(store, plan, **how)


def resume_folder(folder: Path, retry_failed: bool, trust: bool | None, **how: Any) -> int:
    """Resume an interrupted experiment."""
    store = open_store(folder)
    plan = store.plan(trust=trust)
    store.make_folders()
    if retry_failed:
        store.delete_failed()
    return _run_and_report(store, plan, **how)


def _run_and_report(store: Store, plan: Plan, *, shard: tuple[int, int], **how: Any) -> int:
    def work(show: Lines, stop: Stop) -> Progress:
        return experiments.run_chunks(store, plan, shard=shard, stop=stop, watch=show, **how)

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

    A run has `steps` steps, `again` is the command that resumes the work, and `tracebacks` names
    the place of the tracebacks of failed runs. Returns the progress and the exit code.
    """
    show = display(steps)
    with stoppable(show) as stop:
        try:
            progress = work(show, stop)
        except KeyboardInterrupt:
            progress = show.progress or experiments.Progress(0)
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
        tell(f"{count_runs(progress.done - progress.before)} done in {clock(seconds)}")
    for report in [] if progress.disk_full else progress.lost[:5]:
        reason = printable(report.error)
        warn(f"chunk {report.chunk} was not completed ({reason}); to try again: {again}")
    if progress.failed:
        warn(f"{count_runs(progress.failed)} failed; for their tracebacks: {tracebacks}")


def run_leaderboard(
    out: Path | None, suite_name: str, rows: tuple[str, ...], agent: str | None,
    others: dict[str, Any], *, shard: tuple[int, int], **how: Any,
) -> int:  # fmt: skip
    """Run the missing part of a suite, then write the report of the complete rows.

    With `rows`, only these rows are run; their results go to the folder of the whole suite. With
    `agent`, only that agent is run, with the parameters `others`. It is ranked among the published
    results of the suite.
    """
    from switchmdp.experiments.leaderboard import (
        OPEN,
        chosen_rows,
        create_folder,
        entry_suite,
        load_published,
        published_rows,
        run_suite,
        shipped_suite,
    )

    if others and agent is None:
        raise InvalidParameter("--set", others, "used together with --agent")
    whole = suite = shipped_suite(suite_name)
    modules = Path.cwd() if agent is not None and ":" in agent else None
    published = None
    if agent is not None:
        suite = entry_suite(whole, agent, modules, others)
        published = load_published(suite_name)
        whole, suite = published_rows(whole, published), published_rows(suite, published)
    part = "" if suite_name == OPEN else f"-{suite_name}"
    name = f"leaderboard{part}" if agent is None else f"leaderboard{part}-{suite.ours[0]}"
    to_run = chosen_rows(suite, rows) if rows else suite
    folder = create_folder(suite, out or Path("results") / name)
    rerun = "switchmdp leaderboard" + (f" --suite {suite_name}" if part else "")
    rerun += "" if agent is None else f" --agent {shlex.quote(agent)}"
    named = [f"--row {shlex.quote(row)}" for row in rows]
    named += [
        f"--set {shlex.quote(f'{name}={json.dumps(value)}')}" for name, value in others.items()
    ]
    again = " ".join([rerun, *named, *format_options(out=folder, shard=shard, **how)])

    def work(show: Lines, stop: Stop) -> Progress:
        return run_suite(
            to_run, folder, shard=shard, stop=stop, begin=show.begin, watch=show, modules=modules,
            **how,
        )  # fmt: skip

    progress, code = _run_with_progress(
        work, max(row.horizon for row in to_run.rows), folder, again, f"{folder}/rows/*/*/failures"
    )
    if not progress.complete:
        return code
    content = _leaderboard(suite, to_run, folder, rerun, again)
    if published is not None:
        content = _among_published(whole, content, published)
    if failures := [failure for one in content.standings for failure in one.results.failures]:
        warn(f"the first failed run: {printable(failures[0]['error'])}")
    return max(code, _report_suite(content, folder))


def format_options(shard: tuple[int, int], **options: object) -> list[str]:
    """Options as the user would type them, without those that have their default value.

    >>> format_options((2, 8), out="my runs", jobs=None, executor="auto")
    ["--out 'my runs'", '--shard 2/8']
    """
    part = None if shard == (1, 1) else f"{shard[0]}/{shard[1]}"
    values = {name: value for name, value in options.items() if value not in (None, "auto")}
    values |= {} if part is None else {"shard": part}
    return [f"--{name} {shlex.quote(str(value))}" for name, value in values.items()]


def _leaderboard(suite: Suite, to_run: Suite, folder: Path, rerun: str, again: str) -> Leaderboard:
    """Return the complete rows; warn if some of those that were run are not complete."""
    from switchmdp.experiments.leaderboard import standings
    from switchmdp.reports.leaderboard import Leaderboard

    content = Leaderboard(suite, standings(suite, folder), rerun)
    complete = {standing.row.name for standing in content.standings}
    if missing := sum(row.name not in complete for row in to_run.rows):
        rows = f"{missing} of {len(to_run.rows)} rows"
        warn(f"{rows} are not complete; when all shards are done, run: {again}")
    return content


def _among_published(whole: Suite, entry: Leaderboard, published: Published) -> Leaderboard:
    """Return the entry among the published contenders."""
    from switchmdp.experiments.leaderboard import with_published
    from switchmdp.reports.leaderboard import Leaderboard

    suite, ranked = with_published(whole, entry.standings, published)
    return Leaderboard(suite, ranked, entry.rerun)


def _report_suite(content: Leaderboard, folder: Path) -> int:
    """Write the report of the complete rows; without the extra, only the document."""
    from switchmdp.reports.leaderboard import summary, write_document, write_leaderboard

    if not content.standings:
        return Exit.FINE
    relative = {
        row: {place.name: _or_none(place.relative.middle) for place in places}
        for row, places in content.board.items()
    }
    return write_and_print(
        content, folder / "report", "leaderboard", summary=summary,
        whole=write_leaderboard, plain=write_document, relative_regret=relative,
    )  # fmt: skip


def _or_none(value: float) -> float | None:
    return None if math.isnan(value) else value


# Reports.


def load_folder(folder: Path) -> Results:
    """The results of a folder; if a chunk is damaged, the error says how to repair it."""
    store = open_store(folder)
    try:
        return load_results(store)
    except DamagedFile as error:
        raise DamagedFile(f"{error}\n  to compute it again: {resume_command(store)}") from None


def resume_command(store: Store) -> str:
    """The command that resumes the experiment of a folder."""
    return command("resume", store.path, trust=store.experiment.needs_trust)


def write_and_show(folder: Path, out: Path | None = None) -> int:
    """Write the report of a folder and print its tables; without the extra, only tables."""
    from switchmdp.reports.report import Report, unfinished_runs

    results = load_folder(folder)
    code = write_and_print(
        Report(results), out or folder / "report", "report", summary=Report.summary,
        whole=Report.write, plain=Report.write_tables,
    )  # fmt: skip
    if unfinished_runs(results):
        tell(f"to resume: {resume_command(open_store(folder))}")
    return code


def write_and_print(
    content: Content, target: Path, event: str, *, summary: Callable[[Content], str],
    whole: Callable[[Content, Path], list[Path]], plain: Callable[[Content, Path], Path],
    **fields: Any,
) -> int:  # fmt: skip
    """Write the whole report, or only the plain file if an extra is missing, and print it.

    With --json, print an event with `fields`, the files, and which extra is missing.
    """
    say(summary(content))
    code, missing = Exit.FINE, None
    try:
        files = whole(content, target)
    except MissingExtra as error:
        code, missing, files = Exit.USAGE, str(error), [plain(content, target)]
        warn(f"no figures and no page: {error}")
    say_json(event, **fields, files=[str(file) for file in files], missing=missing)
    say(f"\nreport: {files[0]}")
    return code
