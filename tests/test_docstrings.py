"""Every public function, class and method documents what a caller needs to know (numpydoc)."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, NamedTuple, get_origin

import pytest
from pydantic import BaseModel

import switchmdp as sm
from switchmdp import errors
from switchmdp.agents import Agent, AgentLike
from switchmdp.agents.components import EpisodeRule, Exploration, Memory, PlausibleSet, RestartRule
from switchmdp.agents.protocol import PUBLIC
from switchmdp.compiled import classes_of

PACKAGES = (
    "", "agents", "agents.components", "client", "compiled", "concurrency", "contract", "display",
    "errors", "experiments", "gym", "mdp", "memory", "online",
    "planning", "plausible", "problems", "randomness", "reports", "restarts", "simulation",
    "storage", "theory", "validation",
)  # fmt: skip
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n(.*?)(?=^\w[\w ]*\n-{3,}$|\Z)", re.M | re.S)
ENTRY = re.compile(r"^([\w.*][^\n:]*?)\s*(?::.*)?$", re.M)
INTERFACES = (AgentLike, Memory, PlausibleSet, EpisodeRule, RestartRule, Exploration)
DOCUMENTED_BY_INTERFACES = {
    name for interface in INTERFACES for name in vars(interface) if not name.startswith("_")
}
COMPILED = set(classes_of("switchmdp").values())
NOTHING = ("None", "NoReturn", "Iterator[None]")  # of functions, and of context managers
TYPED = {name for name in vars(errors) if isinstance(getattr(errors, name), type)}


class Documented(NamedTuple):
    """A public object and its name."""

    name: str
    thing: Any
    owner: type | None = None  # of a method

    @property
    def text(self) -> str:
        return inspect.getdoc(_plain(self.thing)) or ""

    @property
    def sections(self) -> dict[str, str]:
        return dict(SECTION.findall(self.text))


def _plain(thing: Any) -> Any:
    """The function under a decorator, a method or a dispatcher of machine code."""
    thing = getattr(thing, "__func__", thing)
    thing = getattr(thing, "py_func", thing)
    return inspect.unwrap(thing) if callable(thing) else thing


def _ours(thing: Any) -> bool:
    return str(getattr(_plain(thing), "__module__", "")).startswith("switchmdp")


def names_of(module: Any) -> list[str]:
    """The public names of a module: `__all__`, or all that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    ]


def public_objects(package: str) -> list[Documented]:
    """The functions, classes and methods that a package makes public, inherited ones once."""
    found = {each.name: each for each in _walk(package)}
    return list(found.values())


def _walk(package: str) -> Iterator[Documented]:
    module = importlib.import_module(f"switchmdp.{package}") if package else sm
    for name in names_of(module):
        thing = getattr(module, name)
        if not callable(thing) or not _ours(thing) or get_origin(thing) is not None:
            continue
        yield Documented(name, thing)
        if inspect.isclass(thing):
            for method in methods_of(thing):
                content = inspect.getattr_static(thing, method)
                plain = _plain(content)
                if not _ours(plain):
                    continue
                if isinstance(content, property):
                    plain = content.fget
                if inspect.isfunction(plain):
                    yield Documented(plain.__qualname__, content, thing)


def methods_of(cls: type) -> list[str]:
    """The public methods and properties of a class.

    Of an agent `dir` lists the public ones only. Of a component these are the methods of its
    interface; all others are for machine code.
    """
    names = [name for name in dir(cls) if not name.startswith("_")]
    if issubclass(cls, Agent):
        return [name for name in names if name in PUBLIC]
    if cls in COMPILED:
        return [name for name in names if name in DOCUMENTED_BY_INTERFACES]
    return names


def takes_nothing(cls: type) -> bool:
    """Errors, protocols, and classes without a constructor."""
    if issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False):
        return True
    return cls.__init__ is object.__init__ and "__new__" not in vars(cls)  # type: ignore[misc]


def inherits_documentation(documented: Documented) -> bool:
    """Whether an interface, or the method that it overrides, documents a method."""
    name, cls = documented.name.rpartition(".")[2], documented.owner
    if cls is None or getattr(cls, "_is_protocol", False):
        return False
    if name in DOCUMENTED_BY_INTERFACES and (issubclass(cls, Agent) or cls in COMPILED):
        return True
    owners = [base for base in cls.__mro__ if name in vars(base)]
    return any("Parameters" in Documented(name, vars(base)[name]).sections for base in owners[1:])


