"""The commands and their options.

A command here consists of its options, its help text, and the name of the function that carries it
out. That function is imported when the command is called, so that `--help` is fast.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from switchmdp.errors import InvalidParameter
from switchmdp.version import __version__

PATH = click.Path(path_type=Path)
MOST_PROBLEMS = 1_000_000  # as in `spec`, which is slow to import


def parse_shard(text: str | None) -> tuple[int, int]:
    """The shard and the number of shards.

    >>> parse_shard("2/8")
    (2, 8)
    """
    if text is None:
        return 1, 1
    match = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", text)
    if not match or int(match[1]) > int(match[2]):
        raise InvalidParameter("--shard", text, "I/N with 1 <= I <= N, such as 2/8")
    return int(match[1]), int(match[2])


def parse_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    """Parse NAME=VALUE, where the value is JSON or a string.

    >>> parse_settings(("changes=4", "delta=0.1"))
    {'changes': 4, 'delta': 0.1}
    """
    values = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidParameter("--set", text, "NAME=VALUE")
        try:
            values[name] = json.loads(value)
        except (ValueError, RecursionError):
            values[name] = value
    return values


Decorator = Callable[[Any], Any]


def option(name: str, text: str, *names: str, **more: Any) -> Decorator:
    """An option with this help text."""
    return click.option(name, *names, help=text, **more)


def parsed_by(parse: Callable[[Any], Any]) -> Any:
    """A callback of click that parses an option's value."""
    return lambda context, parameter, value: parse(value)


def out(text: str, default: str | None = None) -> Decorator:
    """The option for the output folder."""
    return option("--out", text, type=PATH, default=default, metavar="FOLDER")


def problems_option(text: str) -> Decorator:
    """The option for the number of problems."""
    return option("--problems", text, type=click.IntRange(1, MOST_PROBLEMS), metavar="N")


def set_option(example: str) -> Decorator:
    """The option for other parameters of an agent."""
    return option(
        "--set", f"Another parameter of the agent, such as {example}; may be repeated.", "others",
        multiple=True, metavar="NAME=VALUE", callback=parsed_by(parse_settings),
    )  # fmt: skip


FOLDER = click.argument("folder", type=PATH)
# `main` reads these two itself: they also apply to errors in the other options.
JSON = option("--json", "Print JSON, one object per line.", is_flag=True, expose_value=False)
QUIET = option("--quiet", "Print only errors and warnings.", is_flag=True, expose_value=False)
TRUST = option(
    "--trust",
    "Import and run the modules that the configuration names [only if SWITCHMDP_TRUST=1]. See "
    "SECURITY.md.",
    is_flag=True, default=None,
)  # fmt: skip

RUNNING = (  # the options of every command that runs experiments
    option("--jobs", "The number of workers [one per core].", type=click.IntRange(1, 1024),
           metavar="N"),
    option("--executor", "threads, processes, or auto: threads for compiled agents, processes for "
           "plain Python ones [auto].",
           type=click.Choice(["auto", "threads", "processes"]), default="auto", metavar="KIND"),
    option("--shard", "Run only the I-th of N parts, as one job of many on a batch system.",
           metavar="I/N", callback=parsed_by(parse_shard)),
    option("--dask", "Run on the Dask cluster with this scheduler; `local` starts one.",
           metavar="ADDRESS"),
    QUIET,
    JSON,
)  # fmt: skip

