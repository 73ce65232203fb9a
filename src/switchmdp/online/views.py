"""The views for operators: the agent's policy and estimates, arms, reward over time, and pages.

`beliefs` is the content of `GET /agent`, and `explanation` that of `GET /explain`; the live page
shows both. Reading must not change anything, but an agent absorbs its log when its counts are read.
So it is copied while no event is applied, and the copy is read. Values that an agent does not have
are None: not every agent has episodes or a policy.

`_Estimates` works for every agent, and is the only place where estimates and intervals come from.
If the agent does not expose its memory, the steps that the change signal has stored are used
instead. With N remembered rewards of a pair, R their sum, M remembered visits and m of them that
led to s', the estimates are

    r̂ = R / N (1/2 if N = 0),   p̂(s') = (m + 1/S) / (M + 1).

N and M differ if a memory forgets rewards and next states separately after a change. So a pair may
have an estimate without visits, or visits without an estimate; its `note` says so.

With the gain g and the bias h of the policy in this MDP, the value of an action is its advantage
r̂ + Σ p̂(s') h(s') - g - h(s): the change in total reward if the action is taken once, and the policy
is followed afterwards. The interval of the mean reward is the agent's own confidence interval, or
else 95 % of the posterior Beta(1 + R, 1 + N - R): if the posterior probability below r̂ is p, 5p %
are cut off below and the rest of the 5 % above. So the interval contains the estimate r̂, also
where all rewards were 0 or 1.

The live page is one HTML file, assembled from the files in the folder `page`. It loads nothing
else. Its content security policy allows only that script and that style, identified by their
hashes, and requests to its own server.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import html
import inspect
import json
import math
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import Episodic
from switchmdp.agents.episodic import PARTS
from switchmdp.display import counted
from switchmdp.errors import InvalidState, MissingExtra
from switchmdp.mdp.pairs import find_pair
from switchmdp.online.decisions import Decisions
from switchmdp.online.learner import Learner
from switchmdp.online.monitoring import THRESHOLD, Signal, merged
from switchmdp.online.schemas import ROUTES, problems_of
from switchmdp.validation import check_index, check_integer, is_number

try:
    from scipy.special import betainc, betaincinv
except ImportError as error:
    raise MissingExtra("the service needs SciPy: pip install 'switchmdp[serve]'") from error

Data = dict[str, Any]


class Copied(NamedTuple):
    """Copies of the parts of a learner that later events change."""

    facts: Data
    estimates: _Estimates
    buckets: list[list[Any]]
    last_step: NDArray[np.int64]
    last_at: NDArray[np.float64]


def beliefs(decisions: Decisions, limit: int = 100) -> Data:
    """The data for `GET /agent`, ready for JSON, for the `limit` most visited states.

    Ages are relative to the last event (`at`, in seconds since 1970).

    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         data = beliefs(decisions)
    >>> data["agent"]["class"], data["agent"]["parameters"], data["memory"]
    ('SWUCRL', {'window': 100, 'delta': 0.05, 'width': 1.0}, {'window': 100, 'remembered': 0})
    """
    limit = check_integer("limit", limit, 1)
    seen: Copied = decisions.look(_copied)
    estimates, agent = seen.estimates, seen.estimates.agent
    visits = _by_pair(agent, "visits")
    weight = seen.last_step.max(axis=1) if visits is None else visits.sum(axis=1)
    shown = np.sort(np.argsort(-weight, kind="stable")[:limit])
    window = _number(getattr(getattr(agent, "memory", None), "window", None))
    remembered = None if visits is None else _visits(visits.sum())
    return seen.facts | {
        "agent": _described(agent),
        "t": _number(getattr(agent, "t", None)),
        "episode": _episode(agent),
        "gain": _number(getattr(agent, "gain", None)),
        "memory": {"window": window, "remembered": remembered},
        "rewards": buckets_of(seen.buckets),
        "source": estimates.source,
        "states": _states(seen, decisions.learner, shown.tolist()),
        "more_states": int(agent.n_states - len(shown)),
    }


def _copied(learner: Learner) -> Copied:
    latest = learner.signal.latest
    facts = {
        "at": learner.at if learner.decided or learner.counted else None,
        "mode": learner.mode,
        "fixed_policy": learner.policy,
        "counters": {
            "decided": learner.decided, "counted": learner.counted, "expired": learner.expired,
            "pending": len(learner.pending), "sessions": len(learner.sessions),
        },
        "shadow": {
            "compared": learner.shadowed, "agreed": learner.agreed,
            "agreement": learner.agreed / learner.shadowed if learner.shadowed else None,
        },
        "signal": {
            "window": learner.signal.window, "delta": learner.signal.delta,
            "threshold": THRESHOLD, "fires": learner.alarmed,
            "compared": 0 if latest is None else learner.signal.compared,
            "latest": None if latest is None else _change(latest, learner),
        },
        "alerts": [_change(alert, learner) for alert in learner.alerts],
        "restarts": restarts_of(learner),
    }  # fmt: skip
    buckets = [list(bucket) for bucket in learner.rewards.buckets]
    return Copied(
        facts, _Estimates(learner), buckets, learner.last_step.copy(), learner.last_at.copy()
    )


def _described(agent: Any) -> Data:
    """Class, sizes, components, and the parameters that can be read from them.

    Defaults of a component that the agent does not have as parameters are left out.
    """
    components = {name: getattr(agent, name) for name in PARTS if hasattr(agent, name)}
    own = inspect.signature(type(agent).__init__).parameters
    parameters = {
        name: getattr(part, name)
        for part in (agent, *components.values())
        for name, kind in inspect.signature(type(part).__init__).parameters.items()
        if is_number(getattr(part, name, None)) and not name.startswith("n_")
        if name in own or getattr(part, name) != kind.default
    }
    return {
        "class": type(agent).__name__,
        "parameters": {name: _number(value) for name, value in parameters.items()},
        "components": {name: type(part).__name__ for name, part in components.items()},
        "states": int(agent.n_states),
        "actions": int(agent.n_actions),
        "pairs": len(agent.actions),
    }


def _number(value: Any) -> int | float | None:
    """A number for JSON; None for NaN and infinities."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


