"""The templates of job scripts: those of the site's folder, and those that come with gsched.

A template NAME is the file ``NAME.sh.j2``, for jinja2. Its first comment is TOML: ``help`` (one
line), ``checkpoints`` (see `Checkpoints`) and a table ``keys.NAME`` for each key that
``--gs-runtime NAME,key=value`` may set: ``help``, ``default`` (whole number, true or false, or
text), and where wanted ``minimum``, ``maximum``, ``choices``, ``required`` and
``needs_checkpoints``. It has the keys of what it extends as well.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import jinja2
import jinja2.meta

import gsched_jobscripts
from gsched.errors import ConfigError, UsageError
from gsched.jobscript.quoting import for_directive, for_shell

PACKAGED = Path(gsched_jobscripts.__file__).parent / "templates"
SUFFIX = ".sh.j2"
BASE = "base"
"""What all others extend: it is not for a job by itself."""
ORIGINAL = "gsched"
"""``{% extends "gsched/requeue.sh.j2" %}`` is the template that comes with gsched."""

Value = bool | int | str
Checkpoints = Literal["always", "asked", "never"]
"""Whether a job of the template has a folder of checkpoints: where ``--gs-checkpoint`` asks for it
by default.
"""

_NAME = re.compile(r"[A-Za-z][\w-]{0,63}", re.ASCII)
_HEAD = re.compile(r"\A\{#-?(.*?)-?#\}", re.DOTALL)
_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)
_WORDS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
_HEAD_FIELDS = {"help", "checkpoints", "keys"}
_KEY_FACTS: Mapping[str, tuple[type, ...]] = {
    "help": (str,),
    "default": (bool, int, str),
    "minimum": (int,),
    "maximum": (int,),
    "choices": (list,),
    "required": (bool,),
    "needs_checkpoints": (bool,),
}
"""What a key may say → the types of it."""
CODE_ERRORS = (
    jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, MemoryError,
    RecursionError, TypeError, ValueError,
)  # fmt: skip
"""What the code within a template may raise."""


@dataclass(frozen=True, slots=True)
class Key:
    """What a template lets a user set: a whole number (within bounds), yes or no, or a text.

    The type is that of `default`. `choices`: no other text is allowed; empty: any.
    `needs_checkpoints`: it has no effect on a job without them.
    """

    name: str
    help: str
    default: Value
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    required: bool = False
    needs_checkpoints: bool = False

    @property
    def sample(self) -> str:
        """A text that it may be set to: of any, one that has to be quoted."""
        if isinstance(self.default, bool):
            return "yes"
        if isinstance(self.default, int):
            ends = (self.minimum, self.maximum)
            return str(next((end for end in ends if end is not None), self.default))
        return self.choices[0] if self.choices else "it's"

    def parse(self, text: str) -> Value:
        """The value that a user's text stands for. Raises UsageError that says what is allowed."""
        if isinstance(self.default, bool):
            if text.lower() not in _WORDS:
                raise UsageError(f"{self.name}: {text!r} is neither yes nor no")
            return _WORDS[text.lower()]
        if isinstance(self.default, int):
            return self._whole(text)
        if self.choices and text not in self.choices:
            raise UsageError(f"{self.name}: {text!r} is none of {', '.join(self.choices)}")
        return text

    def _whole(self, text: str) -> int:
        low = -(10**15) if self.minimum is None else self.minimum
        high = 10**15 if self.maximum is None else self.maximum
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise UsageError(f"{self.name}: {text!r} is no whole number from {low} to {high}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Template:
    """One template: where it lies, what it is for, and what a user may set."""

    name: str
    path: Path
    help: str
    checkpoints: Checkpoints
    keys: tuple[Key, ...]
    is_site: bool
    source: str

    def values(self, given: Mapping[str, str]) -> dict[str, Value]:
        """All keys' values, where not `given` the defaults. Raises UsageError."""
        known = {key.name: key for key in self.keys}
        for name in given:
            if name not in known:
                words = ", ".join(known) or "none"
                raise UsageError(f"template {self.name} has no key {name!r}", f"it has: {words}")
        for key in self.keys:
            if key.required and not given.get(key.name):
                raise UsageError(
                    f"template {self.name} needs {key.name}, {key.help}",
                    f"--gs-runtime {self.name},{key.name}=…",
                )
        parsed = {name: known[name].parse(text) for name, text in given.items()}
        return {key.name: key.default for key in self.keys} | parsed


class Library:
    """The templates in force: a file of the site's folder goes before one of the same name."""

    def __init__(self, site_folder: str) -> None:
        """`site_folder` '' for none."""
        self._site = Path(site_folder or PACKAGED)
        packaged = jinja2.FileSystemLoader(PACKAGED)
        self.environment = jinja2.Environment(
            loader=jinja2.ChoiceLoader(
                [
                    jinja2.FileSystemLoader(self._site),
                    packaged,
                    jinja2.PrefixLoader({ORIGINAL: packaged}),
                ]
            ),
            undefined=jinja2.StrictUndefined,
            autoescape=True,  # with `finalize`: whatever a template inserts is quoted for the shell
            finalize=for_shell,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        self.environment.filters["directive"] = for_directive

    def names(self) -> list[str]:
        """The names of all templates but the base, in order.

        Raises ConfigError when the site's folder is there and cannot be read.
        """
        files = {*_listed(PACKAGED), *_listed(self._site)}
        found = {file.removesuffix(SUFFIX) for file in files if file.endswith(SUFFIX)} - {BASE}
        return sorted(name for name in found if _NAME.fullmatch(name))

    def get(self, name: str) -> Template:
        """The template `name`. Raises UsageError for none, ConfigError for a faulty one."""
        names = self.names()
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(names)}"
            raise UsageError(f"no such template {name!r}", hint)
        path = self._path(name)
        source = _source(path)
        head = _read_head(path, source)
        return Template(
            name=name,
            path=path,
            help=head["help"],
            checkpoints=head.get("checkpoints", "asked"),
            keys=tuple(self._keys(name + SUFFIX, ()).values()),
            is_site=path.parent != PACKAGED,
            source=source,
        )

    def _path(self, name: str) -> Path:
        path = self._site / f"{name}{SUFFIX}"
        return path if path.is_file() else PACKAGED / f"{name}{SUFFIX}"

    def _keys(self, file: str, by: tuple[Path, ...]) -> dict[str, Key]:
        """The keys of a file and of all that it extends; its own ones win. It is extended `by`."""
        prefix, _, plain = file.rpartition("/")
        name = plain.removesuffix(SUFFIX)
        path = PACKAGED / plain if prefix == ORIGINAL else self._path(name)
        if path in by:
            raise ConfigError(
                f"{path}: extends itself", f'{{% extends "{ORIGINAL}/{plain}" %}} is gsched\'s own'
            )
        source = _source(path)
        try:
            parsed = self.environment.parse(source, name, str(path))
        except jinja2.TemplateError as error:
            raise faulty(path, error) from None
        keys: dict[str, Key] = {}
        for other in jinja2.meta.find_referenced_templates(parsed):
            keys |= self._keys(other, (*by, path)) if other else {}
        return keys | _read_keys(path, _read_head(path, source))


def whole(values: Mapping[str, Value], name: str) -> int:
    """The value of a key that is a whole number; 0 where a template has no such key."""
    found = values.get(name, 0)
    return found if isinstance(found, int) else 0


def faulty(path: Path, error: Exception) -> ConfigError:
    """What jinja2, or the code in it, finds wrong with a template, and where."""
    line = getattr(error, "lineno", None)
    place = str(path) if line is None else f"{path} line {line}"
    said = error.message if isinstance(error, jinja2.TemplateError) else str(error)
    return ConfigError(
        f"{place}: {said or type(error).__name__}", "`gsched jobscript check` tries them"
    )


def _listed(folder: Path) -> list[str]:
    try:
        return [file.name for file in folder.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(
            f"jobscript.dir, {folder}, cannot be read: {error.strerror}",
            "correct the setting, or the folder's rights",
        ) from None


def _source(path: Path) -> str:
    """A template's text. Raises ConfigError where others could have written it."""
    try:
        if path.parent != PACKAGED:
            _refuse_strangers(path)
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such template to extend") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from None


def _refuse_strangers(path: Path) -> None:
    """A template is run in the name of whoever submits."""
    for place in (path, path.parent):
        status = place.stat()
        if status.st_mode & stat.S_IWOTH:
            raise ConfigError(f"{place}: anybody may write to it", f"chmod o-w {place}")
        if os.geteuid() == 0 and status.st_uid != 0:
            raise ConfigError(
                f"{place}: belongs to another user (uid {status.st_uid}), and root would obey it",
                "submit without root, or chown it to root",
            )


def _read_head(path: Path, source: str) -> dict[str, Any]:
    found = _HEAD.match(source)
    if found is None:
        raise ConfigError(
            f"{path}: begins with no comment {{# … #}}", 'at least with help = "…" in it'
        )
    try:
        head = tomllib.loads(found[1])
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: its first comment is not valid TOML: {error}") from None
    if unknown := sorted(set(head) - _HEAD_FIELDS):
        raise ConfigError(f"{path}: unknown {unknown[0]!r} in its first comment")
    if not isinstance(head.get("help"), str):
        raise ConfigError(f"{path}: its first comment says no help")
    if head.get("checkpoints", "asked") not in get_args(Checkpoints):
        raise ConfigError(f"{path}: checkpoints is none of {', '.join(get_args(Checkpoints))}")
    return head


def _read_keys(path: Path, head: Mapping[str, Any]) -> dict[str, Key]:
    told = head.get("keys", {})
    if not isinstance(told, dict):
        raise ConfigError(f"{path}: keys is no table", "a key NAME is a table [keys.NAME]")
    return {name: _read_key(path, name, facts) for name, facts in told.items()}


def _read_key(path: Path, name: str, facts: object) -> Key:
    try:
        if not isinstance(facts, dict) or not _NAME.fullmatch(name):
            raise TypeError
        _check_types(facts)
        key = Key(**{**facts, "name": name, "choices": tuple(facts.get("choices", ()))})
        if not key.required:
            key.parse(_text(key.default))
        key.parse(key.sample)
    except (TypeError, UsageError):
        raise ConfigError(
            f"{path}: key {name} is not understood",
            "a key has help and default, and may have minimum, maximum (whole numbers), choices "
            "(texts), required, needs_checkpoints (true or false)",
        ) from None
    return key


def _check_types(facts: Mapping[str, Any]) -> None:
    """Raise TypeError where a fact of a key is of another type than it has to be."""
    for fact, given in facts.items():
        if type(given) not in _KEY_FACTS.get(fact, ()):
            raise TypeError
    if not all(isinstance(choice, str) for choice in facts.get("choices", ())):
        raise TypeError


def _text(value: Value) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
