"""The table of gsched-faults(7), out of what the matrix has given."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gsched_cli.roff import plain

PAGE = Path(__file__).parents[2] / "man" / "man7" / "gsched-faults.7"
BEGIN, END = '.\\" the matrix begins', '.\\" the matrix ends'
_RANDOM = "kill-random-"
_PROGRAMS = frozenset(("slurmctld", "slurmdbd", "munged", "squeue", "sprio", "scontrol", "sacct"))
_PATH = re.compile(r"/[\w./-]*/(?=[\w.-]+)")


def table(faults: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A paragraph a fault, the kills at random moments in one."""
    kills = [entry for name, entry in faults.items() if name.startswith(_RANDOM)]
    lines: list[str] = []
    for name, entry in faults.items():
        if name.startswith(_RANDOM):
            if entry is kills[0]:
                lines += _kills(kills)
            continue
        lines += [".TP", f".B {plain(name)}", *_result(entry)]
    return lines


def _result(entry: Mapping[str, Any]) -> list[str]:
    lines = [_sentence(entry["what"])]
    said = [text for line in entry["said"] if (text := _in_short(line))]
    if said:
        lines.append(_sentence(f"The daemon says: {said[0]}"))
    if entry["person"]:
        lines.append(_sentence(entry["person"]))
    lines.append(
        _sentence(f"All was well {entry['recovery_s']:g} s later" if entry["held"] else "FAILED")
    )
    return lines


def _kills(kills: list[Mapping[str, Any]]) -> list[str]:
    times = sorted(entry["recovery_s"] for entry in kills if entry["recovery_s"] is not None)
    failed = sum(not entry["held"] for entry in kills)
    return [
        ".TP",
        f".B {plain(_RANDOM + '*')}",
        f"{len(kills)} times kill \\-9 within 3 s of the start, at moments drawn from seeds.",
        f"All was well {statistics.median(times):g} s later (median), {times[-1]:g} s at most; "
        f"a check failed {failed} times.",
    ]


def _in_short(line: str) -> str:
    """What the daemon said, without the names of a test's own folders and jobs."""
    text = re.sub(r"^(gsched: )?(WARNING|ERROR|INFO): ", "", line)
    if line.startswith("gsched: INFO") or line.startswith("hint"):
        return ""
    text = _PATH.sub("", text)
    return text if len(text) <= 150 else text[:150].rpartition(" ")[0] + " ..."


def _sentence(text: str) -> str:
    first = text.partition(" ")[0]
    whole = text if first in _PROGRAMS else text[:1].upper() + text[1:]
    return plain(whole) + ("" if whole.endswith(".") else ".")


def page(text: str, faults: Mapping[str, Mapping[str, Any]]) -> str:
    """The page `text` with the table of `faults` in its place."""
    before, _, rest = text.partition(BEGIN + "\n")
    after = rest.partition(END + "\n")[2]
    return before + "\n".join([BEGIN, *table(faults), END, ""]) + after


def missing(text: str, names: Iterable[str]) -> list[str]:
    """Those of the faults that the page does not name."""
    shown = text.replace("\\-", "-")
    return [n for n in names if n not in shown and not n.startswith(_RANDOM)]