def _episode(agent: Any) -> Data | None:
    number = _number(getattr(agent, "episode", None))
    return None if number is None else {"number": number, "start": _number(agent.episode_start)}


def _by_pair(agent: Any, name: str) -> NDArray[Any] | None:
    """A table over states and actions, if the agent has one. It may list available pairs only."""
    given = getattr(agent, name, None)
    if given is None:
        return None
    values, pairs = np.asarray(given), agent.pairs
    if values.shape != (pairs.n_pairs,):
        return values
    table = np.zeros((pairs.n_states, pairs.n_actions), values.dtype)
    table[pairs.states, pairs.actions] = values
    return table


def _visits(weight: Any) -> int | float:
    """A number of visits. A fading memory has fractions of visits, rounded to a tenth.

    >>> _visits(np.int64(3)), _visits(np.float64(0.123)), _visits(0.0)
    (3, 0.1, 0)
    """
    return int(weight) if weight == int(weight) else max(0.1, round(float(weight), 1))


def _states(seen: Copied, learner: Learner, shown: list[int]) -> list[Data]:
    estimates, at = seen.estimates, seen.facts["at"]
    feedback, policy = seen.facts["counters"]["counted"], estimates.policy

    def pair(s: int, a: int) -> Data:
        step = int(seen.last_step[s, a])
        return {
            "action": a, "name": learner.actions.of(a), **estimates.reward(s, a),
            "feedbacks_ago": feedback - step if step else None,
            "seconds_ago": max(0.0, at - float(seen.last_at[s, a])) if step else None,
        }  # fmt: skip

    return [
        {
            "state": s,
            "name": learner.states.of(s),
            "policy": None if policy is None else int(policy[s]),
            "actions": [pair(s, a) for a in estimates.agent.pairs.at(s)],
        }
        for s in shown
    ]


def _interval(mean: float | None, radius: float) -> tuple[float, float]:
    """The confidence interval of the mean reward; [0, 1] if there is no estimate."""
    return (0.0, 1.0) if mean is None else (max(0.0, mean - radius), min(1.0, mean + radius))


def _credible(n: float, total: float) -> tuple[float, float]:
    """The credible interval of the mean of `n` rewards with this sum. It contains their average.

    >>> [round(end, 4) for end in _credible(1, 0.0)]
    [0.0, 0.7764]
    """
    a, b = 1.0 + total, 1.0 + max(0.0, n - total)
    estimate = min(1.0, total / n) if n else 0.5
    tail = (1.0 - CREDIBLE) * float(betainc(a, b, estimate))
    return float(betaincinv(a, b, tail)), float(betaincinv(a, b, CREDIBLE + tail))


# Explanations.

MOST_SOLVED = 1500  # states up to which values are computed
MOST_SUCCESSORS = 5
CREDIBLE = 0.95
ROUNDING = 1e-9  # values that are smaller are 0
FORGOTTEN = "forgotten after a suspected change"


