"""A training job on a real Slurm tells its progress, and two attempts of it are one job."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from support.json_shape import block
from support.site import Site, fresh_site

from gsched.errors import EXIT_NO_CHECKPOINT
from gsched.testbed.wait import wait_for
from gsched_cli.commands.show import show

pytestmark = pytest.mark.slurm

TRAINER = f"""#!{sys.executable}
import os, sys, time
from gsched.runtime.heartbeat import Heartbeat

first = 0 if os.environ.get("SLURM_RESTART_COUNT", "0") == "0" else 20
with Heartbeat(1_000_000, first_step=first, checkpoint_dir=sys.argv[1]) as heartbeat:
    heartbeat.committed(20)
    for step in range(first, 1_000_000):
        time.sleep(0.05)
        heartbeat.report(step + 1, loss=10 / (step + 1), tokens=512)
"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """One with a heartbeat folder, in which a training job runs."""
    with fresh_site(cred_expire_s=5) as made:
        folder = made.bed.spec.root / "heartbeats"
        folder.mkdir()
        folder.chmod(0o1777)
        made.configure("heartbeat", dir=f'"{folder}"')
        yield made


def submit(site: Site, *options: str) -> str:
    """A training job, told where to write as a job script tells it."""
    script = site.bed.spec.root / "train.py"
    script.write_text(TRAINER)
    script.chmod(0o755)
    exported = f"--export=ALL,GSCHED_HEARTBEAT_DIR={site.bed.spec.root / 'heartbeats'}"
    words = ["sbatch", "--parsable", "--requeue", "-o", "/dev/null", exported, *options]
    return site.slurm(*words, str(script), str(site.bed.spec.root / "ck")).strip()


def told(site: Site, job: str) -> dict[str, Any]:
    """What `gsched show` says of its progress, {} while it says nothing."""
    document = site.json("show", job)
    assert document["progress_note"] == ""
    return document["progress"] or {}


def table(text: str) -> list[dict[str, str]]:
    """Rows of `gsched queue -P` by column."""
    header, *rows = (line.split("|") for line in text.splitlines())
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_two_attempts_are_one_job(site: Site) -> None:
    job = submit(site)
    wait_for(lambda: told(site, job).get("step", 0) > 30, "thirty steps", poll_s=0.5)
    first = told(site, job)
    assert first["checkpoint_dir"] == str(site.bed.spec.root / "ck")
    assert (first["committed_step"], first["is_running"]) == (20, True)
    who_stops_it_is_told_what_is_saved(site, job)
    site.slurm("scontrol", "update", "partitionname=gpu", "state=down")  # it waits until told
    site.ok("requeue", job)
    wait_for(lambda: site.states()[int(job)] == "PENDING", "the requeue", poll_s=0.5)
    assert "at SIGTERM" not in site.gsched("cancel", "--dry-run", job).stderr
    between = told(site, job)
    assert between["step"] >= first["step"]
    assert (between["is_running"], between["eta_time"]) == (False, None)
    site.slurm("scontrol", "update", "partitionname=gpu", "state=up")
    wait_for(lambda: told(site, job).get("restart") == 1, "the second attempt", poll_s=0.5)
    wait_for(lambda: told(site, job)["eta_time"], "a pace", poll_s=0.5)
    second = told(site, job)
    assert [a["first_step"] for a in second["attempts"]] == [0, 20]
    assert second["attempts"][0]["last_step"] >= first["step"]
    assert all(a < b for (a, _), (b, _) in pairwise(second["losses"]))

    assert block(second, "JSON progress") in inspect.cleandoc(show.help or "")
    shown = site.ok("show", job)
    assert "of them were done again" in shown
    assert shown.count("^") == 1
    (row,) = site.json("queue")["jobs"]
    assert (row["total_steps"], row["committed_step"]) == (1_000_000, 20)
    assert row["eta_time"] > second["step_time"]
    (cells,) = table(site.ok("queue", "-P", "-o", "jobid,step,steps,eta,loss"))
    assert int(cells["step"]) >= second["step"]
    assert cells["steps"] == "1000000"
    heading, line = site.ok("queue").splitlines()
    assert "PROGRESS  ETA" in heading
    assert " 0 %  " in line
    assert "PROGRESS" not in site.ok("queue", "-u", "nobody")

    site.slurm("scancel", job)
    wait_for(lambda: site.states()[int(job)] == "CANCELLED", "the end", poll_s=0.5)
    ended = told(site, job)
    assert (ended["is_running"], ended["is_silent"], ended["eta_time"]) == (False, False, None)


def who_stops_it_is_told_what_is_saved(site: Site, job: str) -> None:
    folder = site.bed.spec.root / "ck"
    for words in (("requeue", "--dry-run"), ("cancel", "--dry-run")):
        said = site.gsched(*words, job).stderr
        found = re.search(
            rf"{job} keeps checkpoints in {re.escape(str(folder))}: "
            r"by its last word step 20 of (\d+) is saved; "
            r"at SIGTERM it saves once more, within \d+ s \(KillWait\)",
            said,
        )
        assert found, said
        assert int(found[1]) > 30
        (listed,) = site.json(*words, job)["jobs"]
        assert listed["checkpoints"].keys() == {"dir", "committed_step", "step"}
        assert listed["checkpoints"]["dir"] == str(folder)
    assert "keeps" not in site.gsched("cancel", "--dry-run", "--signal=USR1", job).stderr


def test_tasks_of_an_array_tell_their_own(site: Site) -> None:
    array = submit(site, "--array=0,4")
    for task in ("0", "4"):
        wait_for(lambda t=task: told(site, f"{array}_{t}").get("step"), "steps", poll_s=0.5)
    assert told(site, array) == {}
    asked = site.gsched("ckpt", "list", f"{array}_4")
    assert f"{site.bed.spec.root}/ck" in asked.stderr
    assert asked.returncode == EXIT_NO_CHECKPOINT
    site.slurm("scancel", array)


def test_a_file_that_lies_is_named_and_harms_no_listing(site: Site) -> None:
    job = submit(site)
    wait_for(lambda: told(site, job).get("step"), "steps", poll_s=0.5)
    site.slurm("scontrol", "suspend", job)
    (place,) = (site.bed.spec.root / "heartbeats").glob(f"*/{job}.0")
    place.unlink()
    place.symlink_to("/etc/shadow")
    shown = site.gsched("show", job)
    assert shown.returncode == 0
    assert f"{place}: is a link" in shown.stderr
    assert [listed["step"] for listed in site.json("queue", "-j", job)["jobs"]] == [None]
    site.slurm("scancel", job)
