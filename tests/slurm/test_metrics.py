"""Metrics of a live daemon, in its textfile and over HTTP, and the report of what it did."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.site import Site, fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A daemon that observes at first and then acts, with both ways to read its metrics."""
    with fresh_site() as made:
        textfile = made.bed.spec.root / "gsched.prom"
        made.configure(
            "daemon", metrics_listen=f'"127.0.0.1:{free_port()}"', metrics_file=f'"{textfile}"'
        )
        yield made


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def told(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def textfile(site: Site) -> dict[tuple[str, ...], float]:
    path = site.bed.spec.root / "gsched.prom"
    return told(path.read_text()) if path.exists() else {}


def over_http(site: Site) -> dict[tuple[str, ...], float]:
    line = next(x for x in site.config.read_text().splitlines() if x.startswith("metrics_listen"))
    address = line.split('"')[1]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return told(answer.read().decode())


def test_metrics_and_report_tell_what_was_done(site: Site) -> None:
    jobs = site.queue_up([300, 5, 40, 90])
    with site.daemon("--observe"):
        wait_for(
            lambda: textfile(site).get(("gsched_changes_total", "observed")) == len(jobs),
            "the changes that an observing daemon would make",
        )
        found = over_http(site)
        assert found["gsched_mode", "observe"] == 1
        assert found["gsched_jobs", "pending"] == len(jobs) == found["gsched_jobs_ranked",]
        assert found["gsched_queue_predicted_gpu_seconds",] == 8 * (300 + 5 + 40 + 90)
        assert ("gsched_last_write_timestamp_seconds",) not in found
    with site.daemon("--act"):
        wait_for(
            lambda: textfile(site).get(("gsched_changes_total", "confirmed")) == len(jobs),
            "the changes to be confirmed",
        )
        found = over_http(site)
    assert found["gsched_mode", "act"] == 1
    assert found["gsched_rounds_total", "act", "succeeded"] >= 1
    assert found["gsched_journal_open_changes",] == 0
    assert found["gsched_last_write_timestamp_seconds",] > 0
    report = site.json("daemon", "report")
    assert report["changes"] == {"observed": len(jobs), "confirmed": len(jobs)}
    assert (report["moved"]["up"], report["moved"]["down"]) == (2, 2)
    assert report["modes"]["act"]["writes"] == len(jobs)
    assert report["modes"]["observe"]["writes"] == 0
    assert report["inversions"]["last"]["pairs"] == 6  # of four jobs
    assert report["verdict"] == "too-few-days"
