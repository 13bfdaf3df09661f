"""Efficiency: ratios with their denominators, what is unknown stays unknown, nothing is NaN."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.history import attempt, batch

from gsched.app.measured import usage_of
from gsched.app.usage_words import report_lines
from gsched.config.settings import Settings
from gsched.errors import NoAccountingError, UsageError
from gsched.model.job import UNLIMITED_S, JobState
from gsched.slurm.parse_usage import UsageRecord, parse_stat, parse_usage, with_running_steps
from gsched.slurm.records import QueueListing
from gsched_sql import History

VIEWS = Path(__file__).parents[2] / "data" / "slurm" / "22.05" / "views"
SEPARATOR = "\x1frecorded-separator\x1e"


def recorded(name: str = "sacct-usage.txt") -> tuple[UsageRecord, ...]:
    return parse_usage((VIEWS / name).read_text(), SEPARATOR, counts_gpus=True)[0]


class Slurm:
    """A Slurm whose sacct answers with records."""

    def __init__(self, records: tuple[UsageRecord, ...], *, slurmdbd: bool = True) -> None:
        self.records = records
        self.slurmdbd = slurmdbd

    def usage(self, job_ids: list[str]) -> Any:
        if not self.slurmdbd:
            raise NoAccountingError("this cluster has no slurmdbd")
        (asked,) = job_ids
        found = [r for r in self.records if asked in {r.slurm_id, str(r.job_id)}]
        return tuple(found), ()

    def queue(self, *_args: object, **_options: object) -> QueueListing:
        return QueueListing((), ())


@pytest.fixture
def report(monkeypatch, tmp_path):
    def call(job, records=None, *, slurmdbd=True):
        slurm = Slurm(recorded() if records is None else records, slurmdbd=slurmdbd)
        for module in ("measured", "past_sources"):
            monkeypatch.setattr(f"gsched.app.{module}.slurm_client", lambda _: slurm)
        found = usage_of(Settings(state_dir=tmp_path), job)
        json.dumps(found.document(), allow_nan=False)
        return found

    return call


def lines(found):
    return dict(report_lines(found))


def test_figures_of_one_job(report):
    found = report("43")
    (job,) = found.jobs
    assert (job.cpu_available_s, job.cpu_time_s) == (4 * 8, pytest.approx(9.728, abs=0.01))
    assert job.cpu_efficiency == pytest.approx(9.728 / 32, abs=0.001)
    assert job.mem_used_bytes == 435863552  # of the step with two tasks, not of the largest task
    assert job.mem_largest_task_bytes == 217980928
    assert job.mem_efficiency == pytest.approx(435863552 / (4000 * 2**20))
    assert (job.gpu_time_s, job.unused_limit_s) == (2 * 8, 300 - 8)
    text = lines(found)
    assert text[""] == '43 "sbatch" of games: FAILED (exit code 3)'
    assert text["CPU"] == "30 %: 0:10 of 4 CPUs × 0:08"
    assert text["memory"] == "10 %: 416 MiB of 3.9 GiB allocated; largest task 208 MiB"
    assert "utilisation unknown" in text["GPU"]


def test_what_requeues_have_lost_is_counted_and_not_mixed_in(report):
    (job,) = report("79").jobs
    assert len(job.earlier) == 1
    assert (job.lost_s, job.lost_gpu_time_s) == (4, 8)
    assert (job.cpu_available_s, job.cpu_time_s) == (8, pytest.approx(2.89))
    assert job.queueing_s == 11
    (document,) = report("79").document()["jobs"]
    assert document["submit_time"] < document["start_time"] - 11
    assert (
        "0:04, 0.00222 GPU-hours in 1 earlier attempt (1 REQUEUED)" in lines(report("79"))["lost"]
    )


def test_unmeasured_is_unknown(report):
    found = report("1", recorded("sacct-usage-unmeasured.txt"))
    (job,) = found.jobs
    figures = (job.cpu_time_s, job.cpu_efficiency, job.mem_used_bytes, job.mem_efficiency)
    assert figures == (None, None, None, None)
    text = lines(found)
    assert text["CPU"].startswith("unknown: Slurm has not measured it; 4 CPUs × 0:08")
    assert text["memory"].startswith("unknown")


def test_a_job_that_never_ran_has_no_ratios(report):
    (job,) = report("87").jobs
    assert (job.cpu_efficiency, job.gpu_time_s, job.unused_limit_s) == (None, 0, None)
    text = lines(report("87"))
    assert text["ran"] == "never"
    assert "held" not in text
    assert text["asked for"].startswith("1 node, ")


def test_a_job_that_ended_at_once_divides_by_nothing(report):
    records = tuple(replace(r, elapsed_s=0, time_limit_s=0, mem_bytes=0) for r in recorded())
    (job,) = report("43", records).jobs
    assert (job.cpu_efficiency, job.mem_efficiency) == (None, None)
    assert "too shortly for a ratio" in lines(report("43", records))["CPU"]


def test_a_running_job_so_far(report):
    stat = parse_stat((VIEWS / "sstat.txt").read_text())
    records = with_running_steps(recorded(), stat)
    (job,) = report("179", records).jobs
    assert job.unused_limit_s is None
    assert job.cpu_time_s == 4
    text = lines(report("179", records))
    assert "so far of the time limit 10:00" in text["ran"]


def test_an_array_and_its_sum(report):
    found = report("80")
    assert [job.last.slurm_id for job in found.jobs] == ["80_1", "80_2", "80_3"]
    total = found.document()["total"]
    assert (total["num_jobs"], total["states"]) == (3, {"COMPLETED": 2, "FAILED": 1})
    assert total["cpu_efficiency"] == pytest.approx((1.856 + 1.817 + 1.971) / 6)
    assert (total["cpu_jobs"], total["gpu_time_s"]) == (3, 6)
    assert lines(found)["80_2"].startswith("FAILED (exit code 1), ran 0:02, CPU 91 %")
    assert [job.last.slurm_id for job in report("80_2").jobs] == ["80_2"]


def test_a_sum_says_over_how_many_parts_it_is(report):
    found = report("81")
    assert found.document()["total"]["cpu_jobs"] == 1
    assert lines(found)["CPU"].endswith("(of 1 of 2)")
    assert [job.last.slurm_id for job in report("81+1").jobs] == ["81+1"]


def test_gpu_utilisation_where_it_is_measured(report):
    def with_util(record):
        steps = [
            replace(s, gpu_util_percent=u)
            for s, u in zip(record.steps, (None, 80, 20, 0), strict=True)
        ]
        return replace(record, steps=tuple(steps))

    records = tuple(with_util(r) if r.slurm_id == "43" else r for r in recorded())
    (job,) = report("43", records).jobs
    assert job.gpu_util_percent == pytest.approx((80 * 5 + 20 * 3) / 8)  # by the steps' length


def test_a_used_id_means_its_newest_job(report):
    (first,) = [r for r in recorded() if r.slurm_id == "43"]
    later = replace(
        first, submit_time=first.submit_time + 10**7, start_time=first.start_time + 10**7,
        end_time=first.end_time + 10**7, user="other", steps=(), cpu_s=None,
    )  # fmt: skip
    (job,) = report("43", (first, later)).jobs
    assert (job.last.user, job.earlier) == ("other", ())


def test_without_slurmdbd_the_database_gives_what_it_has(report, tmp_path):
    url = Settings(state_dir=tmp_path).database_url
    History.create(url)
    with History.open(url) as history:
        first = attempt(7, 1000, state=JobState.REQUEUED)
        history.ingest(batch(first, attempt(7, 1111)), source_key=None)
    found = report("7", slurmdbd=False)
    assert found.source == "database"
    (job,) = found.jobs
    assert (job.last.elapsed_s, job.gpu_time_s, job.lost_s) == (100, 200, 100)
    assert (job.cpu_available_s, job.cpu_efficiency) == (800, None)
    assert job.last.mem_bytes == 2**36
    assert "no figures of CPU time" in lines(found)["from"]


def test_an_unknown_job_may_be_anothers(report):
    with pytest.raises(UsageError, match="it does not exist, or is not yours to see"):
        report("4711")
    with pytest.raises(UsageError, match="one job or one array task at a time"):
        report("80_[1-2]")


def test_no_limit_is_said_and_an_unknown_one_is_not(report):
    for limit_s, words in ((UNLIMITED_S, "; time limit UNLIMITED"), (None, "")):
        records = tuple(replace(r, time_limit_s=limit_s) for r in recorded())
        found = report("43", records)
        assert found.document()["jobs"][0]["time_limit_s"] is None
        assert lines(found)["ran"].partition(";")[1:] == words.partition(";")[1:]


def test_the_exit_code_of_a_job_that_never_ran_means_nothing(report):
    records = tuple(
        replace(r, state=JobState.FAILED, state_text="FAILED", exit_code=0, exit_signal=1)
        for r in recorded()
    )
    found = report("87", records)
    assert found.document()["jobs"][0]["exit_words"] is None
    assert lines(found)[""].endswith("FAILED (never ran)")
