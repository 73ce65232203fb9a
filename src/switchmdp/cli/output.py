"""Terminal output: results on standard output, everything else on standard error, or JSON lines.

If the reader of a pipe goes away, output is discarded and the command continues.
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

_json_stream: TextIO | None = None  # inside `json_only`: the original standard output


def say(text: object) -> None:
    """Print a result."""
    _write(sys.stdout, str(text))


def tell(text: str) -> None:
    """Print anything else: progress, advice, errors."""
    _write(sys.stderr, text)


def say_json(event: str, **content: Any) -> None:
    """Print a line of JSON in ASCII, so that no character in a name can break the line."""
    _write(_json_stream or sys.stdout, json.dumps({"event": event, **content}))


@contextlib.contextmanager
def json_only() -> Iterator[None]:
    """Redirect everything else, such as what a user module prints, to standard error."""
    global _json_stream
    _json_stream = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _json_stream = None


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
