"""The history of a real Slurm: what was run is what is kept, once, however often it is read."""

from __future__ import annotations

from typing import Any

import pytest
from support.site import Site, fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

NAMES = ["two\nlines", "a|b 'c' \\d", "JobId=9 UserId=x", "名前 ñ 🔥", "x" * 1024]


@pytest.mark.parametrize("accounting", ["filetxt", "slurmdbd"])
def test_every_job_is_kept_once_with_its_requeue(accounting: str) -> None:
    with fresh_site(accounting=accounting) as site:
        plain = [site.submit(name, gpus=1, user="root") for name in NAMES]
        array = site.submit("array", 2, "root", "--array=0-2")
        wait_for(lambda: _is_over(site), "the short jobs to end")
        # jobcomp/filetxt cuts a record at 1,024 bytes, line end included: the one that follows a
        # long name is lost with it. Of both, squeue tells.
        follower = site.submit("follower", 1, "root")
        wait_for(lambda: _is_over(site), "the job after them to end")
        held = site.submit("held", 1, "root", "--hold")
        again = _submit_long(site)
        wait_for(lambda: site.states()[again] == "RUNNING", "the job to run")
        site.ok("db", "ingest", "--keep-going")
        site.slurm("scontrol", "requeue", str(again))
        site.slurm("scancel", str(held))
        wait_for(lambda: site.states()[again] == "PENDING", "the requeue")
        site.slurm("scancel", str(again))
        tasks = [f"{array}_{n}" for n in range(3)]
        ids = {*map(str, plain), *tasks, str(follower), str(held), str(again)}
        wait_for(lambda: _told(site, len(ids), accounting), "the accounting to tell of every job")
        jobs = {j["job"]: j for j in site.json("history")["jobs"]}
        assert set(jobs) == ids
        _check(jobs, again, held, tasks)
        assert {job: told["state"] for job, told in jobs.items()} == _states_in_queue(site)
        if accounting == "filetxt":  # slurmdbd keeps other characters in place of quotes
            assert [jobs[str(job)]["name"] for job in plain] == NAMES
        rows = site.json("db", "stats")["rows"]
        site.ok("db", "ingest", "--since", "1d", "--keep-going")
        assert site.json("db", "stats")["rows"] == rows


def _states_in_queue(site: Site) -> dict[str, str]:
    """The state of every job in the spelling that users see, as slurmctld still knows it."""
    words = site.slurm("squeue", "-h", "-t", "all", "-o", "%i %T").split()
    return dict(zip(words[::2], words[1::2], strict=True))


def _submit_long(site: Site) -> int:
    words = ["sbatch", "--parsable", "-J", "long", "--requeue", "--gres=gpu:3", "-o", "/dev/null"]
    return int(site.slurm(*words, "--wrap", "sleep 600"))


def _is_over(site: Site) -> bool:
    return set(site.states().values()) <= {"COMPLETED", "CANCELLED"}


def _told(site: Site, number: int, accounting: str) -> bool:
    site.ok("db", "ingest", "--keep-going")
    jobs = site.json("history")["jobs"]
    attempts = [a for j in jobs for a in j["attempts"]]
    # squeue knows every end at once, a busy slurmdbd much later; jobcomp never tells of some.
    by_dbd = accounting != "slurmdbd" or {a["source"] for a in attempts} == {"sacct"}
    return len(jobs) == number and by_dbd and all(a["end_time"] is not None for a in attempts)


def _check(jobs: dict[str, Any], again: int, held: int, tasks: list[str]) -> None:
    requeued = jobs[str(again)]
    first, second = requeued["attempts"]
    assert (first["state"], second["state"]) == ("REQUEUED", "CANCELLED")
    assert requeued["submit_time"] == first["submit_time"] < second["submit_time"]
    assert requeued["gpu_time_s"] == 3 * first["duration_s"]  # cancelled before it ran again
    assert jobs[str(held)]["start_time"] is None
    assert {jobs[task]["num_gpus"] for task in tasks} == {2}
    assert {jobs[task]["state"] for task in tasks} == {"COMPLETED"}
