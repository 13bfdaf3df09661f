"""gsched-checkpoint(5): the format of checkpoints, enough to read them without gsched."""

from __future__ import annotations

from gsched.ckpt import layout
from gsched.ckpt.manifest import VERSION, Reason
from gsched_cli.roff import head, listed, paragraph, verbatim

_RUN = "0123456789ab"

_ABOUT = f"""\
The checkpoints of one training run lie in one folder: the argument of the training script's
Checkpointer, or GSCHED_CHECKPOINT_DIR. This is format version {VERSION}. Every file is JSON, one
line of text, or safetensors, which many programs read; none is a pickle, and loading runs no code.

A reader takes the newest folder step-N that is whole: its manifest.json is there and can be read,
and each file that it names has the length and the checksum that it says. The pointer is a hint,
never proof. gsched ckpt list, verify and latest do just that."""

_TREE = f"""\
FOLDER/
  {layout.LATEST_NAME}                            the name of the newest, and a line end
  {layout.step_name(18240)}/                 committed, after 18240 finished steps
    {layout.rank_file_name(0, 2)}
    {layout.rank_file_name(1, 2)}
    {layout.MANIFEST_NAME}
  {layout.partial_name(18304, _RUN)}/
                                    being written, or its writer died
  {layout.flush_name(_RUN, 1)}/            writers agree what to flush
  {layout.ranks_name(_RUN)}/              which ranks are there still
  {layout.LOCK_NAME}                             who uses the folder
  {layout.SET_ASIDE_NAME}/                       taken out of the way; never read
  {layout.REMOVING_PREFIX}.../                    being removed; means nothing"""

_MANIFEST = {
    "format, version": f'"gsched-checkpoint", {VERSION}. A reader refuses a version that it does '
    "not know.",
    "step": "Finished training steps; the folder's name says the same.",
    "world_size": "Ranks that wrote it.",
    "run": "12 hexadecimal digits, drawn anew at each start of the job and common to its ranks.",
    "reason": f"Why it was written: {', '.join(Reason)}.",
    "created": "When it was committed, in UTC epoch seconds.",
    "job": "The Slurm job's id, and restart: how often it was requeued; null outside Slurm.",
    "shards": "One object a rank, in order: file, bytes (length), crc32 (of all bytes, as zlib's "
    "crc32 has it, eight hexadecimal digits).",
    "versions": "What wrote it: gsched, torch, python.",
}

_RANK_FILE = """\
A rank's file is safetensors: eight bytes with the header's length (little-endian), the header as
JSON, then the tensors' bytes. The header may end in spaces. A header's entry has dtype, shape and
data_offsets (from the first byte after the header). Its entry __metadata__ holds texts: gsched (the
version of this format), step, rank, world_size, and state.

state is JSON again: an object with one entry a state, by the name that the training script gave it
(model, optimizer, ...), and random for the random generators of Python, NumPy and torch. Values
stand for themselves; where JSON has no word, an object with one of these keys does:"""

FORMS = {
    '{"$tensor": NAME}': "The tensor of that name in this file. Of a distributed tensor: the part "
    "that begins at offsets of a whole of global_shape; without offsets another rank's file has "
    "that part, under the same name.",
    '{"$array": NAME}': "A NumPy array; with scalar true a NumPy scalar.",
    '{"$tuple": [...]}, {"$set": [...]}': "A tuple, a set.",
    '{"$dict": [[KEY, VALUE], ...]}': "A dict whose keys are not all texts, or begin with $.",
    '{"$counter": [[KEY, VALUE], ...]}': "A collections.Counter.",
    '{"$state_dict": {...}, "metadata": {...}}': "A module's state dict, with torch's versions of "
    "its parts.",
    '{"$bytes": BASE64}': "Bytes.",
    '{"$float": "nan"}': "nan, inf or -inf.",
    '{"$dtype": "float32"}': "A torch.dtype.",
    '{"$of_rank": 0}': "In the place of a state: all ranks have the same, and it is in the file of "
    "that rank.",
}

