"""What the user's script finds in its environment, and what it does not."""

from pathlib import Path

import pytest

from gsched.launch.environment import asked_for, checkpoint_folder, of_ranks, scrubbed
from gsched.launch.job import Job, printable
from gsched.launch.options import parse
from gsched.telemetry.job_environment import mark_as_of_job

HERE = Path("/home/ada/run")
OUTER = {"SLURM_JOB_ID": "4", "GSCHED_CHECKPOINT_DIR": "/s/ck/4"}
TASK = {"SLURM_JOB_ID": "90", "SLURM_ARRAY_JOB_ID": "90", "SLURM_ARRAY_TASK_ID": "3"}


def options(*words):
    return parse([*words, "--", "true"])


@pytest.mark.parametrize(
    "name",
    [
        *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"),
        *("MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "PET_NNODES"),
        *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
    ],
)
def test_the_place_in_another_run_is_left_out(name):
    kept, gone = scrubbed({name: "7", "HOME": "/home/ada"})
    assert (kept, gone) == ({"HOME": "/home/ada"}, [name])


@pytest.mark.parametrize("name", ["OMPI_MCA_btl", "NCCL_DEBUG", "MY_RANK", "SLURM_NTASKS", "RANKS"])
def test_settings_stay(name):
    assert scrubbed({name: "7"}) == ({name: "7"}, [])


def test_the_writer_of_an_outer_job_is_not_this_jobs():
    assert scrubbed({"GSCHED_CKPT_WRITER": "/tmp/x/writer"}) == ({}, [])


def test_a_task_is_named_by_its_array():
    job = Job.of(TASK | {"SLURM_RESTART_COUNT": "2", "SLURMD_NODENAME": "gn7"})
    assert job == Job("90_3", "3", "", 2, 1, "gn7")
    assert job.words() == "attempt 3 of job 90_3, restart 2, on gn7"


def test_a_jobs_name_is_shown_on_one_line():
    assert printable("a\nb\x1b[31m\udcff") == r"a\nb\x1b[31m\xff"


@pytest.mark.parametrize(
    ("words", "environ", "folder"),
    [
        ([], {"SLURM_JOB_ID": "5"}, None),
        (["--checkpoints", "ck"], {"SLURM_JOB_ID": "5"}, "/home/ada/run/ck/5"),
        (["--checkpoints", "/s/ck"], TASK, "/s/ck/90_3"),
        (["--checkpoint-folder", "first"], {"SLURM_JOB_ID": "5"}, "/home/ada/run/first"),
        (["--checkpoint-folder", "first"], TASK, "/home/ada/run/first/3"),
        (
            ["--checkpoints", "ck"],
            {"SLURM_JOB_ID": "5", "GSCHED_CHECKPOINT_DIR": "own"},
            "/home/ada/run/own",
        ),
        (
            ["--checkpoints", "ck"],
            TASK | {"GSCHED_CHECKPOINT_DIR": "/s/own"},
            "/s/own/3",
        ),
        (  # submitted by sbatch itself in job 4, for which its launcher has set the folder
            ["--checkpoints", "ck"],
            mark_as_of_job(OUTER, ["GSCHED_CHECKPOINT_DIR"]) | OUTER | {"SLURM_JOB_ID": "5"},
            "/home/ada/run/ck/5",
        ),
    ],
)
def test_where_checkpoints_go(words, environ, folder):
    found = checkpoint_folder(options(*words), environ, Job.of(environ), HERE)
    assert found == (folder if folder is None else Path(folder))


def test_options_become_variables():
    words = ["--every", "90", "--grace", "30", "--phase", "a,b", "--heartbeat", "/hb"]
    assert asked_for(options(*words), {}) == {
        "GSCHED_CHECKPOINT_EVERY_S": "90",
        "GSCHED_GRACE_S": "30",
        "GSCHED_PHASE": "a,b",
        "GSCHED_HEARTBEAT_DIR": "/hb",
    }
    assert asked_for(options("--every", "0.5"), {}) == {"GSCHED_CHECKPOINT_EVERY_S": "0.5"}
    assert asked_for(options("--heartbeat", "/hb"), {"GSCHED_HEARTBEAT_DIR": "/own"}) == {}


def test_where_ranks_meet():
    environ = {"SLURM_JOB_ID": "5", "SLURM_JOB_NUM_NODES": "2", "SLURM_RESTART_COUNT": "1"}
    job = Job.of(environ)
    assert of_ranks(environ | {"SLURM_NTASKS": "8"}, job, "gn1", 12345) == {
        "MASTER_ADDR": "gn1",
        "MASTER_PORT": "12345",
        "WORLD_SIZE": "8",
        "PET_NNODES": "2",
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "gn1:12345",
        "PET_RDZV_ID": "5.2",
    }
    assert of_ranks(environ, job, "gn1", 12345)["WORLD_SIZE"] == "2"
