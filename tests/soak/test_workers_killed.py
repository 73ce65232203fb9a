"""The campaign of `tests/online/worker_kills` at full count, and generated requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.online.generated_requests import requests_from_the_document
from tests.online.postgres_server import new_database, postgres_server
from tests.online.worker_kills import kill_workers

pytestmark = pytest.mark.soak


def test_a_hundred_kills_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with postgres_server() as server:
        summary = kill_workers(new_database(server), 100)
    with capsys.disabled():
        print(f"\n{summary}")


def test_no_generated_request_of_100000_causes_an_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sent, summary = requests_from_the_document(tmp_path, 1700)
    assert sent >= 90_000
    with capsys.disabled():
        print(f"\n{summary}")
