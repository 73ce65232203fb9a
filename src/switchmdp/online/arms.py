"""Split tests: a share of the sessions is decided by a fixed policy or by another agent.

The model's own agent is the arm `main`. Every other arm has a share of the sessions; `main` has the
rest. A session is assigned by weighted rendezvous hashing: with u_i in (0, 1) a hash of the arm's
name and the session, and w_i the arm's share, it belongs to the arm with the largest

    -w_i / log u_i.

So it belongs to arm i with probability w_i, and always to the same arm while the shares are
unchanged. If one share grows and the others keep their proportions, sessions move only to that arm.
A decision without a session is assigned by its number. An agent learns only from the feedback of
its own arm, so that no arm profits from the others.

Rewards may change over time, so only rewards of the same time can be compared. When a test starts,
the decisions that `main` made before do not count in its mean reward.

**Mean reward.** Users may look at the test after every decision, and stop it as soon as it looks
good. So an arm has a confidence sequence: an interval for every time. With probability 1 - α, all
of them hold at once. With rewards X_1, X_2, ... in [0, 1], X̂_i the mean of the first i (X̂_0 = 1/2),
and V_t = Σ_{i<=t} (X_i - X̂_{i-1})², it is

    X̂_t ± ( k₁ √(v ℓ(v)) + k₂ ℓ(v) ) / t,   v = max(V_t, 1),
    ℓ(v) = s log log(η v) + log( ζ(s) / ((α/2) log^s η) ),
    k₁ = (η^(1/4) + η^(-1/4)) / √2,   k₂ = (√η + 1) / 2

(Howard, Ramdas, McAuliffe and Sekhon: Time-uniform, nonparametric, nonasymptotic confidence
sequences, 2021, Theorem 4 with the polynomial stitched boundary (10), c = m = 1, η = 2, s = 1.4).
The interval covers the average of the conditional means of the rewards so far. So the rewards need
not be independent, and their means may change.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from switchmdp.agents import AGENTS, Agent
from switchmdp.agents.registry import servable_agents, unavailable_information
from switchmdp.errors import InvalidParameter
from switchmdp.validation import is_number

MAIN = "main"  # the arm of the model's own agent
MOST_ARMS = 20
LONGEST_NAME = 100
ALPHA = 0.05
ETA, S, ZETA = 2.0, 1.4, 3.1055472779775815  # ζ(1.4)
SIZE = ("n_states", "n_actions", "available")
DECISIONS, FEEDBACK, REWARD = range(3)  # columns of `totals`


class Arm:
    """An arm with the totals of its decisions.

    Either `policy` or `agent` is None; in the arm `main` both are, because the learner decides.
    """

    def __init__(
        self, name: str, share: float, n_actions: int, policy: list[int] | None = None,
        agent: Any = None, definition: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.share, self.policy, self.agent = name, share, policy, agent
        self.definition = definition  # of the agent: its name and its parameters
        self.totals: NDArray[np.float64] = np.zeros((n_actions, 3))
        self.start_test(0)

    def start_test(self, since: int) -> None:
        """From now on only decisions with larger numbers than `since` are compared."""
        self.since = since
        self.decided = 0
        self.count, self.mean, self.spread = 0, 0.5, 0.0  # n, X̂_n and V_n

    def add_decision(self, action: int) -> None:
        """Add a decision."""
        self.totals[action, DECISIONS] += 1
        self.decided += 1

    def add_reward(self, decision: int, action: int, reward: float) -> None:
        """Add the reward of a decision."""
        self.totals[action, FEEDBACK] += 1
        self.totals[action, REWARD] += reward
        if decision <= self.since:
            return
        self.spread += (reward - self.mean) ** 2
        self.count += 1
        total = reward if self.count == 1 else self.mean * (self.count - 1) + reward
        self.mean = min(1.0, max(0.0, total / self.count))

    def add_actions(self, n_actions: int) -> None:
        """Make room for the totals of new actions."""
        grown = np.zeros((n_actions, 3))
        grown[: len(self.totals)] = self.totals
        self.totals = grown

    def interval(self, alpha: float = ALPHA) -> tuple[float, float]:
        """The confidence interval of the mean reward, valid at every time."""
        radius = confidence_radius(self.count, self.spread, alpha)
        return max(0.0, self.mean - radius), min(1.0, self.mean + radius)


def confidence_radius(count: int, spread: float, alpha: float = ALPHA) -> float:
    """Half the width of the confidence sequence after `count` rewards with V = `spread`.

    >>> confidence_radius(0, 0.0), round(confidence_radius(10_000, 2500.0), 4)
    (inf, 0.0217)
    """
    if count == 0:
        return math.inf
    v = max(spread, 1.0)
    log = S * math.log(math.log(ETA * v)) + math.log(ZETA / (alpha / 2 * math.log(ETA) ** S))
    k1, k2 = (ETA**0.25 + ETA**-0.25) / math.sqrt(2.0), (math.sqrt(ETA) + 1.0) / 2.0
    radius: float = (k1 * math.sqrt(v * log) + k2 * log) / count
    return radius


def assigned(arms: Iterable[Arm], salt: str, session: str) -> Arm:
    """The arm of a session."""

    def score(arm: Arm) -> float:
        named = f"{salt} {arm.name}\0{session}".encode("utf-8", "surrogatepass")
        bits: int = int.from_bytes(hashlib.blake2b(named, digest_size=7).digest()) >> 3
        return -arm.share / math.log((bits + 0.5) / 2**53)

    return max((arm for arm in arms if arm.share > 0.0), key=score)


def new_arms(given: Any, now: Mapping[str, Arm], agent: Agent) -> dict[str, Arm]:
    """The arms for a definition [{name, share, policy | agent}, ...]; errors name the field.

    An arm whose name, policy and agent are unchanged keeps its totals and what it has learned.
    """
    if not isinstance(given, list) or len(given) > MOST_ARMS:
        raise InvalidParameter("arms", given, f"a list of at most {MOST_ARMS} arms")
    main = now[MAIN]
    arms = {MAIN: main}
    for at, one in enumerate(given):
        field = f"arms[{at}]"
        if not isinstance(one, Mapping) or not {"name", "share"} <= one.keys():
            raise InvalidParameter(field, one, "an object with name, share, and policy or agent")
        name, share = one["name"], one["share"]
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or name in arms:
            allowed = f"a string of 1 to {LONGEST_NAME} characters, other than {', '.join(arms)}"
            raise InvalidParameter(f"{field}.name", name, allowed)
        if not is_number(share) or not 0.0 <= share <= 1.0:
            raise InvalidParameter(f"{field}.share", share, "a number from 0 to 1")
        policy, definition = one.get("policy"), one.get("agent")
        if (policy is None) == (definition is None):
            raise InvalidParameter(field, one, "an arm with either a policy or an agent")
        old = now.get(name)
        if old is not None and (old.policy, old.definition) == (policy, definition):
            arms[name] = old
        elif policy is not None:
            policy = _checked_policy(agent, policy, f"{field}.policy")
            arms[name] = Arm(name, 0.0, agent.n_actions, policy=policy)
        else:
            made = agent_like(agent, definition, f"{field}.agent")
            arms[name] = Arm(name, 0.0, agent.n_actions, agent=made, definition=definition)
    total = math.fsum(one["share"] for one in given)
    if total > 1.0 + 1e-12:
        raise InvalidParameter("arms", total, "shares whose sum is at most 1")
    for one in given:
        arms[one["name"]].share = float(one["share"])
    main.share = max(0.0, 1.0 - total)
    return arms


def _checked_policy(agent: Agent, policy: Any, field: str) -> list[int]:
    if not isinstance(policy, (list, tuple)) or len(policy) != agent.n_states:
        raise InvalidParameter(field, policy, f"a list of {agent.n_states} actions")
    for s, action in enumerate(policy):
        if type(action) is not int or action not in agent.pairs.at(s):
            raise InvalidParameter(f"{field}[{s}]", action, f"one of {agent.pairs.at(s)}")
    return list(policy)


def agent_like(agent: Agent, definition: Any, field: str) -> Any:
    """A new agent with the size of another one, from {"name": ..., "parameters": {...}}."""
    allowed = 'an object such as {"name": "sw-ucrl", "parameters": {"window": 1000}}'
    if not isinstance(definition, Mapping) or not definition.keys() <= {"name", "parameters"}:
        raise InvalidParameter(field, definition, allowed)
    name, parameters = definition.get("name"), definition.get("parameters") or {}
    if not isinstance(name, str) or not isinstance(parameters, Mapping):
        raise InvalidParameter(field, definition, allowed)
    return create_agent(
        name, agent.n_states, agent.n_actions, parameters, available=agent.pairs.available
    )


# Agents by name.


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
    """The parameters that the agent takes besides its size, or an error if it cannot be served."""
    known = servable_agents()
    if name not in known:
        allowed = f"one of {', '.join(known)}"
        close = get_close_matches(name.lower().replace("_", "-"), known, 1, 0.7)
        if close and name not in AGENTS:
            allowed = f"an agent of `switchmdp agents` (did you mean {close[0]!r}?)"
        if name in AGENTS:
            needs = unavailable_information(AGENTS[name])
            allowed += f" ({name} needs {needs}, so it can only be simulated)"
        raise InvalidParameter("agent", name, allowed)
    takes = inspect.signature(known[name]).parameters
    return {parameter: kind for parameter, kind in takes.items() if parameter not in SIZE}


def check_parameters(name: str, given: Collection[str]) -> None:
    """Raise an error unless the agent takes these parameters and needs no others."""
    takes = parameters_of(name)
    for parameter in given:
        if parameter not in takes:
            raise InvalidParameter(f"parameter of {name}", parameter, f"one of {', '.join(takes)}")
    for parameter, kind in takes.items():
        if kind.default is kind.empty and parameter not in given:
            allowed = (
                f"set, because {name} requires it (on the command line: --set {parameter}=VALUE)"
            )
            raise InvalidParameter(parameter, None, allowed)


def create_agent(
    name: str, n_states: int, n_actions: int, parameters: Mapping[str, Any], **size: Any
) -> Any:
    """A new agent of this size; `size` may have the mask `available`.

    >>> create_agent("sw-ucrl", 2, 2, {"window": 10}).memory.window
    10
    """
    check_parameters(name, list(parameters))
    kind: Any = AGENTS[name]
    return kind(n_states, n_actions, **parameters, **size)