READER = """\
import json, pathlib, sys, zlib

def newest(folder):
    for place in sorted(pathlib.Path(folder).glob("step-*"), reverse=True):
        try:
            manifest = json.loads((place / "manifest.json").read_bytes())
            files = [(place / s["file"]).read_bytes() for s in manifest["shards"]]
        except (OSError, ValueError):
            continue
        if all(zlib.crc32(data) == int(s["crc32"], 16)
               for data, s in zip(files, manifest["shards"])):
            return manifest, files

manifest, files = newest(sys.argv[1])
for data in files:
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    state = json.loads(header["__metadata__"]["state"])
    print(manifest["step"], sorted(state))
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = (8 + length + n for n in entry["data_offsets"])
            print(name, entry["dtype"], entry["shape"], zlib.crc32(data[start:end]))"""
"""Reads a checkpoint with Python's standard library alone; a test runs it."""

_COMMIT = """\
Each rank writes its file into the partial folder and syncs it. Where there are several, it says so
in rank-NNNNN.json (file, bytes, crc32), and rank 0 waits for all of them. Then rank 0 writes
manifest.json, syncs the folder, renames it to step-N, syncs FOLDER, and replaces the pointer. Every
small file is made whole under another name and renamed. Only then older ones are removed, valid
ones beyond the number to keep; a folder is first renamed to .removing-... .

Where step-N is there already and valid, from the same training (the same run, an earlier start of
the same job, or there when the run began), the new one is dropped. What another run has written is
read for that, checksums and all; where it is not valid, it goes to .set-aside, and the new one
takes its place. A valid one of another training stays, and the new one is dropped with an error.

Rank 0 and its writer hold .lock by flock(2) as long as either lives, so that another run is refused
in the folder. Its content says who that is (host, pid, job, restart, stage: training or finishing);
it stays. A later attempt of the same job may put a file of its own in its place: right before the
rename of a checkpoint rank 0 compares the two, and does not commit where they differ. Each other
rank and its writer hold rank-NNNNN.lock in .ranks-RUN: nobody waits for a rank whose lock is free.

So, whatever is killed or loses power at any moment, there is either the new checkpoint or the one
before, and a folder called step-N that is not whole was damaged later."""

OTHERS = {
    "torch, lightning": "One file as torch.save writes it (.pt, .pth, .ckpt): a zip archive with a "
    "checksum for each member, unless torch was told to leave them out. The step is read from "
    "the tree of values, without running anything (global_step, step, iteration, ...), else from "
    "the name. A bare pickle (torch.save before 1.6) is foreign.",
    "dcp": "A folder of torch.distributed.checkpoint: .metadata is its commit mark, and says what "
    "must lie where in the .distcp files; each item there has checksums unless it was "
    "transformed. The step is read from the folder's name.",
    "hugging-face": "A folder of Hugging Face's Trainer: trainer_state.json is written last, and "
    "is taken for the commit mark. Weights, and optimiser, schedule and random states, must all "
    "be there, or the weights alone. Safetensors have no checksums: of those, the header and the "
    "length are compared.",
}
"""What is checked of other programs' checkpoints, by kind."""


def checkpoint_page() -> str:
    """gsched-checkpoint(5)."""
    lines = [*head("gsched-checkpoint", "5", "checkpoints of training runs"), ".SH DESCRIPTION"]
    lines += _prose(_ABOUT)
    lines += [".SH FOLDER", *verbatim(_TREE)]
    lines += listed("MANIFEST.JSON", _MANIFEST)
    lines += [".SH RANK FILES", *_prose(_RANK_FILE)]
    for form, meaning in FORMS.items():
        lines += listed("", {form: meaning})[1:]
    lines += [".SH READING WITHOUT GSCHED", *verbatim(READER)]
    lines += [".SH HOW ONE IS COMMITTED", *_prose(_COMMIT)]
    lines += listed("CHECKPOINTS OF OTHER PROGRAMS", OTHERS)
    lines += [".SH SEE ALSO", *paragraph("gsched-ckpt(1), gsched-checkpointing(7)")]
    return "\n".join(lines) + "\n"


def _prose(text: str) -> list[str]:
    lines: list[str] = []
    for part in text.split("\n\n"):
        lines += [*paragraph(part), ".PP"]
    return lines[:-1]
