"""No request, however strange, is answered with a fault of the service; 5000 in `make soak`."""

from __future__ import annotations

from pathlib import Path

from tests.online.requests_at_random import fuzzed


def test_no_request_is_answered_with_a_fault_of_the_service(tmp_path: Path) -> None:
    print(fuzzed(tmp_path / "data", 500))
