"""`gsched ces status`: what people and programs are shown of sleeping nodes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gsched_cli.main import main, run

POOL: dict[str, Any] = {
    "pool": "a100x8@gpu", "nodes": 9, "running": 3, "idle": 2, "falling": 0, "asleep": 4,
    "waking": 0, "excluded": 0, "wanted": 0, "spare": 1, "wake_lead_s": 60, "wake": 0, "sleep": 1,
    "reason": {"code": "ces.surplus", "params": {"awake": 5, "keep": 4, "surplus": 1}},
    "reason_at": 7, "forecast": {"code": "demand.not-made-yet", "params": {}},
    "forecast_made_at": None,
}  # fmt: skip


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the daemon's file says; written by `show`."""
    config = tmp_path / "gsched.toml"
    config.write_text(f'state_dir = "{tmp_path}"\n')
    monkeypatch.setenv("GSCHED_CONFIG", str(config))
    return {"mode": "act", "acting": True, "looked_at": 7, "pools": [POOL]}


def show(tmp_path: Path, told: dict[str, Any], *words: str) -> None:
    document = {"version": 1, "as_of": time.time(), "interval_s": 30.0, "jobs": {}, "ces": told}
    (tmp_path / "status.json").write_text(json.dumps(document))
    assert run(["ces", "status", *words]) == 0


def test_a_table_of_pools(
    tmp_path: Path, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    show(tmp_path, told, "-o", "+forecast")
    out, err = capsys.readouterr()
    heading, line = out.splitlines()
    assert heading.split()[:4] == ["POOL", "RUNNING", "IDLE", "ASLEEP"]
    assert line.split()[:4] == ["a100x8@gpu", "3", "2", "4"]
    assert "sleep 1" in line
    assert "5 nodes awake, 4 have to be: 1 too many" in line
    assert "the first forecast is still being made" in line
    assert "as of 1970-01-01" in err or "as of 1969-12-31" in err


def test_columns_for_programs(
    tmp_path: Path, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    show(tmp_path, told, "-P", "-o", "pool,asleep,lead,next,made")
    assert capsys.readouterr().out == (
        "pool|asleep|lead|next|made\na100x8@gpu|4|60|sleep 1|\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"acting": False, "why": "frozen"}, "nothing is ordered: frozen"),
        ({"problem": "scontrol \x1b[31mfails"}, "energy saving fails: scontrol \\x1b[31mfails"),
        ({"stopped": "5 failures"}, "suspends nothing: 5 failures"),
        ({"wake_failures": 2}, "2 nodes did not wake lately"),
        ({"wake_failures": 2, "failed_nodes": ["gn01", "gn07"]}, "wake lately: gn01, gn07"),
        ({"given_up": {"gn01": "no answer"}}, "gn01: no answer"),
        ({"demand": {"problem": "exit status 3"}}, "no forecast of demand: exit status 3"),
        ({"demand": {"left": 3}}, "the demand of 3 pools is still being learnt"),
    ],
)
def test_what_is_not_as_it_should_be_is_said_beside(
    tmp_path: Path, told: dict[str, Any], capsys: pytest.CaptureFixture[str], more: Any, says: str
) -> None:
    show(tmp_path, told | more)
    assert says in capsys.readouterr().err


def test_off_is_said(
    tmp_path: Path, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    show(tmp_path, {})
    assert 'mode = "off"' in capsys.readouterr().err
    show(tmp_path, {}, "--json")
    assert json.loads(capsys.readouterr().out)["mode"] == "off"


def test_no_daemon_is_an_error_of_its_own(
    told: dict[str, Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["gsched", "ces", "status"])
    assert main() == 69
    assert "no daemon tells of nodes that sleep" in capsys.readouterr().err
