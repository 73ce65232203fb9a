"""Authentication and rate limits."""

from __future__ import annotations

import pytest

from switchmdp.errors import InvalidParameter
from switchmdp.online import server as access
from switchmdp.online.server import RateLimit, checked_token


def test_a_client_may_use_its_rate_plus_a_burst_of_one_second() -> None:
    times = [step / 128 for step in range(1280)]
    limit = RateLimit(4, clock=iter(times).__next__)
    came = sum(limit.wait("a") == 0 for _ in times)
    assert came == 4 + 4 * 10 - 1  # what the tenth second's end would allow is not yet due


def test_a_client_that_waits_for_retry_after_is_accepted() -> None:
    now = 0.0
    limit = RateLimit(0.5, clock=lambda: now)
    assert limit.wait("a") == 0
    now = limit.wait("a")
    assert now == 2
    assert limit.wait("a") == 0


def test_the_number_of_stored_clients_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "MOST_CLIENTS", 2)
    limit = RateLimit(1, clock=lambda: 0.0)
    assert [limit.wait(name) for name in "aabca"] == [0, 1, 0, 0, 0]


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "with a space in it", "ünïcödé-täken-éh"])
def test_a_weak_or_malformed_token_is_rejected_without_being_shown(token: str) -> None:
    with pytest.raises(InvalidParameter, match="token must be") as found:
        checked_token(token)
    assert not token or token not in str(found.value)
