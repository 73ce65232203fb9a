"""Finding what a configuration names, in the registry and in user modules."""

from __future__ import annotations

import ast
import hashlib
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from switchmdp.agents import AGENTS
from switchmdp.errors import InvalidExperiment
from switchmdp.experiments import names
from switchmdp.experiments.names import AGENT, PROBLEM


def write(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        file = folder / (name.replace("__in__", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def find(name: str, folder: Path | None = None, *, trust: bool = True) -> Any:
    return names.find_factory("agents.A.agent", name, AGENT, folder, trust)


def find_problem(name: str, folder: Path) -> Any:
    return names.find_factory("problems.P.problem", name, PROBLEM, folder, trust=True)


def agent_of(number: str) -> str:
    """The source of an agent class with a number."""
    verbs = "    def act(self, s): ...\n    def observe(self, s, a, r, t): ...\n"
    return f"class A:\n    n = {number}\n{verbs}"


EMPTY = agent_of("0")
AGENT_OF_N = "from helper import N\n" + agent_of("N")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_registered_name_is_found() -> None:
    assert find("ucrl2") is AGENTS["ucrl2"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ucrl-2", "unknown agent 'ucrl-2'; did you mean 'ucrl2'.$"),
        ("UCRL2", "unknown agent 'UCRL2'; did you mean 'ucrl2'.$"),
        ("thompson", "one of 'sw-ucrl', .*, or 'module:Name' for your own agent"),
        ("a:b:c", "does not have the form 'module:Name'"),
        ("../toys:Toy", "does not have the form 'module:Name'"),
        (":Toy", "'module:Name'"),
        ("toys:", "'module:Name'"),
        ("toys :Toy", "'module:Name'"),
        ("nowhere_to_be_found:Toy", "can't import 'nowhere_to_be_found' .ModuleNotFoundError"),
        ("toys:Missing", "module 'toys' has no 'Missing'"),
        ("toys:HERE", "a class with the methods act and observe"),
        ("toys:two_states", "a class with the methods act and observe"),
        ("toys:Unspeakable", "a class with the methods act and observe"),
        ("toys:Toy.act", "a class with the methods act and observe"),
        ("os:system", "a class with the methods act and observe"),
        ("toys:Toy.missing", "module 'toys' has no 'Toy.missing'"),
        ("__main__:Mine", "workers can't import; move it to a module, such as my_module.py"),
    ],
)
def test_an_unknown_name_is_rejected(toys: Path, name: str, words: str) -> None:
    with pytest.raises(InvalidExperiment, match=words) as caught:
        find(name, toys)
    (fault,) = caught.value.faults
    assert (fault.path, fault.value) == ("agents.A.agent", name)


LOUD = """
raise SystemExit("imported")

class Helper:
    pass

class Mine:
    def act(self, state): ...
    def observe(self, state, action, reward, next_state): ...
"""


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("mine.py", "write 'mine:Mine'"),
        ("./mine.py", "write 'mine:Mine'"),
        ("mine.py:Mine", "write 'mine:Mine'"),
        ("mine.py:Typo", "write 'mine:Mine'"),
        ("mine.Mine", "write 'mine:Mine'"),
        ("inner/mine.py", "write 'inner.mine:Mine'"),
        ("two-words.py", "write 'two_words:One' or 'two_words:Two', with two_words.py in "),
        ("../mine.py", "write 'mine:Name', with mine.py in "),
        ("missing.py", "write 'missing:Name'"),
        ("broken.py", "write 'broken:Name'"),
    ],
)
def test_for_the_path_of_a_file_the_error_says_what_to_write(
    tmp_path: Path, name: str, advice: str
) -> None:
    folder = tmp_path / "here"
    (folder / "inner").mkdir(parents=True)
    for place in (folder / "mine.py", folder / "inner" / "mine.py"):
        place.write_text(LOUD, "utf-8")
    (folder / "two-words.py").write_text("class One: ...\nclass Two: ...\n", "utf-8")
    (folder / "broken.py").write_text("class One:\n", "utf-8")
    with pytest.raises(InvalidExperiment, match=advice) as caught:
        find(name, folder)
    (fault,) = caught.value.faults
    assert (fault.path, fault.value) == ("agents.A.agent", name)


