"""The registry: names, old names, and what follows from the constructors."""

from __future__ import annotations

import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.every_agent import new_agent

import switchmdp as sm
from switchmdp import storage
from switchmdp.agents import AGENTS, PSRL, SWPSRL, agent_info, load
from switchmdp.agents.registry import REQUIRED, servable_agents
from switchmdp.agents.saving import OLD_CLASSES
from switchmdp.compiled import classes_of

PROBLEM = sm.problems.random_switching(3, 2, changes=1, horizon=1000, seed=0)


def test_agents_that_know_the_change_points_share_one_prefix() -> None:
    knowing = {cls.__name__ for cls in AGENTS.values() if agent_info(cls).needs_change_points}
    assert len(knowing) == 6
    assert all(name.startswith("Oracle") for name in knowing)
    assert not knowing & {cls.__name__ for cls in servable_agents().values()}


@pytest.mark.parametrize("name", AGENTS)
def test_help_shows_all_public_methods_and_attributes_with_a_line_on_each(name: str) -> None:
    agent = new_agent(name, PROBLEM)
    text = pydoc.render_doc(type(agent), renderer=pydoc.plaintext)  # type: ignore[attr-defined]
    members = [member for member in dir(agent) if not member.startswith("_")]
    assert {"act", "observe", "n_states", "save"} <= set(members)
    for member in [*members, *inspect.signature(type(agent)).parameters]:
        if member in members or hasattr(type(agent), member):
            assert re.search(rf"^ \|  {member}(\(.*)?\n \|      \S", text, re.M), member


@pytest.mark.parametrize("name", AGENTS)
def test_what_an_agent_needs_follows_from_its_constructor(name: str) -> None:
    info = agent_info(name)
    signature = inspect.signature(AGENTS[name]).parameters
    assert set(info.parameters) == set(signature) - {"n_states", "n_actions", "available"}
    for parameter, default in info.parameters.items():
        assert signature[parameter].default is default
    assert info.needs_problem == (name == "omniscient")
    assert info.can_be_served == (not info.needs_problem and not info.needs_change_points)
    required = {p for p, default in info.parameters.items() if default is REQUIRED}
    if info.can_be_served:
        assert not required & {"problem", "change_points"}


def test_lookups_accept_aliases_and_iteration_leaves_them_out() -> None:
    for alias, name in AGENTS.aliases.items():
        assert alias in AGENTS
        assert alias not in list(AGENTS)
        assert AGENTS[alias] is AGENTS[name]
    assert "nothing" not in AGENTS
    with pytest.raises(KeyError):
        AGENTS["nothing"]


def test_old_class_names_warn_and_are_the_new_classes() -> None:
    for old, new in OLD_CLASSES.items():
        if new in sm.agents.__all__:
            with pytest.warns(DeprecationWarning, match=f"{old} is now agents.{new}"):
                assert getattr(sm.agents, old) is getattr(sm.agents, new)
        else:
            assert new in classes_of("switchmdp")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        sm.agents.Nothing  # noqa: B018


@pytest.mark.parametrize("old", sorted(OLD_CLASSES))
def test_files_with_old_class_names_load(old: str, tmp_path: Path) -> None:
    new = OLD_CLASSES[old]
    agents = (new_agent(name, PROBLEM) for name in AGENTS)
    agent = next(
        a for a in agents if new in {type(a).__name__, type(getattr(a, "tests", a)).__name__}
    )
    agent.save(tmp_path / "agent")
    fields, arrays = storage.load_arrays(tmp_path / "agent", "agent")
    tree: Any = fields["agent"]
    tree = tree if tree["class"] == new else tree["fields"]["tests"]
    assert tree["class"] == new
    tree["class"] = old
    storage.save_arrays(tmp_path / "old", "agent", fields, arrays)
    loaded = load(tmp_path / "old")
    assert type(loaded) is type(agent)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "agent").read_bytes()


def test_a_window_is_a_parameter_and_sw_psrl_is_psrl_with_one() -> None:
    one, other = SWPSRL(3, 2, window=50, seed=4), PSRL(3, 2, window=50, seed=4)
    rng = np.random.default_rng(0)
    state = 0
    with np.errstate(over="ignore"):
        for _ in range(200):
            action = one.act(state)
            assert other.act(state) == action
            reward, target = float(rng.random()), int(rng.integers(3))
            one.observe(state, action, reward, target)
            other.observe(state, action, reward, target)
            state = target
    assert isinstance(PSRL(3, 2).memory, sm.memory.Everything)
    with pytest.raises(sm.errors.InvalidParameter, match="window"):
        SWPSRL(3, 2, window=None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", AGENTS)
def test_a_repr_is_one_short_line_with_sizes_and_time(name: str) -> None:
    agent = new_agent(name, PROBLEM)
    text = repr(agent)
    assert text.startswith(f"{type(agent).__name__}(n_states=3, n_actions=2, ")
    assert "t=1" in text
    assert len(text) < 200
    assert "\n" not in text
    assert " at 0x" not in text
    for part in vars(agent).values():
        assert len(repr(part)) < 200 or isinstance(part, np.ndarray)


def test_the_repr_of_a_component_shows_its_parameters() -> None:
    assert repr(sm.memory.Window(20)) == "Window(window=20)"
    assert repr(sm.restarts.Never()) == "Never()"
    assert repr(sm.plausible.L1Ball(0.1)) == "L1Ball(delta=0.1, width=1)"


def test_the_benchmarks_can_make_every_registered_agent() -> None:
    code = (
        "import agents, switchmdp as sm\n"
        "problem = sm.problems.random_switching(5, 3, seed=0)\n"
        "print(*[type(agents.made(name, problem)).__name__ for name in agents.AGENTS])"
    )
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "benchmarks"), str(root / "src")])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout.split() == [cls.__name__ for cls in AGENTS.values()]
