"""No request that is generated from the OpenAPI document causes an internal error.

About 5000 requests in all; `make soak` sends 100,000.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.online.generated_requests import requests_from_the_document

PARTS = 4  # so that several workers share them


@pytest.mark.parametrize("part", range(PARTS))
def test_no_generated_request_causes_an_internal_error(part: int, tmp_path: Path) -> None:
    sent, summary = requests_from_the_document(tmp_path, 90, part, PARTS)
    print(summary)
    assert sent >= 1000
