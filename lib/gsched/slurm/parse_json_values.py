"""The JSON of Slurm's commands and of slurmrestd, whatever the release: the one place that bends.

Slurm has changed the shape of the same value many times (21.08 to 26.05, openapi v0.0.37 and
v0.0.38, data_parser v0.0.39 to v0.0.45):

- a number is plain, or ``{"set": true, "infinite": false, "number": 5}``; no value is null, ``{}``,
  ``set: false``, or the number that C code uses for it (4294967294);
- no text is null or ``""``; a list of words is a list, or one text with commas;
- a state is a text, or a list of the base state and its flags.

The functions here take a value in any of these and raise DataError for what is none of them. A
parser version not known is read all the same: fields are looked up by name. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gsched.errors import DataError
from gsched.model.history import Reject

MAX_CHARS = 256 * 2**20
"""Longer documents are refused: parsed, they take some ten times as much memory."""

_NO_VALUE = frozenset({0xFFFE, 0xFFFFFFFE, 0xFFFFFFFFFFFFFFFE})
_INFINITE = frozenset({0xFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_MAX_NUMBER = 2**63 - 1
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_RAW = 2000
_NOTHING_FOUND = 9003  # ESLURM_REST_EMPTY_RESULT

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Document:
    """What a command answered: records, and what Slurm complained of beside them.

    `parser` is the version that wrote it (``v0.0.42``), "" where it does not say. A record may be
    anything; `record` takes it.
    """

    records: tuple[Any, ...]
    complaints: tuple[str, ...]
    parser: str

    def source(self, command: str) -> str:
        """How rejects name where they come from: ``squeue --json v0.0.42``."""
        return f"{command} --json {self.parser}".rstrip()

    def rejects(self, command: str) -> list[Reject]:
        """The complaints as rejects of line 0: records may be missing."""
        return [Reject(self.source(command), 0, text, "") for text in self.complaints]


def load(text: str, *keys: str) -> Document:
    """The records under the first of `keys` that the document has.

    Raises DataError for what is no JSON, has none of the keys, or holds errors and no records. A
    warning beside no records says that nothing was found, and is no complaint.
    """
    document = _parse(text)
    if not isinstance(document, dict):
        raise DataError(f"Slurm's JSON is a {type(document).__name__}, not an object")
    errors = messages(document.get("errors"))
    key = next((key for key in keys if key in document), None)
    if key is None or not (records := listed(document[key])):
        if errors:
            raise DataError(f"Slurm's JSON holds an error: {'; '.join(errors)}")
        if key is None:
            raise DataError(f"Slurm's JSON has no {' or '.join(keys)}")
        return Document((), (), parser_version(document))
    complaints = errors + messages(document.get("warnings"))
    return Document(tuple(records), tuple(complaints), parser_version(document))


def _parse(text: str) -> Any:
    if len(text) > MAX_CHARS:
        raise DataError(
            f"Slurm's JSON is longer than {MAX_CHARS} characters", "ask for fewer jobs at a time"
        )
    try:
        # control characters stand bare in some releases' texts
        return json.loads(text, strict=False)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not the JSON of a Slurm command: {error}") from None


def messages(value: object) -> list[str]:
    """What stands under ``errors`` or ``warnings``, a text each.

    That nothing was found is no error, though 22.05 calls it one.
    """
    found = []
    for item in value if isinstance(value, list) else ():
        fields = item if isinstance(item, dict) else {"description": item}
        if fields.get("error_number") == _NOTHING_FOUND:
            continue
        words = [str(fields[key]) for key in ("error", "description") if fields.get(key)]
        found.append(_SURROGATE.sub("\ufffd", ": ".join(words))[:_MOST_RAW])
    return found


def parser_version(document: Mapping[str, Any]) -> str:
    """The version of the data parser that wrote a document; "" where it does not say."""
    meta = document.get("meta")
    for name in ("plugin", "plugins"):
        plugin = meta.get(name) if isinstance(meta, dict) else None
        if isinstance(plugin, dict):
            text = str(plugin.get("data_parser") or plugin.get("type") or "")
            return text.rpartition("/")[2]
    return ""


def record(value: object) -> Record:
    """`value` as a record. Raises DataError when it is none."""
    if not isinstance(value, dict):
        raise DataError(f"record is a {type(value).__name__}, not an object")
    return value


def raw(value: object) -> str:
    """A record as the text that a reject keeps, cut at some length."""
    return _SURROGATE.sub("\ufffd", json.dumps(value, ensure_ascii=False))[:_MOST_RAW]


def part(value: Record, *path: str) -> Any:
    """What lies at the end of `path` in nested objects; None where one of them is missing."""
    found: Any = value
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def listed(value: object) -> list[Any]:
    """A list; nothing for null and ``{}``. Raises DataError for anything else."""
    if value is None or value == {}:
        return []
    if not isinstance(value, list):
        raise DataError(f"not a list: {raw(value)}")
    return value


def number(value: object, infinite: int | None = None) -> int | None:
    """A whole number, None where there is none, `infinite` where Slurm says so."""
    if isinstance(value, dict):
        if value.get("infinite") is True:
            return infinite
        if value.get("set") is False:
            return None
        value = value.get("number")
    if value is None or value == "" or value == []:
        return None
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value, re.ASCII):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DataError(f"not a whole number: {raw(value)}")
    if value in _INFINITE:
        return infinite
    if value in _NO_VALUE:
        return None
    if abs(value) > _MAX_NUMBER:
        raise DataError(f"number out of range: {raw(value)}")
    return value


def count(value: object, default: int = 0) -> int:
    """A number that is not negative; `default` where there is none."""
    found = number(value)
    if found is None:
        return default
    if found < 0:
        raise DataError(f"negative count: {found}")
    return found


def moment(value: object) -> int | None:
    """Epoch seconds; None where Slurm has none, which it also writes as 0."""
    return count(value) or None


def required(value: int | None, what: str) -> int:
    """`value`. Raises DataError, which says `what` is missing, for None."""
    if value is None:
        raise DataError(f"no {what}")
    return value


def text(value: object) -> str:
    """A text, "" for none. Numbers, which some releases write in place of texts, are spelt out."""
    if value is None or value in ({}, []):
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DataError(f"not a text: {raw(value)}")
    # what JSON can spell but UTF-8 cannot would break whoever writes it out
    return _SURROGATE.sub("\ufffd", str(value))


def words(value: object) -> tuple[str, ...]:
    """A list of words, or one text with commas between them."""
    items = [text(item) for item in value] if isinstance(value, list) else text(value).split(",")
    return tuple(item for item in items if item)


def flag(value: object) -> bool:
    """True or false; false where there is no value."""
    if isinstance(value, bool):
        return value
    return bool(number(value))


def numbered(document: Document) -> Iterator[tuple[int, Any]]:
    """The records with their numbers, from 1, as rejects name them."""
    return enumerate(document.records, 1)
