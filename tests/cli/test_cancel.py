from __future__ import annotations

import pytest


@pytest.fixture
def scancel(stand_in):
    return stand_in("scancel")


@pytest.mark.parametrize(
    "args",
    [
        ["7"],
        ["7_3", "8+1", "9_[1,3-5]", "10.batch"],
        ["7,8_[1,2],9"],
        ["-u", "alice", "--state=PENDING"],
        ["7", "--signal", "USR1", "-b"],
        ["--signal=TERM", "7", "--", "8"],
        ["-n", "not an id"],
    ],
)
def test_the_command_line_reaches_scancel(gsched, scancel, args):
    scancel.answers(stderr="scancel: error: Kill job error on job id 7\n", code=1)
    done = gsched("cancel", *args)
    assert [call["argv"] for call in scancel.calls] == [args]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "scancel: error: Kill job error on job id 7\n"


@pytest.mark.parametrize("args", [["foo"], ["7", "x8"], ["7,,8"], ["7_[3-1]"], ["$(id)"], ["7\n8"]])
def test_nothing_is_cancelled_when_one_is_no_job_id(gsched, scancel, args):
    done = gsched("cancel", *args)
    assert (done.returncode, done.stdout, scancel.calls) == (2, "", [])
    assert done.stderr.startswith("gsched: error: ")


def test_without_a_job_nothing_is_asked_of_slurm(gsched, scancel):
    done = gsched("cancel")
    assert done.stderr == "gsched: error: no job named\nhint: see `gsched cancel --help`\n"
    assert (done.returncode, scancel.calls) == (2, [])


def test_help_is_ours(gsched, scancel):
    assert gsched("cancel", "--help").stdout.startswith("Usage: gsched cancel JOB...")
    assert scancel.calls == []


@pytest.mark.parametrize("args", [["--json", "7"], ["7", "--json", "-v"]])
def test_json_is_for_a_dry_run(gsched, scancel, args):
    done = gsched("cancel", *args)
    assert (done.returncode, done.stdout, scancel.calls) == (2, "", [])
    assert "--json goes with --dry-run" in done.stderr


def test_the_argument_of_an_option_is_none_of_our_words(gsched, scancel):
    gsched("cancel", "-n", "--dry-run", "7", "--user", "--help")
    assert [call["argv"] for call in scancel.calls] == [
        ["-n", "--dry-run", "7", "--user", "--help"]
    ]


def test_a_dry_run_asks_squeue_and_not_scancel(gsched, scancel, stand_in):
    squeue = stand_in("squeue")
    done = gsched("cancel", "--dry-run", "7")
    assert (done.returncode, done.stdout) == (0, "JOB  USER  PARTITION  STATE  NAME\n")
    assert (len(squeue.calls), scancel.calls) == (1, [])


@pytest.mark.parametrize(
    "args", [["-t", "RUNNING,PENDING"], ["-t", "COMPLETED"], ["-t", "X"], ["-w", "n[1"]]
)
def test_a_dry_run_refuses_what_scancel_would_refuse(gsched, stand_in, args):
    squeue = stand_in("squeue")
    done = gsched("cancel", "--dry-run", *args)
    assert (done.returncode, done.stdout, squeue.calls) == (2, "", [])
