"""replay: is the log sound, and which memory would have predicted best what it holds?"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp import online
from switchmdp.agents import AGENTS, UCRL2, Episodic
from switchmdp.cli import DAMAGED, FINE
from switchmdp.cli.output import say, say_json, tell
from switchmdp.cli.serve import must_fit, parameters_of_agent
from switchmdp.errors import InvalidParameter
from switchmdp.online.prequential import LastVisit, difference
from switchmdp.online.replay import Verified
from switchmdp.plausible import L1Ball
from switchmdp.restarts import Never

EVERY = 5.0  # seconds between two lines of progress
SHOWN = 50  # states whose policy is shown
DELTA = 0.05  # where the log's agent has none
SCALED = ("window", "period")  # where none is named, a scale of them is tried
LAST = "the last visit"
LOSSES = ("squared_errors", "log_losses")

CANNOT = """\
Errors are of predictions made before each step, for the pair that was taken then: that compares
memories fairly, whoever chose. It does not say what reward or regret another agent would have
earned: the log holds only what came of the actions that were taken, and other actions would have
led to other states. Agreement with the log is no merit."""


def replay_log(
    folder: Path, name: str, given: Mapping[str, tuple[int, ...]], delta: float | None,
    parameters: Mapping[str, Any], as_json: bool,
) -> int:  # fmt: skip
    """Apply the log again, then evaluate agents on its steps.

    `given` are the options that may have several values, `parameters` those that have one.
    """
    fixed = dict(parameters) if delta is None else {**parameters, "delta": delta}
    key = _swept(name, given, fixed)
    found = online.verify(folder, tell=_progress("records applied", as_json))
    code = FINE if found.same and not found.differing else DAMAGED
    _say_verified(found, as_json, code)
    steps = list(online.history(folder))
    if not steps:
        (tell if as_json else say)("no feedback yet: nothing to evaluate")
        return code
    values = dict.fromkeys(given.get(key) or _scale(len(steps)))
    rows = {
        label: online.evaluate(
            steps, agent, plan=label != LAST, tell=_progress(f"of {len(steps)}: {label}", as_json)
        )
        for label, agent in _agents(name, key, list(values), found.learner.agent, fixed).items()
    }
    (_say_json if as_json else _say_table)(rows)
    return code


def _swept(name: str, given: Mapping[str, tuple[int, ...]], parameters: Mapping[str, Any]) -> str:
    """Which parameter of the agent takes several values; empty where none does.

    It is the one with values of its own, or else a window or period that the agent needs.
    """
    takes = parameters_of_agent(name)
    for key, values in given.items():
        if values and key not in takes:
            raise InvalidParameter(f"--{key}", values, f"left out: {name} has none")
        if values and key in parameters:
            raise InvalidParameter(f"--set {key}", parameters[key], f"left out with --{key}")
    named = [key for key, values in given.items() if values]
    if len(named) > 1:
        raise InvalidParameter(f"--{named[1]}", given[named[1]], f"left out with --{named[0]}")
    needed = [
        key
        for key in SCALED
        if key in takes and takes[key].default is inspect.Parameter.empty and key not in parameters
    ]
    key = next(iter([*named, *needed]), "")
    must_fit(name, [*parameters, *([key] if key else [])], takes)
    return key


def _scale(steps: int) -> list[int]:
    """Windows where none are named: the whole log, half of it, a quarter, ...

    >>> _scale(1000)
    [15, 31, 62, 125, 250, 500, 1000]
    """
    return sorted({max(1, steps >> halves) for halves in range(7)})


def _agents(
    name: str, key: str, values: list[int], live: Any, parameters: dict[str, Any]
) -> dict[str, Any]:
    """The agents asked for, and the two that they should be better than, by what they are called.

    All are of the size that the log's agent has come to, as its log was made of that.
    """
    size, available = (live.n_states, live.n_actions), live.pairs.available
    delta = parameters.get("delta", getattr(getattr(live, "plausible", None), "delta", DELTA))
    kind: Any = AGENTS[name]
    if "delta" in parameters_of_agent(name):
        parameters = {"delta": float(delta), **parameters}
    if key:
        asked = {
            f"{name}, {key} {v}": kind(*size, **{key: v}, **parameters, available=available)
            for v in values
        }
    else:
        asked = {name: kind(*size, **parameters, available=available)}
    return asked | {
        "never forgets": UCRL2(*size, delta=delta, available=available),
        LAST: Episodic(
            *size, memory=LastVisit(), plausible=L1Ball(delta), restarts=Never(),
            available=available,
        ),
    }  # fmt: skip


def _progress(what: str, as_json: bool) -> Callable[[int], None]:
    """A line now and then, of what takes long."""
    last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        if done % 1000 == 0 and time.monotonic() - last >= EVERY:
            last = time.monotonic()
            if as_json:
                say_json("progress", done=done, of=what)
            else:
                tell(f"{done} {what}")

    return show


def _say_verified(found: Verified, as_json: bool, code: int) -> None:
    if as_json:
        say_json(
            "verified", records=found.records, snapshot=found.snapshot, same=found.same,
            differing=found.differing, exit=code,
        )  # fmt: skip
        return
    say(f"{found.records} records, applied again from the beginning:")
    if found.snapshot == 0:
        say("  there is no later snapshot to compare with")
    elif found.same:
        say(f"  the same learner, bit for bit, as in the snapshot at record {found.snapshot}")
    else:
        say(f"  NOT the learner that the snapshot at record {found.snapshot} holds")
    if found.differing:
        say(f"  {found.differing} actions come out otherwise than they were logged (another")
        say("  version, or another processor)")
    else:
        say("  every action comes out as it was logged")


def _standing(rows: Mapping[str, online.Evaluation], losses: str) -> dict[str, str]:
    """Best: *. Those that can't be told from it by two standard errors: ~."""
    marks = dict.fromkeys(rows, " ")
    rows = {label: row for label, row in rows.items() if not math.isnan(row.reward_error)}
    best = min(rows, key=lambda label: getattr(rows[label], losses).mean())
    for label, row in rows.items():
        gap, error = difference(getattr(row, losses), getattr(rows[best], losses))
        marks[label] = "*" if label == best else "~" if not gap > 2 * error else " "
    return marks


