"""A history with rows in every table, for tests of what concerns them all."""

from __future__ import annotations

from gsched.model.accounts import FairnessEntry, LeaseGrant, SiteQuotas
from gsched.model.decision import PlannedRun, Reason
from gsched.model.fit import Fit, FitOutcome
from gsched.model.history import NodeEvent, Reject, StepRecord
from gsched.model.job import JobKey, JobState, Lease, LeaseState, Wants
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrder,
    NodeVerb,
    PoolCount,
    PowerCause,
    PowerPhase,
    PowerSpan,
    WakeDelay,
)
from gsched.model.samples import Series
from gsched.model.target_records import Promise, TargetEvent, TargetRecord, TargetState
from gsched.model.targets import Steps
from gsched.model.user_request import UserRequest
from gsched_sql import History, machine_id, maintenance
from support.history import CLUSTER, attempt, batch, pending, select, url_of
from support.journal import KEY, change, prediction, round_info

GPU = Series(CLUSTER, "n1/gpu0", "gpu_utilization_pct", "dcgm")
HOSTILE = "a|b\n\x00\ud800\ue000'\"\\%s, 名前 😀 "


def fill(database, num_jobs: int = 30) -> None:
    """Rows in every table but `prune_marks` and `usage_days`; job 7 has a bit of everything."""
    with History.open(url_of(database)) as history:
        jobs = [
            attempt(n, 1000 + 100 * n, name=f"run-{n}", user=f"user{n % 3}")
            for n in range(100, 100 + num_jobs)
        ]
        first = attempt(7, 1000, state=JobState.REQUEUED, name=HOSTILE, extra='{"vc": "ü"}')
        second = attempt(7, 1200, restarts=1, phase="eval", num_gpus=4, exit_signal=9)
        other = attempt(7, 1200, restarts=1, tenant="lab2", partition="cpu", num_gpus=4)
        step = StepRecord(CLUSTER, 7, None, None, 1200, "batch", JobState.FAILED, cpu_time_s=1.25)
        told = batch(
            *jobs, first, second, other, pending(8, 5000), rejects=[Reject("x", 3, "why", HOSTILE)]
        )
        history.ingest(_with_steps(told, step), source_key="s")
        history.keep_node_events(
            [NodeEvent(CLUSTER, "n1", 900, "DOWN", 990, HOSTILE, "root")],
            source_key="events",
            cursor="1000",
        )
        _journal(history)
        history.request_store().capture(
            [UserRequest(KEY, "alice", "gs1{}", Wants(deadline=9999), 1500)]
        )
        grant = LeaseGrant(Lease("l1", LeaseState.GRANTED, 1210, 600), KEY, 1200, 4)
        history.leases().grant(grant, 1210)
        history.leases().move("l1", LeaseState.ENDING, 1800, "time is up")
        history.targets().keep(CLUSTER, [(target(), [TargetEvent(1500, "standing", 1800, 0.9)])])
        history.fairness().keep([FairnessEntry(CLUSTER, "lab1", 0, 3600, 1.5, 2.0, 0.1, -0.0)])
        site = SiteQuotas({"lab1": 6.0, "lab2": 1.5}, 8.0, "shares", {"a100": 1.0, "v100": 0.1})
        history.fairness().note(CLUSTER, 1200, site)
        history.samples().append(GPU, 10, [(1210 + 10 * n, n / 3) for n in range(50)])


def target() -> TargetRecord:
    """Job 7's deadline, which was promised and is planned in two parts."""
    return TargetRecord(
        key=KEY,
        asked_time=1500,
        user="alice",
        steps=Steps((9999, 12_000), (100.0, 50.0)),
        num_gpus=4,
        state=TargetState.STANDING,
        since=1500,
        promise=Promise(1500, 1800, 0.9, 4000.0),
        finish_time=1810,
        probability=0.85,
        plan=(PlannedRun(1500, 1600, 4), PlannedRun(1700, 1810, 4)),
    )


def _with_steps(told, step):
    return type(told)(told.records, told.rejects, told.rows_in, told.rows_skipped, "c", (step,))


