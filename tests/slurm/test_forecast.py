"""When jobs will start, foreseen on a real Slurm by a real daemon and its forecasting process.

Jobs ask for an hour and run for less than a minute, which the site's table of durations knows.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.site import GSCHED, Site, fresh_site

from gsched.daemon.status_file import parse_status
from gsched.model.start_forecast import FORECAST_MODEL
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

CONF = ("PartitionName=other Nodes=gn02 MaxTime=120",)
HOUR_S = 3600
RUN_S = 20


class Foreseen:
    """A site whose daemon foresees; node gn01 is full of a job that runs for RUN_S."""

    def __init__(self, site: Site, daemon: Background) -> None:
        self.site = site
        self.daemon = daemon

    def submit(self, *options: str, seconds: float = RUN_S, user: str = "games") -> int:
        words = ["sbatch", "--parsable", "-J", f"d{seconds:g}", "-o", "/dev/null", "-t", "60"]
        words += [*options, "--wrap", f"sleep {seconds}"]
        return int(self.site.slurm(*words, user=user))

    def status(self) -> dict[str, Any]:
        return dict(self.site.json("daemon", "status")["forecast"])

    def job(self, job: int) -> dict[str, Any]:
        """What the status file says of it, {} for nothing."""
        path = self.site.state / "status.json"
        document = parse_status(path.read_text()) if path.exists() else None
        return dict((document or {"jobs": {}})["jobs"].get(str(job), {}))

    def start(self, job: int) -> dict[str, Any]:
        """Its expected start, as soon as there is one."""
        wait_for(lambda: "start" in self.job(job), f"a forecast of {job}", 180.0)
        return dict(self.job(job)["start"])

    def slurms_start(self, job: int) -> int:
        """When Slurm itself expects to start it."""

        def told() -> str:
            words = ["squeue", "--start", "-h", "-j", str(job), "-o", "%S"]
            answer = self.site.bed.run(words, extra_env={"SLURM_TIME_FORMAT": "%s"})
            return answer.stdout.strip()

        wait_for(lambda: told().isdecimal(), "Slurm's own expectation", 60.0)
        return int(told())

    @contextmanager
    def configured(self, what: str, instead: str) -> Iterator[None]:
        """The daemon with another configuration during the block."""
        text = self.site.config.read_text()
        assert what in text
        self._reload(text.replace(what, instead))
        try:
            yield
        finally:
            self._reload(text)

    def _reload(self, text: str) -> None:
        self.site.config.write_text(text)
        self.site.ok("daemon", "reload")

    def children(self) -> list[int]:
        """Forecasting processes of this daemon."""
        pid = self.site.json("daemon", "status")["pid"]
        return [p for p in _children(int(pid)) if "gsched.app.forecast.worker" in _command(p)]


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def _command(pid: int) -> str:
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes().decode()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def foreseen() -> Iterator[Foreseen]:
    with fresh_site(num_nodes=2, extra_conf=CONF) as site:
        site.configure("daemon", query_listen='"127.0.0.1:0"')
        site.configure("forecast", enabled="true", interval_s="2", cpu_share="1.0", samples="16")
        site.know_durations({f"d{RUN_S:g}": RUN_S, "d600": 600})
        log = site.bed.spec.root / "daemon.log"
        with Background(site.bed, [GSCHED, "daemon", "run", "--interval", "1"], log) as daemon:
            wait_for(lambda: site.json("daemon", "status")["query_address"], "the daemon")
            made = Foreseen(site, daemon)
            made.submit("--gres=gpu:8", "-w", "gn02", seconds=600)
            yield made


def test_the_start_is_foreseen_by_run_times_where_slurm_reckons_with_limits(
    foreseen: Foreseen,
) -> None:
    first = foreseen.submit("--gres=gpu:8", "-w", "gn01")
    wait_for(lambda: foreseen.site.states()[first] == "RUNNING", "the first to run")
    began = time.time()
    job = foreseen.submit("--gres=gpu:8")
    start = foreseen.start(job)
    assert began + RUN_S / 2 < start["median"] < began + 3 * RUN_S
    assert start["low"] <= start["median"] <= start["high"]
    assert start["coverage"] == 0.8
    assert foreseen.slurms_start(job) > began + HOUR_S / 2
    following = foreseen.job(job)["next_free"]
    assert (following["job"], following["nodes"]) == (str(first), "gn01")
    wait_for(lambda: foreseen.site.states()[job] == "RUNNING", "it to start", 120.0)
    wait_for(lambda: "start" not in foreseen.job(job), "the forecast to be over")
    with History.open(f"sqlite:///{foreseen.site.state}/history.db") as history:
        cluster = foreseen.site.json("daemon", "status")["cluster"]

        def known() -> list[Any]:
            found = history.start_forecasts(cluster, FORECAST_MODEL, int(began) - 60, 100)
            return [one for one in found if one.start_time is not None]

        wait_for(lambda: bool(known()), "what became of it to be known", 60.0)
        (kept,) = known()
    assert abs(kept.median - kept.start_time) < 2 * RUN_S


def test_what_would_start_it_sooner_is_tried_in_the_same_run(foreseen: Foreseen) -> None:
    site = foreseen.site
    wait_for(lambda: "PENDING" not in site.states().values(), "an empty queue", 120.0)
    foreseen.submit("--gres=gpu:6", "-w", "gn01", seconds=600)
    foreseen.submit("--gres=gpu:8", seconds=600)
    job = foreseen.submit("--gres=gpu:4", "-p", "gpu")
    wait_for(lambda: "changes" in foreseen.job(job), "changes to be tried", 60.0)
    told = foreseen.job(job)
    tried = {one["option"]: one["start"]["median"] for one in told["changes"]["tried"]}
    assert set(tried) >= {"--gres=gpu:2", "--gres=gpu:1", "--partition=other"}
    assert tried["--gres=gpu:2"] < told["start"]["median"] - 100
    assert tried["--gres=gpu:2"] - told["changes"]["as_of"] < 60
    assert told["start"]["median"] - told["start"]["as_of"] > 100


def test_who_cannot_start_is_told_why(foreseen: Foreseen) -> None:
    held = foreseen.submit("--gres=gpu:1", "--hold")
    behind = foreseen.submit("--gres=gpu:1", "-d", f"afterok:{held}")
    later = foreseen.submit("--gres=gpu:8", "--begin=now+3hours")
    expected = {held: "held", behind: "dependency"}
    for job, code in expected.items():
        wait_for(lambda j=job: "no_start" in foreseen.job(j), "a reason", 60.0)
        wait_for(lambda j=job, c=code: foreseen.job(j)["no_start"] == c, code, 60.0)
    start = foreseen.start(later)
    assert start["median"] >= time.time() + 2.9 * HOUR_S


def test_a_question_about_a_new_job_is_answered_by_a_forecast_at_once(foreseen: Foreseen) -> None:
    with foreseen.configured("interval_s = 2", "interval_s = 3600"):
        _ask_about_a_new_job(foreseen)


def _ask_about_a_new_job(foreseen: Foreseen) -> None:
    site = foreseen.site
    before = foreseen.status()["as_of"]
    job = foreseen.submit("--gres=gpu:8")
    elsewhere = {
        "GSCHED_STATE_DIR": str(site.bed.spec.root / "elsewhere"),
        "GSCHED_DAEMON_QUERY_ADDRESS": str(site.json("daemon", "status")["query_address"]),
    }

    def told() -> dict[str, Any]:
        answer = site.gsched("why", str(job), "--json", user="games", env=elsewhere)
        return dict(json.loads(answer.stdout)["gsched"] or {})

    wait_for(lambda: "start" in told(), "the answer", 60.0)
    # the forecast itself is told at once, the status only by the next round
    wait_for(lambda: foreseen.status()["as_of"] > before, "a round to tell of it")


def test_a_child_that_is_killed_comes_back_and_rounds_go_on(foreseen: Foreseen) -> None:
    (child,) = foreseen.children()
    assert os.getpriority(os.PRIO_PROCESS, child) >= 10
    before = foreseen.status()
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: foreseen.status()["failures"] > before["failures"], "the failure", 60.0)
    round_at = foreseen.site.json("daemon", "status")["last_round_as_of"]
    assert "signal 9" in foreseen.status()["problem"]
    wait_for(
        lambda: foreseen.site.json("daemon", "status")["last_round_as_of"] > round_at, "a round"
    )
    wait_for(lambda: foreseen.status()["as_of"] > before["as_of"] + 5, "a newer forecast", 120.0)
    (another,) = foreseen.children()
    assert another != child
    assert foreseen.status()["problem"] == ""


def test_switched_off_there_is_no_child_and_users_are_told(foreseen: Foreseen) -> None:
    with foreseen.configured("enabled = true", "enabled = false"):
        job = foreseen.submit("--gres=gpu:8", "--hold")
        wait_for(lambda: foreseen.job(job).get("no_start") == "off", "a round to say so")
        wait_for(lambda: foreseen.children() == [], "the child to be dismissed")
        assert foreseen.status() == {}
    wait_for(lambda: foreseen.job(job).get("no_start") == "held", "a forecast", 120.0)


def test_the_child_ends_with_a_daemon_that_is_killed(foreseen: Foreseen) -> None:
    (child,) = foreseen.children()
    os.kill(child, signal.SIGSTOP)
    os.kill(int(foreseen.site.json("daemon", "status")["pid"]), signal.SIGKILL)
    wait_for(lambda: "gsched.app.forecast.worker" not in _command(child), "the child's end", 30.0)
