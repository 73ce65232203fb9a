"""No random request causes an internal error; `make soak` sends 5000."""

from __future__ import annotations

from pathlib import Path

from tests.online.requests_at_random import fuzzed


def test_no_request_causes_an_internal_error(tmp_path: Path) -> None:
    print(fuzzed(tmp_path / "data", 500))
