"""Array tasks that squeue hides: split off with a number of their own, but still waiting.

squeue shows a requeued or edited task within the row of its array; ``squeue -r`` would write out
every array, task by task. Asked for by their own numbers, they come one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from gsched.slurm import parse_queue
from gsched.slurm.failures import is_unknown_job
from gsched.slurm.fields import new_separator
from gsched.slurm.records import FreeText, QueueListing, QueueRow
from gsched.slurm.run import Run

_IDS_A_CALL = 1000
_FIELDS = parse_queue.QUEUE_FIELDS + parse_queue.TEXT_FIELDS


def split_tasks(run: Run, raw_ids: Sequence[int]) -> QueueListing:
    """Those of these jobs that are still there, with their texts; `run` runs a command."""
    separator = new_separator()
    form = parse_queue.squeue_format(_FIELDS, separator)
    rows: list[QueueRow] = []
    texts: dict[int, FreeText] = {}
    for start in range(0, len(raw_ids), _IDS_A_CALL):
        chosen = ",".join(map(str, raw_ids[start : start + _IDS_A_CALL]))
        answer = run("squeue", "-r", "-h", "-a", "--local", "--noconvert", "-j", chosen, "-O", form)
        if is_unknown_job(answer.stderr):  # its only job is gone
            continue
        found = parse_queue.parse_queue(answer.check().stdout, separator, with_texts=True)
        rows += found.rows
        texts |= found.texts
    wanted = set(raw_ids)
    return QueueListing(tuple(row for row in rows if row.raw_id in wanted), (), texts)
