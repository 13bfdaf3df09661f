"""A small training whose every step can be compared: what jobs on leases run.

    python -m support.leased_training NAME SEED
    python -m support.leased_training undisturbed SEED …

Each finished step is a line of LEASED_DIR/NAME.steps: the start (0, 1, …), the step, when it ended
(epoch) and its loss to the last bit. NAME.hash is the state at the end, NAME.jobs has a line for
each start: the job's number and the folder of its checkpoints. There are LEASED_STEPS steps; while
the file LEASED_DIR/slow is there, each takes LEASED_STEP_S more; while LEASED_DIR/still is there,
none ends. `undisturbed` trains once for each SEED, without a job and without a pause, as
undisturbed-SEED.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

import torch

from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.data import ResumableLoader
from support.trial_training import BATCH, dataset, digest_of, net


class Notes:
    """What one training leaves in the common folder."""

    def __init__(self, name: str) -> None:
        self.folder = Path(os.environ["LEASED_DIR"])
        self._name = name
        path = self.folder / f"{name}.steps"
        before = path.read_text().splitlines() if path.exists() else []
        self._start = len({line.split()[0] for line in before})
        self._steps = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._slow, self._pause_s = self.folder / "slow", float(os.environ["LEASED_STEP_S"])
        self._still = self.folder / "still"

    def began(self, checkpoints: Path) -> None:
        """This start has loaded what it goes on from."""
        with (self.folder / f"{self._name}.jobs").open("a") as out:
            out.write(f"{os.environ.get('SLURM_JOB_ID', '-')} {checkpoints.absolute()}\n")

    def finished(self, step: int, loss: float) -> None:
        """To be called as the last thing of a step. One write: a kill leaves no half line."""
        if self._slow.exists():
            time.sleep(self._pause_s)
        while self._still.exists():
            time.sleep(0.1)
        line = f"{self._start} {step} {time.time():.3f} {loss.hex()}\n"
        os.write(self._steps, line.encode())

    def ended(self, digest: str) -> None:
        """The training has come to its end by itself."""
        new = self.folder / f"{self._name}.hash.new"
        new.write_text(digest)
        new.replace(self.folder / f"{self._name}.hash")


def train(name: str, seed: int) -> None:
    """Go on from the newest checkpoint to the last step."""
    torch.manual_seed(seed)
    random.seed(seed)
    notes, model = Notes(name), net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = ResumableLoader(dataset(), batch_size=BATCH, shuffle=True)
    steps = int(os.environ["LEASED_STEPS"])
    with Checkpointer(
        notes.folder / "checkpoints" / name, model=model, optimizer=optimizer, loader=loader
    ) as ckpt:
        notes.began(ckpt.folder)
        for step, (x, y) in zip(ckpt.steps(steps), loader.forever(), strict=False):
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            optimizer.step()
            ckpt.report(loss=loss)
            notes.finished(step + 1, loss.item())
    notes.ended(digest_of(model.state_dict(), optimizer.state_dict()["state"]))


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1] == "undisturbed":
        for seed in sys.argv[2:]:
            train(f"undisturbed-{seed}", int(seed))
    else:
        train(sys.argv[1], int(sys.argv[2]))


if __name__ == "__main__":
    main()
