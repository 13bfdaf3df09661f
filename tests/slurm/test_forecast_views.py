"""What users are told of the daemon's forecast on a real Slurm: why, queue, show, submit.

Node gn01 is half taken by a job with a limit of five hours, of a name whose jobs run for one; a job
that needs all of it waits first. Slurm starts a third one before that only if its limit ends within
those five hours.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.history import attempt, batch
from support.site import GSCHED, Site, fresh_site

from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

CONF = (
    "PartitionName=main Nodes=gn01",
    "PartitionName=spare Nodes=gn02",
    "PartitionName=closing Nodes=gn02",
)
CLOCK = r"(?:now|(?:\w{3} )?\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d)"
OTHERS = {"--partition=spare", "--partition=closing", "--partition=gpu"}
"""Where the idle node is."""
SPAN = rf"{CLOCK} \(80 %: {CLOCK}–{CLOCK}\)"
HOUR = 3600
RUNS_S = {"long": HOUR, "quick": 300}
"""How long jobs of a name have run, by the history, on average."""


def past_jobs(cluster: str) -> Iterator[Any]:
    """Sixty jobs of each name, over the last ten days."""
    draw, now = random.Random(7), int(time.time())
    for number, (name, run_s) in enumerate(list(RUNS_S.items()) * 60):
        began = now - 10 * 86400 + number * 7000
        ended = began + int(run_s * draw.uniform(0.8, 1.2))
        gpus = 8 if name == "long" else 4
        yield attempt(
            1000 + number, began, cluster=cluster, user="games", name=name, start_time=began,
            end_time=ended, time_limit_s=2 * 86400, num_gpus=gpus, partition="main",
        )  # fmt: skip


def submit(site: Site, name: str, gpus: int, limit: str, *words: str, command: str = "true") -> str:
    options = ("-p", "main", "-J", name, f"--gres=gpu:{gpus}", "-t", limit, "-o", "/dev/null")
    argv = ("sbatch", "--parsable", *options, *words, "--wrap", command)
    return site.slurm(*argv, user="games").strip()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=2, accounting="slurmdbd", extra_conf=CONF) as made:
        with History.open(f"sqlite:///{made.state}/history.db") as history:
            history.ingest(batch(*past_jobs(made.bed.spec.cluster)), source_key=None)
        made.ok("predict", "train")
        made.configure("daemon", interval_s="1.0", query_listen='"127.0.0.1:0"')
        made.configure("forecast", interval_s="2.0", cpu_share="1.0")
        holder = submit(made, "long", 4, "5:00:00", command="sleep 3600")
        wait_for(lambda: made.states()[int(holder)] == "RUNNING", "the node to be half taken")
        submit(made, "long", 8, "5:00:00")
        log = made.bed.spec.root / "daemon.log"
        with Background(made.bed, [GSCHED, "daemon", "run"], log):
            wait_for(lambda: made.json("daemon", "status")["query_address"], "the daemon to listen")
            yield made


def why(site: Site, job: str) -> Any:
    return json.loads(site.ok("why", job, "--json", user="games"))


def forecast(site: Site, job: str) -> Any:
    """What `why` says once there is a forecast of the job, and its changes have been tried."""

    def told() -> Any:
        found = why(site, job)
        return found if {"start", "changes"} <= (found["gsched"] or {}).keys() else None

    return wait_for(told, f"a forecast of {job}", timeout_s=90, poll_s=0.5)


def test_when_a_job_should_start_and_what_would_help(site: Site) -> None:
    job = submit(site, "quick", 4, "2-00:00:00")
    found = forecast(site, job)
    start, as_of = found["expected_start"], found["expected_start"]["as_of"]
    # after the one that runs and the one that waits, by what is predicted of them
    assert as_of + HOUR < start["low"] <= start["median"] <= start["high"] < as_of + 4 * HOUR
    assert start["coverage"] == 0.8
    tried = {change["option"] for change in found["gsched"]["changes"]["tried"]}
    helps = {change["option"]: change for change in found["would_help"]}
    (limit,) = (option for option in helps if option.startswith("--time="))
    assert set(helps) == {*OTHERS, limit}
    assert all(c["start"]["median"] < as_of + 600 for c in helps.values())
    assert "--gres=gpu:2" in tried  # as many or fewer, it stands behind the one that needs all
    advice = found["limit_advice"]
    assert (advice["asked_s"], str(advice["time_limit_s"])) == (2 * 86400, helps[limit]["value"])
    assert 300 < advice["time_limit_s"] < HOUR
    assert found["next_to_free"]["nodes"] == "gn01"
    site.slurm("scancel", job)


def test_it_is_told_in_words_beside_slurms_own_estimate(site: Site) -> None:
    blocker = site.slurm("squeue", "-h", "-n", "long", "-t", "PD", "-o", "%i").strip()
    found = forecast(site, blocker)
    wait_for(lambda: why(site, blocker)["slurm_start_time"], "Slurm to reckon when it starts")
    start = found["expected_start"]
    assert start["median"] < start["as_of"] + 2 * HOUR
    assert why(site, blocker)["slurm_start_time"] > start["as_of"] + 4 * HOUR
    text = site.ok("why", blocker, user="games")
    assert re.search(rf"^  expected start   {SPAN}.*; Slurm's own estimate: ", text, re.MULTILINE)
    assert re.search(rf"^  next to free     gn01: \d+ should end {SPAN}$", text, re.MULTILINE)
    assert "next to end" not in text
    assert "Slurm expects" not in text


def test_queue_and_show_tell_it_too(site: Site) -> None:
    job = submit(site, "quick", 4, "2-00:00:00")
    forecast(site, job)
    helps = re.search(r"^  would help       (.*)$", site.ok("why", job, user="games"), re.MULTILINE)
    assert helps is not None
    assert re.search(r"--time=\d+:\d\d → now \(long enough with probability 0\.\d\d\)", helps[1])
    assert "--partition=spare → now" in helps[1]
    (line,) = (x for x in site.ok("queue", "-j", job, user="games").splitlines() if job in x)
    assert re.search(rf"{CLOCK} \({CLOCK}–{CLOCK}\)", line)
    shown = site.ok("show", job, user="games")
    assert re.search(rf"^gsched expects start +{SPAN}", shown, re.MULTILINE)
    assert re.search(r"^gsched tried +--gres=gpu:2 → ", shown, re.MULTILINE)
    site.slurm("scancel", job)


def test_a_partition_that_closes_to_the_account_is_proposed_no_longer(site: Site) -> None:
    job = submit(site, "quick", 4, "2-00:00:00")
    assert {c["option"] for c in forecast(site, job)["would_help"]} >= OTHERS
    site.slurm("scontrol", "update", "partitionname=closing", "allowaccounts=lab2")
    try:
        proposed = {c["option"] for c in why(site, job)["would_help"]}
        assert OTHERS - proposed == {"--partition=closing"}
    finally:
        site.slurm("scontrol", "update", "partitionname=closing", "allowaccounts=ALL")
        site.slurm("scancel", job)


def test_a_held_job_and_one_that_never_starts_have_no_start(site: Site) -> None:
    held, doomed = submit(site, "quick", 4, "10", "-H"), submit(site, "quick", 9, "10", "-H")
    told = why(site, held)
    assert (told["expected_start"], told["no_start"]) == (None, "held")
    told = why(site, doomed)
    assert (told["verdict"], told["expected_start"], told["no_start"]) == ("never", None, "never")
    first = site.ok("why", doomed, user="games").splitlines()[0]
    assert first.startswith(f"{doomed} can never start: it asks for 9 GPUs")
    site.slurm("scancel", held, doomed)


@pytest.mark.parametrize("by_socket", [False, True])
def test_a_suggestion_comes_in_time_and_changes_nothing(site: Site, by_socket: bool) -> None:
    env = {"GSCHED_SUBMIT_SUGGEST_WAIT_S": "60"}
    if by_socket:
        env["GSCHED_DAEMON_QUERY_ADDRESS"] = str(site.json("daemon", "status")["query_address"])
        env["GSCHED_STATE_DIR"] = str(site.bed.spec.root / "elsewhere")
    words = ("-p", "main", "-J", "quick", "--gres=gpu:4", "-t", "2-0", "-o", "/dev/null")
    argv = ("submit", "--gs-suggest", "--parsable", *words, "--wrap", "true")
    answer = site.gsched(*argv, user="games", env=env)
    job = answer.stdout.strip()
    assert (answer.returncode, job.isdecimal()) == (0, True)
    first, second = answer.stderr.splitlines()
    run = r"predicted run \d+:\d\d \(80 %: \d+:\d\d–\d+:\d\d, from \d+ similar jobs of this user\)"
    assert re.fullmatch(rf"gsched: {run}; expected start {SPAN}", first)
    assert re.fullmatch(
        r"gsched: your limit is 2-00:00:00; --time=\d+:\d\d would help: expected start now "
        r"\(long enough with probability 0\.\d\d\)",
        second,
    )
    assert site.slurm("squeue", "-h", "-j", job, "-o", "%l").strip() == "2-00:00:00"
    assert site.slurm("squeue", "-h", "-j", job, "-O", "comment:200").strip() == "(null)"
    site.slurm("scancel", job)