def _journal(history: History) -> None:
    journal = history.journal()
    journal.begin_round(round_info("r1"))
    changes = [change("c1", 0, 5), change("c2", None, 6, key=JobKey(CLUSTER, 8, epoch=5000))]
    journal.record("r1", changes, ChangeState.INTENT, 2000)
    journal.settle([("c1", ChangeState.SENT, ""), ("c1", ChangeState.CONFIRMED, "")], 2001)
    journal.end_round("r1", 2002, {"changes": 1}, {"level": 0.5})
    journal.record_predictions([(KEY, 1200, prediction())], 1999)
    history.leadership(CLUSTER).take("head", machine_id(), 1, 90, 2000)
    history.spans(CLUSTER).note("observe", "qssf", 1990, 90.0)
    history.spans(CLUSTER).note("act", "qssf", 2002, 90.0, writes=2)
    for fitted_at in (1995, 2003):
        history.fits(CLUSTER).record(fit(fitted_at))
    _sleeping_nodes(history)


def _sleeping_nodes(history: History) -> None:
    """Node n1 sleeps and wakes for job 7, which waits for it, and node n2 sleeps on."""
    log, pool = history.power_log(CLUSTER), "a100x8@gpu"
    reason = Reason("ces.wake", {"job": "7", "switch": HOSTILE})
    log.record([NodeOrder("w1", "n1", pool, NodeVerb.WAKE, reason, 1150, 1200)], ChangeState.INTENT)
    log.settle([("w1", ChangeState.SENT, ""), ("w1", ChangeState.CONFIRMED, HOSTILE)], 1160)
    slept = Reason("ces.sleep", {"idle_s": 900})
    log.record([NodeOrder("s2", "n2", pool, NodeVerb.SLEEP, slept, 1100, 1160)], ChangeState.INTENT)
    phases, causes = PowerPhase, PowerCause
    log.keep_spans(
        [
            PowerSpan("n1", pool, phases.ASLEEP, 800, 1160, causes.OTHERS),
            PowerSpan("n1", pool, phases.WAKING, 1160, 1209, causes.CES, "awake", "7"),
            PowerSpan("n2", pool, phases.FALLING, 1101, None, causes.CES),
        ]
    )
    log.keep_counts([PoolCount(pool, at, 1, 0, 1, 0, 0, 2, 1) for at in (1160, 1209)])
    log.keep_delays(
        [WakeDelay("7", 1200, pool, 1, 1201, 1209), WakeDelay("9", 1100, pool, 1, 1105, None)]
    )
    log.remember({"pools": {pool: {"last_wake": 1150}}})


def fit(fitted_at: int) -> Fit:
    """A model of two jobs that was put in use."""
    return Fit(
        cluster=CLUSTER,
        model_id=f"duration-{fitted_at}",
        fitted_at=fitted_at,
        took_s=1.5,
        started_by="timer",
        as_of=1990,
        data_from=1000,
        data_until=1980,
        num_jobs=2,
        features=("user", "name_cluster"),
        details={"kinds": {"gpu": {"lambda": 0.5}}},
        outcome=FitOutcome.ADOPTED,
        why="",
    )


def contents(database, scratch) -> dict[str, tuple[int, str]]:
    """Rows and hash of each table, whatever the engine."""
    from gsched_sql.backup_file import opened

    path = scratch / "contents.gsb"
    maintenance.backup(url_of(database), path, replace=True)
    with opened(path) as backup:
        return {table.name: (table.rows, table.sha256) for table in backup.manifest.tables}


SUMS = ("jobs", "attempts", *(f"{m}_{k}" for m in ("gpu_time", "cpu_time", "duration", "queueing")
                              for k in ("jobs", "s")))  # fmt: skip

_OF_JOBS = """
    SELECT cluster_id, state, COALESCE(phase, ''), COALESCE(user_id, 0), COALESCE(num_gpus, -1),
           COUNT(*), SUM(num_attempts), COUNT(gpu_time_s), SUM(gpu_time_s), COUNT(cpu_time_s),
           SUM(cpu_time_s), COUNT(duration_s), SUM(duration_s), COUNT(queueing_s), SUM(queueing_s)
      FROM jobs GROUP BY 1, 2, 3, 4, 5
"""
_OF_DAYS = f"""
    SELECT cluster_id, state, phase, user_id, num_gpus, {", ".join(f"SUM({n})" for n in SUMS)}
      FROM usage_days GROUP BY 1, 2, 3, 4, 5
"""


def usage(database) -> dict[tuple, tuple[int, ...]]:
    """Sums over the jobs that are there and those that have been pruned."""
    sums: dict[tuple, tuple[int, ...]] = {}
    for query in (_OF_JOBS, _OF_DAYS):
        for row in select(database, query):
            key, more = row[:5], tuple(int(number or 0) for number in row[5:])
            sums[key] = tuple(map(sum, zip(sums.get(key, (0,) * len(more)), more, strict=True)))
    return sums
