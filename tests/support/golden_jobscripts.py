"""One rendered script a template, tests/data/jobscripts/NAME.sh.

Written anew, to be read and committed, by ``PYTHONPATH=tests python -m support.golden_jobscripts``.
"""

from __future__ import annotations

from pathlib import Path

from gsched.jobscript.render import Surroundings, UserScript, render
from gsched.jobscript.templates import Library

FOLDER = Path(__file__).parents[1] / "data" / "jobscripts"
PYTHON = "/opt/gsched/bin/python"
"""The Python in the golden scripts."""

SHELL = """\
#!/bin/bash -l
#SBATCH --time=1:00:00 --gres=gpu:1
# a comment
#SBATCH -J "two words"

echo 'it'"'"'s' $(basename "$0"), checkpoints in "${GSCHED_CHECKPOINT_DIR-nowhere}"
#SBATCH --void
printf '<%s>' "$@"
"""
RANK = """\
#!/usr/bin/env -S python3 -u
#SBATCH --ntasks-per-node=4
import os, sys
place = "rank {RANK} of {WORLD_SIZE}".format_map(os.environ)
os.write(1, f"{place} {sys.argv[1:]}\\n".encode())  # in one piece"""
SCRIPTS = {
    "shell": UserScript("train.sh", SHELL, "/home/ada/my code/train.sh"),
    "rank": UserScript("train.py", RANK, "/home/ada/train.py"),
}
GOLDEN = {
    "plain": ("plain", {}, "shell", False),
    "requeue": ("requeue", {"grace": "90", "at_timeout": "3", "log": "attempts"}, "shell", True),
    "array": ("array", {"folder": "runs/it's, 5 %"}, "shell", True),
    "ddp": ("ddp", {}, "rank", True),
    "ddp-torchrun": ("ddp", {"launcher": "torchrun", "nproc": "2"}, "rank", False),
    "evaluation": ("evaluation", {"folder": "runs/7"}, "shell", False),
    "debug": ("debug", {"blocking": "yes"}, "shell", False),
}
"""File → template, values, script, with checkpoints."""


def golden(name: str, python: str = PYTHON, library: Library | None = None) -> bytes:
    """The script that `name` stands for, with another Python where one is given."""
    template_name, given, script, has_checkpoints = GOLDEN[name]
    library = library or Library("")
    template = library.get(template_name)
    around = Surroundings(
        python,
        has_checkpoints,
        every_s=600 if has_checkpoints else None,
        grace_s=30,
        heartbeat_dir="/shared/heartbeats",
        phases=("pretrain", "eval"),
    )
    return render(library, template, template.values(given), SCRIPTS[script], around)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in GOLDEN:
        (FOLDER / f"{name}.sh").write_bytes(golden(name))
