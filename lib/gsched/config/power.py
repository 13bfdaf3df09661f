"""``[[power.backends]]`` of gsched.toml as the back-ends of the model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from gsched.errors import ConfigError, DataError
from gsched.model.hostlist import expand
from gsched.model.power import KINDS, VERBS, PowerBackend, PowerBackends, placeholders

_KEYS = tuple(field.name for field in fields(PowerBackend))
_LISTS = ("nodes", "verbs", *VERBS)
_FILES = ("key_file", "known_hosts", "password_file", "ca_file")
_OF_KIND = {
    "ssh": {"host", "port", "user", "key_file", "known_hosts"},
    "ipmi": {"host", "user", "password_file", "password_variable", *VERBS},
    "redfish": {"host", "user", "password_file", "password_variable", "system", "ca_file", *VERBS},
    "command": {"host", "user", "password_file", "password_variable", *VERBS},
}
_NEEDED = {
    "ssh": ("user", "key_file", "known_hosts"),
    "ipmi": ("host", "user", "password_file"),
    "redfish": ("host", "password_file"),
    "command": (),
}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_IPMI = ("/usr/bin/ipmitool", "-I", "lanplus", "-H", "%h", "-U", "%u", "-f", "%p",
         "chassis", "power")  # fmt: skip
_CURL = ("/usr/bin/curl", "--silent", "--show-error", "--fail", "--netrc-file", "%p")
_REDFISH = ("--header", "Content-Type: application/json",
            "https://%h/redfish/v1/Systems/%s/Actions/ComputerSystem.Reset")  # fmt: skip
_RESETS = {"suspend": "GracefulShutdown", "resume": "On", "restart": "ForceRestart"}


def default_commands(kind: str, *, has_ca_file: bool = False) -> dict[str, tuple[str, ...]]:
    """What a kind runs for a verb where its table has no command of its own."""
    if kind == "ipmi":
        words = {"suspend": "soft", "resume": "on", "restart": "cycle"}
        return {verb: (*_IPMI, word) for verb, word in words.items()}
    if kind == "redfish":
        curl = (*_CURL, *(("--cacert", "%c") if has_ca_file else ()), *_REDFISH)
        return {
            verb: (*curl, "--data", f'{{"ResetType": "{reset}"}}')
            for verb, reset in _RESETS.items()
        }
    return {}


def parse_backends(tables: Any) -> PowerBackends:
    """The back-ends of a list of tables. Raises ConfigError that names the table (from 1)."""
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise ConfigError("power.backends must be a list of tables", "write [[power.backends]]")
    return PowerBackends(tuple(_backend(table, n) for n, table in enumerate(tables, 1)))


def _backend(table: Mapping[str, Any], number: int) -> PowerBackend:
    place = f"power.backends: table {number}"
    for key, value in table.items():
        _check(key, value, place)
    kind = table.get("kind")
    if kind not in KINDS:
        raise ConfigError(f"{place}: kind is {kind!r}", f"one of {', '.join(KINDS)}")
    for key in table:
        if key not in {"nodes", "kind", "verbs"} | _OF_KIND[kind]:
            raise ConfigError(f"{place}: {key} is not for the kind {kind}")
    for key in ("nodes", *_NEEDED[kind]):
        if not table.get(key):
            raise ConfigError(f"{place}: {key} is missing", "see power.backends in gsched.toml(5)")
    values: dict[str, Any] = {k: tuple(v) if k in _LISTS else v for k, v in table.items()}
    values["nodes"] = _nodes(table["nodes"], place)
    commands: dict[str, Any] = default_commands(kind, has_ca_file=bool(table.get("ca_file")))
    commands |= {verb: values[verb] for verb in VERBS if values.get(verb)}
    values |= {"verbs": values.get("verbs", ()), **commands}
    backend = PowerBackend(**values)
    backend = _with_ssh(backend, place) if kind == "ssh" else _with_commands(backend, place)
    if "port" in table and not 1 <= backend.port <= 65535:
        raise ConfigError(f"{place}: port is {backend.port}, allowed is 1 to 65535")
    return backend


def _check(key: str, value: Any, place: str) -> None:
    if key not in _KEYS:
        near = difflib.get_close_matches(key, _KEYS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(_KEYS)}"
        raise ConfigError(f"{place}: unknown key {key}", hint)
    if key in _LISTS:
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise ConfigError(f"{place}: {key} is {value!r}, but it must be a list of texts")
        _refuse_nul(key, value, place)
        return
    if key == "port":
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigError(f"{place}: port is {value!r}, but it must be a whole number")
        return
    if not isinstance(value, str):
        raise ConfigError(f"{place}: {key} is {value!r}, but it must be a text")
    _refuse_nul(key, [value], place)
    if key in _FILES and value and not Path(value).is_absolute():
        raise ConfigError(f"{place}: {key} is {value!r}, which is no absolute path")
    if key == "password_variable" and not _VARIABLE.fullmatch(value):
        raise ConfigError(f"{place}: {value!r} is no name of an environment variable")


def _refuse_nul(key: str, words: list[str], place: str) -> None:
    if any("\0" in word for word in words):
        raise ConfigError(f"{place}: {key} has a NUL character, which no program can be given")


def _nodes(hostlists: list[str], place: str) -> tuple[str, ...]:
    try:
        return tuple(name for hostlist in hostlists for name in expand(hostlist))
    except DataError as error:
        raise ConfigError(f"{place}: nodes: {error.message}", error.hint) from None


def _with_ssh(backend: PowerBackend, place: str) -> PowerBackend:
    """By default to the node itself, which can only be told to go."""
    backend = replace(backend, host=backend.host or "%n")
    _check_placeholders("host", backend.host, "n", place)
    is_node = backend.host == "%n"
    verbs = backend.verbs or (("suspend",) if is_node else VERBS)
    _check_verbs(verbs, place)
    if is_node and "resume" in verbs:
        raise ConfigError(
            f"{place}: a node that sleeps answers no SSH, so it cannot be resumed at host "
            f"{backend.host!r}",
            'set verbs = ["suspend"], and a second table, such as of the kind ipmi, resumes',
        )
    return replace(backend, verbs=verbs)


def _with_commands(backend: PowerBackend, place: str) -> PowerBackend:
    given = tuple(verb for verb in VERBS if getattr(backend, verb))
    verbs = backend.verbs or given
    _check_verbs(verbs, place)
    if not verbs or set(verbs) - set(given):
        lacking = sorted(set(verbs) - set(given)) or ["suspend", "resume"]
        raise ConfigError(f"{place}: no command to {' or '.join(lacking)} is given")
    if backend.password_variable and not backend.password_file:
        raise ConfigError(f"{place}: password_variable has no password_file to be filled from")
    _check_placeholders("host", backend.host, "n", place)
    values = {"n": True, "h": backend.host, "u": backend.user, "p": backend.password_file,
              "s": backend.system, "c": backend.ca_file}  # fmt: skip
    known = "".join(letter for letter, value in values.items() if value)
    for verb in verbs:
        words: tuple[str, ...] = getattr(backend, verb)
        if not Path(words[0]).is_absolute():
            raise ConfigError(
                f"{place}: {verb} runs {words[0]!r}, which is no absolute path",
                "Slurm calls without an environment: nothing is looked for on a PATH",
            )
        for word in words:
            _check_placeholders(verb, word, known, place)
    return replace(backend, verbs=verbs)


def _check_verbs(verbs: tuple[str, ...], place: str) -> None:
    if unknown := [verb for verb in verbs if verb not in VERBS]:
        raise ConfigError(f"{place}: verbs has {unknown[0]!r}", f"any of {', '.join(VERBS)}")


def _check_placeholders(key: str, text: str, known: str, place: str) -> None:
    for letter in placeholders(text):
        if letter != "%" and (not letter or letter not in known):
            raise ConfigError(
                f"{place}: {key} has %{letter}, which stands for nothing here",
                f"there are {', '.join(f'%{one}' for one in known)}; write %% for a percent sign",
            )
