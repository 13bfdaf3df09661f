"""Hooks on a real Slurm: named in slurm.conf, by the job itself, and by gsched's launcher."""

from __future__ import annotations

import inspect
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.gpus import gpu, recording, samplers
from support.json_shape import block
from support.site import Site, fresh_site

from gsched.telemetry.hooks import hook
from gsched.testbed.wait import wait_for
from gsched_cli.commands.show import show

pytestmark = pytest.mark.slurm

GPUS = [gpu(0), gpu(1, utilisation=1.0, power_w=400.0)]


def with_heartbeats(made: Site) -> Path:
    folder = made.bed.spec.root / "heartbeats"
    folder.mkdir()
    folder.chmod(0o1777)
    made.configure("heartbeat", dir=f'"{folder}"')
    recording(made.bed.spec.root / "gpus", GPUS)
    return folder


@pytest.fixture(scope="module")
def hooked() -> Iterator[Site]:
    """A site whose slurm.conf names the hooks, where all users can read them."""
    first = hook("task_prolog")
    assert first is not None
    with tempfile.TemporaryDirectory(prefix="gsched-hooks-", dir="/var/tmp") as folder:
        Path(folder).chmod(0o755)
        hooks = shutil.copytree(first.parent, Path(folder, "hooks"))
        lines = (f"TaskProlog={hooks}/task_prolog", f"TaskEpilog={hooks}/task_epilog")
        with fresh_site(cred_expire_s=5, extra_conf=lines) as made:
            with_heartbeats(made)
            yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[Site]:
    """A site whose administrator knows nothing of gsched's hooks."""
    with fresh_site(cred_expire_s=5) as made:
        with_heartbeats(made)
        yield made


def submit(site: Site, text: str, *options: str, user: str = "root", **env: str) -> str:
    """A script with the heartbeat folder in its environment; its output goes to a file `out`."""
    script = site.bed.layout.home(user) / "job.sh"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    exported = {"GSCHED_HEARTBEAT_DIR": str(site.bed.spec.root / "heartbeats")} | env
    words = [f"--export=ALL,{','.join(f'{k}={v}' for k, v in exported.items())}", *options]
    answer = site.slurm("sbatch", "--parsable", "-o", "out.%A.%a", *words, str(script), user=user)
    return answer.strip()


def shown(site: Site, job: str) -> dict[str, Any]:
    document: dict[str, Any] = site.json("show", job)
    assert document["progress_note"] == ""
    return document


