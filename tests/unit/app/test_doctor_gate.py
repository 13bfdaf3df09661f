"""Whether doctor looks at what stands before it says what the kill switch has done."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from support.paper_site import PaperSite
from support.queue import StandInSlurm
from support.queue import row as queue_row

from gsched.app.doctor import Walk, service
from gsched.config.loader import load
from gsched.daemon.locks import StateDir
from gsched.model.decision import Reason
from gsched.model.job import JobKey
from gsched.model.journal import Change, ChangeState, RoundInfo
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

WHY = Reason("x")


@pytest.mark.parametrize("mode", ["act", "observe", None])
def test_values_that_stand_though_the_kill_switch_is_on(tmp_path: Path, mode: str | None) -> None:
    site = PaperSite(tmp_path)
    switch = site.folder / "off"
    site.configure("daemon", kill_switch=f'"{switch}"')
    site.complaints()
    walk = Walk(load({**site.environ, "GSCHED_CONFIG": str(site.folder / "gsched.toml")}))
    walk.config = SlurmConfig({"ClusterName": "alpha"})
    walk.client = StandInSlurm(queue_row(7), queue_row(8))  # type: ignore[assignment]
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        journal = history.journal()
        journal.begin_round(RoundInfo("r1", "alpha", 1, "fifo", True, 1, ""))
        moved = [  # of 9, which waits no more, nothing is to be taken back
            Change(f"r1/{job}", JobKey("alpha", job, epoch=1000), 1000, "site-factor", 0, 50, WHY)
            for job in (7, 9)
        ]
        journal.record("r1", moved, ChangeState.INTENT, 1)
        journal.settle([(c.change_id, ChangeState.CONFIRMED, "") for c in moved], 2)
    assert list(service.check_standing(walk)) == []  # acting daemons move jobs: nothing to say
    switch.touch()
    leads = StateDir(site.state).leading({"mode": mode}) if mode else nullcontext()
    with leads:
        (finding,) = service.check_standing(walk)
    assert finding.code == "kill-switch-values"
    assert finding.found.startswith("1 waiting jobs")
    assert ("not taken back yet" in finding.found) == (mode == "act")
    assert "gsched daemon clear" in finding.mend
