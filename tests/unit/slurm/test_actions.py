"""What changes jobs: the words that Slurm's commands get, and what their answers mean."""

from __future__ import annotations

import pytest

from gsched.errors import FailedCommandError, UsageError
from gsched.slurm.client import CommandClient
from gsched.slurm.records import UpdateOutcome
from gsched.slurm.run import Completed


class Commands:
    """Keeps what was run; answers all of it alike."""

    def __init__(self, status=0, stderr=""):
        self.status, self.stderr = status, stderr
        self.ran = []

    def __call__(self, argv, *, stdin=None, timeout_s):
        self.ran.append((tuple(argv), stdin))
        return Completed(tuple(argv), self.status, "", self.stderr)


def client(commands):
    return CommandClient(asks_again=False, runner=commands)


def test_a_signal_goes_by_slurmctld_to_the_batch_shell():
    commands = Commands()
    assert client(commands).signal("7_3", "USR1") == UpdateOutcome("7_3", "")
    assert commands.ran == [(("scancel", "--ctld", "--batch", "--signal=USR1", "7_3"), "")]


def test_what_is_no_job_or_no_signal_is_never_sent():
    commands = Commands()
    for job, name in (
        ("", "USR1"), ("7 8", "USR1"), ("-u", "USR1"), ("7\n8", "USR1"), ("--user=root", "USR1"),
        ("7", "usr1"), ("7", "9"), ("7", "USR1 -u"), ("7", ""), ("7", "KILL,TERM"),
    ):  # fmt: skip
        with pytest.raises(UsageError):
            client(commands).signal(job, name)
    for job in ("", "7 8", "7\nshutdown", "7_[1-3]", "all"):
        with pytest.raises(UsageError):
            client(commands).requeue([job])
        with pytest.raises(UsageError):
            client(commands).jobs([job])
    assert commands.ran == []


def test_a_refused_signal_says_why():
    words = "scancel: error: Kill job error on job id 7: Invalid job id specified\n"
    found = client(Commands(1, words)).signal("7", "USR1")
    assert found.error == "Kill job error on job id 7: Invalid job id specified"
    assert client(Commands(210, "")).signal("7", "USR1").error == "status 210"


def test_whether_it_was_sent_is_not_known_without_an_answer():
    gone = "scancel: error: Unable to contact slurm controller (connect failure)\n"
    commands = Commands(1, gone)
    with pytest.raises(FailedCommandError):
        client(commands).signal("7", "USR1")
    assert len(commands.ran) == 1  # and it is never sent again


def test_jobs_that_slurm_does_not_know_are_absent():
    assert (
        client(Commands(1, "slurm_load_jobs error: Invalid job id specified\n")).jobs(["7"]) == ()
    )
    commands = Commands()
    assert client(commands).jobs([]) == ()
    assert commands.ran == []
    with pytest.raises(FailedCommandError):
        client(Commands(1, "Unable to contact slurm controller\n")).jobs(["7"])
