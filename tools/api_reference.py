"""The pages of the API reference: one for each public package, made from its `__all__`.

    pages()           the Markdown of every page, by its name
    undocumented()    the public functions and classes whose docstring lacks something

mkdocstrings replaces each line `::: name` of a page by the documentation of that name.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any, get_origin

import click

import switchmdp
from switchmdp.cli.commands import cli

TOP = "switchmdp"
PACKAGES = (
    "mdp", "problems", "planning", "agents", "memory", "plausible", "restarts", "simulation",
    "contract", "experiments", "reports", "gym", "online", "client", "theory", "compiled",
    "validation", "errors",
)  # fmt: skip


def pages() -> dict[str, str]:
    """The Markdown of every page of the reference, by the page's name."""
    made = {package: _package_page(package) for package in PACKAGES}
    return {TOP: _top_page(), **made, "command-line": _command_line_page()}


def public_names(package: str) -> list[str]:
    """The public names of a package or module: `__all__`, or what it defines itself."""
    module = importlib.import_module(f"{TOP}.{package}")
    if hasattr(module, "__all__"):
        return list(module.__all__)
    ours = [(k, v) for k, v in vars(module).items() if not k.startswith("_")]
    return [k for k, v in ours if getattr(v, "__module__", "") == module.__name__]


def identifier(package: str, name: str) -> str:
    """The full name of an object; of a function with the name of its module, that in the module."""
    path = f"{TOP}.{package}.{name}"
    return f"{path}.{name}" if path in sys.modules else path


def undocumented() -> list[str]:
    """The public functions and classes whose docstring lacks something, and what it lacks."""
    top = [(name, getattr(switchmdp, name)) for name in switchmdp.__all__]
    found = [(f"{TOP}.{name}", thing) for name, thing in top]
    for package in PACKAGES:
        module = importlib.import_module(f"{TOP}.{package}")
        found += [
            (f"{TOP}.{package}.{name}", getattr(module, name)) for name in public_names(package)
        ]
    return [f"{name}: {fault}" for name, thing in found for fault in _faults(thing)]


def _faults(thing: Any) -> Iterator[str]:
    if not _is_documented_kind(thing):
        return
    text = inspect.getdoc(thing) or ""
    if not text:
        yield "no docstring"
    if _takes_parameters(thing) and not _has_section(text, "Parameters"):
        yield "no section Parameters"
    if _returns_something(thing) and not _has_section(text, "Returns", "Yields"):
        yield "no section Returns"


def _is_documented_kind(thing: Any) -> bool:
    is_alias = get_origin(thing) is not None
    return not is_alias and (inspect.isclass(thing) or inspect.isroutine(thing))


def _has_section(text: str, *names: str) -> bool:
    return any(re.search(rf"^{name}\n-{{3,}}$", text, re.M) for name in names)


def _takes_parameters(thing: Any) -> bool:
    """Whether callers pass parameters; they make no errors, named tuples or protocols."""
    if inspect.isclass(thing):
        is_record = issubclass(thing, (BaseException, tuple))
        is_protocol = getattr(thing, "_is_protocol", False)
        if is_record or is_protocol or thing.__init__ is object.__init__:
            return False
    return bool(inspect.signature(thing).parameters)


def _returns_something(thing: Any) -> bool:
    if inspect.isclass(thing):
        return False
    result = inspect.signature(thing).return_annotation
    nothing = (None, "None", "NoReturn", "Iterator[None]", inspect.Signature.empty)
    return result not in nothing


# The pages ---------------------------------------------------------------------------------------


def _package_page(package: str) -> str:
    module = importlib.import_module(f"{TOP}.{package}")
    names = sorted(public_names(package), key=str.lower)
    kinds = {
        "Classes": [name for name in names if inspect.isclass(getattr(module, name))],
        "Functions": [name for name in names if _is_function(getattr(module, name))],
    }
    rest = [name for name in names if not any(name in kind for kind in kinds.values())]
    parts = [f"# `{TOP}.{package}`", as_markdown(inspect.getdoc(module) or "")]
    for title, members in {**kinds, "Constants and types": rest}.items():
        if members:
            parts.append(f"## {title}")
            if title != "Constants and types":
                parts.append(_overview(package, members))
            parts += [f"::: {identifier(package, name)}" for name in members]
    return "\n\n".join(parts) + "\n"


def _is_function(thing: Any) -> bool:
    return _is_documented_kind(thing) and not inspect.isclass(thing)


def _overview(package: str, names: list[str]) -> str:
    """A table of names, with the first sentence about each."""
    module = importlib.import_module(f"{TOP}.{package}")
    rows = [
        f"| [`{name}`][{identifier(package, name)}] | {_first_sentence(getattr(module, name))} |"
        for name in names
    ]
    return "\n".join(["| name | |", "| --- | --- |", *rows])


def _first_sentence(thing: Any) -> str:
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|")


def _top_page() -> str:
    """What `import switchmdp as sm` offers: links to where it is documented."""
    homes: dict[str, str] = {}
    for package in PACKAGES:
        for name in public_names(package):
            homes.setdefault(name, package)
    rows, here = [], []
    for name in sorted(switchmdp.__all__, key=str.lower):
        thing = getattr(switchmdp, name)
        if inspect.ismodule(thing):
            rows.append(f"| [`sm.{name}`]({name}.md) | {_first_sentence(thing)} |")
        elif _is_documented_kind(thing):
            target = identifier(homes[name], name) if name in homes else f"{TOP}.{name}"
            here += [] if name in homes else [f"::: {target}"]
            rows.append(f"| [`sm.{name}`][{target}] | {_first_sentence(thing)} |")
    table = "\n".join(["| name | |", "| --- | --- |", *rows])
    return "\n\n".join([f"# `{TOP}`", as_markdown(switchmdp.__doc__ or ""), table, *here]) + "\n"


def as_markdown(docstring: str) -> str:
    """A docstring as Markdown: examples with `>>>` become blocks of code.

    >>> print(as_markdown("Text.\\n\\n>>> 1 + 1\\n2\\n\\nMore."))
    Text.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    <BLANKLINE>
    More.
    """
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(
        f"```pycon\n{inspect.cleandoc(each)}\n```" if each.lstrip().startswith(">>>") else each
        for each in paragraphs
    )


def _command_line_page() -> str:
    context = click.Context(
        cli, info_name=TOP, terminal_width=80, max_content_width=80, **cli.context_settings
    )
    return "\n\n".join(["# Command line", *_helps(cli, context)]) + "\n"


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    if context.parent is not None:
        yield f"## `{context.command_path}`"
    yield f"```\n{command.get_help(context)}\n```"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                inner = click.Context(child, info_name=name, parent=context, terminal_width=80)
                yield from _helps(child, inner)
