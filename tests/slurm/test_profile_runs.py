"""On a real Slurm: a job that nobody has seen before is judged by its profile runs, where the site
goes by them; a running job's forged heartbeat wins nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.site import Site, fresh_site

from gsched.errors import EXIT_REFUSED, EXIT_TRY_AGAIN
from gsched.model.job import Wants
from gsched.slurm import wire
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

STEPS = 400
TRAINER = f"""#!{sys.executable}
import math, os, sys, time
from gsched.runtime.heartbeat import Heartbeat

world = int(os.environ.get("WORLD_SIZE", "1"))
step_s = 0.05 + 0.03 * math.log2(world)
forged = "forged" in sys.argv
total = 1_000_000 if forged else {STEPS}
with Heartbeat(1_000_010 if forged else total, first_step=total if forged else 0) as heartbeat:
    for step in range(total):
        time.sleep(step_s)
        heartbeat.report(min(step + 1, 5) + total if forged else step + 1)
"""
NODES = 3
LIMIT = ("--time=4:00:00",)
AHEAD_S = 1800


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=NODES) as made:
        folder = made.bed.spec.root / "heartbeats"
        folder.mkdir()
        folder.chmod(0o1777)
        (made.bed.spec.root / "work").mkdir()
        (made.bed.spec.root / "work" / "train.py").write_text(TRAINER)
        made.configure("heartbeat", dir=f'"{folder}"')
        made.configure("forecast", enabled="false")
        made.configure("daemon", policy='"chronus"', leases="true")
        made.configure("daemon.knobs", profile_s="0", lease_s="600", grace_s="5")
        made.configure("deadlines", profiles="true")
        yield made


@pytest.fixture(scope="module")
def daemon(site: Site) -> Iterator[Background]:
    with site.daemon("--act") as running:
        wait_for((site.state / "status.json").exists, "the first round", timeout_s=120)
        yield running


def submit(
    site: Site, *words: str, script: tuple[str, ...] = ("train.py",)
) -> tuple[int, int, str]:
    """Exit code, job, and what was said."""
    folder = site.bed.spec.root / "work"
    usual = (
        "--parsable",
        f"--chdir={folder}",
        "--gres=gpu:1",
        "--mem=50",
        *LIMIT,
        "--gs-checkpoint",
    )
    answer = site.gsched("submit", *usual, *words, str(folder / script[0]), *script[1:])
    number = answer.stdout.split()[-1] if answer.stdout.split() else "0"
    return answer.returncode, int(number), answer.stderr


def asked(site: Site) -> tuple[str, ...]:
    return (
        "--gs-wait=200",
        f"--gs-deadline={time.strftime('%FT%T', time.localtime(time.time() + AHEAD_S))}",
    )


def entry(site: Site, job: int) -> dict[str, Any]:
    status = json.loads((site.state / "status.json").read_text())
    return status["jobs"].get(str(job), {})


def cancel(site: Site, *jobs: int) -> None:
    """And wait until they have cleaned up behind themselves."""
    site.slurm("scancel", *map(str, jobs))
    wait_until_gone(site, *jobs)


def wait_until_gone(site: Site, *jobs: int) -> None:
    words = ("squeue", "-h", "-j", ",".join(map(str, jobs)))
    wait_for(lambda: not site.slurm(*words).strip(), "the jobs to be gone", timeout_s=180)


def _source(site: Site, job: int) -> str:
    return str(entry(site, job).get("target", {}).get("remaining", {}).get("source", ""))


def runs_of(said: str) -> list[int]:
    (line,) = [line for line in said.splitlines() if line.startswith("gsched: profile runs ")]
    return [int(word.strip(":,")) for word in line.split() if word.strip(":,").isdecimal()]


def test_without_a_profile_its_time_limit_speaks_for_it(site: Site, daemon: Background) -> None:
    code, job, said = submit(site, *asked(site))
    assert code == EXIT_REFUSED, said
    cancel(site, job)


def test_a_profile_run_wins_the_deadline_that_its_speed_can_keep(
    site: Site, daemon: Background
) -> None:
    code, job, said = submit(site, "--gs-profile=4", *asked(site))
    assert code == 0, said
    (run,) = runs_of(said)
    found = entry(site, job)
    assert found["target"]["budget_gpu_s"] < 300  # a limit of four hours has not been promised
    assert site.states()[run] == "COMPLETED"
    wait_for(  # its own heartbeats speak for it from then on, for its plan and in `gsched why`
        lambda: _source(site, job) == "heartbeat", "an estimate by its heartbeats", timeout_s=60
    )
    left = [path.name for path in (site.bed.spec.root / "work").iterdir()]
    assert f"gs-profile-{run}.out" in left
    assert not list((site.bed.spec.root / "work").glob("gsched-checkpoints/profile-*"))
    cancel(site, job)


def test_who_waits_for_less_time_than_its_runs_take_is_told_so(
    site: Site, daemon: Background
) -> None:
    deadline = asked(site)[1]
    code, job, said = submit(site, "--gs-profile=60", deadline, "--gs-wait=5")
    assert code == EXIT_TRY_AGAIN, said
    assert "no answer within 5 s: its profile runs are not over yet" in said
    assert "target" not in entry(site, job)
    why = site.ok("why", str(job))
    assert "profile runs" in why, why
    cancel(site, job, *runs_of(said))


def test_a_job_on_three_nodes_is_profiled_on_one_and_on_two(site: Site, daemon: Background) -> None:
    shape = (f"--nodes={NODES}", "--ntasks-per-node=1", "--gs-runtime=ddp")
    code, job, said = submit(site, *shape, "--gs-profile=4", *asked(site))
    assert code == 0, said
    one, two = runs_of(said)
    nodes = site.slurm("squeue", "-h", "-t", "all", "-o", "%A %D", "-j", f"{one},{two},{job}")
    assert {tuple(line.split()) for line in nodes.splitlines()} == {
        (str(one), "1"), (str(two), "2"), (str(job), str(NODES))
    }  # fmt: skip
    least_s = STEPS * (0.05 + 0.03 * 1.58)  # log2(3)
    assert entry(site, job)["target"]["budget_gpu_s"] >= NODES * least_s
    # a cancelled job of several nodes cannot remove what its template has brought to them
    wait_until_gone(site, one, two, job)


def test_a_forged_heartbeat_wins_no_promise(site: Site, daemon: Background) -> None:
    """It says that five of its million steps are left to do. Its limit is four hours."""
    code, job, said = submit(site, script=("train.py", "forged"))
    assert code == 0, said
    wait_for(
        lambda: (site.json("show", str(job))["progress"] or {}).get("step", 0) > 1_000_000,
        "its heartbeat", timeout_s=90,
    )  # fmt: skip
    token = wire.token(Wants(deadline=int(time.time()) + AHEAD_S, checkpoint=True))
    site.slurm("scontrol", "update", f"JobId={job}", f"Comment={token}")

    def answers() -> list[str]:
        return [one["outcome"] for one in entry(site, job).get("outcomes", [])
                if one["want"] == "deadline"]  # fmt: skip

    wait_for(lambda: "refused" in answers(), "the answer", timeout_s=90)
    assert "target" not in entry(site, job)
    cancel(site, job)