def attempts(site: Site, job: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shown(site, job)["attempts"]
    return found


def wait_for_state(site: Site, job: str, state: str) -> None:
    wait_for(lambda: site.states()[int(job)] == state, f"{state} of {job}", poll_s=0.3)


def output(site: Site, job: str) -> list[str]:
    (place,) = site.bed.layout.home("root").glob(f"out.{job}.*")
    return place.read_text().splitlines()


# -- by slurm.conf ---------------------------------------------------------------------------------


def test_attempts_of_a_job_that_is_requeued_and_cancelled(hooked: Site) -> None:
    job = submit(hooked, "srun -n3 true; sleep 600", "-N2", "-n3", "--requeue", user="games")
    wait_for(lambda: (a := attempts(hooked, job)) and a[0]["num_ended_steps"], "a step", poll_s=0.3)
    (first,) = attempts(hooked, job)
    assert (first["nodes"], first["host"], first["num_steps"]) == ("gn[01-02]", "gn01", 1)
    assert (first["is_running"], first["ended_time"]) == (True, None)
    hooked.slurm("scontrol", "requeue", job)
    wait_for(lambda: len(attempts(hooked, job)) == 2, "the second attempt", poll_s=2.0)
    hooked.slurm("scancel", job)
    wait_for_state(hooked, job, "CANCELLED")
    wait_for(lambda: attempts(hooked, job)[1]["ended_time"], "its end", poll_s=0.3)
    one, two = attempts(hooked, job)
    assert one["ended_time"] <= two["started_time"] <= two["ended_time"]
    assert not one["is_running"]
    assert not two["is_running"]
    text = hooked.ok("show", job)
    table = text.partition("ATTEMPT  BEGUN")[2].splitlines()
    assert [line.split()[0] for line in table[1:3]] == ["1", "2"]
    assert all(line.rstrip().endswith("ended") for line in table[1:3])


def test_a_job_that_has_not_asked_is_left_alone(hooked: Site) -> None:
    job = submit(hooked, "env; srun env", GSCHED_HEARTBEAT_DIR="")
    wait_for_state(hooked, job, "COMPLETED")
    assert not [line for line in output(hooked, job) if line.startswith("GSCHED_PROLOG_DONE")]
    assert attempts(hooked, job) == []


def test_tasks_of_an_array_have_attempts_of_their_own(hooked: Site) -> None:
    array = submit(hooked, "true", "--array=2,5")
    for task in ("2", "5"):
        wait_for(lambda t=task: attempts(hooked, f"{array}_{t}"), "its attempt", poll_s=0.3)
    assert attempts(hooked, array) == []


def test_a_job_of_srun_alone_has_an_attempt(hooked: Site) -> None:
    folder = hooked.bed.spec.root / "heartbeats"
    answer = hooked.bed.run(
        ["srun", "-n2", "sh", "-c", "echo $SLURM_JOB_ID"],
        "games",
        extra_env={"GSCHED_HEARTBEAT_DIR": str(folder)},
    )
    job = answer.stdout.split()[0]
    (attempt,) = attempts(hooked, job)
    assert (attempt["num_steps"], attempt["num_ended_steps"]) == (1, 1)


def test_a_hook_that_the_job_names_as_well_runs_once(hooked: Site) -> None:
    own = {"SLURM_TASK_PROLOG": str(hook("task_prolog"))}
    job = submit(hooked, "srun true", **own)
    wait_for(lambda: (a := attempts(hooked, job)) and a[0]["ended_time"], "the attempt", poll_s=0.3)
    assert attempts(hooked, job)[0]["num_steps"] == 1


# -- by the job itself -----------------------------------------------------------------------------


def own_hooks(site: Site) -> Mapping[str, str]:
    return {
        "SLURM_TASK_PROLOG": str(hook("task_prolog")),
        "SLURM_TASK_EPILOG": str(hook("task_epilog")),
        "GSCHED_PYTHON": sys.executable,
        "GSCHED_GPU_RECORDING": str(site.bed.spec.root / "gpus"),
        "GSCHED_RANKS": "1",
    }


def test_ranks_are_those_of_srun(plain: Site) -> None:
    words = "$SLURM_PROCID $RANK $SLURM_LOCALID $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE"
    script = f"srun sh -c 'echo {words}'; echo batch $RANK."
    job = submit(plain, script, "-N2", "-n3", **own_hooks(plain))
    wait_for_state(plain, job, "COMPLETED")
    *ranks, batch = output(plain, job)
    assert sorted(ranks) == ["0 0 0 0 3 2", "1 1 1 1 3 2", "2 2 0 0 3 1"]
    assert batch == "batch ."


def test_each_node_of_a_step_samples_its_gpus_while_it_runs(plain: Site) -> None:
    script = "srun -n2 sleep 600"
    job = submit(plain, script, "-N2", "-n2", "--gres=gpu:2", **own_hooks(plain))
    wait_for(lambda: len(shown(plain, job)["gpus"]) == 4, "both nodes' GPUs", poll_s=0.3)
    found = shown(plain, job)["gpus"]
    assert [(g["node"], g["index"], g["utilisation"]) for g in found] == [
        ("gn01", 0, 0.5), ("gn01", 1, 1.0), ("gn02", 0, 0.5), ("gn02", 1, 1.0),
    ]  # fmt: skip
    assert all(g["is_running"] for g in found)
    assert block(found, "JSON gpus") in inspect.cleandoc(show.help or "")
    assert len(samplers(plain.bed.spec.root)) == 2
    (line,) = (x for x in plain.ok("show", job).splitlines() if x.startswith("GPUs on gn02"))
    assert line.split("  ")[-1] == (
        "2 × NVIDIA A100; 75 % in use (50 % to 100 %), on average 75 %; "
        "at most 20 GiB of 80 GiB a GPU; 600 W of 800 W"
    )
    plain.slurm("scancel", job)
    wait_for(lambda: not samplers(plain.bed.spec.root), "the samplers' end", poll_s=0.3)
    wait_for_state(plain, job, "CANCELLED")
    assert not any(g["is_running"] for g in shown(plain, job)["gpus"])


def test_a_step_without_gpus_samples_none(plain: Site) -> None:
    job = submit(plain, "srun sleep 600", **own_hooks(plain))
    wait_for(lambda: plain.slurm("squeue", "-h", "-s", "-j", job), "the step", poll_s=0.3)
    assert samplers(plain.bed.spec.root) == []
    plain.slurm("scancel", job)


# -- by the launcher -------------------------------------------------------------------------------


def test_the_launchers_attempts_tell_how_they_ended(plain: Site) -> None:
    launch = f"exec {sys.executable} -I -m gsched.launch"
    script = (
        f"{launch} --heartbeat {plain.bed.spec.root}/heartbeats -- sh -c 'srun sleep 1; exit 3'"
    )
    recorded = {"GSCHED_GPU_RECORDING": str(plain.bed.spec.root / "gpus")}
    job = submit(plain, script, "-wgn01", "--gres=gpu:2", GSCHED_HEARTBEAT_DIR="", **recorded)
    wait_for_state(plain, job, "FAILED")
    document = shown(plain, job)
    (attempt,) = document["attempts"]
    assert (attempt["exit_code"], attempt["signal"], attempt["nodes"]) == (3, None, "gn01")
    assert (attempt["num_steps"], attempt["num_ended_steps"]) == (1, 1)
    assert block(document["attempts"], "JSON attempts") in inspect.cleandoc(show.help or "")
    assert [g["node"] for g in document["gpus"]] == ["gn01", "gn01"]
    wait_for(lambda: not samplers(plain.bed.spec.root), "the sampler's end", poll_s=0.3)
    assert "exit code 3" in plain.ok("show", job)
