"""The commands and their options.

A command here consists of its options, its help text, and the name of the function that carries it
out. That function is imported when the command is called, so that `--help` is fast.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

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


def option(name: str, text: str, *names: str, shown: str | None = None, **more: Any) -> Decorator:
    """An option with this help text, which shows its default; `shown` is the default in words."""
    return click.option(name, *names, help=text, show_default=shown or "default" in more, **more)


def parsed_by(parse: Callable[[Any], Any]) -> Any:
    """A callback of click that parses an option's value."""
    return lambda context, parameter, value: parse(value)


# Completion in a shell. Names are imported when the user asks for them.


def completed_by(names: Callable[[], Iterable[str]]) -> Any:
    """A callback of click that completes names."""

    def complete(context: Any, parameter: Any, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in names() if name.startswith(incomplete)]

    return complete


def complete_folder(context: Any, parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete folders."""
    return [CompletionItem(incomplete, type="dir")]


def complete_configuration(context: Any, parameter: Any, incomplete: str) -> list[CompletionItem]:
    """Complete the configurations of the package, and let the shell complete files.

    Bash forgets the items before one of type "file", and completes files only if there are no other
    items. So the files that are likely to be meant are listed as well.
    """
    from switchmdp.experiments.spec import shipped

    shipped_names = [name for name in shipped() if name.startswith(incomplete)]
    bash = os.environ.get("_SWITCHMDP_COMPLETE") == "bash_complete"
    files = sorted(glob.glob(f"{glob.escape(incomplete)}*.toml")) if bash else []
    names = [CompletionItem(name) for name in [*shipped_names, *files]]
    return [CompletionItem(incomplete, type="file"), *names]


def registered(module: str, registry: str) -> Callable[[], Iterable[str]]:
    """A function that returns the names in a registry."""
    return lambda: getattr(import_module(f"switchmdp.{module}"), registry)


AGENTS = completed_by(registered("agents", "AGENTS"))
PROBLEMS = completed_by(registered("problems", "PROBLEMS"))


def out(text: str, shown: str, default: str | None = None) -> Decorator:
    """The option for the output folder."""
    return option(
        "--out", text, type=PATH, default=default, shown=shown, metavar="FOLDER",
        shell_complete=complete_folder,
    )  # fmt: skip


def problems_option(text: str, shown: str | None = None) -> Decorator:
    """The option for the number of problems."""
    return option(
        "--problems", text, type=click.IntRange(1, MOST_PROBLEMS), shown=shown, metavar="N"
    )


def set_option(example: str) -> Decorator:
    """The option for other parameters of an agent."""
    return option(
        "--set", f"A parameter of the agent, such as {example}; may be repeated.", "others",
        multiple=True, metavar="NAME=VALUE", callback=parsed_by(parse_settings),
    )  # fmt: skip


FOLDER = click.argument("folder", type=PATH, shell_complete=complete_folder)
# `main` reads these two itself: they also apply to errors in the other options.
JSON = option("--json", "Print JSON, one object per line.", is_flag=True, expose_value=False)
QUIET = option("--quiet", "Print only errors and warnings.", is_flag=True, expose_value=False)
TRUST = option(
    "--trust",
    "Import and run the modules that the experiment file names (see SECURITY.md).",
    is_flag=True, default=None, shown="only if SWITCHMDP_TRUST=1",
)  # fmt: skip

RUNNING = (  # the options of every command that runs experiments
    option("--jobs", "The number of workers.", type=click.IntRange(1, 1024), shown="one per core",
           metavar="N"),
    option("--executor", "threads, processes, or auto: threads for compiled agents, processes for "
           "plain Python ones.", type=click.Choice(["auto", "threads", "processes"]),
           default="auto", metavar="KIND"),
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
    option("--database", "The database: a file (.sqlite or .db) or postgresql://USER@HOST/NAME "
           "(for several workers), instead of --data.", shown="switchmdp.sqlite in this folder",
           metavar="FILE|URL"),
    option("--agent", "The agent of the model `main`, such as sw-ucrl (`switchmdp agents` lists "
           "them). Agents that need the problem or its change points can't be served.",
           shown="the agent in the database; for a new model evidence-psrl", metavar="NAME",
           shell_complete=AGENTS),
    option("--states", "The number of states of the model `main`. Without it, create models with "
           "POST /models.", type=click.IntRange(1), metavar="N"),
    option("--actions", "The number of actions.", type=click.IntRange(1), metavar="N"),
    option("--window", "The number of steps that the agent remembers, if it has a window.",
           type=click.IntRange(1), metavar="W"),
    option("--delta", "The agent's probability of error.", type=float,
           shown="the agent's default", metavar="P"),
    set_option("changes=4"),
    option("--warm-start", "Before serving, learn from a CSV file with the columns "
           "state,action,reward,next_state, or from another database. Only for a new database.",
           type=PATH, metavar="PATH"),
    option("--replan", "inline: a decision waits while the agent plans; background: the old "
           "policy decides while the agent plans.", shown="the stored setting, or else inline",
           type=click.Choice(["inline", "background"]), metavar="HOW"),
    option("--expiry", "How long a decision waits for feedback. Only the time during which the "
           "service runs counts.", type=float, shown="the stored setting, or else 3600",
           metavar="SECONDS"),
    option("--host", "The address to listen on; other machines can connect only if there is a "
           "token.", default="127.0.0.1", metavar="ADDRESS"),
    option("--port", "The port to listen on; 0 picks a free one.",
           type=click.IntRange(0, 65535), default=8000, metavar="N"),
    option("--token-file", "A file with the bearer token that callers must send. Further lines "
           "`TOKEN PATTERN...` are tokens for models whose names match.", type=PATH,
           shown="the environment variable SWITCHMDP_TOKEN", metavar="FILE"),
    option("--metrics-token-file", "A file with a token that only allows GET /metrics.", type=PATH,
           shown="the environment variable SWITCHMDP_METRICS_TOKEN", metavar="FILE"),
    option("--memory", "The memory for models; those that do not fit are loaded on demand.",
           type=click.IntRange(1), default=1024, metavar="MIB"),
    option("--address", "The URL at which other workers reach this one; only for PostgreSQL.",
           shown="the address it listens on", metavar="URL"),
    option("--rate", "The largest number of requests per second from a client.",
           type=click.FloatRange(0, min_open=True), default=5000.0, metavar="N"),
    option("--max-body", "The largest request body.", type=click.IntRange(1), default=65536,
           metavar="BYTES"),
    option("--no-sync", "Answer without waiting for the disk. If the machine crashes, acknowledged "
           "decisions may be lost; if only the process crashes, none are.", is_flag=True),
)  # fmt: skip


SECTIONS = {
    "Experiments": (
        "reproduce", "run", "resume", "status", "report", "verify", "export", "leaderboard",
    ),
    "Information": ("agents", "problems", "schema", "doctor"),
    "Decision service": ("serve", "replay", "check", "import"),
}  # fmt: skip


class _InSections(click.Group):
    """Lists commands in sections."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return [name for names in SECTIONS.values() for name in names]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their summaries."""
        for section, names in SECTIONS.items():
            with formatter.section(section):
                limit = formatter.width - 6 - max(map(len, self.commands))
                rows = [(name, self.commands[name].get_short_help_str(limit)) for name in names]
                formatter.write_dl(rows, col_max=20)


@click.group(
    cls=_InSections, context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 2 usage or configuration error, 3 some runs failed, 4 damaged "
           "or foreign folder, 5 disk full, 130 and 143 stopped by a signal.",
)  # fmt: skip
@click.version_option(__version__, message="switchmdp %(version)s")
def cli() -> None:
    """Reinforcement learning in finite MDPs whose rewards and transitions change.

    To start: `switchmdp run --help` shows an example of a configuration.
    """


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
    click.argument("paper", type=click.Choice(["sw-ucrl", "r-bocpd"]), default="sw-ucrl"),
    out("Folder for the results.", "results/figure-1, or results/r-bocpd"),
    problems_option("Problems per setting.", "1000, or 300 for r-bocpd"),
    option("--sensitivity", "Also vary the details that the paper leaves open.", is_flag=True),
    *RUNNING,
)
def reproduce() -> None:
    """Run a paper's experiment and check its claims.

    \b
    PAPER is one of
      sw-ucrl   Gajane, Ortner and Auer (2018), Figure 1 (a) and (b); the default
      r-bocpd   Alami, Mahfoud and Moulines (2023), Figure 2

    The report has tables, a verdict on every claim, and figures. It is the same as
    `switchmdp run figure-1` or `switchmdp run r-bocpd`.
    """


