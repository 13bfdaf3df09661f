"""A training run that was interrupted goes on, and ends as the undisturbed one to the bit."""

from __future__ import annotations

import json
import logging
import os
import random
import traceback
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from support.trainee import Training, run
from torch import nn

from gsched.ckpt import layout
from gsched.ckpt.target import RunTarget
from gsched.errors import DataError, UnavailableError, UsageError
from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.checkpoint.random_state import RandomState
from gsched.runtime.checkpoint.snapshots import Snapshots
from gsched.runtime.checkpoint.states import States
from gsched.telemetry.heartbeats import HeartbeatFolder
from gsched.testbed.wait import wait_for

STEPS = 15  # two epochs of six batches, and a half


def stop_at(step: int):
    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == step - 1:
            ckpt.stop()

    return at_step


def steps_in(folder: Path) -> list[int]:
    names = sorted(entry.name for entry in folder.iterdir())
    return [s for s in map(layout.parse_step_name, names) if s is not None]


@pytest.mark.parametrize("workers", [0, 2])
def test_stopped_within_and_between_epochs_it_ends_as_the_undisturbed_run(
    tmp_path: Path, workers: int
) -> None:
    undisturbed = run(tmp_path / "undisturbed", STEPS, workers=workers)
    for step in (4, 6, 13):  # within an epoch, at its end, in the third
        run(tmp_path / "stopped", STEPS, workers=workers, at_step=stop_at(step))
        assert steps_in(tmp_path / "stopped")[-1] == step
    assert run(tmp_path / "stopped", STEPS, workers=workers) == undisturbed
    assert steps_in(tmp_path / "stopped") == [6, 13, 15]  # three stay


def test_a_run_that_is_complete_does_nothing_more(tmp_path: Path) -> None:
    digest = run(tmp_path, 5)
    assert run(tmp_path, 5, at_step=lambda _: pytest.fail("a step too many")) == digest


def test_an_exception_in_a_step_loses_that_step_alone(tmp_path: Path) -> None:
    def fail(ckpt: Checkpointer) -> None:
        if ckpt.step == 7:
            raise RuntimeError("out of luck")

    undisturbed = run(tmp_path / "undisturbed", STEPS)
    with pytest.raises(RuntimeError, match="out of luck"):
        run(tmp_path / "failed", STEPS, at_step=fail, snapshot_every=1)
    manifest = json.loads((tmp_path / "failed" / layout.step_name(7) / "manifest.json").read_text())
    assert manifest["reason"] == "trainer-died"
    assert run(tmp_path / "failed", STEPS) == undisturbed


def test_save_writes_at_the_end_of_the_step_and_goes_on(tmp_path: Path) -> None:
    run(tmp_path, 5, at_step=lambda ckpt: ckpt.save() if ckpt.step == 1 else None)
    assert steps_in(tmp_path) == [2, 5]


def test_automatic_interval_writes_early_once(tmp_path: Path) -> None:
    run(tmp_path, 5, every="auto")
    assert steps_in(tmp_path) == [1, 5]


def test_the_files_can_be_read_without_gsched(tmp_path: Path) -> None:
    training = Training()
    with Checkpointer(tmp_path, **training.states()) as ckpt:
        for _, batch in zip(ckpt.steps(3), training.loader.forever(), strict=False):
            training.learn(batch)
    path = tmp_path / layout.step_name(3) / layout.rank_file_name(0, 1)
    with safe_open(path, framework="pt") as f:
        metadata = f.metadata()
        assert (metadata["gsched"], metadata["step"], metadata["rank"]) == ("1", "3", "0")
        tree = json.loads(metadata["state"])
        weight = f.get_tensor("model/0.weight")
    assert torch.equal(weight, training.model[0].weight)
    assert tree["scheduler"]["last_epoch"] == 3
    assert tree["scheduler"]["milestones"] == {"$counter": [[3, 1], [9, 1]]}
    assert len(path.read_bytes()) < 60_000


def test_a_torn_checkpoint_is_passed_over_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed = run(tmp_path / "undisturbed", STEPS)
    for step in (4, 9):
        run(tmp_path / "torn", STEPS, at_step=stop_at(step))
    shard = tmp_path / "torn" / layout.step_name(9) / layout.rank_file_name(0, 1)
    data = bytearray(shard.read_bytes())
    data[-5] ^= 1
    shard.write_bytes(data)
    with caplog.at_level(logging.WARNING, "gsched.checkpoint"):
        assert run(tmp_path / "torn", STEPS) == undisturbed
    assert "checksum of rank-00000-of-00001.safetensors" in caplog.text


def test_with_torn_checkpoints_alone_nothing_begins_anew(tmp_path: Path) -> None:
    run(tmp_path, 2)
    (tmp_path / layout.step_name(2) / layout.rank_file_name(0, 1)).unlink()
    with pytest.raises(DataError, match="1 checkpoints and none is valid") as refused:
        run(tmp_path, 4)
    told = "".join(traceback.format_exception(refused.value))
    assert f"hint: see gsched ckpt verify {tmp_path}" in told, "a script's user sees a traceback"


