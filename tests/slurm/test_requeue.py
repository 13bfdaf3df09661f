"""`gsched requeue` and `gsched cancel`: the right unit of Slurm, by its owner or an admin."""

from __future__ import annotations

import inspect
import json
import os
import pty
import select

import pytest
from support.json_shape import block
from support.site import GSCHED

from gsched.testbed.wait import wait_for
from gsched_cli.commands.cancel import cancel as cancel_command
from gsched_cli.commands.requeue import requeue as requeue_command

pytestmark = pytest.mark.slurm


def submit(bed, *options, user="games", script="sleep 600"):
    argv = ["sbatch", "--parsable", "-o", "/dev/null", *options]
    done = bed.run(argv, user, stdin=f"#!/bin/sh\n{script}\n")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def states(bed):
    """Id as squeue shows it → state, of all that Slurm knows."""
    lines = bed.run(["squeue", "-h", "-a", "-t", "all", "-o", "%i %T"]).stdout.split()
    return dict(zip(lines[::2], lines[1::2], strict=True))


def become(bed, wanted):
    """Wait until jobs have the wanted states."""
    wait_for(lambda: wanted.items() <= states(bed).items(), f"{wanted}")


def restarts(bed, job):
    text = bed.run(["scontrol", "show", "job", job]).stdout
    return int(text.partition("Restarts=")[2].split()[0])


def requeue(bed, *words, user="games"):
    return bed.run([GSCHED, "requeue", *words], user)


def cancel(bed, *words, user="games"):
    return bed.run([GSCHED, "cancel", *words], user)


@pytest.fixture
def array(bed):
    """Two tasks run, two wait."""
    job = submit(bed, "--array=1-4%2")
    become(bed, {f"{job}_1": "RUNNING", f"{job}_2": "RUNNING"})
    return job


@pytest.fixture
def het(bed):
    job = submit(bed, "-N1", ":", "-N1", "--gres=gpu:1")
    become(bed, {f"{job}+0": "RUNNING", f"{job}+1": "RUNNING"})
    return job


# -- requeue ---------------------------------------------------------------------------------------


def test_a_task_is_requeued_and_not_its_array(bed, array):
    done = requeue(bed, f"{array}_2")
    assert (done.returncode, [line.split() for line in done.stdout.splitlines()]) == (
        0, [["JOB", "USER", "WAS", "OUTCOME"], [f"{array}_2", "games", "RUNNING", "requeued"]],
    )  # fmt: skip
    # cred_expire of the testbed, and one second
    assert "eligible again 0:11 after the end of the last attempt" in done.stderr
    assert "--open-mode=append" in done.stderr
    become(bed, {f"{array}_1": "RUNNING", f"{array}_2": "PENDING"})


def test_slurms_own_number_of_a_task_is_that_task(bed, array):
    raw = bed.run(["squeue", "-h", "-j", f"{array}_2", "-o", "%A"]).stdout.strip()
    assert raw != array
    assert f"{array}_2  games" in requeue(bed, raw).stdout
    become(bed, {f"{array}_1": "RUNNING", f"{array}_2": "PENDING"})


def test_a_whole_array_says_how_many_tasks_it_touches(bed, array):
    dry = requeue(bed, "--dry-run", array)
    assert [line.split()[0] for line in dry.stdout.splitlines()[1:]] == [f"{array}_1", f"{array}_2"]
    assert f"{array} means 2 tasks of an array; 2 wait already" in dry.stderr
    become(bed, {f"{array}_1": "RUNNING", f"{array}_2": "RUNNING"})
    assert requeue(bed, array).returncode == 0
    wait_for(lambda: restarts(bed, f"{array}_2") == restarts(bed, f"{array}_1") == 1, "both")


def test_an_array_expression(bed, array):
    done = requeue(bed, "--hold", f"{array}_[1-2]")
    assert done.returncode == 0, done.stderr
    assert "held until released" in done.stderr
    become(bed, {f"{array}_1": "PENDING", f"{array}_2": "PENDING"})
    reasons = bed.run(["squeue", "-h", "-j", f"{array}_1,{array}_2", "-o", "%r"]).stdout
    assert reasons == "job requeued in held state\n" * 2


def test_a_heterogeneous_job_is_requeued_as_a_whole(bed, het):
    for part in (f"{het}+1", f"{het}+0", str(int(het) + 1)):
        done = requeue(bed, part)
        assert (done.returncode, f"hint: name {het}\n" in done.stderr) == (3, True), done.stderr
    become(bed, {f"{het}+0": "RUNNING", f"{het}+1": "RUNNING"})
    assert "requeued with its 2 components" in requeue(bed, het).stdout
    become(bed, {f"{het}+0": "PENDING", f"{het}+1": "PENDING"})


