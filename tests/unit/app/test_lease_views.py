"""What `why` and `show` make of a job's lease, and `daemon audit` of what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.queue import StandInSlurm, row

from gsched.app.daemon_views import audit_rows
from gsched.app.show import show_job
from gsched.app.waiting import WhyLine
from gsched.app.why import explain_job
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.model.accounts import LeaseGrant, LeaseRevoke
from gsched.model.job import JobKey, JobState, Lease, LeaseState
from gsched_cli.output import local_time
from gsched_cli.show_rows import fact_rows
from gsched_sql import History


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    made = StandInSlurm(row(9))
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
    return made


def publish(settings: Settings, job_state: JobState, **lease: Any) -> None:
    job = {"submit_time": 1000, "state": job_state.value, "lease": lease}
    head = {"version": 1, "cluster": "alpha", "policy": "ltgf", "as_of": now(), "interval_s": 30,
            "acting": True}  # fmt: skip
    settings.status_file.write_text(json.dumps({**head, "jobs": {"9": job}}))


def line(settings: Settings, what: str) -> WhyLine:
    (found,) = [line for line in explain_job(settings, "9").lines if line.what == what]
    return found


def test_a_running_job_has_its_gpus_until_then(settings: Settings, slurm: StandInSlurm) -> None:
    slurm.rows = (row(9, state=JobState.RUNNING, start_time=2000),)
    publish(settings, JobState.RUNNING, state="granted", since=2000, end_time=5600)
    told = line(settings, "lease until")
    assert (told.at, told.words.partition(",")[0]) == (5600, "nobody takes its GPUs before that")
    shown = dict(fact_rows(show_job(settings, "9")))
    assert shown["lease until"].startswith(f"{local_time(5600)}: nobody takes its GPUs")
    assert not any(name.startswith("gsched lease") for name in shown)


def test_one_that_has_not_saved_is_told_so(settings: Settings, slurm: StandInSlurm) -> None:
    slurm.rows = (row(9, state=JobState.RUNNING, start_time=2000),)
    unsaved = {"at": 4000, "why": "has not saved within 60 s"}
    publish(settings, JobState.RUNNING, state="granted", since=4001, end_time=7600, unsaved=unsaved)
    told = line(settings, "has kept")
    assert (told.at, told.words) == (
        4000,
        "its GPUs beyond its lease: it has not saved within 60 s",
    )
    assert dict(fact_rows(show_job(settings, "9")))["has kept"].endswith("not saved within 60 s")


def test_one_that_waits_again_gave_way(settings: Settings, slurm: StandInSlurm) -> None:
    publish(settings, JobState.PENDING, state="requeued", since=4000, beneficiary="12")
    told = line(settings, "gave way")
    assert (told.at, told.words.partition(":")[0]) == (4000, "to job 12")
    assert dict(fact_rows(show_job(settings, "9")))["gave way"].startswith(
        f"{local_time(4000)}, to job 12: "
    )


def test_a_job_without_a_lease_is_told_nothing(settings: Settings, slurm: StandInSlurm) -> None:
    assert {"gave way", "lease until"}.isdisjoint(
        ln.what for ln in explain_job(settings, "9").lines
    )


def test_the_audit_has_leases_that_were_to_end(settings: Settings) -> None:
    History.create(settings.database_url)
    key = JobKey("alpha", 9, epoch=1000)
    with History.open(settings.database_url) as history:
        leases = history.leases()
        for number, revoked in ((1, True), (2, False)):
            lease = Lease(f"l{number}", LeaseState.GRANTED, 2000, 3600)
            leases.grant(LeaseGrant(lease, key, 1000, 8, since=2000), 2000)
            if revoked:
                leases.revoke("l1", LeaseRevoke("r1", 60, 9000, "12"), 5600)
                leases.move("l1", LeaseState.SIGNALLED, 5601)
                leases.move("l1", LeaseState.KEPT, 5661, "has not saved within 60 s")
    (told,) = audit_rows(settings, None, 10)
    assert {key: told[key] for key in ("job", "channel", "state", "decided_at", "settled_at")} == {
        "job": "9", "channel": "lease", "state": "kept", "decided_at": 5600, "settled_at": 5661,
    }  # fmt: skip
    assert told["reason_text"] == "its lease of 1:00:00 has ended, for job 12"
    assert told["detail"] == "has not saved within 60 s"
    assert [e["state"] for e in told["transitions"]] == ["granted", "ending", "signalled", "kept"]
    assert audit_rows(settings, "8", 10) == []


def test_a_job_that_ended_when_it_was_told_to_save_is_told_so(
    settings: Settings, slurm: StandInSlurm
) -> None:
    History.create(settings.database_url)
    key = JobKey("alpha", 9, epoch=1000)
    detail = "failed after it was told to save: a script that does not trap USR1 dies of it"
    with History.open(settings.database_url) as history:
        leases = history.leases()
        for number, attempt, how in ((1, 1000, detail), (2, 3000, "failed")):
            lease = Lease(f"l{number}", LeaseState.GRANTED, 2000, 3600)
            leases.grant(LeaseGrant(lease, key, attempt, 8, since=2000), 2000)
            leases.revoke(f"l{number}", LeaseRevoke(f"r{number}", 60, 9000, "12"), 5600)
            leases.move(f"l{number}", LeaseState.SIGNALLED, 5601)
            leases.move(f"l{number}", LeaseState.ENDED, 5603, how)
    slurm.rows = (row(9, state=JobState.FAILED, submit_time=1000, start_time=2000),)
    assert line(settings, "lease").words == f"its lease of GPUs was over: it {detail}"
    shown = dict(fact_rows(show_job(settings, "9")))
    assert shown["lease"] == f"its lease of GPUs was over: it {detail}"
    slurm.rows = (row(9, state=JobState.RUNNING, submit_time=1000, start_time=2000),)
    assert not [x for x in explain_job(settings, "9").lines if x.what == "lease"]
    slurm.rows = (row(9, state=JobState.FAILED, submit_time=3000, start_time=4000),)
    assert not [x for x in explain_job(settings, "9").lines if x.what == "lease"]