class _Estimates:
    """Visits, mean rewards and successors of pairs, from the agent's memory or recent steps."""

    def __init__(self, learner: Learner) -> None:
        self.agent = copy.deepcopy(learner.agent)
        self.n_states = int(self.agent.n_states)
        self.own = isinstance(self.agent, Episodic)
        self.source = "the agent's memory" if self.own else "recent feedback"
        if self.own:
            self.agent.update_memory()
            self.counts = self.agent.memory.counts
            return
        signal = learner.signal
        kept = min(signal.steps, signal.rewards.size)
        self.steps, rewards = signal.ring[:, :kept].astype(np.int64), signal.rewards[:kept]
        pairs = self.steps[0] * self.agent.n_actions + self.steps[1]
        size = self.n_states * int(self.agent.n_actions)
        self.visits = np.bincount(pairs, minlength=size)
        self.totals = np.bincount(pairs, rewards, size)

    def rewarded(self, s: int, a: int) -> tuple[float, float, float]:
        """The remembered visits, the number of remembered rewards, and the sum of the rewards."""
        if self.own:
            pair = find_pair(self.agent.starts, self.agent.actions, s, a)
            n = float(self.counts.reward_visits(pair))
            return float(self.counts.visits[pair]), n, n * float(self.counts.mean(pair))
        pair = s * int(self.agent.n_actions) + a
        return float(self.visits[pair]), float(self.visits[pair]), float(self.totals[pair])

    def reward(self, s: int, a: int) -> Data:
        """What is known about the mean reward of a pair, and where the estimate comes from."""
        visits, n, total = self.rewarded(s, a)
        radius_of = getattr(getattr(self.agent, "plausible", None), "reward_radius", None)
        mean = min(1.0, total / n) if n else None
        if self.own and radius_of is not None:  # not every set has radii
            radius = float(radius_of(int(n), self.agent.clock - self.agent.since + 1))
            (low, high), kind = _interval(mean, radius), "confidence"
        else:
            (low, high), kind = _credible(n, total), "credible"
        return {
            "visits": _visits(visits), "reward_visits": _visits(n), "estimate": mean, "low": low,
            "high": high, "interval": kind, "note": _note(_visits(visits), _visits(n)),
        }  # fmt: skip

    def successors(self, s: int, a: int) -> dict[int, float]:
        """The remembered visits that led to each successor."""
        if self.own:
            led = self.agent.transition_counts(s, a)
            return {int(k): float(v) for k, v in led.items() if v > 0}
        states, actions, nexts = self.steps
        where, led_to = np.unique(nexts[(states == s) & (actions == a)], return_counts=True)
        return dict(zip(where.tolist(), led_to.astype(float).tolist(), strict=True))

    def row(self, led: dict[int, float]) -> NDArray[np.float64]:
        """The estimated transition probabilities."""
        total, row = sum(led.values()) + 1.0, np.full(self.n_states, 1.0 / self.n_states)
        for state, n in led.items():
            row[state] += n
        return row / total

    @property
    def policy(self) -> NDArray[np.int64] | None:
        """The agent's policy; None if it has none, as before its first episode."""
        policy = getattr(self.agent, "policy", None)
        return None if policy is None or getattr(self.agent, "episode", 1) == 0 else policy

    def choices(self) -> NDArray[np.float64]:
        """The probabilities of the actions in each state; uniform if there is no policy."""
        pairs, policy = self.agent.pairs, self.policy
        table: NDArray[np.float64] = pairs.available / pairs.available.sum(axis=1, keepdims=True)
        if policy is not None:
            table = np.zeros(table.shape)
            table[np.arange(self.n_states), np.asarray(policy)] = 1.0
        return table

    def solved(self, choices: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]] | None:
        """The gain and the bias of a policy in the estimated MDP."""
        size = self.n_states
        if size > MOST_SOLVED:
            return None
        rewards, rows = np.zeros(size), np.zeros((size, size))
        for s, a in zip(*np.nonzero(choices), strict=True):
            _, n, total = self.rewarded(int(s), int(a))
            rewards[s] += choices[s, a] * (total / n if n else 0.5)
            rows[s] += choices[s, a] * self.row(self.successors(int(s), int(a)))
        system = np.eye(size) - rows
        system[:, 0] = 1.0  # the bias of state 0 is 0; this unknown is the gain
        found: NDArray[np.float64] = np.linalg.solve(system, rewards).astype(np.float64)
        gain, found[0] = float(found[0]), 0.0
        return gain, found


