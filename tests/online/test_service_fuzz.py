"""No request, however strange, is answered with a fault of the service; 5000 in `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.online.requests_at_random import fuzzed


def test_no_request_causes_an_internal_error(tmp_path: Path) -> None:
    print(fuzzed(tmp_path / "data", 500))
