"""No request that is generated from the OpenAPI document causes an internal error."""

from __future__ import annotations

from pathlib import Path

from tests.online.generated_requests import requests_from_the_document


def test_no_generated_request_causes_an_internal_error(tmp_path: Path) -> None:
    print(requests_from_the_document(tmp_path, 5))
