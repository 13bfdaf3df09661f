"""A clock that is put forward or back while jobs wait, on the real Slurm.

A POSIX time zone can have its change at any second of the year: here it comes between two submits.
"""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest
from support.site import GSCHED

from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

HOUR_S = 3600


def zone_with_change(at: int, change: str) -> str:
    """UTC and UTC+1, changing at epoch `at`: ``forward`` to UTC+1 or ``back`` from it."""
    utc = time.gmtime(at)
    day, clock = utc.tm_yday, f"{utc.tm_min:02}:{utc.tm_sec:02}"
    other = (day + 180) % 365 + 1
    if change == "forward":
        return f"STD0DST-1,J{day}/{utc.tm_hour:02}:{clock},J{other}/0"
    return f"STD0DST-1,J{other}/0,J{day}/{utc.tm_hour + 1:02}:{clock}"  # in summer time


def submit(bed: Testbed, zone: str, user: str, *options: str) -> tuple[int, int, int]:
    """Job id, and the epoch seconds around its submission."""
    before = int(time.time())
    argv = [GSCHED, "submit", "--parsable", "-H", "-o", "/dev/null", *options, "--wrap", "true"]
    answer = bed.run(argv, user, extra_env={"TZ": zone})
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout), before, int(time.time())


def output(bed: Testbed, zone: str, *words: str) -> str:
    answer = bed.run([GSCHED, *words], "news", extra_env={"TZ": zone})
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.parametrize(
    ("change", "offsets"),
    [("forward", ["+00:00", "+01:00"]), ("back", ["+01:00", "+00:00"])],
)
def test_times_stay_true_across_a_clock_change(bed, change, offsets):
    at = int(time.time()) + 4
    zone = zone_with_change(at, change)
    first, *first_span = submit(bed, zone, "games")
    assert first_span[1] < at, "the machine is too slow: submitted after the change"
    wait_for(lambda: time.time() > at + 1, "the clock change", timeout_s=30)
    second, *second_span = submit(bed, zone, "news", "--begin=now+1hour")

    chosen = ("-j", f"{second},{first}", "-S", "submit")
    document = json.loads(output(bed, zone, "queue", *chosen, "--json"))
    jobs = document["jobs"]
    assert [job["job"] for job in jobs] == [str(first), str(second)]
    for job, (earliest, latest) in zip(jobs, (first_span, second_span), strict=True):
        assert earliest <= job["submit_time"] <= latest
        assert 0 <= job["waited_s"] < HOUR_S / 2
    assert second_span[0] <= jobs[1]["eligible_time"] - HOUR_S <= second_span[1]

    text = output(bed, zone, "queue", *chosen, "-h", "-o", "submit")
    printed = [datetime.fromisoformat(line.strip()) for line in text.splitlines()]
    assert [line.strip()[-6:] for line in text.splitlines()] == offsets
    assert [moment.timestamp() for moment in printed] == [job["submit_time"] for job in jobs]

    since = json.loads(output(bed, zone, "queue", *chosen, "--since", "10m", "--json"))
    assert len(since["jobs"]) == 2
    shown = json.loads(output(bed, zone, "show", str(first), "--json"))
    assert shown["slurm"]["submit_time"] == jobs[0]["submit_time"]
