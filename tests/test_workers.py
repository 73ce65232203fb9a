"""The tests of a group run on the same worker, so that they share machine code and fixtures."""

from __future__ import annotations

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="there is one process only")
@pytest.mark.xdist_group("a group")
def test_groups_are_known_to_the_scheduler(request: pytest.FixtureRequest) -> None:
    """Versions of pytest and pytest-xdist that do not fit together ignore groups in silence."""
    assert request.node.nodeid.endswith("@a group")