def test_a_job_that_has_ended_starts_again(bed):
    job = submit(bed, script="exit 3")
    become(bed, {job: "FAILED"})
    assert requeue(bed, job).returncode == 0
    assert states(bed)[job] == "PENDING"


def test_nothing_is_touched_when_one_cannot_be_requeued(bed, array):
    fixed, held = submit(bed, "--no-requeue"), submit(bed, "--hold")
    others = submit(bed, user="news")
    become(bed, {fixed: "RUNNING", others: "RUNNING"})
    for named, code, why in (
        (fixed, 3, f"{fixed} was submitted with --no-requeue"),
        (held, 3, f"{held} waits already"),
        (f"{array}_3", 3, f"{array}_3 waits already"),
        (f"{array}_[2-3]", 3, f"{array}_3 waits already"),
        (f"{array}_77", 2, f"Slurm knows no task {array}_77 (any more)"),
        (f"{array}_[1-4000000]", 3, "waits already"),
        ("999999", 2, "Slurm has no job 999999 (any more), or it is not yours to see"),
        (others, 77, f"{others} is a job of news"),
        (f"{fixed}.0", 2, "is a step"),
        ("x8", 2, "not a job id"),
    ):
        done = requeue(bed, f"{array}_1", named)
        assert (done.returncode, done.stdout) == (code, ""), (named, done.stderr)
        assert why in done.stderr
    every = requeue(bed, fixed, others, "999999").stderr
    assert all(word in every for word in (fixed, f"{others} is a job of news", "999999"))
    assert "Nothing was requeued" in every
    assert restarts(bed, f"{array}_1") == 0
    become(bed, {f"{array}_1": "RUNNING", fixed: "RUNNING", others: "RUNNING"})


def test_the_hint_for_no_requeue_helps(bed):
    job = submit(bed, "--no-requeue")
    become(bed, {job: "RUNNING"})
    hint = requeue(bed, job).stderr.partition("its owner may allow it: ")[2]
    assert bed.run(hint.split(), "games").returncode == 0
    assert requeue(bed, job).returncode == 0


def test_an_admin_requeues_the_jobs_of_others(bed):
    job = submit(bed, user="news")
    become(bed, {job: "RUNNING"})
    done = requeue(bed, job, user=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1].split() == [job, "news", "RUNNING", "requeued"]


def test_what_slurm_refuses_then_is_told_by_job(bed, tmp_path):
    """Two jobs; the first one is gone between the look and the word."""
    gone, there = submit(bed), submit(bed)
    become(bed, {gone: "RUNNING", there: "RUNNING"})
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        f"#!/bin/sh\nif [ $# -eq 0 ]; then /usr/bin/scontrol requeuehold {gone}; fi\n"
        'exec /usr/bin/scontrol "$@"\n'
    )
    scontrol.chmod(0o755)
    path = {"PATH": f"{tmp_path}:{bed.env()['PATH']}"}
    done = bed.run([GSCHED, "requeue", "--json", gone, there], extra_env=path)
    first, second = json.loads(done.stdout)["jobs"]
    assert done.returncode == 1
    assert (first["requeued"], first["error"]) == (False, "Job is pending execution")
    assert (second["requeued"], second["error"]) == (True, "")


def test_the_document_of_requeue(bed):
    job = submit(bed)
    become(bed, {job: "RUNNING"})
    done = requeue(bed, "--dry-run", "--json", job)
    answer = json.loads(done.stdout)
    assert block(answer) in inspect.cleandoc(requeue_command.help)
    assert answer == {
        "dry_run": True, "hold": False, "eligible_in_s": 11,
        "jobs": [{"job": job, "user": "games", "state": "RUNNING", "components": 1,
                  "checkpoints": None, "requeued": False, "error": ""}],
    }  # fmt: skip
    assert restarts(bed, job) == 0


# -- cancel ----------------------------------------------------------------------------------------


def test_the_units_of_cancel(bed, array, het):
    assert cancel(bed, f"{array}_1").returncode == 0
    become(bed, {f"{array}_1": "CANCELLED", f"{array}_2": "RUNNING"})
    assert cancel(bed, f"{array}_[3-4]").returncode == 0
    become(bed, {f"{array}_3": "CANCELLED", f"{array}_4": "CANCELLED", f"{array}_2": "RUNNING"})
    assert cancel(bed, array).returncode == 0
    become(bed, {f"{array}_2": "CANCELLED"})
    assert cancel(bed, het).returncode == 0
    become(bed, {f"{het}+0": "CANCELLED", f"{het}+1": "CANCELLED"})


