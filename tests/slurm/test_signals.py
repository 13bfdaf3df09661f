"""Signals reach the training in every arrangement of a job script; Slurm sees what it would see.

The jobs of each fixture go side by side; what the tests look at is what their trainees have noted.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.checkpoints import write_checkpoint
from support.launching import is_gone
from support.site import GSCHED
from support.told_jobs import ARRANGEMENTS, NO_STEP, TOLD, ToldJob, launched

from gsched.daemon.lease_backend import SAVE_SIGNAL
from gsched.launch.processes import Tree
from gsched.slurm.client import CommandClient
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

CAUSES = ("lease", "TERM to the batch", "full", "cancelled", "requeued")
SHELLS_WORDS = {"shell", "bye"}

CONF = (
    "KillWait=6",
    "PreemptType=preempt/partition_prio",
    "PreemptMode=REQUEUE",
    "PartitionName=low Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 State=UP",
    "PartitionName=high Nodes=ALL PriorityTier=9 PreemptMode=OFF State=UP",
)


def start(bed, name, body, *sbatch, **more):
    return ToldJob.submit(bed, name, body, *sbatch, **more)


def preempt(bed, job):
    """Have the job's node wanted by one that goes before."""
    argv = ["sbatch", "-p", "high", "-w", job.shown()["NodeList"], "--exclusive", "-o", "/dev/null"]
    assert bed.run([*argv, "--wrap", "true"]).returncode == 0


def end_in(bed, job, seconds):
    """Bring the job's time limit near: Slurm looks at limits each half minute."""
    argv = ["scontrol", "update", f"JobId={job.job_id}", f"EndTime=now+{seconds}"]
    assert bed.run(argv).returncode == 0


def cause(bed, what, job):
    if what == "lease":
        with_env = pytest.MonkeyPatch.context()
        with with_env as patch:
            for name, value in bed.env().items():
                patch.setenv(name, value)
            assert CommandClient().signal(job.job_id, SAVE_SIGNAL).error == ""
        return
    argv = {
        "TERM to the batch": ["scancel", "--batch", "--signal=TERM"],
        "full": ["scancel", "--full", "--signal=USR1"],
        "cancelled": ["scancel"],
        "requeued": ["scontrol", "requeue"],
    }[what]
    done = bed.run([*argv, job.job_id])
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def jobs() -> Iterator[dict[tuple[str, str], ToldJob]]:
    """Every arrangement with every cause, after the cause and what follows from it."""
    with Testbed.temporary(
        num_nodes=4, accounting="none", gpus_per_node=0, cred_expire_s=5, extra_conf=CONF
    ) as bed:
        found = {
            (what, name): start(bed, f"{what} {name}", body, options="--grace 5 --checkpoints ck")
            for what, (name, body) in itertools.product(CAUSES, ARRANGEMENTS.items())
        }
        for job in found.values():
            job.wait_for_words("ready")
        for (what, _), job in found.items():
            cause(bed, what, job)
        for (what, _), job in found.items():
            if what in {"lease", "full"}:
                wait_for(lambda job=job: "USR1" in job.words(), f"USR1: {job.file}")
                job.end()
        for (what, _), job in found.items():
            if what == "requeued":
                wait_for(lambda job=job: job.words().count("ready") == 2, f"again: {job.file}")
                job.end()
        for (what, _), job in found.items():
            job.wait_for_state("CANCELLED" if what == "cancelled" else "COMPLETED", "FAILED")
        yield found


def noted(job):
    return [word for word in job.words() if word not in SHELLS_WORDS]


@pytest.mark.parametrize("name", ARRANGEMENTS)
@pytest.mark.parametrize("what", ["lease", "full"])
def test_notice_reaches_the_training_which_goes_on(jobs, what, name):
    job = jobs[what, name]
    own = name == "trap that forwards"  # the shell's trap sends it a second time
    assert noted(job) in ([["ready", "USR1", "done"], ["ready", "USR1", "USR1", "done"]][: 1 + own])
    assert job.shown()["JobState"] == "COMPLETED", job.output()
    assert "gsched: SIGUSR1: brought to" in job.output()


@pytest.mark.parametrize("name", ["trap that does not", "trap of both"])
def test_a_shells_own_trap_runs_as_well(jobs, name):
    assert "shell" in jobs["lease", name].words()


