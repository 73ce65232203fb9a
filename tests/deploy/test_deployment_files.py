"""The deployment files fit the service: options, metrics and files that they mention exist."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from click import Command
from tests.online.serving import serving

from switchmdp.cli.commands import cli
from switchmdp.online.models import Models
from switchmdp.online.sqlite import SQLite

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE: Any = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
WORKERS = [COMPOSE["services"][f"worker-{i}"] for i in (1, 2, 3)]
WITH_METRICS = [
    "deploy/grafana/dashboards/switchmdp.json",
    "deploy/prometheus/alerts.yml",
    "docs/operations.md",
]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def options_of_serve() -> set[str]:
    command: Command = cli.commands["serve"]
    return {name for parameter in command.params for name in parameter.opts}


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all metrics of a running service with a split test."""
    place = tmp_path_factory.mktemp("metrics") / "a.sqlite"
    with Models(SQLite(place, sync=False)) as models, serving(models) as client:
        models.create("main", "random", states=2, actions=2)
        client.ask("PUT", "/arms", [{"name": "old rule", "share": 0.5, "policy": [0, 0]}])
        client.feedback(client.decide(state=0)["id"], 1.0, 0)
        text = client.ask("GET", "/metrics").body.decode()
    return set(re.findall(r"^(switchmdp_\w+)", text, re.M))


@pytest.mark.parametrize("path", WITH_METRICS)
def test_every_metric_that_is_mentioned_exists(path: str, metrics: set[str]) -> None:
    mentioned = set(re.findall(r"\bswitchmdp_[a-z_]+", read(path)))
    assert len(mentioned) > 4
    histograms = {name.removesuffix("_bucket") for name in metrics if name.endswith("_bucket")}
    assert mentioned - metrics - histograms == set()


def test_every_metric_has_a_panel_in_the_dashboard(metrics: set[str]) -> None:
    dashboard = json.loads(read("deploy/grafana/dashboards/switchmdp.json"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    shown = set(re.findall(r"\bswitchmdp_[a-z_]+", " ".join(queries)))
    parts_of_histograms = {name for name in metrics if name.endswith(("_count", "_sum"))}
    assert shown == metrics - parts_of_histograms


def test_every_option_in_the_files_exists() -> None:
    used = {word for worker in WORKERS for word in worker["command"] if word.startswith("--")}
    unit = read("deploy/systemd/switchmdp.service")
    (start,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)", unit, re.M)
    lines = [line for line in read("Dockerfile").splitlines() if re.match("ENTRYPOINT|CMD", line)]
    used |= set(re.findall(r"--[a-z-]+", f"{start} {lines}"))
    assert {"--database", "--token-file", "--metrics-token-file", "--address"} <= used
    assert used - options_of_serve() == set()


def test_every_worker_is_behind_the_proxy_and_watched() -> None:
    for i, worker in enumerate(WORKERS, start=1):
        address = f"worker-{i}:8000"
        assert f"http://{address}" in worker["command"]
        assert f"server {address} " in read("deploy/nginx/switchmdp.conf")
        assert address in read("deploy/prometheus/prometheus.yml")


def test_files_that_are_mounted_exist_or_are_secrets_that_the_script_makes() -> None:
    mounts = [
        volume.split(":")[0]
        for service in COMPOSE["services"].values()
        for volume in service.get("volumes", ())
        if volume.startswith("./")
    ]
    files = [secret["file"] for secret in COMPOSE["secrets"].values()] + [WORKERS[0]["env_file"]]
    made = read("deploy/make-secrets.sh")
    for path in (*mounts, *files):
        name = Path(path).name
        assert (ROOT / path).exists() or ("secrets" in path and name in made), path


def test_secrets_are_made_once_and_ignored_by_git(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    script = tmp_path / "make-secrets.sh"
    script.write_text(read("deploy/make-secrets.sh"), encoding="utf-8")
    subprocess.run(["sh", str(script)], check=True)
    token = (tmp_path / "secrets" / "token").read_text(encoding="utf-8")
    assert re.fullmatch(r"[0-9a-f]{48}\n", token)
    password = (tmp_path / "secrets" / "database-password").read_text(encoding="utf-8")
    env = (tmp_path / "secrets" / "database.env").read_text(encoding="utf-8")
    assert env == f"PGPASSWORD={password}"
    subprocess.run(["sh", str(script)], check=True)
    assert (tmp_path / "secrets" / "token").read_text(encoding="utf-8") == token
    assert read("deploy/secrets/.gitignore").split() == ["*", "!.gitignore"]


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    dashboard = json.loads(read("deploy/grafana/dashboards/switchmdp.json"))
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids)) > 10
