"""Check claims against results: reproduced, not reproduced, undecided or not measured.

A claim is decided if the 95 % interval lies entirely on one side of the threshold; otherwise it is
undecided. It is also undecided with fewer than six problems, however narrow the interval: n
problems agree by chance with probability 2^(1-n), which exceeds 5 % up to n = 5.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from switchmdp.experiments.results import Results, Setting
from switchmdp.experiments.spec import Claim
from switchmdp.reports.measures import bump_rows, bumps, difference, ratio, shared_problems
from switchmdp.reports.resampling import Interval
from switchmdp.reports.tables import Table, number, percent, with_interval

Outcome = Literal["reproduced", "not reproduced", "undecided", "not measured"]
FEWEST = 6  # problems that can decide a claim


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim, with the measured numbers."""

    claim: Claim
    text: str
    intervals: tuple[Interval, ...]
    outcome: Outcome


def judge_all(results: Results) -> list[Verdict]:
    """Return the verdicts on the experiment's claims, in order.

    >>> judge_all(Results("nothing", 0.1, {}))
    []
    """
    return [judge(results, claim) for claim in results.claims]


@dataclass(frozen=True)
class Sentence:
    """A quoted sentence with the verdicts on every claim derived from it."""

    quote: str
    outcome: str
    verdicts: tuple[Verdict, ...]


def by_sentence(verdicts: Sequence[Verdict]) -> list[Sentence]:
    """Group verdicts by quoted sentence; it is reproduced if all its claims are.

    >>> by_sentence([])
    []
    """
    together: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        together.setdefault(verdict.claim.quote, []).append(verdict)
    return [
        Sentence(quote, _overall({v.outcome for v in group}), tuple(group))
        for quote, group in together.items()
    ]


def _overall(outcomes: set[Outcome]) -> str:
    if len(outcomes) == 1:
        return next(iter(outcomes))
    if "reproduced" in outcomes:
        return "reproduced in part"
    return "not reproduced" if "not reproduced" in outcomes else "undecided"


def claims_table(verdicts: Sequence[Verdict]) -> Table:
    """Return each claim with its test, the measured numbers and the verdict.

    >>> claims_table([]).rows
    ()
    """
    columns: dict[str, Callable[[Verdict], str]] = {
        "claim": lambda verdict: verdict.claim.quote,
        "tested as": lambda verdict: verdict.claim.reading,
        "setting": lambda verdict: verdict.claim.setting,
        "measured": lambda verdict: verdict.text,
        "verdict": lambda verdict: verdict.outcome,
    }
    note = (
        "A claim is decided if the 95 % interval lies entirely on one side of the threshold; "
        "otherwise it is undecided."
    )
    return Table.of("Claims", verdicts, columns, note)


def judge(results: Results, claim: Claim) -> Verdict:
    """Return the verdict on one claim.

    >>> from switchmdp.experiments.results import as_setting
    >>> setting = as_setting([10], {"a": [[9.0]] * 6, "b": [[10.0]] * 6})
    >>> claim = Claim(
    ...     quote="a beats b", reading="lower final regret", measure="better",
    ...     setting="s", agent="a", than="b",
    ... )
    >>> verdict = judge(Results("two agents", 0.1, {"s": setting}), claim)
    >>> verdict.outcome, verdict.text
    ('reproduced', 'difference -1.00 (-1.00 … -1.00), or -10.0 %, on 6 problems')
    """
    missing = _missing(results, claim)
    if missing:
        return Verdict(claim, missing, (), "not measured")
    setting = results.settings[claim.setting]
    if claim.measure == "bumps":
        return _bumps(setting, claim)
    test = _better if claim.measure == "better" else _slightly_worse
    return test(setting, claim, str(claim.than))


def _missing(results: Results, claim: Claim) -> str:
    """Return why the claim cannot be judged on these results; empty if it can."""
    if claim.setting not in results.settings:
        return f"there is no setting {claim.setting!r}"
    setting = results.settings[claim.setting]
    agents = [claim.agent]
    if claim.measure != "bumps":
        if claim.than is None:
            return "the claim does not name the agent to compare with (key 'than')"
        agents.append(claim.than)
    for agent in agents:
        if agent not in setting.agents:
            return f"setting {claim.setting!r} has no agent {agent!r}"
    if shared_problems(setting, *agents) == 0:
        return f"no problem was completed by {' and '.join(map(repr, agents))}"
    return ""


def _better(setting: Setting, claim: Claim, than: str) -> Verdict:
    n = shared_problems(setting, claim.agent, than)
    change = difference(setting, claim.agent, than)
    relative = ratio(setting, claim.agent, than).middle - 1
    share = "" if math.isnan(relative) else f", or {percent(relative)}"
    text = f"difference {with_interval(change)}{share}, {_on(n)}"
    return Verdict(claim, text, (change,), _outcome(change.high < 0, change.low > 0, n))


def _slightly_worse(setting: Setting, claim: Claim, than: str) -> Verdict:
    n = shared_problems(setting, claim.agent, than)
    factor, most = ratio(setting, claim.agent, than), 1 + claim.margin
    if math.isnan(factor.low):
        text = f"no ratio: the mean regret of {than!r} is not clearly positive, {_on(n)}"
        return Verdict(claim, text, (factor,), "undecided")
    no_worse, much_worse = factor.high <= 1, factor.low > most
    side = ", which is not worse" if no_worse else f", above {number(most)}" if much_worse else ""
    text = f"ratio {with_interval(factor)}{side}, {_on(n)}"
    holds = factor.low > 1 and factor.high <= most
    return Verdict(claim, text, (factor,), _outcome(holds, no_worse or much_worse, n))


def _bumps(setting: Setting, claim: Claim) -> Verdict:
    by_change = bumps(setting, claim.agent, claim.span)
    if not by_change:
        text = f"no change point has {number(claim.span)} steps on both sides"
        return Verdict(claim, text, (), "not measured")
    measured = (~np.isnan(bump_rows(setting, claim.agent, claim.span))).sum(axis=0)
    outcomes: list[Outcome] = []
    by_count: dict[int, list[str]] = {}
    for j, bump in by_change.items():
        n = int(measured[j - 1])
        outcomes.append(_outcome(bump.low > 0, bump.high <= 0, n))
        by_count.setdefault(n, []).append(f"change {j}: {with_interval(bump)}")
    text = "; ".join(f"{', '.join(texts)}, {_on(n)}" for n, texts in by_count.items())
    # The worst of them: "not reproduced" before "undecided" before "reproduced".
    outcome = min(outcomes, key=("not reproduced", "undecided", "reproduced").index)
    return Verdict(claim, f"additional regret after {text}", tuple(by_change.values()), outcome)


def _outcome(holds: bool, fails: bool, n: int) -> Outcome:
    if n < FEWEST:
        return "undecided"
    return "reproduced" if holds else "not reproduced" if fails else "undecided"


def _on(n: int) -> str:
    return f"on {number(n)} problems" + (", too few to decide" if n < FEWEST else "")
