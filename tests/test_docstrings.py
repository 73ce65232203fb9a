"""Every public function, class and method documents what a caller needs to know (numpydoc).

- Parameters has the names of the signature; for a dataclass these are its fields.
- Returns or Yields is required if there is a result, except for properties and for methods
  without parameters, of which one line says everything.
- Raises has the errors of `switchmdp.errors` that the function raises itself.
- Functions, and classes that users instantiate, show an example. Agents cite their papers.

A method that implements an interface, or overrides a documented method, needs only one line.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, NamedTuple, get_origin

import pytest
from pydantic import BaseModel
from tools import api_reference

import switchmdp as sm
from switchmdp import errors
from switchmdp.agents import Agent, AgentLike
from switchmdp.agents.protocol import (
    PUBLIC,
    EpisodeRule,
    Exploration,
    Memory,
    PlausibleSet,
    RestartRule,
)
from switchmdp.compiled import JIT, classes_of
from switchmdp.compiled.compiler import InnerFunction
from switchmdp.errors import Mismatch

PACKAGES = (
    "", "agents", "agents.protocol", "client", "compiled", "concurrency", "contract", "display",
    "errors", "experiments", "gym", "mdp", "memory", "online", "planning", "plausible", "problems",
    "randomness", "reports", "restarts", "simulation", "storage", "theory", "validation",
)  # fmt: skip
INTERNAL = ("agents.protocol", "concurrency", "display", "randomness", "storage")
# Their examples would have to compile for many seconds, or need files of an earlier version.
WITHOUT_EXAMPLES = {
    "BatchFunction", "Caller", "batch_function", "call_machine_code", "caller", "classes_in",
    "compile_for", "freeze", "import_folder", "is_loaded", "is_on_disk", "machine", "pack",
    "specialised", "thaw", "unpack",
}  # fmt: skip
BASELINES = ("omniscient", "random")  # agents that are not from a paper
INTERFACES = (AgentLike, Memory, PlausibleSet, EpisodeRule, RestartRule, Exploration)
IN_INTERFACES = {name for each in INTERFACES for name in vars(each) if not name.startswith("_")}
COMPILED = set(classes_of("switchmdp").values())
NOTHING = ("None", "NoReturn", "Iterator[None]", "Call[None]")  # also of context managers and calls
OUR_ERRORS = {name for name, error in vars(errors).items() if isinstance(error, type)}
SECTION = re.compile(r"^(\w+)\n-{3,}\n(.*?)(?=^\w+\n-{3,}$|\Z)", re.M | re.S)


class Documented(NamedTuple):
    """A public function, class, method or property."""

    name: str
    content: Any
    owner: type | None = None  # the class of a method or property

    @property
    def text(self) -> str:
        return inspect.getdoc(plain(self.content)) or ""

    @property
    def sections(self) -> dict[str, str]:
        return dict(SECTION.findall(self.text))

    @property
    def is_class(self) -> bool:
        return inspect.isclass(self.content)

    @property
    def is_accessor(self) -> bool:
        """A property, or a method without parameters."""
        is_property = isinstance(self.content, property)
        return is_property or (self.owner is not None and not parameters_of(self.content))


def plain(content: Any) -> Any:
    """The function behind a property, a decorator, a class method or a compiled function."""
    content = content.fget if isinstance(content, property) else content
    content = getattr(content, "__func__", content)
    content = getattr(content, "py_func", content)
    return inspect.unwrap(content) if callable(content) else content


def is_ours(content: Any) -> bool:
    return str(getattr(plain(content), "__module__", "")).startswith("switchmdp")


def names_of(module: Any) -> list[str]:
    """The public names of a module: `__all__`, or all that it defines."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, content in vars(module).items()
        if not name.startswith("_") and getattr(content, "__module__", "") == module.__name__
    ]


def methods_of(cls: type) -> list[str]:
    """The public methods and properties of a class.

    For an agent they are those that `dir` lists, and for a compiled component those of its
    interface. All others are for machine code.
    """
    names = [name for name in dir(cls) if not name.startswith("_")]
    if issubclass(cls, Agent):
        return [name for name in names if name in PUBLIC]
    if cls in COMPILED:
        return [name for name in names if name in IN_INTERFACES]
    return names


def walk(package: str) -> Iterator[Documented]:
    """Everything that a package makes public."""
    module = importlib.import_module(f"switchmdp.{package}") if package else sm
    for name in names_of(module):
        content = getattr(module, name)
        if not callable(content) or not is_ours(content) or get_origin(content) is not None:
            continue
        yield Documented(name, content)
        for method in methods_of(content) if inspect.isclass(content) else ():
            member = inspect.getattr_static(content, method)
            if is_ours(member) and inspect.isfunction(plain(member)):
                yield Documented(plain(member).__qualname__, member, content)


def public(package: str) -> list[Documented]:
    """Everything that a package makes public, inherited methods once."""
    return list({each.name: each for each in walk(package)}.values())


def takes_nothing(cls: Any) -> bool:
    """Whether nobody passes arguments: to errors, protocols, and classes without a constructor."""
    if issubclass(cls, BaseException) or getattr(cls, "_is_protocol", False):
        return True
    return cls.__init__ is object.__init__ and "__new__" not in vars(cls)


def parameters_of(content: Any) -> list[str]:
    """The names that a caller may pass."""
    if inspect.isclass(content) and issubclass(content, tuple):
        return list(getattr(content, "_fields", ()))
    if isinstance(content, property) or (inspect.isclass(content) and takes_nothing(content)):
        return []
    function = plain(content)
    names = list(inspect.signature(function).parameters)
    if "." in function.__qualname__ and names[:1] in (["self"], ["cls"]):
        del names[0]
    return [name for name in names if not name.startswith("_")]


