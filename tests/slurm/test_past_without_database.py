"""`history`, `eff`, `show` and `why` on a login node: the user's own sacct, and nothing else."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from support.site import GSCHED, Site, fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

BURNS = "import time; t = time.process_time()\nwhile time.process_time() - t < 3: pass"
REQUEUES = 'test "${SLURM_RESTART_COUNT:-0}" = 1 || exec sleep 300'
HOSTILE = "x|\n\x1b[31mJobId=1"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A site with slurmdbd whose login nodes have no history database."""
    with fresh_site(accounting="slurmdbd", extra_conf=("JobAcctGatherFrequency=1",)) as made:
        (made.state / "history.db").unlink()
        yield made


def submit(site: Site, user: str, *options: str, command: str) -> str:
    words = ("sbatch", "--parsable", "-o", "/dev/null", "-t", "5", *options, "--wrap", command)
    return site.slurm(*words, user=user).strip()


def ask(site: Site, user: str | None, *words: str) -> Any:
    answer = site.gsched(*words, "--json", user=user)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def told_by_sacct(site: Site, job: str, state: str) -> None:
    words = ("sacct", "-n", "-P", "-X", "-D", "-j", job, "-o", "State", "-S", "now-1hour")
    wait_for(lambda: state in site.slurm(*words).split("\n"), f"sacct to tell of job {job}")


@pytest.fixture(scope="module")
def jobs(site: Site) -> dict[str, str]:
    """Jobs that have ended: one burnt CPU, one slept, one was requeued, one is another user's."""
    found = {
        "burn": submit(site, "games", "-c2", "--gres=gpu:2", command=f"python3 -c '{BURNS}'"),
        "sleep": submit(site, "games", "-J", HOSTILE, command="sleep 3"),
        "requeued": submit(site, "games", "--requeue", "--gres=gpu:1", command=REQUEUES),
        "other": submit(site, "news", command="exit 3"),
    }
    wait_for(lambda: site.states()[int(found["requeued"])] == "RUNNING", "the job to run")
    site.slurm("scontrol", "requeue", found["requeued"], user="games")
    for name, state in (("burn", "COMPLETED"), ("sleep", "COMPLETED"), ("other", "FAILED")):
        told_by_sacct(site, found[name], state)
    told_by_sacct(site, found["requeued"], "COMPLETED")
    return found


def test_the_history_is_the_users_own_with_requeues_joined(
    site: Site, jobs: dict[str, str]
) -> None:
    document = ask(site, "games", "history")
    assert (document["source"], document["users"], document["more"]) == ("sacct", ["games"], False)
    past = {job["job"]: job for job in document["jobs"]}
    assert set(past) == {jobs["burn"], jobs["sleep"], jobs["requeued"]}
    states = [a["state"] for a in past[jobs["requeued"]]["attempts"]]
    assert states == ["REQUEUED", "COMPLETED"]
    assert past[jobs["sleep"]]["name"] == HOSTILE
    words = site.gsched("history", user="games")
    assert re.search(
        r"no history database on this host: sacct's jobs of games since 20", words.stderr
    )
    assert len(words.stdout.splitlines()) == 4
    assert "\x1b" not in words.stdout


def test_filters_and_columns(site: Site, jobs: dict[str, str]) -> None:
    def ids(*words: str, user: str | None = "games") -> set[str]:
        return {job["job"] for job in ask(site, user, "history", *words)["jobs"]}

    assert ids("-s", "failed", user="news") == {jobs["other"]}
    assert ids("-s", "F") == set()
    assert ids("-n", HOSTILE) == {jobs["sleep"]}
    assert ids("-p", "nowhere") == ids("-A", "lab2") == set()
    assert ids("-j", jobs["burn"]) == {jobs["burn"]}
    assert ids("--since", "2h") == ids() == ids("-S", "now-2hours")
    assert ids("--until", "1d") == set()
    assert len(ids("--limit", "1")) == 1
    assert ids(user=None) == set(jobs.values())  # an admin sees all
    lines = site.ok("history", "-P", "-o", "jobid,exit,attempts", "-j", jobs["requeued"])
    assert lines == f"jobid|exit|attempts\n{jobs['requeued']}|0:0|2\n"
    assert site.gsched("history", "-u", "nobody-here").returncode == 2