def parameters_of(thing: Any) -> list[str]:
    """The names that a caller may pass."""
    if isinstance(thing, property):
        return []
    if inspect.isclass(thing) and issubclass(thing, tuple):
        return list(getattr(thing, "_fields", ()))
    if inspect.isclass(thing) and takes_nothing(thing):
        return []
    function = _plain(thing)
    names = list(inspect.signature(function).parameters)
    if "." in function.__qualname__ and names[:1] in (["self"], ["cls"]):
        del names[0]
    return [name for name in names if not name.startswith("_")]


def documented_parameters(section: str) -> list[str]:
    """The names in a section: lines without indentation, several names per line allowed."""
    heads = [line for line in section.splitlines() if line and not line[0].isspace()]
    return [
        name.strip().lstrip("*") for head in heads for name in head.partition(":")[0].split(",")
    ]


def returns_something(thing: Any) -> bool:
    if isinstance(thing, property) or inspect.isclass(thing):
        return False
    result = inspect.signature(_plain(thing)).return_annotation
    return result not in (None, *NOTHING, inspect.Signature.empty)


def raised(thing: Any) -> set[str]:
    """The typed errors that a function raises itself."""
    plain = _plain(thing.fget if isinstance(thing, property) else thing)
    if inspect.isclass(plain):
        plain = plain.__dict__.get("__init__")
    try:
        source = textwrap.dedent(inspect.getsource(plain))
    except (OSError, TypeError):
        return set()
    calls = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    heads = [call.func if isinstance(call, ast.Call) else call for call in calls]
    return {head.id for head in heads if isinstance(head, ast.Name)} & TYPED


def is_accessor(documented: Documented) -> bool:
    """A property, or a method without parameters: one line says all there is to say."""
    return isinstance(documented.thing, property) or (
        documented.owner is not None and not parameters_of(documented.thing)
    )


def faults_of(documented: Documented) -> Iterator[str]:
    """What the docstring of a public object lacks."""
    name, thing, _ = documented
    if not documented.text or documented.text == dict.__doc__:
        yield f"{name}: no docstring"
        return
    if inherits_documentation(documented):
        return
    sections, accessor = documented.sections, is_accessor(documented)
    wanted = [name.lstrip("*") for name in parameters_of(thing)]
    known = documented_parameters(sections.get("Parameters", ""))
    yield from (f"{name}: parameter {each} is missing" for each in wanted if each not in known)
    yield from (f"{name}: there is no parameter {each}" for each in known if each not in wanted)
    if returns_something(thing) and not accessor and not {"Returns", "Yields"} & set(sections):
        yield f"{name}: Returns is missing"
    if not accessor:
        known = documented_parameters(sections.get("Raises", ""))
        yield from (
            f"{name}: Raises {error} is missing"
            for error in sorted(raised(thing))
            if error not in known
        )


EXEMPLARY = ("", "agents", "experiments", "gym", "planning", "problems", "reports", "theory")


def is_record(cls: type) -> bool:
    """Whether a class only holds what functions return, or what a configuration contains."""
    return is_dataclass(cls) or issubclass(cls, (tuple, float, BaseModel)) or takes_nothing(cls)


def lacks_example(documented: Documented) -> bool:
    """Whether a public function, or a class that a user makes, shows no example."""
    thing = documented.thing
    if documented.owner is not None or (inspect.isclass(thing) and is_record(thing)):
        return False
    return ">>>" not in documented.text


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_object_documents_its_parameters_results_and_errors(package: str) -> None:
    faults = [fault for each in public_objects(package) for fault in faults_of(each)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("package", EXEMPLARY)
def test_every_public_function_shows_an_example(package: str) -> None:
    faults = [each.name for each in public_objects(package) if lacks_example(each)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", sorted(set(sm.agents.AGENTS) - {"omniscient", "random"}))
def test_every_agent_that_learns_cites_its_source(name: str) -> None:
    documented = Documented(name, sm.agents.AGENTS[name])
    assert documented.sections.get("References"), name