@command(
    "run.run_named",
    click.argument("config", shell_complete=complete_configuration),
    out("Folder for the results.", "results/ and the name of CONFIG"),
    problems_option("Problems per setting, instead of n_problems in CONFIG."),
    TRUST,
    *RUNNING,
)
def run() -> None:
    """Run an experiment and write its report.

    CONFIG is a TOML file, or the name of a configuration that comes with the package: figure-1,
    sensitivity, window-scan, r-bocpd, r-bocpd-sensitivity.
    Running the command again resumes it. An example:

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

    Missing and damaged results are computed. All other results stay as they are.
    """


@command("information.show_status", FOLDER, JSON)
def status() -> None:
    """Show how many runs are done, and which failed."""


@command("run.write_and_show", FOLDER, out("Folder for the report.", "FOLDER/report"), JSON)
def report() -> None:
    """Write the figures, tables and page of an experiment.

    If the experiment is not complete, the report covers the runs that are done.
    """


@command(
    "information.verify_folder",
    FOLDER,
    option("--recompute", "Also compute N chunks again and compare every byte.",
           type=click.IntRange(0), default=0, metavar="N"),
    TRUST,
    JSON,
)  # fmt: skip
def verify() -> None:
    """Check every stored result against its checksum."""


@command(
    "information.export_results",
    click.argument("folder", type=PATH, required=False, shell_complete=complete_folder),
    option("--format", "The file format; may be repeated.", "formats",
           type=click.Choice(["csv", "parquet"]), multiple=True,
           shown="both, or csv if pyarrow is not installed; with --database csv"),
    out("Folder for the tables; with --database, the file, which ends in .csv or .parquet.",
        "FOLDER/export or MODEL.csv"),
    option("--database", "Export the decisions of a service instead: the file of its database, its "
           "folder, or postgresql://USER@HOST/NAME.", metavar="FILE|URL"),
    option("--model", "The model whose decisions are exported.",
           shown="the only model, or main", metavar="NAME"),
    JSON,
)  # fmt: skip
def export() -> None:
    """Write all runs, or decisions of a service, as tables.

    The runs of an experiment become four tables: regret (with the columns setting, agent, problem,
    step, regret and pseudo_regret), runs, problems and agents.

    The table of decisions has the columns time, session, decision, state, action, arm, probability,
    reward, next_state, state_name, action_name and next_state_name, in the order of the feedback.
    """


