"""`compare` gives the same results as single runs, in one call."""

from __future__ import annotations

import base64
import functools
import pickle
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.errors import ComparisonInterrupted, InvalidExperiment, InvalidParameter
from switchmdp.experiments.plan import problem_seed, run_seed

HORIZON = 300
UCRL2 = {"UCRL2": sm.agents.UCRL2}


def new_problem(seed: int) -> sm.SwitchingMDP:
    return sm.problems.random_switching(5, 3, changes=1, horizon=HORIZON, seed=seed)


def regret(comparison: Any, setting: str = "problems", agent: str = "UCRL2") -> Any:
    return comparison.results.settings[setting].agents[agent].regret


def by_hand(problems: list[Any], seed: int = 0) -> Any:
    """Runs of UCRL2, one after the other."""
    rows = []
    for i, problem in enumerate(problems):
        agent = sm.agents.UCRL2(5, 3)
        record = sm.simulate(agent, problem, HORIZON, seed=run_seed(seed, i), every=1)
        rows.append(record.regret)
    return np.array(rows)


def test_a_list_of_problems_is_the_same_as_runs_by_hand() -> None:
    problems = [new_problem(seed) for seed in range(3)]
    comparison = sm.compare(problems, UCRL2, horizon=HORIZON, seed=7)
    assert np.array_equal(regret(comparison), by_hand(problems, 7))
    assert [list(p) for p in comparison.results.settings["problems"].change_points] == [
        list(problem.change_points) for problem in problems
    ]


def test_whole_floats_and_numpy_integers_count_as_integers() -> None:
    problems = [new_problem(seed) for seed in range(2)]
    expected = by_hand(problems, 7)
    as_floats = sm.compare(problems, UCRL2, horizon=float(HORIZON), seed=7.0)  # type: ignore[arg-type]
    as_numpy = sm.compare(problems, UCRL2, horizon=np.int64(HORIZON), seed=np.int64(7))  # type: ignore[arg-type]
    assert np.array_equal(regret(as_floats), expected)
    assert np.array_equal(regret(as_numpy), expected)


def test_a_function_of_a_seed_draws_the_problems_of_an_experiment() -> None:
    drawn = [new_problem(problem_seed(0, i)) for i in range(2)]
    comparison = sm.compare(new_problem, UCRL2, horizon=HORIZON, n_problems=2)
    assert np.array_equal(regret(comparison), by_hand(drawn))
    assert len(regret(sm.compare(new_problem, UCRL2, horizon=HORIZON))) == 20


def test_a_generator_of_the_package_receives_seed_and_horizon_by_name() -> None:
    drawn = [sm.problems.random_switching(horizon=HORIZON, seed=problem_seed(0, 0))]
    comparison = sm.compare(sm.problems.random_switching, UCRL2, horizon=HORIZON, n_problems=1)
    assert np.array_equal(regret(comparison), by_hand(drawn))
    longer = functools.partial(sm.problems.random_switching, 5, 3, horizon=10 * HORIZON)
    (points,) = (
        sm.compare(longer, UCRL2, horizon=HORIZON, n_problems=1)
        .results.settings["problems"]
        .change_points
    )
    assert points[0] == 10 * HORIZON // 2  # the partial's own horizon is kept


def test_a_single_problem_is_used_once_or_n_problems_times() -> None:
    problem = new_problem(3)
    once = sm.compare(problem, UCRL2, horizon=HORIZON)
    assert np.array_equal(regret(once), by_hand([problem]))
    often = regret(sm.compare(problem, UCRL2, horizon=HORIZON, n_problems=3))
    assert np.array_equal(often, by_hand([problem] * 3))
    assert not np.array_equal(often[0], often[1])  # the same problem, other random numbers


def test_an_mdp_can_be_used_as_a_problem() -> None:
    mdp = sm.problems.random_mdp(5, 3, seed=1)
    comparison = sm.compare(mdp, UCRL2, horizon=HORIZON)
    assert np.array_equal(regret(comparison), by_hand([sm.SwitchingMDP([mdp])]))


