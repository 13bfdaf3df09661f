"""What the checkpoints of one rank are, and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.manifest import Job


@dataclass(frozen=True, slots=True)
class RunTarget:
    """One rank of one run (see `layout.new_run`), the folder of its checkpoints, and who writes.

    `keep` valid checkpoints stay; None keeps all. `versions` are (name, version) of what writes.
    `peer_wait_s` bounds how long the writers of a run wait for each other without any progress; on
    NFS it must exceed `acdirmax`, 60 s unless the mount says otherwise.
    """

    folder: Path
    run: str
    rank: int = 0
    world_size: int = 1
    keep: int | None = 3
    job: Job | None = None
    versions: tuple[tuple[str, str], ...] = ()
    peer_wait_s: float = 120.0

    def __post_init__(self) -> None:
        if not self.folder.is_absolute():
            raise ValueError(f"{self.folder} is not absolute: a writer may run elsewhere")
        if not layout.is_run(self.run):
            raise ValueError(f"{self.run!r} is not 12 hex digits")
        layout.rank_file_name(self.rank, self.world_size)
        if self.keep is not None and self.keep < 1:
            raise ValueError("keep is at least 1")

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, which commits for all."""
        return self.rank == 0

    def committed(self, step: int) -> Path:
        """The folder of a committed checkpoint."""
        return self.folder / layout.step_name(step)

    def partial(self, step: int) -> Path:
        """The folder of a checkpoint while it is being written."""
        return self.folder / layout.partial_name(step, self.run)
