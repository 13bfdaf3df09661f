"""Submitting from inside a job: what of the outer job must not become the inner job's.

sbatch hands its whole environment on. Inside a job that holds the outer job's id, size, nodes and
CPU binding (``SLURM_…``), which srun obeys in the inner job; and ``SBATCH_…`` variables with which
the outer job was submitted would be options of the inner one. Who is charged, where and how a
user's jobs are submitted are habits, set in a shell's start-up file: those are kept. What a
launcher of ranks, and gsched itself, tell a process of its place in the outer job goes as well: its
checkpoints' folder would be the inner job's too.
"""

from __future__ import annotations

from collections.abc import Mapping

KEPT = frozenset({
    # how to reach Slurm, and how its commands shall talk
    "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_CLUSTERS", "SLURM_EXIT_ERROR",
    "SLURM_TIME_FORMAT", "SLURM_BITSTR_LEN", "SLURM_DEBUG_FLAGS",
    # the user's habits
    "SBATCH_ACCOUNT", "SBATCH_WCKEY", "SBATCH_QOS", "SBATCH_PARTITION", "SBATCH_RESERVATION",
    "SBATCH_CLUSTERS", "SBATCH_CLUSTER_CONSTRAINT", "SBATCH_EXPORT", "SBATCH_GET_USER_ENV",
    "SBATCH_REQUEUE", "SBATCH_NO_REQUEUE", "SBATCH_OPEN_MODE", "SBATCH_IGNORE_PBS", "SBATCH_DEBUG",
})  # fmt: skip
"""Variables with one of the prefixes below that stay."""

_SCRUBBED_PREFIXES = ("SLURM_", "SLURMD_", "SBATCH_", "SPANK_", "PMI_", "PMIX_")
_SET_BY_SLURM = ("SBATCH_CPU_BIND", "SBATCH_MEM_BIND")
"""What begins so Slurm writes into a job's environment; other ``SBATCH_…`` are of the user."""
_OTHERS = frozenset({"SRUN_DEBUG", "SRUN_CPUS_PER_TASK"})
"""Also written by Slurm, and options of the inner job's srun."""
_GPU_VARIABLES = frozenset(
    {"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"}
)
"""Set by Slurm where a job has GPUs: the numbers of GPUs that the inner job does not have."""

_BY_GSCHED = frozenset({
    "GSCHED_ATTEMPT", "GSCHED_CHECKPOINT_DIR", "GSCHED_CHECKPOINT_EVERY_S", "GSCHED_CKPT_WRITER",
    "GSCHED_EVAL_CHECKPOINT", "GSCHED_GRACE_S", "GSCHED_NEXT_TASK_EPILOG",
    "GSCHED_NEXT_TASK_PROLOG", "GSCHED_OF_JOB", "GSCHED_PHASE", "GSCHED_PROLOG_DONE",
    "GSCHED_PYTHON", "GSCHED_RANKS", "GSCHED_SAMPLED_NODE", "GSCHED_SCRIPT", "GSCHED_STOPPED_MARK",
})  # fmt: skip
"""Set by gsched.launch for one job; GSCHED_HEARTBEAT_DIR is the site's."""


def without_outer_job(environ: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """`environ` without what belongs to the job that this process runs in, if it does.

    Also the names of the user's own ``SBATCH_…`` variables among what was left out.
    """
    if "SLURM_JOB_ID" not in environ:
        return dict(environ), []
    scrubbed = {
        name for name in environ if name.startswith(_SCRUBBED_PREFIXES) and name not in KEPT
    }
    scrubbed |= _OTHERS
    if "SLURM_GPUS_ON_NODE" in environ or "SLURM_JOB_GPUS" in environ:
        scrubbed |= _GPU_VARIABLES
    users_own = sorted(
        name
        for name in scrubbed
        if name.startswith("SBATCH_") and not name.startswith(_SET_BY_SLURM)
    )
    scrubbed |= _BY_GSCHED
    from gsched.launch.environment import scrubbed as without_ranks

    kept, _ = without_ranks({n: value for n, value in environ.items() if n not in scrubbed})
    return kept, users_own