def test_several_families_are_settings_by_name() -> None:
    problems = [new_problem(1), new_problem(2)]
    families: dict[str, Any] = {"listed": problems, "one": problems[0], "drawn": new_problem}
    comparison = sm.compare(families, UCRL2, horizon=HORIZON)
    assert list(comparison.results.settings) == ["listed", "one", "drawn"]
    assert np.array_equal(regret(comparison, "listed"), by_hand(problems))
    assert np.array_equal(regret(comparison, "one"), by_hand([problems[0]] * 2))
    assert len(comparison.tables) == 3


def test_long_names_with_the_same_beginning_are_kept_apart() -> None:
    names = ["x" * 99 + "a", "x" * 99 + "b"]
    comparison = sm.compare(
        dict(zip(names, (new_problem(1), new_problem(2)), strict=True)), UCRL2, horizon=HORIZON
    )
    assert np.array_equal(regret(comparison, names[0]), by_hand([new_problem(1)]))
    assert np.array_equal(regret(comparison, names[1]), by_hand([new_problem(2)]))


def test_adding_an_agent_does_not_change_the_results_of_others() -> None:
    more = {"chance": lambda problem: sm.agents.Random(problem.n_states, problem.n_actions)}
    alone = sm.compare(new_problem, UCRL2, horizon=HORIZON, n_problems=2)
    together = sm.compare(new_problem, {**more, **UCRL2}, horizon=HORIZON, n_problems=2, jobs=2)
    assert np.array_equal(regret(alone), regret(together))


def test_an_agent_is_made_by_a_class_a_partial_or_any_function_of_the_problem() -> None:
    factories: dict[str, Any] = {
        "class": sm.agents.UCRL2,
        "partial": functools.partial(sm.agents.UCRL2, delta=0.05),
        "function": lambda p: sm.agents.UCRL2(p.n_states, p.n_actions),
    }
    comparison = sm.compare(new_problem(1), factories, horizon=HORIZON)
    for name in factories:
        assert np.array_equal(regret(comparison, agent=name), by_hand([new_problem(1)]))


class Fails:
    """An agent that raises an error."""

    def act(self, state: int) -> int:
        raise RuntimeError("lost")

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        pass


def test_a_failing_agent_warns_and_the_others_are_compared() -> None:
    agents: dict[str, Any] = {**UCRL2, "fails": lambda problem: Fails()}
    with pytest.warns(UserWarning, match=r"2 of 4 runs failed, the first of 'fails' .*lost"):
        comparison = sm.compare(new_problem, agents, horizon=HORIZON, n_problems=2)
    assert not np.isnan(regret(comparison)).any()
    assert np.isnan(regret(comparison, agent="fails")).all()
    assert "RuntimeError: lost" in comparison.results.failures[0]["traceback"]
    assert "failed" in str(comparison)
    assert "Intervals over fewer than 6" in str(comparison)


def test_a_table_without_numbers_says_nothing_about_intervals() -> None:
    with pytest.warns(UserWarning, match="2 of 2 runs failed"):
        comparison = sm.compare(new_problem, {"fails": Fails}, horizon=HORIZON, n_problems=2)
    assert "ntervals" not in str(comparison)


def test_the_table_of_one_run_says_how_to_get_an_interval() -> None:
    once = str(sm.compare(new_problem(1), UCRL2, horizon=HORIZON))
    assert "\nOne run of each agent gives no interval; increase n_problems." in once
    assert "n_problems" not in str(sm.compare(new_problem(1), UCRL2, horizon=HORIZON, n_problems=7))


def test_progress_counts_up_to_all_runs() -> None:
    seen: list[tuple[int, int]] = []
    sm.compare(
        {"a": new_problem, "b": new_problem}, UCRL2, horizon=HORIZON, n_problems=2,
        progress=lambda done, runs: seen.append((done, runs)),
    )  # fmt: skip
    assert seen[-1] == (4, 4)
    assert seen == sorted(seen)