SERVING = (
    option("--data", "The folder of the database `switchmdp.sqlite`; created if it does not exist.",
           type=PATH, metavar="FOLDER"),
    option("--database", "The file of the database (.sqlite or .db), instead of --data.",
           type=PATH, metavar="FILE"),
    option("--agent", "The agent, such as sw-ucrl (`switchmdp agents` lists them). Agents that "
           "need the problem or its change points can't be served [the agent in the database].",
           metavar="NAME"),
    option("--states", "The number of states.", type=click.IntRange(1), metavar="N"),
    option("--actions", "The number of actions.", type=click.IntRange(1), metavar="N"),
    option("--window", "The number of steps that the agent remembers, if it has a window.",
           type=click.IntRange(1), metavar="W"),
    option("--delta", "The agent's probability of error [0.05].", type=float, metavar="P"),
    set_option("changes=4"),
    option("--warm-start", "Before serving, learn from a CSV file with the columns "
           "state,action,reward,next_state, or from another database. Only for a new one.",
           type=PATH, metavar="PATH"),
    option("--replan", "inline: a decision waits while the agent plans; background: the old "
           "policy decides while the agent plans [as stored, else inline].",
           type=click.Choice(["inline", "background"]), metavar="HOW"),
    option("--expiry", "How long a decision waits for feedback, counted while the service runs "
           "[as stored, else 3600].", type=float, metavar="SECONDS"),
    option("--host", "The address to listen on; other machines can connect only if there is a "
           "token [127.0.0.1].", default="127.0.0.1", metavar="ADDRESS"),
    option("--port", "The port to listen on; 0 picks a free one [8000].",
           type=click.IntRange(0, 65535), default=8000, metavar="N"),
    option("--token-file", "A file with the bearer token that callers must send [the environment "
           "variable SWITCHMDP_TOKEN].", type=PATH, metavar="FILE"),
    option("--rate", "The most requests per second from one client [5000].",
           type=click.FloatRange(0, min_open=True), default=5000.0, metavar="N"),
    option("--max-body", "The largest request body [65536].", type=click.IntRange(1),
           default=65536, metavar="BYTES"),
    option("--no-sync", "Answer without waiting for the disk. If the machine crashes, acknowledged "
           "decisions may be lost; if only the process crashes, none are.", is_flag=True),
)  # fmt: skip


