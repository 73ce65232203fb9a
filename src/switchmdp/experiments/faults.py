"""A configuration's faults in words: where, what was found, what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from switchmdp.errors import Fault


class Words:
    """Stands in a fault for a value where there is none to show."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


NOTHING = Words("nothing")

_ALLOWED = {
    "missing": "given", "dict_type": "a table", "model_type": "a table",
    "string_unicode": "text", "string_pattern_mismatch": "a name without control characters",
    "string_too_short": "at least {min_length} long", "too_short": "at least {min_length} long",
    "string_too_long": "at most {max_length} long", "too_long": "at most {max_length} long",
    "literal_error": "one of {expected}", "invalid_key": "a key that is text",
}  # fmt: skip


def fault_of(error: Any, known: Iterable[str]) -> Fault:
    """A fault from one of pydantic's errors; `known` are the keys that its table may have."""
    parts = [str(part) for part in error["loc"] if part != "[key]"]
    path = ".".join(p if p.isprintable() and p else repr(p) for p in parts) or "the experiment"
    kind, message = error["type"], error["msg"]
    value = NOTHING if kind == "missing" else showable(error["input"])
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(parts[-1], known, 1)
        allowed = "left out: no such key" + (f" (did you mean {close[0]!r}?)" if close else "")
    elif kind in _ALLOWED:
        allowed = _ALLOWED[kind].format(**error.get("ctx", {}))
    else:
        message = message.removeprefix("Value error, ").removeprefix("Input should be ")
        allowed = message.replace("a valid integer", "an integer").replace("a valid ", "a ")
    return Fault(path, value, allowed)


def showable(value: Any) -> Any:
    """The value if it can be written out: a number of 5000 digits can't.

    >>> showable(7), showable(16**5000)
    (7, what can't be shown)
    """
    try:
        repr(value)
    except Exception:  # whatever a value's own words may raise
        return Words("what can't be shown")
    return value


def described(error: BaseException) -> str:
    """What a user's code raised, in a line.

    >>> described(KeyError("x"))
    "KeyError: 'x'"
    """
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, which can't be shown"
