"""What an attempt's end becomes, by what Slurm says of the job; its commands are stand-ins here.

tests/slurm/test_signals.py has the same on a real Slurm; here are the cases that it cannot make.
"""

import signal
import time

import pytest
from support.launching import launch

from gsched.testbed.wait import wait_for

SQUEUE = """#!/bin/sh
echo "$@" >> {folder}/asked
while read -r state end rest; do echo "$state   $end   $rest"; done < {folder}/job
"""
SCONTROL = """#!/bin/sh
echo "$@" >> {folder}/did
date +%s >> {folder}/did_at
exit {status}
"""
STOPPED = "touch $GSCHED_STOPPED_MARK\n"


@pytest.fixture
def slurm(tmp_path):
    """Sets what squeue says of the job; gives the environment that finds it."""

    def told(state="RUNNING", end_in_s=100, preempted=False, status=0, restarts=0, **environ):
        folder = tmp_path / "slurm"
        folder.mkdir(exist_ok=True)
        now = int(time.time())
        preempt = now if preempted else "N/A"
        (folder / "job").write_text(f"{state} {now + end_in_s} {preempt} {restarts}\n")
        for name, text in (("squeue", SQUEUE), ("scontrol", SCONTROL)):
            path = folder / name
            path.write_text(text.format(folder=folder, status=status))
            path.chmod(0o755)
        return {"SLURM_JOB_ID": "7", "PATH": f"{folder}:/usr/bin:/bin"} | environ

    return told


def done(tmp_path):
    path = tmp_path / "slurm" / "did"
    return path.read_text().splitlines() if path.exists() else []


AT_LIMIT = ("ready", "TERM", "saved")


def notified(tmp_path, environ, *options, body="@", wanted=AT_LIMIT, signal_name="USR1"):
    run = launch(tmp_path, body, "--grace", "5", *options, **environ)
    run.wait_for_words("ready")
    run.signal(signal_name)
    run.wait_for_words(*wanted)
    return run


def passed_on(tmp_path, environ, *options, signal_name="USR1"):
    """What is said where a signal is not the time limit's notice to the launcher."""
    wanted = ("ready", signal_name)
    run = notified(tmp_path, environ, *options, wanted=wanted, signal_name=signal_name)
    run.notes.with_suffix(".go").touch()
    code, said = run.end()
    assert (code, done(tmp_path)) == (0, [])
    return said


def test_before_its_time_limit_the_job_requeues_itself(tmp_path, slurm):
    run = notified(tmp_path, slurm(), "--at-timeout", "1")
    code, said = run.end()
    assert (code, done(tmp_path)) == (143, ["requeue 7"])
    assert said.endswith("gsched: requeued at its time limit\n")


def test_a_task_requeues_itself_and_not_its_array(tmp_path, slurm):
    environ = slurm(SLURM_ARRAY_JOB_ID="7", SLURM_ARRAY_TASK_ID="3")
    notified(tmp_path, environ, "--at-timeout", "1").end()
    assert done(tmp_path) == ["requeue 7_3"]


AT_TIMEOUT = ("--at-timeout", "1", "--checkpoint-folder", "ck")
COUNT = "ck/.gsched-timeouts-7"


def again(tmp_path, name):
    """A folder for a further attempt, in which that of the checkpoints is the same."""
    folder = tmp_path / name
    folder.mkdir()
    (folder / "ck").symlink_to(tmp_path / "ck")
    return folder


def test_so_often_as_was_asked_for(tmp_path, slurm):
    notified(tmp_path, slurm(), *AT_TIMEOUT).end()
    assert done(tmp_path) == ["requeue 7"]
    second = again(tmp_path, "second")
    said = passed_on(second, slurm(SLURM_RESTART_COUNT="1"), *AT_TIMEOUT)
    assert "gsched: the time limit is near, and at_timeout=1 is used up: not requeued\n" in said
    assert not (tmp_path / COUNT).exists()  # it has ended well


def test_other_restarts_do_not_count(tmp_path, slurm):
    """Two preemptions, and only then the time limit."""
    notified(tmp_path, slurm(SLURM_RESTART_COUNT="2"), *AT_TIMEOUT).end()
    assert done(tmp_path) == ["requeue 7"]


def test_what_an_earlier_job_of_that_number_has_counted_does_not(tmp_path, slurm):
    (tmp_path / "ck").mkdir()
    (tmp_path / COUNT).write_text("7\n1")
    notified(tmp_path, slurm(), *AT_TIMEOUT).end()
    assert done(tmp_path) == ["requeue 7"]


@pytest.mark.parametrize("count", ["7\nmany", "8\n0", "7\n" + "0" * 5000])
def test_where_the_count_is_not_to_be_believed_each_restart_is_one(tmp_path, slurm, count):
    (tmp_path / "ck").mkdir()
    (tmp_path / COUNT).write_text(count)
    passed_on(tmp_path, slurm(SLURM_RESTART_COUNT="1"), *AT_TIMEOUT)


def test_where_it_cannot_be_kept_as_well(tmp_path, slurm):
    (tmp_path / "ck").symlink_to("/proc/none")  # where there is none, and none can be made
    assert "cannot write" in passed_on(tmp_path, slurm(SLURM_RESTART_COUNT="1"), *AT_TIMEOUT)
    first = again(tmp_path, "first")
    notified(first, slurm(), *AT_TIMEOUT).end()
    assert done(tmp_path) == ["requeue 7"]


def test_the_count_goes_into_no_file_of_somebody_elses_choice(tmp_path, slurm):
    (tmp_path / "ck").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("7\n0")
    (tmp_path / COUNT).symlink_to(victim)
    environ = slurm(SLURM_RESTART_COUNT="1")
    passed_on(tmp_path, environ, *AT_TIMEOUT)
    assert victim.read_text() == "7\n0"


