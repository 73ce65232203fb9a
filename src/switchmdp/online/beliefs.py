"""The current policy and estimates of the agent, as plain data for `GET /agent` and the live page.

Reading must not change anything, but an agent absorbs its log when its counts are read. So it is
copied while no event is applied, and the copy is read. Values that an agent does not have are
None: not every agent has episodes, a policy or estimates.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import Episodic
from switchmdp.agents.episodic import PARTS
from switchmdp.mdp.pairs import find_pair
from switchmdp.online.decisions import Decisions
from switchmdp.online.learner import Learner
from switchmdp.online.monitoring import Signal
from switchmdp.validation import check_integer, is_number

THRESHOLD = 1.0  # at which the change signal fires

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
