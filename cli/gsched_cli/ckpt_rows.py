"""How checkpoints are printed: columns, JSON, progress, and the exit code that sums them up."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gsched.errors import EXIT_DATA, EXIT_NO_CHECKPOINT, EXIT_NONE_VALID
from gsched_cli.long_work import long_work
from gsched_cli.output import count, local_time, memory
from gsched_cli.tables import Column

if TYPE_CHECKING:
    from gsched.ckpt.found import Checkpoint, Progress
    from gsched.ckpt.prune import PrunePlan

_STYLES = {"whole": "green", "torn": "red", "uncommitted": "yellow"}

COLUMNS: tuple[Column[Checkpoint], ...] = (
    Column("step", "STEP", lambda c: count(c.step), lambda c: c.step, right=True),
    Column("verdict", "VERDICT", lambda c: c.verdict, style=lambda c: _STYLES.get(c.verdict)),
    Column("kind", "KIND", lambda c: c.kind or "-", lambda c: c.kind or None),
    Column("size", "SIZE", lambda c: memory(c.num_bytes), lambda c: c.num_bytes, right=True),
    Column("created", "CREATED", lambda c: local_time(c.created), lambda c: c.created),
    Column("checked", "CHECKED", lambda c: c.checked.word),
    Column("uid", "UID", lambda c: str(c.owner_uid), lambda c: c.owner_uid, right=True),
    Column("name", "NAME", lambda c: c.path.name),
    Column("path", "PATH", lambda c: str(c.path)),
    Column("reason", "REASON", lambda c: c.reason or "-", lambda c: c.reason or None),
)
DEFAULT = "step,verdict,kind,size,created,name,reason"
VERIFY_DEFAULT = "step,verdict,checked,kind,size,name,reason"


def document(checkpoint: Checkpoint) -> dict[str, Any]:
    """One checkpoint for ``--json``."""
    return {
        "path": str(checkpoint.path.absolute()),
        "kind": checkpoint.kind or None,
        "verdict": checkpoint.verdict.value,
        "reason": checkpoint.reason or None,
        "step": checkpoint.step,
        "bytes": checkpoint.num_bytes,
        "created": checkpoint.created,
        "checked": checkpoint.checked.word,
        "owner_uid": checkpoint.owner_uid,
    }


PruneRow = tuple[str, "Checkpoint", str]
"""keep, remove or spare; the checkpoint; and why."""


def prune_rows(planned: PrunePlan, removed: str) -> list[PruneRow]:
    """What becomes of each, the newest first; `removed` is the word for those that go."""
    rows = [("keep", c, "") for c in planned.kept]
    rows += [(removed, c, c.reason) for c in planned.removed]
    rows += [("spare", c, why) for c, why in planned.spared]
    return sorted(rows, key=lambda row: row[1].age_key, reverse=True)


def prune_document(
    planned: PrunePlan, rows: list[PruneRow], does_it: bool, num_bytes: int
) -> dict[str, Any]:
    """The same for ``--json``."""
    return {
        "folder": str(planned.folder.absolute()),
        "applied": does_it,
        "bytes_removed": num_bytes,
        "leftovers": [str(path) for path in planned.leftovers],
        "set_aside": str(planned.set_aside) if planned.set_aside else None,
        "checkpoints": [
            {"action": action, "why": why or None, **document(c)} for action, c, why in rows
        ],
    }


def exit_code(checkpoints: Collection[Checkpoint], *, all_must_be_whole: bool) -> int:
    """0 where there is a whole one, or all are; else what is missing."""
    whole = [c for c in checkpoints if c.is_whole]
    damaged = [c for c in checkpoints if c.verdict == "torn"]
    unread = [c for c in checkpoints if c.verdict == "foreign" and c.kind]
    if not whole:
        return EXIT_NONE_VALID if damaged else EXIT_NO_CHECKPOINT
    return EXIT_DATA if all_must_be_whole and (damaged or unread) else 0


@contextmanager
def reading() -> Iterator[Progress]:
    """Shows how far long reads are, at a terminal; gives what to tell."""
    with long_work() as tell:
        yield lambda file, done, total: tell(f"{file}: {memory(done)} of {memory(total)}", 0)
