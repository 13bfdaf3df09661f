"""Slurm's grammars of durations, memory, counts, TRES and GRES. Units out: seconds and bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gsched.errors import DataError
from gsched.model.job import UNLIMITED_S

UNSET = frozenset({"", "(null)", "N/A", "None", "NONE", "none", "Unknown", "NULL", "NOT_SET"})
"""What Slurm's commands print where there is no value."""

_MAX_COUNT = 2**63 - 1
_SHOWN = 60
_SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}

_TIME = re.compile(
    r"(?:(?P<days>\d{1,9})-)?(?P<first>\d{1,12})(?::(?P<second>\d{1,9}))?(?::(?P<third>\d{1,9}))?",
    re.ASCII,
)
_ELAPSED = re.compile(
    r"(?:(?:(?P<days>\d{1,9})-)?(?P<hours>\d{1,12}):)?(?P<minutes>\d{1,12}):"
    r"(?P<seconds>\d{1,9}(?:\.\d{1,9})?)",
    re.ASCII,
)
_QUANTITY = re.compile(
    r"(?P<number>\d{1,20}(?:\.\d{1,9})?)(?:(?P<suffix>[KMGTPE])B?)?", re.ASCII | re.IGNORECASE
)


def parse_time_limit(text: str) -> int | None:
    """Seconds of a time limit as sbatch takes it and squeue, scontrol and sacct print it.

    A lone number is minutes. UNLIMITED and INFINITE give `UNLIMITED_S`; Partition_Limit, INVALID
    and the unset texts give None. Of what a user asks for Slurm makes whole minutes, rounded up,
    and of 0 no limit; here it stays as written. Raises DataError for anything else.
    """
    text = text.strip()
    if text in UNSET or text in {"Partition_Limit", "INVALID"}:
        return None
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return UNLIMITED_S
    return min(_seconds(text), UNLIMITED_S)


def _seconds(text: str) -> int:
    # Slurm takes "1-" for a day.
    match = _TIME.fullmatch(f"{text}0" if text.endswith("-") else text)
    if match is None:
        raise DataError(
            f"not a Slurm time: {_shown(text)}", "write minutes, MM:SS, HH:MM:SS or D-HH:MM"
        )
    first, second, third = (int(match[name] or 0) for name in ("first", "second", "third"))
    if match["days"] is not None:  # D-HH[:MM[:SS]]
        return (int(match["days"]) * 24 + first) * 3600 + second * 60 + third
    if match["third"] is None:  # MM[:SS]
        return first * 60 + second
    return first * 3600 + second * 60 + third


def parse_elapsed(text: str) -> float | None:
    """Seconds of a time used as sacct and squeue print it: ``[[D-]HH:]MM:SS[.mmm]``.

    None for INVALID and the unset texts. Raises DataError.
    """
    text = text.strip()
    if text in UNSET or text == "INVALID":
        return None
    match = _ELAPSED.fullmatch(text)
    if match is None:
        raise DataError(f"not a time used: {_shown(text)}", "Slurm prints [D-]HH:MM:SS")
    days, hours, minutes = (int(match[name] or 0) for name in ("days", "hours", "minutes"))
    return ((days * 24 + hours) * 60 + minutes) * 60 + float(match["seconds"])


def parse_count(text: str) -> int:
    """A whole number, plain or as Slurm shortens it (``1.5K`` = 1536). Raises DataError."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or ("." in match["number"] and not match["suffix"]):
        raise DataError(f"not a count: {_shown(text)}")
    return _scaled(match["number"], _SUFFIXES[(match["suffix"] or "").upper()])


def _shown(text: str) -> str:
    """A wrong text as an error repeats it: users may have written a lot."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _scaled(number: str, factor: int) -> int:
    # Whole numbers stay exact: 64-bit counters do not fit a float.
    return int(number) * factor if number.isdigit() else round(float(number) * factor)


@dataclass(frozen=True, slots=True)
class Memory:
    """An amount of memory. `per` is ``node`` or ``cpu`` where the text says so, else ``""``."""

    num_bytes: int
    per: str = ""


def parse_memory(text: str, default_suffix: str = "M") -> Memory:
    """Memory as in ``4G``, ``1.5T``, ``512`` (in `default_suffix`), ``4Gn`` (node), ``2Gc`` (CPU).

    Raises DataError.
    """
    stripped = text.strip()
    per = {"n": "node", "c": "cpu"}.get(stripped[-1:], "")
    match = _QUANTITY.fullmatch(stripped[:-1] if per else stripped)
    if match is None:
        raise DataError(f"not an amount of memory: {_shown(text)}", "write for example 512M or 4G")
    suffix = (match["suffix"] or default_suffix).upper()
    return Memory(_scaled(match["number"], _SUFFIXES[suffix]), per)


