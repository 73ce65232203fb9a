"""The service under 5000 strange requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.online.requests_at_random import fuzzed

pytestmark = pytest.mark.soak


def test_no_request_of_5000_is_answered_with_a_fault_of_the_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    account = fuzzed(tmp_path / "data", 5000)
    with capsys.disabled():
        print(f"\n{account}")
