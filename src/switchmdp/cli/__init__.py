"""The command line. Each command is a few lines around the library; nothing is computed here.

Exit codes: 0 fine, 2 usage or configuration, 3 some runs failed, 4 a damaged or foreign folder,
5 the disk is full, 130 and 143 when stopped by a signal.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, NoReturn

from switchmdp.errors import (
    DamagedFile,
    ForeignFolder,
    InvalidExperiment,
    MissingExtra,
    SwitchmdpError,
)

FINE, USAGE, FAILED, DAMAGED, FULL = 0, 2, 3, 4, 5
INTERRUPTED, TERMINATED = 130, 143


def main(arguments: list[str] | None = None) -> NoReturn:
    """The program `switchmdp`."""
    from switchmdp.cli.commands import cli

    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        code = cli.main(arguments, prog_name="switchmdp", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FINE
    except (KeyboardInterrupt, SystemExit) as error:
        code = error.code if isinstance(error, SystemExit) else INTERRUPTED
    except Exception as error:
        code = _explain(error, as_json)
    sys.exit(code if isinstance(code, int) else FINE)


def _explain(error: Exception, as_json: bool) -> int:
    """Say what is wrong, on standard error or as JSON, and choose the exit code."""
    import click

    if isinstance(error, click.exceptions.Abort):
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        if as_json:
            _tell_json(error.format_message(), USAGE)
        else:
            error.show()
        return USAGE
    if isinstance(error, (ForeignFolder, DamagedFile)):
        code = DAMAGED
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        code = FULL
    elif isinstance(error, (SwitchmdpError, OSError)):
        code = USAGE
    else:
        raise error
    faults = error.faults if isinstance(error, InvalidExperiment) else ()
    if as_json:
        shown = [{"path": f.path, "value": repr(f.value), "allowed": f.allowed} for f in faults]
        _tell_json(str(error), code, faults=shown)
    elif faults:
        print(
            f"{len(faults)} fault{'s' * (len(faults) > 1)} in the configuration:", file=sys.stderr
        )
        for fault in faults:
            print(f"  {fault}", file=sys.stderr)
    else:
        lead = "missing: " if isinstance(error, MissingExtra) else "error: "
        print(lead + str(error), file=sys.stderr)
        if code == FULL:
            print("the disk is full; free some space, then: switchmdp resume DIR", file=sys.stderr)
    return code


def _tell_json(message: str, code: int, **more: Any) -> None:
    import json

    print(json.dumps({"event": "error", "message": message, "exit": code, **more}), flush=True)
