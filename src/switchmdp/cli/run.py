"""run, resume, reproduce: an experiment from its configuration to its report."""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from switchmdp.cli import FAILED, FINE, FULL, INTERRUPTED, TERMINATED, USAGE
from switchmdp.cli.inspect import failed_runs, load_all, resuming
from switchmdp.cli.progress import Silent, Stop, clock, progress, stoppable
from switchmdp.cli.say import command, printable, say, say_json, tell
from switchmdp.errors import (
    ForeignFolder,
    InvalidExperiment,
    InvalidParameter,
    MissingExtra,
    SwitchmdpError,
)
from switchmdp.experiments.check import Plan, check
from switchmdp.experiments.execute import Tally, run_chunks
from switchmdp.experiments.spec import Experiment, load, loads
from switchmdp.experiments.store import FOLDERS, Store, create, open_store
from switchmdp.experiments.toml import dumps

Found = TypeVar("Found")


def shipped() -> dict[str, str]:
    """The configurations that come with the package: name -> TOML."""
    folder = resources.files("switchmdp.experiments") / "shipped"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in files}


def run_named(
    config: str, out: Path, problems: int | None, trust: bool | None = None, **how: Any
) -> int:
    """Run a configuration file or a shipped one."""
    part = shard_of(how["shard"])
    known = shipped()
    if config in known and not Path(config).is_file():
        experiment, text, modules = loads(known[config]), known[config], None
    elif not Path(config).exists() and not config.endswith(".toml"):
        names = ", ".join(known)
        raise InvalidParameter("CONFIG", config, f"a TOML file or one of the shipped {names}")
    else:
        experiment, text = load(config)
        modules = _modules_of(Path(config))
    if problems is not None:
        experiment = experiment.model_copy(update={"n_problems": problems})
        text = _with_problems(text, problems, experiment)
    plan = check(experiment, modules, trust=trust)
    try:
        store = create(out, plan, text, modules)
    except ForeignFolder as error:
        raise ForeignFolder(f"{error}\n  to write elsewhere: --out FOLDER") from None
    return _go(store, plan, **how | {"shard": part})


def _modules_of(config: Path) -> Path:
    """Where the user's modules are: beside the file, or where those were of whose results it is."""
    with contextlib.suppress(SwitchmdpError, OSError):
        if found := open_store(config.parent).module_folder():
            return found
    return config.resolve().parent


def _with_problems(text: str, problems: int, wanted: Experiment) -> str:
    """The text with another number of problems, so that it still says what was run."""
    found = re.sub(r"(?m)^n_problems\s*=\s*\w+", f"n_problems = {problems}", text, count=1)
    with contextlib.suppress(InvalidExperiment):
        if loads(found) == wanted:
            return found
    return dumps(wanted)


def resume_folder(folder: Path, retry_failed: bool, trust: bool | None, **how: Any) -> int:
    """Go on where a run stopped."""
    part = shard_of(how["shard"])
    store = open_store(folder)
    plan = store.plan(trust=trust)
    for name in FOLDERS:  # a copy may have lost those that were empty
        (folder / name).mkdir(exist_ok=True)
    if retry_failed:
        for chunk in store.chunks():
            if failed_runs(store, chunk):
                store.forget(chunk)
    return _go(store, plan, **how | {"shard": part})


def _go(
    store: Store, plan: Plan, *, jobs: int | None, executor: str, shard: tuple[int, int],
    dask: str | None, quiet: bool, as_json: bool,
) -> int:  # fmt: skip
    def work(show: Silent, stop: Stop) -> Tally:
        return run_chunks(
            store, plan, jobs=jobs, executor=executor, shard=shard, dask=dask, stop=stop, watch=show
        )

    part = "" if shard == (1, 1) else f" --shard {shard[0]}/{shard[1]}"
    tally, code = attend(
        work, store.experiment.horizon, store.path, again=resuming(store) + part,
        tracebacks=command("status", store.path), quiet=quiet, as_json=as_json,
    )  # fmt: skip
    if tally.complete and shard == (1, 1):
        write_and_show(store.path, None, quiet=quiet, as_json=as_json)
    elif tally.complete and not (as_json or quiet):
        tell(f"this shard is done; once all are: {command('report', store.path)}")
    return code


