"""One rank of the training of `chain.py`, as a process that may be killed at any moment.

    python tests/support/chain_trainer.py FOLDER RUN RANK WORLD_SIZE TOTAL EVERY BYTES [IN OUT]

Goes on after the newest valid checkpoint, asks for one each EVERY steps and ends after TOTAL. IN
and OUT are descriptors of a ring of pipes through all ranks: no rank begins a step before all have
ended the last. When another rank is gone it waits for its own end, as a collective would.

Prints ``resumed STEP``, ``filled STEP``, ``committed STEP``, ``failed ERROR``, ``done DIGEST``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink
from support import chain

LIMIT_S = 60.0
PEER_WAIT_S = 3.0
"""Of a writer for others whose trainers were killed before they could ask for the same step."""


class Ring:
    """A barrier of all ranks: a byte goes round twice."""

    def __init__(self, rank: int, incoming: int, outgoing: int) -> None:
        self._rank = rank
        self._in = incoming
        self._out = outgoing

    def barrier(self) -> None:
        for _ in range(2):
            if self._rank == 0:
                self._pass_on()
            if not os.read(self._in, 1):
                signal.pause()  # another rank is gone
            if self._rank != 0:
                self._pass_on()

    def _pass_on(self) -> None:
        try:
            os.write(self._out, b".")
        except BrokenPipeError:
            signal.pause()


def main() -> None:
    folder, run = Path(sys.argv[1]), sys.argv[2]
    rank, world_size, total, every, num_bytes = (int(a) for a in sys.argv[3:8])
    ring = Ring(rank, int(sys.argv[8]), int(sys.argv[9])) if len(sys.argv) > 8 else None
    step, digest = chain.load(folder, rank, world_size)
    say(f"resumed {step}")
    target = RunTarget(folder, run, rank, world_size, keep=3, peer_wait_s=PEER_WAIT_S)
    link = WriterLink.open(target)
    link.ensure_room(len(chain.rank_file(10**9, rank, world_size, digest, num_bytes)))
    if ring:
        ring.barrier()
    asked = -1
    while step < total:
        step += 1
        digest = chain.state_after(step, rank, digest, step - 1)
        if ring:
            ring.barrier()
        due = step % every == 0 or step == total
        if due and asked >= 0:
            link.wait(asked, LIMIT_S)
        slot = link.free_slot()
        assert slot is not None or not due, "a slot is free when nothing is being written"
        if slot is not None:
            data = chain.rank_file(step, rank, world_size, digest, num_bytes)
            link.buffer(slot)[: len(data)] = data
            link.filled(slot, step, len(data))
            say(f"filled {step}")
        if due:
            link.persist(step, Reason.INTERVAL)
            asked = step
        tell(link.poll())
    link.wait(total, LIMIT_S)
    tell(link.close(LIMIT_S))
    say(f"done {digest.hex()}")


def tell(outcomes: list[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Committed):
            say(f"committed {outcome.step}")
        elif isinstance(outcome, Failed):
            say(f"failed {outcome.error}")
        else:
            say(f"note {outcome}")


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
