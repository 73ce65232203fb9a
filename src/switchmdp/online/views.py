"""What operators see: the agent's policy and estimates, the live page, and metrics.

`beliefs` is the content of `GET /agent` and of the live page. Reading must not change anything, but
an agent absorbs its log when its counts are read. So it is copied while no event is applied, and
the copy is read. Values that an agent does not have are None: not every agent has episodes, a
policy or estimates.

The live page is one HTML file, assembled from the files in the folder `page`. It loads nothing
else. Its content security policy allows only that script and that style, identified by their
hashes, and requests to its own server.

Metrics are in the text format of Prometheus.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import inspect
import math
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import Episodic
from switchmdp.agents.episodic import PARTS
from switchmdp.mdp.pairs import find_pair
from switchmdp.memory import Window
from switchmdp.online.decisions import Decisions
from switchmdp.online.learner import Learner
from switchmdp.online.monitoring import THRESHOLD, Signal
from switchmdp.validation import check_integer, is_number

Data = dict[str, Any]


class Copied(NamedTuple):
    """Copies of the parts of a learner that later events change."""

    facts: Data
    agent: Any
    buckets: list[tuple[float, float, int, float]]
    last_step: NDArray[np.int64]
    last_at: NDArray[np.float64]


def beliefs(decisions: Decisions, limit: int = 100) -> Data:
    """The data, ready for JSON; at most `limit` states, the most visited ones.

    Ages are relative to the last event (`at`, in seconds since 1970).

    >>> import tempfile
    >>> from switchmdp.agents import SWUCRL
    >>> with tempfile.TemporaryDirectory() as place:
    ...     with Decisions(SWUCRL(2, 2, window=100), place) as decisions:
    ...         data = beliefs(decisions)
    >>> data["agent"]["class"], data["agent"]["parameters"], data["memory"]
    ('SWUCRL', {'window': 100, 'delta': 0.05}, {'window': 100, 'remembered': 0})
    """
    limit = check_integer("limit", limit, 1)
    seen: Copied = decisions.look(_copied)
    agent, last_step = seen.agent, seen.last_step
    if isinstance(agent, Episodic) and agent.logged:
        agent.update_memory()
    visits = _by_pair(agent, "visits")
    weight = last_step.max(axis=1) if visits is None else visits.sum(axis=1)
    shown = np.sort(np.argsort(-weight, kind="stable")[:limit])
    window = _number(getattr(getattr(agent, "memory", None), "window", None))
    remembered = None if visits is None else _visits(visits.sum())
    return seen.facts | {
        "agent": _described(agent),
        "t": _number(getattr(agent, "t", None)),
        "episode": _episode(agent),
        "gain": _number(getattr(agent, "gain", None)),
        "memory": {"window": window, "remembered": remembered},
        "rewards": [{"from": a, "to": b, "n": n, "mean": s / n} for a, b, n, s in seen.buckets],
        "states": _states(seen, shown.tolist(), visits),
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
            "latest": None if latest is None else _signal(latest),
        },
        "alerts": [_signal(alert) for alert in learner.alerts],
    }  # fmt: skip
    buckets = [(a, b, n, total) for a, b, n, total in learner.rewards.buckets]
    agent = copy.deepcopy(learner.agent)
    return Copied(facts, agent, buckets, learner.last_step.copy(), learner.last_at.copy())


def _signal(signal: Signal) -> Data:
    what = "reward" if signal.next_state is None else "next state"
    return asdict(signal) | {"what": what}


def _described(agent: Any) -> Data:
    """Class, sizes, components, and the parameters that can be read from them."""
    components = {name: getattr(agent, name) for name in PARTS if hasattr(agent, name)}
    parameters = {
        name: getattr(part, name)
        for part in (agent, *components.values())
        for name in inspect.signature(type(part).__init__).parameters
        if is_number(getattr(part, name, None)) and not name.startswith("n_")
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


def _states(seen: Copied, shown: list[int], visits: NDArray[Any] | None) -> list[Data]:
    agent = seen.agent
    # Before its first episode an agent has no policy.
    policy = None if getattr(agent, "episode", None) == 0 else getattr(agent, "policy", None)
    reward_of = _rewards(agent)
    counted, at = seen.facts["counters"]["counted"], seen.facts["at"]

    def pair(s: int, a: int) -> Data:
        n = None if visits is None else _visits(visits[s, a])
        mean, radius = reward_of(s, a)
        mean = None if n == 0 else mean
        low, high = (None, None) if radius is None else _interval(mean, radius)
        step = int(seen.last_step[s, a])
        return {
            "action": a, "visits": n, "estimate": mean, "low": low, "high": high,
            "feedbacks_ago": counted - step if step else None,
            "seconds_ago": max(0.0, at - float(seen.last_at[s, a])) if step else None,
        }  # fmt: skip

    pairs = agent.pairs
    return [
        {
            "state": s,
            "policy": None if policy is None else int(policy[s]),
            "actions": [pair(s, a) for a in pairs.at(s)],
        }
        for s in shown
    ]


def _rewards(agent: Any) -> Callable[[int, int], tuple[float | None, float | None]]:
    """The estimated mean reward and its radius; None if the agent has none."""
    if isinstance(agent, Episodic):
        # The agent's own tables contain all pairs, which is slow for large problems.
        counts, t = agent.memory.counts, agent.clock - agent.since + 1
        radius_of = getattr(agent.plausible, "reward_radius", None)  # not every set has radii

        def reward_and_radius(s: int, a: int) -> tuple[float | None, float | None]:
            pair = find_pair(agent.starts, agent.actions, s, a)
            n = int(counts.visits[pair])
            return _number(counts.mean(pair)), None if radius_of is None else radius_of(n, t)

        return reward_and_radius
    estimates, radii = _by_pair(agent, "reward_estimates"), _by_pair(agent, "reward_radii")
    return lambda s, a: (
        None if estimates is None else _number(estimates[s, a]),
        None if radii is None else _number(radii[s, a]),
    )


def _interval(mean: float | None, radius: float) -> tuple[float, float]:
    """The confidence interval of the mean reward; [0, 1] if there is no estimate."""
    return (0.0, 1.0) if mean is None else (max(0.0, mean - radius), min(1.0, mean + radius))


SCRIPTS = ("basics.js", "curve.js", "policy.js", "page.js")


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


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0, math.inf)
Sample = tuple[Mapping[str, str], float]


class Metrics:
    """Counters of the running service; the other metrics are read from the decisions."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._feedback: Counter[tuple[str, str]] = Counter()

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests[route, status] += 1
        self._buckets.setdefault(route, [0] * len(BUCKETS))[bisect_left(BUCKETS, seconds)] += 1
        self._seconds[route] += seconds

    def feedback(self, outcome: str, reason: str = "") -> None:
        """Count feedback: counted, duplicate or refused."""
        self._feedback[outcome, reason] += 1

    def text(self, decisions: Decisions, log_failed: bool) -> str:
        """All metrics.

        >>> print(family("switchmdp_x", "gauge", "Some x.", [({"a": "b"}, 1.5)]), end="")
        # HELP switchmdp_x Some x.
        # TYPE switchmdp_x gauge
        switchmdp_x{a="b"} 1.5
        """
        learned: list[tuple[str, str, str, float]] = decisions.look(_of_the_learner)
        gauges = [*learned, *_of_the_log(decisions, log_failed)]
        return self._of_requests() + "".join(
            family(f"switchmdp_{name}", kind, text, [({}, value)])
            for name, kind, text, value in gauges
        )

    def _of_requests(self) -> str:
        requests = [
            ({"route": r, "status": str(s)}, n) for (r, s), n in list(self._requests.items())
        ]
        feedback = [({"outcome": o, "reason": r}, n) for (o, r), n in list(self._feedback.items())]
        return (
            family("switchmdp_requests_total", "counter", "Requests answered.", requests)
            + family("switchmdp_request_seconds", "histogram", "Time to answer.", self._times())
            + family("switchmdp_feedback_total", "counter", "Feedback, by outcome.", feedback)
        )

    def _times(self) -> Iterable[Sample]:
        for route, buckets in list(self._buckets.items()):
            total = 0
            for edge, n in zip(BUCKETS, buckets, strict=True):
                total += n
                yield {"": "_bucket", "route": route, "le": shown(edge)}, total
            yield {"": "_sum", "route": route}, self._seconds[route]
            yield {"": "_count", "route": route}, total


