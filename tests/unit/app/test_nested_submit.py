from __future__ import annotations

import pytest

from gsched.app.nested_submit import without_outer_job

OUTER = {
    "SLURM_JOB_ID": "7",
    "SLURM_CPU_BIND": "mask",
    "SLURM_EXPORT_ENV": "NONE",
    "SLURMD_NODENAME": "n1",
    "SPANK_X": "1",
    "SRUN_DEBUG": "3",
    "SRUN_CPUS_PER_TASK": "2",
    "PMI_RANK": "0",
    "PMIX_NAMESPACE": "x",
    "SBATCH_CPU_BIND_TYPE": "mask_cpu:",
    "SBATCH_MEM_BIND": "local",
}


def test_inside_a_job_its_variables_are_not_passed_on():
    users = {
        "SLURM_CONF": "/x/slurm.conf",
        "SLURM_CLUSTERS": "b",
        "SLURM_EXIT_ERROR": "9",
        "SBATCH_ACCOUNT": "lab1",
        "SBATCH_EXPORT": "NONE",
        "HOME": "/home/a",
        "CUDA_VISIBLE_DEVICES": "0",
        "SLURMY": "x",
    }
    assert without_outer_job(OUTER | users) == (users, [])


def test_a_users_variable_that_may_be_the_outer_jobs_is_named():
    own = {"SBATCH_TIMELIMIT": "5", "SBATCH_JOB_NAME": "x", "SBATCH_QOS": "high"}
    kept, scrubbed = without_outer_job(OUTER | own)
    assert kept == {"SBATCH_QOS": "high"}
    assert scrubbed == ["SBATCH_JOB_NAME", "SBATCH_TIMELIMIT"]


@pytest.mark.parametrize("mark", ["SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS"])
def test_the_gpus_of_the_outer_job_are_not_the_inner_ones(mark):
    gpus = {"CUDA_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "0,1", "GPU_X": "1"}
    assert without_outer_job(OUTER | gpus | {mark: "2"}) == ({"GPU_X": "1"}, [])


def test_outside_a_job_every_variable_is_passed_on():
    environ = {"SLURM_CLUSTERS": "b", "SBATCH_CPU_BIND": "x", "CUDA_VISIBLE_DEVICES": "1"}
    assert without_outer_job(environ) == (environ, [])


def test_the_place_that_gsched_and_launchers_gave_the_outer_job_is_not_the_inner_ones():
    """Its checkpoints would be written over, and its ranks waited for."""
    place = {
        "GSCHED_CHECKPOINT_DIR": "/ckpt/7",
        "GSCHED_CKPT_WRITER": "/tmp/x/writer",
        "GSCHED_STOPPED_MARK": "/tmp/x/stopped",
        "GSCHED_ATTEMPT": "2",
        "GSCHED_PHASE": "eval",
        "GSCHED_SCRIPT": "/x/train.sh",
        "MASTER_ADDR": "gn01",
        "MASTER_PORT": "21000",
        "RANK": "0",
        "WORLD_SIZE": "4",
        "TORCHELASTIC_RUN_ID": "x",
        "PET_NNODES": "2",
    }
    users = {"GSCHED_CONFIG": "/x.toml", "GSCHED_HEARTBEAT_DIR": "/beats", "RANKING": "1"}
    assert without_outer_job(OUTER | place | users) == (users, [])
    assert without_outer_job(place | users) == (place | users, [])
