"""Tables of the measurements of an experiment, and verdicts on its claims.

Regret means final regret; lower is better. A number in parentheses is a 95 % bootstrap interval
over problems; – means unknown.

A claim is reproduced, not reproduced, undecided or not measured. It is decided if the 95 % interval
lies entirely on one side of the threshold; otherwise it is undecided. It is also undecided with
fewer than six problems, however narrow the interval: n problems agree by chance with probability
2^(1-n), which exceeds 5 % up to n = 5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from switchmdp.display import shortened
from switchmdp.experiments.results import Results, Setting
from switchmdp.experiments.spec import Claim
from switchmdp.reports import measures
from switchmdp.reports.measures import bump_rows, bumps, difference, ratio, shared_problems
from switchmdp.reports.page import UNKNOWN, Table, count, number, percent, with_interval
from switchmdp.reports.resampling import Interval

MOST_PAIRED = 10  # agents; with more, each agent is only compared with the best
Outcome = Literal["reproduced", "not reproduced", "undecided", "not measured"]
FEWEST = 6  # the smallest number of problems that can decide a claim


# Tables of an experiment -------------------------------------------------------------------------


def setting_tables(setting: Setting, epsilon: float) -> list[Table]:
    """Return all tables of one setting."""
    by_segment = [segment_table(setting), adaptation_table(setting, epsilon)]
    return [summary_table(setting), paired_table(setting), *by_segment]


def summary_table(setting: Setting) -> Table:
    """The main measures of each agent, in order of mean final regret.

    Parameters
    ----------
    setting
        The runs of one family of problems.

    Returns
    -------
    Table
        One row per agent.

    Examples
    --------
    >>> summary_table(measures.as_setting([10], {"a": [[2]], "b": [[1]]})).rows[0][:3]
    ('b', '1.00', '1.00')
    """
    reference, agents = next(iter(setting.agents), ""), list(setting.agents)
    means = dict(zip(agents, measures.final_regret_of(setting, agents), strict=True))
    pairs = [(agent, reference) for agent in agents]
    better = dict(zip(agents, measures.probabilities_of_improvement(setting, pairs), strict=True))

    def quantile(share: float) -> Callable[[str], str]:
        return lambda agent: number(measures.final_quantiles(setting, agent, [share])[0])

    def cost(name: str) -> Callable[[str], str]:
        return lambda agent: number(measures.mean_cost(setting, agent, name))

    def better_than_reference(agent: str) -> str:
        return UNKNOWN if agent == reference else percent(better[agent].middle)

    columns: dict[str, Callable[[str], str]] = {
        "agent": str,
        "mean regret": lambda agent: with_interval(means[agent]),
        "interquartile mean": lambda agent: with_interval(measures.final_iqm(setting, agent)),
        "median": quantile(0.5),
        "5 %": quantile(0.05),
        "95 %": quantile(0.95),
        f"better than {reference}": better_than_reference,
        "episodes": cost("episodes"),
        "sweeps": cost("sweeps"),
        "ε-bad steps": cost("bad_steps"),
        "seconds per million steps": lambda agent: number(
            measures.seconds_per_million_steps(setting, agent)
        ),
        "failed": lambda agent: number(int(setting.agents[agent].failed.sum())),
    }
    unfinished = {agent: measures.unfinished_runs(setting.agents[agent]) for agent in agents}
    if any(unfinished.values()):
        columns["unfinished"] = lambda agent: number(unfinished[agent])
    note = (
        f"Regret {_after(setting)}, with 95 % bootstrap intervals over problems. “Better than” is "
        "the share of problems with lower regret. Episodes, sweeps of extended value iteration, "
        f"ε-bad steps and seconds are means over problems; “failed” counts runs."
    )
    note = " ".join(filter(None, [note, _partial(setting), _few(setting), late_changes(setting)]))
    return Table.of(f"{setting.name}: final regret", ranked_agents(setting), columns, note)


def short_table(setting: Setting) -> Table:
    """Return mean regret per agent, with counts of failed and unfinished runs if there are any."""
    counts = {
        "failed": {name: int(runs.failed.sum()) for name, runs in setting.agents.items()},
        "unfinished": {name: measures.unfinished_runs(r) for name, r in setting.agents.items()},
    }
    shown = {name: column for name, column in counts.items() if any(column.values())}
    ranked = ranked_agents(setting)
    rows = tuple(
        (agent, with_interval(mean), *(number(column[agent]) for column in shown.values()))
        for agent, mean in zip(ranked, measures.final_regret_of(setting, ranked), strict=True)
    )
    columns = ("agent", "mean (95 % interval)", *shown)
    note = " ".join(filter(None, [_partial(setting), _few(setting), late_changes(setting)]))
    return Table(f"{setting.name}: regret {_after(setting)}", columns, rows, note)


def _partial(setting: Setting) -> str:
    """A warning about runs that are still to be done."""
    left = sum(map(measures.unfinished_runs, setting.agents.values()))
    if not left:
        return ""
    total = setting.n_problems * len(setting.agents)
    return (
        f"Not complete: {number(left)} of {number(total)} runs are unfinished, so means may be "
        "over different problems."
    )


def _few(setting: Setting) -> str:
    """A warning about intervals over few problems."""
    if setting.n_problems == 1:
        return "One run of each agent gives no interval; increase n_problems."
    finished = [int(np.isfinite(runs.regret[:, -1]).sum()) for runs in setting.agents.values()]
    fewest = min((n for n in finished if n), default=FEWEST)  # of those with a mean
    unit = "runs" if setting.one_problem else "problems"
    few = fewest < FEWEST
    return f"Intervals over fewer than {FEWEST} {unit} tend to be too narrow." if few else ""


def late_changes(setting: Setting) -> str:
    """A note if the problems have change points, but all of them come too late for the runs.

    >>> late_changes(measures.as_setting([10, 20], {"a": [[1, 5]]}, change_points=[50]))
    'Nothing changes in these runs of 20 steps: the first change point is step 50.'
    >>> late_changes(measures.as_setting([10, 20], {"a": [[1, 5]]}, change_points=[20]))
    'Nothing changes before the last step, 20.'
    """
    first = min((int(points[0]) for points in setting.change_points if len(points)), default=0)
    if first == setting.horizon:
        return f"Nothing changes before the last step, {number(first)}."
    if first < setting.horizon:
        return ""
    runs = f"these runs of {count(setting.horizon, 'step')}"
    return f"Nothing changes in {runs}: the first change point is step {number(first)}."


def sample(setting: Setting) -> str:
    """The sample over which the means and intervals of a setting are taken.

    >>> sample(measures.as_setting([10], {"a": [[2], [4]]}))
    '2 problems'
    """
    if setting.one_problem:
        return f"{count(setting.n_problems, 'run')} on one problem"
    return count(setting.n_problems, "problem")


def _after(setting: Setting) -> str:
    where = "in" if setting.one_problem else "on"
    return f"after {number(setting.horizon)} steps {where} {sample(setting)}"


def paired_table(setting: Setting) -> Table:
    """Compare agents pairwise on the same problems; the better agent comes first.

    >>> paired_table(measures.as_setting([10], {"a": [[2]], "b": [[1]]})).rows[0][:4]
    ('b', 'a', '-1.00', '0.500')
    """
    ranked = ranked_agents(setting)
    all_pairs = len(ranked) <= MOST_PAIRED
    pairs = (
        list(itertools.combinations(ranked, 2))
        if all_pairs
        else [(ranked[0], b) for b in ranked[1:]]
    )

    def measured(
        measure: Callable[[Setting, list[tuple[str, str]]], list[Interval]],
    ) -> Callable[[tuple[str, str]], str]:
        found = dict(zip(pairs, measure(setting, pairs), strict=True))
        return lambda pair: with_interval(found[pair])

    columns: dict[str, Callable[[tuple[str, str]], str]] = {
        "agent": lambda pair: pair[0],
        "compared with": lambda pair: pair[1],
        "difference": measured(measures.differences),
        "ratio": measured(measures.ratios),
        "P(lower regret)": measured(measures.probabilities_of_improvement),
        "problems": lambda pair: number(measures.shared_problems(setting, *pair)),
    }
    note = (
        "Mean final regret of the first agent minus, and divided by, that of the second, and the "
        "probability that the first has lower regret; with 95 % intervals."
    )
    if not all_pairs:
        note += f" With more than {MOST_PAIRED} agents, each is compared with the best only."
    return Table.of(f"{setting.name}: paired comparisons", pairs, columns, note)


def segment_table(setting: Setting) -> Table:
    """Return each agent's mean regret within each segment.

    >>> setting = measures.as_setting([10, 20], {"a": [[1, 5]]}, change_points=[11])
    >>> segment_table(setting).rows
    (('0', '1 … 10', '1', '1.00'), ('1', '11 … 20', '1', '4.00'))
    """
    note = "Mean regret within each segment. Segment 0 ends at the first change."

    def cells(agent: str) -> list[str]:
        return [with_interval(mean) for mean in measures.segment_regret(setting, agent)]

    return _by_segment(setting, "regret by segment", note, cells)


def adaptation_table(setting: Setting, epsilon: float) -> Table:
    """Return each agent's median number of steps from a change until it has adapted.

    >>> setting = measures.as_setting([1000, 2000], {"a": [[300, 310], [0, 999]]})
    >>> adaptation_table(setting, 0.1).rows
    (('0', '1 … 2 000', '2', '∞ (50.0 % never)'),)
    """
    note = (
        "Median number of steps from the start of the segment until the mean pseudo-regret of 1000 "
        f"steps stays at most ε = {number(epsilon)} for the rest of the segment. In parentheses: "
        "the share of problems on which this never happens."
    )

    def cells(agent: str) -> list[str]:
        return [
            UNKNOWN
            if math.isnan(each.median)
            else f"{number(each.median)} ({percent(each.never)} never)"
            for each in measures.adaptation_by_segment(setting, agent, epsilon)
        ]

    return _by_segment(setting, "steps to adapt", note, cells)


def overview_table(results: Results) -> Table:
    """Return the mean final regret of every agent in every setting.

    >>> setting = measures.as_setting([10], {"a": [[2]], "b": [[1]]})
    >>> overview_table(Results("", 0.1, {"s": setting})).rows
    (('a', '2.00'), ('b', '1.00*'))
    """
    columns = []
    for setting in results.settings.values():
        means = {a: measures.mean_final_regret(setting, a) for a in setting.agents}
        columns.append(starred([means.get(agent, math.nan) for agent in results.agents]))
    rows = tuple(zip(results.agents, *columns, strict=True))
    note = "Mean final regret over problems; * marks the lowest in each setting."
    return Table("Overview", ("agent", *results.settings), rows, note)


def hardness_table(results: Results) -> Table:
    """Return quantiles of each hardness measure over the problems of each setting.

    >>> hardness_table(Results("nothing", 0.1, {})).rows
    ()
    """
    rows = []
    for setting in results.settings.values():
        for name, values in setting.hardness.items():
            known = np.sort(values[~np.isnan(values)])
            if len(known) == 0:
                continue
            # Do not interpolate: a diameter may be infinite.
            ranks = [max(0, math.ceil(q * len(known)) - 1) for q in measures.QUANTILES]
            quantiles = [number(float(known[rank])) for rank in ranks]
            rows.append((setting.name, name.replace("_", " "), number(len(known)), *quantiles))
    columns = ("setting", "hardness", "problems", *(f"{q:.0%}" for q in measures.QUANTILES))
    note = "Quantiles over the problems of a setting, without interpolation."
    return Table("Hardness of the problems", columns, tuple(rows), note)


def ranked_agents(setting: Setting) -> list[str]:
    """Sort the agents by mean final regret; agents without a completed run come last."""
    means = {agent: measures.mean_final_regret(setting, agent) for agent in setting.agents}
    return sorted(means, key=lambda agent: (math.isnan(means[agent]), means[agent]))


def starred(values: Sequence[float], eligible: Sequence[bool] | None = None) -> list[str]:
    """Format numbers, with a star at the lowest among the eligible ones."""
    eligible = eligible or [True] * len(values)
    candidates = [v for v, allowed in zip(values, eligible, strict=True) if allowed and v == v]
    lowest = min(candidates, default=math.nan)
    return [
        number(value) + "*" * (allowed and value == lowest)
        for value, allowed in zip(values, eligible, strict=True)
    ]


def _by_segment(
    setting: Setting, title: str, note: str, cells: Callable[[str], list[str]]
) -> Table:
    """Return a table with a row per segment and a column per agent."""
    agents = ranked_agents(setting)
    columns = [cells(agent) for agent in agents]
    rows = []
    for j, (start, end) in enumerate(itertools.pairwise(measures.segment_boundaries(setting).T)):
        present = ~np.isnan(end)
        spans = {(int(a) + 1, int(b)) for a, b in zip(start[present], end[present], strict=True)}
        first, last = min(spans)
        span = f"{number(first)} … {number(last)}" if len(spans) == 1 else "vary"
        rows.append((str(j), span, number(int(present.sum())), *(column[j] for column in columns)))
    if len(rows) == measures.MOST_SEGMENTS:
        note += f" Only the first {measures.MOST_SEGMENTS} segments are shown."
    names = ("segment", "steps", "problems", *agents)
    return Table(f"{setting.name}: {title}", names, tuple(rows), note)


# Claims ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """The outcome of one claim, with the measured numbers.

    Parameters
    ----------
    claim
        The claim.
    text
        What was measured.
    intervals
        The measured numbers.
    outcome
        Whether the claim is reproduced, not reproduced, undecided or not measured.
    """

    claim: Claim
    text: str
    intervals: tuple[Interval, ...]
    outcome: Outcome

    def __repr__(self) -> str:
        return f"Verdict({self.outcome}: {shortened(self.claim.reading, 100)})"


def judge_all(results: Results) -> list[Verdict]:
    """The verdicts on the claims of an experiment.

    Parameters
    ----------
    results
        The results of an experiment.

    Returns
    -------
    list[Verdict]
        The verdicts, in the order of the claims.

    Examples
    --------
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
    ('reproduced', 'difference -1.00, or -10.0 %, on 6 problems')
    """
    missing = _missing(results, claim)
    if missing:
        return Verdict(claim, missing, (), "not measured")
    setting = results.settings[claim.setting]
    if claim.measure == "bumps":
        return _bumps(setting, claim)
    tests = {"better": _better, "slightly-worse": _slightly_worse, "close": _close}
    return tests[claim.measure](setting, claim, str(claim.than))


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
    no_worse, limit = ", which is not worse", 1 + claim.margin
    return _within(setting, claim, than, (1.0, limit), (no_worse, f", above {number(limit)}"))


def _close(setting: Setting, claim: Claim, than: str) -> Verdict:
    low, high = 1 - claim.margin, 1 + claim.margin
    sides = (f", below {number(low)}", f", above {number(high)}")
    return _within(setting, claim, than, (low, high), sides)


def _within(
    setting: Setting, claim: Claim, than: str, limits: tuple[float, float], sides: tuple[str, str]
) -> Verdict:
    """Whether the ratio of mean regrets is above the first limit and at most the second.

    `sides` are the words for a ratio that is clearly too low, or too high.
    """
    n = shared_problems(setting, claim.agent, than)
    factor = ratio(setting, claim.agent, than)
    if math.isnan(factor.low):
        text = f"no ratio: the mean regret of {than!r} is not clearly positive, {_on(n)}"
        return Verdict(claim, text, (factor,), "undecided")
    too_low, too_high = factor.high <= limits[0], factor.low > limits[1]
    side = sides[0] if too_low else sides[1] if too_high else ""
    text = f"ratio {with_interval(factor)}{side}, {_on(n)}"
    holds = factor.low > limits[0] and factor.high <= limits[1]
    return Verdict(claim, text, (factor,), _outcome(holds, too_low or too_high, n))


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
    problems = "1 problem" if n == 1 else f"{number(n)} problems"
    return f"on {problems}" + (", too few to decide" if n < FEWEST else "")