def test_a_link_in_the_place_of_a_file_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for steps in (1, 2):
        run(tmp_path / "run", steps)
    shard = tmp_path / "run" / layout.step_name(2) / layout.rank_file_name(0, 1)
    shard.rename(tmp_path / "elsewhere")
    shard.symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING, "gsched.checkpoint"):
        run(tmp_path / "run", 2)
    assert f"{shard.name} is not a plain file" in caplog.text


class Fragile:
    """A state of the user's that refuses what it does not know."""

    def __init__(self) -> None:
        self.value = 1

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        if state["value"] != 1:
            raise ValueError("cannot take this")


def saved(folder: Path, steps: int = 1, **states: object) -> None:
    with Checkpointer(folder, **states) as ckpt:
        for step in ckpt.steps(steps):
            assert step < 1


def loaded(folder: Path, **states: object) -> None:
    with Checkpointer(folder, **states):
        pass


def a_step(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    return optimizer


@pytest.mark.parametrize(
    ("states", "says"),
    [
        (
            lambda: {"model": nn.Linear(8, 3)},
            r"'model': weight is float32\[2, 8\].*float32\[3, 8\]",
        ),
        (lambda: {"model": nn.Linear(8, 2).double()}, r"weight is float32\[2, 8\].*float64"),
        (lambda: {"model": nn.Linear(8, 2, bias=False)}, "'model' has 'bias', this model does not"),
        (lambda: {"model": nn.Sequential(nn.Linear(8, 2))}, "'model' does not have '0.weight'"),
        (lambda: {"model": nn.Linear(8, 2), "ema": {}}, "it has no state 'ema'"),
        (lambda: {}, "it has a state 'model' that this run does not have"),
    ],
)
def test_a_state_that_does_not_fit_is_named_and_nothing_is_changed(
    tmp_path: Path, states, says: str
) -> None:
    saved(tmp_path, model=nn.Linear(8, 2), note={"a": 1})
    given = states()
    note = {"b": 2}
    before = {k: v.clone() for k, v in given["model"].state_dict().items()} if given else {}
    random.seed(4)
    expected = random.Random(4).random()
    with pytest.raises(DataError, match=says):
        loaded(tmp_path, note=note, **given)
    assert note == {"b": 2}
    assert random.random() == expected
    for key, value in before.items():
        assert torch.equal(given["model"].state_dict()[key], value)


def test_an_optimiser_of_other_groups_is_refused(tmp_path: Path) -> None:
    model = nn.Linear(8, 2)
    saved(tmp_path, optimizer=a_step(model))
    with pytest.raises(DataError, match=r"'optimizer' has groups of \[2\] parameters.* of \[4\]"):
        loaded(
            tmp_path,
            optimizer=torch.optim.AdamW(nn.Sequential(model, nn.Linear(2, 2)).parameters()),
        )


@pytest.mark.parametrize("others", [torch.optim.SGD, torch.optim.NAdam, torch.optim.RMSprop])
def test_an_optimiser_of_another_class_is_refused(tmp_path: Path, others) -> None:
    model = nn.Linear(8, 2)
    saved(tmp_path, optimizer=a_step(model))
    with pytest.raises(DataError, match=f"'optimizer' is that of another class.*{others.__name__}"):
        loaded(tmp_path, optimizer=others(model.parameters()))


def test_an_optimiser_whose_class_has_grown_is_taken(tmp_path: Path) -> None:
    """By a setting that the torch that wrote the checkpoint did not know."""
    model = nn.Linear(8, 2)
    optimizer = a_step(model)
    for group in optimizer.param_groups:
        del group["decoupled_weight_decay"]
    saved(tmp_path, optimizer=optimizer)
    again = torch.optim.AdamW(model.parameters(), lr=0.5)
    loaded(tmp_path, optimizer=again)
    assert again.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]


def saved_with_random(folder: Path, generators: RandomState, **states: object) -> None:
    with Checkpointer(folder, **states) as ckpt:
        ckpt._states.random = generators
        assert list(ckpt.steps(1)) == [0]


class ManyDevices(RandomState):
    """The generators of a process with CUDA devices, of which there are none here."""

    def state_dict(self) -> dict[str, object]:
        return super().state_dict() | {"cuda": [torch.zeros(16, dtype=torch.uint8)] * 1000}


def test_the_random_states_of_other_devices_are_told_and_the_rest_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(8)
    saved_with_random(tmp_path, ManyDevices(), note={"a": 1})
    drawn = torch.rand(1)
    note = {"a": 2}
    with caplog.at_level(logging.WARNING, "gsched.checkpoint"):
        loaded(tmp_path, note=note)
    assert note == {"a": 1}
    assert torch.equal(torch.rand(1), drawn)
    assert "the random states of 1000 CUDA devices were kept and this process has" in caplog.text


class BrokenRandom(RandomState):
    """A state of generators that this torch does not take."""

    def state_dict(self) -> dict[str, object]:
        return super().state_dict() | {"torch": torch.zeros(3, dtype=torch.uint8)}