class _InOrder(click.Group):
    """Lists commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self.commands)


@click.group(
    cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 2 usage or configuration error, 3 some runs failed, 4 damaged "
           "or foreign folder, 5 disk full, 130 and 143 stopped by a signal.",
)  # fmt: skip
@click.version_option(__version__, message="switchmdp %(version)s")
def cli() -> None:
    """Reinforcement learning in finite MDPs whose rewards and transitions change."""


def command(implementation: str, *options: Decorator) -> Callable[[Callable[[], None]], Any]:
    """Add a command: the function "module.name" of this package, with these options.

    The decorated function contributes the command's name and its help text. (`import_`: import)
    """

    def add(described: Callable[[], None]) -> Any:
        def call(**arguments: Any) -> Any:
            module, _, name = implementation.partition(".")
            return getattr(import_module(f"switchmdp.cli.{module}"), name)(**arguments)

        call.__doc__ = described.__doc__
        for add_option in reversed(options):
            call = add_option(call)
        return cli.command(described.__name__.rstrip("_"))(call)

    return add


@command(
    "run.reproduce",
    out("Folder for the results [results/figure-1].", "results/figure-1"),
    problems_option("Problems per setting [1000]."),
    option("--sensitivity", "Also vary what the paper does not specify, and scan the window.",
           is_flag=True),
    *RUNNING,
)  # fmt: skip
def reproduce() -> None:
    """Run the paper's experiment and check its claims.

    Figure 1 (a) and (b) of Gajane, Ortner and Auer (2018), with tables, a verdict on every claim,
    and a report page. The same as `switchmdp run figure-1`.
    """


@command(
    "run.run_named",
    click.argument("config"),
    out("Folder for the results [results/ and the name of CONFIG]."),
    problems_option("Problems per setting, instead of n_problems in CONFIG."),
    TRUST,
    *RUNNING,
)
def run() -> None:
    """Run an experiment and write its report.

    CONFIG is a TOML file, or one that comes with the package: figure-1, sensitivity, window-scan.
    Re-running the command resumes it. An example:

    \b
      title = "Windows"
      horizon = 20_000
      n_problems = 20

    \b
      [problems.random]
      problem = "random-switching"
      parameters = { changes = 2 }

    \b
      [agents.window]
      agent = "sw-ucrl"
      parameters = { window = { sweep = [500, 2000, 8000] } }

    \b
      [agents.mine]
      agent = "my_module:MyAgent"  # a class in my_module.py, next to this file

    Your own modules are imported, and so run, only with --trust.

    Names and parameters: `switchmdp agents`, `switchmdp problems`; all keys: `switchmdp schema`.
    """


@command(
    "run.resume_folder",
    FOLDER,
    option("--retry-failed", "Also repeat failed runs.", is_flag=True),
    TRUST,
    *RUNNING,
)
def resume() -> None:
    """Resume an interrupted experiment.

    Missing and damaged results are computed; everything else stays as it is.
    """


@command("inspect.show_status", FOLDER, JSON)
def status() -> None:
    """Show how much of an experiment is done, and what failed."""


@command("report.write_and_show", FOLDER, out("Folder for the report [FOLDER/report]."), JSON)
def report() -> None:
    """Write the figures, tables and page of an experiment.

    If the experiment is not complete, the report covers what is done so far.
    """


@command(
    "inspect.verify_folder",
    FOLDER,
    option("--recompute", "Also compute N chunks again and compare every byte.",
           type=click.IntRange(0), default=0, metavar="N"),
    TRUST,
    JSON,
)  # fmt: skip
def verify() -> None:
    """Check every stored result against its checksum."""


@command(
    "inspect.export_folder",
    FOLDER,
    option("--format", "The file format; may be repeated [both, if Parquet is installed].",
           "formats", type=click.Choice(["csv", "parquet"]), multiple=True),
    out("Folder for the tables [FOLDER/export]."),
    JSON,
)  # fmt: skip
def export() -> None:
    """Write all runs as tables in CSV and Parquet."""


@command(
    "run.run_leaderboard",
    out("Folder for the results [results/leaderboard; with --quick, results/leaderboard-quick]."),
    option("--quick", "A short version: few rows, agents and problems, and short runs.",
           is_flag=True),
    *RUNNING,
)  # fmt: skip
def leaderboard() -> None:
    """Run the suite: every serious agent on every kind of change.

    Each agent's parameter is tuned on separate problems and then fixed. Re-running the command
    resumes it. With --shard, run it again once all shards are done.
    """


@command("online.serve_database", *SERVING)
def serve() -> None:
    """Serve decisions over HTTP, and learn from their outcomes.

    \b
      switchmdp serve --agent sw-ucrl --states 20 --actions 20 \\
                      --window 50000 --data shop
      curl --json '{"state": 3}' localhost:8000/decisions
      curl --json '{"reward": 1, "next_state": 7}' \\
           localhost:8000/decisions/ID/feedback

    Whatever was answered is on disk. After a stop or a crash, run the same command again, or just
    `switchmdp serve --data shop`: it continues where it stopped. / is a live page, and
    /openapi.json describes all routes.
    """


@command("inspect.show_agents")
def agents() -> None:
    """List the agents and their parameters."""


@command("inspect.show_problems")
def problems() -> None:
    """List the problems and their parameters."""


@command("inspect.show_schema")
def schema() -> None:
    """Print the JSON schema of configuration files, for editors."""


@command("inspect.check_installation")
def doctor() -> None:
    """Check this installation: versions, extras, compiler, disk."""


@command(
    "online.replay_log",
    click.argument("log", type=PATH),
    option("--agent", "Which agent to evaluate: any that can be served [sw-ucrl].",
           default="sw-ucrl", metavar="NAME"),
    option("--window", "The agent's window; may be repeated to compare several [a scale, where "
           "the agent needs one].", type=int, multiple=True, metavar="N"),
    option("--period", "Steps between the agent's restarts, likewise.", type=int, multiple=True,
           metavar="N"),
    option("--changes", "The number of changes that the agent expects; may be repeated.", type=int,
           multiple=True, metavar="N"),
    option("--delta", "The agent's probability of error [that of the log's agent].", type=float,
           metavar="P"),
    set_option("horizon=10000"),
    JSON,
)  # fmt: skip
def replay() -> None:
    """Verify stored decisions, and evaluate an agent on them.

    LOG is the database of `serve` or `online.Decisions`, or its folder. First, all events are
    applied from the beginning, to check that they give the same learner, bit for bit. Then the
    agent predicts the stored steps one by one. Two baselines are shown beside it: an agent that
    never forgets, and one that remembers only the last visit to each pair.
    """


@command(
    "online.import_old_folder",
    FOLDER,
    option("--database", "The database to add to [FOLDER/switchmdp.sqlite].", type=PATH,
           metavar="FILE"),
    option("--model", "The name of the model in the database [main].", default="main",
           metavar="NAME"),
)  # fmt: skip
def import_() -> None:
    """Convert a folder of decisions of an earlier version.

    All events are replayed, from the folder and from the database. If the learners are not equal
    bit for bit, nothing is imported. FOLDER is not changed.
    """


@command(
    "online.check_database",
    option("--data", "The folder of the database.", type=PATH, metavar="FOLDER"),
    option("--database", "The file of the database, instead of --data.", type=PATH,
           metavar="FILE"),
    JSON,
)  # fmt: skip
def check() -> None:
    """Check the database of a service, and report what is damaged.

    Checks the file, that no event is missing or altered, and that every snapshot equals the replay
    of the events. It only reads, so it can run beside the service.
    """
