"""The command line. Each command is a few lines around the library; nothing is computed here.

Exit codes: 0 fine, 2 usage or configuration, 3 some runs failed, 4 a damaged or foreign folder,
5 the disk is full, 130 and 143 when stopped by a signal.
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
    from switchmdp.cli.say import let_go, only_json

    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError):  # closed, or no stream of Python's own
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # may be None
    as_json = "--json" in arguments
    with only_json() if as_json else contextlib.nullcontext():
        try:
            code: Any = cli.main(arguments, prog_name="switchmdp", standalone_mode=False)
        except SystemExit:  # click's way to end when the reader of its help has gone
            code = FINE
        except Exception as error:
            code = _explain(error, as_json)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # told above; Python would only say it once more
        let_go(sys.stdout)
    return code if isinstance(code, int) else FINE


def _explain(error: Exception, as_json: bool) -> int:
    """Say what is wrong, on standard error or as JSON, and choose the exit code."""
    import errno

    import click

    from switchmdp.cli.say import say_json, tell
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
            text += "; free some space, then give the same command again"
    elif isinstance(error, SwitchmdpError):
        code = DAMAGED if isinstance(error, (ForeignFolder, DamagedFile)) else USAGE
        text = str(error)
    else:
        raise error
    if isinstance(error, InvalidExperiment):
        faults = [
            {"path": f.path, "value": repr(f.value), "allowed": f.allowed} for f in error.faults
        ]
        number = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        text = "\n  ".join([f"{number} in the configuration:", *map(str, error.faults)])
    if as_json:
        say_json("error", message=text, exit=code, **({"faults": faults} if faults else {}))
    elif isinstance(error, click.ClickException):
        error.show()
    else:
        tell(text if faults else f"error: {text}")
    return code


def _reason(error: OSError) -> str:
    """The system's words and the file's name, without a number that says nothing."""
    where = f"{error.filename}: " if error.filename is not None else ""
    return where + (error.strerror or str(error))
