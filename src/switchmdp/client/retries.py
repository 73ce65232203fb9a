"""When a call is sent again, and after how many seconds.

A failure may leave open whether the service has executed the call. So calls are of two kinds:

- *repeatable* calls have the same effect whether they are executed once or twice: reading, feedback
  (it names its decision), and calls with an `Idempotency-Key` that all tries share (decisions, new
  states and actions). They are retried after every failure of the connection and after 429, 502,
  503 and 504.
- the other calls (creating and deleting models, restarting) are retried only if the service refused
  them (429, 503) or the connection could not be opened.

The n-th pause is drawn at random between 0 and min(longest, first · 2^(n-1)) seconds ("full
jitter"), so that clients that failed together do not come back together. It is at least the
`Retry-After` of the service. If that exceeds the longest pause, the call fails at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

REFUSED = frozenset({429, 503})
UNCERTAIN = frozenset({502, 504})  # of a proxy: the service may have executed the call


@dataclass(frozen=True)
class Retries:
    """How often calls are retried, and how long the pauses are.

    Parameters
    ----------
    most
        The number of retries after the first try.
    first, longest
        The upper limits of the first pause and of all pauses, in seconds.
    draw
        A function that draws a number between two limits.
    """

    most: int = 5
    first: float = 0.1
    longest: float = 10.0
    draw: Callable[[float, float], float] = random.uniform

    def pause(self, tries: int, retry_after: float | None = None) -> float | None:
        """The seconds to wait before the next try.

        Parameters
        ----------
        tries
            The number of tries so far.
        retry_after
            The seconds that the service has asked to wait.

        Returns
        -------
        float | None
            The seconds; None to give up.

        Examples
        --------
        >>> patient = Retries(most=2, draw=max)
        >>> [patient.pause(tries) for tries in (1, 2, 3)]
        [0.1, 0.2, None]
        >>> patient.pause(1, retry_after=3.0), patient.pause(1, retry_after=60.0)
        (3.0, None)
        """
        if tries > self.most or (retry_after or 0) > self.longest:
            return None
        limit = min(self.longest, self.first * 2.0 ** min(tries - 1, 60))
        return max(self.draw(0.0, limit), retry_after or 0.0)


def is_retried(status: int, *, repeatable: bool) -> bool:
    """Whether a call is retried after this status."""
    return status in REFUSED or (repeatable and status in UNCERTAIN)


def seconds_to_wait(header: str | None) -> float | None:
    """The value of a `Retry-After` header: seconds, or a date; None if it is neither.

    >>> seconds_to_wait("3"), seconds_to_wait("soon"), seconds_to_wait(None)
    (3.0, None, None)
    >>> seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT")
    0.0
    """
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None
