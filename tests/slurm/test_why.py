"""`gsched why` against what Slurm really does: never, held, limits, dependencies, reservations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.site import Site, fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

CONF = (
    "PartitionName=small Nodes=gn01 MaxTime=60 MaxNodes=1",
    "PartitionName=two Nodes=gn[01-02]",
    "PartitionName=closed Nodes=ALL AllowAccounts=lab2",
    "Licenses=matlab:4",
)

# Options of sbatch and what `why` says. The jobs are submitted held, because sbatch refuses most
# of them else; a site gets them when nodes, features or partitions change after the submission.
NEVER = {
    "--gres=gpu:9": "it asks for 9 GPUs on one node; the largest node of gpu has 8",
    "--gres=gpu:h100:1": "no node of gpu has a h100",
    "--gpus=33": "it asks for 33 GPUs; gpu can give it 32 on 4 nodes",
    "-p two --gpus=17": "it asks for 17 GPUs; two can give it 16 on 2 nodes",
    "-N5": "it asks for 5 nodes; gpu has 4",
    "-c65": "it asks for 65 CPUs on one node; the largest node of gpu has 64",
    "-n257": "it asks for 257 CPUs; gpu can give it 256 on 4 nodes",
    "--mem=600G": "it asks for 600 GiB of memory on one node; the largest node of gpu has 500 GiB",
    "-C slow&fast": "no node of gpu has the features slow&fast",
    "-C fast -N2": "it asks for 2 nodes with the features fast; gpu has 1",
    "-C [fast|slow] -N3": "it asks for 3 nodes with the features [fast|slow]; gpu has 2",
    "-x gn[01-03] -N2": "it asks for 2 nodes but excludes all but 1 of the 4 of gpu",
    "-p small -t 61": "its time limit exceeds that of small",
    "-p small -N2": "it asks for 2 nodes; small allows a job 1",
    "-p small,two -N3 -t 30": "it asks for 3 nodes; small allows a job 1",
    "-p two -w gn03": "it asks for gn03, which is not in two",
    "-p closed": "closed takes no jobs of account lab1 (it allows lab2)",
}
STARTS = (
    "--gres=gpu:8",
    "--gres=gpu:a100:8 -N2",
    "--gpus=32",
    "-n256",
    "-O -n300 -N1",
    "--mem=500G",
    "--mem=0 -C slow",
    "-C fast|slow -N2",
    "-x gn[01-03]",
    "-p small -t 60",
    "-p small --gres=gpu:8",
    "-p small,two -N2",
    "-p two,gpu -N3",
    "-L matlab:4",
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=4, accounting="slurmdbd", extra_conf=CONF) as made:
        (made.state / "history.db").unlink()  # a login node
        for name, feature in (("gn01", "fast"), ("gn02", "slow")):
            features = (f"availablefeatures={feature}", f"activefeatures={feature}")
            made.slurm("scontrol", "update", f"nodename={name}", *features)
        yield made


@pytest.fixture(autouse=True)
def empty_queue(site: Site) -> Iterator[None]:
    yield
    site.bed.cancel_jobs()


def submit(site: Site, *options: str, command: str = "hostname", user: str = "games") -> str:
    words = ("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", command)
    return site.slurm(*words, user=user).strip()


def why(site: Site, job: str, user: str = "games") -> Any:
    answer = site.gsched("why", job, "--json", user=user)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def reason(site: Site, job: str) -> str:
    return site.slurm("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r").strip()


def wait_for_reason(site: Site, job: str, wanted: str) -> None:
    wait_for(lambda: wanted in reason(site, job), f"Slurm to say {wanted} of job {job}")


def test_never_is_said_of_jobs_that_slurm_keeps_and_only_of_those(site: Site) -> None:
    doomed = {submit(site, "--hold", *o.split()): words for o, words in NEVER.items()}
    fine = [submit(site, "--hold", "-t", "10", *o.split()) for o in STARTS]
    before = {job: why(site, job) for job in (*doomed, *fine)}
    said = {
        job: before[job]["headline"].partition("can never start: ")[2].split(". ")[0]
        for job in doomed
    }
    assert said == doomed
    assert {before[job]["verdict"] for job in fine} == {"held"}
    # of some, scontrol says at once that there are no such nodes, and releases them all the same
    site.bed.run(["scontrol", "release", ",".join([*doomed, *fine])], "games")
    wait_for(
        lambda: {reason(site, job).split()[0] for job in fine} == {"COMPLETED"},
        "the jobs that can start to have run",
        timeout_s=90,
    )
    # of a partition closed to its account, Slurm 24.11 gives a job no reason, however long it waits
    closed = next(job for job, words in doomed.items() if words == NEVER["-p closed"])
    for job in doomed.keys() - {closed}:
        wait_for(
            lambda job=job: reason(site, job) not in {"PENDING None", "PENDING JobHeldUser"},
            f"Slurm to have looked at job {job}",
        )
    assert {reason(site, job).split()[0] for job in doomed} == {"PENDING"}
    after = why(site, closed)
    assert after["verdict"] == "never"
    assert NEVER["-p closed"] in after["headline"]


@pytest.mark.parametrize(
    ("what", "limit", "asks", "reason_code", "waits"),
    [
        (
            ("account", "lab1"),
            "grptres=gres/gpu=4",
            ("--gres=gpu:4", "--gres=gpu:5"),
            "AssocGrpGRES",
            "account lab1 may have 4 GPUs (GrpTRES); 1 GPU in use; it asks for 4 GPUs",
        ),
        (
            ("qos", "normal"),
            "maxtresperuser=node=1",
            ("-N1 -w gn02", "-N2"),
            "QOSMaxNodePerUserLimit",
            "user games in QOS normal may have 1 node (MaxTRESPU); 1 node in use; "
            "it asks for 1 node",
        ),
        (
            ("account", "lab1"),
            "grptresrunmins=gres/gpu=30",
            ("-t 29 --gres=gpu:1", "-t 31 --gres=gpu:1"),
            "AssocGrpGRESRunMinutes",
            "account lab1 may have 30 GPU-minutes (GrpTRESRunMins)",
        ),
    ],
)
def test_a_limit_is_told_with_its_use_and_whether_waiting_helps(
    site: Site,
    what: tuple[str, str],
    limit: str,
    asks: tuple[str, str],
    reason_code: str,
    waits: str,
) -> None:
    site.slurm("sacctmgr", "-i", "modify", *what, "set", limit)
    try:
        holder = submit(site, "-t", "5", "-w", "gn01", "--gres=gpu:1", command="sleep 300")
        wait_for_reason(site, holder, "RUNNING")
        waiting, doomed = (submit(site, "-t", "5", *a.split()) for a in asks)
        for job in (waiting, doomed):
            wait_for_reason(site, job, reason_code)
        answer = why(site, waiting)
        assert answer["verdict"] == "waiting"
        assert answer["blocks"][0]["code"] == f"slurm.{reason_code}"
        assert any(line["words"].startswith(waits) for line in answer["lines"])
        assert answer["limits"][0]["hopeless"] is False
        assert why(site, doomed)["verdict"] == "never"
    finally:
        site.slurm("sacctmgr", "-i", "modify", *what, "set", limit.rpartition("=")[0] + "=-1")


@pytest.mark.parametrize(
    ("what", "limit", "asks", "words"),
    [
        (("qos", "normal"), "maxwall=60", "-t 61", "QOS normal may have 1:00:00 (MaxWallPJ)"),
        (("user", "games"), "maxjobs=0", "-t 5", "may have 0 jobs (MaxJobs)"),
        (("qos", "normal"), "mintres=cpu=2", "-n1", "QOS normal demands at least 2 CPUs"),
    ],
)
def test_a_limit_that_the_job_alone_breaks(
    site: Site, what: tuple[str, str], limit: str, asks: str, words: str
) -> None:
    site.slurm("sacctmgr", "-i", "modify", *what, "set", limit)
    try:
        job = submit(site, *asks.split())
        wait_for(lambda: why(site, job)["verdict"] == "never", "why to see the limit")
        assert words in why(site, job)["headline"]
        assert reason(site, job).startswith("PENDING")
    finally:
        site.slurm("sacctmgr", "-i", "modify", *what, "set", limit.rpartition("=")[0] + "=-1")


def test_the_qos_of_a_partition_goes_before_that_of_the_job(site: Site) -> None:
    def manage(*words: str) -> None:
        site.slurm("sacctmgr", "-i", *words)

    limits = {"tight": 2, "wide": 8, "over": 3}
    for qos, most in limits.items():
        manage("add", "qos", qos, "set", f"maxtresperuser=gres/gpu={most}")
    manage("modify", "qos", "over", "set", "flags=overpartqos")
    manage("modify", "user", "games", "set", "qos+=tight,wide,over")
    site.slurm("scontrol", "update", "partitionname=two", "qos=tight")
    site.slurm("scontrol", "update", "partitionname=closed", "qos=wide", "allowaccounts=ALL")
    try:
        holder = submit(site, "-p", "closed", "-q", "tight", "--gres=gpu:6", command="sleep 300")
        starts = submit(site, "-p", "two", "-q", "over", "--gres=gpu:3", command="sleep 300")
        for job in (holder, starts):  # beyond the limit of the other QOS
            wait_for_reason(site, job, "RUNNING")
        said = {
            ("two", "normal", 4): ("never", "user games in QOS tight of partition two may have 2"),
            ("two", "over", 4): ("never", "user games in QOS over may have 3 GPUs"),
            ("closed", "tight", 3): ("waiting", "user games in QOS wide of partition closed may"),
            ("two,closed", "normal", 3): ("waiting", ""),
            ("two,closed", "normal", 9): ("never", "user games in QOS "),
        }
        for (partition, qos, gpus), (verdict, words) in said.items():
            nodes = "-N2" if gpus > 8 else "-N1"
            asks = ("-p", partition, "-q", qos, nodes, f"--gpus={gpus}")
            job = submit(site, *asks)
            wait_for_reason(site, job, "QOSMaxGRESPerUser")
            answer = why(site, job)
            told = [line["words"] for line in answer["lines"]]
            assert (answer["verdict"], any(words in x for x in told)) == (verdict, True), told
    finally:
        site.bed.cancel_jobs()
        site.slurm("scontrol", "update", "partitionname=two", "qos=")
        site.slurm("scontrol", "update", "partitionname=closed", "qos=", "allowaccounts=lab2")
        manage("modify", "user", "games", "set", "qos-=tight,wide,over")
        manage("delete", "qos", *limits)


def test_dependencies_are_told_one_by_one(site: Site) -> None:
    late = submit(site, "--begin=now+1hour")
    array = submit(site, "--begin=now+1hour", "--array=1-2")
    middle = submit(site, f"--dependency=afterok:{late}")
    chained = submit(site, f"--dependency=afterok:{middle},after:{array}_2+3")
    any_of = submit(site, f"--dependency=afterok:{late}?afterany:{array}")
    answer = why(site, chained)
    assert answer["verdict"] == "waiting"
    told = [d["words"] for d in answer["dependencies"]]
    assert told[0].startswith(f"waits until {middle} has ended well; it is PENDING now, and itself")
    assert told[1] == f"waits until {array}_2 has started 3 min ago; it is PENDING now"
    site.slurm("scancel", late)
    wait_for_reason(site, middle, "DependencyNeverSatisfied")
    lost = why(site, middle)
    assert lost["verdict"] == "never"
    assert lost["blocks"][0]["code"] == "dependency"
    assert "CANCELLED" in lost["dependencies"][0]["job_state"]
    assert why(site, chained)["verdict"] == "never"
    assert "can never start itself" in why(site, chained)["headline"]
    assert why(site, any_of)["verdict"] == "waiting"


def test_a_reservation_of_all_nodes_ahead_and_a_time_that_fits_before_it(site: Site) -> None:
    words = ("starttime=now+30minutes", "duration=60", "nodes=ALL", "flags=maint", "users=root")
    site.slurm("scontrol", "create", "reservation", "reservationname=maint", *words)
    try:
        long, short = submit(site, "-t", "60"), submit(site, "-t", "5")
        wait_for_reason(site, long, "Reserved for maintenance")
        answer = why(site, long)
        ahead = next(b for b in answer["blocks"] if b["code"] == "reservation-ahead")
        left = r"(29:\d\d|30:00)"
        assert re.search(rf"all of its nodes are reserved \(maint\) in {left}", ahead["words"])
        assert re.search(f"--time below {left}", ahead["advice"])
        wait_for_reason(site, short, "COMPLETED")
    finally:
        site.bed.cancel_jobs()
        site.slurm("scontrol", "delete", "reservationname=maint")


def test_nodes_that_are_all_drained_are_not_called_never(site: Site) -> None:
    site.slurm("scontrol", "update", "nodename=gn[01-04]", "state=drain", "reason=test")
    try:
        job = submit(site, "-t", "5")
        wait_for_reason(site, job, "PENDING Nodes")
        answer = why(site, job)
        assert answer["verdict"] == "waiting"
        assert answer["blocks"][1]["params"] == {"nodes": "gn[01-04]"}
    finally:
        site.slurm("scontrol", "update", "nodename=gn[01-04]", "state=resume")
    wait_for_reason(site, job, "COMPLETED")


def test_arrays_and_het_jobs_are_explained_whole(site: Site) -> None:
    array = submit(site, "-t", "5", "--array=1-4%1", command="sleep 300")
    wait_for_reason(site, f"{array}_1", "RUNNING")
    answer = why(site, array)
    assert "has 4 tasks that slurmctld knows" in answer["headline"]
    assert any("its array runs as many tasks" in line["words"] for line in answer["lines"])
    assert why(site, f"{array}_1")["verdict"] == "running"
    het = site.slurm(
        "sbatch", "--parsable", "--hold", "-o", "/dev/null", "-N1", ":", "-N1", "--gres=gpu:9",
        "--wrap", "hostname", user="games",
    ).strip()  # fmt: skip
    answer = why(site, het)
    assert answer["verdict"] == "never"
    assert any(x["words"].startswith(f"{het}+1 can never start: it asks") for x in answer["lines"])


def test_the_delay_of_a_requeued_task_with_the_time_at_which_it_ends(site: Site) -> None:
    flag = site.bed.spec.root / "keeps-on"
    flag.touch()
    script = f"trap '' TERM; while [ -e {flag} ]; do sleep 0.1; done; sleep 300"
    array = submit(site, "-t", "5", "--requeue", "--array=1-2", command=script)
    for task in (f"{array}_1", f"{array}_2"):
        wait_for_reason(site, task, "RUNNING")
    job = f"{array}_2"
    site.gsched("requeue", job, user="games")
    wait_for_reason(site, job, "COMPLETING")
    ending = why(site, job)
    assert ending["verdict"] == "completing"
    assert (
        "was requeued and does not wait yet: its last attempt is being ended on gn0"
        in (ending["headline"])
    )
    (again,) = (line["words"] for line in ending["lines"] if line["what"] == "starts again")
    assert again == "0:11 after that at the earliest (Slurm's cred_expire)"

    flag.unlink()
    wait_for_reason(site, job, "PENDING BeginTime")
    answer = why(site, job)
    asked = ("squeue", "-h", "-j", job, "-O", "EligibleTime")
    eligible = int(site.slurm("env", "SLURM_TIME_FORMAT=%s", *asked))
    assert answer["headline"].endswith(
        "waits out the delay after its requeue, 0:11 from the end of its last attempt "
        "(Slurm's cred_expire; 1 restart so far)"
    )
    block = answer["blocks"][0]
    assert (block["code"], block["params"]["until"]) == ("requeue-delay", eligible)
    (until,) = (line for line in answer["lines"] if line["what"] == "not before")
    assert (until["at"], "the end of that delay" in until["words"]) == (eligible, True)
    assert why(site, f"{array}_1")["verdict"] == "running"

    later = submit(site, "--begin=now+1hour")
    wait_for_reason(site, later, "PENDING BeginTime")
    assert "its earliest start time has not come" in why(site, later)["headline"]
    wait_for_reason(site, job, "RUNNING")
    started = int(site.slurm("env", "SLURM_TIME_FORMAT=%s", *asked[:-1], "StartTime"))
    assert started >= eligible


def test_what_became_of_a_job_that_has_ended(site: Site) -> None:
    job = submit(site, "-t", "5", command="exit 7")
    wait_for_reason(site, job, "FAILED")
    answer = why(site, job)
    assert answer["verdict"] == "ended"
    assert any("exit code 7" in line["words"] for line in answer["lines"])


def test_licences_that_the_cluster_has_no_longer(site: Site) -> None:
    job = submit(site, "--hold", "-L", "matlab:4")
    conf = site.bed.layout.slurm_conf
    before = conf.read_text()
    conf.write_text(before.replace("Licenses=matlab:4", "Licenses=matlab:2"))
    site.slurm("scontrol", "reconfigure")
    try:
        site.slurm("scontrol", "release", job, user="games")
        wait_for_reason(site, job, "PENDING Licenses")
        answer = why(site, job)
        assert answer["verdict"] == "never"
        assert answer["blocks"][0]["params"] == {"licence": "matlab", "asked": 4, "total": 2}
    finally:
        conf.write_text(before)
        site.slurm("scontrol", "reconfigure")
    wait_for_reason(site, job, "COMPLETED")
