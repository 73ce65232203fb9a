"""The command line. Each command parses its arguments, calls the library and prints.

Commands print everything for both kinds of readers, and the options select what appears:

    say         results, on standard output         not with --json or --quiet
    tell        progress and advice, on stderr      not with --json or --quiet
    warn        errors and warnings, on stderr      not with --json
    say_json    events, on standard output          only with --json

If the reader of a pipe goes away, output is discarded and the command continues.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import sys
from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn, TextIO


class Exit(IntEnum):
    """The exit codes."""

    FINE = 0
    USAGE = 2  # an error in the command or the configuration
    FAILED = 3  # some runs failed
    DAMAGED = 4  # a damaged or foreign folder
    FULL = 5  # the disk is full
    INTERRUPTED = 130
    TERMINATED = 143


_quiet = _as_json = False  # set by `output_mode`
_json_stream: TextIO | None = None  # the original standard output


def main(arguments: list[str] | None = None) -> NoReturn:
    """The program `switchmdp`."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        code = Exit.INTERRUPTED
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    from switchmdp.cli.commands import cli

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # closed, or replaced by another object
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # may be None
    with output_mode(quiet="--quiet" in arguments, as_json="--json" in arguments):
        try:
            code: Any = cli.main(arguments, prog_name="switchmdp", standalone_mode=False)
        except SystemExit:  # click exits this way if the pipe of its help is closed
            code = Exit.FINE
        except Exception as error:
            code = _explain(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # already handled; Python would report it again
        discard(sys.stdout)
    return code if isinstance(code, int) else Exit.FINE


def _explain(error: Exception) -> int:
    """Print an error, on standard error or as JSON; returns the exit code."""
    import click

    from switchmdp.errors import DamagedFile, ForeignFolder, InvalidExperiment, SwitchmdpError

    code, text, details = Exit.USAGE, f"error: {error}", {}
    if isinstance(error, click.exceptions.Abort):
        return Exit.INTERRUPTED
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError):
        text = f"error: {_reason(error)}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            code, text = Exit.FULL, f"{text}; free some space, then run the same command again"
    elif isinstance(error, InvalidExperiment):
        number = "1 error" if len(error.faults) == 1 else f"{len(error.faults)} errors"
        text = "\n  ".join([f"{number} in the configuration:", *map(str, error.faults)])
        details["faults"] = [
            {"path": f.path, "value": repr(f.value), "allowed": f.allowed, "message": str(f)}
            for f in error.faults
        ]
    elif isinstance(error, (ForeignFolder, DamagedFile)):
        code = Exit.DAMAGED
    elif not isinstance(error, SwitchmdpError):
        raise error
    say_json("error", message=text.removeprefix("error: "), exit=code, **details)
    if isinstance(error, click.ClickException) and not _as_json:
        error.show()
    else:
        warn(text)
    return code


def _reason(error: OSError) -> str:
    """The system's message and the file's name, without the error number."""
    place = f"{error.filename}: " if error.filename is not None else ""
    return place + (error.strerror or str(error))


# Output.


@contextlib.contextmanager
def output_mode(*, quiet: bool = False, as_json: bool = False) -> Iterator[None]:
    """Select what is printed.

    With JSON, anything else, such as what a user module prints, goes to standard error.
    """
    global _quiet, _as_json, _json_stream
    _quiet, _as_json, _json_stream = quiet, as_json, sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
            yield
    finally:
        _quiet, _as_json, _json_stream = False, False, None


def prints_text() -> bool:
    """Whether results, progress and advice are printed as text."""
    return not _quiet and not _as_json


def say(text: object) -> None:
    """Print a result."""
    if prints_text():
        _write(sys.stdout, str(text))


def tell(text: str) -> None:
    """Print progress or advice."""
    if prints_text():
        _write(sys.stderr, text)


def warn(text: str) -> None:
    """Print an error or a warning."""
    if not _as_json:
        _write(sys.stderr, text)


def say_json(event: str, **content: Any) -> None:
    """Print a line of JSON in ASCII, so that no character in a name can break the line."""
    if _as_json:
        _write(_json_stream, json.dumps({"event": event, **content}))


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # it was closed when the program started
        return
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        discard(stream)


def discard(stream: TextIO | None) -> None:
    """Redirect a broken pipe to /dev/null, including what is still in its buffer."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may not be a file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())  # type: ignore[union-attr]  # None: suppressed
        os.close(null)


def command(verb: str, folder: Path, *, trust: bool = False) -> str:
    """A command for the user to type.

    >>> command("resume", Path("results/my runs"))
    "switchmdp resume 'results/my runs'"
    >>> command("resume", Path("mine"), trust=True)
    'switchmdp resume mine --trust'
    """
    return f"switchmdp {verb} {shlex.quote(str(folder))}" + " --trust" * trust


def printable(text: str) -> str:
    """A text as one line without control characters.

    >>> printable("two\\nlines")
    'two lines'
    """
    return "".join(character if character.isprintable() else " " for character in text)
