"""Checkpoints that the real libraries have written, and what is said when they are damaged."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import lightning
import pytest
import torch
import torch.distributed.checkpoint as dcp
import transformers

from gsched.ckpt import prune, resume
from gsched.ckpt.catalogue import examine, newest_valid, scan
from gsched.ckpt.found import Depth, Verdict

torch.set_num_threads(1)


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    return model, optimizer


def state(step: int) -> dict[str, object]:
    model, optimizer = trained()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}


class Module(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def training_step(self, batch, _):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def lightning_run(folder: Path) -> None:
    callback = lightning.pytorch.callbacks.ModelCheckpoint(
        folder, every_n_train_steps=2, save_top_k=-1, save_last=True
    )
    trainer = lightning.Trainer(
        max_steps=6, accelerator="cpu", logger=False, callbacks=[callback],
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(12, 4), batch_size=2))


def hugging_face_run(folder: Path) -> None:
    config = transformers.GPT2Config(
        n_layer=1, n_head=1, n_embd=8, vocab_size=16, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    tokens = [{"input_ids": [1, 2, 3], "labels": [1, 2, 3]}] * 12
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=6, save_steps=2, per_device_train_batch_size=2, use_cpu=True,
        report_to=[], disable_tqdm=True, logging_steps=2, save_total_limit=10,
    )  # fmt: skip
    transformers.Trainer(
        transformers.GPT2LMHeadModel(config), arguments, train_dataset=tokens
    ).train()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each kind, with checkpoints of steps 2, 4 and 6."""
    root = tmp_path_factory.mktemp("runs")
    lightning_run(root / "lightning")
    hugging_face_run(root / "hugging-face")
    for step in (2, 4, 6):
        (root / "torch").mkdir(exist_ok=True)
        torch.save(state(step), root / "torch" / f"model_step_{step}.pt")
        writer = dcp.FileSystemWriter(root / "dcp" / f"step-{step}", thread_count=2)
        dcp.save(state(step), storage_writer=writer)
    return root


KINDS = ("torch", "lightning", "dcp", "hugging-face")


def counted(folder: Path):
    return [c for c in scan(folder, Depth.CHECKSUMS).checkpoints if c.path.name != "last.ckpt"]


@pytest.mark.parametrize("kind", KINDS)
def test_each_is_whole_and_tells_its_step(runs, kind):
    found = counted(runs / kind)
    assert [(c.kind, c.step, c.verdict) for c in found] == [
        (kind, step, Verdict.WHOLE) for step in (6, 4, 2)
    ]
    by_lengths_alone = {"hugging-face"}  # its weights have no checksums
    expected = Depth.LENGTHS if kind in by_lengths_alone else Depth.CHECKSUMS
    assert {c.checked for c in found} == {expected}


def test_lightnings_last_one_is_found_by_its_contents(runs):
    (last,) = [c for c in scan(runs / "lightning").checkpoints if c.path.name == "last.ckpt"]
    assert (last.kind, last.step) == ("lightning", 6)


def files_of(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())