@pytest.mark.parametrize("name", ["trap at the end", "trap of both"])
def test_a_trap_for_the_end_runs_at_the_end(jobs, name):
    assert jobs["lease", name].words()[-1] == "bye"


@pytest.mark.parametrize("name", ARRANGEMENTS)
@pytest.mark.parametrize("what", ["TERM to the batch", "cancelled", "requeued"])
def test_the_training_saves_at_term_once(jobs, what, name):
    job = jobs[what, name]
    again = ["ready", "done"] if what == "requeued" else []
    assert noted(job) == ["ready", "TERM", "saved", *again], job.output()


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_a_training_that_ended_at_term_ends_the_job_with_its_code(jobs, name):
    assert jobs["TERM to the batch", name].shown()["ExitCode"] == "143:0"


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_each_attempt_says_which_it_is(jobs, name):
    job = jobs["requeued", name]
    found = re.findall(r"^gsched: (attempt .*)$", job.output(), re.MULTILINE)
    node = job.shown()["NodeList"]
    assert found[-1] == (
        f"attempt 2 of job {job.job_id} (told), restart 1, on {node}, "
        f"checkpoints in {job.file.parent}/ck/{job.job_id}"
    )
    assert len(found) == 2


def test_the_tasks_of_all_nodes_are_reached(bed):
    tasks = f"export F\nsrun -n2 sh -c 'exec {TOLD} $F.$SLURM_PROCID TERM 143'"
    job = start(bed, "two nodes", tasks, "-N2", "-n2", options="--grace 5 --checkpoints ck")
    ranks = [job.file.with_name(f"{job.file.name}.{rank}") for rank in (0, 1)]
    for what, words in (("lease", "ready USR1"), ("TERM to the batch", "ready USR1 TERM saved")):
        wait_for(lambda: all(map(Path.exists, ranks)), "the ranks")
        cause(bed, what, job)
        wait_for(lambda words=words: {tuple(r.read_text().split()) for r in ranks}
                 == {tuple(words.split())}, words)  # fmt: skip
    assert job.wait_for_state("FAILED") == "143:0"


def test_a_trap_is_run_for_whichever_signal_slurm_sends(bed):
    traps = "trap 'echo ALRM >>$F' ALRM; trap 'echo TSTP >>$F' TSTP; trap 'exit 5' 35"
    job = start(bed, "any", f"{traps}\necho ready >>$F\nwhile :; do sleep 0.1 & wait; done")
    job.wait_for_words("ready")
    for signal in ("ALRM", "TSTP", "35"):
        done = bed.run(["scancel", "--batch", f"--signal={signal}", job.job_id])
        assert done.returncode == 0, done.stderr
        if signal != "35":
            wait_for(lambda signal=signal: job.words()[-1] == signal, signal)
    assert job.wait_for_state("FAILED") == "5:0"
    assert job.words() == ["ready", "ALRM", "TSTP"]


# -- preemption, time limit, drain -----------------------------------------------------------------

PREEMPTED = ("srun", "no srun", "srun in background", "exec srun")
UNFINISHED = "srun @\necho after >>$F"
AT_TIMEOUT = "--grace 5 --at-timeout 3 --notice 60"


@pytest.fixture(scope="module")
def slow() -> Iterator[dict[str, ToldJob]]:
    """What takes Slurm half a minute, side by side."""
    with Testbed.temporary(
        num_nodes=9, accounting="none", gpus_per_node=0, cred_expire_s=5, extra_conf=CONF
    ) as bed:
        low = ("-p", "low", "--exclusive", "-w")
        found = {
            f"preempted {name}": start(bed, f"p {name}", ARRANGEMENTS[name], *low, f"gn0{i + 1}")
            for i, name in enumerate(PREEMPTED)
        }
        found["preempted unfinished"] = start(bed, "p unfinished", UNFINISHED, *low, "gn05")
        found["preempted code"] = start(bed, "p code", "srun @ || exit 1", *low, "gn06")
        notice, limit = "--signal=B:USR1@60", ("-t", "5", "-x", "gn0[1-6],gn0[8-9]")
        for name, body, more, options in (
            ("limit srun", "srun @", (), "--grace 5"),
            ("limit no srun", "@\nexit $?", (), "--grace 5"),
            ("limit batch notice", "srun @", (notice,), "--grace 5"),
            ("limit step notice", "srun @", ("--signal=USR1@60",), "--grace 5"),
            ("limit requeues", "srun @", (notice,), AT_TIMEOUT),
            ("limit requeues unfinished", UNFINISHED, (notice,), AT_TIMEOUT),
            ("limit requeues a deaf script", "echo ready >>$F; sleep 100", (notice,), AT_TIMEOUT),
        ):
            found[name] = start(bed, name, body, *limit, *more, options=options)
        found["drained"] = start(bed, "drained", "srun @", "-x", "gn0[1-7]")
        found["limit cancelled"] = start(
            bed, "limit cancelled", "srun @", *limit, notice, options=AT_TIMEOUT, last="USR2"
        )
        for job in found.values():
            job.wait_for_words("ready")
        for name, job in found.items():
            if name.startswith("preempted"):
                preempt(bed, job)
            if name.startswith("limit"):
                end_in(bed, job, 1 if name in {"limit srun", "limit no srun"} else 70)
        yield found