def test_for_the_path_of_a_file_with_problems_the_error_names_the_marked_functions(
    tmp_path: Path,
) -> None:
    text = "def helper(): ...\n@sm.problems.problem_factory\ndef make(): ...\n"
    (tmp_path / "mine.py").write_text(text, "utf-8")
    with pytest.raises(InvalidExperiment, match=r"unknown problem 'mine.py'; write 'mine:make'$"):
        names.find_factory("problems.P.problem", "mine.py", PROBLEM, tmp_path, trust=True)


@pytest.mark.parametrize("name", ["noisy:Agent", "os:system", "switchmdp.agents:UCRL2"])
def test_without_trust_no_user_module_is_imported(tmp_path: Path, name: str) -> None:
    noise = f"from pathlib import Path\nPath({str(tmp_path / 'imported')!r}).touch()\n"
    write(tmp_path, noisy=noise + EMPTY.replace("class A", "class Agent"))
    before = (sys.path[:], set(sys.modules))
    with pytest.raises(InvalidExperiment, match=r"is not a registered agent; .*--trust"):
        find(name, tmp_path, trust=False)
    assert (sys.path[:], set(sys.modules)) == before
    assert not (tmp_path / "imported").exists()
    if name == "noisy:Agent":
        assert find(name, tmp_path, trust=True).n == 0
        assert (tmp_path / "imported").exists()


def test_registered_names_need_no_trust() -> None:
    assert find("ucrl2", trust=False) is AGENTS["ucrl2"]


@pytest.mark.parametrize(
    ("value", "trusted"), [("1", True), ("0", False), ("", False), ("x", False)]
)
def test_the_environment_decides_about_trust_if_the_caller_does_not(
    monkeypatch: pytest.MonkeyPatch, value: str, trusted: bool
) -> None:
    monkeypatch.delenv("SWITCHMDP_TRUST", raising=False)
    assert not names.is_trusted(None)
    monkeypatch.setenv("SWITCHMDP_TRUST", value)
    assert names.is_trusted(None) is trusted
    assert names.is_trusted(True)
    assert not names.is_trusted(False)


def test_only_marked_functions_are_problem_factories(toys: Path) -> None:
    assert find_problem("toys:two_states", toys)(mean=0.5).n_states == 2
    for name in ("toys:unmarked", "toys:Toy", "toys:HERE", "os:system", "unittest.mock:sentinel.x"):
        with pytest.raises(InvalidExperiment, match=r"marked with .*problem_factory"):
            find_problem(name, toys)


@pytest.mark.parametrize(
    "text", ["raise SystemExit(3)", "1 / 0", "def broken(:", "import nowhere_at_all", "\x00"]
)
def test_any_exception_of_an_import_is_an_error_of_the_configuration(
    tmp_path: Path, text: str
) -> None:
    write(tmp_path, bad=text)
    with pytest.raises(InvalidExperiment, match="can't import"):
        find("bad:Agent", tmp_path)


def test_classes_inside_packages_and_classes_are_found(tmp_path: Path) -> None:
    inner = "class A:\n" + indent(EMPTY.replace("class A", "class B"), "    ")
    write(tmp_path, pack__in____init__="", pack__in__inner=inner)
    assert find("pack.inner:A.B", tmp_path).__qualname__ == "A.B"


