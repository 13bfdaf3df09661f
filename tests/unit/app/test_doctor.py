"""What doctor finds in a configuration and in a state folder, whatever state that is in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.app.daemon_views import daemon_status
from gsched.app.doctor import Finding, _accounting, _guarded, _requeue, examine_state
from gsched.config.settings import Settings, SlurmSettings
from gsched.daemon.locks import StateDir
from gsched.errors import PermissionDeniedError, TryAgainError
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

NOBODY = 65534
CHECKS = ["history database", "duration model", "daemon"]


def test_requeue_is_a_note_only_where_it_is_off():
    (found,) = _requeue(SlurmConfig({"JobRequeue": "0"}))
    assert (found.level, found.what) == ("note", "requeue")
    assert "JobRequeue=0" in found.found
    assert list(_requeue(SlurmConfig({"JobRequeue": "1"}))) == []
    assert list(_requeue(SlurmConfig({}))) == []


def accounting(settings: Settings | None = None, **values: str) -> Finding:
    (found,) = _accounting(SlurmConfig(values), settings or Settings())
    assert found.what == "history source"
    return found


def test_slurmdbd_is_the_best_source():
    found = accounting(
        AccountingStorageType="accounting_storage/slurmdbd", JobCompType="jobcomp/filetxt"
    )
    assert (found.level, found.found, found.mend) == ("ok", "sacct (slurmdbd)", "")


def test_jobcomps_file_is_a_source_with_its_faults(tmp_path):
    path = tmp_path / "jobcomp.txt"
    found = accounting(JobCompType="jobcomp/filetxt", JobCompLoc=str(path))
    assert found.level == "note"  # nothing has ended yet
    assert f"jobcomp/filetxt in {path}: no GPU counts" in found.found
    named = Settings(slurm=SlurmSettings(jobcomp_file="/elsewhere"))
    assert "in /elsewhere:" in accounting(named, JobCompType="jobcomp/filetxt").found


def test_without_either_only_the_queue_tells():
    for values in ({}, {"AccountingStorageType": "(null)"}):
        found = accounting(**values)
        assert (found.level, "AccountingStorageType=none" in found.found) == ("warn", True)
    found = accounting(AccountingStorageType="accounting_storage/none", JobCompType="jobcomp/none")
    assert "AccountingStorageType=accounting_storage/none" in found.found


def test_whatever_a_check_runs_into_is_a_finding():
    def busy() -> Iterator[Finding]:
        yield Finding("ok", "x", "half of it")
        raise TryAgainError("busy", "wait")

    def broken() -> Iterator[Finding]:
        raise OSError(5, "Input/output error", "/file")

    assert _guarded("x", busy) == [Finding("warn", "x", "busy", "wait")]
    (found,) = _guarded("x", broken)
    assert (found.level, found.found) == (
        "warn",
        "cannot look: [Errno 5] Input/output error: '/file'",
    )


# -- the state folder -----------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = Settings(state_dir=tmp_path / "state")
    History.create(found.database_url)
    return found


@pytest.fixture
def as_somebody_else(settings: Settings) -> Iterator[None]:
    """Closes the state folder to the process, which is not root for so long."""
    examine_state(settings)  # what is imported on the way may lie where nobody else may look
    folder, was_root = settings.state_dir, os.geteuid() == 0
    folder.chmod(0)
    if was_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)


def test_a_sound_folder(settings):
    findings = examine_state(settings)
    assert [f.what for f in findings] == CHECKS
    assert [f.level for f in findings] == ["ok", "warn", "ok"]
    StateDir(settings.state_dir).halt("a test")
    (halt,) = examine_state(settings)[len(CHECKS) :]
    assert (halt.level, halt.found) == ("warn", "acting is halted by a test")


def test_a_closed_folder_is_said_to_be_closed(settings, as_somebody_else):
    findings = examine_state(settings)
    assert [f.what for f in findings] == [*CHECKS, "halt"]
    assert {f.level for f in findings} == {"warn"}
    assert all("ermission denied" in f.found for f in findings)


def test_the_status_of_a_daemon_in_a_closed_folder_is_refused_in_words(settings, as_somebody_else):
    with pytest.raises(PermissionDeniedError, match="ermission denied"):
        daemon_status(settings)


def test_a_folder_with_an_impossible_name(tmp_path):
    findings = examine_state(Settings(state_dir=tmp_path / ("x" * 300)))
    assert [f.what for f in findings] == [*CHECKS, "halt"]
    assert {f.level for f in findings} == {"warn"}
