"""The commands, each a few lines; the work is done by the library."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from switchmdp.version import __version__

FOLDER = click.argument("folder", type=click.Path(path_type=Path))
JSON = click.option("--json", "as_json", is_flag=True, help="Speak JSON, one object a line.")


def _running(command: Any) -> Any:
    """The options of every command that runs experiments."""
    for option in (
        click.option("--jobs", type=click.IntRange(1, 1024), help="Workers [the number of cores]."),
        click.option(
            "--executor", type=click.Choice(["auto", "threads", "processes"]), default="auto",
            show_default=True, help="Where runs run; auto: compiled agents in threads.",
        ),
        click.option("--shard", metavar="I/N", help="Do only the I-th of N parts."),
        click.option("--dask", metavar="ADDRESS", help="A Dask scheduler's address, or `local`."),
        click.option("--quiet", is_flag=True, help="No progress."),
        JSON,
    ):  # fmt: skip
        command = option(command)
    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="switchmdp %(version)s")
def cli() -> None:
    """Reinforcement learning in finite MDPs whose rewards and transitions change."""


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("results/figure-1"),
              show_default=True, help="Folder for the results.")  # fmt: skip
@click.option("--problems", type=click.IntRange(1), help="Problems per setting [1000].")
@click.option("--sensitivity", is_flag=True, help="Also vary what the paper leaves open; scan W.")
@_running
def reproduce(out: Path, problems: int | None, sensitivity: bool, **how: Any) -> int:
    """The paper's experiment: Figure 1 (a) and (b), its claims judged, one page to show."""
    from switchmdp.cli.run import run_named

    codes = [run_named("figure-1", out, problems, **how)]
    for name in ("sensitivity", "window-scan") if sensitivity and codes == [0] else ():
        codes.append(run_named(name, out.with_name(f"{out.name}-{name}"), problems, **how))
    return max(codes)


@cli.command()
@click.argument("config")
@click.option("--out", type=click.Path(path_type=Path), help="Folder [results/NAME OF CONFIG].")
@click.option("--problems", type=click.IntRange(1), help="Another number of problems per setting.")
@_running
def run(config: str, out: Path | None, problems: int | None, **how: Any) -> int:
    """Run the experiment in CONFIG: a TOML file, or the name of a shipped one."""
    from switchmdp.cli.run import run_named

    return run_named(config, out or Path("results") / Path(config).stem, problems, **how)


@cli.command()
@FOLDER
@click.option("--retry-failed", is_flag=True, help="Run failed runs again, too.")
@_running
def resume(folder: Path, retry_failed: bool, **how: Any) -> int:
    """Go on with an experiment that was interrupted."""
    from switchmdp.cli.run import resume_folder

    return resume_folder(folder, retry_failed, **how)


@cli.command()
@FOLDER
@JSON
def status(folder: Path, as_json: bool) -> int:
    """How far an experiment has come, and what failed."""
    from switchmdp.cli.inspect import show_status

    return show_status(folder, as_json)


@cli.command()
@FOLDER
@click.option("--out", type=click.Path(path_type=Path), help="Folder for it [FOLDER/report].")
def report(folder: Path, out: Path | None) -> int:
    """Draw the figures, write the tables and the page of an experiment."""
    from switchmdp.cli.run import write_and_show

    return write_and_show(folder, out)


@cli.command()
@FOLDER
@click.option("--recompute", type=click.IntRange(0), default=0, metavar="N",
              help="Also run N chunks again, and compare every byte.")  # fmt: skip
@JSON
def verify(folder: Path, recompute: int, as_json: bool) -> int:
    """Check every stored result against its checksum."""
    from switchmdp.cli.inspect import verify_folder

    return verify_folder(folder, recompute, as_json)


@cli.command()
@FOLDER
@click.option("--format", "formats", type=click.Choice(["csv", "parquet"]), multiple=True,
              help="Which files [both, if Parquet can be written].")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Folder for them [FOLDER/export].")
def export(folder: Path, formats: tuple[str, ...], out: Path | None) -> int:
    """Write tidy tables of all runs, as CSV and Parquet."""
    from switchmdp.cli.inspect import export_folder

    return export_folder(folder, formats, out)


@cli.command()
def agents() -> None:
    """List the agents, and what they take."""
    from switchmdp.agents import AGENTS
    from switchmdp.cli.inspect import show_registry
    from switchmdp.experiments.build import GIVEN_TO_AGENTS

    show_registry(AGENTS, GIVEN_TO_AGENTS)


@cli.command()
def problems() -> None:
    """List the problems, and what they take."""
    from switchmdp.cli.inspect import show_registry
    from switchmdp.experiments.build import GIVEN_TO_PROBLEMS
    from switchmdp.problems import PROBLEMS

    show_registry(PROBLEMS, GIVEN_TO_PROBLEMS)


@cli.command()
def schema() -> None:
    """Print the JSON schema of configuration files, for editors."""
    import json

    from switchmdp.experiments.spec import schema as found

    click.echo(json.dumps(found(), indent=2))


@cli.command()
def doctor() -> int:
    """Check this installation: versions, extras, the compiler and its cache."""
    from switchmdp.cli.doctor import examine

    return examine(sys.stdout)
