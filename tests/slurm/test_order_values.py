"""On a real Slurm, what gsched adds is one of the summands: QOS and age still count."""

from __future__ import annotations

import time

import pytest
from support.site import fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

MAX_SHIFT = 8_000
MOST = 0.9 * MAX_SHIFT
OCTAVE = MOST / 8
"""Points of a doubling of the predicted GPU-time, while there is a starvation bound."""
STEPS = 2 * MAX_SHIFT / 500
"""What rounding to steps can make of a difference."""
WEIGHTS = {"partition": 1_000_000, "qos": 11_000, "age": 36_000}
AGING = ("PriorityMaxAge=1",)  # a minute: 600 points a second


def test_a_doubling_is_worth_the_same_everywhere_and_qos_and_age_count_beside_it() -> None:
    # without slurmdbd Slurm counts no age
    with fresh_site(accounting="slurmdbd", priority_weights=WEIGHTS, extra_conf=AGING) as site:
        site.slurm("sacctmgr", "-i", "add", "qos", "urgent", "set", "priority=100")
        site.slurm("sacctmgr", "-i", "modify", "user", "games", "set", "qos+=urgent")
        site.configure("daemon", max_shift=str(MAX_SHIFT), burst_interval_s="0.1")
        site.know_durations({f"d{s}": s for s in (10, 20, 40, 80, 320, 163_840)})
        site.arm.fill()
        older = site.submit("d40")
        since = time.time()
        wait_for(lambda: time.time() > since + 7, "the first job to age", timeout_s=9)
        d10, d20, d40, d80, d320 = (site.submit(f"d{s}") for s in (10, 20, 40, 80, 320))
        urgent = site.submit("d320", 8, "games", "--qos=urgent")
        hopeless = site.submit("d163840", 8, "games", "--qos=urgent")

        site.json("daemon", "once", "--act")  # Slurm counts a job's age anew when it is written to
        factors = site.factors()
        for shorter, longer, octaves in (
            (d10, d20, 1),
            (d20, d40, 1),
            (d40, d80, 1),
            (d80, d320, 2),
        ):
            found = factors[shorter] - factors[longer]
            assert found == pytest.approx(octaves * OCTAVE, abs=STEPS)
        assert (factors[urgent], factors[older]) == (factors[d320], factors[d40])
        assert factors[hopeless] == pytest.approx(
            -MOST, abs=STEPS
        )  # not the 8.4 octaves that it is
        # the QOS outweighs the 5 octaves to the shortest job, but not the 14 of the other urgent
        # one; seven seconds of age outweigh the two octaves from the older job to the shortest
        assert site.by_priority() == [urgent, older, hopeless, d10, d20, d40, d80, d320]
        site.drain_queue()