def test_the_same_document_as_from_a_database(site: Site, jobs: dict[str, str]) -> None:
    own = ask(site, None, "history")
    site.ok("db", "init")
    try:
        site.ok("db", "ingest", "--source", "sacct")
        stored = ask(site, None, "history")
    finally:
        (site.state / "history.db").unlink()
    assert (own["source"], stored["source"]) == ("sacct", "database")
    assert own.keys() == stored.keys()
    assert own["jobs"] == stored["jobs"]


def test_efficiency_is_what_the_job_did(site: Site, jobs: dict[str, str]) -> None:
    (burnt,) = ask(site, "games", "eff", jobs["burn"])["jobs"]
    assert burnt["cpu_time_s"] == pytest.approx(3, abs=0.7)  # the program measured itself
    assert burnt["cpu_available_s"] == 2 * burnt["elapsed_s"]
    assert burnt["cpu_efficiency"] == burnt["cpu_time_s"] / burnt["cpu_available_s"]
    assert burnt["gpu_time_s"] == 2 * burnt["elapsed_s"]
    assert burnt["mem_allocated_bytes"] == 2 * 1000 * 2**20
    assert 2**22 < burnt["mem_used_bytes"] < 2**28
    assert burnt["gpu_util_percent"] is None
    (slept,) = ask(site, "games", "eff", jobs["sleep"])["jobs"]
    assert slept["cpu_efficiency"] < 0.2
    assert slept["elapsed_s"] in {3, 4, 5}
    (requeued,) = ask(site, "games", "eff", jobs["requeued"])["jobs"]
    assert requeued["num_attempts"] == 2
    assert requeued["lost_gpu_time_s"] == requeued["lost_s"]
    text = site.ok("eff", jobs["sleep"], user="games")
    assert "\x1b" not in text
    assert "unless it went on from a checkpoint" in site.ok("eff", jobs["requeued"], user="games")


def test_a_running_job_is_measured_so_far_by_its_owner_alone(site: Site) -> None:
    job = submit(site, "games", command="exec sleep 300")
    told_by_sacct(site, job, "RUNNING")
    try:
        wait_for(
            lambda: ask(site, "games", "eff", job)["jobs"][0]["mem_used_bytes"] is not None,
            "Slurm to have looked at the job",
        )
        (seen,) = ask(site, "news", "eff", job)["jobs"]
        assert (seen["state"], seen["cpu_time_s"], seen["mem_used_bytes"]) == (
            "RUNNING",
            None,
            None,
        )
        assert "so far of the time limit" in site.ok("eff", job, user="games")
    finally:
        site.slurm("scancel", job)


def test_show_and_why_know_jobs_that_have_left_the_queue(site: Site, jobs: dict[str, str]) -> None:
    shown = ask(site, "games", "show", jobs["requeued"])
    assert shown["history_source"] == "sacct"
    assert len(shown["history"][0]["attempts"]) == 2
    assert ask(site, "news", "why", jobs["other"])["verdict"] == "ended"
    running = submit(site, "games", "--gres=gpu:2", "-J", HOSTILE, command="sleep 300")
    told_by_sacct(site, running, "RUNNING")
    facts = ask(site, "games", "show", running)["slurm"]
    assert facts["node_gres"] == {"gn01": "gpu:a100:2(IDX:0-1)"}
    assert (facts["std_out"], facts["exit_code"]) == ("/dev/null", None)
    text = site.ok("show", running, user="games")
    assert "\x1b" not in text
    assert not any(line.startswith(("\x1b", "JobId=1")) for line in text.splitlines())
    site.slurm("scancel", running)


@pytest.mark.parametrize("words", [("why", "1"), ("show", "1"), ("eff", "1"), ("history",)])
def test_no_sqlalchemy_is_loaded_where_there_is_no_database(
    site: Site, jobs: dict[str, str], words: tuple[str, ...]
) -> None:
    python = os.path.join(os.path.dirname(GSCHED), "python")  # noqa: PTH118, PTH120
    answer = site.bed.run([python, "-X", "importtime", GSCHED, *words], "games")
    assert answer.returncode == 0, answer.stderr
    loaded = set(re.findall(r"^import time:.*\| +(\S+)$", answer.stderr, re.MULTILINE))
    assert "gsched.slurm.client" in loaded
    heavy = {"sqlalchemy", "numpy", "pandas", "sklearn", "textual", "alembic"}
    assert heavy & {name.partition(".")[0] for name in loaded} == set()