def test_an_interrupt_does_not_wait_for_the_remaining_runs() -> None:
    released = threading.Event()
    begun: list[Any] = []

    class Waits(Fails):
        def __init__(self, problem: Any) -> None:
            self.problem = problem

        def act(self, state: int) -> int:
            begun.append(self.problem)
            released.wait(60)
            return 0

    def interrupt(done: int, runs: int) -> None:
        while not begun:
            time.sleep(0.01)
        raise KeyboardInterrupt

    families = {str(seed): new_problem(seed) for seed in range(8)}
    with pytest.raises(KeyboardInterrupt):
        sm.compare(families, {"waits": Waits}, horizon=1, jobs=1, progress=interrupt)
    released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("ThreadPoolExecutor"):
            thread.join(60)
    assert {id(problem) for problem in begun} == {id(begun[0])}


def test_an_interrupted_comparison_keeps_the_completed_runs() -> None:
    made: list[Plain] = []
    released = threading.Event()

    class Waits(Plain):
        """From the sixth agent on, they wait, so that some runs are never completed."""

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

        def act(self, state: int) -> int:
            if self in made[5:]:
                released.wait(60)
            return super().act(state)

    def stop(done: int, runs: int) -> None:
        if done >= 2:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"horizon": 10, "jobs": 1, "n_problems": 8}
    with pytest.raises(ComparisonInterrupted) as caught:
        sm.compare(new_problem, {"A": Waits}, progress=stop, **options)
    released.set()
    error = caught.value
    assert isinstance(error, KeyboardInterrupt)
    assert str(error).startswith(f"interrupted after {error.done} of 8 runs; error.comparison has")
    assert 2 <= error.done < 8
    whole = regret(sm.compare(new_problem, {"A": Plain}, **options), agent="A")
    curves = regret(error.comparison, agent="A")
    complete = ~np.isnan(curves).any(axis=1)
    assert complete.sum() == error.done
    assert np.array_equal(curves[complete], whole[complete])
    assert "unfinished" in str(error.comparison)
    assert error.comparison.plot().axes
    assert len(error.comparison.to_dataframe("runs", "pyarrow")) == 8
    assert pickle.loads(pickle.dumps(error)).done == error.done


PROBLEM = new_problem(0)


@pytest.mark.parametrize(
    ("problems", "agents", "more", "field"),
    [
        (PROBLEM, [sm.agents.UCRL2], {}, "agents"),
        (PROBLEM, "UCRL2", {}, "agents"),
        (PROBLEM, {"UCRL2": sm.agents.UCRL2(5, 3)}, {}, "agents['UCRL2']"),
        (PROBLEM, {"UCRL2": "ucrl2"}, {}, "agents['UCRL2']"),
        (PROBLEM, {"A": lambda problem: None}, {}, "agents['A']"),
        (PROBLEM, UCRL2, {"progress": True}, "progress"),
        ([], UCRL2, {}, "problems"),
        ([PROBLEM, 3], UCRL2, {}, "problems"),
        ("problem", UCRL2, {}, "problems"),
        (3, UCRL2, {}, "problems"),
        ((new_problem(seed) for seed in range(2)), UCRL2, {}, "problems"),
        ({"a": [PROBLEM], "b": [PROBLEM] * 2}, UCRL2, {}, "problems"),
        (lambda seed: 3, UCRL2, {}, "problems"),
        ({"a": lambda seed: 3}, UCRL2, {}, "problems['a']"),
        ([PROBLEM] * 2, UCRL2, {"n_problems": 3}, "n_problems"),
        (PROBLEM, UCRL2, {"jobs": 0}, "jobs"),
    ],
)
def test_the_error_for_an_invalid_argument_names_it(
    problems: Any, agents: Any, more: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidParameter) as error:
        sm.compare(problems, agents, horizon=HORIZON, **more)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 2.5}, "horizon"),
        ({"seed": -1}, "seed"),
        ({"n_problems": 0}, "n_problems"),
        ({"n_problems": 2.5}, "n_problems"),
        ({"every": 0}, "every"),
        ({"epsilon": 2.0}, "epsilon"),
        ({"agents": {}}, "agents"),
        ({"agents": {"two\nlines": sm.agents.UCRL2}}, "agents.'two\\nlines'"),
        ({"agents": {3: sm.agents.UCRL2}}, "agents.3"),
        ({"problems": {}}, "problems"),
    ],
)
def test_errors_are_those_of_an_experiment(more: dict[str, Any], path: str) -> None:
    arguments: dict[str, Any] = {"problems": PROBLEM, "agents": UCRL2, "horizon": HORIZON}
    with pytest.raises(InvalidExperiment) as error:
        sm.compare(**arguments | more)
    assert [fault.path for fault in error.value.faults] == [path]


