"""User modules that tests import into this process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from switchmdp.experiments import names


@contextmanager
def isolated_user_modules() -> Iterator[None]:
    """Restore the search path and unload user modules when the block is left.

    The package remembers which folder it has put on the search path, to remove it later. So both
    are restored, or a folder of an earlier test would stay on the path.
    """
    loaded: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", sys.path[:])
        patch.setattr(names, "_loaded", loaded)
        patch.setattr(names, "_added", names._added[:])
        try:
            yield
        finally:
            for name in loaded:
                sys.modules.pop(name, None)
