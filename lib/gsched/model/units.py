"""Slurm's grammars of time, memory, counts, TRES and GRES. Units out: seconds and bytes."""

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
_SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}

_TIME = re.compile(
    r"(?:(?P<days>\d{1,9})-)?(?P<first>\d{1,12})(?::(?P<second>\d{1,9}))?(?::(?P<third>\d{1,9}))?",
    re.ASCII,
)
_QUANTITY = re.compile(
    r"(?P<number>\d{1,20}(?:\.\d{1,9})?)(?P<suffix>[KMGTPE]?)B?", re.ASCII | re.IGNORECASE
)


def _seconds(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise DataError(f"not a Slurm time: {text!r}", "write minutes, MM:SS, HH:MM:SS or D-HH:MM")
    first, second, third = (int(match[name] or 0) for name in ("first", "second", "third"))
    if match["days"] is not None:  # D-HH[:MM[:SS]]
        return (int(match["days"]) * 24 + first) * 3600 + second * 60 + third
    if match["third"] is None:  # MM[:SS]
        return first * 60 + second
    return first * 3600 + second * 60 + third


def parse_time_limit(text: str) -> int | None:
    """Seconds of a time limit as sbatch takes it and squeue, scontrol and sacct print it.

    A lone number is minutes. UNLIMITED and INFINITE give `UNLIMITED_S`; Partition_Limit, INVALID
    and the unset texts give None. Raises DataError for anything else.
    """
    text = text.strip()
    if text in UNSET or text in {"Partition_Limit", "INVALID"}:
        return None
    if text.upper() in {"UNLIMITED", "INFINITE", "-1"}:
        return UNLIMITED_S
    return min(_seconds(text), UNLIMITED_S)


def parse_count(text: str) -> int:
    """A count, plain or as Slurm shortens it (``2K`` = 2048). Raises DataError."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise DataError(f"not a count: {text!r}")
    return _scaled(match["number"], _SUFFIXES[match["suffix"].upper()])


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
        raise DataError(f"not an amount of memory: {text!r}", "write for example 512M or 4G")
    suffix = match["suffix"].upper() or default_suffix
    return Memory(_scaled(match["number"], _SUFFIXES[suffix]), per)


def parse_tres(text: str) -> Mapping[str, int]:
    """``cpu=4,mem=16G,gres/gpu:a100=2`` by name; memory in bytes.

    Slurm's 64-bit marks for "no value" are left out. Raises DataError for what is no TRES list.
    """
    if text in UNSET:
        return MappingProxyType({})
    counts: dict[str, int] = {}
    for item in text.split(","):
        name, equals, amount = item.strip().rpartition("=")
        if not equals or not name:
            raise DataError(f"not a TRES: {item!r} in {text!r}")
        count = parse_memory(amount).num_bytes if name == "mem" else parse_count(amount)
        if count <= _MAX_COUNT:
            counts[name] = count
    return MappingProxyType(counts)


@dataclass(frozen=True, slots=True)
class Gres:
    """One generic resource: ``gpu``, ``shard``…; `kind` is its type (``a100``) or ``""``."""

    name: str
    kind: str
    count: int


def parse_gres(text: str) -> tuple[Gres, ...]:
    """A GRES list in any of Slurm's spellings, as written: nothing is added up.

    ``gres:gpu:a100:2``, ``gres/gpu:2``, ``gpu:a100:8(S:0-1)``, ``gpu:3(IDX:0,2)``, ``gpu``.
    Raises DataError.
    """
    if text in UNSET:
        return ()
    bare = re.sub(r"\([^()]*\)", "", text)  # socket and index lists; they hold commas of their own
    return tuple(_gres_item(item.strip(), text) for item in bare.split(",") if item.strip())


def _gres_item(item: str, whole: str) -> Gres:
    item = re.sub(r"^gres[:/]", "", item)
    name, *rest = (part for part in re.split(r"[:=]", item) if part != "no_consume")
    if name == "" or len(rest) > 2:
        raise DataError(f"not a GRES: {item!r} in {whole!r}")
    count = 1
    if rest and _QUANTITY.fullmatch(rest[-1]):
        count = parse_count(rest.pop())
    elif len(rest) == 2:
        raise DataError(f"not a GRES count: {rest[-1]!r} in {whole!r}")
    return Gres(name, rest[0] if rest else "", count)


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
