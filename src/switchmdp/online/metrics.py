"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import math
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from switchmdp.memory import Window
from switchmdp.online.decisions import Decisions
from switchmdp.online.learner import Learner

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
        """Count feedback: counted, duplicate or rejected."""
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
    memory, found = getattr(agent, "memory", None), []
    if isinstance(memory, Window):
        fill = min(1.0, (memory.size + agent.logged) / memory.window)
        found = [
            ("window_steps", "gauge", "The agent's window.", float(memory.window)),
            ("window_fill", "gauge", "Share of the window that is filled.", fill),
        ]
    return [
        *found,
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
