"""replay: verify a log, and compare the predictions of other agents on its steps."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp import online
from switchmdp.cli import DAMAGED, FINE
from switchmdp.cli.output import say, say_json, tell
from switchmdp.errors import InvalidParameter
from switchmdp.online.evaluation import (
    LAST_VISIT,
    candidates,
    check_parameters,
    default_windows,
    parameters_of,
    significance,
)

EVERY = 5.0  # seconds between two lines of progress
SHOWN = 50  # states whose action is printed
VARIED = ("window", "period")  # required parameters for which several values are tried
LOSSES = ("squared_errors", "log_losses")

CAVEAT = """\
Errors are of predictions made before each step, for the state-action pair that was taken. So they
compare memories fairly, whoever chose the actions. They do not tell what reward or regret another
agent would have earned: the log contains only the outcomes of the actions that were taken, and
other actions would have led to other states. Agreement with the log is not an advantage."""


def replay_log(
    folder: Path, name: str, given: Mapping[str, tuple[int, ...]], delta: float | None,
    parameters: Mapping[str, Any], as_json: bool,
) -> int:  # fmt: skip
    """Replay the log, then evaluate agents on its steps.

    `given` are the options that may have several values, `parameters` those with one value.
    """
    fixed = dict(parameters) if delta is None else {**parameters, "delta": delta}
    key = _swept(name, given, fixed)
    verified = online.verify(folder, tell=_progress("records replayed", as_json))
    code = FINE if verified.same and not verified.differing else DAMAGED
    _say_verified(verified, as_json, code)
    steps = list(online.history(folder))
    if not steps:
        (tell if as_json else say)("the log has no feedback yet: nothing to evaluate")
        return code
    values = dict.fromkeys(given.get(key) or default_windows(len(steps)))
    rows = {
        label: online.evaluate(
            steps,
            agent,
            plan=label != LAST_VISIT,
            tell=_progress(f"of {len(steps)}: {label}", as_json),
        )
        for label, agent in candidates(
            name, verified.learner.agent, fixed, vary=key, values=values
        ).items()
    }
    (_say_json if as_json else _say_table)(rows)
    return code


def _swept(name: str, given: Mapping[str, tuple[int, ...]], parameters: Mapping[str, Any]) -> str:
    """The parameter of the agent that takes several values; empty if there is none.

    It is the option with values, or else a window or period that the agent requires.
    """
    takes = parameters_of(name)
    for key, values in given.items():
        if values and key not in takes:
            raise InvalidParameter(f"--{key}", values, f"omitted: {name} has no such parameter")
        if values and key in parameters:
            raise InvalidParameter(f"--set {key}", parameters[key], f"omitted if --{key} is set")
    named = [key for key, values in given.items() if values]
    if len(named) > 1:
        raise InvalidParameter(f"--{named[1]}", given[named[1]], f"omitted if --{named[0]} is set")
    needed = [
        key
        for key in VARIED
        if key in takes and takes[key].default is inspect.Parameter.empty and key not in parameters
    ]
    key = next(iter([*named, *needed]), "")
    check_parameters(name, [*parameters, *([key] if key else [])])
    return key


def _progress(what: str, as_json: bool) -> Callable[[int], None]:
    """Print the progress every few seconds."""
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


def _say_verified(verified: online.Verified, as_json: bool, code: int) -> None:
    if as_json:
        say_json(
            "verified", records=verified.records, snapshot=verified.snapshot, same=verified.same,
            differing=verified.differing, exit=code,
        )  # fmt: skip
        return
    say(f"replayed {verified.records} records from the beginning:")
    if verified.snapshot == 0:
        say("  there is no later snapshot to compare with")
    elif verified.same:
        say(f"  same learner, bit for bit, as in the snapshot at record {verified.snapshot}")
    else:
        say(f"  the learner DIFFERS from the snapshot at record {verified.snapshot}")
    if verified.differing:
        say(f"  {verified.differing} replayed actions differ from the log (written by another")
        say("  version, or on another processor)")
    else:
        say("  all replayed actions equal the log")


def _say_table(rows: Mapping[str, online.Evaluation]) -> None:
    first, width = next(iter(rows.values())), max(map(len, rows))
    say(f"\n{first.steps} steps, {first.visits.shape[0]} states, {first.visits.shape[1]} actions\n")
    columns = ("reward error", "move loss", "calibration", "covered", "unseen", "agrees")
    say(" " * width + "".join(f"{column:>14}" for column in columns))
    reward, move = (significance(rows, losses) for losses in LOSSES)
    for label, row in rows.items():
        shares = "".join(
            f"{'-' if math.isnan(share) else f'{100 * share:.1f} %':>14}"
            for share in (row.covered, row.unseen, row.agreement)
        )
        say(
            f"{label:<{width}}{_shown(row.reward_error):>12} {reward[label]}"
            f"{_shown(row.move_loss):>12} {move[label]}{_shown(row.calibration):>14}{shares}"
        )
    say("\n* smallest   ~ within two standard errors of the smallest   - not available\n")
    known = [label for label, row in rows.items() if row.episodes and row.reward_error >= 0]
    best = min(known, key=lambda label: rows[label].reward_error)
    say(f"policy of {best} after the last step (estimate, remembered visits):")
    chosen = rows[best]
    for state, action in list(enumerate(chosen.policy.tolist()))[:SHOWN]:
        estimate, visits = chosen.reward_estimates[state, action], chosen.visits[state, action]
        say(f"  in state {state}: action {action} ({estimate:.4f}, {round(visits, 1)})")
    if len(chosen.policy) > SHOWN:
        say("  ...")
    say(f"\n{CAVEAT}")


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.5f}"


def _say_json(rows: Mapping[str, online.Evaluation]) -> None:
    reward, move = (significance(rows, losses) for losses in LOSSES)
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
    say_json("note", message=" ".join(CAVEAT.split()))