def test_digests_cover_the_module_and_the_modules_next_to_it_that_it_imports(
    tmp_path: Path,
) -> None:
    texts = {
        "one": "import numpy\nfrom two import NUMBER\n" + EMPTY,
        "two": "NUMBER = 1\ndef later():\n    import three\n",
        "three": "import one\n",
        "four": "X = 1\n",
    }
    folder = write(tmp_path, **texts)
    find("one:A", folder)
    digests = names.module_digests(["ucrl2", "one:A"], folder)
    assert digests == {name: sha(texts[name]) for name in ("one", "three", "two")}


def test_imports_are_found_even_if_another_thread_disturbs_the_parser(
    toys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = names._files("toys", toys)
    assert [name for name, _, _ in undisturbed] == ["toys", "toy_numbers"]
    parse, errors = ast.parse, [SystemError("AST constructor recursion depth mismatch")]

    def disturbed(text: bytes) -> ast.AST:
        if errors:
            raise errors.pop()
        return parse(text)

    monkeypatch.setattr(ast, "parse", disturbed)
    assert names._files("toys", toys) == undisturbed
    assert not errors


def test_digests_follow_relative_imports_in_packages(tmp_path: Path) -> None:
    texts = {
        "lab__in____init__": "BASE = 1\n",
        "lab__in__agents": "from . import tools\nfrom .deep.er import X\n" + EMPTY,
        "lab__in__tools": "from lab import BASE\n",
        "lab__in__deep__in____init__": "",
        "lab__in__deep__in__er": "X = 2\n",
        "lab__in__unused": "",
    }
    folder = write(tmp_path, **texts)
    find("lab.agents:A", folder)
    digests = names.module_digests(["lab.agents:A"], folder)
    assert list(digests) == ["lab", "lab.agents", "lab.deep", "lab.deep.er", "lab.tools"]


def test_digests_do_not_cover_installed_packages_inside_the_folder(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        mine="import json\nimport switchmdp\nfrom library import thing\n" + EMPTY,
        switchmdp="this = 1\n",
        venv__in__lib__in__library="thing = 1\n",
    )
    sys.path.append(str(folder / "venv" / "lib"))
    find("mine:A", folder)
    assert list(names.module_digests(["mine:A"], folder)) == ["mine"]


def test_modules_of_the_same_name_in_two_folders_are_distinguished(tmp_path: Path) -> None:
    first = write(tmp_path / "1", agent=AGENT_OF_N, helper="N=1\n")
    second = write(tmp_path / "2", agent=AGENT_OF_N, helper="N=22")
    for folder, n in ((first, 1), (second, 22), (first, 1)):
        assert find("agent:A", folder).n == n
        helper = names.module_digests(["agent:A"], folder)["helper"]
        assert helper == sha((folder / "helper.py").read_text())


def test_one_folder_is_searched_at_a_time_and_the_search_path_is_kept(tmp_path: Path) -> None:
    first = write(tmp_path / "1", agent=agent_of("1"))
    second = write(tmp_path / "2", agent=agent_of("22"))
    find("agent:A", first)
    before = sys.path[1:]
    for folder in (second, first, second):
        find("agent:A", folder)
        assert sys.path == [str(folder), *before]
    sys.path[:] = [*before, str(first)]
    find("agent:A", first)
    find("agent:A", second)
    assert str(first) in sys.path


def test_a_module_edited_since_it_was_imported_is_imported_again(tmp_path: Path) -> None:
    folder = write(tmp_path, agent=AGENT_OF_N, helper="N = 1\n")
    first = find("agent:A", folder)
    assert find("agent:A", folder) is first
    write(folder, helper="N = 1000\n")
    assert find("agent:A", folder).n == 1000
    assert names.module_digests(["agent:A"], folder)["helper"] == sha("N = 1000\n")


def test_a_deleted_module_is_not_found(tmp_path: Path) -> None:
    folder = write(tmp_path, agent=agent_of("1"))
    find("agent:A", folder)
    (folder / "agent.py").unlink()
    with pytest.raises(InvalidExperiment, match="No module named 'agent'"):
        find("agent:A", folder)
