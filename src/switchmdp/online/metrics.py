"""Metrics for Prometheus.

Requests are counted when they are answered. The metrics of models are read from the models in
memory when `/metrics` is requested. Totals are part of the learner, so they survive a restart. A
model that is evicted disappears from the metrics, and reappears later with the same totals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from switchmdp.errors import MissingExtra

try:
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        disable_created_metrics,
    )
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MissingExtra("metrics need prometheus-client: pip install 'switchmdp[serve]'") from error

from switchmdp.online.arms import DECISIONS, FEEDBACK, REWARD
from switchmdp.online.learner import Learner
from switchmdp.online.models import Models

disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no types
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """The metrics of a running service."""

    def __init__(self, models: Models) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_OfModels(models))
        self._requests = Counter(
            "switchmdp_requests", "Requests answered.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "switchmdp_request_seconds", "Time to answer.", ["route"], buckets=BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        self._outcomes = Counter(
            "switchmdp_feedback_requests", "Feedback, by outcome.", ["outcome", "reason"],
            registry=self._registry,
        )  # fmt: skip
        self._commits = Histogram(
            "switchmdp_commit_seconds", "Time of a transaction.", buckets=BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        self._failed = Gauge(
            "switchmdp_database_failed", "1 while the database cannot be written.",
            registry=self._registry,
        )  # fmt: skip
        self._children: dict[tuple[Any, ...], Any] = {}  # `labels` is slow
        models.writer.committed = self._commits.observe

    def _child(self, metric: Any, *labels: str) -> Any:
        key = (metric, *labels)
        if key not in self._children:
            self._children[key] = metric.labels(*labels)
        return self._children[key]

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._child(self._requests, route, str(status)).inc()
        self._child(self._seconds, route).observe(seconds)

    def feedback(self, outcome: str, reason: str = "") -> None:
        """Count feedback: counted, duplicate or refused."""
        self._child(self._outcomes, outcome, reason).inc()

    def text(self, failed: bool) -> tuple[bytes, str]:
        """All metrics, and their content type."""
        self._failed.set(failed)
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


Value = Callable[[Learner], float]
OF_MODELS: tuple[tuple[str, Any, str, Value], ...] = (
    ("pending_decisions", GaugeMetricFamily, "Decisions that wait for feedback.",
     lambda learner: len(learner.pending)),
    ("expired_decisions", CounterMetricFamily, "Decisions that expired without feedback.",
     lambda learner: learner.expired),
    ("plans", CounterMetricFamily, "Plans of the agent.",
     lambda learner: getattr(learner.agent, "episode_count", 0)),
    ("detected_changes", CounterMetricFamily, "Changes that the signal has detected.",
     lambda learner: learner.changes),
    ("change_signal", GaugeMetricFamily, "The change signal; it fires at 1.",
     lambda learner: 0.0 if learner.signal.latest is None else learner.signal.latest.strength),
    ("sessions", GaugeMetricFamily, "Sessions whose state is known.",
     lambda learner: len(learner.sessions)),
)  # fmt: skip
OF_ARMS = (
    ("decisions", "Decisions made.", DECISIONS),
    ("feedback", "Feedback that was counted.", FEEDBACK),
    ("reward", "Sum of the rewards.", REWARD),
)


class _OfModels(Collector):
    """Reads the models in memory."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        """All metrics of models."""
        models = self._models
        loaded = models.loaded()
        yield GaugeMetricFamily("switchmdp_models_loaded", "Models in memory.", len(loaded))
        yield GaugeMetricFamily("switchmdp_models_bytes", "Memory of these models.", models.size)
        yield CounterMetricFamily(
            "switchmdp_lease_changes", "Models loaded, evicted or taken over.", models.lease_changes
        )
        seen = {name: decisions.look(_read) for name, decisions in loaded.items()}
        for index, (name, kind, text, _) in enumerate(OF_MODELS):
            family = kind(f"switchmdp_{name}", text, labels=["model"])
            for model, (values, *_) in seen.items():
                family.add_metric([model], values[index])
            yield family
        for index, (name, text) in enumerate(OF_MEANS):
            gauge = GaugeMetricFamily(f"switchmdp_{name}", text, labels=["model", "arm"])
            for model, (_, means, _) in seen.items():
                for arm, values in means.items():
                    gauge.add_metric([model, arm], values[index])
            yield gauge
        for name, text, column in OF_ARMS:
            totals = CounterMetricFamily(
                f"switchmdp_{name}", text, labels=["model", "arm", "action"]
            )
            for model, (*_, arms) in seen.items():
                for labels, row in _labelled(model, arms):
                    totals.add_metric(labels, row[column])
            yield totals


OF_MEANS = (
    ("mean_reward", "Mean reward of an arm, in a split test since its start."),
    ("mean_reward_low", "Lower end of its 95 % confidence sequence, valid at every time."),
    ("mean_reward_high", "Upper end of its 95 % confidence sequence, valid at every time."),
)


def _read(
    learner: Learner,
) -> tuple[list[float], dict[str, tuple[float, ...]], list[tuple[str, list[str], Any]]]:
    values = [value(learner) for *_, value in OF_MODELS]
    arms = learner.arms.values()
    means: dict[str, tuple[float, ...]] = {
        _text(arm.name): (arm.mean, *arm.interval()) for arm in arms if arm.count
    }
    actions = [_text(learner.actions.of(a) or str(a)) for a in range(learner.agent.n_actions)]
    return values, means, [(_text(arm.name), actions, arm.totals.copy()) for arm in arms]


def _text(name: str) -> str:
    """The name as UTF-8 can store it: half of a surrogate pair becomes a question mark.

    >>> _text("new"), _text("\\ud800")
    ('new', '?')
    """
    return name.encode("utf-8", "replace").decode()


def _labelled(
    model: str, arms: Iterable[tuple[str, list[str], Any]]
) -> Iterator[tuple[list[str], Any]]:
    """The labels and the totals of every action that was taken."""
    for arm, actions, totals in arms:
        for action, row in zip(actions, totals.tolist(), strict=True):
            if row[DECISIONS]:
                yield [model, arm, action], row