def test_random_states_that_are_refused_change_nothing(tmp_path: Path) -> None:
    saved_with_random(tmp_path, BrokenRandom(), note={"a": 1}, model=nn.Linear(8, 2))
    model, note = nn.Linear(8, 2), {"a": 2}
    weight = model.weight.clone()
    random.seed(4)
    with pytest.raises(RuntimeError, match="RNG state"):
        loaded(tmp_path, note=note, model=model)
    assert torch.equal(model.weight, weight)
    assert note == {"a": 2}
    assert random.random() == random.Random(4).random()


def test_it_starts_once(tmp_path: Path) -> None:
    with Checkpointer(tmp_path, note={"a": 1}) as ckpt:
        with pytest.raises(UsageError, match="started twice"):
            ckpt.start()
        assert list(ckpt.steps(1)) == [0]
    assert steps_in(tmp_path) == [1]


def test_when_one_object_refuses_the_others_have_what_they_had(tmp_path: Path) -> None:
    fragile = Fragile()
    fragile.value = 2
    saved(tmp_path, a={"x": 1}, fragile=fragile, model=nn.Linear(8, 2))
    notes, model = {"x": 5}, nn.Linear(8, 2)
    weight = model.weight.clone()
    with pytest.raises(ValueError, match="cannot take this"):
        loaded(tmp_path, a=notes, fragile=Fragile(), model=model)
    assert notes == {"x": 5}
    assert torch.equal(model.weight, weight)


def test_a_state_that_cannot_be_kept_is_refused_after_the_first_step(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"note/when/1: a value of type builtins.complex"):
        saved(tmp_path, steps=10, note={"when": [1, 1j]})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"keep": 0}, "at least one"),
        ({"every": -1}, "neither"),
        ({"every": "often"}, "neither"),
        ({"snapshot_every": 0}, "neither"),
        ({"mtbf_s": 0}, "mtbf_s"),
    ],
)
def test_options_out_of_range_are_refused(tmp_path: Path, options, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Checkpointer(tmp_path, note={}, **options)


def test_states_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has nothing to keep"):
        loaded(tmp_path)
    with pytest.raises(UsageError, match="lr: a float has no state_dict"):
        loaded(tmp_path, lr=0.1)
    with pytest.raises(UsageError, match="cannot be called 'random'"):
        loaded(tmp_path, random={})
    with pytest.raises(UsageError, match="replicated names 'modell'"):
        loaded(tmp_path, model=nn.Linear(1, 1), replicated=["modell"])


def test_the_environment_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GSCHED_CHECKPOINT_DIR", str(tmp_path / "site"))
    saved(tmp_path / "own", note={"a": 1})
    assert steps_in(tmp_path / "site") == [1]
    assert not (tmp_path / "own").exists()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match=r"cannot make .*file/x: "):
        loaded(tmp_path / "file" / "x", note={})


def test_without_memory_for_one_snapshot_it_is_said_how_much_is_missing(tmp_path: Path) -> None:
    states = States({"model": nn.Linear(8, 2)}, None, rank=0)
    target = RunTarget(tmp_path, layout.new_run())
    snapshots = Snapshots(target, states, [], "", sharers=10**15, lock=None)
    try:
        with pytest.raises(UnavailableError, match=r"no memory for a snapshot of 0\.00 GB"):
            snapshots.take(1, 0.0)
    finally:
        snapshots.close(10.0)


def test_the_heartbeat_tells_steps_loss_and_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GSCHED_HEARTBEAT_DIR", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    folder = tmp_path / "checkpoints"
    with Checkpointer(folder, note={"a": 1}) as ckpt:
        for step in ckpt.steps(4):
            ckpt.report(loss=torch.tensor(0.5 * step), tokens=10)
    record = HeartbeatFolder(tmp_path).record(os.getuid(), "77")
    assert record is not None
    assert (record.step, record.total_steps, record.committed_step) == (4, 4, 4)
    assert (record.loss, record.tokens) == (1.5, 40)
    assert record.checkpoint_dir == str(folder)
    manifest = json.loads((folder / layout.step_name(4) / "manifest.json").read_text())
    assert manifest["job"] == {"id": "77", "restart": 0}


def test_the_heartbeat_of_a_loop_of_ones_own_begins_with_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "checkpoints", steps=1, note={"a": 1})
    monkeypatch.setenv("GSCHED_HEARTBEAT_DIR", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    ckpt = Checkpointer(tmp_path / "checkpoints", note={"a": 1})
    ckpt.start()
    began = wait_for(lambda: HeartbeatFolder(tmp_path).record(os.getuid(), "77"), "the heartbeat")
    ckpt.total = 3
    ckpt.report(loss=1.5, tokens=10)
    ckpt.finish_step(2)
    ckpt.close()
    assert (began.first_step, began.step) == (1, 1)
    ended = HeartbeatFolder(tmp_path).record(os.getuid(), "77")
    assert ended is not None
    assert (ended.first_step, ended.step, ended.total_steps) == (1, 2, 3)
    assert (ended.loss, ended.tokens) == (1.5, 10)