def _note(visits: float, rewarded: float) -> str | None:
    """Where an estimate comes from, if it is not the mean reward of the visits.

    >>> _note(3, 3)
    >>> _note(12, 0)
    'the rewards were forgotten after a suspected change; the next states are remembered'
    """
    if visits == rewarded:
        return None if visits else "no feedback is remembered, so any mean reward is possible"
    if not rewarded:
        return f"the rewards were {FORGOTTEN}; the next states are remembered"
    source = f"the estimate is from {counted(int(rewarded), 'remembered reward')}"
    if not visits:
        return f"{source}; the next states were {FORGOTTEN}"
    what = "other rewards" if rewarded < visits else "some next states"
    return f"{source}; {what} were {FORGOTTEN}"


def explanation(decisions: Decisions, state: str) -> Data:
    """What is known about every action of a state, given as its number or its name."""

    def look(learner: Learner) -> tuple[Any, ...]:
        number = learner.states.number(
            state if not state.isdecimal() or state in learner.states.numbers else int(state)
        )
        s = check_index(number, learner.agent.n_states, "state", InvalidState)
        changes = {(one.state, one.action): _change(one, learner) for one in learner.alerts}
        seen = {a: float(learner.last_at[s, a]) for a in learner.agent.pairs.at(s)
                if learner.last_step[s, a]}  # fmt: skip
        return s, _Estimates(learner), changes, seen

    s, estimates, changes, seen = decisions.look(look)
    states, actions = decisions.learner.states, decisions.learner.actions
    choices = estimates.choices()
    solved = estimates.solved(choices)

    def action(a: int) -> Data:
        known, led = estimates.reward(s, a), estimates.successors(s, a)
        row, value, mean = estimates.row(led), None, known["estimate"]
        if solved is not None:
            gain, bias = solved
            value = (0.5 if mean is None else mean) + float(row @ bias) - gain - float(bias[s])
            value = 0.0 if abs(value) < ROUNDING else value
        likely = sorted(led, key=lambda to: (-led[to], to))[:MOST_SUCCESSORS]
        return {
            "action": a, "name": actions.of(a), "chosen": bool(choices[s, a] == 1.0), **known,
            "value": value, "last_seen": seen.get(a),
            "successors": [
                {"state": to, "name": states.of(to), "probability": float(row[to])} for to in likely
            ],
            "last_change": changes.get((s, a)),
        }  # fmt: skip

    return {
        "state": s, "name": states.of(s), "source": estimates.source,
        "gain": None if solved is None else solved[0],
        "actions": [action(a) for a in estimates.agent.pairs.at(s)],
    }  # fmt: skip


def _change(change: Signal, learner: Learner) -> Data:
    """A detected change, or the strongest sign of one, for JSON."""
    states, actions, to = learner.states, learner.actions, change.next_state
    time = change.time
    return {
        "time": _time_of(change.step, learner.rewards.buckets) if time is None else time,
        "step": change.step, "what": "reward" if to is None else "next state",
        "state": change.state, "state_name": states.of(change.state),
        "action": change.action, "action_name": actions.of(change.action),
        "next_state": to, "next_state_name": None if to is None else states.of(to),
        "before": change.before, "now": change.now, "strength": change.strength,
    }  # fmt: skip


def _time_of(step: int, buckets: list[list[Any]]) -> float | None:
    """The approximate time of the feedback with this number."""
    before = 0
    for first, last, n, _ in buckets:
        if before + n >= step:
            return float(first + (last - first) * (step - before) / n)
        before += n
    return None


def buckets_of(buckets: list[list[Any]]) -> list[Data]:
    """Buckets of rewards for JSON.

    >>> buckets_of([[0.0, 5.0, 4, 1.0]])
    [{'from': 0.0, 'to': 5.0, 'n': 4, 'mean': 0.25}]
    """
    return [{"from": a, "to": b, "n": n, "mean": total / n} for a, b, n, total in buckets]


def history_of(learner: Learner, most: int) -> Data:
    """Reward over time, and detected changes."""
    buckets = learner.rewards.buckets
    return {
        "rewards": buckets_of(merged(buckets, most)),
        "changes": [_change(alert, learner) for alert in learner.alerts],
    }


def restarts_of(learner: Learner) -> list[Data]:
    """When the agent has forgotten, for JSON."""
    return [restart._asdict() for restart in learner.restarts]


