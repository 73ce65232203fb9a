"""The text of errors for people who use the command line or HTTP."""

from __future__ import annotations

from switchmdp.errors import InvalidParameter


def message_of(error: Exception) -> str:
    """The message, without the value if there was none: `None` means something only in Python.

    >>> message_of(InvalidParameter("state", None, "set"))
    'state must be set'
    >>> message_of(InvalidParameter("rate", 0, "positive"))
    'rate must be positive, got 0'
    """
    if isinstance(error, InvalidParameter) and error.value is None:
        return f"{error.field} must be {error.allowed}"
    return str(error)
