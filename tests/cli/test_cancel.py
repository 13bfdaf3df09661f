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