def test_a_component_that_waits_is_refused_in_slurms_words(bed):
    job = submit(bed, "--hold", "-N1", ":", "-N1")
    done = cancel(bed, f"{job}+1")
    plain = bed.run(["scancel", f"{job}+1"], "games")
    assert "individual component of heterogeneous job" in done.stderr
    assert (done.stderr, done.returncode) == (plain.stderr, plain.returncode)
    assert states(bed)[f"{job}+0"] == "PENDING"


def test_a_step_is_cancelled_and_its_job_goes_on(bed):
    job = submit(bed, script="srun -n1 sleep 600; sleep 600")
    steps = ["squeue", "-h", "-s", "-j", job, "-o", "%i"]
    wait_for(lambda: f"{job}.0" in bed.run(steps).stdout.split(), "the step to run")
    assert cancel(bed, f"{job}.0").returncode == 0
    wait_for(lambda: f"{job}.0" not in bed.run(steps).stdout.split(), "the step to end")
    assert states(bed)[job] == "RUNNING"


def test_a_signal_reaches_the_job(bed):
    job = submit(bed, script="trap 'exit 7' USR1; while :; do sleep 0.05; done")
    become(bed, {job: "RUNNING"})

    def signalled():
        cancel(bed, "--signal=USR1", "--batch", job)
        return states(bed)[job] == "FAILED"

    wait_for(signalled, "the script to have set its trap and to end by it", poll_s=0.2)


def test_one_user_cannot_cancel_anothers_job_but_an_admin_can(bed):
    job = submit(bed, user="news")
    done = cancel(bed, job)
    plain = bed.run(["scancel", job], "games")
    assert "Access/permission denied" in done.stderr
    assert (done.stderr, done.returncode) == (plain.stderr, plain.returncode)
    assert cancel(bed, job, user=None).returncode == 0
    become(bed, {job: "CANCELLED"})


def test_a_dry_run_names_what_the_run_then_cancels(bed, array):
    named, other = submit(bed, "--hold", "-J", "a,b"), submit(bed, "--hold", user="news")
    plain = submit(bed, "--hold", "-J", "a")
    for words, expected in (
        (["-u", "games", "--state=PENDING", "-n", "a,b"], [named]),
        (["--me", "-p", "gpu", "-t", "PD", "--name=a"], [plain]),
        ([f"{array}_[2-3]", f"{named}.batch"], [f"{array}_2", f"{array}_3", f"{named}.batch"]),
        (["-w", "gn[01-04]"], [f"{array}_1", f"{array}_2"]),
        ([other, "--user=games"], []),
    ):
        done = cancel(bed, "--dry-run", "--json", *words)
        found = json.loads(done.stdout)
        assert sorted(job["job"] for job in found["jobs"]) == sorted(expected), (words, done.stderr)
    assert block(found) in inspect.cleandoc(cancel_command.help) or not found["jobs"]
    before = {job for job, state in states(bed).items() if state in ("PENDING", "RUNNING")}
    found = json.loads(cancel(bed, "--dry-run", "--json", "--user=games", "-t", "PD").stdout)
    assert block(found) in inspect.cleandoc(cancel_command.help)
    assert cancel(bed, "--user=games", "-t", "PD").returncode == 0

    def gone():
        live = {job for job, state in states(bed).items() if state in ("PENDING", "RUNNING")}
        return before - live

    wait_for(lambda: {named, plain} <= gone(), "the jobs to go")
    assert {named, plain} <= {job["job"] for job in found["jobs"]}
    assert other not in {job["job"] for job in found["jobs"]}
    assert states(bed)[other] == "PENDING"


def test_a_dry_run_tells_what_it_cannot_see_or_find(bed):
    done = cancel(bed, "--dry-run", "999999")
    assert (done.returncode, done.stdout) == (0, "JOB  USER  PARTITION  STATE  NAME\n")
    assert "999999 is no job that waits or runs" in done.stderr
    for words in (["-M", "elsewhere", "7"], ["--wckey=x"], []):
        done = cancel(bed, "--dry-run", *words)
        assert (done.returncode, done.stdout) == (2, ""), words


def test_interactive_cancel_asks_on_the_terminal(bed):
    job = submit(bed, "--hold", "-J", "asked")
    argv = [GSCHED, "cancel", "-i", job]
    for answer, state in ((b"n\n", "PENDING"), (b"y\n", "CANCELLED")):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe(argv[0], argv, bed.env())  # noqa: S606
        with os.fdopen(terminal, "r+b", buffering=0) as tty:
            asked = b""
            while b"?" not in asked:
                assert select.select([tty], [], [], 60)[0], asked
                asked += tty.read(1024)
            tty.write(answer)
            os.waitpid(pid, 0)
        assert job.encode() in asked
        become(bed, {job: state})