OPTIONAL = {"config.json", "generation_config.json", "training_args.bin"}
"""Of Hugging Face's files: a run goes on without them, and not every checkpoint has them."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["cut by one", "halved", "emptied", "zeroed", "removed"])
def test_torn_at_every_file(runs, tmp_path, kind, damage):
    """Lengths and tables tell, but for a file that still is as long as it was."""
    newest = counted(runs / kind)[0].path
    missed = []
    for number, file in enumerate(files_of(newest)):
        copy = tmp_path / str(number) / newest.name
        copy.parent.mkdir()
        (shutil.copy if newest.is_file() else shutil.copytree)(newest, copy)
        path = copy / file.relative_to(newest)
        data = path.read_bytes()
        if damage == "removed":
            path.unlink()
        else:
            half = len(data) // 2
            changed = {
                "cut by one": data.rstrip()[:-1],
                "halved": data[:half],
                "emptied": b"",
                "zeroed": bytes(len(data)),
            }[damage]
            path.write_bytes(changed)
        depth = Depth.CHECKSUMS if damage == "zeroed" else Depth.LENGTHS
        if any(c.is_whole for c in scan(copy.parent, depth).checkpoints):
            missed.append(file.name)
    expected = OPTIONAL if kind == "hugging-face" and damage == "removed" else set()
    assert set(missed) <= expected


@pytest.mark.parametrize("kind", ["torch", "lightning", "dcp"])
def test_what_is_called_whole_has_lost_no_number(runs, tmp_path, kind):
    """One bit is flipped, here and there: found, or of no importance to what is loaded."""
    newest = counted(runs / kind)[0].path
    wanted = numbers(newest, kind)
    draw = random.Random(5)
    found = 0
    for number in range(60):
        copy = tmp_path / str(number) / newest.name
        copy.parent.mkdir()
        (shutil.copy if newest.is_file() else shutil.copytree)(newest, copy)
        file = draw.choice([path for path in files_of(copy) if path.name != ".metadata"])
        data = bytearray(file.read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
        if examine(copy, Depth.CHECKSUMS).verdict is Verdict.WHOLE:
            assert numbers(copy, kind) == wanted
        else:
            found += 1
    assert found > 10


def numbers(place: Path, kind: str) -> list[bytes]:
    """The bytes of the weights that the library itself loads."""
    if kind == "dcp":
        model, _ = trained()
        loaded = {"model": {k: torch.zeros_like(v) for k, v in model.state_dict().items()}}
        dcp.load(loaded, checkpoint_id=place)
        weights = loaded["model"]
    else:
        whole = torch.load(place, weights_only=kind == "torch")
        weights = whole["model" if kind == "torch" else "state_dict"]
    return [weights[name].numpy().tobytes() for name in sorted(weights)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_valid_one_and_a_resume(runs, tmp_path, kind):
    run = tmp_path / "run"
    shutil.copytree(runs / kind, run)
    (run / "last.ckpt").unlink(missing_ok=True)
    newest = counted(run)[0].path
    damaged = max(files_of(newest), key=lambda path: path.stat().st_size)
    damaged.write_bytes(damaged.read_bytes()[:-100])
    found = newest_valid(run)
    assert (found.checkpoint.step, [c.step for c in found.passed_over]) == (4, [6])
    resume.apply(resume.plan(run, 2))
    assert newest_valid(run).checkpoint.step == 2
    resume.undo(run)
    assert [c.step for c in prune.apply(prune.plan(run, 1))] == [2]
    assert [c.step for c in counted(run)] == [6, 4]


def test_the_best_one_is_not_pruned(runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs / "hugging-face", run)
    state = run / "checkpoint-6" / "trainer_state.json"
    best = str(runs / "hugging-face" / "checkpoint-2")
    state.write_text(json.dumps(json.loads(state.read_text()) | {"best_model_checkpoint": best}))
    planned = prune.plan(run, 1)
    assert [c.step for c in planned.removed] == [4]
    (spared,) = [why for c, why in planned.spared if c.step == 2]
    assert spared == "it is the best one so far, checkpoint-6 says"
    last = examine(runs / "lightning" / "epoch=0-step=6.ckpt", Depth.LENGTHS)
    assert last.best == ("epoch=0-step=6.ckpt",)  # with nothing to compare, it is the last one


def test_hugging_face_takes_what_resume_leaves(runs, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(runs / "hugging-face", run)
    resume.apply(resume.plan(run, 4))
    last = transformers.trainer_utils.get_last_checkpoint(str(run))
    assert last == str(newest_valid(run).checkpoint.path)


def test_what_is_not_yet_committed(runs, tmp_path):
    shutil.copytree(runs / "dcp" / "step-6", tmp_path / "step-6")
    (tmp_path / "step-6" / ".metadata").rename(tmp_path / "step-6" / ".metadata.tmp")
    shutil.copytree(runs / "hugging-face" / "checkpoint-6", tmp_path / "checkpoint-6")
    (tmp_path / "checkpoint-6" / "trainer_state.json").unlink()
    assert {c.path.name: c.reason for c in scan(tmp_path).of(Verdict.UNCOMMITTED)} == {
        "step-6": ".metadata.tmp: it is being written",
        "checkpoint-6": "it has no trainer_state.json, which is written last",
    }


def test_a_file_without_checksums_says_so(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        torch.save(state(3), tmp_path / "step_3.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    found = examine(tmp_path / "step_3.pt", Depth.CHECKSUMS)
    assert (found.verdict, found.step, found.checked) == (Verdict.WHOLE, 3, Depth.LENGTHS)


def test_a_bare_pickle_is_foreign(tmp_path):
    path = tmp_path / "step_3.pt"
    torch.save(state(3), path, _use_new_zipfile_serialization=False)
    found = examine(path, Depth.CHECKSUMS)
    assert (found.verdict, found.kind) == (Verdict.FOREIGN, "torch")
    assert "a bare pickle" in found.reason


def test_a_model_alone_is_whole(runs, tmp_path):
    """`save_only_model`: no optimiser, schedule or random numbers, and none is missed."""
    copy = tmp_path / "checkpoint-6"
    shutil.copytree(runs / "hugging-face" / "checkpoint-6", copy)
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth"):
        (copy / name).unlink()
    assert examine(copy, Depth.CHECKSUMS).is_whole
