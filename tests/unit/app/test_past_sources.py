"""Why there is no history database to read, and whose cluster an answer is about."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.app.other_clusters import host_cluster_warning
from gsched.app.wiring import UNREADABLE_HISTORY, has_history, why_no_history
from gsched.config.settings import Settings
from gsched.errors import UnavailableError
from gsched.slurm.records import SlurmConfig


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


def test_a_database_that_is_not_there(settings):
    assert why_no_history(settings) == "no history database on this host"
    (settings.state_dir / "history.db").mkdir()
    assert not has_history(settings)


def test_a_database_that_may_not_be_read_is_there(settings, monkeypatch):
    (settings.state_dir / "history.db").touch()
    assert why_no_history(settings) == ""
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert why_no_history(settings) == UNREADABLE_HISTORY


def test_a_folder_that_may_not_be_searched_hides_whether_it_is(settings, monkeypatch):
    def denied(_):
        raise PermissionError

    monkeypatch.setattr(Path, "stat", denied)
    assert why_no_history(settings) == UNREADABLE_HISTORY


def test_another_cluster_of_slurms_environment_is_named(settings, monkeypatch):
    class Slurm:
        def config(self):
            return SlurmConfig({"ClusterName": "alpha"})

    monkeypatch.setattr("gsched.app.other_clusters.slurm_client", lambda *_, **__: Slurm())
    for named, warning in (
        ("", ""),
        ("alpha", ""),
        ("beta", "SLURM_CLUSTERS names beta; this is alpha alone"),
    ):
        monkeypatch.setenv("SLURM_CLUSTERS", named)
        assert host_cluster_warning(settings) == warning


def test_it_is_named_where_slurm_does_not_answer(settings, monkeypatch):
    class Slurm:
        def config(self):
            raise UnavailableError("gone")

    monkeypatch.setattr("gsched.app.other_clusters.slurm_client", lambda *_, **__: Slurm())
    monkeypatch.setenv("SLURM_CLUSTERS", "beta")
    assert host_cluster_warning(settings).endswith("this is the cluster of this host alone")
