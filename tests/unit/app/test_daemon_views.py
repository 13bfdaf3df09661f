"""The audit as documents: whose it is when Slurm is not there to say."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.journal import CLUSTER, change, round_info
from support.queue import StandInSlurm

from gsched.app.daemon_views import audit_rows
from gsched.config.settings import Settings
from gsched.errors import UnavailableError
from gsched.model.job import JobKey
from gsched.model.journal import ChangeState
from gsched_sql import History


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(state_dir=tmp_path)
    History.create(found.database_url)
    return found


def decide(settings: Settings, cluster: str) -> None:
    with History.open(settings.database_url) as history:
        journal = history.journal()
        journal.begin_round(round_info(f"round of {cluster}", cluster=cluster))
        made = change(f"change of {cluster}", 0, 100, key=JobKey(cluster, 7, epoch=1000))
        journal.record(f"round of {cluster}", [made], ChangeState.OBSERVED, 2001)


@pytest.fixture
def slurm_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Settings) -> None:
        raise UnavailableError("Slurm does not answer")

    monkeypatch.setattr("gsched.app.daemon_views.slurm_client", refuse)


def test_the_one_cluster_of_the_database_needs_no_slurm(settings, slurm_is_down):
    assert audit_rows(settings, None, 10) == []
    decide(settings, "beta")
    (found,) = audit_rows(settings, None, 10)
    assert (found["round_id"], found["job"], found["after"]) == ("round of beta", "7", 100)
    assert audit_rows(settings, "8", 10) == []


def test_of_several_clusters_slurms_own_is_shown(settings, monkeypatch):
    decide(settings, "beta")
    decide(settings, CLUSTER)
    monkeypatch.setattr("gsched.app.daemon_views.slurm_client", lambda _: StandInSlurm())
    assert [r["round_id"] for r in audit_rows(settings, None, 10)] == [f"round of {CLUSTER}"]


def test_of_several_clusters_none_is_guessed(settings, slurm_is_down):
    decide(settings, "beta")
    decide(settings, CLUSTER)
    with pytest.raises(UnavailableError, match="does not answer"):
        audit_rows(settings, None, 10)
