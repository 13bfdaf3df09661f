"""What `gsched db ingest` says of what it has read."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gsched_cli.output import count, emit_table, say

if TYPE_CHECKING:
    from gsched.app.ingest import IngestReport

_COLUMNS = (
    "rows_in",
    "attempts_new",
    "attempts_updated",
    "unchanged",
    "rejected",
    "skipped",
    "steps",
)


def document(report: IngestReport) -> dict[str, Any]:
    """The JSON document."""
    return {
        "cluster": report.cluster,
        "sources": {n: {c: getattr(s, c) for c in _COLUMNS} for n, s in report.sources},
        "node_events": None if report.node_events is None else asdict(report.node_events),
        "rejected_new": report.total.rejected_new,
    }


def show(report: IngestReport) -> None:
    """The table, a row a source."""
    rows = [(n, *(count(getattr(s, c)) for c in _COLUMNS)) for n, s in report.sources]
    headings = [name.removeprefix("attempts_").removesuffix("_in").upper() for name in _COLUMNS]
    emit_table(["SOURCE", *headings], rows, right=set(range(1, len(_COLUMNS) + 1)))
    if report.node_events is not None and report.node_events.new + report.node_events.updated:
        say(f"node events: {report.node_events.new} new, {report.node_events.updated} updated")
