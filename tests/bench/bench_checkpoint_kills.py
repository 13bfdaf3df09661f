"""300 kills of trainers, writers and whole steps: what was lost, whether training came out right.

Four in five strike a training without torch, whose every byte is known beforehand, with one, two
and four ranks. The others strike a rank of a training by torch, with gloo, under DDP and FSDP2 in
turn; it must end with the digest of one that nobody disturbed. Writes
tests/results/checkpoint_kills.json.

    python tests/bench/bench_checkpoint_kills.py [KILLS]

Ends with a traceback when anything committed was lost, or a final state is another one.
"""

from __future__ import annotations

import collections
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.checkpoint_kills import KilledTraining, Victim  # noqa: E402

RESULT = ROOT / "tests" / "results" / "checkpoint_kills.json"
TRAINEE = ROOT / "tests" / "support" / "rank_trainee.py"
SEED = 20_261_130
SHARES = {1: 0.5, 2: 0.2, 4: 0.1}
"""Of all kills, those that strike a training without torch with so many ranks."""
TORCH_SHARES = {(2, "ddp"): 0.08, (2, "fsdp"): 0.06, (4, "ddp"): 0.03, (4, "fsdp"): 0.03}
STEPS_A_KILL = 12
WHAT = (
    "A training is killed at a random moment and started again, over and over. trainer: SIGKILL to "
    "one rank's trainer, then to the others'; its writers flush by themselves. writer: SIGKILL to "
    "one rank's writer; the trainer starts another. trainer and writer: all at once, as the end of "
    "a job step kills them. After each kill all checkpoints are read whole: no byte of a valid one "
    "may differ from what that step had, none that was told to be committed may be missing but for "
    "those pruned. steps_lost: from the newest complete snapshot to the newest valid checkpoint. "
    "torch: one rank of DDP or FSDP2 kills itself within a random step; a digest of parameters, "
    "optimiser and random state at the end must be the undisturbed training's."
)


def main() -> int:
    """Kill, judge, print, record."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    began = time.monotonic()
    without_torch = {
        f"ranks_{ranks}": _strike(ranks, max(3, round(kills * share)))
        for ranks, share in SHARES.items()
    }
    with_torch = {
        f"{kind}_ranks_{ranks}": _strike_torch(ranks, kind, max(1, round(kills * share)))
        for (ranks, kind), share in TORCH_SHARES.items()
    }
    document = {
        "what": WHAT,
        "kills": sum(d["kills"] for d in [*without_torch.values(), *with_torch.values()]),
        "without_torch": without_torch,
        "torch": with_torch,
        "seed": SEED,
        "seconds": round(time.monotonic() - began),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }
    print(json.dumps(document, indent=2))
    RESULT.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def _strike(ranks: int, kills: int) -> dict[str, Any]:
    victims = list(Victim)
    with tempfile.TemporaryDirectory() as name:
        chance = random.Random(SEED + ranks)
        training = KilledTraining(Path(name, "checkpoints"), Path(name), ranks, chance)
        for number in range(kills):
            episode = training.strike(victims[number % len(victims)])
            print(f"{number + 1} of {kills}: {episode}", file=sys.stderr)
        steps = training.finish(more_steps=STEPS_A_KILL)
    of: dict[Victim, list[int]] = collections.defaultdict(list)
    for e in training.episodes:
        # a snapshot may be complete before the trainer has said so
        of[e.victim].append(max(0, e.newest_filled - e.newest_valid))
    return {
        "kills": kills,
        "by_victim": {victim.value: len(lost) for victim, lost in of.items()},
        "within_a_write": sum(e.uncommitted > 0 for e in training.episodes),
        "steps_lost": {v.value: {"most": max(lost), "all": sum(lost)} for v, lost in of.items()},
        "committed_lost": 0,  # else `strike` had raised
        "steps_of_training": steps,
        "final_state": "as undisturbed",  # else `finish` had raised
    }


def _strike_torch(ranks: int, kind: str, kills: int) -> dict[str, Any]:
    total = (kills + 1) * STEPS_A_KILL
    chance = random.Random(f"{SEED} {ranks} {kind}")
    plan = {"ranks": ranks, "total": total, "kind": kind}
    rounds = [
        {**plan, "kill": [chance.randrange(ranks), step, signal.SIGKILL]}
        for step in sorted(chance.sample(range(1, total), kills))
    ]
    with tempfile.TemporaryDirectory() as name:
        expected = _play(Path(name, "undisturbed"), [plan])[-1]
        played = _play(Path(name, "killed"), [*rounds, plan])
    struck = sum(-signal.SIGKILL in of["statuses"] for of in played)
    assert struck == kills, f"{struck} of {kills} kills struck"
    assert played[-1] == expected, "the final state is not the undisturbed one's"
    return {"kills": kills, "steps_of_training": total, "final_state": "as undisturbed"}


def _play(folder: Path, rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    command = [sys.executable, "-P", str(TRAINEE), str(folder), *map(json.dumps, rounds)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