def attend(
    work: Callable[[Silent, Stop], Tally], steps: int, folder: Path, *, again: str,
    tracebacks: str, quiet: bool, as_json: bool,
) -> tuple[Tally, int]:  # fmt: skip
    """Do the work, runs of so many steps, until it is done or stopped; say what became of it.

    `again` is the command that goes on with it, `tracebacks` where to look for those of failures.
    Returns how far it came, and the exit code.
    """
    show = progress(steps, quiet=quiet, as_json=as_json)
    with stoppable(show) as stop:
        try:
            tally = work(show, stop)
        except KeyboardInterrupt:
            tally = show.tally or Tally(0)
            tally.interrupted = True
        finally:
            show.close()
    code = exit_code(tally, stop.signal)
    if as_json:
        say_json(
            "finished", folder=str(folder), done=tally.done, runs=tally.runs,
            failed=tally.failed, lost=[account.error for account in tally.lost], exit=code,
        )  # fmt: skip
    else:
        _conclude(tally, show, again, tracebacks, quiet)
    return tally, code


def exit_code(tally: Tally, asked: int | None) -> int:
    """What the program ends with; `asked` is the signal that stopped it."""
    if tally.disk_full:
        return FULL
    if tally.interrupted:
        return TERMINATED if asked == signal.SIGTERM else INTERRUPTED
    return FAILED if tally.failed or tally.lost else FINE


def _conclude(tally: Tally, show: Silent, again: str, tracebacks: str, quiet: bool) -> None:
    """What became of it, and what to do next."""
    kept = f"{tally.done} of {tally.runs} runs are kept" if tally.runs else "what is done is kept"
    if tally.disk_full:
        tell(f"the disk is full: {kept}; free some space, then: {again}")
    elif tally.interrupted:
        tell(f"stopped: {kept}; go on with: {again}")
    elif not quiet and show.before == tally.done and not tally.lost:
        tell(f"nothing to run: all {tally.done} runs are there")
    elif not quiet:
        took = clock(time.monotonic() - show.began)
        tell(f"{tally.done - show.before} runs done in {took}")
    for account in tally.lost[:5]:
        if not tally.disk_full:
            reason = printable(account.error)
            tell(f"chunk {account.chunk} could not be done ({reason}); try: {again}")
    if tally.failed:
        tell(f"{tally.failed} runs failed; for their tracebacks: {tracebacks}")


def shard_of(text: str | None) -> tuple[int, int]:
    """Which part of how many."""
    if text is None:
        return 1, 1
    found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    if not found or int(found[1]) > int(found[2]):
        raise InvalidParameter("--shard", text, "I/N with 1 <= I <= N, such as 2/8")
    return int(found[1]), int(found[2])


def write_and_show(
    folder: Path, out: Path | None, *, quiet: bool = False, as_json: bool = False
) -> int:
    """Write the report of a folder and print its tables; without extras, only the tables."""
    from switchmdp.reports.report import summary, write_report, write_tables

    return deliver(
        load_all(folder), out or folder / "report", "report", summary=summary, whole=write_report,
        plain=write_tables, quiet=quiet, as_json=as_json,
    )  # fmt: skip


def deliver(
    found: Found, target: Path, event: str, *, summary: Callable[[Found], str],
    whole: Callable[[Found, Path], list[Path]], plain: Callable[[Found, Path], Path],
    quiet: bool, as_json: bool, **content: Any,
) -> int:  # fmt: skip
    """Write the whole report, or only the plain file where an extra is missing, and print it.

    In JSON it is an event with `content`, the files, and which extra is missing.
    """
    if not (as_json or quiet):
        say(summary(found))
    code, missing = FINE, None
    try:
        files = whole(found, target)
    except MissingExtra as error:
        code, missing, files = USAGE, str(error), [plain(found, target)]
        if not as_json:
            tell(f"no figures and no page: {error}")
    if as_json:
        say_json(event, **content, files=[str(file) for file in files], missing=missing)
    elif not quiet:
        say(f"\nreport: {files[0]}")
    return code
