"""squeue, sprio and scontrol of a cluster that is written down in a folder.

A program of its own (`python -S -I stand_in_slurm.py FOLDER squeue …`), so that a bench pays for a
process, a pipe and all of the text, as with the real ones. What the folder holds is written by
``recorded_cluster``: ``squeue`` (fields joined by NUL, in the order in which gsched asks for them),
``sprio`` (by job: the sum without SiteFactor, and the rest of its line), ``factors`` (SiteFactors),
and by their names what ``scontrol show`` says.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

_UPDATE = re.compile(r"update jobid=(\d+) sitefactor=(-?\d+)")


def answer(folder: Path, argv: Sequence[str], stdin: str) -> str:
    """What a command prints. Raises KeyError for one that nobody has recorded."""
    return {"squeue": _squeue, "sprio": _sprio, "scontrol": _scontrol}[argv[0]](folder, argv, stdin)


def _squeue(folder: Path, argv: Sequence[str], _stdin: str) -> str:
    form = argv[argv.index("-O") + 1]
    separator = form.partition(":")[2].partition(",")[0]
    return (folder / "squeue").read_text("utf-8").replace("\0", separator)


def _sprio(folder: Path, argv: Sequence[str], _stdin: str) -> str:
    form = argv[argv.index("-o") + 1]
    separator = form[2 : form.index("%", 1)]
    chosen = set(argv[argv.index("-j") + 1].split(",")) if "-j" in argv else None
    factors = json.loads((folder / "factors").read_text())
    lines = []
    for line in (folder / "sprio").read_text().splitlines():
        job, bare, rest = line.split(" ", 2)
        if chosen is None or job in chosen:
            factor = factors.get(job, 0)
            fields = (job, str(max(1, int(bare) + factor)), str(factor), *rest.split(" "))
            lines.append(separator.join(fields) + separator + "\n")
    return "".join(lines)


def _scontrol(folder: Path, argv: Sequence[str], stdin: str) -> str:
    if "show" in argv:
        return (folder / argv[argv.index("show") + 1]).read_text()
    factors = json.loads((folder / "factors").read_text())
    factors |= {job: int(value) for job, value in _UPDATE.findall(stdin)}
    (folder / "factors").write_text(json.dumps(factors))
    return ""


if __name__ == "__main__":
    reads = sys.argv[2:] == ["scontrol"]
    sys.stdout.write(answer(Path(sys.argv[1]), sys.argv[2:], sys.stdin.read() if reads else ""))
