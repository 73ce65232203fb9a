"""What is released: addresses, versions, the files of a wheel, and suggested commands."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import click
import pytest
from packaging.requirements import Requirement

from switchmdp.cli.commands import cli
from switchmdp.version import __version__

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OPTION = re.compile(r"--[a-z][a-z-]*")
HOME = PROJECT["urls"]["Homepage"]
RAW = HOME.replace("github.com", "raw.githubusercontent.com")
COMMAND = re.compile(r"(?<!from)[ `]switchmdp ")  # few modules have one, and parsing takes a while


def strings(path: Path) -> Iterator[str]:
    """The string constants of a module; what f-strings insert is written as X."""
    inside: set[ast.AST] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.JoinedStr):
            inside.update(node.values)
            parts = (p.value if isinstance(p, ast.Constant) else "X" for p in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and node not in inside:
            yield str(node.value)


def suggested_commands() -> Iterator[tuple[str, str]]:
    """The commands in the messages and help texts of the package, and on its pages."""
    for path in SOURCES:
        for text in strings(path) if COMMAND.search(path.read_text("utf-8")) else ():
            for found in re.findall(r"`switchmdp ([^`]+)`", text):
                yield f"{path.name}: {found}", found
            for found in re.findall(r"(?:with|:|,) switchmdp ([a-z]+ [^`\n]+)$", text):
                yield f"{path.name}: {found}", found
            for found in re.findall(r"^ +switchmdp ([a-z](?:.*\\\n)*.*)$", text, re.M):
                yield f"{path.name}: {found}", found
    for path in PAGES:
        text = path.read_text("utf-8")
        for found in re.findall(r"`switchmdp ([^`\n]+)`", text):
            yield f"{path.name}: {found}", found
        for language, block in re.findall(r"```(\w*)\n(.*?)```", text, re.S):
            if language not in ("", "bash", "sh", "console"):
                continue
            for found in re.findall(r"^(?:\$ )?switchmdp ((?:.*\\\n)*.*)$", block, re.M):
                yield f"{path.name}: {found}", found


def parse(command: str) -> None:
    """Parse a command as the command line does, without carrying it out."""
    words = shlex.split(command.replace("\\\n", " ").rstrip(".:"), comments=True)
    end = next((i for i, word in enumerate(words) if word in (">", "|", "&&", "&")), len(words))
    arguments = [word.replace("...", "") for word in words[:end]]
    if arguments == ["--version"]:
        return
    name, *rest = arguments
    parent = click.Context(cli, **cli.context_settings)  # commands remember its names for --help
    with cli.commands[name].make_context(name, rest, parent):
        pass


@pytest.mark.parametrize("command", [c for _, c in suggested_commands()])
def test_every_command_that_a_text_suggests_can_be_parsed(command: str) -> None:
    try:
        parse(command)
    except click.exceptions.Exit:  # --help
        pass
    except click.MissingParameter:  # "`switchmdp run` resumes": only the command is named
        assert len(command.split()) == 1


def test_commands_are_found_in_messages_help_texts_and_pages() -> None:
    places = {place.partition(":")[0] for place, _ in suggested_commands()}
    assert {"commands.py", "sqlite.py", "README.md", "experiments.md"} <= places
    assert sum(place.startswith("experiments.md") for place, _ in suggested_commands()) > 10


def options_named_in(text: str) -> set[str]:
    """The options that are explained in the running text of a page: `--name VALUE`."""
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return {found for span in re.findall(r"`(--[^`]+)`", prose) for found in OPTION.findall(span)}


def test_every_option_that_a_page_explains_exists() -> None:
    existing = {
        option
        for command in [cli, *cli.commands.values()]
        for parameter in command.params
        for option in parameter.opts
    }
    named = {path.name: options_named_in(path.read_text("utf-8")) for path in PAGES}
    assert {"--shard", "--dask", "--json"} <= named["experiments.md"]
    foreign = {"--build-arg"}  # of docker
    assert set().union(*named.values()) - existing <= foreign


def test_every_extra_that_a_text_names_exists() -> None:
    extras = set(PROJECT["optional-dependencies"])
    for path in [*SOURCES, *PAGES]:
        for names in re.findall(r"(?:switchmdp|\.)\[([a-z, ]+)\]'?", path.read_text("utf-8")):
            assert set(re.split(r", *", names)) <= extras, f"{path.name}: [{names}]"


def test_every_make_target_that_a_text_names_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for path in [*SOURCES, *PAGES]:
        for name in re.findall(r"`make ([a-z]+)", path.read_text("utf-8")):
            assert name in targets, f"{path.name}: make {name}"


def test_the_readme_has_absolute_links_that_lead_to_existing_files() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(links) > 10
    for link in links:
        assert link.startswith(("https://", "#")), link
        for base in (f"{HOME}/blob/main/", f"{RAW}/main/"):
            if link.startswith(base):
                assert (ROOT / link.removeprefix(base).partition("#")[0]).exists(), link


def test_all_addresses_of_the_project_are_those_of_the_metadata() -> None:
    for name in ("README.md", "CITATION.cff", "docs/citing.md"):
        text = (ROOT / name).read_text("utf-8")
        for link in re.findall(r"https://[^\s)\"}>]*switchmdp[^\s)\"}>]*", text):
            assert link.startswith((HOME, RAW, PROJECT["urls"]["Documentation"])), link


def test_the_readme_is_short_and_its_first_example_has_eight_lines() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count("\n") <= 150
    first = re.findall(r"```python\n(.*?)```", text, re.S)[0]
    assert len([line for line in first.splitlines() if line]) <= 8


def test_all_files_name_the_same_version() -> None:
    assert re.search(rf"^version: {re.escape(__version__)}$", read("CITATION.cff"), re.M)
    assert f"{{{__version__}}}" in read("docs/citing.md")
    assert re.findall(r"^## (\S+)", read("CHANGELOG.md"), re.M)[0] == __version__


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def needed(name: str, found: set[str]) -> set[str]:
    """A distribution and all that it needs without extras, added to `found`."""
    if name not in found:
        found.add(name)
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed(requirement.name.lower().replace("_", "-"), found)
    return found


def test_the_base_installation_has_at_most_twelve_packages() -> None:
    found = {"switchmdp"}
    for line in PROJECT["dependencies"]:
        needed(Requirement(line).name, found)
    assert len(found) <= 12, sorted(found)


def test_a_wheel_contains_every_data_file(tmp_path: Path) -> None:
    command: list[Any] = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.iterdir()
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = ROOT / "src" / "switchmdp"
    data = [
        path for path in package.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    ]  # fmt: skip
    assert {path.suffix for path in data} >= {".toml", ".npz", ".html", ".js", ".css", ".typed"}
    for path in data:
        assert str(Path("switchmdp") / path.relative_to(package)) in inside