def _of_the_learner(learner: Learner) -> list[tuple[str, str, str, float]]:
    agent, latest = learner.agent, learner.signal.latest
    memory, window = getattr(agent, "memory", None), []
    if isinstance(memory, Window):
        fill = min(1.0, (memory.size + agent.logged) / memory.window)
        window = [
            ("window_steps", "gauge", "The agent's window.", float(memory.window)),
            ("window_fill", "gauge", "Share of the window that is filled.", fill),
        ]
    return [
        *window,
        ("decisions_total", "counter", "Decisions made.", learner.decided),
        ("feedback_learned_total", "counter", "Steps learned from.", learner.counted),
        ("decisions_expired_total", "counter", "Decisions without feedback.", learner.expired),
        ("decisions_pending", "gauge", "Decisions that wait for feedback.", len(learner.pending)),
        ("sessions", "gauge", "Sessions whose state is known.", len(learner.sessions)),
        ("states", "gauge", "States.", agent.n_states),
        ("actions", "gauge", "Actions.", agent.n_actions),
        ("episodes_total", "counter", "Episodes.",
         getattr(agent, "episode_count", 0)),
        ("signal_strength", "gauge", "The change signal; it fires at 1.",
         0.0 if latest is None else latest.strength),
        ("alarmed", "gauge", "1 while the change signal fires.", learner.alarmed),
        ("alerts", "gauge", "Stored alerts, at most 100.", len(learner.alerts)),
    ]  # fmt: skip


def _of_the_log(decisions: Decisions, failed: bool) -> list[tuple[str, str, str, float]]:
    return [
        ("log_records_total", "counter", "Events in the database.", decisions.records),
        ("log_failed", "gauge", "1 while the database cannot be written.", failed),
        ("snapshot_age_seconds", "gauge", "Age of the newest snapshot.",
         max(0.0, time.time() - decisions.snapshot_time)),
        ("snapshot_failed", "gauge", "1 if the last snapshot could not be written.",
         decisions.snapshot_failure is not None),
    ]  # fmt: skip


def family(name: str, kind: str, text: str, samples: Iterable[Sample]) -> str:
    """One metric and its samples. A label with an empty name is a suffix of the metric's name."""
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inner = ",".join(f'{key}="{label}"' for key, label in labels.items() if key)
        labelled = f"{{{inner}}}" if inner else ""
        lines.append(f"{name}{labels.get('', '')}{labelled} {shown(value)}")
    return "\n".join(lines) + "\n"


def shown(value: float) -> str:
    """A number in the format of Prometheus.

    >>> shown(3), shown(0.5), shown(math.inf), shown(math.nan), shown(True)
    ('3', '0.5', '+Inf', 'NaN', '1')
    """
    if value != value:
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value)) if isinstance(value, float) else str(int(value))
