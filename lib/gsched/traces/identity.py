"""Which job is which: ids of jobs and names of clusters for formats that have none of Slurm's.

A job id is a whole number below 2**63. Formats differ in what they give:

- **numbers** stay as they are;
- **texts** (UUIDs, names) are hashed to 63 bits: among 10 million jobs of one cluster two share an
  id with a probability of 5 in a million; the text itself is kept as `source_id`;
- **nothing** (Philly's CSV): the id is the submit time and 29 hashed bits of the row's content, so
  that ids ascend with time. Rows that are equal in everything are counted, and the count goes into
  the hash: they stay distinct jobs, and reading the files again finds the same ids. Two *different*
  rows share an id only when they have the same second and the same 29 bits: with n jobs at one job
  a second the probability is about n / 2**30.

Of two equal rows of a format without ids nothing tells whether they are two jobs or one job twice.
So the files of ONE command are taken for parts of one file: equal rows in them are different jobs.
A row that another command brings is taken for the same job as an equal one that is there. (A file
that has the very content of another of the same command is read once.) Hence parts of one file
must be imported by one command, and files that overlap by a command each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any

from gsched.model.trace import ReadOptions
from gsched.traces.source import file_stem

_SEEN = "equal rows"
_HASHED_BITS = 29
_PLAIN_ID = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)


def job_id_of_text(text: str) -> int:
    """The id of a job that its source names by a text."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def numbers_or_texts(cells: Sequence[str]) -> tuple[list[int], list[str | None]]:
    """Job ids and, where a cell is no number of Slurm's, the text as `source_id`.

    ``007`` is a text: as a number it would be another job's id.
    """
    ids, texts = [], []
    for cell in cells:
        is_number = _PLAIN_ID.fullmatch(cell)
        ids.append(int(cell) if is_number else job_id_of_text(cell))
        texts.append(None if is_number else cell)
    return ids, texts


def content_ids(
    submit_times: Sequence[int], contents: Iterable[str], seen: dict[str, Any]
) -> list[int]:
    """Ids of jobs that their source does not name.

    `contents` tell everything else about each job; `seen` is that of `ReadOptions`, one for all
    files of an import.
    """
    counted = seen.setdefault(_SEEN, _EqualRows())
    ids = []
    for submit_time, content in zip(submit_times, contents, strict=True):
        text = f"{submit_time}\x1f{content}"
        digest = blake2b(text.encode(), digest_size=8).digest()
        earlier = counted.count(digest)
        if earlier:
            digest = blake2b(f"{text}\x1f{earlier}".encode(), digest_size=8).digest()
        bits = int.from_bytes(digest[:4], "big") >> (32 - _HASHED_BITS)
        ids.append(submit_time << _HASHED_BITS | bits)
    return ids


class _EqualRows:
    """How often each digest of 8 bytes came: some 10 bytes of memory for one that came once."""

    def __init__(self) -> None:
        self._once: dict[bytes, bytearray] = {}  # first two bytes → the other six, in a row
        self._more: dict[bytes, int] = {}

    def count(self, digest: bytes) -> int:
        """How often the digest came before; it has come once more now."""
        bucket = self._once.setdefault(digest[:2], bytearray())
        rest = digest[2:]
        place = bucket.find(rest)
        while place % 6 and place > 0:  # across two digests
            place = bucket.find(rest, place + 1)
        if place < 0:
            bucket += rest
            return 0
        earlier = self._more.get(digest, 1)
        self._more[digest] = earlier + 1
        return earlier


def cluster_of_file(options: ReadOptions, format_name: str) -> str:
    """The cluster of a format with one file a cluster or workload: ``itp-cluster01``."""
    if options.cluster is not None:
        return options.cluster
    stem = file_stem(options.file_name)
    return f"{format_name}-{stem}" if stem else format_name


def texts_only(cells: Sequence[str]) -> tuple[list[int], list[str]]:
    """Job ids and `source_id` of a format whose ids are texts, whatever they look like."""
    return list(map(job_id_of_text, cells)), list(cells)
