"""Slurm's host lists: ``gn[01-04,7],x[1-2]y[3-4]`` to names and back."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from itertools import product

from gsched.errors import DataError

MAX_HOSTS = 2**18
"""Longer lists are refused: Slurm itself stops at 65,536 nodes."""

_RANGE = re.compile(r"(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?", re.ASCII)
_PART = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<text>[^\[\],]+)")
_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>\d{1,18})(?P<suffix>\D*)", re.ASCII | re.DOTALL)


def expand(hostlist: str) -> list[str]:
    """The names of a host list, in its order. Raises DataError when it is none or too long."""
    names: list[str] = []
    for item in _split(hostlist):
        choices = [_choices(part, hostlist) for part in _parts(item, hostlist)]
        if len(names) + math.prod(map(len, choices)) > MAX_HOSTS:
            raise DataError(f"host list with more than {MAX_HOSTS} names: {hostlist[:80]!r}")
        names += map("".join, product(*choices))
    return names


def _split(hostlist: str) -> Iterator[str]:
    """Items at the commas that are in no bracket."""
    for item in re.split(r",(?![^\[\]]*\])", hostlist.strip()):
        if item:
            yield item


def _parts(item: str, whole: str) -> list[re.Match[str]]:
    parts = list(_PART.finditer(item))
    if "".join(part[0] for part in parts) != item:
        raise DataError(f"not a host list: {whole!r}", "brackets must be closed, e.g. gn[01-04]")
    return parts


def _choices(part: re.Match[str], whole: str) -> list[str]:
    if part["text"] is not None:
        return [part["text"]]
    found: list[str] = []
    for item in part["ranges"].split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            raise DataError(f"not a range of hosts: {item!r} in {whole!r}")
        first = match["first"]
        low, high = int(first), int(match["last"] or first)
        if high < low or high - low >= MAX_HOSTS:
            raise DataError(f"range of hosts {item!r} is empty or too long in {whole!r}")
        found += [f"{number:0{len(first)}}" for number in range(low, high + 1)]
    return found


def fold(names: Iterable[str]) -> str:
    """The shortest list of `names`, sorted, doubles left out: ``gn[01-03],login``."""
    plain: set[str] = set()
    numbered: dict[tuple[str, str, int], set[int]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            plain.add(name)
            continue
        digits = match["number"]
        # Only padded numbers have a width of their own: 9 and 10 share a range, 09 and 9 do not.
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        numbered.setdefault((match["prefix"], match["suffix"], width), set()).add(int(digits))
    _join_padded(numbered)
    lists = [_folded(*key, numbers) for key, numbers in numbered.items()]
    return ",".join(sorted([*plain, *lists]))


def _join_padded(numbered: dict[tuple[str, str, int], set[int]]) -> None:
    """Move unpadded numbers to the padded range of their width: ``08``, ``09`` and ``10``."""
    for prefix, suffix, width in [key for key in numbered if key[2]]:
        bare = numbered.get((prefix, suffix, 0), set())
        fitting = {number for number in bare if len(str(number)) == width}
        numbered[(prefix, suffix, width)] |= fitting
        bare -= fitting
    for key in [key for key, numbers in numbered.items() if not numbers]:
        del numbered[key]


def _folded(prefix: str, suffix: str, width: int, numbers: set[int]) -> str:
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    texts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in ranges]
    if len(numbers) == 1:
        return f"{prefix}{texts[0]}{suffix}"
    return f"{prefix}[{','.join(texts)}]{suffix}"
