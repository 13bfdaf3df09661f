"""What the daemon tells Prometheus, read as Prometheus reads it."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.machine import NO_NAMESPACES, has_mount_namespaces
from support.rounds import JOBS, backend_with, runner_for
from support.sim import job

from gsched.daemon.gate import Mode
from gsched.daemon.metrics import Metrics
from gsched.daemon.metrics_gauges import Facts
from gsched.daemon.model_facts import ModelFacts
from gsched.engine.deciding import RoundRules
from gsched.engine.round import RoundResult
from gsched.errors import GschedError, TryAgainError, UnavailableError
from gsched.model.job import Capability, Exclusion, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.model.journal import ChangeState
from gsched.model.prediction_truth import PredictionTruth

Labels = dict[str, str]


def samples(metrics: Metrics) -> dict[str, list[tuple[Labels, float]]]:
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        assert family.documentation, family.name
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return next((v for of, v in samples(metrics).get(name, ()) if of == labels), None)


@pytest.fixture
def metrics(tmp_path: Path) -> Metrics:
    return Metrics(tmp_path)


def one_round(acting: bool = True, **overrides: Any) -> RoundResult:
    clock = iter(range(10_000))
    parts = {"stopwatch": lambda: next(clock) / 100} | overrides
    return runner_for(backend_with(JOBS), JOBS, **parts).run(acting)


def test_before_the_first_round_nothing_is_made_up(metrics: Metrics) -> None:
    told = samples(metrics)
    assert not [
        name for name in told if name.startswith(("gsched_jobs", "gsched_mode", "gsched_q"))
    ]
    assert "gsched_last_successful_round_timestamp_seconds" not in told
    assert value(metrics, "gsched_changes_total", state="rejected") == 0


def test_every_name_is_one_of_ours_and_counters_are_named_so(metrics: Metrics) -> None:
    metrics.round_done(one_round(), "act", 0.2, 0.1)
    metrics.facts(Facts(cluster="c", policy="qssf"))
    for family in text_string_to_metric_families(metrics.text().decode()):
        assert family.name.startswith("gsched_")
        ours = {sample.name.removeprefix(family.name) for sample in family.samples}
        endings = {"counter": {"_total"}, "histogram": {"_bucket", "_sum", "_count"}}
        assert ours <= endings.get(family.type, {""}), family.name
    assert b"_created" not in metrics.text()


def test_no_label_names_a_user_or_a_job(metrics: Metrics) -> None:
    hostile = [job(1, duration_s=5, user='x"\n}', name="gsched_up 1\n")]
    result = runner_for(backend_with(hostile), hostile).run(False)
    metrics.round_done(result, "observe", 0.2, 0.1)
    allowed = {"mode", "outcome", "phase", "state", "reason", "le", "quantile", "kind", "socket",
               "step", "cluster", "policy", "version"}  # fmt: skip
    for name, told in samples(metrics).items():
        for labels, _ in told:
            assert labels.keys() <= allowed, name
    assert b"gsched_up" not in metrics.text()


def test_a_round_is_counted_and_described(metrics: Metrics) -> None:
    result = one_round()
    metrics.round_done(result, "act", 0.2, 0.125)
    metrics.round_done(replace(result, postponed=7, recovered=2), "act", 0.3, 0.125)
    assert value(metrics, "gsched_rounds_total", mode="act", outcome="succeeded") == 2
    assert value(metrics, "gsched_rounds_total", mode="act", outcome="fault") == 0
    assert value(metrics, "gsched_round_seconds_count") == 2
    assert value(metrics, "gsched_round_cpu_seconds_total") == 0.25
    assert value(metrics, "gsched_last_round_seconds") == 0.3
    phases = {labels["phase"] for labels, _ in samples(metrics)["gsched_round_phase_seconds_sum"]}
    assert phases == set(result.timings_s) >= {"look", "predict", "decide", "plan", "apply"}
    changed = len(result.changes)
    assert changed
    assert value(metrics, "gsched_changes_total", state="confirmed") == 2 * changed
    assert value(metrics, "gsched_changes_recovered_total") == 2
    assert value(metrics, "gsched_postponed_changes") == 7
    for what in ("successful_round", "write"):
        assert value(metrics, f"gsched_last_{what}_timestamp_seconds") == result.state.as_of


def test_a_round_that_only_observes_writes_nothing(metrics: Metrics) -> None:
    result = one_round(acting=False)
    metrics.round_done(result, "observe", 0.2, 0.1)
    assert value(metrics, "gsched_changes_total", state="observed") == len(result.changes) > 0
    assert value(metrics, "gsched_last_write_timestamp_seconds") is None


def test_the_queue_in_numbers(metrics: Metrics) -> None:
    result = one_round()
    metrics.round_done(result, "act", 0.2, 0.1)
    jobs = result.state.jobs
    assert value(metrics, "gsched_jobs", state="pending") == jobs.pending.sum()
    assert value(metrics, "gsched_jobs", state="running") == jobs.running.sum()
    assert value(metrics, "gsched_jobs_ranked") == len(result.decision.order)
    waiting = [v for v, pending in zip(jobs.views, jobs.pending, strict=True) if pending]
    gpu_s = sum(v.request.gpus.minimum * v.predictions[0].mean for v in waiting)
    assert value(metrics, "gsched_queue_predicted_gpu_seconds") == pytest.approx(gpu_s)
    gpus = sum(v.request.gpus.minimum for v in waiting)
    assert value(metrics, "gsched_gpus", state="pending") == gpus
    assert value(metrics, "gsched_jobs_unpredicted") == 0
    longest = max(result.state.as_of - v.first_submit for v in waiting)
    assert value(metrics, "gsched_queue_wait_seconds", quantile="1") == longest


def test_starving_jobs_are_counted(metrics: Metrics) -> None:
    backend = backend_with(JOBS)
    rules = RoundRules(starvation_bound_s=1)
    clock = backend.now + 50
    result = runner_for(backend, JOBS, rules=rules, clock=lambda: clock).run(True)
    metrics.round_done(result, "act", 0.2, 0.1)
    assert value(metrics, "gsched_jobs_starving") == result.state.jobs.pending.sum() > 0


def test_jobs_left_alone_are_counted_by_reason(metrics: Metrics) -> None:
    result = one_round()
    why = Exclusion(Capability.REORDER, "opted-out", "its user has opted out")
    views = [replace(v, exclusions=(why,)) for v in result.state.jobs.views]
    state = replace(result.state, jobs=JobTable.from_views(views))
    empty = replace(result.decision, order={}, reasons={})
    metrics.round_done(replace(result, state=state, decision=empty), "act", 0.2, 0.1)
    waiting = result.state.jobs.pending.sum()
    assert value(metrics, "gsched_jobs_excluded", reason="opted-out") == waiting
    assert value(metrics, "gsched_jobs_ranked") == 0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnavailableError("slurmctld does not answer"), "unavailable"),
        (TryAgainError("locked"), "try-again"),
        (GschedError("a policy failed"), "fault"),
    ],
)
def test_a_failed_round_is_counted_and_leaves_the_picture(
    metrics: Metrics, error: GschedError, outcome: str
) -> None:
    metrics.round_done(one_round(), "act", 0.2, 0.1)
    before = samples(metrics)["gsched_last_successful_round_timestamp_seconds"]
    metrics.round_failed(error, "act", 5.0, 0.1)
    assert value(metrics, "gsched_rounds_total", mode="act", outcome=outcome) == 1
    assert samples(metrics)["gsched_last_successful_round_timestamp_seconds"] == before
    assert value(metrics, "gsched_last_round_seconds") == 5.0


def test_one_mode_at_a_time(metrics: Metrics) -> None:
    for mode in Mode:
        metrics.waits(mode.value)
        told = {labels["mode"]: number for labels, number in samples(metrics)["gsched_mode"]}
        assert told == {one.value: float(one is mode) for one in Mode}
        assert value(metrics, "gsched_leader") == float(mode not in (Mode.STANDBY, Mode.WAITING))


def test_what_waits_tells_nothing_of_jobs_that_was_so_before(metrics: Metrics) -> None:
    result = one_round()
    metrics.round_done(result, "act", 0.2, 0.1)
    metrics.inverted({"qos": 3, "fairshare": 2, "pairs": 50})
    metrics.waits(Mode.WAITING.value)
    told = samples(metrics)
    assert not {"gsched_jobs", "gsched_jobs_starving", "gsched_inversions"} & told.keys()
    assert told["gsched_last_successful_round_timestamp_seconds"] == [({}, result.state.as_of)]
    metrics.facts(Facts(policy="qssf", interval_s=30))  # the cluster has not been asked yet
    assert told.keys() | samples(metrics).keys() >= {"gsched_daemon_info"}
    assert value(metrics, "gsched_round_interval_seconds") == 30


def test_values_that_were_taken_back_are_counted(metrics: Metrics) -> None:
    metrics.taken_back({}, 5)
    assert value(metrics, "gsched_last_write_timestamp_seconds") is None
    metrics.taken_back({ChangeState.CONFIRMED: 3, ChangeState.REJECTED: 2}, 7)
    assert value(metrics, "gsched_changes_total", state="confirmed") == 3
    assert value(metrics, "gsched_changes_total", state="rejected") == 2
    assert value(metrics, "gsched_last_write_timestamp_seconds") == 7


def test_an_array_counts_by_its_waiting_tasks_and_the_future_is_no_wait(metrics: Metrics) -> None:
    result = one_round()
    first, *others = result.state.jobs.views
    gpus = first.request.gpus.minimum
    later = result.state.as_of + 3600
    others = [replace(view, eligible=later) for view in others]
    views = [replace(first, eligible=later, waiting_tasks=500), *others]
    metrics.round_done(result, "act", 0.2, 0.1)
    assert "gsched_queue_wait_seconds" in samples(metrics)
    plain = {name: value(metrics, f"gsched_{name}", state="pending") for name in ("jobs", "gpus")}
    state = replace(result.state, jobs=JobTable.from_views(views))
    metrics.round_done(replace(result, state=state), "act", 0.2, 0.1)
    assert value(metrics, "gsched_jobs", state="pending") == (plain["jobs"] or 0) + 499
    assert value(metrics, "gsched_gpus", state="pending") == (plain["gpus"] or 0) + 499 * gpus
    assert "gsched_queue_wait_seconds" not in samples(metrics)


def test_facts_beside_the_rounds(metrics: Metrics) -> None:
    facts = Facts(
        cluster="alpha", policy="qssf", interval_s=30.0, model=ModelFacts(written_at=5.0),
        ingest_time=6.0,
        open_changes=3, fence=9, watchdog_s=90.0,
        query_refusals=4, control_refusals=5, database_errors=6, upkeep_failures={"ingest": 2},
    )  # fmt: skip
    metrics.facts(facts)
    (info,) = samples(metrics)["gsched_daemon_info"]
    assert (info[0]["cluster"], info[0]["policy"], info[1]) == ("alpha", "qssf", 1)
    expected = {
        "gsched_round_interval_seconds": 30, "gsched_model_timestamp_seconds": 5,
        "gsched_last_ingest_timestamp_seconds": 6, "gsched_journal_open_changes": 3,
        "gsched_leader_fence": 9,
        "gsched_watchdog_seconds": 90, "gsched_database_errors_total": 6,
    }  # fmt: skip
    assert {name: value(metrics, name) for name in expected} == expected
    assert value(metrics, "gsched_socket_refusals_total", socket="control") == 5
    assert value(metrics, "gsched_upkeep_failures_total", step="ingest") == 2
    metrics.facts(replace(facts, fence=None, model=ModelFacts()))
    assert value(metrics, "gsched_leader_fence") is None
    assert value(metrics, "gsched_model_timestamp_seconds") is None


def test_inversions_and_predictions(metrics: Metrics) -> None:
    metrics.inverted({"qos": 3, "fairshare": 2, "pairs": 50})
    assert value(metrics, "gsched_inversions", kind="qos") == 3
    assert value(metrics, "gsched_inversion_pairs") == 50
    kind = PredictionKind.DURATION
    few = PredictionTruth(kind, "old", made=5, known=3, median_error=1.0, mean_error=1.0)
    many = PredictionTruth(kind, "new", 50, 30, 60.0, -5.0, ((0.9, 0.8, 30),))
    start = PredictionTruth(PredictionKind.START, "new", 99, 99, 9.0, 9.0)
    metrics.facts(Facts(truths=(few, many, start)))
    assert value(metrics, "gsched_predictions_compared") == 30
    assert value(metrics, "gsched_prediction_mean_error_seconds") == -5
    assert value(metrics, "gsched_prediction_coverage_ratio", quantile="0.9") == 0.8
    metrics.facts(Facts())
    assert value(metrics, "gsched_predictions_compared") is None


def test_the_process_and_the_disk(metrics: Metrics, tmp_path: Path) -> None:
    told = samples(metrics)
    assert told["gsched_process_resident_memory_bytes"][0][1] > 2**20
    free = os.statvfs(tmp_path)
    assert value(metrics, "gsched_state_dir_size_bytes") == free.f_blocks * free.f_frsize
    gone = Metrics(tmp_path / "nowhere")
    assert value(gone, "gsched_state_dir_free_bytes") is None


def test_two_daemons_in_one_process_share_nothing(metrics: Metrics, tmp_path: Path) -> None:
    other = Metrics(tmp_path)
    metrics.round_done(one_round(), "act", 0.2, 0.1)
    assert value(other, "gsched_rounds_total", mode="act", outcome="succeeded") is None


def test_the_textfile_is_replaced_whole(metrics: Metrics, tmp_path: Path) -> None:
    path = tmp_path / "gsched.prom"
    path.write_text("old")
    with path.open() as reader:
        metrics.write(path)
        assert reader.read() == "old"  # who reads just now reads the old one to its end
    assert path.read_bytes().splitlines()[0] == metrics.text().splitlines()[0]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert [found.name for found in tmp_path.iterdir()] == ["gsched.prom"]


def test_a_textfile_goes_with_the_daemon_and_with_its_setting(
    metrics: Metrics, tmp_path: Path
) -> None:
    path, other = tmp_path / "gsched.prom", tmp_path / "other.prom"
    path.write_text("of a killed daemon")
    metrics.end()  # not written by this one
    assert path.exists()
    metrics.write(path)
    metrics.write(other)
    assert [found.name for found in tmp_path.iterdir()] == ["other.prom"]
    metrics.write(None)
    assert not any(tmp_path.iterdir())
    metrics.write(path)
    metrics.end()
    assert not any(tmp_path.iterdir())
    metrics.end()


def test_a_textfile_that_cannot_be_written_is_told_once(
    metrics: Metrics, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    path = tmp_path / "gone" / "gsched.prom"
    for _ in range(3):
        metrics.write(path)
    assert [r.message for r in caplog.records].count(caplog.records[0].message) == 1
    assert "No such file" in caplog.text
    path.parent.mkdir()
    metrics.write(path)
    assert path.exists()


ON_A_FULL_DISK = """
import pathlib, sys
from gsched.daemon.metrics import Metrics
folder = pathlib.Path(sys.argv[1])
metrics, path = Metrics(folder), folder / "gsched.prom"
metrics.write(path)
whole = path.read_bytes()
try:
    (folder / "filler").write_bytes(bytes(2**20))
except OSError:
    pass
metrics.write(path)
assert path.read_bytes() == whole
assert sorted(found.name for found in folder.iterdir()) == ["filler", "gsched.prom"]
(folder / "filler").unlink()
metrics.waits("act")
metrics.write(path)
assert path.read_bytes() != whole
"""


@pytest.mark.skipif(not has_mount_namespaces(), reason=NO_NAMESPACES)
def test_a_full_disk_leaves_the_old_textfile(tmp_path: Path) -> None:
    mounted = 'mount -t tmpfs -o size=16k none "$0" && exec "$@"'
    argv = [sys.executable, "-c", ON_A_FULL_DISK, str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mounted, str(tmp_path), *argv],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("No space left on device") == 1
