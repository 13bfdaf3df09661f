"""The starvation bound on a real Slurm: who has waited too long starts first."""

from __future__ import annotations

import time

import pytest
from support.site import fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm


def test_a_job_that_qssf_would_let_wait_starts_once_it_has_waited_too_long() -> None:
    weights = {"partition": 1_000_000, "jobsize": 100_000}
    with fresh_site(priority_weights=weights) as site:
        site.know_durations({"d2000": 2000, "d40": 40, "d5": 5})
        site.arm.fill()
        ids = []
        # seconds apart, the longest job first; size speaks for the later ones, by more than the
        # levels of those that starve differ
        for name, tasks in (("d2000", "-n1"), ("d40", "-n32"), ("d5", "-n64")):
            ids.append(site.submit(name, 8, "games", tasks))
            at = time.time()
            wait_for(lambda since=at: time.time() > since + 1.2, "the clock to go on", timeout_s=9)

        without = site.json("daemon", "once", "--act")  # nobody has waited for a week
        assert site.by_priority() == ids[::-1]
        assert {j["reason"]["code"] for j in without["jobs"]} == {"qssf.predicted-gpu-time"}

        highest = max(site.factors().values())
        site.configure("daemon", starvation_bound_s="1", burst_interval_s="0.1")
        found = site.json("daemon", "once", "--act")
        assert site.by_priority() == ids
        assert [int(j["job"]) for j in found["jobs"]] == ids
        assert {j["reason"]["code"] for j in found["jobs"]} == {"starving"}
        assert min(site.factors().values()) > highest
        assert "waits for longer than starvation_bound_s (0:01)" in site.ok("why", str(ids[0]))

        site.drain_queue()
        words = site.slurm("squeue", "-h", "-t", "all", "-o", "%A %S").split()
        starts = {int(i): s for i, s in zip(words[::2], words[1::2], strict=True)}
        assert starts[ids[0]] <= min(starts[i] for i in ids[1:])