def test_sacct_is_asked_while_slurmctld_is_gone(site: Site, jobs: dict[str, str]) -> None:
    before = {words: ask(site, "games", *words) for words in (("history",), ("eff", jobs["burn"]))}
    site.bed.kill_slurmctld()
    try:
        for words, document in before.items():
            answer = site.gsched(*words, "--json", user="games")
            assert (answer.returncode, json.loads(answer.stdout)["jobs"]) == (0, document["jobs"])
            assert "slurmctld does not answer" not in answer.stderr  # nobody has asked it
    finally:
        site.bed.start_slurmctld()


def test_jobs_that_privatedata_hides_are_as_if_they_did_not_exist(
    site: Site, jobs: dict[str, str]
) -> None:
    conf = site.bed.layout.etc / "slurmdbd.conf"
    conf.write_text(conf.read_text() + "PrivateData=jobs,usage\n")
    os.kill(int((site.bed.layout.run / "slurmdbd.pid").read_text()), signal.SIGHUP)
    slurm_conf = site.bed.layout.slurm_conf
    slurm_conf.write_text(slurm_conf.read_text() + "PrivateData=jobs,usage\n")
    site.slurm("scontrol", "reconfigure")
    own, others = jobs["burn"], jobs["other"]
    wait_for(
        lambda: site.gsched("eff", others, user="games").returncode == 2, "the jobs to be hidden"
    )
    for command in ("eff", "show", "why"):
        hidden = site.gsched(command, others, user="games")
        unknown = site.gsched(command, "4711", user="games")
        assert hidden.returncode == unknown.returncode == 2
        assert hidden.stderr == unknown.stderr.replace("4711", others)
        assert hidden.stdout == ""
        assert "yours to see" in hidden.stderr
        assert site.gsched(command, own, user="games").returncode == 0
        assert site.gsched(command, others).returncode == 0  # an admin
    assert ask(site, "games", "history", "-u", "news")["jobs"] == []
    assert ask(site, "games", "history", "-j", others)["jobs"] == []


def test_without_slurmdbd_slurmctld_is_asked() -> None:
    with fresh_site(accounting="none", num_nodes=1) as site:
        (site.state / "history.db").unlink()
        nothing = site.gsched("history", user="games")
        assert nothing.returncode == 69
        assert "no history database on this host, no slurmdbd on this cluster" in nothing.stderr
        assert "hint: " in nothing.stderr
        job = submit(site, "games", command="exit 3")
        others = submit(site, "news", command="true")
        wait_for(lambda: site.states()[int(job)] == "FAILED", "the job to end")
        document = ask(site, "games", "history")
        assert (document["source"], document["users"]) == ("squeue", ["games"])
        assert [j["job"] for j in document["jobs"]] == [job]  # as sacct does
        for words in ((None, "history"), ("games", "history", "-u", "games,news")):
            assert {j["job"] for j in ask(site, *words)["jobs"]} == {job, others}
        assert ask(site, "games", "history", "-j", others)["jobs"][0]["user"] == "news"
        assert "only what slurmctld remembers" in site.gsched("history", user="games").stderr
        (figures,) = ask(site, "games", "eff", job)["jobs"]
        assert (figures["state"], figures["cpu_efficiency"]) == ("FAILED", None)
        assert "unknown: Slurm has not measured it" in site.ok("eff", job, user="games")
        assert site.gsched("eff", "4711", user="games").returncode == 69
        assert site.gsched("why", "4711", user="games").returncode == 2


def test_a_cluster_that_measures_nothing_gives_unknown_not_zero() -> None:
    extra = ("JobAcctGatherType=jobacct_gather/none",)
    with fresh_site(accounting="slurmdbd", num_nodes=1, extra_conf=extra) as site:
        (site.state / "history.db").unlink()
        job = submit(site, "games", command="sleep 1")
        told_by_sacct(site, job, "COMPLETED")
        (figures,) = ask(site, "games", "eff", job)["jobs"]
        assert figures["elapsed_s"] >= 1
        measured = ("cpu_time_s", "cpu_efficiency", "mem_used_bytes", "mem_efficiency")
        assert [figures[name] for name in measured] == [None] * 4
        assert "CPU         unknown" in site.ok("eff", job, user="games")
