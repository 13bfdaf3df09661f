"""Several ranks: one commit for all, whichever of them is killed; other numbers of ranks go on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gsched.ckpt import catalogue, layout
from gsched.ckpt.found import Verdict
from gsched.testbed.wait import wait_for

SCRIPT = Path(__file__).parents[1] / "support" / "rank_trainee.py"
TOTAL = 9
LIMIT_S = 400


DDP_2 = {"kind": "ddp", "ranks": 2, "total": TOTAL}
ALONE = {"kind": "fsdp", "ranks": 2, "total": 2, "dropout": 0.0, "folder": "shards"}
"""Without dropout the number of ranks does not change what is learnt, but for rounding."""

KILLED = {
    "ddp-2": ({**DDP_2, "folder": "ddp-2"}, [0, 1]),
    "ddp-4": ({**DDP_2, "ranks": 4, "folder": "ddp-4"}, [0, 1, 2, 3]),
    "fsdp-2": ({**DDP_2, "kind": "fsdp", "folder": "fsdp-2"}, [1]),
}
"""By name: a training, and the ranks that are killed in it, one a round."""


@dataclass(frozen=True)
class Played:
    """What became of all rounds, by the name of each, and where their checkpoints are."""

    folder: Path
    outcomes: dict[str, dict[str, Any]]
    log: str


def plans() -> dict[str, dict[str, Any]]:
    """All rounds in their order: they share one process, since to import torch takes seconds."""
    found = {}
    for name, (plan, killed) in KILLED.items():
        found[f"{name} undisturbed"] = {**plan, "folder": f"{name}-undisturbed"}
        for rank in killed:
            found[f"{name} killed {rank}"] = {**plan, "kill": [rank, 2 + rank, signal.SIGKILL]}
        found[f"{name} last"] = plan
    stopped = {**DDP_2, "folder": "stopped"}
    found["stopped"] = {**stopped, "kill": [1, 3, signal.SIGTERM]}
    found["stopped last"] = stopped
    found |= {f"shards {n}": {**ALONE, "ranks": n} for n in (2, 4, 1)}  # 4 and 1 only load
    found["shards more"] = {**ALONE, "ranks": 2, "total": 4}
    for kind in ("declared", "saved"):
        found[kind] = {"kind": kind, "ranks": 2, "total": 5, "folder": kind}
    found["declared signalled"] = {
        **found["declared"],
        "folder": "declared-signalled",
        "kill": [1, 5, signal.SIGTERM],
    }
    replicas = {**ALONE, "kind": "ddp", "folder": "replicas"}
    found |= {f"replicas {n}": {**replicas, "ranks": n} for n in (2, 4)}
    found["replicas more"] = {**replicas, "ranks": 4, "total": 5}
    return found


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("ranks")
    rounds = plans()
    argv = [sys.executable, "-P", str(SCRIPT), str(folder), *map(json.dumps, rounds.values())]
    with (folder / "log").open("w") as log, (folder / "out").open("w") as out:
        # files, not pipes: a writer may outlive the script
        subprocess.run(argv, stdout=out, stderr=log, timeout=LIMIT_S, check=False)
    told = [json.loads(line) for line in (folder / "out").read_text().splitlines()]
    text = (folder / "log").read_text()
    assert len(told) == len(rounds), text
    return Played(folder, dict(zip(rounds, told, strict=True)), text)


def shards_of(path: Path) -> list[dict[str, Any]]:
    trees = []
    for file in sorted(path.glob("rank-*.safetensors")):
        with file.open("rb") as f:
            header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        trees.append(json.loads(header["__metadata__"]["state"]))
    return trees


def settled(folder: Path) -> bool:
    """No writer is at work: neither parts nor talks lie about."""
    return not [e for e in folder.iterdir() if e.name.startswith((".partial-", ".flush-"))]


def weights(outcome: dict[str, Any]) -> set[str]:
    """The digests of what all ranks have alike, without what they draw."""
    assert set(outcome["statuses"]) == {0}
    return {digest.split()[0] for digest in outcome["digests"]}


@pytest.mark.parametrize("name", KILLED)
def test_whichever_rank_is_killed_the_end_is_that_of_the_undisturbed_run(
    played: Played, name: str
) -> None:
    plan, killed = KILLED[name]
    for rank in killed:
        statuses = played.outcomes[f"{name} killed {rank}"]["statuses"]
        assert statuses[rank] == -signal.SIGKILL
        assert 0 not in statuses
    last = played.outcomes[f"{name} last"]
    assert last["statuses"] == [0] * plan["ranks"]
    assert last["digests"] == played.outcomes[f"{name} undisturbed"]["digests"], played.log
    folder = played.folder / name
    assert "the training failed; " in played.log, "a rank that was not killed tells what is saved"
    assert f"going on after step {1 + killed[-1]}" in played.log
    wait_for(lambda: settled(folder), "the last writer")
    assert {c.verdict for c in catalogue.scan(folder).checkpoints} == {Verdict.WHOLE}


def test_a_signal_to_one_rank_stops_all_after_the_same_step(played: Played) -> None:
    assert played.outcomes["stopped"]["statuses"] == [143, 143], played.log
    assert "stopped by a signal: the checkpoint is that of step 5" in played.log
    undisturbed = played.outcomes["ddp-2 undisturbed"]["digests"]
    assert played.outcomes["stopped last"]["digests"] == undisturbed


@pytest.mark.parametrize("kind", ["declared", "saved"])
def test_the_last_step_of_a_loop_of_ones_own_is_saved(played: Played, kind: str) -> None:
    assert played.outcomes[kind]["statuses"] == [0, 0], played.log
    steps = [
        tree["counts"]["steps"] for tree in shards_of(played.folder / kind / layout.step_name(5))
    ]
    assert steps == [5, 5]


def test_a_signal_to_one_rank_in_the_last_step_is_known_to_all(played: Played) -> None:
    assert played.outcomes["declared signalled"]["statuses"] == [143, 143], played.log
    assert shards_of(played.folder / "declared-signalled" / layout.step_name(5))


def test_what_all_ranks_have_alike_rank_0_alone_writes(played: Played) -> None:
    first, second = shards_of(played.folder / "ddp-2" / layout.step_name(TOTAL))
    assert second["model"] == second["optimizer"] == {"$of_rank": 0}
    assert "0.weight" in first["model"]["$state_dict"]
    assert second["loader"]["batches"] == first["loader"]["batches"] > 0


def test_shards_are_taken_up_by_another_number_of_ranks(played: Played) -> None:
    for form in shards_of(played.folder / "shards" / layout.step_name(2)):
        assert form["model"]["$state_dict"]["0.weight"]["global_shape"] == [10, 6]
    at_2 = weights(played.outcomes["shards 2"])
    assert len(at_2) == 1
    assert weights(played.outcomes["shards 4"]) == at_2, played.log
    assert weights(played.outcomes["shards 1"]) == at_2, played.log
    assert weights(played.outcomes["shards more"]) != at_2


def test_a_replicated_model_is_taken_up_by_another_number_of_ranks(played: Played) -> None:
    at_2 = weights(played.outcomes["replicas 2"])
    assert weights(played.outcomes["replicas 4"]) == at_2, played.log
    assert len(weights(played.outcomes["replicas more"])) == 1