def entries(section: str) -> list[str]:
    """The names in a section: those of all lines that are not indented."""
    heads = [line for line in section.splitlines() if line and not line[0].isspace()]
    return [name.strip(" *") for head in heads for name in head.partition(":")[0].split(",")]


def has_result(content: Any) -> bool:
    if isinstance(content, property) or inspect.isclass(content):
        return False
    result = inspect.signature(plain(content)).return_annotation
    return result not in (None, *NOTHING, inspect.Signature.empty)


def raised(content: Any) -> list[str]:
    """Our errors that a function, or the constructor of a class, raises itself."""
    function = vars(content).get("__init__") if inspect.isclass(content) else plain(content)
    try:
        source = textwrap.dedent(inspect.getsource(function))  # type: ignore[arg-type]
    except (OSError, TypeError):  # generated, or not written in Python
        return []
    raises = [node.exc for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    heads = [error.func if isinstance(error, ast.Call) else error for error in raises]
    return sorted({head.id for head in heads if isinstance(head, ast.Name)} & OUR_ERRORS)


def inherits_documentation(documented: Documented) -> bool:
    """Whether an interface, or the method that it overrides, documents a method."""
    name, cls = documented.name.rpartition(".")[2], documented.owner
    if cls is None or getattr(cls, "_is_protocol", False):
        return False
    if name in IN_INTERFACES and (issubclass(cls, Agent) or cls in COMPILED):
        return True
    _, *overridden = [base for base in cls.__mro__ if name in vars(base)]
    return any("Parameters" in Documented(name, vars(base)[name]).sections for base in overridden)


def faults_of(documented: Documented) -> Iterator[str]:
    """What the docstring of a public object lacks."""
    name, content, _ = documented
    if not documented.text or documented.text.startswith(f"{name}("):  # made by `dataclass`
        yield f"{name}: there is no docstring"
        return
    if inherits_documentation(documented):
        return
    sections = documented.sections
    wanted, found = parameters_of(content), entries(sections.get("Parameters", ""))
    yield from (f"{name}: the parameter {each} is missing" for each in wanted if each not in found)
    yield from (f"{name}: there is no parameter {each}" for each in found if each not in wanted)
    if documented.is_accessor:
        return
    if has_result(content) and not {"Returns", "Yields"} & set(sections):
        yield f"{name}: Returns is missing"
    found = entries(sections.get("Raises", ""))
    yield from (f"{name}: Raises lacks {error}" for error in raised(content) if error not in found)


def lacks_example(documented: Documented) -> bool:
    """Whether a function, or a class that users instantiate, shows no example."""
    cls = documented.content if documented.is_class else None
    is_record = cls and (is_dataclass(cls) or issubclass(cls, (tuple, float, BaseModel)))
    if documented.owner is not None or is_record or (cls and takes_nothing(cls)):
        return False
    return ">>>" not in documented.text


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_object_documents_its_parameters_results_and_errors(package: str) -> None:
    faults = [fault for each in public(package) for fault in faults_of(each)]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("package", [name for name in PACKAGES if name not in INTERNAL])
def test_every_public_function_shows_an_example(package: str) -> None:
    names = {each.name for each in public(package) if lacks_example(each)}
    assert names <= WITHOUT_EXAMPLES


def test_every_page_of_the_reference_is_checked() -> None:
    assert {*api_reference.PACKAGES} == {*PACKAGES} - {"", *INTERNAL}


@pytest.mark.parametrize("name", [name for name in sm.agents.AGENTS if name not in BASELINES])
def test_every_agent_from_a_paper_cites_it(name: str) -> None:
    assert "References" in Documented(name, sm.agents.AGENTS[name]).sections


def test_the_check_finds_what_a_docstring_lacks() -> None:
    def incomplete(known: int, unknown: int) -> int:
        """Add two numbers.

        Parameters
        ----------
        known, other
            Numbers.
        """
        if known > unknown:
            raise Mismatch("the numbers do not increase")
        return known + unknown

    assert list(faults_of(Documented("incomplete", incomplete))) == [
        "incomplete: the parameter unknown is missing",
        "incomplete: there is no parameter other",
        "incomplete: Returns is missing",
        "incomplete: Raises lacks Mismatch",
    ]


def compiled_functions() -> Iterator[tuple[str, Any]]:
    """The compiled functions that show an example; pytest does not find these by itself."""
    for found in pkgutil.walk_packages(sm.__path__, "switchmdp."):
        if found.name.split(".")[1] in ("cli", "client"):
            continue
        for name, content in vars(importlib.import_module(found.name)).items():
            ours = isinstance(content, InnerFunction) and content.__module__ == found.name
            if ours and ">>>" in (content.py_func.__doc__ or ""):
                yield f"{found.name}.{name}", content


@pytest.mark.skipif(not JIT, reason="functions are not compiled, and pytest finds their examples")
def test_the_examples_of_compiled_functions_are_correct() -> None:
    output: list[str] = []
    for name, function in compiled_functions():
        names = dict(function.py_func.__globals__)
        for other, content in names.items():
            if isinstance(content, InnerFunction):  # compiling would take minutes
                names[other] = lambda *arguments, of=content: of._call_interpreted(arguments)
        example = doctest.DocTestParser().get_doctest(
            inspect.getdoc(function.py_func) or "", names, name, None, None
        )
        doctest.DocTestRunner().run(example, out=output.append)
    assert not output, "".join(output)