def arms_of(learner: Learner) -> list[Data]:
    """The arms of a split test with their results; the first one is `main`."""
    answers, named = [], learner.actions
    for arm in learner.arms.values():
        low, high = arm.interval()
        chosen = arm.policy if named.numbers else None
        answers.append({
            "name": arm.name, "share": arm.share, "policy": arm.policy,
            "policy_names": None if chosen is None else [named.of(action) for action in chosen],
            "agent": arm.definition,
            "decisions": arm.decided, "feedback": arm.count,
            "mean_reward": arm.mean if arm.count else None, "low": low, "high": high,
        })  # fmt: skip
    return answers


# Pages.

SCRIPTS = (
    "basics.js", "connection.js", "curve.js", "policy.js", "explain.js", "models.js", "model.js",
    "page.js",
)  # fmt: skip


@cache
def page() -> str:
    """The page as text.

    >>> page()[:15]
    '<!doctype html>'
    """
    return _file("index.html").replace("/* STYLE */", _style()).replace("/* SCRIPT */", _script())


@cache
def content_security_policy() -> str:
    """The header `Content-Security-Policy` to send the page with.

    >>> content_security_policy()[:38]
    "default-src 'none'; style-src 'sha256-"
    """
    return (
        f"default-src 'none'; style-src {_hashed(_style())}; script-src {_hashed(_script())}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _style() -> str:
    return _file("page.css")


def _script() -> str:
    return '"use strict";\n' + "\n".join(_file(name) for name in SCRIPTS)


def _file(name: str) -> str:
    return resources.files("switchmdp.online").joinpath("page", name).read_text(encoding="utf-8")


def _hashed(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


EXAMPLE = """\
curl --json '{"name": "shop", "states": ["new", "regular"], "actions": ["book", "game"]}' \\
     localhost:8000/models
curl --json '{"session": "ann", "state": "new"}' localhost:8000/models/shop/decisions
curl --json '{"reward": 1, "next_state": "regular"}' \\
     localhost:8000/models/shop/decisions/ID/feedback"""
DOCS_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#8882;padding:.6em 1em;overflow:auto}"
    "code{background:#8882;padding:0 .2em}td,th{text-align:left;padding:.1em 1em .1em 0;"
    "vertical-align:top}h2{margin-top:2em;font-size:1.1rem}"
)


@cache
def page_of_routes() -> tuple[str, str]:
    """A page that lists all routes, and its content security policy. It loads nothing else."""
    parts = []
    for route in ROUTES:
        parts.append(f"<h2><code>{route.method} {html.escape(route.path)}</code></h2>")
        parts.append(f"<p>{html.escape(route.summary)}</p>")
        for title, model in (("Query", route.query), ("Body", route.body)):
            if model is not None and getattr(model, "model_fields", None):
                parts.append(_table(title, model))
        errors = ", ".join(map(str, problems_of(route)))
        parts.append(f"<p>Success: {route.status}. Problems: {errors}.</p>")
    text = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>switchmdp: routes</title><style>{DOCS_STYLE}</style><main>"
        "<h1>switchmdp: routes</h1><p>A first model (replace <code>localhost:8000</code> by the "
        "address of this service; if it requires a token, add "
        f"<code>-H 'Authorization: Bearer TOKEN'</code>):</p><pre>{html.escape(EXAMPLE)}</pre>"
        '<p>Below are all routes. <a href="openapi.json">openapi.json</a> describes them as JSON '
        f"(OpenAPI 3.1).</p>{''.join(parts)}</main></html>"
    )
    policy = f"default-src 'none'; style-src {_hashed(DOCS_STYLE)}; base-uri 'none'; "
    return text, policy + "form-action 'none'; frame-ancestors 'none'"


def _table(title: str, model: Any) -> str:
    """The fields of a request as a table."""
    rows = []
    schema = model.model_json_schema()
    for name, kind in schema.get("properties", {}).items():
        options = kind.get("anyOf", [kind])
        types = " or ".join(one.get("type", one.get("$ref", "").rpartition("/")[2] or "value")
                            for one in options if one.get("type") != "null")  # fmt: skip
        default = kind.get("default")
        given = "" if default in (None, "", {}) else f"default {json.dumps(default)}"
        needed = "required" if name in schema.get("required", ()) else given
        text = html.escape(kind.get("description", ""))
        rows.append(f"<tr><td><code>{html.escape(name)}</code><td>{types}<td>{needed}<td>{text}")
    heads = "".join(f'<th scope="col">{head}' for head in (title, "Type", "", "Meaning"))
    return f"<table><tr>{heads}{''.join(rows)}</table>"
