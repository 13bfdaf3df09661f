"""How accounts stand, as the daemon tells everybody: for whoever has no database at hand.

It is made from the closed hours of the ledger, and stands in the daemon's status file unless the
cluster hides who uses what (PrivateData).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from gsched.app.fairness.cells import account, hours, ratio
from gsched.app.fairness.query import FairnessQuery
from gsched.app.fairness.quotas import SOURCE_WORDS
from gsched.config.settings import Settings
from gsched.daemon.status_file import read_status
from gsched.errors import PermissionDeniedError, UnavailableError, UsageError
from gsched.fairness.fading import HALF_LIVES, HOUR_S, faded_gpu_s
from gsched.model.accounts import FairnessEntry
from gsched.model.decision import JsonValue
from gsched.model.times import DAY_S
from gsched.policy.tenant_use import HALF_LIFE

if TYPE_CHECKING:
    from gsched_sql import History

TOLD_S = 7 * DAY_S
"""The time that is told."""
_FIGURES = (
    "received_gpu_hours", "entitled_gpu_hours", "due_gpu_hours", "demanded_gpu_hours",
    "borrowed_gpu_hours", "lent_gpu_hours", "owed_gpu_hours", "quota_gpus",
)  # fmt: skip


def half_life_of(settings: Settings) -> float:
    """Seconds in which what tenants have received counts half: the policy's."""
    return settings.daemon.knobs.get("half_life_s", HALF_LIFE.default)


def standing_of(history: History, cluster: str, settings: Settings) -> dict[str, JsonValue]:
    """How tenants stood when the last hour was closed; {} where none was."""
    ledger = history.fairness()
    until = ledger.closed_until(cluster)
    if until is None:
        return {}
    half_life_s = half_life_of(settings)
    since = until - max(TOLD_S, round(HALF_LIVES * half_life_s))
    newest = {change.tenant: change for change in ledger.quotas(cluster)}  # they come by time
    quotas = {name: change.gpus for name, change in newest.items() if change.gpus}
    source = max(newest.values(), key=lambda change: change.since_time, default=None)
    return standing_document(
        ledger.read(cluster, since, until),
        quotas,
        "equal" if source is None else source.source,
        until,
        half_life_s,
    )


def standing_document(
    entries: Iterable[FairnessEntry],
    quotas: Mapping[str, float],
    source: str,
    until: int,
    half_life_s: float,
) -> dict[str, JsonValue]:
    """How tenants stood at `until` (epoch), by the ledger's entries up to then.

    `quotas` are those in force, `source` who said so. What is owed is by entries of any age, all
    else is of the last TOLD_S.
    """
    since = until - TOLD_S
    faded: dict[str, float] = dict.fromkeys(quotas, 0.0)
    told: dict[str, dict[str, float]] = {name: dict.fromkeys(_FIGURES[:5], 0.0) for name in quotas}
    for entry in entries:
        received = faded_gpu_s(entry, until, half_life_s)
        faded[entry.tenant] = faded.get(entry.tenant, 0.0) + received
        if entry.begin_time >= since:
            sums = told.setdefault(entry.tenant, dict.fromkeys(_FIGURES[:5], 0.0))
            for name in _FIGURES[:5]:
                sums[name] += getattr(entry, name.replace("_hours", "_s")) / HOUR_S
    whole, received = sum(quotas.values()), sum(faded.values())
    rows: list[dict[str, Any]] = []
    for name, sums in told.items():
        quota = quotas.get(name, 0.0)
        owed_s = quota / whole * received - faded.get(name, 0.0) if whole > 0 else 0.0
        entitled = sums["entitled_gpu_hours"]
        kept = sums["received_gpu_hours"] - sums["borrowed_gpu_hours"]
        figures = {
            "quota_gpus": quota,
            "r": sums["received_gpu_hours"] / entitled if entitled > 0 else None,
            **sums,
            "lent_gpu_hours": max(0.0, sums["due_gpu_hours"] - kept),
            "owed_gpu_hours": owed_s / HOUR_S,
        }
        rows.append({"tenant": name, **figures})
    rows.sort(key=lambda row: (-row["owed_gpu_hours"], row["tenant"]))
    head: dict[str, JsonValue] = {
        "since": since,
        "until": until,
        "half_life_s": half_life_s,
        "quota_source": source,
    }
    return {**head, "tenants": rows}  # type: ignore[dict-item]  # rows are plain values