@command(
    "run.run_leaderboard",
    out("Folder for the results.", "results/leaderboard, with the name of the suite and the agent"),
    option("--suite", "The rows of problems: the open suite; the closed one, which is run once per "
           "release; or a short preview.", "suite_name",
           type=click.Choice(["open", "closed", "quick"]), default="open"),
    option("--quick", "The same as --suite quick.", "suite_name", flag_value="quick"),
    option("--row", "Run only this row, such as far-bank; may be repeated.", "rows",
           multiple=True, metavar="NAME", shown="every row"),
    option("--agent", "Run only this agent (a registered name, or module:Class for your own), and "
           "rank it among the published results.", metavar="NAME", shell_complete=AGENTS),
    set_option("width=0.1"),
    *RUNNING,
)  # fmt: skip
def leaderboard() -> None:
    """Run every suitable agent on every kind of change.

    Each agent's parameters are tuned on separate problems and then fixed. Running the command again
    resumes it. With --shard, run the command again once all shards are done.

    \b
      switchmdp leaderboard --agent my_module:MyAgent

    adds your own agent to the published results. Only your agent is run.
    """


@command("online.serve_database", *SERVING)
def serve() -> None:
    """Serve decisions over HTTP, and learn from their outcomes.

    \b
      switchmdp serve
      curl --json '{"name": "shop", "states": ["new", "regular"],
                    "actions": ["book", "game"]}' localhost:8000/models
      curl --json '{"state": "new"}' localhost:8000/models/shop/decisions
      curl --json '{"reward": 1, "next_state": "regular"}' \\
           localhost:8000/models/shop/decisions/ID/feedback

    Decisions and feedback are on disk before the service answers. After a stop or a crash, run the
    same command again: it continues where it stopped. / is a live page, and /docs describes all
    routes.

    With --states and --actions there is a model `main`. Its routes also work without
    /models/main, such as /decisions.
    """


