"""The command line. Each command parses its arguments, calls the library and prints.

Exit codes: 0 success, 2 usage or configuration error, 3 some runs failed, 4 damaged or foreign
folder, 5 disk full, 130 and 143 stopped by a signal.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

FINE, USAGE, FAILED, DAMAGED, FULL = 0, 2, 3, 4, 5
INTERRUPTED, TERMINATED = 130, 143


def main(arguments: list[str] | None = None) -> NoReturn:
    """The program `switchmdp`."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    import contextlib

    from switchmdp.cli.commands import cli
    from switchmdp.cli.output import discard, json_only

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # closed, or replaced by another object
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # may be None
    as_json = "--json" in arguments
    with json_only() if as_json else contextlib.nullcontext():
        try:
            code: Any = cli.main(arguments, prog_name="switchmdp", standalone_mode=False)
        except SystemExit:  # click exits this way if the pipe of its help is closed
            code = FINE
        except Exception as error:
            code = _explain(error, as_json)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # already handled; Python would report it again
        discard(sys.stdout)
    return code if isinstance(code, int) else FINE


def _explain(error: Exception, as_json: bool) -> int:
    """Print an error, on standard error or as JSON; returns the exit code."""
    import errno

    import click

    from switchmdp.cli.output import say_json, tell
    from switchmdp.errors import DamagedFile, ForeignFolder, InvalidExperiment, SwitchmdpError

    faults: list[dict[str, str]] = []
    if isinstance(error, click.exceptions.Abort):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        code, text = USAGE, error.format_message()
    elif isinstance(error, OSError):
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        code, text = FULL if full else USAGE, _reason(error)
        if full:
            text += "; free some space, then run the same command again"
    elif isinstance(error, SwitchmdpError):
        code = DAMAGED if isinstance(error, (ForeignFolder, DamagedFile)) else USAGE
        text = str(error)
    else:
        raise error
    if isinstance(error, InvalidExperiment):
        faults = [
            {"path": f.path, "value": repr(f.value), "allowed": f.allowed, "message": str(f)}
            for f in error.faults
        ]
        number = "1 error" if len(faults) == 1 else f"{len(faults)} errors"
        text = "\n  ".join([f"{number} in the configuration:", *map(str, error.faults)])
    if as_json:
        say_json("error", message=text, exit=code, **({"faults": faults} if faults else {}))
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        tell(text if faults else f"error: {text}")
    return code


def _reason(error: OSError) -> str:
    """The system's message and the file's name, without the error number."""
    place = f"{error.filename}: " if error.filename is not None else ""
    return place + (error.strerror or str(error))