def told_standing(
    settings: Settings, query: FairnessQuery, missing: str, *, narrowed: bool
) -> dict[str, Any]:
    """What the daemon's status file says, with its head; `missing` is why there is no database.

    Raises UnavailableError where nobody tells, PermissionDeniedError where the cluster hides it, or
    where more is asked than everybody is told (`narrowed`: by time), UsageError for an account that
    is not among them.
    """
    if query.users or query.job or narrowed:
        raise PermissionDeniedError(
            f"{missing}: without it there are only the accounts of the last 7 days",
            "leave out -u, -j, -S, -E and --html, or ask whoever runs gsched",
        )
    status = read_status(settings.status_file)
    if status is None:
        raise UnavailableError(
            f"{missing}, and no gsched daemon tells how accounts stand ({settings.status_file})",
            "is it running? see `gsched daemon status`",
        )
    told = status.get("fairness")
    if isinstance(told, dict) and told.get("private"):
        raise PermissionDeniedError(
            f"{missing}, and this cluster hides who uses what (PrivateData)",
            "ask whoever runs gsched; `gsched why JOB` tells what a job's account is owed",
        )
    if not isinstance(told, dict) or not _is_sound(told):
        raise UnavailableError(
            f"{missing}, and the daemon does not tell how accounts stand (yet)",
            "it closes its books each hour; see `gsched daemon status`",
        )
    rows = [row for row in told["tenants"] if row["tenant"] in query.accounts or not query.accounts]
    for name in query.accounts:
        if name not in {row["tenant"] for row in rows}:
            raise UsageError(f"the daemon tells nothing of an account {name[:80]!r}")
    head = {"cluster": status.get("cluster"), "policy": status.get("policy")}
    return {"told_by": "daemon", **head, **told, "tenants": rows}


def _is_sound(told: Mapping[str, Any]) -> bool:
    numbers, rows = (
        [told.get(key) for key in ("since", "until", "half_life_s")],
        told.get("tenants"),
    )
    return isinstance(rows, list) and all(map(_is_number, numbers)) and all(map(_is_row, rows))


def _is_row(row: object) -> bool:
    return (
        isinstance(row, dict)
        and isinstance(row.get("tenant"), str)
        and all(_is_number(row.get(name)) for name in _FIGURES)
        and (row.get("r") is None or _is_number(row["r"]))
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


STANDING_HEADINGS = (
    "ACCOUNT", "R", "RECEIVED", "ENTITLED", "QUOTA GPUS", "OWED", "BORROWED", "LENT",
)  # fmt: skip
"""Of a table of what the daemon tells, in GPU-hours but for R and the quota."""


def standing_row(told: Mapping[str, Any]) -> tuple[str, ...]:
    """One account, under STANDING_HEADINGS."""
    return (
        account(told["tenant"]),
        ratio(told["r"]),
        hours(told["received_gpu_hours"]),
        hours(told["entitled_gpu_hours"]),
        f"{told['quota_gpus']:,.4g}",
        hours(told["owed_gpu_hours"]),
        hours(told["borrowed_gpu_hours"]),
        hours(told["lent_gpu_hours"]),
    )


def standing_words(told: Mapping[str, Any]) -> Iterator[str]:
    """Where the quotas are from, and what the figures mean."""
    source = str(told.get("quota_source"))
    yield f"Quotas are by {SOURCE_WORDS.get(source, source)}."
    yield (
        "R: GPU-time received for each that the account was entitled to (what it asked for, at "
        "most its quota), in hours that are over. OWED: its quota's part of all that was received, "
        "less what it received itself; older time counts less."
    )