@command("information.show_agents", click.argument("name", required=False, shell_complete=AGENTS))
def agents() -> None:
    """List the agents and their parameters, or describe one."""


@command(
    "information.show_problems", click.argument("name", required=False, shell_complete=PROBLEMS)
)
def problems() -> None:
    """List the problems and their parameters, or describe one."""


@command("information.show_schema")
def schema() -> None:
    """Print the JSON schema of experiment files, for editors."""


@command("information.check_installation")
def doctor() -> None:
    """Check this installation: versions, extras, compiler, disk."""


@command(
    "online.replay_log",
    click.argument("log", required=False),
    option("--database", "The same as LOG.", metavar="FILE|URL"),
    option("--model", "The model to replay.", shown="the only model, or main", metavar="NAME"),
    option("--agent", "The agent to evaluate; any agent that can be served.", default="sw-ucrl",
           metavar="NAME", shell_complete=AGENTS),
    option("--window", "The agent's window; may be repeated to compare several.", type=int,
           multiple=True, shown="several, where the agent needs one", metavar="N"),
    option("--period", "Steps between restarts; may be repeated.", type=int, multiple=True,
           metavar="N"),
    option("--changes", "The number of changes that the agent expects; may be repeated.", type=int,
           multiple=True, metavar="N"),
    option("--delta", "The agent's probability of error.", type=float,
           shown="that of the log's agent", metavar="P"),
    set_option("horizon=10000"),
    JSON,
)  # fmt: skip
def replay() -> None:
    """Verify stored decisions, and evaluate an agent on them.

    LOG (or --database) is the database of `serve` or `online.Decisions`: a file, its folder, or
    postgresql://...

    First, all events are applied from the beginning, to check that they give the same learner, bit
    for bit. Then the agent predicts the stored steps one by one. It is compared with two baselines:
    an agent that never forgets, and one that remembers only the last visit to each pair.
    """


@command(
    "online.import_old_folder",
    FOLDER,
    option("--database", "The database to add to.", shown="FOLDER/switchmdp.sqlite",
           metavar="FILE|URL"),
    option("--model", "The name of the model in the database.", default="main",
           metavar="NAME"),
)  # fmt: skip
def import_() -> None:
    """Convert a folder of decisions of an earlier version.

    All events are replayed, from the folder and from the database. If the learners are not equal
    bit for bit, nothing is imported. FOLDER is not changed.
    """


@command(
    "online.check_database",
    click.argument("log", required=False),
    option("--data", "The same as LOG, for a folder.", type=PATH, metavar="FOLDER"),
    option("--database", "The same as LOG.", metavar="FILE|URL"),
    JSON,
)  # fmt: skip
def check() -> None:
    """Check the database of a service, and report any damage.

    LOG (or --database) is the database of `serve` or `online.Decisions`: a file, its folder, or
    postgresql://...

    Checks that the file is intact, that no event is missing or altered, and that every snapshot
    equals the replay of the events. It only reads, so it can run at the same time as the service.
    """
