"""The formats of checkpoints that are told apart, one module each, asked in this order."""

from __future__ import annotations

from gsched.ckpt.kinds import dcp, gsched_folder, hugging_face, torch_file
from gsched.ckpt.kinds.base import Kind

KINDS: tuple[Kind, ...] = (
    Kind("gsched", gsched_folder.claims, gsched_folder.read),
    Kind("hugging-face", hugging_face.claims, hugging_face.read),
    Kind("dcp", dcp.claims, dcp.read),
    Kind("torch", torch_file.claims, torch_file.read),
)
"""Lightning's single file is `torch_file`'s too, which tells it by its contents: "lightning"."""
