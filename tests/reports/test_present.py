"""Figures and data frames of single objects."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import switchmdp as sm
from switchmdp.errors import InvalidParameter, MissingExtra
from switchmdp.reports.figures import render_figure

PROBLEM = sm.problems.random_switching(4, 2, changes=2, horizon=60, seed=0)


def record(**options: Any) -> sm.Record:
    return sm.simulate(sm.agents.UCRL2RW(4, 2, period=20), PROBLEM, 60, seed=0, every=5, **options)


def test_a_record_is_drawn_with_its_change_points_and_restarts() -> None:
    run = record(episodes=True)
    (axis,) = run.plot().axes
    regret, pseudo, *_ = axis.get_lines()
    np.testing.assert_array_equal(regret.get_xdata(), [0, *run.times])
    np.testing.assert_array_equal(regret.get_ydata(), [0, *run.regret])
    np.testing.assert_array_equal(pseudo.get_ydata(), [0, *run.pseudo_regret])
    (restarts,) = [line for line in axis.get_lines() if line.get_gid() == "restarts"]
    assert run.episodes is not None
    np.testing.assert_array_equal(restarts.get_xdata(), run.episodes.restarts)


def test_the_legend_of_a_record_explains_the_triangles_only_if_there_are_some() -> None:
    names = {}
    for episodes in (True, False):
        (legend,) = record(episodes=episodes).plot().legends
        names[episodes] = [text.get_text() for text in legend.get_texts()]
    assert names[True] == ["regret", "pseudo-regret", "change point", "restart"]
    assert names[False] == names[True][:-1]


def test_the_title_of_a_record_says_if_all_changes_come_later() -> None:
    whole, early = record(), sm.simulate(sm.agents.Random(4, 2), PROBLEM, 20)
    titles = [run.plot().axes[0].get_title() for run in (whole, early)]
    assert titles == ["UCRL2RW, seed 0", "Random, seed 0 (no change in this run)"]


def test_the_runs_of_a_batch_and_their_mean_are_drawn() -> None:
    records = sm.simulate_batch([sm.agents.Random(4, 2) for _ in range(3)], PROBLEM, 40)
    (axis,) = sm.plot(records).axes
    mean, *runs = axis.get_lines()
    np.testing.assert_array_equal(mean.get_ydata(), [0, *records.regret.mean(axis=0)])
    assert [np.asarray(line.get_xydata())[0].tolist() for line in runs] == [[0, 0]] * 3


def test_a_problem_is_drawn_as_its_optimal_gain_over_time() -> None:
    (axis,) = PROBLEM.plot(horizon=50).axes
    (line,) = axis.get_lines()
    gains = sm.optimal_gains(PROBLEM)[:2]
    np.testing.assert_array_equal(line.get_xdata(), [1, 30, 50])
    np.testing.assert_array_equal(line.get_ydata(), [*gains, gains[-1]])


def test_a_problem_without_changes_can_be_drawn() -> None:
    (axis,) = sm.SwitchingMDP([PROBLEM.at(1)]).plot().axes
    assert axis.get_xlabel() == "time step"


def test_a_small_mdp_is_a_graph_with_an_arrow_for_each_transition() -> None:
    mdp = sm.problems.riverswim(5)
    graph, table = mdp.plot().axes
    leaving = sum(
        target != s for s in range(5) for a in range(2) for target in mdp.successors(s, a)[0]
    )
    assert len([text for text in graph.texts if getattr(text, "arrow_patch", None)]) == leaving
    assert {text.get_text() for text in graph.texts} >= {"0", "1", "2", "3", "4"}
    assert [text.get_text() for text in table.texts][-1] == "1"


def test_the_legend_of_a_graph_explains_the_width_of_its_arrows() -> None:
    (legend,) = sm.problems.riverswim(5).plot().legends
    thin, thick = legend.get_lines()[-2:]
    assert [text.get_text() for text in legend.get_texts()][-2:] == [
        "probability 0.1", "probability 1",
    ]  # fmt: skip
    assert thin.get_linewidth() < thick.get_linewidth()


def test_a_large_mdp_is_a_table_of_rewards() -> None:
    titles = [axis.get_title() for axis in sm.problems.random_mdp(40, 3).plot().axes]
    assert "mean rewards" in titles
    assert "transitions" not in titles


def test_a_plan_shows_the_bias_of_every_state() -> None:
    plan = sm.optimal_gain(PROBLEM.at(1))
    (axis,) = plan.plot().axes
    heights = {round(bar.get_x() + 0.4): bar.get_height() for bar in axis.patches}
    np.testing.assert_array_equal([heights[s] for s in range(4)], plan.bias)


def test_an_agent_shows_visits_and_estimates() -> None:
    agent = sm.agents.UCRL2(4, 2)
    sm.simulate(agent, PROBLEM, 60, seed=0)
    visits, means = agent.plot().axes
    assert [text.get_text() for text in visits.texts] == [str(n) for n in agent.visits.ravel()]
    assert len(means.texts) == (agent.visits > 0).sum()


def test_an_agent_without_estimates_is_rejected() -> None:
    with pytest.raises(InvalidParameter, match="visits and estimates"):
        sm.agents.Random(4, 2).plot()


def test_other_objects_are_rejected() -> None:
    with pytest.raises(InvalidParameter, match="thing must be an MDP"):
        sm.plot(3)


def test_figures_can_be_rendered() -> None:
    for thing in (record(), PROBLEM, PROBLEM.at(1)):
        assert render_figure(thing.plot(), "png").startswith(b"\x89PNG")


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_record_as_a_data_frame_has_its_columns(library: str) -> None:
    pytest.importorskip(library)
    run = record(episodes=True, trajectory=True)
    assert run.episodes is not None
    assert run.trajectory is not None
    frame = run.to_dataframe(library)
    assert type(frame).__module__.split(".")[0] == library
    np.testing.assert_array_equal(np.asarray(frame["regret"]), run.regret)
    assert len(run.episodes.to_dataframe(library)) == len(run.episodes)
    assert len(run.trajectory.to_dataframe(library)) == 60


def test_a_batch_and_a_comparison_become_data_frames() -> None:
    records = sm.simulate_batch([sm.agents.Random(4, 2) for _ in range(3)], PROBLEM, 40, every=10)
    assert records.to_dataframe("pyarrow").num_rows == 12
    comparison = sm.compare(PROBLEM, {"a": sm.agents.Random, "b": sm.agents.Random}, horizon=60)
    runs = comparison.to_dataframe(library="pyarrow")
    assert runs["agent"].to_pylist() == ["a", "b"]
    regret = comparison.to_dataframe("regret", library="pyarrow")
    assert "step" in regret.column_names
    assert "step" in records.to_dataframe("pyarrow").column_names
    assert regret["step"].to_pylist()[-1] == 60
    with pytest.raises(InvalidParameter, match="table"):
        comparison.to_dataframe("nothing")
    assert comparison.plot().axes


def test_a_missing_or_unknown_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(name: str) -> Any:
        raise ImportError(name)

    run = record()
    with pytest.raises(InvalidParameter, match="pandas, polars, pyarrow"):
        run.to_dataframe("numpy")
    run.to_dataframe("pyarrow")  # imports the module that makes data frames
    monkeypatch.setattr(importlib, "import_module", lacking)
    from switchmdp.reports.present import to_dataframe

    with pytest.raises(MissingExtra, match="pandas, polars or pyarrow: pip install pandas"):
        to_dataframe({})
    with pytest.raises(MissingExtra, match="polars"):
        to_dataframe({}, library="polars")
