"""This host's lead: renewed by the present interval between rounds, and in long pauses."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.app import daemon_lead
from gsched.app.daemon_lead import leading
from gsched_sql import History
from gsched_sql.engine import writing


def test_the_lead_follows_the_interval_and_outlasts_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/history.db"
    History.create(url)
    interval_s = 30.0
    with History.open(url) as history, leading(history, "c", lambda: interval_s) as lead:
        leadership = history.leadership("c")

        def ttl_s() -> int | None:
            holder = leadership.holder(daemon_lead.now())
            return holder.ttl_s if holder else None

        def forget() -> None:
            with writing(history._engine) as conn:
                conn.exec_driver_sql("UPDATE leaders SET renewed_at = 0")

        assert ttl_s() == 90
        interval_s = 3600.0  # a reload
        lead.renew()
        assert ttl_s() == 10800
        forget()
        lead.renew_in_time()  # not due yet
        assert ttl_s() is None
        monkeypatch.setattr(daemon_lead, "_RENEWALS", 1e9)
        lead.renew()
        forget()
        lead.renew_in_time()
        assert ttl_s() == 10800
