"""SIGKILL at random moments: of a trainer, of a writer, of both as the end of a job step does it.

After each, what lies in the folder is judged; then training goes on from there.
"""

from __future__ import annotations

import enum
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.catalogue import scan
from gsched.ckpt.found import Depth, Verdict
from gsched.testbed.wait import wait_for
from support import chain

TRAINER = Path(__file__).with_name("chain_trainer.py")
KEEP = 3
"""As the trainer asks for."""
ENDLESS = 10**9


class Victim(enum.Enum):
    """Who is killed; of several ranks one, then the other trainers, as Slurm ends a step."""

    TRAINER = "trainer"
    WRITER = "writer"
    BOTH = "trainer and writer"


@dataclass
class Rank:
    """A rank's process, and what it has printed."""

    process: subprocess.Popen[bytes]
    output: Path
    seen_writers: set[int] = field(default_factory=set)

    def values(self, word: str) -> list[str]:
        """What stands behind `word` in its whole lines."""
        lines = self.output.read_text().rpartition("\n")[0].splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{word} ")]

    def last(self, word: str) -> int:
        """The last step that it printed so; -1 for none."""
        return max((int(value) for value in self.values(word)), default=-1)

    def writers(self) -> list[int]:
        """The process ids of its writers that live, while it lives itself."""
        found = [
            pid
            for pid, parent, command in processes()
            if parent == self.process.pid and b"gsched.ckpt.writer" in command
        ]
        self.seen_writers.update(found)
        return found


@dataclass
class Episode:
    """One kill: who, and what was there after it."""

    victim: Victim
    rank: int
    newest_told: int
    newest_filled: int
    newest_valid: int
    uncommitted: int


@dataclass
class KilledTraining:
    """A training that is killed again and again, in `folder`; `scratch` is for its output."""

    folder: Path
    scratch: Path
    world_size: int
    chance: random.Random
    every: int = 5
    num_bytes: int = 1 << 18
    episodes: list[Episode] = field(default_factory=list)
    committed: set[int] = field(default_factory=set)
    """The steps that a trainer was told to be committed."""
    _digests: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def strike(self, victim: Victim) -> Episode:
        """Start training, kill `victim` at a random moment, judge what is left."""
        ranks = self._start(ENDLESS)
        try:
            return self._strike(victim, ranks)
        finally:
            end_all(ranks)

    def _strike(self, victim: Victim, ranks: list[Rank]) -> Episode:
        struck = self.chance.randrange(self.world_size)
        commits = self.chance.randrange(3)
        wait_for(lambda: len(ranks[struck].values("filled")) > 0, "a first snapshot")
        wait_for(lambda: len(ranks[struck].values("committed")) >= commits, "commits")
        time.sleep(self.chance.uniform(0, 0.03))  # the moment is what is random
        if victim is Victim.WRITER:
            self._kill_writer(ranks[struck])
        else:
            writers = [pid for rank in ranks for pid in rank.writers()]
            os.kill(ranks[struck].process.pid, signal.SIGKILL)
            for rank in ranks:
                rank.process.kill()
            if victim is Victim.BOTH:
                for pid in writers:
                    kill(pid)
        end_all(ranks)
        told = max(rank.last("committed") for rank in ranks)
        filled = min(rank.last("filled") for rank in ranks)
        self.committed |= {int(s) for rank in ranks for s in rank.values("committed")}
        newest, uncommitted = self.judge()
        episode = Episode(victim, struck, told, filled, newest, uncommitted)
        assert newest >= max(told, self._newest_before()), f"a committed step was lost: {episode}"
        if victim is Victim.TRAINER and self.world_size == 1:
            assert newest >= filled, f"a complete snapshot was not flushed: {episode}"
        self.episodes.append(episode)
        return episode

    def _kill_writer(self, rank: Rank) -> None:
        """The trainer goes on: another writer commits what comes later."""
        for pid in rank.writers():
            kill(pid)
        reached = rank.last("filled")
        wait_for(lambda: rank.last("committed") > reached, "a commit after the writer's death")

    def finish(self, more_steps: int) -> int:
        """Train on undisturbed for some steps; the result must be what it would have been.

        Returns the number of steps.
        """
        total = self._newest_before() + more_steps
        ranks = self._start(total)
        try:
            for number, rank in enumerate(ranks):
                assert rank.process.wait() == 0, rank.output.read_text()
                expected = chain.state_after(total, number).hex()
                assert rank.values("done") == [expected], "training went on from a wrong state"
        finally:
            end_all(ranks)
        return total

    def judge(self) -> tuple[int, int]:
        """(step of the newest valid checkpoint, uncommitted ones), after looking at each byte."""
        found = scan(self.folder, Depth.CHECKSUMS).checkpoints
        torn = [(c.path.name, c.reason) for c in found if c.verdict is Verdict.TORN]
        assert not torn, f"a kill has torn what was committed: {torn}"
        whole = [c for c in found if c.is_whole]
        for checkpoint in whole:
            assert checkpoint.step is not None
            chain.check(checkpoint.path, checkpoint.step, self.world_size, self._digests)
        assert len(whole) >= min(KEEP, len(self.committed)), "a valid checkpoint was removed"
        newest = max((c.step for c in whole if c.step is not None), default=-1)
        return newest, sum(c.verdict is Verdict.UNCOMMITTED for c in found)

    def _newest_before(self) -> int:
        return max((e.newest_valid for e in self.episodes), default=-1)

    def _start(self, total: int) -> list[Rank]:
        run = layout.new_run()
        ring = [os.pipe() for _ in range(self.world_size)]
        ranks = []
        for number in range(self.world_size):
            own = (ring[number - 1][0], ring[number][1]) if self.world_size > 1 else ()
            words = [self.folder, run, number, self.world_size, total, self.every, self.num_bytes]
            output = self.scratch / f"rank{number}.out"
            with output.open("wb") as stream:
                process = subprocess.Popen(
                    [sys.executable, str(TRAINER), *map(str, [*words, *own])],
                    stdout=stream,
                    pass_fds=own,
                    start_new_session=True,
                )
            ranks.append(Rank(process, output))
        for end in (end for ends in ring for end in ends):
            os.close(end)
        return ranks


def end_all(ranks: list[Rank]) -> None:
    """Kill the trainers, and wait until their writers have ended by themselves."""
    for rank in ranks:
        rank.writers()
    writers = {pid for rank in ranks for pid in rank.seen_writers}
    for rank in ranks:
        rank.process.kill()
        rank.process.wait()
    wait_for(lambda: not any(is_writer(pid) for pid in writers), "the writers' ends")


def kill(pid: int) -> None:
    """SIGKILL to one that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_writer(pid: int) -> bool:
    """Whether this process is a writer that lives."""
    return any(pid == p and b"gsched.ckpt.writer" in command for p, _, command in processes())


def processes() -> list[tuple[int, int, bytes]]:
    """(process id, parent's, command line) of all processes that are no zombies."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        if command:
            found.append((int(folder.name), parent, command))
    return found
