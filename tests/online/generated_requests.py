"""Requests generated from the OpenAPI document by schemathesis.

For every operation, valid and invalid requests are sent to a service with a small model. No
response may be a server error, every status must be documented, and every body must match its
schema.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from tests.online.serving import serving

from switchmdp.online import rebuild
from switchmdp.online.models import Models
from switchmdp.online.sqlite import SQLite

NAME = "shop"
STATES, ACTIONS = ["home", "basket"], ["a", "b"]


def requests_from_the_document(
    folder: Path, each: int, part: int = 0, parts: int = 1
) -> tuple[int, str]:
    """Send `each` requests to every operation, and twice as many if requests can be invalid.

    `part` of `parts` selects a share of the operations. Returns the number of requests, and a
    summary.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages it imports
        import schemathesis
        from schemathesis import GenerationMode
        from schemathesis.checks import (
            not_a_server_error,
            response_schema_conformance,
            status_code_conformance,
        )

    place, statuses = folder / "generated.sqlite", Counter[int]()
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    with Models(SQLite(place, sync=False), memory=10**6) as models:
        with serving(models, rate=1e6) as client:
            schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json")
            operations: list[Any] = []
            for found in schema.get_all_operations():
                operations.append(found.ok())  # type: ignore[union-attr]  # the document is valid

            def create_models() -> None:
                made = {"agent": "random", "states": STATES, "actions": ACTIONS}
                for name in (NAME, "main"):
                    client.ask("POST", "/models", {**made, "name": name})

            def send(operation: Any, mode: GenerationMode) -> None:
                create_models()

                @settings(
                    max_examples=each, database=None, derandomize=True, deadline=None,
                    phases=[Phase.generate], suppress_health_check=list(HealthCheck),
                )  # fmt: skip
                @given(case=operation.as_strategy(generation_mode=mode))
                def one(case: Any) -> None:
                    if operation.method == "delete":
                        create_models()
                    if "name" in (case.path_parameters or {}):
                        case.path_parameters["name"] = NAME
                    if operation.path.endswith("feedback"):
                        path = operation.path.replace("{name}", NAME).partition("/{id}")[0]
                        decided = client.ask("POST", path, {"state": 0})
                        if decided.status == 201:
                            case.path_parameters["id"] = decided.json["id"]
                    response = case.call(timeout=60)  # other processes may use all cores
                    statuses[response.status_code] += 1
                    case.validate_response(response, checks=checks)

                one()

            for operation in operations[part::parts]:
                send(operation, GenerationMode.POSITIVE)
                if operation.body or operation.query:
                    send(operation, GenerationMode.NEGATIVE)
            assert client.ask("GET", "/readyz").status == 200
        live = {name: found.learner.decided for name, found in models.loaded().items()}
    assert {name: rebuild(place, model=name).decided for name in live} == live
    shown = ", ".join(f"{status}: {n}" for status, n in sorted(statuses.items()))
    sent = sum(statuses.values())
    return sent, f"{sent} generated requests to {len(operations[part::parts])} operations ({shown})"
