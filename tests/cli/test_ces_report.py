"""`gsched ces report` from the database to its documents, and gsched-ces(7) beside the settings."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.ces_report import POOL, T0, a_night, counted, delayed, keep, records
from support.history import attempt, batch
from support.json_shape import block

from gsched.config.node_settings import CesTable, EnergySettings
from gsched.model.times import DAY_S
from gsched_cli.commands.ces.report import report
from gsched_sql import History

PAGE = Path(__file__).parents[2] / "man" / "man7" / "gsched-ces.7"
WINDOW = ("--since", f"{datetime.fromtimestamp(T0, UTC):%Y-%m-%dT%H:%M:%S+00:00}", "--until")
TWO_DAYS = (*WINDOW, f"{datetime.fromtimestamp(T0 + 2 * DAY_S, UTC):%Y-%m-%dT%H:%M:%S+00:00}")


@pytest.fixture
def cluster(gsched, environment, stand_in):
    """A database with two nights of cluster lab, ten jobs that began, and another cluster."""
    stand_in("scontrol").answers("ClusterName = lab\n")
    assert gsched("db", "init").returncode == 0
    kept = a_night(2)
    spare = [counted(at, "gpu", running=2) for at in range(0, 3601, 600)]
    kept = records([*kept.counts, *spare], kept.spans, kept.orders, [delayed("3", 700, 45)])
    with History.open(f"sqlite:///{environment['GSCHED_STATE_DIR']}/history.db") as history:
        jobs = [
            attempt(n, T0 + 100 * n, cluster="lab", start_time=T0 + 100 * n, end_time=T0 + 9000)
            for n in range(1, 11)
        ]
        others = [attempt(1, T0 + 5, cluster="other", start_time=T0 + 5, end_time=T0 + 9)]
        history.ingest(batch(*jobs), source_key="a")
        history.ingest(batch(*others), source_key="b")
        keep(history.power_log("lab"), kept)
        keep(history.power_log("other"), records([counted(0, "far", idle=1)]))


def test_the_document_has_the_keys_that_the_manual_names(gsched, cluster):
    answer = gsched("ces", "report", *TWO_DAYS, "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    document = json.loads(answer.stdout)
    assert block(document) in inspect.cleandoc(report.help)
    assert (document["cluster"], document["did"]) == ("lab", "acted")
    assert document["known_share"] == 1.0
    assert [pool["pool"] for pool in document["pools"]] == [POOL, "gpu"]
    assert document["pools"][0]["asleep_node_hours"] == pytest.approx(28)
    assert document["pools"][0]["awake_utilisation_share"] == pytest.approx(48 / (192 - 28))
    assert document["energy"]["kwh"] == pytest.approx(28 * 0.8 * 1.5)
    assert document["delayed"]["jobs_started"] == 10
    assert (document["delayed"]["jobs"], document["delayed"]["max_s"]) == (1, 45)
    assert document["wake_ups"][0]["outcomes"] == {"awake": 2}
    text = " ".join((report.help or "").split())
    named = {*document["delayed"], *document["energy"], *document["course"]}
    assert {key for key in named if key not in text} == set()


def test_as_text_page_figures_and_file(gsched, cluster, tmp_path):
    said = ("--html", "out", "--figures", "fig", "--json-out", "told.json", "--pool", POOL)
    answer = gsched("ces", "report", *TWO_DAYS, *said)
    assert answer.returncode == 0, answer.stderr
    for path in ("told.json", "out/index.html", "fig/nodes.png", "fig/saved.svg"):
        assert f"{path} is written" in answer.stderr
        assert (tmp_path / path).stat().st_size
    rows = [line.split() for line in answer.stdout.splitlines()]
    use = "4.0 1.0 0.6 2 28.0 25.0 % 29.3 % 0.0 100 %"
    assert f"{POOL} {use}".split() in rows
    assert ["energy", "33.6", "kWh", "16.8", "kWh"] in rows
    assert "how many jobs began in these pools is not known" in answer.stdout
    told = json.loads((tmp_path / "told.json").read_text())
    assert [pool["pool"] for pool in told["pools"]] == [POOL]
    assert told["delayed"]["jobs_started"] is None


def test_the_energy_settings_are_used(gsched, cluster):
    watts = {"GSCHED_ENERGY_IDLE_W": "100", "GSCHED_ENERGY_WAKING_W": "100"}
    environ = {**watts, "GSCHED_ENERGY_COOLING_FACTOR": "1"}
    answer = gsched("ces", "report", *TWO_DAYS, "--json", environ=environ)
    assert json.loads(answer.stdout)["energy"]["kwh"] == pytest.approx(28 * 0.1 * 2)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--pool", "gpus"), 2, f"there are: {POOL}, gpu"),
        (("--since", "2024-10-05", "--until", "2024-10-04"), 2, "no time between"),
        (("--since", "yore"), 2, "yore"),
        (("--html", "/dev/null/x"), 69, "cannot write"),
    ],
)
def test_what_is_wrong_is_said(gsched, cluster, words, code, said):
    answer = gsched("ces", "report", *TWO_DAYS, *words)
    assert answer.returncode == code
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_without_a_database(gsched, stand_in):
    answer = gsched("ces", "report")
    assert (answer.returncode, answer.stdout) == (78, "")


def test_a_time_of_which_nothing_is_kept(gsched, cluster):
    answer = gsched("ces", "report", "--since", "1d")
    assert answer.returncode == 0
    assert "Nothing is known of this time" in answer.stdout


def test_the_page_names_every_key_of_its_tables():
    page = PAGE.read_text().replace("\\-", "-").replace("\\(aq", "'")
    for table, settings in (("ces", CesTable), ("energy", EnergySettings)):
        for key in fields(settings):
            assert key.name in page, f"[{table}] {key.name}"


def test_slurm_conf_of_the_page_is_what_power_saving_needs():
    lines = PAGE.read_text().replace("\\-", "-").splitlines()
    told = dict(line.split("=", 1) for line in lines if line.count("=") == 1 and " " not in line)
    for name in ("SuspendProgram", "ResumeProgram", "ResumeFailProgram"):
        assert told[name].startswith("/opt/gsched/bin/gsched-")
    assert int(told["SuspendTime"]) >= 100 * DAY_S  # -1 switches power saving off
    assert {"SuspendTimeout", "ResumeTimeout"} <= set(told)
