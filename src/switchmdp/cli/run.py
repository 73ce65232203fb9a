"""run, resume, reproduce: an experiment from its configuration to its report."""

from __future__ import annotations

import re
import signal
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import click

from switchmdp.cli import FAILED, FINE, FULL, INTERRUPTED, TERMINATED
from switchmdp.cli.progress import progress, say_json, stoppable
from switchmdp.errors import InvalidExperiment, InvalidParameter, MissingExtra
from switchmdp.experiments.check import Plan, check
from switchmdp.experiments.execute import Tally, run_chunks
from switchmdp.experiments.load import load_results
from switchmdp.experiments.spec import Experiment, load, loads
from switchmdp.experiments.store import Store, create, open_store


def shipped() -> dict[str, str]:
    """The configurations that come with the package: name -> TOML."""
    folder = resources.files("switchmdp.experiments") / "shipped"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in files}


def run_named(config: str, out: Path, problems: int | None, **how: Any) -> int:
    """Run a configuration file or a shipped one."""
    known = shipped()
    if config in known and not Path(config).exists():
        experiment, text, modules = loads(known[config]), known[config], None
    elif not Path(config).exists() and not config.endswith(".toml"):
        names = ", ".join(known)
        raise InvalidParameter("CONFIG", config, f"a TOML file or one of the shipped {names}")
    else:
        experiment, text = load(config)
        modules = Path(config).resolve().parent
    if problems is not None:
        experiment = experiment.model_copy(update={"n_problems": problems})
        text = _with_problems(text, problems, experiment)
    plan = check(experiment, modules)
    store = create(out, plan, text, modules)
    return _go(store, plan, **how)


def _with_problems(text: str, problems: int, wanted: Experiment) -> str:
    """The text with another number of problems, so that it still says what was run."""
    found = re.sub(r"(?m)^n_problems\s*=.*$", f"n_problems = {problems}", text, count=1)
    try:
        return found if loads(found) == wanted else text
    except InvalidExperiment:
        return text


def resume_folder(folder: Path, retry_failed: bool, **how: Any) -> int:
    """Go on where a run stopped."""
    store = open_store(folder)
    plan = store.plan()
    if retry_failed:
        for chunk in store.chunks():
            if store.sidecar("failures", chunk):
                store.forget(chunk)
    return _go(store, plan, **how)


def _go(
    store: Store, plan: Plan, *, jobs: int | None, executor: str, shard: str | None,
    dask: str | None, quiet: bool, as_json: bool,
) -> int:  # fmt: skip
    part = _shard(shard)
    show = progress(store.experiment.horizon, quiet=quiet, as_json=as_json)
    with stoppable() as stop:
        try:
            tally = run_chunks(
                store, plan, jobs=jobs, executor=executor, shard=part, dask=dask, stop=stop,
                watch=show,
            )  # fmt: skip
        finally:
            show.close()
        asked = stop.signal
    code = _exit_code(tally, asked)
    _conclude(store, tally, code, as_json)
    if tally.complete and part == (1, 1):
        code = max(code, write_and_show(store.path, None, quiet=quiet, as_json=as_json))
    elif tally.complete and not as_json:
        click.echo(f"shard {shard} is done; once all are: switchmdp report {store.path}")
    return code


def _exit_code(tally: Tally, asked: int | None) -> int:
    if tally.disk_full:
        return FULL
    if tally.interrupted:
        return TERMINATED if asked == signal.SIGTERM else INTERRUPTED
    return FAILED if tally.failed or tally.lost else FINE


def _conclude(store: Store, tally: Tally, code: int, as_json: bool) -> None:
    """What became of it, and what to do next."""
    again = f"switchmdp resume {store.path}"
    if as_json:
        say_json(
            "finished", folder=str(store.path), done=tally.done, runs=tally.runs,
            failed=tally.failed, lost=[account.error for account in tally.lost], exit=code,
        )  # fmt: skip
        return

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    kept = f"{tally.done} of {tally.runs} runs are kept"
    if tally.disk_full:
        say(f"the disk is full: {kept}; free some space, then: {again}")
    elif tally.interrupted:
        say(f"stopped: {kept}; go on with: {again}")
    else:
        for account in tally.lost[:5]:
            say(f"chunk {account.chunk} could not be done ({account.error}); try: {again}")
    if tally.failed:
        say(f"{tally.failed} runs failed; their tracebacks are in {store.path / 'failures'}")


def _shard(text: str | None) -> tuple[int, int]:
    if text is None:
        return 1, 1
    found = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    if not found or int(found[1]) > int(found[2]):
        raise InvalidParameter("--shard", text, "I/N with 1 <= I <= N, such as 2/8")
    return int(found[1]), int(found[2])


def write_and_show(
    folder: Path, out: Path | None, *, quiet: bool = False, as_json: bool = False
) -> int:
    """Write the report of a folder and print its tables."""
    from switchmdp.reports.report import summary, write_report

    results = load_results(open_store(folder))
    target = out or folder / "report"
    if not as_json:
        click.echo(summary(results))
    try:
        files = write_report(results, target)
    except MissingExtra as error:
        print(f"no figures and no page: {error}", file=sys.stderr)
        return FINE
    if as_json:
        say_json("report", files=[str(file) for file in files])
    elif not quiet:
        click.echo(f"report: {target / 'index.html'}")
    return FINE
