"""serve, check and import: the decision service and its database. replay: evaluate other agents."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from switchmdp import online
from switchmdp.cli import Exit, say, say_json, tell, warn
from switchmdp.display import counted
from switchmdp.errors import InvalidParameter
from switchmdp.online.arms import create_agent, parameters_of
from switchmdp.online.database import MODEL
from switchmdp.online.evaluation import (
    LAST_VISIT,
    candidates,
    default_windows,
    significance,
    varied_parameter,
)
from switchmdp.online.learner import Learner, Settings, checked_settings
from switchmdp.online.sqlite import NAME, database_in, is_new
from switchmdp.validation import check_positive

AGENT = "evidence-psrl"  # if --agent is omitted
EXAMPLE_SIZES = "for example: --states 6 --actions 4"

EVERY = 5.0  # seconds between two lines of progress
SHOWN = 50  # states whose action is printed
LOSSES = ("squared_errors", "log_losses")
Rows = Mapping[str, online.Evaluation]  # by label
Marks = Mapping[str, str]  # mark the smallest errors, and those that are not clearly larger

CAVEAT = """\
Each prediction is made before its step, for the state-action pair that was taken. So the errors
are a fair comparison of memories, no matter who chose the actions. They do not show the reward or
regret of another agent: the log contains only the outcomes of the actions that were taken, and
other actions would have led to other states. Agreement with the log is not an advantage."""


def serve_database(
    data: Path | None, database: str | None, *, agent: str | None, states: int | None,
    actions: int | None, window: int | None, delta: float | None, others: dict[str, Any], host: str,
    port: int, token_file: Path | None, metrics_token_file: Path | None, warm_start: Path | None,
    rate: float, max_body: int, memory: int, no_sync: bool, address: str | None, **settings: Any,
) -> int:  # fmt: skip
    """Serve the models of a database, or of a folder with one, until a signal arrives."""
    from switchmdp.online.models import Models, compile_agent
    from switchmdp.online.server import address_of, application, listen, reachable, serve

    check_positive("--rate", rate)  # the type of the option accepts NaN
    place = _place("serve", data, NAME if data is None and database is None else database)
    tokens = _tokens(token_file, metrics_token_file)
    options = {"window": window, "delta": delta}
    parameters = others | {name: value for name, value in options.items() if value is not None}
    made = _new_agent(agent, states, actions, parameters)
    new = not online.is_url(place) and is_new(place)  # a folder with other files is refused
    if warm_start is not None and not new:
        raise InvalidParameter("--warm-start", str(warm_start), "omitted: the database is not new")
    if warm_start is not None and made is None:
        raise InvalidParameter("--states", None, f"set for --warm-start, {EXAMPLE_SIZES}")
    steps = [] if warm_start is None else list(online.read_steps(warm_start, made))
    checked_settings(Settings(**{name: v for name, v in settings.items() if v is not None}))
    bound = listen(host, port, has_token=tokens is not None)
    with (
        bound, closing(online.open_database(place, sync=not no_sync)) as store,
        Models(store, memory=memory * 2**20, on_alert=_alert) as models,
    ):  # fmt: skip
        store.join(address or reachable(bound), models.keep_only, models.changed_summaries)
        if (made is not None or store.key_of(MODEL) is not None) and not models.is_elsewhere(MODEL):
            main: online.Decisions = online.Decisions(
                made, models.writer, model=MODEL, on_alert=lambda signal: _alert(main, signal),
                **settings,
            )  # fmt: skip
            models.adopt(main)
            if steps:
                learned = counted(main.learn_from(steps), "step")
                tell(f"learned from {learned} of {warm_start}")
            tell("compiling the agent ...")
            compile_agent(main)
        app = application(models, token=tokens, rate=rate, max_body=max_body, tell=warn)
        where = place if new or data else store.name
        tell(f"the database is {where}")
        if not models.find(limit=1):
            tell(f"it has no models yet; {address_of(bound)}/docs explains how to create one")
        asked = serve(app, bound, ready=lambda: say(f"listening on {address_of(bound)}"))
    tell(f"stopped; all acknowledged events are in {where}")
    return Exit.TERMINATED if asked == signal.SIGTERM else Exit.INTERRUPTED


def _place(command: str, data: Path | None, database: str | Path | None) -> str | Path:
    """The database of a command; it has to be given in exactly one way."""
    if data is not None and database is not None:
        raise InvalidParameter("--database", database, "omitted if --data is set")
    if database == "":  # a variable of the shell that is not set
        raise InvalidParameter("--database", database, f"a file, such as {NAME}, or its folder")
    place = database if data is None else data
    if place is None:
        allowed = (
            "set: the file of the database, its folder, or postgresql://..., "
            f"for example: switchmdp {command} {NAME}"
        )
        raise InvalidParameter("LOG", None, allowed)
    return place


def check_database(log: str | None, data: Path | None, database: str | None) -> int:
    """Check a database, and print any damage. `log` and `database` mean the same."""
    if log is not None and (data is not None or database is not None):
        raise InvalidParameter("LOG", log, "omitted if --data or --database is set")
    database = database if log is None else log
    report = online.check(_place("check", data, database), tell=_progress("events replayed"))
    code = Exit.DAMAGED if any(report.values()) else Exit.FINE
    say_json("checked", damage=report, exit=code)
    for part, problems in report.items():
        say(f"{part}: {'damaged' if problems else 'ok'}")
        for problem in problems:
            say(f"  {problem}")
    return code


def import_old_folder(folder: Path, database: str | None, model: str) -> int:
    """Convert a folder of an earlier version."""
    target: Any = database or folder
    target = target if online.is_url(target) else database_in(target)
    verified = online.import_folder(folder, target, model=model)
    shown = "the database" if online.is_url(target) else target
    say(f"imported {counted(verified.records, 'event')} as the model {model!r} of {shown}:")
    say("  same learner, bit for bit, as in the folder")
    if verified.differing:
        say(f"  {verified.differing} replayed actions differ from the log; the log was used")
    say(f"{folder} is unchanged; its old files are no longer needed")
    return Exit.FINE


def _tokens(file: Path | None, metrics_file: Path | None) -> Any:
    """The tokens from files or from the environment. Other users can see command lines."""
    from switchmdp.online.server import METRICS_ONLY, Tokens

    lines = _token_lines(file, "SWITCHMDP_TOKEN")
    metrics = _token_lines(metrics_file, "SWITCHMDP_METRICS_TOKEN")
    if metrics and not lines:
        allowed = "used with --token-file FILE (or SWITCHMDP_TOKEN)"
        raise InvalidParameter("--metrics-token-file", str(metrics_file), allowed)
    only = [f"{line} {METRICS_ONLY}" for line in metrics]
    return Tokens([*lines, *only]) if lines else None


def _token_lines(file: Path | None, variable: str) -> list[str]:
    """The lines of a file of tokens, or of an environment variable; errors name the line."""
    from switchmdp.online.server import checked_token

    text, source = os.environ.get(variable, ""), variable
    if file is not None:
        text, source = file.read_text("utf-8", errors="replace"), str(file)
        if os.name == "posix" and file.stat().st_mode & 0o044:
            warn(f"warning: other users can read {file}; to prevent this, run: chmod 600 {file}")
        if not text.strip():
            raise InvalidParameter(source, text[:20], "a file with a token in each line")
    lines = {n: line for n, line in enumerate(text.splitlines(), 1) if line.strip()}
    for number, line in lines.items():
        try:
            checked_token(line.split()[0])
        except InvalidParameter as error:
            field = f"{source}, line {number}: token"
            raise InvalidParameter(field, error.value, error.allowed) from None
    return list(lines.values())


def _new_agent(
    name: str | None, states: int | None, actions: int | None, parameters: dict[str, Any]
) -> Any:
    """The agent that the options describe; None if they describe none."""
    if name is None and (states, actions, parameters) == (None, None, {}):
        return None
    name = name or AGENT
    parameters_of(name)  # an unknown agent is reported first
    if states is None or actions is None:
        missing = "--states" if states is None else "--actions"
        allowed = f"set, because other options describe an agent, {EXAMPLE_SIZES}"
        raise InvalidParameter(missing, None, allowed)
    return create_agent(name, states, actions, parameters)


def _alert(decisions: online.Decisions, change: online.Signal) -> None:
    states, actions = decisions.learner.states, decisions.learner.actions
    to = change.next_state
    what = "the mean reward" if to is None else f"the share of moves to {states.shown(to)}"
    tell(
        f"alert: model {decisions.model}: in {states.shown(change.state)} with "
        f"{actions.shown(change.action)}, {what} changed from {change.before:.3f} to "
        f"{change.now:.3f} (signal {change.strength:.2f} at step {change.step})"
    )


# replay


def export_decisions(
    database: str, model: str | None, formats: tuple[str, ...], out: Path | None
) -> int:
    """Write the decisions of a model as a table."""
    from switchmdp.reports.export import write_table

    if out is not None and formats:
        raise InvalidParameter(
            "--format", ", ".join(formats), "omitted: the ending of --out sets the format"
        )
    model = online.default_model(database) if model is None else model
    named = [Path(f"{model}.{ending}") for ending in dict.fromkeys(formats or ("csv",))]
    files = named if out is None else [out]
    for file in files:
        try:
            write_table(file, online.DECISION_COLUMNS, online.decision_blocks(database, model))
        except InvalidParameter as error:
            field = "--out" if error.field == "path" else error.field
            raise InvalidParameter(field, error.value, error.allowed) from None
    say_json("export", files=[str(file) for file in files], missing=None)
    say("\n".join(map(str, files)))
    return Exit.FINE


def replay_log(
    log: str | Path | None, agent: str, *, database: str | None = None, model: str | None = None,
    others: Mapping[str, Any], delta: float | None = None, **options: tuple[int, ...],
) -> int:  # fmt: skip
    """Replay the log, then evaluate agents on its steps.

    Either `log` or `database` is set; they have the same meaning. `others` are parameters with one
    value, `options` those that may have several.
    """
    if log is not None and database is not None:
        raise InvalidParameter("LOG", log, "omitted if --database is set")
    place = _place("replay", None, database if log is None else log)
    model = online.default_model(place) if model is None else model
    fixed = dict(others) if delta is None else {**others, "delta": delta}
    varied = varied_parameter(agent, options, fixed)
    verified = online.verify(place, tell=_progress("events replayed"), model=model)
    code = Exit.FINE if verified.same and not verified.differing else Exit.DAMAGED
    _say_verified(verified, code)
    steps = list(online.history(place, model))
    if not steps:
        message = "the log has no feedback yet: nothing to evaluate"
        say(message)
        say_json("note", message=message)
        return code
    values = options.get(varied) or default_windows(len(steps))
    rows = {}
    for label, one in candidates(agent, verified.learner.agent, fixed, varied, values).items():
        progress = _progress(f"of {len(steps)}: {label}")
        rows[label] = online.evaluate(steps, one, plan=label != LAST_VISIT, tell=progress)
    marks = [significance(rows, losses) for losses in LOSSES]
    _say_table(verified.learner, rows, *marks)
    _say_json(rows, *marks)
    return code


def _progress(what: str) -> Callable[[int], None]:
    """Print the progress every few seconds."""
    last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        if done % 1000 == 0 and time.monotonic() - last >= EVERY:
            last = time.monotonic()
            tell(f"{done} {what}")
            say_json("progress", done=done, of=what)

    return show


def _say_verified(verified: online.Verified, code: int) -> None:
    learner = verified.learner
    say_json(
        "verified", records=verified.records, snapshot=verified.snapshot, same=verified.same,
        differing=verified.differing, state_names=learner.states.all or None,
        action_names=learner.actions.all or None, exit=code,
    )  # fmt: skip
    say(f"replayed {counted(verified.records, 'event')} from the beginning:")
    if verified.snapshot == 0:
        say("  there is no later snapshot to compare with")
    elif verified.same:
        say(f"  same learner, bit for bit, as in the snapshot at event {verified.snapshot}")
    else:
        say(f"  the learner DIFFERS from the snapshot at event {verified.snapshot}")
    if verified.differing:
        say(f"  {verified.differing} replayed actions differ from the log (written by another")
        say("  version, or on another processor)")
    else:
        say("  all replayed actions equal the log")


def _say_table(learner: Learner, rows: Rows, reward: Marks, move: Marks) -> None:
    first, width = next(iter(rows.values())), max(map(len, rows))
    n_states, n_actions = first.visits.shape
    sizes = f"{counted(n_states, 'state')}, {counted(n_actions, 'action')}"
    say(f"\n{counted(first.steps, 'step')}, {sizes}\n")
    columns = ("reward error", "move loss", "calibration", "covered", "unseen", "agrees")
    say(" " * width + "".join(f"{column:>14}" for column in columns))
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
    say(f"policy of {best} after the last step, which may explore:")
    chosen = rows[best]
    for state, action in list(enumerate(chosen.policy.tolist()))[:SHOWN]:
        estimate, visits = chosen.reward_estimates[state, action], chosen.visits[state, action]
        pair = f"in {learner.states.shown(state)}: {learner.actions.shown(action)}"
        seen = f"mean reward {estimate:.4f} in {round(visits, 1)} remembered visits"
        say(f"  {pair} ({seen if visits else 'no remembered visit'})")
    if len(chosen.policy) > SHOWN:
        say("  ...")
    say(f"\n{CAVEAT}")


def _shown(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.5f}"


def _say_json(rows: Rows, reward: Marks, move: Marks) -> None:
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
