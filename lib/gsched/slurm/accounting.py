"""Reading slurmdbd in chunks that it can answer: how long they are, how they overlap and merge."""

from __future__ import annotations

import pwd
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from gsched.errors import DataError, NoAccountingError, TryAgainError, UsageError
from gsched.model.history import AttemptRecord, Batch, Reject
from gsched.model.jobid import parse_job_id
from gsched.slurm.records import AccountingFilter, SacctForm
from gsched.slurm.run import Run

EVERY_JOB = AccountingFilter()
PLAIN = SacctForm()

OVERLAP_S = 600
"""Each chunk reaches back behind the last: slurmdbd learns of a change some seconds after it."""

FIRST_CHUNK_S = 86_400
LEAST_CHUNK_S = 3_600
MOST_CHUNK_S = 28 * 86_400
_QUICK_S, _SLOW_S = 2.0, 15.0
_FEW_ROWS, _MANY_ROWS = 20_000, 100_000

Ask = Callable[[int, int], Batch]
"""One sacct for the jobs between two epoch times. Raises TryAgainError when it takes too long."""


def sacct(run: Run, *argv: str) -> str:
    """What sacct prints. Raises NoAccountingError where there is no slurmdbd to ask.

    It needs no slurmctld, unless it shall tell that there is no slurmdbd.
    """
    answer = run(*argv)
    if "accounting storage is disabled" in answer.stderr:
        raise NoAccountingError(
            "this cluster has no slurmdbd, so sacct knows no jobs",
            "set up slurmdbd, or JobCompType=jobcomp/filetxt",
        )
    return answer.check().stdout


def read_chunks(
    ask: Ask,
    since: int,
    until: int,
    *,
    chunk_s: int = FIRST_CHUNK_S,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[Batch]:
    """The answers to `ask` from `since` to `until`, the oldest first, each with its cursor.

    A chunk that takes too long or that holds very many rows halves the next, one that takes next
    to nothing doubles it. One that gave no answer in time is asked for again by halves; raises
    TryAgainError when even LEAST_CHUNK_S are too much.
    """
    begin, length_s = since, max(LEAST_CHUNK_S, chunk_s)
    while begin < until:
        end = min(begin + length_s, until)
        asked = monotonic()
        try:
            batch = without_half_told(ask(max(since, begin - OVERLAP_S), end), end)
        except TryAgainError:
            if end - begin <= LEAST_CHUNK_S:
                raise
            length_s = max(LEAST_CHUNK_S, (end - begin) // 2)
            continue
        took_s = monotonic() - asked
        yield replace(batch, cursor=str(end))
        begin = end
        if took_s > _SLOW_S or batch.rows_in > _MANY_ROWS:
            length_s = max(LEAST_CHUNK_S, length_s // 2)
        elif took_s < _QUICK_S and batch.rows_in < _FEW_ROWS:
            length_s = min(MOST_CHUNK_S, length_s * 2)


def without_half_told(batch: Batch, until: int) -> Batch:
    """`batch` without young jobs of which slurmdbd knows the end but not yet the start.

    The end of a short job can come to it first. Until the rest follows, sacct shows such a job
    without partition, name and time limit, and a task of an array as a job of its own. The next
    chunk or the next reading asks for it again; what is older than OVERLAP_S is kept as it is.
    """
    told = tuple(
        record
        for record in batch.records
        if record.partition or record.time_limit_s or record.submit_time < until - OVERLAP_S
    )
    missing = len(batch.records) - len(told)
    return replace(batch, records=told, rows_skipped=batch.rows_skipped + missing)


def check_filter(chosen: AccountingFilter) -> None:
    """Raise UsageError for users that this machine does not know and for what is no job id."""
    for user in chosen.users:
        try:
            pwd.getpwnam(user)
        except KeyError:
            raise UsageError(f"this machine knows no user {user!r}") from None
    for job_id in chosen.job_ids:
        try:
            parse_job_id(job_id)
        except DataError as error:
            raise UsageError(error.message, error.hint) from error


def merged(chunks: Iterable[Batch]) -> Batch:
    """One batch of all: of an attempt that several chunks hold, what the last of them says.

    In the order of submission. Rejects of the same raw text count once. ``rows_in`` is what
    sacct printed without those doubles, so that it still adds up.
    """
    attempts: dict[tuple[object, ...], AttemptRecord] = {}
    rejects: dict[str, Reject] = {}
    skipped = 0
    cursor = ""
    for chunk in chunks:
        attempts |= {_attempt_key(record): record for record in chunk.records}
        rejects |= {reject.raw: reject for reject in chunk.rejects}
        skipped += chunk.rows_skipped
        cursor = chunk.cursor
    records = sorted(attempts.values(), key=lambda r: (r.submit_time, r.job_id, r.array_task or 0))
    return Batch(
        records=tuple(records),
        rejects=tuple(rejects.values()),
        rows_in=len(records) + len(rejects) + skipped,
        rows_skipped=skipped,
        cursor=cursor,
    )


def _attempt_key(record: AttemptRecord) -> tuple[object, ...]:
    return (
        record.cluster,
        record.job_id,
        record.array_task,
        record.het_offset,
        record.submit_time,
    )
