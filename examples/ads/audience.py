"""The visitors of a small shop's page. All numbers are invented for the example.

A visitor is in one of six states: new, looking at sport, home or books, at the basket, or about to
leave. The page shows one of four offers: sport, home, books, or a voucher. Each audience has, in
every state, an offer that half of its visitors click on and one that a quarter do; anything else is
clicked on by one in twelve. At the basket visitors click half as often again.

A click on sport, home or books leads there, a click on the voucher to the basket. Visitors who do
not click stay, move on, or move towards leaving. A visitor who leaves is replaced by a new one. So
an offer matters twice: for the click, and for the next state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import switchmdp as sm

STATES = ("new", "sport", "home", "books", "basket", "leaving")
OFFERS = ("sport", "home", "books", "voucher")
NEW, BASKET, LEAVING = 0, 4, 5
LEADS_TO = (1, 2, 3, BASKET)  # a click on each offer
FAVOURITE, SECOND, OTHER, AT_BASKET = 0.5, 0.25, 1 / 12, 1.5


@dataclass(frozen=True)
class Audience:
    """An audience: in each state, the favourite offer and the second favourite."""

    name: str
    favourites: tuple[str, ...]
    seconds: tuple[str, ...]

    def clicks(self) -> NDArray[np.float64]:
        """The probability of a click, by state and offer."""
        found = np.full((len(STATES), len(OFFERS)), OTHER)
        for state in range(len(STATES)):
            found[state, OFFERS.index(self.seconds[state])] = SECOND
            found[state, OFFERS.index(self.favourites[state])] = FAVOURITE
        found[BASKET] *= AT_BASKET
        return found

    def mdp(self) -> sm.MDP:
        """The audience as an MDP, whose optimal policy can be computed."""
        clicks = self.clicks()
        moves = clicks[:, :, None] * np.eye(len(STATES))[list(LEADS_TO)]
        moves += (1 - clicks)[:, :, None] * np.array(WITHOUT_CLICK)[:, None, :]
        return sm.MDP(moves, clicks)


# The next state of visitors who did not click, by state.
WITHOUT_CLICK = (
    (0.40, 0.10, 0.10, 0.10, 0.00, 0.30),
    (0.00, 0.50, 0.05, 0.05, 0.10, 0.30),
    (0.00, 0.05, 0.50, 0.05, 0.10, 0.30),
    (0.00, 0.05, 0.05, 0.50, 0.10, 0.30),
    (0.00, 0.10, 0.10, 0.10, 0.40, 0.30),
    (0.80, 0.00, 0.00, 0.00, 0.00, 0.20),
)

AUDIENCES = (
    Audience(
        "summer",
        ("sport", "sport", "sport", "voucher", "voucher", "books"),
        ("voucher", "home", "home", "sport", "sport", "sport"),
    ),
    Audience(
        "back to school",
        ("books", "voucher", "books", "books", "home", "voucher"),
        ("home", "books", "voucher", "home", "books", "books"),
    ),
    Audience(
        "a voucher campaign",
        ("voucher", "home", "voucher", "sport", "books", "sport"),
        ("books", "voucher", "sport", "voucher", "voucher", "home"),
    ),
    Audience(
        "winter",
        ("home", "books", "home", "home", "sport", "home"),
        ("sport", "sport", "books", "books", "home", "voucher"),
    ),
)