@pytest.mark.parametrize(
    "state",
    [{"end_in_s": 3600}, {"end_in_s": 300}, {"preempted": True}, {"state": "COMPLETING"}],
    ids=str,
)
def test_a_notice_of_something_else_is_passed_on(tmp_path, slurm, state):
    """A person's scancel --signal=USR1 among them: the limit's own would come later."""
    passed_on(tmp_path, slurm(**state), "--at-timeout", "1", "--notice", "120")


def test_a_notice_may_come_long_before_the_limit(tmp_path, slurm):
    environ = slurm(end_in_s=1850)
    notified(tmp_path, environ, "--at-timeout", "1", "--notice", "1800").end()
    assert done(tmp_path) == ["requeue 7"]


@pytest.mark.parametrize("name", ["USR2", "HUP"])
def test_no_other_signal_is_the_limits_notice(tmp_path, slurm, name):
    passed_on(tmp_path, slurm(), "--at-timeout", "1", signal_name=name)


def test_a_training_that_is_done_in_time_is_not_repeated(tmp_path, slurm):
    body = "trap 'echo TERM >>$F; exit 0' TERM\necho ready >>$F\nsleep 300 & wait"
    run = notified(tmp_path, slurm(), "--at-timeout", "1", body=body, wanted=("ready", "TERM"))
    assert (run.end()[0], done(tmp_path)) == (0, [])


def test_one_that_is_not_done_is_though_the_script_ends_well(tmp_path, slurm):
    body = (
        f"trap 'echo TERM >>$F; {STOPPED.strip()}; exit 0' TERM\necho ready >>$F\nsleep 300 & wait"
    )
    run = notified(tmp_path, slurm(), "--at-timeout", "1", body=body, wanted=("ready", "TERM"))
    assert (run.end()[0], done(tmp_path)) == (0, ["requeue 7"])


UNTIL_GO = (
    "trap 'echo TERM >>$F' TERM\necho ready >>$F\nuntil [ -e $F.go ]; do sleep 0.1 & wait; done"
)
"""dash loses a signal that comes while it starts a program in the foreground: hence ``& wait``."""


def test_one_that_was_cancelled_meanwhile_does_not_come_back(tmp_path, slurm):
    body = UNTIL_GO + "\nexit 143"
    run = notified(tmp_path, slurm(), "--at-timeout", "1", body=body, wanted=("ready", "TERM"))
    slurm(state="COMPLETING", end_in_s=0)
    run.notes.with_name("notes.go").touch()
    assert (run.end()[0], done(tmp_path)) == (143, [])


def test_a_job_that_may_not_be_requeued_says_so(tmp_path, slurm):
    code, said = notified(tmp_path, slurm(status=1), "--at-timeout", "1").end()
    assert code == 143
    assert "gsched: it could not be requeued\n" in said


def test_a_training_that_does_not_end_is_requeued_before_the_limit(tmp_path, slurm):
    environ = slurm(end_in_s=11)
    end = int((tmp_path / "slurm" / "job").read_text().split()[1])
    run = notified(tmp_path, environ, "--at-timeout", "1", body=UNTIL_GO, wanted=("ready", "TERM"))
    did_at = tmp_path / "slurm" / "did_at"
    wait_for(lambda: did_at.exists() and did_at.read_text().endswith("\n"), "the requeue")
    assert done(tmp_path) == ["requeue 7"]
    assert int(did_at.read_text()) < end - 4
    run.notes.with_name("notes.go").touch()
    run.end()
    assert done(tmp_path) == ["requeue 7"]


@pytest.mark.parametrize("body", ["exit 1", "exit 143", "kill -TERM $$", STOPPED])
def test_a_script_that_ends_in_a_preemption_waits_for_the_requeue(tmp_path, slurm, body):
    run = launch(tmp_path, body, **slurm(preempted=True))
    wait_for((tmp_path / "slurm" / "asked").exists, "the question")
    run.signal("USR1")
    assert run.process.poll() is None
    run.signal("TERM")
    _, said = run.end()
    assert "gsched: preempted, and the script has ended: waits until Slurm requeues" in said


@pytest.mark.parametrize(
    ("body", "state", "code"),
    [
        ("exit 0", {"preempted": True}, 0),
        ("exit 5", {}, 5),
        ("exit 5", {"state": "COMPLETING", "preempted": True}, 5),
        (STOPPED, {}, 0),
        ("exit 5", {"preempted": True, "end_in_s": -121}, 5),
    ],
)
def test_any_other_end_is_the_jobs(tmp_path, slurm, body, state, code):
    assert launch(tmp_path, body, **slurm(**state)).end()[0] == code


def test_nor_does_one_wait_that_slurm_has_told_itself(tmp_path, slurm):
    """Nor is Slurm asked before TERM is brought on: it may be slow when it ends many jobs."""
    options = ("--grace", "5", "--at-timeout", "1")
    run = launch(tmp_path, "@", *options, **slurm(preempted=True))
    run.wait_for_words("ready")
    run.signal("TERM")
    assert run.end()[0] in {143, -signal.SIGTERM}
    assert not (tmp_path / "slurm" / "asked").exists()


def test_without_commands_of_slurm_the_end_is_the_jobs_and_that_is_said_once(tmp_path):
    run = launch(tmp_path, "@", "--at-timeout", "1", SLURM_JOB_ID="7", PATH="/nowhere")
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "USR1")
    run.notes.with_suffix(".go").touch()
    code, said = run.end()
    assert code == 0
    assert said.count("gsched: Slurm cannot be asked: squeue not found on PATH\n") == 1
