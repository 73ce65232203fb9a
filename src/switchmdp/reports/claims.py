"""Claims against what was measured: reproduced, not reproduced, undecided or not measured.

A 95 % interval that lies wholly on one side of the border decides; one that holds it does not. Nor
does one from fewer than six problems: that n of them agree by chance alone has probability
2^(1-n), which is more than 5 % up to n = 5, however narrow the interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from switchmdp.experiments.results import Results, Setting
from switchmdp.experiments.spec import Claim
from switchmdp.reports.measures import bump_rows, bumps, difference, ratio, shared_problems
from switchmdp.reports.numbers import number, percent, with_interval
from switchmdp.reports.resampling import Interval

Outcome = Literal["reproduced", "not reproduced", "undecided", "not measured"]
FEWEST = 6


@dataclass(frozen=True)
class Verdict:
    """What became of a claim, and the numbers that say so."""

    claim: Claim
    text: str
    intervals: tuple[Interval, ...]
    outcome: Outcome


def judge_all(results: Results) -> list[Verdict]:
    """A verdict on each of the experiment's claims, in their order.

    >>> judge_all(Results("nothing", 0.1, {}))
    []
    """
    return [judge(results, claim) for claim in results.claims]


@dataclass(frozen=True)
class Sentence:
    """A sentence as it was printed, and what became of everything that was read into it."""

    quote: str
    outcome: str
    verdicts: tuple[Verdict, ...]


def by_sentence(verdicts: Sequence[Verdict]) -> list[Sentence]:
    """Verdicts on one sentence together; it is reproduced if all that it says is.

    >>> by_sentence([])
    []
    """
    together: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        together.setdefault(verdict.claim.quote, []).append(verdict)
    return [
        Sentence(quote, _overall({v.outcome for v in found}), tuple(found))
        for quote, found in together.items()
    ]


def _overall(outcomes: set[Outcome]) -> str:
    if len(outcomes) == 1:
        return next(iter(outcomes))
    if "reproduced" in outcomes:
        return "reproduced in part"
    return "not reproduced" if "not reproduced" in outcomes else "undecided"


def judge(results: Results, claim: Claim) -> Verdict:
    """The verdict on one claim.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10], {"a": [[9.0]] * 6, "b": [[10.0]] * 6})
    >>> claim = Claim(
    ...     quote="a beats b", reading="lower final regret", measure="better",
    ...     setting="s", agent="a", than="b",
    ... )
    >>> verdict = judge(Results("two agents", 0.1, {"s": setting}), claim)
    >>> verdict.outcome, verdict.text
    ('reproduced', 'difference -1.00 (-1.00 … -1.00), which is -10.0 %, on 6 problems')
    """
    missing = _missing(results, claim)
    if missing:
        return Verdict(claim, missing, (), "not measured")
    setting = results.settings[claim.setting]
    if claim.measure == "bumps":
        return _bumps(setting, claim)
    return _better(setting, claim) if claim.measure == "better" else _slightly_worse(setting, claim)


def _missing(results: Results, claim: Claim) -> str:
    """Why the claim cannot be judged on these results, if so."""
    if claim.setting not in results.settings:
        return f"there is no setting {claim.setting!r}"
    setting = results.settings[claim.setting]
    if claim.measure != "bumps" and claim.than is None:
        return "the claim does not say than which agent"
    for agent in _agents(claim):
        if agent not in setting.agents:
            return f"setting {claim.setting!r} has no agent {agent!r}"
    if shared_problems(setting, *_agents(claim)) == 0:
        return f"no problem was completed by {' and '.join(map(repr, _agents(claim)))}"
    return ""


def _agents(claim: Claim) -> tuple[str, ...]:
    compared = claim.measure != "bumps" and claim.than is not None
    return (claim.agent, str(claim.than)) if compared else (claim.agent,)


def _better(setting: Setting, claim: Claim) -> Verdict:
    than, n = str(claim.than), shared_problems(setting, *_agents(claim))
    found = difference(setting, claim.agent, than)
    relative = ratio(setting, claim.agent, than).middle - 1
    share = "" if math.isnan(relative) else f", which is {percent(relative)}"
    text = f"difference {with_interval(found)}{share}, {_on(n)}"
    return Verdict(claim, text, (found,), _outcome(found.high < 0, found.low > 0, n))


def _slightly_worse(setting: Setting, claim: Claim) -> Verdict:
    than, n = str(claim.than), shared_problems(setting, *_agents(claim))
    found, most = ratio(setting, claim.agent, than), 1 + claim.margin
    if math.isnan(found.low):
        text = f"no ratio: the mean regret of {than!r} is not clearly positive, {_on(n)}"
        return Verdict(claim, text, (found,), "undecided")
    no_worse, much_worse = found.high <= 1, found.low > most
    side = ": not worse" if no_worse else f": worse than {number(most)}" if much_worse else ""
    text = f"ratio {with_interval(found)}{side}, {_on(n)}"
    holds = found.low > 1 and found.high <= most
    return Verdict(claim, text, (found,), _outcome(holds, no_worse or much_worse, n))


def _bumps(setting: Setting, claim: Claim) -> Verdict:
    found = bumps(setting, claim.agent, claim.span)
    if not found:
        text = f"no change has {number(claim.span)} steps on either side of it"
        return Verdict(claim, text, (), "not measured")
    measured = (~np.isnan(bump_rows(setting, claim.agent, claim.span))).sum(axis=0)
    each = [
        _outcome(bump.low > 0, bump.high <= 0, int(measured[j - 1])) for j, bump in found.items()
    ]
    text = "; ".join(
        f"change {j}: {with_interval(bump)}, {_on(int(measured[j - 1]))}"
        for j, bump in found.items()
    )
    outcome: Outcome = "undecided"
    if "not reproduced" in each:
        outcome = "not reproduced"
    elif set(each) == {"reproduced"}:
        outcome = "reproduced"
    return Verdict(claim, text, tuple(found.values()), outcome)


def _outcome(holds: bool, fails: bool, n: int) -> Outcome:
    if n < FEWEST:
        return "undecided"
    return "reproduced" if holds else "not reproduced" if fails else "undecided"


def _on(n: int) -> str:
    return f"on {number(n)} problems" + (", too few to decide" if n < FEWEST else "")