def comes_back(job, *words):
    """It begins again after these words, and ends well."""
    job.wait_for_words("ready", *words, "ready")
    job.end()
    job.wait_for_state("COMPLETED")
    assert job.shown()["Restarts"] == "1"


@pytest.mark.parametrize("name", PREEMPTED)
def test_a_preemption_without_a_signal_of_the_users_does_not_fail_the_job(slow, name):
    """Slurm sends TERM to the steps alone: that they have ended must not be the job's end."""
    job = slow[f"preempted {name}"]
    comes_back(job, "TERM", "saved")
    waited = "preempted, and the script has ended: waits until Slurm requeues the job"
    assert (waited in job.output()) == (name not in NO_STEP), job.output()


def test_nor_does_it_where_the_script_goes_on_or_ends_otherwise(slow):
    comes_back(slow["preempted code"], "TERM", "saved")
    comes_back(slow["preempted unfinished"], "TERM", "saved", "after")


@pytest.mark.parametrize("name", ["limit srun", "limit no srun"])
def test_at_the_time_limit_the_training_saves(slow, name):
    job = slow[name]
    job.wait_for_state("TIMEOUT")
    assert job.words() == ["ready", "TERM", "saved"]


@pytest.mark.parametrize("name", ["limit batch notice", "limit step notice"])
def test_the_notice_comes_before_the_time_limit_and_the_training_goes_on(slow, name):
    job = slow[name]
    job.wait_for_words("ready", "USR1")
    assert job.shown()["JobState"] == "RUNNING"
    job.end()
    job.wait_for_state("COMPLETED")
    assert job.words() == ["ready", "USR1", "done"]


def test_the_job_requeues_itself_before_its_time_limit(slow):
    comes_back(slow["limit requeues"], "TERM", "saved")
    assert "gsched: requeued at its time limit" in slow["limit requeues"].output()


def test_also_where_the_script_ends_well_though_the_training_did_not(slow):
    comes_back(slow["limit requeues unfinished"], "TERM", "saved", "after")


def test_and_where_nobody_takes_the_signal(slow):
    job = slow["limit requeues a deaf script"]
    job.wait_for_words("ready", "ready")
    assert job.shown()["Restarts"] == "1"
    assert "SIGTERM: no process of the script catches it; the script ends" in job.output()


def test_a_job_that_is_cancelled_meanwhile_does_not_come_back(slow):
    job = slow["limit cancelled"]
    job.wait_for_words("ready", "TERM")
    cause(job.bed, "cancelled", job)
    job.wait_for_state("CANCELLED")
    assert job.words() == ["ready", "TERM", "TERM"]
    assert "requeued" not in job.output().replace("ends, is requeued", "")


def test_a_job_leaves_a_drained_node_by_gsched_requeue(slow):
    job = slow["drained"]
    bed = job.bed
    node = job.shown()["NodeList"]
    argv = ["scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=repair"]
    assert bed.run(argv).returncode == 0
    assert bed.run([GSCHED, "requeue", job.job_id]).returncode == 0
    comes_back(job, "TERM", "saved")
    assert job.shown()["NodeList"] != node


