"""The campaign of `tests/online/kills` at full count, with a line that says what it did."""

from __future__ import annotations

import pytest
from tests.faults.workbench import scratch_folder
from tests.online.kills import kill_deciders

pytestmark = pytest.mark.soak


def test_two_hundred_kills_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with scratch_folder() as scratch:
        account = kill_deciders(scratch, 200)
    with capsys.disabled():
        print(f"\n{account}")