def _say_table(rows: Mapping[str, online.Evaluation]) -> None:
    first, width = next(iter(rows.values())), max(map(len, rows))
    say(f"\n{first.steps} steps, {first.visits.shape[0]} states, {first.visits.shape[1]} actions\n")
    columns = ("reward error", "move loss", "calibration", "covered", "unseen", "agrees")
    say(" " * width + "".join(f"{column:>14}" for column in columns))
    reward, move = (_standing(rows, losses) for losses in LOSSES)
    for label, row in rows.items():
        shares = "".join(
            f"{'-' if math.isnan(share) else f'{100 * share:.1f} %':>14}"
            for share in (row.covered, row.unseen, row.agreement)
        )
        say(
            f"{label:<{width}}{_shown(row.reward_error):>12} {reward[label]}"
            f"{_shown(row.move_loss):>12} {move[label]}{_shown(row.calibration):>14}{shares}"
        )
    say("\n* the smallest   ~ within two standard errors of it   - the agent does not tell\n")
    known = [label for label, row in rows.items() if row.episodes and row.reward_error >= 0]
    best = min(known, key=lambda label: rows[label].reward_error)
    say(f"{best} would now do (estimate, visits remembered):")
    chosen = rows[best]
    for state, action in list(enumerate(chosen.policy.tolist()))[:SHOWN]:
        estimate, visits = chosen.reward_estimates[state, action], chosen.visits[state, action]
        say(f"  in state {state}: action {action} ({estimate:.4f}, {round(visits, 1)})")
    if len(chosen.policy) > SHOWN:
        say("  ...")
    say(f"\n{CANNOT}")


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.5f}"


def _say_json(rows: Mapping[str, online.Evaluation]) -> None:
    reward, move = (_standing(rows, losses) for losses in LOSSES)
    for label, row in rows.items():
        numbers = {
            key: None if math.isnan(value) else value
            for key, value in vars(row).items()
            if isinstance(value, (int, float))
        }
        has_policy = not math.isnan(row.agreement) and row.policy.min() >= 0
        estimates = row.reward_estimates.astype(object)
        estimates[np.isnan(row.reward_estimates)] = None
        say_json(
            "evaluation", agent=label, **numbers,
            best_reward_error=reward[label] == "*", best_move_loss=move[label] == "*",
            policy=row.policy.tolist() if has_policy else None, visits=row.visits.tolist(),
            reward_estimates=estimates.tolist(),
        )  # fmt: skip
    say_json("note", message=" ".join(CANNOT.split()))
