"""A trainer's end in this process, and its writers, where wanted under strace(1)."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self
from unittest.mock import patch

from gsched.ckpt import layout
from gsched.ckpt.catalogue import scan
from gsched.ckpt.found import Depth
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink
from support import chain
from support.power_cut import Operation, Told
from support.traced import Call, Reading, calls, merged, strace

KEEP = 2
NUM_BYTES = 2048
LIMIT_S = 60.0
HEADER_BYTES = 4096
"""More than the header of a rank's file needs."""

_COMMITTED = re.compile(rb'"kind": "Committed".*?"step": (\d+)')


class WriterRun:
    """All ranks of a run in this process: snapshots are those of `chain.py`."""

    def __init__(
        self,
        folder: Path,
        world_size: int = 1,
        num_bytes: int = NUM_BYTES,
        peer_wait_s: float = LIMIT_S,
    ) -> None:
        self.links = []
        self._world_size = world_size
        self._num_bytes = num_bytes
        run = layout.new_run()
        for rank in range(world_size):
            target = RunTarget(folder, run, rank, world_size, keep=KEEP, peer_wait_s=peer_wait_s)
            with self._starting(rank):
                self.links.append(WriterLink.open(target))
            assert self.links[rank].ensure_room(num_bytes + HEADER_BYTES) == 2

    @contextmanager
    def _starting(self, rank: int) -> Iterator[None]:
        """Around the start of a rank's writer."""
        yield

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for link in self.links:
            link.close(LIMIT_S)

    def fill(self, step: int) -> None:
        """A snapshot on every rank."""
        for rank, link in enumerate(self.links):
            digest = chain.state_after(step, rank)
            data = chain.rank_file(step, rank, self._world_size, digest, self._num_bytes)
            slot = link.free_slot()
            assert slot is not None
            link.buffer(slot)[: len(data)] = data
            link.filled(slot, step, len(data))

    def save(self, step: int) -> list[Committed | Failed | None]:
        """A snapshot on every rank, and what became of it on the disk, rank by rank."""
        self.fill(step)
        for link in self.links:
            link.persist(step, Reason.INTERVAL)
        return [link.wait(step, LIMIT_S) for link in self.links]


class TracedRun(WriterRun):
    """With the writers under strace: `inject` are faults as it wants them, for rank 0's."""

    def __init__(
        self, folder: Path, scratch: Path, world_size: int = 1, inject: Sequence[str] = ()
    ) -> None:
        self.logs = [scratch / f"strace{rank}" for rank in range(world_size)]
        self._scratch = scratch
        self._inject = inject
        super().__init__(folder, world_size)

    @contextmanager
    def _starting(self, rank: int) -> Iterator[None]:
        words = strace(self.logs[rank], *(self._inject if rank == 0 else ()))
        # a writer that starts must not put compiled modules on the disk
        environment = {"PYTHONDONTWRITEBYTECODE": "1"}
        with _python_under(words, self._scratch), patch.dict(os.environ, environment):
            yield

    def operations(self, root: Path, start: Sequence[str] = ()) -> list[Operation]:
        """What the writers asked of the disk below `root`, and when rank 0's told of a commit.

        `start` are the files that were there before.
        """
        made = [calls(log) for log in self.logs]
        told = [pair for call in made[0] if (pair := _told(call))]
        return merged([Reading(root, start).operations(log) for log in made], told)


class FaultyRun(WriterRun):
    """With an environment of rank 0's writer's own."""

    def __init__(self, folder: Path, world_size: int, environment: Mapping[str, str]) -> None:
        self._environment = environment
        super().__init__(folder, world_size, peer_wait_s=2.0)  # a rank that died does not answer

    @contextmanager
    def _starting(self, rank: int) -> Iterator[None]:
        with patch.dict(os.environ, self._environment if rank == 0 else {}):
            yield


def whole_steps(folder: Path, world_size: int = 1) -> set[int]:
    """The steps of the valid checkpoints in a folder; their contents are what they must be."""
    found = [c for c in scan(folder, Depth.CHECKSUMS).checkpoints if c.is_whole]
    digests: dict[tuple[int, int], bytes] = {}
    for checkpoint in found:
        assert checkpoint.step is not None
        chain.check(checkpoint.path, checkpoint.step, world_size, digests)
    return {c.step for c in found if c.step is not None}


@contextmanager
def _python_under(words: Sequence[str], scratch: Path) -> Iterator[None]:
    """Within, what is started with `sys.executable` runs under another command."""
    script = scratch / "python"
    script.write_text(f'#!/bin/sh\nexec {shlex.join([*words, sys.executable])} "$@"\n')
    script.chmod(0o755)
    with patch.object(sys, "executable", str(script)):
        yield


def _told(call: Call) -> tuple[float, Told] | None:
    if call.name not in ("sendto", "sendmsg"):
        return None
    found = _COMMITTED.search(b"".join(call.texts))
    return (call.when, Told("committed", int(found[1]))) if found else None