def parse_tres(text: str) -> Mapping[str, int]:
    """``cpu=4,mem=16G,gres/gpu:a100=2`` by name; memory in bytes.

    In the ``TRESUsage…`` of sacct the CPU is a time: whole seconds. Slurm's 64-bit marks for "no
    value" are left out. Raises DataError for what is no TRES list.
    """
    if text in UNSET:
        return MappingProxyType({})
    counts: dict[str, int] = {}
    for item in text.split(","):
        name, equals, amount = item.strip().rpartition("=")
        if not equals or not name:
            raise DataError(f"not a TRES: {_shown(item)} in {_shown(text)}")
        count = _tres_amount(name, amount)
        if count <= _MAX_COUNT:
            counts[name] = count
    return MappingProxyType(counts)


def _tres_amount(name: str, amount: str) -> int:
    if name == "mem":
        return parse_memory(amount).num_bytes
    return int(parse_elapsed(amount) or 0) if ":" in amount else parse_count(amount)


@dataclass(frozen=True, slots=True)
class Gres:
    """One generic resource: ``gpu``, ``shard``…; `kind` is its type (``a100``) or ``""``."""

    name: str
    kind: str
    count: int

    def __str__(self) -> str:
        return ":".join(filter(None, (self.name, self.kind, str(self.count))))


def parse_gres(text: str) -> tuple[Gres, ...]:
    """A GRES list in any of Slurm's spellings, as written: nothing is added up.

    ``gres:gpu:a100:2``, ``gres/gpu=2``, ``gpu:a100:8(S:0-1)``, ``gpu:3(IDX:0,2)``, ``gpu(CNT:4)``,
    ``gpu``. Raises DataError.
    """
    if text in UNSET:
        return ()
    return tuple(_gres_item(item.strip(), text) for item in _outer_items(text) if item.strip())


def _outer_items(text: str) -> list[str]:
    """`text` cut at the commas outside brackets: lists of sockets and devices hold commas too."""
    items, depth = [""], 0
    for part in re.split(r"([(),])", text):
        depth += (part == "(") - (part == ")")
        if part == "," and depth == 0:
            items.append("")
        else:
            items[-1] += part
        if depth < 0:
            break
    if depth:
        raise DataError(f"not a GRES list, its brackets do not match: {_shown(text)}")
    return items


def _gres_item(item: str, whole: str) -> Gres:
    head, _, extra = item.partition("(")
    head = re.sub(r"^gres[:/]", "", head)
    name, *rest = (part for part in re.split(r"[:=]", head) if part != "no_consume")
    if name == "":
        raise DataError(f"not a GRES: {_shown(item)} in {_shown(whole)}")
    count = parse_count(extra[4:-1]) if extra.startswith("CNT:") else 1
    if rest and _QUANTITY.fullmatch(rest[-1]):
        count = parse_count(rest.pop())
    elif len(rest) >= 2:
        raise DataError(f"not a GRES count: {_shown(rest[-1])} in {_shown(whole)}")
    # 24.11 takes `--gpus=gpu:a100:2` and `--gres=gpu:a:b:2`: the type is what stands between
    return Gres(name, ":".join(rest), count)


def parse_requested_gres(text: str) -> tuple[Gres, ...]:
    """A GRES list that a job asks for: of several entries for one type Slurm takes the last.

    Raises DataError.
    """
    last = {(entry.name, entry.kind): entry for entry in parse_gres(text)}
    return tuple(last.values())


def parse_gpus(text: str) -> tuple[Gres, ...]:
    """The value of ``--gpus`` and ``--gpus-per-…``: ``4``, ``a100:2``, ``a100:2,v100:1``.

    Raises DataError.
    """
    return parse_requested_gres(",".join(f"gpu:{item.strip()}" for item in text.split(",")))


def tres_gres(tres: Mapping[str, int]) -> tuple[Gres, ...]:
    """The ``gres/…`` entries of a TRES list as GRES."""
    found = []
    for key, count in tres.items():
        if key.startswith("gres/"):
            name, _, kind = key.removeprefix("gres/").partition(":")
            found.append(Gres(name, kind, count))
    return tuple(found)


def count_gres(entries: Iterable[Gres], name: str) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Total of the GRES `name` and its counts by type, sorted by type.

    Slurm lists ``gres/gpu=2,gres/gpu:a100=2`` for two GPUs: untyped and typed entries speak of the
    same devices and are not added; the larger one counts.
    """
    by_kind: dict[str, int] = {}
    for entry in entries:
        if entry.name == name and entry.count:
            by_kind[entry.kind] = by_kind.get(entry.kind, 0) + entry.count
    untyped = by_kind.pop("", 0)
    return max(untyped, sum(by_kind.values())), tuple(sorted(by_kind.items()))
