"""What a job's batch process has told its script, and what a job within that job makes of it."""

import pytest

from gsched.telemetry.job_environment import OF_JOB_VARIABLE, mark_as_of_job, of_this_job

NAMES = ("GSCHED_CHECKPOINT_DIR", "GSCHED_CKPT_WRITER")
OUTER = {"SLURM_JOB_ID": "7", "GSCHED_CHECKPOINT_DIR": "/s/ck/7", "GSCHED_GRACE_S": "30"}
TOLD = OUTER | mark_as_of_job(OUTER, NAMES)


def test_it_is_told_within_the_job():
    assert of_this_job(TOLD, "GSCHED_CHECKPOINT_DIR") == "/s/ck/7"


@pytest.mark.parametrize(
    ("changed", "name", "value"),
    [
        ({}, "GSCHED_CHECKPOINT_DIR", ""),
        ({}, "GSCHED_CKPT_WRITER", ""),
        ({}, "GSCHED_GRACE_S", "30"),  # it was not told for one job alone
        ({"GSCHED_CHECKPOINT_DIR": "/s/own"}, "GSCHED_CHECKPOINT_DIR", "/s/own"),
        ({"GSCHED_CKPT_WRITER": "/tmp/own"}, "GSCHED_CKPT_WRITER", "/tmp/own"),
        ({"SLURM_HET_JOB_ID": "7"}, "GSCHED_CHECKPOINT_DIR", "/s/ck/7"),
        *(
            ({OF_JOB_VARIABLE: text}, "GSCHED_CHECKPOINT_DIR", "/s/ck/7")
            for text in ("", "{", "[]", "7", '{"job": "7"}', '{"job": "7", "told": 1}')
        ),
    ],
)
def test_a_job_that_was_submitted_within_it_has_its_own(changed, name, value):
    assert of_this_job(TOLD | {"SLURM_JOB_ID": "8"} | changed, name) == value


def test_outside_a_job_nothing_is_marked():
    assert mark_as_of_job({"GSCHED_CHECKPOINT_DIR": "/s/ck"}, NAMES) == {}
