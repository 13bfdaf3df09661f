"""One checkpoint, from its bytes to the commit: what one rank does, and what rank 0 does for all.

Each rank: its file, fsync, its mark, fsync of the folder. Rank 0 waits for all marks, then: the
manifest, fsync, rename of the folder to its name, fsync, the pointer, fsync. Until the rename all
lies in a folder of another name, so that whoever is killed anywhere leaves the older checkpoints as
they were. The order is the protocol; each step has its fault point.

Ranks on other hosts are seen through the file system alone. NFS clients remember which names a
folder has (`acdirmax`, up to 60 s), so what one rank tells the other is the *contents* of a file,
opened anew with O_CREAT each time: that asks the server, also about a name that was not there.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gsched.ckpt import layout, manifest
from gsched.ckpt.aside import set_aside
from gsched.ckpt.disk import Disk, make_folders, read_fresh, replace_file
from gsched.ckpt.faults import FaultHook, FaultPoint, no_faults
from gsched.ckpt.manifest import Manifest, Reason, Shard
from gsched.ckpt.outcome import Committed, Failed, errno_name
from gsched.ckpt.patience import Patience
from gsched.ckpt.presence import Presence
from gsched.ckpt.present import (
    OtherRunError,
    TakenOverError,
    is_committed,
    is_there,
    point_to,
    pointed_step,
)
from gsched.ckpt.removal import remove, take_away
from gsched.ckpt.target import RunTarget
from gsched.errors import DataError

CHUNK_BYTES = 2**20
"""What is checksummed and written at a time: it stays in the cache between the two."""

POLL_S = 0.05
"""Between two looks at what another rank has done."""

MAX_MARK_BYTES = 4096

Waiting = Generator[None, None, Committed | Failed]
"""Yields whenever there is nothing to do but to wait for another rank; returns the outcome."""


@dataclass
class Commit:
    """A checkpoint of `step` on its way. First `write`, then what `finish` yields.

    `inherited` are the steps that were there when the run began: whoever wrote them, it has gone on
    from there. `is_ours` tells whether the folder is this run's still.
    """

    disk: Disk
    target: RunTarget
    step: int
    reason: Reason
    fault: FaultHook = no_faults
    inherited: Collection[int] = ()
    is_ours: Callable[[], bool] = lambda: True
    now: Callable[[], float] = time.time
    stopwatch: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        target = self.target
        self._partial = target.partial(self.step)
        self._file = self._partial / layout.rank_file_name(target.rank, target.world_size)
        self._mark_path = self._partial / layout.mark_name(target.rank)
        self._shard: Shard | None = None
        self._failure: Failed | None = None
        self._write_s = self._fsync_s = 0.0
        self.warning = ""
        self._was_committed = self._was_pointed_to = False

    # -- this rank's file --------------------------------------------------------------------------

    def write(self, chunks: Iterable[memoryview]) -> None:
        """Make this rank's file durable, and say so to the others. `finish` tells what failed.

        Where this run has committed the step already, nothing is written. A file that was marked
        durable before (by a writer of this run that has died since) is taken as it is.
        """
        if self._look():
            return
        try:
            self._prepare()
            self._shard = self._marked() or self._write_file(chunks)
            if self.target.world_size > 1:
                self._mark(manifest.encode_shard(self._shard))
                self.fault(FaultPoint.MARKED)
        except OSError as e:
            self._shard = None
            self._failure = self._failed(e)
            self._withdraw(self._failure)

    def refuse(self, message: str) -> None:
        """Instead of `write`: this rank has no snapshot of the step, and the others shall know."""
        if self._look():
            return
        self._failure = Failed(self.step, self.reason, "no-snapshot", message)
        if self.target.world_size > 1:
            with suppress(OSError):
                self._prepare()
                self._withdraw(self._failure)

    def _look(self) -> bool:
        """Whether there is nothing to write any more; and what there was before."""
        self._was_pointed_to = pointed_step(self.target.folder) == self.step
        self._was_committed = is_committed(self.target, self.step)
        return self._was_committed

    def _prepare(self) -> None:
        make_folders(self.disk, self.target.folder)
        self.disk.make_folder(self._partial)
        self.fault(FaultPoint.PARTIAL_MADE)

    def _marked(self) -> Shard | None:
        """The file of this rank that is durable already."""
        if self.target.world_size == 1 or not self._mark_path.exists():
            return None
        with suppress(OSError, _PeerError):
            shard = _read_mark(self._mark_path, self.target.rank, self.target.world_size)
            if shard is not None and _size(self._file) == shard.num_bytes:
                return shard
        return None

    def _write_file(self, chunks: Iterable[memoryview]) -> Shard:
        for stale in (self._mark_path, self._file):  # of a writer that was killed, or had failed
            with suppress(FileNotFoundError):
                self.disk.unlink(stale)
        began = self.stopwatch()
        crc = num_bytes = 0
        fd = self.disk.create(self._file)
        try:
            for chunk in _cut(chunks):
                crc = zlib.crc32(chunk, crc)
                self.disk.write(fd, chunk)
                num_bytes += len(chunk)
                self.fault(FaultPoint.CHUNK_WRITTEN)
            self.fault(FaultPoint.DATA_WRITTEN)
            self._write_s = self.stopwatch() - began
            self.disk.fsync(fd)
        finally:
            self.disk.close(fd)
        self._fsync_s = self.stopwatch() - began - self._write_s
        self.fault(FaultPoint.DATA_SYNCED)
        return Shard(self._file.name, num_bytes, crc)

    def _mark(self, contents: dict[str, object]) -> None:
        replace_file(self.disk, self._mark_path, json.dumps(contents).encode())
        self.disk.fsync_folder(self._partial)

    def _withdraw(self, failure: Failed) -> None:
        """Give the disk back what it has of this rank, and tell the others, as far as it goes."""
        with suppress(OSError):
            self.disk.unlink(self._file)
        if not self.target.leads:
            with suppress(OSError):
                self._mark({"failed": failure.error, "message": failure.message})

    # -- the whole checkpoint ----------------------------------------------------------------------

    def finish(self) -> Waiting:
        """Come to the commit, all ranks together."""
        if self._was_committed:
            return self._committed(0.0)
        if self.target.leads:
            return (yield from self._lead())
        return (yield from self._follow())

    def _lead(self) -> Waiting:
        began = self.stopwatch()
        failure = self._failure
        if self._shard is not None:
            try:
                shards = yield from self._gather(self._shard)
                peers_s = self.stopwatch() - began
                self.fault(FaultPoint.ALL_MARKED)
                self._put_in_place(shards)
                return self._committed(peers_s)
            except OSError as e:
                failure = self._failed(e)
            except (_PeerError, OtherRunError, TakenOverError) as e:
                failure = Failed(self.step, self.reason, e.error, e.message)
        with suppress(OSError):
            remove(self.disk, take_away(self.disk, self._partial))
        return failure or Failed(self.step, self.reason, "no-snapshot", "nothing was written")

    def _gather(self, own: Shard) -> Generator[None, None, tuple[Shard, ...]]:
        """The shards of all ranks, once they are durable. Raises OSError or _PeerError."""
        shards = [own]
        patience = Patience(self.target.peer_wait_s, self.stopwatch)
        presence = Presence(self.target, self.stopwatch)
        for rank in range(1, self.target.world_size):
            has_ended = False
            mark = self._partial / layout.mark_name(rank)
            file = self._partial / layout.rank_file_name(rank, self.target.world_size)
            while (shard := _read_mark(mark, rank, self.target.world_size)) is None:
                if has_ended:
                    raise _PeerError("ended", f"rank {rank} has ended, and its writer")
                has_ended = presence.has_ended(rank)  # it may have written until then: look again
                if patience.is_over((rank, _size(file))):
                    limit = f"{self.target.peer_wait_s:g} s"
                    raise _PeerError("no-answer", f"rank {rank} has written nothing for {limit}")
                if patience.shall_sign():
                    self.disk.touch(self._mark_path)
                yield
            shards.append(shard)
        return tuple(shards)

    def _put_in_place(self, shards: tuple[Shard, ...]) -> None:
        """Manifest and rename; from then on it is committed."""
        folder = self.target.folder
        contents = manifest.encode(self._manifest(shards))
        replace_file(self.disk, self._partial / layout.MANIFEST_NAME, contents)
        self.fault(FaultPoint.MANIFEST_WRITTEN)
        self.disk.fsync_folder(self._partial)
        self.fault(FaultPoint.MANIFEST_SYNCED)
        committed = self.target.committed(self.step)
        if not self.is_ours():
            raise TakenOverError(folder)
        if is_there(self.target, self.step, self.inherited, self._tell_reading):
            remove(self.disk, take_away(self.disk, self._partial))
            self._shard = None
            return
        if os.path.lexists(committed):
            set_aside(self.disk, folder, committed)
            self.fault(FaultPoint.SET_ASIDE)
        self.disk.rename(self._partial, committed)
        self.fault(FaultPoint.RENAMED)
        self.disk.fsync_folder(folder)
        self.fault(FaultPoint.COMMITTED)
        self._tidy_up(committed)

    def _tell_reading(self, _file: str, _num_bytes: int, _total_bytes: int) -> None:
        """A sign of life for those who wait while rank 0 reads."""
        if self.target.leads and self.target.world_size > 1:
            with suppress(OSError):
                self.disk.touch(self._mark_path)

    def _tidy_up(self, committed: Path) -> None:
        """The pointer, and the marks: of what fails here, nothing is lost."""
        try:
            point_to(self.disk, self.target, self.step)
            self.fault(FaultPoint.POINTER_REPLACED)
        except OSError as e:
            pointer = self.target.folder / layout.LATEST_NAME
            self.warning = (
                f"step {self.step} is committed, but {pointer} still names the one before: "
                f"{e.strerror or e}"
            )
        if self.target.world_size > 1:
            for rank in range(self.target.world_size):
                with suppress(OSError):
                    self.disk.unlink(committed / layout.mark_name(rank))

    def _manifest(self, shards: tuple[Shard, ...]) -> Manifest:
        target = self.target
        return Manifest(
            step=self.step,
            world_size=target.world_size,
            run=target.run,
            reason=self.reason,
            created=self.now(),
            shards=shards,
            job=target.job,
            versions=dict(target.versions),
        )

    def _follow(self) -> Waiting:
        if self._failure is not None:
            return self._failure
        began = self.stopwatch()
        try:
            yield from self._wait_for_lead()
        except OSError as e:
            return self._failed(e)
        except (_PeerError, OtherRunError) as e:
            return Failed(self.step, self.reason, e.error, e.message)
        return self._committed(self.stopwatch() - began)

    def _wait_for_lead(self) -> Generator[None, None, None]:
        """Until rank 0 has committed. Raises OSError, or the reason why it never will."""
        patience = Patience(self.target.peer_wait_s, self.stopwatch)
        presence, has_ended = Presence(self.target, self.stopwatch), False
        lead_file = self._partial / layout.rank_file_name(0, self.target.world_size)
        lead_mark = self._partial / layout.mark_name(0)
        while self._partial.exists():
            if not self._was_pointed_to and pointed_step(self.target.folder) == self.step:
                return
            if has_ended:
                raise _PeerError("ended", "rank 0 has ended, and its writer")
            has_ended = presence.has_ended(0)
            if patience.is_over((_size(lead_file), _changed(lead_mark))):
                limit = f"{self.target.peer_wait_s:g} s"
                raise _PeerError("no-answer", f"rank 0 has shown no sign of life for {limit}")
            yield
        if not is_there(self.target, self.step, self.inherited):
            raise _PeerError("given-up", "rank 0 has given it up and tells why")

    # -- words -------------------------------------------------------------------------------------

    def _committed(self, peers_s: float) -> Committed:
        num_bytes = self._shard.num_bytes if self._shard else 0
        return Committed(self.step, self.reason, num_bytes, self._write_s, self._fsync_s, peers_s)

    def _failed(self, error: OSError) -> Failed:
        message = f"{error.filename or self._partial}: {error.strerror or error}"
        return Failed(self.step, self.reason, errno_name(error), message)


class _PeerError(Exception):
    """Another rank has failed, or does not answer."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


def _read_mark(path: Path, rank: int, world_size: int) -> Shard | None:
    """A rank's durable file; None as long as it has not said so. Raises OSError or _PeerError."""
    data = read_fresh(path, MAX_MARK_BYTES)
    if not data:
        return None
    try:
        mark = manifest.load_json_object(data, MAX_MARK_BYTES)
        if "failed" not in mark:
            return manifest.decode_shard(mark, rank, world_size)
    except DataError as e:
        raise _PeerError("no-answer", f"the mark of rank {rank}: {e.message}") from None
    raise _PeerError(str(mark["failed"])[:32], f"rank {rank}: {str(mark.get('message'))[:500]}")


def _cut(chunks: Iterable[memoryview]) -> Iterator[memoryview]:
    for chunk in chunks:
        for begin in range(0, len(chunk), CHUNK_BYTES):
            yield chunk[begin : begin + CHUNK_BYTES]


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return -1


def _changed(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return -1
