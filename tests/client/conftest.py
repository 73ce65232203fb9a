"""A service with prepared answers, shared by the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.prepared_service import PreparedService, prepared_service


@pytest.fixture(scope="module")
def service() -> Iterator[PreparedService]:
    with prepared_service() as found:
        yield found
