"""Slurm's host lists: ``gn[01-04,7],x[1-2]y[3-4]`` to names and back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product

from gsched.errors import DataError

MAX_HOSTS = 2**18
"""Longer lists are refused: Slurm itself stops at 65,536 nodes."""
MAX_NAME_CHARS = 255

_RANGE = re.compile(r"(?P<first>\d{1,18})(?:-(?P<last>\d{1,18}))?", re.ASCII)
_ITEM = re.compile(r"(?:[^\[\],\s]|\[[^\[\]]*\])+")
_BETWEEN = re.compile(r"[,\s]*")
_PART = re.compile(r"\[(?P<ranges>[^\[\]]*)\]|(?P<text>[^\[\]]+)")
_NUMBERED = re.compile(r"(?P<prefix>.*?)(?P<number>\d{1,18})", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Range:
    """Numbers `low` to `high`, filled up with zeros to `width`."""

    width: int
    low: int
    high: int

    def __len__(self) -> int:
        return self.high - self.low + 1

    def __iter__(self) -> Iterator[str]:
        return (f"{number:0{self.width}}" for number in range(self.low, self.high + 1))


@dataclass(frozen=True, slots=True)
class _Part:
    """What can stand in one place of a name: any of some ranges, or a text."""

    choices: tuple[_Range | tuple[str], ...]

    def __len__(self) -> int:
        return sum(map(len, self.choices))

    def __iter__(self) -> Iterator[str]:
        for choice in self.choices:
            yield from choice

    @property
    def width(self) -> int:
        """Characters of the longest choice."""
        return max(
            max(choice.width, len(str(choice.high)))
            if isinstance(choice, _Range)
            else len(choice[0])
            for choice in self.choices
        )


def expand(hostlist: str) -> list[str]:
    """The names of a host list, in its order and with its doubles, as ``scontrol show hostnames``.

    Unlike there, the last bracket always changes first, also of three or more, and a text may
    stand behind it (``gn[1-2]-ib``). Raises DataError when it is no host list, or when it or a
    name in it is too long.
    """
    names: list[str] = []
    for item in _items(hostlist):
        parts = [_part(match, hostlist) for match in _PART.finditer(item)]
        number = 1
        for part in parts:  # counted before anything is made of it: a short text can mean a lot
            number *= len(part)
            if len(names) + number > MAX_HOSTS:
                raise DataError(f"host list with more than {MAX_HOSTS} names: {hostlist[:80]!r}")
        if sum(part.width for part in parts) > MAX_NAME_CHARS:
            raise DataError(f"host name of more than {MAX_NAME_CHARS} characters: {item[:80]!r}")
        names += map("".join, product(*parts))
    return names


def _items(hostlist: str) -> list[str]:
    """The items between the commas (or blanks) that are in no bracket."""
    if not _BETWEEN.fullmatch(_ITEM.sub("", hostlist)):
        raise DataError(
            f"not a host list: {hostlist[:80]!r}", "brackets must be closed, e.g. gn[01-04]"
        )
    return _ITEM.findall(hostlist)


def _part(part: re.Match[str], whole: str) -> _Part:
    if part["text"] is not None:
        return _Part(((part["text"],),))
    return _Part(tuple(_range(item, whole) for item in part["ranges"].split(",")))


def _range(item: str, whole: str) -> _Range:
    match = _RANGE.fullmatch(item)
    if match is None:
        raise DataError(f"not a range of hosts: {item[:80]!r} in {whole[:80]!r}")
    first = match["first"]
    low, high = int(first), int(match["last"] or first)
    if high < low or high - low >= MAX_HOSTS:
        raise DataError(f"range of hosts {item!r} is empty or too long in {whole[:80]!r}")
    return _Range(len(first), low, high)


def fold(names: Iterable[str]) -> str:
    """A short list of `names` that Slurm reads, sorted, doubles left out: ``gn[01-03],login``.

    Names that do not end in a number stay as they are: Slurm takes no text behind a bracket.
    """
    plain: set[str] = set()
    numbered: dict[tuple[str, int], set[int]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is None:
            plain.add(name)
            continue
        digits = match["number"]
        # Only padded numbers have a width of their own: 9 and 10 share a range, 09 and 9 do not.
        width = len(digits) if digits.startswith("0") and len(digits) > 1 else 0
        numbered.setdefault((match["prefix"], width), set()).add(int(digits))
    _join_padded(numbered)
    lists = [_folded(*key, numbers) for key, numbers in numbered.items()]
    return ",".join(sorted([*plain, *lists]))


def _join_padded(numbered: dict[tuple[str, int], set[int]]) -> None:
    """Move unpadded numbers to the padded range of their width: ``08``, ``09`` and ``10``."""
    for prefix, width in [key for key in numbered if key[1]]:
        bare = numbered.get((prefix, 0), set())
        fitting = {number for number in bare if len(str(number)) == width}
        numbered[(prefix, width)] |= fitting
        bare -= fitting
    for key in [key for key, numbers in numbered.items() if not numbers]:
        del numbered[key]


def _folded(prefix: str, width: int, numbers: set[int]) -> str:
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    texts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in ranges]
    return f"{prefix}{texts[0]}" if len(numbers) == 1 else f"{prefix}[{','.join(texts)}]"
