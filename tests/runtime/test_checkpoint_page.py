"""gsched-checkpoint(5) says what the runtime writes, and its reader reads it."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib

import torch
from safetensors.torch import load_file

from gsched.ckpt import layout, manifest
from gsched.ckpt.catalogue import newest_valid
from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.checkpoint.tree import _TAGS
from gsched_cli.checkpoint_page import _MANIFEST, FORMS, READER

torch.set_num_threads(1)


def test_every_form_of_a_value_is_described():
    described = set(re.findall(r'\{"(\$\w+)"', " ".join(FORMS)))
    assert described == {*_TAGS, "$of_rank"}


def test_every_key_of_a_manifest_is_described():
    shard = manifest.Shard(layout.rank_file_name(0, 1), 1, 1)
    made = manifest.Manifest(1, 1, "0" * 12, manifest.Reason.END, 1.0, (shard,))
    keys = re.findall(rb'^ "(\w+)"', manifest.encode(made), re.MULTILINE)
    described = ", ".join(_MANIFEST).split(", ")
    assert [key.decode() for key in keys] == described


def test_the_reader_of_the_page_reads_what_the_runtime_wrote(tmp_path):
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    with Checkpointer(tmp_path, model=model, optimizer=optimizer, signals={}) as checkpointer:
        for _ in checkpointer.steps(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
    newest = newest_valid(tmp_path, kinds=("gsched",)).checkpoint
    assert newest is not None
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", READER, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    first, *tensors = done.stdout.splitlines()
    assert first == "3 ['model', 'optimizer', 'random']"
    told = {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in tensors}
    stored = load_file(newest.path / layout.rank_file_name(0, 1))
    words = {torch.float32: "F32", torch.int64: "I64", torch.uint8: "U8", torch.uint32: "U32"}
    assert told == {
        f"{name} {words[t.dtype]} {list(t.shape)}": zlib.crc32(t.numpy().tobytes())
        for name, t in stored.items()
    }
    weights = {t.numpy().tobytes() for t in model.state_dict().values()}
    assert {zlib.crc32(data) for data in weights} <= set(told.values())