def test_preemption_with_the_users_own_signal(fresh_bed):
    bed = fresh_bed(
        num_nodes=2, accounting="none", gpus_per_node=0, cred_expire_s=5,
        extra_conf=(*CONF, "SlurmctldParameters=preempt_send_user_signal,power_save_interval=1"),
    )  # fmt: skip
    jobs = [
        start(
            bed, f"p {name}", ARRANGEMENTS[name], "-p", "low", "--exclusive", "--signal=B:USR1@30"
        )
        for name in ("srun", "no srun")
    ]
    for job in jobs:
        job.wait_for_words("ready")
        preempt(bed, job)
    for job in jobs:
        comes_back(job, "USR1", "TERM", "saved")
        assert "preempted, and" not in job.output()


def test_an_evaluation_keeps_its_checkpoint_for_an_attempt_that_comes(bed):
    folder = bed.spec.root / "work"
    write_checkpoint(folder / "evaluated", 10)
    options = "--grace 5 --evaluate evaluated"
    jobs = {
        what: start(bed, f"evaluation {what}", "srun @", options=options)
        for what in ("requeued", "cancelled")
    }
    for what, job in jobs.items():
        job.wait_for_words("ready")
        cause(bed, what, job)
    for what, state in (("requeued", "PENDING"), ("cancelled", "CANCELLED")):
        jobs[what].wait_for_words("ready", "TERM", "saved")
        jobs[what].wait_for_state(state)
    kept = [what for what, job in jobs.items() if _pin(folder, job).exists()]
    cause(bed, "cancelled", jobs["requeued"])
    assert kept == ["requeued"], jobs["cancelled"].output()


def _pin(folder: Path, job: ToldJob) -> Path:
    return folder / f".gsched-evaluates-{job.job_id}"


# -- how a job ends --------------------------------------------------------------------------------

ENDS = {
    "well": "true",
    "code": "exit 3",
    "killed": "kill -9 $$",
    "segmentation fault": "kill -SEGV $$",
    "terminated": "kill -TERM $$",
    "step's code": "srun -n1 sh -c 'exit 7'",
    "step killed": "srun -n1 sh -c 'kill -9 $$'",
    "no such command": "no-such-command",
    "syntax": "if",
    "what is left": "sleep 300 &",
    "cancelled": "exec sleep 300",
    "kill 0": "trap 'exit 4' TERM\nkill 0",
}


def test_slurm_sees_the_end_that_it_would_have_seen(bed):
    folder = bed.spec.root / "work"
    folder.mkdir(exist_ok=True)

    def submit(text):
        done = bed.run(["sbatch", "--parsable", "-D", str(folder)], stdin=text)
        return done.stdout.strip()

    jobs = {
        name: (submit(f"#!/bin/bash\n{body}\n"), submit(launched(body)))
        for name, body in ENDS.items()
    }

    def end(job_id):
        text = bed.run(["scontrol", "show", "job", job_id]).stdout
        shown = dict(word.split("=", 1) for word in text.split() if "=" in word)
        return shown["JobState"], shown["ExitCode"]

    wait_for(lambda: all(end(j)[0] == "RUNNING" for j in jobs["cancelled"]), "those to cancel")
    assert bed.run(["scancel", *jobs["cancelled"]]).returncode == 0
    ended = {"COMPLETED", "FAILED", "CANCELLED"}
    for name, pair in jobs.items():
        wait_for(lambda pair=pair: all(end(j)[0] in ended for j in pair), name)
    assert {name: end(ours) for name, (_, ours) in jobs.items()} == {
        name: end(plain) for name, (plain, _) in jobs.items()
    }
    assert len({end(ours) for _, ours in jobs.values()}) >= 7


def test_nothing_stays_where_slurm_kills_the_batch_process_group_alone(fresh_bed):
    """The script has a process group of its own."""
    bed = fresh_bed(
        num_nodes=1, accounting="none", gpus_per_node=0,
        extra_conf=("KillWait=3", "ProctrackType=proctrack/pgid"),
    )  # fmt: skip
    job = start(bed, "pgid", "trap '' TERM\necho $$ >>$F.shell\n@", "-t", "5", last="USR2")
    job.wait_for_words("ready")
    shell = int(job.file.with_suffix(".shell").read_text())
    below = [shell, *Tree().below(shell)]
    cause(bed, "cancelled", job)
    job.wait_for_words("ready", "TERM")
    wait_for(lambda: all(map(is_gone, below)), "all to be gone")
    assert job.wait_for_state("CANCELLED")
