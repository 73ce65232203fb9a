"""Speaking: results on standard output, everything else on standard error, or lines of JSON.

Nobody has to listen. Once the reader of a pipe has gone, what is said goes nowhere, and the work
goes on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

_lines: TextIO | None = None  # where JSON goes, while nothing else may go there


def say(text: object) -> None:
    """A result."""
    _write(sys.stdout, str(text))


def tell(text: str) -> None:
    """What is no result: progress, advice, what went wrong."""
    _write(sys.stderr, text)


def say_json(event: str, **content: Any) -> None:
    """A line of JSON on standard output, in plain ASCII: no name can break it in two."""
    _write(_lines or sys.stdout, json.dumps({"event": event, **content}))


@contextlib.contextmanager
def only_json() -> Iterator[None]:
    """What anybody else prints, such as a user's module, goes to standard error."""
    global _lines
    _lines = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _lines = None


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # closed before we began
        return
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except BrokenPipeError:
        let_go(stream)


def let_go(stream: TextIO | None) -> None:
    """Nobody reads this any more: let what is left in its buffer, and all that follows, vanish."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be no file at all
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[union-attr]  # None: suppressed
        os.close(nowhere)


def command(verb: str, folder: Path, *, trust: bool = False) -> str:
    """What to type next.

    >>> command("resume", Path("results/my runs"))
    "switchmdp resume 'results/my runs'"
    >>> command("resume", Path("mine"), trust=True)
    'switchmdp resume mine --trust'
    """
    return f"switchmdp {verb} {shlex.quote(str(folder))}" + " --trust" * trust


def printable(text: str) -> str:
    """A text from outside as one line that can't move a terminal's cursor.

    >>> printable("two\\nlines")
    'two lines'
    """
    return "".join(character if character.isprintable() else " " for character in text)
