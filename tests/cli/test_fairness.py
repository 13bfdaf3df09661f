"""`gsched fairness` from the database, and from the daemon's status file where there is none."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import time
import tomllib
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.fairness_past import T0, UNTIL, two_days
from support.json_shape import block

from gsched.app.daemon_fairness import QUOTAS_INTERVAL_S
from gsched.config.settings import FairnessSettings
from gsched.engine.lease_rules import HAND_OVERS_A_LEASE
from gsched.fairness.metric import LOSS_BELOW
from gsched.policy.ltgf import Ltgf
from gsched_cli.commands.fairness import fairness
from gsched_sql import History

PAGE = Path(__file__).parents[2] / "man" / "man7" / "gsched-fairness.7"


def moment(epoch: int) -> str:
    return f"{datetime.fromtimestamp(epoch, UTC):%Y-%m-%dT%H:%M:%S+00:00}"


TWO_DAYS = ("--since", moment(T0), "--until", moment(UNTIL))


@pytest.fixture
def cluster(gsched, environment):
    """A database of two days; of Slurm there is nothing, and nothing is asked."""
    environment["GSCHED_DAEMON_POLICY"] = "ltgf"
    assert gsched("db", "init").returncode == 0
    with History.open(f"sqlite:///{environment['GSCHED_STATE_DIR']}/history.db") as history:
        two_days(history)


def test_the_document_has_the_keys_that_the_manual_names(gsched, cluster):
    answer = gsched("fairness", *TWO_DAYS, "-A", "lab2", "-A", "greedy", "--json")
    assert (answer.returncode, answer.stderr) == (0, "")
    document = json.loads(answer.stdout)
    assert block(document) in inspect.cleandoc(fairness.help)
    text = " ".join((fairness.help or "").split())
    named = {*document["known"], *document["history"], *document["history"]["tenants"][0]}
    assert {key for key in named - {"tenant"} if key not in text} == set()
    assert (document["told_by"], document["cluster"]) == ("history", "lab")
    assert (document["since"], document["until"]) == (T0, UNTIL)
    lab2 = document["tenants"][0]
    assert (lab2["tenant"], lab2["received_gpu_hours"], lab2["quota_gpus"]) == ("lab2", 48, 3)
    assert (document["jobs_counted"], document["loss_jobs"], len(document["jobs"])) == (72, 24, 72)
    course = document["history"]
    assert (course["step_s"], len(course["begins"]), course["begins"][0]) == (3600, 48, T0)
    assert course["tenants"][0]["gpus"] == [2.0, 0.0] * 24
    assert course["tenants"][0]["r"][:2] == [pytest.approx(2 / 3), None]


def test_as_text_with_a_plot_and_a_page(gsched, cluster, tmp_path):
    answer = gsched("fairness", *TWO_DAYS, "--html", "out")
    assert answer.returncode == 0, answer.stderr
    rows = [line.split() for line in answer.stdout.splitlines()]
    assert ["lab2", "0.67", "48.0", "72.0", "96.0", "24", "24", "24", "of", "24"] in rows
    assert ["greedy", "3", "-92.6", "144.0", "192.0", "48.0", "0.0"] in rows
    (bars,) = [line for line in answer.stdout.splitlines() if line.startswith("  lab2")]
    assert f"|{'▄ ' * 24}|  1 of 3" in bars
    assert f"|{'6 ' * 24}|  r 0.67" in answer.stdout
    assert f"|{'+' * 48}|  r 1.33" in answer.stdout
    assert "- Account idle is owed 54.4 GPU-h." in answer.stdout
    assert "out/index.html is written" in answer.stderr
    assert (tmp_path / "out" / "index.html").read_text().count("<svg") == 3


def test_a_plot_without_unicode(gsched, cluster):
    answer = gsched("fairness", *TWO_DAYS, environ={"LC_ALL": "C"})
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.isascii()
    assert f"|{'= ' * 24}|  1 of 3" in answer.stdout


def test_hostile_names_stay_on_their_line(gsched, cluster, environment):
    from support.fairness_past import gpu_job
    from support.history import batch

    with History.open(f"sqlite:///{environment['GSCHED_STATE_DIR']}/history.db") as history:
        history.ingest(batch(gpu_job(9, "x\x1b[31m\n‮y", "e\nve", 0, 0, 3600)), source_key="b")
    for words in (("-u", "e\nve"), ()):
        answer = gsched("fairness", *TWO_DAYS, *words)
        assert answer.returncode == 0, answer.stderr
        assert "\x1b" not in answer.stdout
        assert "‮" not in answer.stdout
        assert "x\\x1b[31m\\n\\u202ey" in answer.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("-A", "lab9"), 2, "no account 'lab9' asked for GPUs in this time"),
        (("-u", "carl"), 2, "no job of user 'carl'"),
        (("-j", "7000"), 2, "job 7000 is none that asked for GPUs"),
        (("-j", "x"), 2, "not a job id"),
        (("--until", moment(T0)), 2, "there is no time between --since and --until"),
    ],
)
def test_what_cannot_be_answered(gsched, cluster, words, code, says):
    answer = gsched("fairness", *TWO_DAYS, *words)
    assert answer.returncode == code
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr


def test_without_database_the_daemon_tells(gsched, environment):
    state = Path(environment["GSCHED_STATE_DIR"])
    answer = gsched("fairness")
    assert answer.returncode == 69
    assert "no history database on this host, and no gsched daemon tells" in answer.stderr
    state.mkdir()
    row = dict.fromkeys(
        ("quota_gpus", "received_gpu_hours", "entitled_gpu_hours", "owed_gpu_hours",
         "due_gpu_hours", "demanded_gpu_hours", "borrowed_gpu_hours", "lent_gpu_hours"), 2.5,
    )  # fmt: skip
    told = {"since": T0, "until": UNTIL, "half_life_s": 604800, "quota_source": "limits"}
    told["tenants"] = [{"tenant": "lab\x1b1", "r": 0.5, **row}]
    head = {"version": 1, "as_of": time.time(), "interval_s": 30.0, "jobs": {}, "cluster": "lab"}
    status = head | {"policy": "ltgf", "fairness": told}
    (state / "status.json").write_text(json.dumps(status))
    answer = gsched("fairness")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "lab\\x1b1  0.50       2.5" in answer.stdout
    assert "as its daemon tells; no history database on this host." in answer.stdout
    assert "Quotas are by GrpTRES of the accounts (sacctmgr)." in answer.stdout
    assert "How accounts stand (GPU-h):\nACCOUNT" in answer.stdout
    document = json.loads(gsched("fairness", "--json").stdout)
    assert (document["told_by"], document["tenants"][0]["r"]) == ("daemon", 0.5)
    text = " ".join((fairness.help or "").split())
    assert [key for key in document if key not in text] == []
    answer = gsched("fairness", "--since", "2d")
    assert answer.returncode == 77
    assert "only the accounts of the last 7 days" in answer.stderr
    (state / "status.json").write_text(json.dumps(status | {"fairness": {"private": True}}))
    answer = gsched("fairness", "--json")
    assert answer.returncode == 77
    assert "this cluster hides who uses what (PrivateData)" in answer.stderr


def test_who_has_no_database_loads_none(environment, tmp_path):
    told = {"since": 1, "until": 2, "half_life_s": 1, "quota_source": "equal", "tenants": []}
    status = {"version": 1, "as_of": 1, "interval_s": 30.0, "jobs": {}, "fairness": told}
    state = Path(environment["GSCHED_STATE_DIR"])
    state.mkdir()
    (state / "status.json").write_text(json.dumps(status))
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "gsched_cli", "fairness"],
        capture_output=True, text=True, env=environment, cwd=tmp_path, check=True,
    )  # fmt: skip
    assert "How accounts stand" in done.stdout
    loaded = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "gsched.app.fairness.public" in loaded
    heavy = {"sqlalchemy", "numpy", "pandas", "sklearn", "matplotlib", "gsched_sql"}
    assert heavy & {name.partition(".")[0] for name in loaded} == set()


def test_quotas_of_simulations_are_written_on_the_command_line(gsched, tmp_path):
    header = "timestamp,duration,num_gpus,gpu_time,cluster\n"
    rows = [f"2017-10-01 00:{n % 60:02}:00,{n % 97 + 100},2,1,v{n % 2}\n" for n in range(120)]
    (tmp_path / "jobs.csv").write_text(header + "".join(rows))
    words = ("sim", "run", "--policy", "ltgf", "--format", "philly", "jobs.csv", "--nodes", "1x4")
    answer = gsched(*words, "--quota", "v0=3", "--quota", "v1=1", "--json")
    assert answer.returncode == 0, answer.stderr
    notes = json.loads(answer.stdout)["notes"]
    assert "ltgf: quotas in GPUs by --quota: v0 3, v1 1; other tenants have none." in notes
    answer = gsched(*words, "--quota", "v0")
    assert answer.returncode == 2
    assert "--quota 'v0' is no tenant with a number of GPUs" in answer.stderr


def test_the_page_names_every_key_and_knob():
    page = PAGE.read_text().replace("\\-", "-")
    named = {key.name for key in fields(FairnessSettings)} | {knob.name for knob in Ltgf.knobs}
    assert {name for name in named if name not in page} == set()
    assert f"below {LOSS_BELOW:g}" in page
    days = next(knob.default for knob in Ltgf.knobs if knob.name == "half_life_s") / 86_400
    assert f"{days:g} days" in page
    assert f"{HAND_OVERS_A_LEASE} times what a hand-over costs" in page
    assert QUOTAS_INTERVAL_S == 600
    assert "asks every ten minutes" in page
    example = page.partition("[fairness.quotas]\nlab1")[2].partition(".fi")[0]
    told = tomllib.loads(f"[fairness.quotas]\nlab1{example}")["fairness"]
    assert told.keys() == {"quotas", "gpu_weights"}
