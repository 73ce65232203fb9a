"""A suite in a folder: its stages, shards and standings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from switchmdp.errors import ForeignFolder
from switchmdp.experiments.execute import run_chunks
from switchmdp.experiments.leaderboard import (
    Contender,
    Row,
    Stage,
    Suite,
    create_folder,
    stages,
    standings,
)

SUITE = Suite(
    "tiny",
    (
        Row("one", "random-switching", {"changes": 1}, horizon=300),
        Row("two", "random-switching", {"changes": 2}, horizon=300),
    ),
    (
        Contender("periodic", "ucrl2-rw", {}, {"period": (20, 60)}),
        Contender("plain", "ucrl2"),
    ),
    tuning_problems=2,
    problems=3,
)  # fmt: skip


def do(stage: Stage, shard: tuple[int, int] = (1, 1)) -> None:
    assert run_chunks(stage.store, stage.plan, jobs=1, shard=shard).complete


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = create_folder(SUITE, tmp_path_factory.mktemp("whole") / "out")
    for stage in stages(SUITE, folder):
        do(stage)
    return folder


def trees(folder: Path, tree: Callable[[Path], str]) -> dict[str, str]:
    return {str(p.relative_to(folder)): tree(p) for p in sorted(folder.glob("rows/*/*"))}


def test_each_row_is_tuned_and_then_reported(tmp_path: Path) -> None:
    folder = create_folder(SUITE, tmp_path / "out")
    visited = []
    for stage in stages(SUITE, folder):
        visited.append((stage.row.name, stage.phase))
        do(stage)
    phases = ("tuning", "reporting")
    assert visited == [(row, phase) for row in ("one", "two") for phase in phases]


def test_the_report_uses_the_chosen_values(whole: Path) -> None:
    reported = standings(SUITE, whole)
    assert len(reported) == 2
    for standing in reported:
        (setting,) = standing.results.settings.values()
        chosen = standing.choices["periodic"]["period"]
        assert chosen in (20, 60)
        assert setting.agents["periodic"].parameters["period"] == chosen
        assert standing.tried is not None
        (before,) = standing.tried.settings.values()
        tried = {name: runs.pseudo_regret[:, -1].mean() for name, runs in before.agents.items()}
        assert min(tried, key=lambda n: tried[n]) == f"periodic [period={chosen}]"


def test_a_row_is_not_reported_before_its_tuning_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("switchmdp.experiments.plan.SECONDS_PER_CHUNK", 0.0)
    folder = create_folder(SUITE, tmp_path / "out")
    phases = []
    for stage in stages(SUITE, folder):
        phases.append(stage.phase)
        do(stage, shard=(1, 2))
    assert phases == ["tuning", "tuning"]
    assert standings(SUITE, folder) == []


def test_all_shards_together_give_the_same_bytes(
    tmp_path: Path, whole: Path, tree: Callable[[Path], str]
) -> None:
    folder = create_folder(SUITE, tmp_path / "out")
    for shard in ((1, 2), (2, 2), (1, 2), (2, 2)):
        for stage in stages(SUITE, create_folder(SUITE, folder)):
            do(stage, shard)
    assert trees(folder, tree) == trees(whole, tree)


def test_standings_contain_only_complete_rows(whole: Path, tmp_path: Path) -> None:
    assert [standing.row.name for standing in standings(SUITE, whole)] == ["one", "two"]
    folder = create_folder(SUITE, tmp_path / "out")
    for stage in stages(SUITE, folder):
        if stage.row.name == "two":
            break
        do(stage)
    assert [standing.row.name for standing in standings(SUITE, folder)] == ["one"]


def test_the_folder_of_another_suite_is_rejected(whole: Path) -> None:
    with pytest.raises(ForeignFolder, match=r"another suite \('tiny'.*pass --out FOLDER"):
        create_folder(replace(SUITE, seed=SUITE.seed + 1), whole)
    assert create_folder(SUITE, whole) == whole


def test_a_folder_with_other_content_is_rejected_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear reader")
    with pytest.raises(ForeignFolder, match="is not the folder of a suite"):
        create_folder(SUITE, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_a_damaged_manifest_is_rejected(tmp_path: Path) -> None:
    folder = create_folder(SUITE, tmp_path / "out")
    (folder / "suite.json").write_bytes(b"{")
    with pytest.raises(ForeignFolder, match="damaged"):
        create_folder(SUITE, folder)