def test_a_comparison_is_shown_as_a_table_and_in_a_notebook_also_as_a_figure() -> None:
    name = "<script>alert(1)</script>"
    comparison = sm.compare(new_problem(1), {name: sm.agents.UCRL2}, horizon=HORIZON)
    assert repr(comparison) == str(comparison)
    assert "Regret after 300 steps on 1 problem (lower is better)\n" in repr(comparison)
    assert name in repr(comparison)
    shown = comparison._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    (image,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', shown)
    assert b"<svg" in base64.b64decode(image)
    assert comparison._repr_html_() == shown


def test_without_the_extra_a_notebook_shows_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = sm.compare(new_problem(1), UCRL2, horizon=HORIZON)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert comparison._repr_html_().endswith("</pre>")


def test_a_comparison_can_be_saved_as_a_report(tmp_path: Path) -> None:
    comparison = sm.compare(new_problem(1), UCRL2, horizon=HORIZON)
    page = comparison.save(tmp_path / "report")
    assert page == tmp_path / "report" / "index.html"
    assert "UCRL2" in page.read_text("utf-8")
    assert len(comparison.figure.axes) == 1


def test_the_table_and_the_figure_explain_their_numbers() -> None:
    unnamed = sm.compare(new_problem, UCRL2, horizon=HORIZON, n_problems=2)
    assert str(unnamed).startswith("Regret after 300 steps on 2 problems (lower is better)\n")
    (axis,) = unnamed.plot().axes
    assert axis.get_title() == "2 problems, 95 % bands"
    assert axis.get_ylabel() == "mean regret"
    named = sm.compare({"easy": new_problem}, UCRL2, horizon=HORIZON, n_problems=2)
    assert str(named).startswith("easy: regret after 300 steps on 2 problems (lower is better)\n")
    assert named.plot().axes[0].get_title() == "easy (2 problems), 95 % bands"
    (axis,) = sm.compare(new_problem(1), UCRL2, horizon=HORIZON).plot().axes
    assert axis.get_title() == "1 problem"
    assert axis.get_ylabel() == "regret"


class Plain:
    """An agent in plain Python, which always takes action 0."""

    def __init__(self, eps: float = 0.1) -> None:
        self.eps, self.steps = eps, 0

    def act(self, state: int) -> int:
        return 0

    def observe(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.steps += 1


def test_a_seed_is_passed_by_name_or_to_the_only_required_parameter() -> None:
    seen: list[Any] = []

    def optional(slip: float = 0.1) -> sm.SwitchingMDP:
        seen.append(slip)
        return new_problem(0)

    def required(number: int, slip: float = 0.1) -> sm.SwitchingMDP:
        seen.append((number, slip))
        return new_problem(0)

    def named(slip: float = 0.1, *, seed: int) -> sm.SwitchingMDP:
        seen.append((seed, slip))
        return new_problem(0)

    def both(number: int, horizon: int) -> sm.SwitchingMDP:
        seen.append((number, horizon))
        return new_problem(0)

    one = problem_seed(0, 0)
    expected: list[tuple[Any, Any]] = [
        (optional, 0.1), (required, (one, 0.1)), (named, (one, 0.1)), (both, (one, 10)),
    ]  # fmt: skip
    for family, arguments in expected:
        seen.clear()
        sm.compare(family, {"A": Plain}, horizon=10, n_problems=1)
        assert set(seen) == {arguments}


@pytest.mark.parametrize(
    "family", [sm.problems.riverswim, sm.problems.perils_of_drift, sm.problems.riverswim()]
)
def test_a_problem_without_a_seed_is_one_problem(family: Any) -> None:
    made = sm.compare(family, {"A": lambda problem: Plain()}, horizon=10, n_problems=2)
    assert made.results.settings["problems"].n_problems == 2
    text = str(made)
    assert text.startswith("Regret after 10 steps in 2 runs on one problem (lower is better)\n")
    assert "Intervals over fewer than 6 runs" in text
    assert made.plot().axes[0].get_title() == "2 runs on one problem, 95 % bands"


def test_problems_that_are_drawn_are_not_called_one_problem_even_if_they_look_the_same() -> None:
    made = sm.compare(sm.problems.lower_bound, {"A": Plain}, horizon=10, n_problems=2)
    assert "after 10 steps on 2 problems" in str(made)
    listed = sm.compare([sm.problems.riverswim()] * 2, {"A": Plain}, horizon=10)
    assert "after 10 steps on 2 problems" in str(listed)


def test_a_note_says_if_no_change_falls_within_the_horizon() -> None:
    def problem(seed: int) -> sm.SwitchingMDP:
        return sm.problems.random_switching(changes=2, horizon=100_000, seed=seed)

    def shown(family: Any, horizon: int) -> str:
        return str(sm.compare(family, {"A": Plain}, horizon=horizon, n_problems=1))

    note = "Nothing changes in these runs of 10 steps: the first change point is step 50 000."
    assert note in shown(problem, 10)
    short = functools.partial(sm.problems.random_switching, changes=1, horizon=10)
    assert "Nothing changes before the last step, 10." in shown(short, 10)
    assert "Nothing changes" not in shown(short, 11)
    assert "Nothing changes" not in shown(sm.problems.riverswim, 10)  # and nobody expects it


def test_the_error_for_a_function_that_requires_more_than_a_seed_names_it() -> None:
    families: list[Any] = [
        lambda size, *, seed: None, lambda size, law: None, lambda *, size: None,
    ]  # fmt: skip
    for family in families:
        with pytest.raises(InvalidParameter, match="requires size"):
            sm.compare(family, {"A": Plain}, horizon=10)


def test_an_agent_gets_the_problem_only_as_a_required_argument() -> None:
    made: list[Any] = []

    class Sized(Plain):
        def __init__(self, S: int, A: int) -> None:
            super().__init__()
            made.append((S, A))

    class Defaults(Plain):
        def __init__(self, eps: float = 0.1) -> None:
            super().__init__(eps)
            made.append(eps)

    class Told(Plain):
        def __init__(self, *, problem: Any = None) -> None:
            super().__init__()
            made.append(problem)

    class Needs(Plain):
        def __init__(self, n_states: int, n_actions: int, *, width: float) -> None:
            super().__init__()

    problem = new_problem(0)
    for cls, got in ((Sized, (5, 3)), (Defaults, 0.1), (Told, problem)):
        made.clear()
        sm.compare(problem, {"A": cls}, horizon=10)
        assert set(made) == {got}
    with pytest.raises(InvalidParameter, match="requires width: pass lambda problem"):
        sm.compare(problem, {"A": Needs}, horizon=10)
    with pytest.raises(InvalidParameter, match="requires one, two, three"):
        sm.compare(problem, {"A": lambda one, two, three: None}, horizon=10)


def test_one_agent_for_all_runs_is_refused() -> None:
    agent = Plain()
    with pytest.raises(InvalidParameter, match=r"'A'.* must be a function that makes a new agent"):
        sm.compare(new_problem, {"A": lambda problem: agent}, horizon=10, n_problems=2)
    assert agent.steps == 0
