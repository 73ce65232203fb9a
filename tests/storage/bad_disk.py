"""A disk that refuses one operation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest


class BadDisk:
    """Refuses the k-th operation of all, with an error or with Ctrl-C; a write is half done then."""

    def __init__(self, error: int | None, k: int) -> None:
        self.error, self.k, self.count = error, k, 0
        self.refused = ""

    def put_under(self, patch: pytest.MonkeyPatch) -> None:
        """From here on everything that is asked of the operating system is counted."""
        for name in ("open", "write", "fdatasync", "fsync", "ftruncate"):
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            main = threading.current_thread() is threading.main_thread()
            if self.error is None and not main:  # where Ctrl-C never comes
                return function(*given)
            self.count += 1
            if self.count != self.k:
                return function(*given)
            self.refused = name
            if name == "write":
                function(given[0], given[1][: len(given[1]) // 2])
            if self.error is None:
                raise KeyboardInterrupt
            raise OSError(self.error, os.strerror(self.error))

        return call
