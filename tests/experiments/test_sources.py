"""Names in a configuration, and the user's modules behind them."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

from switchmdp.agents import AGENTS
from switchmdp.errors import InvalidParameter
from switchmdp.experiments import sources


def write(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        file = folder / (name.replace("__in__", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def find(name: str, folder: Path | None = None) -> Any:
    return sources.find("agents.A.agent", name, AGENTS, folder)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_a_registered_name_is_found() -> None:
    assert find("ucrl2") is AGENTS["ucrl2"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ucrl-2", "'ucrl2' .did you mean that"),
        ("thompson", "one of 'sw-ucrl', .*, or 'module:Name' of your own"),
        ("a:b:c", "'module:Name', as Python would import it"),
        ("../toys:Toy", "'module:Name', as Python would import it"),
        (":Toy", "'module:Name'"),
        ("toys:", "'module:Name'"),
        ("toys :Toy", "'module:Name'"),
        ("nowhere_to_be_found:Toy", "a module that can be imported .ModuleNotFoundError"),
        ("toys:Missing", "it has no 'Missing'"),
        ("toys:HERE", "a class or a function"),
        ("toys:Toy.missing", "it has no 'Toy.missing'"),
    ],
)
def test_a_name_that_means_nothing_is_refused(toys: Path, name: str, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words) as caught:
        find(name, toys)
    assert (caught.value.field, caught.value.value) == ("agents.A.agent", name)


@pytest.mark.parametrize(
    "text", ["raise SystemExit(3)", "1 / 0", "def broken(:", "import nowhere_at_all", "\x00"]
)
def test_whatever_a_users_module_does_when_imported_is_a_refusal(tmp_path: Path, text: str) -> None:
    write(tmp_path, bad=text)
    with pytest.raises(InvalidParameter, match="a module that can be imported"):
        find("bad:Agent", tmp_path)


def test_classes_inside_packages_and_classes_are_found(tmp_path: Path) -> None:
    write(tmp_path, pack__in____init__="", pack__in__inner="class A:\n    class B:\n        pass\n")
    assert find("pack.inner:A.B", tmp_path).__qualname__ == "A.B"


def test_digests_cover_the_module_and_what_it_imports_from_beside(tmp_path: Path) -> None:
    texts = {
        "one": "import numpy\nfrom two import NUMBER\nclass A: pass\n",
        "two": "NUMBER = 1\ndef later():\n    import three\n",
        "three": "import one\n",
        "four": "X = 1\n",
    }
    folder = write(tmp_path, **texts)
    find("one:A", folder)
    found = sources.digests(["ucrl2", "one:A"], folder)
    assert found == {name: sha(texts[name]) for name in ("one", "three", "two")}


def test_digests_follow_relative_imports_in_packages(tmp_path: Path) -> None:
    texts = {
        "lab__in____init__": "BASE = 1\n",
        "lab__in__agents": "from . import tools\nfrom .deep.er import X\nclass A: pass\n",
        "lab__in__tools": "from lab import BASE\n",
        "lab__in__deep__in____init__": "",
        "lab__in__deep__in__er": "X = 2\n",
        "lab__in__unused": "",
    }
    folder = write(tmp_path, **texts)
    find("lab.agents:A", folder)
    found = sources.digests(["lab.agents:A"], folder)
    assert list(found) == ["lab", "lab.agents", "lab.deep", "lab.deep.er", "lab.tools"]


def test_digests_do_not_cover_installed_packages_inside_the_folder(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        mine="import json\nimport switchmdp\nfrom library import thing\nclass A: pass\n",
        switchmdp="this = 1\n",
        venv__in__lib__in__library="thing = 1\n",
    )
    sys.path.append(str(folder / "venv" / "lib"))
    find("mine:A", folder)
    assert list(sources.digests(["mine:A"], folder)) == ["mine"]


def test_two_folders_with_modules_of_one_name_are_told_apart(tmp_path: Path) -> None:
    first = write(tmp_path / "1", agent="from helper import N\ndef A(): return N\n", helper="N=1\n")
    second = write(tmp_path / "2", agent="from helper import N\ndef A(): return N\n", helper="N=22")
    for folder, n in ((first, 1), (second, 22), (first, 1)):
        assert find("agent:A", folder)() == n
        helper = sources.digests(["agent:A"], folder)["helper"]
        assert helper == sha((folder / "helper.py").read_text())


def test_one_folder_is_searched_at_a_time_and_the_users_own_path_is_kept(tmp_path: Path) -> None:
    first = write(tmp_path / "1", agent="def A(): return 1\n")
    second = write(tmp_path / "2", agent="def A(): return 22\n")
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
    folder = write(tmp_path, agent="from helper import N\ndef A(): return N\n", helper="N = 1\n")
    first = find("agent:A", folder)
    assert find("agent:A", folder) is first
    write(folder, helper="N = 1000\n")
    assert find("agent:A", folder)() == 1000
    assert sources.digests(["agent:A"], folder)["helper"] == sha("N = 1000\n")


def test_a_module_that_is_gone_is_found_no_more(tmp_path: Path) -> None:
    folder = write(tmp_path, agent="def A(): return 1\n")
    find("agent:A", folder)
    (folder / "agent.py").unlink()
    with pytest.raises(InvalidParameter, match="No module named 'agent'"):
        find("agent:A", folder)
