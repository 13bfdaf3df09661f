"""What `gsched daemon` shows, as plain values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gsched.app.named_job import named_job
from gsched.app.wiring import UNREADABLE_HISTORY, now, open_history, slurm_client, why_no_history
from gsched.config.settings import Settings
from gsched.daemon import control_client
from gsched.daemon.locks import StateDir
from gsched.daemon.status_file import job_document, read_status, silent_s
from gsched.errors import GschedError, PermissionDeniedError
from gsched.explain.policy_reasons import policy_reason
from gsched.explain.words import short_time
from gsched.model.accounts import LeasePast
from gsched.model.job import JobState, JobView, LeaseState
from gsched.model.user_request import UserRequest, wants_document

if TYPE_CHECKING:  # `gsched daemon status` needs neither numpy nor SQLAlchemy
    from gsched.daemon.clear import ClearResult
    from gsched.daemon.situation import Situation
    from gsched.engine.round import RoundResult
    from gsched_sql.values import AuditRow


def round_document(result: RoundResult, situation: Situation) -> dict[str, Any]:
    """One round as JSON: counts, and each pending job with its rank, change and reason."""
    by_key = {c.key: c for c in result.changes}
    jobs = []
    for view in _in_order(result):
        said: dict[str, Any] = job_document(view, result.decision)
        rank = said.get("rank", {})
        change = by_key.get(view.key)
        jobs.append(
            {
                "job": view.key.slurm_id,
                "user": view.user,
                "rank": rank.get("position"),
                "of": rank.get("of"),
                "queue": rank.get("queue"),
                "predicted_duration_s": said.get("duration_s", {}).get("mean"),
                "site_factor_before": change.before if change else None,
                "site_factor_after": change.after if change else None,
                "change_state": result.settled[change.change_id][0].value if change else None,
                "reason": said.get("reason"),
                "excluded": said.get("excluded"),
            }
        )
    return {
        "round_id": result.info.round_id,
        "cluster": result.info.cluster,
        "started_at": result.info.started_at,
        "policy": result.info.policy,
        "acting": result.info.acting,
        "mode": situation.mode.value,
        "why": situation.why,
        "model_id": result.info.model_id,
        "summary": result.summary,
        "timings_s": dict(result.timings_s),
        "jobs": jobs,
    }


def round_rows(
    document: dict[str, Any], duration: Callable[[float | None], str]
) -> list[tuple[str, ...]]:
    """Its jobs as rows of a table: rank, job, user, duration, change, state, reason."""
    rows: list[tuple[str, ...]] = []
    for job in document["jobs"]:
        change = ""
        if job["site_factor_after"] is not None:
            before = job["site_factor_before"]
            change = f"{'?' if before is None else before} → {job['site_factor_after']}"
        reason = job["excluded"]["detail"] if job["excluded"] else ""
        if job["reason"] and not reason:
            reason = policy_reason(job["reason"]["code"], job["reason"]["params"])
        rows.append(
            (
                "-" if job["rank"] is None else str(job["rank"]),
                job["job"],
                job["user"],
                duration(job["predicted_duration_s"]),
                change,
                job["change_state"] or "",
                reason,
            )
        )
    return rows


def _in_order(result: RoundResult) -> list[JobView]:
    pending = [v for v in result.state.jobs.views if v.state is JobState.PENDING]
    order = result.decision.order

    def place(view: JobView) -> tuple[str, int, int]:
        rank = order.get(view.key)
        return (rank.queue, rank.position, 0) if rank else ("~", 0, view.first_submit)

    return sorted(pending, key=place)


_TOLD_LIVE = (
    "pid", "mode", "why", "started_at", "uptime_s", "policy", "interval_s", "last_round_s",
    "timings_s", "summary", "next_round_at", "failures", "problem", "last_errors", "fence",
    "config_read_at", "config_in_force", "config_problem", "needs_restart", "listeners", "model",
    "forecast", "ces",
)  # fmt: skip
"""What the daemon itself says of itself, see ``gsched.daemon.situation``."""


def daemon_status(settings: Settings) -> dict[str, Any]:
    """Whether a daemon runs here and how it fares (times epoch seconds).

    The daemon is asked; where it does not answer, its files tell what they can, and the keys of
    ``_TOLD_LIVE`` that they do not know are None. Raises PermissionDeniedError when neither is
    open to this user.
    """
    last = read_status(settings.status_file) or {}
    live, unasked = _ask_daemon(settings)
    found: dict[str, Any] = {"running": live is not None, "asked": live is not None}
    found |= dict.fromkeys(_TOLD_LIVE)
    if live is not None:
        found |= {key: live.get(key) for key in _TOLD_LIVE}
    else:
        holder = StateDir(settings.state_dir).leader()
        found |= _told_by_files(holder, last)
        found["problem"] = unasked.message if holder else None
    return found | {
        "halted": _halted(settings, live),
        "cluster": last.get("cluster"),
        "model_id": last.get("model_id"),
        "last_round_as_of": last.get("as_of"),
        "summary": found["summary"] or last.get("summary"),
        "query_address": last.get("query_address") if found["running"] else None,
        "query_problem": last.get("query_problem") if found["running"] else None,
    }


def _ask_daemon(settings: Settings) -> tuple[dict[str, Any] | None, GschedError]:
    try:
        return control_client.status(settings.daemon_socket), GschedError("")
    except GschedError as error:
        return None, error


def _told_by_files(holder: dict[str, Any] | None, last: dict[str, Any]) -> dict[str, Any]:
    if holder is None:
        return {"policy": last.get("policy")}
    newer = last if last.get("as_of", 0) >= holder.get("started_at", 0) else {}
    # A daemon that stands by, or whose rounds fail, leaves what it did before in its file.
    is_fresh = bool(newer) and not silent_s(newer, now())
    return {
        "running": True,
        "pid": holder.get("pid"),
        "mode": newer.get("mode") if is_fresh else None,
        "why": newer.get("why") if is_fresh else None,
        "started_at": holder.get("started_at"),
        "policy": last.get("policy"),
        "interval_s": newer.get("interval_s"),
    }


def _halted(settings: Settings, live: dict[str, Any] | None) -> str | None:
    """Why acting is halted. The folder may be closed to whom the daemon answers."""
    if live is not None and live.get("mode") == "halted":
        return str(live.get("why"))
    try:
        return StateDir(settings.state_dir).halted()
    except PermissionDeniedError:
        if live is None:
            raise
        return None


def clear_document(result: ClearResult) -> dict[str, Any]:
    """What `clear` did, job ids by outcome; whether the journal tells it, too."""
    return {
        "jobs": {
            "cleared": [k.slurm_id for k in result.cleared],
            "unread": [k.slurm_id for k in result.unread],
            "failed": [k.slurm_id for k, _ in result.failed],
            "foreign": [k.slurm_id for k, _ in result.foreign],
        },
        "journalled": not result.no_journal,
    }


def audit_rows(settings: Settings, job: str | None, limit: int) -> list[dict[str, Any]]:
    """The newest audit rows, of one job when `job` is given: changes, users' requests, and leases
    that were to end.

    Whoever cannot open the database asks the daemon, which answers Slurm's operators.
    """
    if why_no_history(settings) != UNREADABLE_HISTORY:
        try:
            return local_audit_rows(settings, job, limit)
        except PermissionDeniedError:
            if not settings.daemon_socket.exists():
                raise
    return control_client.audit(settings.daemon_socket, job, limit)


def local_audit_rows(settings: Settings, job: str | None, limit: int) -> list[dict[str, Any]]:
    """The same from the database itself.

    Slurm is asked for the cluster's name only when the database holds several clusters.
    """
    wanted = named_job(job) if job else None
    with open_history(settings, bounded=True) as history:
        clusters = history.clusters()
        if len(clusters) > 1:
            clusters = [slurm_client(settings).config().cluster]
        changes = [row for name in clusters for row in history.audit(name, wanted, limit=limit)]
        asked = [r for name in clusters for r in history.requests(name, wanted, limit=limit)]
        leases = [p for name in clusters for p in history.leases().revoked(name, wanted, limit)]
    rows = [*map(_audit_document, changes), *map(_request_document, asked)]
    rows += map(_lease_document, leases)
    rows.sort(key=lambda row: -row["decided_at"])  # a job's change stands above its request
    return rows[:limit]


def _request_document(asked: UserRequest) -> dict[str, Any]:
    """A captured request in the shape of an audit row."""
    return {
        "decided_at": asked.first_seen,
        "settled_at": None,
        "round_id": None,
        "policy": None,
        "job": asked.key.slurm_id,
        "first_submit_time": asked.key.epoch,
        "channel": "request",
        "before": None,
        "after": None,
        "state": "captured",
        "reason": {"code": "request", "params": wants_document(asked.wants)},
        "reason_text": f"{asked.user} asks: {asked.token}",
        "detail": f"{asked.unknown} items unknown here" if asked.unknown else "",
        "transitions": [],
    }


def _lease_document(past: LeasePast) -> dict[str, Any]:
    """A lease that was revoked, in the shape of an audit row."""
    grant, revoke = past.grant, past.grant.revoke
    whom = revoke.beneficiary if revoke is not None else ""
    begun = next((e.at for e in past.events if e.after is LeaseState.ENDING), grant.since)
    length = short_time(grant.lease.length_s)
    return {
        "decided_at": begun,
        "settled_at": grant.since,
        "round_id": None,
        "policy": None,
        "job": grant.key.slurm_id,
        "first_submit_time": grant.key.epoch,
        "channel": "lease",
        "before": None,
        "after": None,
        "state": grant.lease.state.value,
        "reason": {"code": "lease", "params": {"beneficiary": whom}},
        "reason_text": f"its lease of {length} has ended" + (f", for job {whom}" if whom else ""),
        "detail": next((e.detail for e in reversed(past.events) if e.detail), ""),
        "transitions": [
            {"at": e.at, "state": e.after.value, "detail": e.detail} for e in past.events
        ],
    }


def _audit_document(row: AuditRow) -> dict[str, Any]:
    change = row.change
    return {
        "decided_at": row.decided_at,
        "settled_at": row.settled_at,
        "round_id": row.round_id,
        "policy": row.policy,
        "job": change.key.slurm_id,
        "first_submit_time": change.key.epoch,
        "channel": change.channel,
        "before": change.before,
        "after": change.after,
        "state": row.state.value,
        "reason": {"code": change.reason.code, "params": dict(change.reason.params)},
        "reason_text": policy_reason(change.reason.code, change.reason.params),
        "detail": row.detail,
        "transitions": [{"at": at, "state": s, "detail": d} for at, s, d in row.transitions],
    }
