"""The daemon as a service while it cannot begin: what Prometheus learns of it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gsched.app.run_daemon import open_service
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.gate import Mode
from gsched.daemon.service import Service
from gsched.errors import GschedError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    daemon = replace(DaemonSettings(), metrics_file=str(tmp_path / "gsched.prom"))
    return Settings(state_dir=tmp_path / "state", daemon=daemon)


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    settings.state_dir.mkdir()
    with open_service(settings, acting=False, interval_s=None) as opened:
        yield opened


def told(path: Path) -> dict[tuple[str, str], float]:
    """By name and value of the first label."""
    families = text_string_to_metric_families(path.read_text())
    return {
        (s.name, next(iter(s.labels.values()), "")): s.value for f in families for s in f.samples
    }


@pytest.mark.parametrize("mode", [Mode.STANDBY, Mode.WAITING])
def test_the_textfile_tells_that_there_are_no_rounds(
    service: Service, settings: Settings, mode: Mode
) -> None:
    path = Path(settings.daemon.metrics_file)
    path.write_text('gsched_mode{mode="act"} 1\n')  # of one that was killed
    service.waits(mode)
    found = told(path)
    assert found["gsched_mode", mode.value] == 1
    assert found["gsched_mode", "act"] == found["gsched_leader", ""] == 0
    assert found["gsched_daemon_info", ""] == 1  # of a cluster that is not known yet
    assert found["gsched_round_interval_seconds", ""] == settings.daemon.interval_s
    assert found["gsched_metrics_timestamp_seconds", ""] > 0


def test_a_database_that_cannot_be_opened_is_counted(service: Service, settings: Settings) -> None:
    for number in (1, 2):
        with pytest.raises(GschedError), service.open_loop():
            pass
        service.waits(Mode.WAITING)
        found = told(Path(settings.daemon.metrics_file))
        assert found["gsched_database_errors_total", ""] == number


def test_the_textfile_goes_with_the_daemon(settings: Settings) -> None:
    settings.state_dir.mkdir()
    path = Path(settings.daemon.metrics_file)
    with open_service(settings, acting=False, interval_s=None) as service:
        service.waits(Mode.STANDBY)
        assert path.exists()
    assert not path.exists()
