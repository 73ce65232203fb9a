"""report: from a folder of results to its report.

A module of its own, without what running needs, so that a report starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from switchmdp.cli import Exit, command, say, say_json, tell, warn
from switchmdp.errors import DamagedFile, MissingExtra
from switchmdp.experiments.results import Results
from switchmdp.experiments.store import Store, load_results, open_store

Content = TypeVar("Content")


def load_folder(folder: Path) -> Results:
    """The results of a folder; if a chunk is damaged, the error says how to repair it."""
    store = open_store(folder)
    try:
        return load_results(store)
    except DamagedFile as error:
        raise DamagedFile(f"{error}\n  to compute it again: {resume_command(store)}") from None


def resume_command(store: Store) -> str:
    """The command that resumes the experiment of a folder."""
    return command("resume", store.path, trust=store.needs_trust)


def write_and_show(folder: Path, out: Path | None = None) -> int:
    """Write the report of a folder and print its tables; without the extra, only tables."""
    from switchmdp.reports.report import summary, unfinished_runs, write_report, write_tables

    results = load_folder(folder)
    code = write_and_print(
        results, out or folder / "report", "report", summary=summary,
        whole=write_report, plain=write_tables,
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
