"""Output of ``sacctmgr show event`` → events of nodes. Pure.

sacctmgr knows no delimiter of one's choice. Of its fields only the reason is free text, and
operators alone write it; it comes last, and a line that begins no event belongs to the reason
before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from gsched.errors import DataError
from gsched.model.history import NodeEvent, Reject
from gsched.slurm.fields import parse_time

SOURCE = "sacctmgr"
_FIELDS = ("cluster", "nodename", "start", "end", "state", "user", "reason")
_TIME = r"(?:\d{1,12}|Unknown)"
_EVENT = re.compile(
    rf"^(?P<cluster>[^|\n]+)\|(?P<node>[^|\n]+)\|(?P<start>{_TIME})\|(?P<end>{_TIME})"
    r"\|(?P<state>[^|\n]*)\|(?P<user>[^|\n]*)\|",
    re.MULTILINE | re.ASCII,
)
_UID = re.compile(r"\(\d+\)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """The events of one answer, and what in it was not understood."""

    events: tuple[NodeEvent, ...]
    rejects: tuple[Reject, ...]


def event_argv(since: int) -> list[str]:
    """The sacctmgr command for events of nodes that had not ended at `since` (epoch)."""
    start = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return [
        "sacctmgr", "-n", "-P", "show", "event", "where", "event=node", f"start={start}",
        f"format={','.join(_FIELDS)}",
    ]  # fmt: skip


def parse_node_events(text: str) -> NodeEvents:
    """The events in the output of `event_argv`."""
    begins = [match.start() for match in _EVENT.finditer(text)]
    events: list[NodeEvent] = []
    rejects: list[Reject] = []
    if stray := text[: begins[0] if begins else len(text)].strip():
        rejects.append(Reject(SOURCE, 1, "not an event of a node", stray))
    for begin, end in pairwise([*begins, len(text)]):
        line = text[begin:end].removesuffix("\n")
        try:
            events.append(_event(line))
        except DataError as error:
            number = text.count("\n", 0, begin) + 1
            rejects.append(Reject(SOURCE, number, error.message, line))
    return NodeEvents(tuple(events), tuple(rejects))


def _event(line: str) -> NodeEvent:
    match = _EVENT.match(line)
    start_time = None if match is None else parse_time(match["start"])
    if match is None or start_time is None:
        raise DataError("an event without a start")
    return NodeEvent(
        cluster=match["cluster"],
        node=match["node"],
        start_time=start_time,
        state=match["state"] or "UNKNOWN",
        end_time=parse_time(match["end"]),
        reason=line[match.end() :] or None,
        user=_UID.sub("", match["user"]) or None,
    )
