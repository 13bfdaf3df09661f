"""Reads the settings: TOML files, then environment variables, over the defaults.

These files are read, the later one wins key by key: ``/etc/gsched/gsched.toml``, then
``$XDG_CONFIG_HOME/gsched/gsched.toml`` (``~/.config`` where that is unset). With ``$GSCHED_CONFIG``
set, that file alone. Then ``$GSCHED_<TABLE>_<KEY>`` (``GSCHED_DAEMON_POLICY``) and
``$GSCHED_STATE_DIR``; an empty variable counts as unset, lists are split at commas.
Nothing is ignored: an unknown key or a value that does not fit is an error that names its place.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import stat
import tomllib
import typing
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from gsched.config import deadlines
from gsched.config.address import parse_address
from gsched.config.fairness import check_fairness
from gsched.config.freeze import parse_freeze
from gsched.config.nodes import check_node_text
from gsched.config.phases import parse_rules
from gsched.config.power import parse_backends
from gsched.config.settings import Settings
from gsched.config.values import KINDS
from gsched.errors import ConfigError
from gsched.model.phases import PhaseRules
from gsched.model.power import PowerBackends
from gsched.secret_files import why_exposed

SYSTEM_FILE = Path("/etc/gsched/gsched.toml")
PREFIX = "GSCHED_"
CONFIG_VARIABLE = PREFIX + "CONFIG"

BOUNDS: dict[str, tuple[float, float]] = {
    "slurm.command_timeout_s": (1, 3600),
    "predict.retrain_interval_s": (0, 30 * 86400),
    "predict.min_jobs": (1, 1_000_000),
    "predict.history_days": (1, 36500),
    "predict.default_duration_s": (1, 366 * 86400),
    "predict.keep_models": (1, 1000),
    "daemon.interval_s": (1, 86400),
    "daemon.max_shift": (0, 2**31 - 1),
    "daemon.quantum": (0, 2**31 - 1),
    "daemon.dead_band": (0, 2**31 - 1),
    "daemon.write_budget": (1, 1_000_000),
    "daemon.decide_limit_s": (1, 3600),
    "daemon.burst_interval_s": (0, 86400),
    "daemon.starvation_bound_s": (0, 366 * 86400),
    "daemon.control_interval_s": (0, 366 * 86400),
    "forecast.interval_s": (1, 86400),
    "forecast.samples": (4, 1024),
    "forecast.cpu_share": (0.001, 1),
    "power.parallel": (1, 1000),
    "power.tries": (1, 20),
    "power.backoff_s": (0, 3600),
    "power.connect_timeout_s": (0.1, 3600),
    "power.auth_timeout_s": (0.1, 3600),
    "power.command_timeout_s": (0.1, 3600),
    "power.suspend_limit_s": (1, 86400),
    "power.resume_limit_s": (1, 86400),
    "power.stop_after": (1, 1_000_000),
    "power.stop_window_s": (1, 366 * 86400),
    "ces.spare": (-1, 1_000_000),
    "ces.min_idle_s": (0, 366 * 86400),
    "ces.hold_s": (0, 366 * 86400),
    "ces.period_s": (1, 366 * 86400),
    "ces.past_window_s": (600, 7 * 86400),
    "ces.future_window_s": (600, 86400),
    "ces.fall_h": (-1_000_000, 1_000_000),
    "ces.fall_p": (-1_000_000, 1_000_000),
    "ces.peak_window_s": (0, 86400),
    "ces.max_sleep": (1, 1_000_000),
    "ces.max_wake": (0, 1_000_000),
    "ces.stagger_s": (0, 86400),
    "ces.max_failures": (0, 1_000_000),
    "ces.failure_memory_s": (1, 366 * 86400),
    "ces.history_days": (1, 3660),
    "energy.idle_w": (0, 1_000_000),
    "energy.asleep_w": (0, 1_000_000),
    "energy.waking_w": (0, 1_000_000),
    "energy.cooling_factor": (0, 100),
    "energy.price_a_kwh": (0, 1_000_000),
    "energy.co2_g_a_kwh": (0, 100_000),
    "submit.suggest_wait_s": (1, 3600),
    "jobscript.grace_s": (1, 65535),
    **deadlines.BOUNDS,
}
"""Smallest and largest allowed value of each number, both included."""

CHOICES: dict[str, tuple[str, ...]] = {
    "predict.estimator": ("model", "constant", "table"),
    "ces.mode": ("off", "observe", "act"),
}
"""The allowed values of a text that is not free."""

_PATHS = {"daemon.socket", "daemon.metrics_file", "heartbeat.dir", "helper.socket", "jobscript.dir",
          "jobscript.python", "power.state_dir"}  # fmt: skip
_ADDRESSES = {"daemon.query_listen", "daemon.query_address", "daemon.metrics_listen"}

_LEAD_TO_DAEMON = ("state_dir", "daemon.socket", "power.state_dir")

FILES_ONLY = frozenset({"phases.rules", "power.backends"})
"""Keys that no environment variable can hold."""

_NOT_CONFIGURED = {"sources"}

_LISTS_OF_TABLES: dict[Any, Callable[[Any], Any]] = {
    PhaseRules: parse_rules,
    PowerBackends: parse_backends,
}
"""What is read by a module of its own, which names its key in its errors."""


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """The configuration in force. Raises ConfigError naming the place of whatever is wrong."""
    settings = Settings()
    for path in _files(environ):
        document = _read(path)
        settings = _merged(settings, document, "", str(path))
        _refuse_readable_password(settings, path)
        settings = dataclasses.replace(settings, sources=(*settings.sources, path))
    return _merged_environment(settings, environ)


def load_to_ask(environ: Mapping[str, str] = os.environ) -> tuple[Settings, ConfigError | None]:
    """The configuration, or where it is wrong what leads to a daemon that runs, and the error.

    ``state_dir``, ``daemon.socket`` and ``power.state_dir`` are taken from wherever they can be
    read, a file up to where it stops being TOML; else they have their defaults.
    """
    try:
        return load(environ), None
    except ConfigError as error:
        settings, wrong = Settings(), error
    with suppress(ConfigError):
        for path in _files(environ):
            settings = _place_of_daemon(settings, _beginning(path), str(path))
    told = {key: environ.get(variable(key), "") for key in _LEAD_TO_DAEMON}
    document = {"state_dir": told["state_dir"], "daemon": {"socket": told["daemon.socket"]},
                "power": {"state_dir": told["power.state_dir"]}}  # fmt: skip
    return _place_of_daemon(settings, document, "environment"), wrong


def load_part(keys: Collection[str], environ: Mapping[str, str] = os.environ) -> Settings:
    """As `load`, of some keys and tables alone: what is wrong elsewhere is not looked at.

    A file that is no TOML, or that cannot be read, is wrong all the same.
    """
    settings = Settings()
    for path in _files(environ):
        part = {key: value for key, value in _read(path).items() if key in keys}
        settings = _merged(settings, part, "", str(path))
    wanted = {variable(key) for key in known_keys() if key.partition(".")[0] in keys}
    return _merged_environment(settings, {n: t for n, t in environ.items() if n in wanted})


def _place_of_daemon(settings: Settings, document: Mapping[str, Any], place: str) -> Settings:
    """`settings` with those keys that lead to the daemon, as far as they can be used."""
    for key in _LEAD_TO_DAEMON:
        table, _, name = key.rpartition(".")
        values = document.get(table) if table else document
        if not isinstance(values, dict) or not values.get(name):
            continue
        found = {name: values[name]}
        with suppress(ConfigError):
            settings = _merged(settings, {table: found} if table else found, "", place)
    return settings


def _beginning(path: Path) -> dict[str, Any]:
    """What a file says up to the line that is wrong; {} where nobody may be obeyed or read."""
    try:
        _refuse_strangers_file(path, path.stat())
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    for end in range(len(lines), 0, -1):
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads("\n".join(lines[:end]))
    return {}


def known_keys() -> dict[str, Any]:
    """Every key in dotted form (``daemon.policy``) with its type, in the order of Settings."""
    found: dict[str, Any] = {}
    for name, kind in _fields(Settings).items():
        if dataclasses.is_dataclass(kind):
            found |= {f"{name}.{key}": inner for key, inner in _fields(kind).items()}
        else:
            found[name] = kind
    return found


def variable(key: str) -> str:
    """The environment variable of a dotted key: ``daemon.policy`` → ``GSCHED_DAEMON_POLICY``."""
    return PREFIX + key.replace(".", "_").upper()


# -- files ---------------------------------------------------------------------------------------


def _files(environ: Mapping[str, str]) -> list[Path]:
    only = environ.get(CONFIG_VARIABLE)
    if only:
        if not os.path.isfile(only):  # noqa: PTH113 - also where its folder is closed
            raise ConfigError(
                f"{CONFIG_VARIABLE} names {only}, which is no file",
                "correct the path, or unset the variable to use the usual files",
            )
        return [Path(only)]
    candidates = [SYSTEM_FILE]
    if environ.get("XDG_CONFIG_HOME"):
        candidates.append(Path(environ["XDG_CONFIG_HOME"]) / "gsched" / "gsched.toml")
    elif environ.get("HOME"):
        candidates.append(Path(environ["HOME"]) / ".config" / "gsched" / "gsched.toml")
    return [path for path in candidates if _may_exist(path)]


def _may_exist(path: Path) -> bool:
    """False only when there surely is no such file: another is read, which says what is wrong."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _read(path: Path) -> dict[str, Any]:
    try:
        _refuse_strangers_file(path, path.stat())
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}") from error


def _refuse_strangers_file(path: Path, status: os.stat_result) -> None:
    """Settings name the files that are written and the database that is believed.

    Raises ConfigError where anybody could have written them, and for root (sudo that keeps a
    user's HOME or variables) those of another user.
    """
    if status.st_mode & stat.S_IWOTH:
        raise ConfigError(f"{path}: anybody may write to it", f"chmod o-w {path}")
    if os.geteuid() == 0 and status.st_uid != 0:
        raise ConfigError(
            f"{path}: belongs to another user (uid {status.st_uid}), and root would obey it",
            "run without root, use sudo -H, or chown the file to root",
        )


def _refuse_readable_password(settings: Settings, path: Path) -> None:
    if _has_password(settings.database.url) and (why := why_exposed(path.stat())):
        raise ConfigError(
            f"{path} holds a password in database.url, and {why}",
            f"put the password into a file of its own and name it in database.password_file, "
            f"or chown it to root and chmod 640 {path}",
        )


def _has_password(url: str) -> bool:
    try:
        parts = urlsplit(url)
        options = (name for name, _ in parse_qsl(parts.query) if name != "password_file")
        return bool(parts.password) or any("passw" in name for name in options)
    except ValueError:  # brackets that are no IPv6 address; the database room will refuse it
        return "@" in url


def _merged(settings: Any, values: Mapping[str, Any], prefix: str, place: str) -> Any:
    """`settings` (an instance of one settings class) with `values` over it."""
    fields = _fields(type(settings))
    changed: dict[str, Any] = {}
    for name, value in values.items():
        key = prefix + name
        if name not in fields:
            raise _unknown_key(key, [prefix + known for known in fields], place)
        if fields[name] in _LISTS_OF_TABLES or not dataclasses.is_dataclass(fields[name]):
            changed[name] = _checked(key, fields[name], value, place)
        elif isinstance(value, dict):
            changed[name] = _merged(getattr(settings, name), value, key + ".", place)
        else:
            raise ConfigError(f"{place}: {key} is {value!r}, but it is a table", f"write [{key}]")
    return dataclasses.replace(settings, **changed)


def _fields(kind: Any) -> dict[str, Any]:
    """Field name → type of a settings class."""
    hints = typing.get_type_hints(kind)
    names = (field.name for field in dataclasses.fields(kind))
    return {name: hints[name] for name in names if name not in _NOT_CONFIGURED}


def _unknown_key(key: str, known: list[str], place: str) -> ConfigError:
    near = difflib.get_close_matches(key, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
    return ConfigError(f"{place}: unknown key {key}", hint)


# -- environment ---------------------------------------------------------------------------------


def _merged_environment(settings: Settings, environ: Mapping[str, str]) -> Settings:
    by_variable = {variable(key): key for key in known_keys() if key not in FILES_ONLY}
    tables = tuple(
        variable(name) + "_"
        for name, kind in _fields(Settings).items()
        if dataclasses.is_dataclass(kind)
    )
    for name, text in environ.items():
        if not name.startswith(tables) and name not in by_variable:
            continue  # not a setting: GSCHED_DEBUG, GSCHED_CONFIG, a testbed's own
        if name not in by_variable:
            near = difflib.get_close_matches(name, by_variable, 1, cutoff=0.8)
            hint = f"did you mean {near[0]}?" if near else "see gsched.toml(5)"
            raise ConfigError(f"unknown environment variable {name}", hint)
        if text:
            table, _, key = by_variable[name].rpartition(".")
            value = _from_text(known_keys()[by_variable[name]], text)
            document = {table: {key: value}} if table else {key: value}
            settings = _merged(settings, document, "", f"environment variable {name}")
    return settings


def _from_text(kind: Any, text: str) -> Any:
    """The TOML value that `text` stands for; text that does not fit stays as it is."""
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            return text
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind == tuple[str, ...]:
        return [item.strip() for item in text.split(",")]
    if kind in (dict[str, float], dict[str, int], dict[str, str]):
        convert = typing.get_args(kind)[1]
        pairs = [item.partition("=") for item in text.split(",")]
        return {name.strip(): _from_text(convert, value.strip()) for name, _, value in pairs}
    return text


# -- values --------------------------------------------------------------------------------------


def _checked(key: str, kind: Any, value: Any, place: str) -> Any:
    """`value` as the type `kind`, within its bounds."""
    if kind in _LISTS_OF_TABLES:
        try:
            return _LISTS_OF_TABLES[kind](value)
        except ConfigError as error:
            raise ConfigError(f"{place}: {error.message}", error.hint) from None
    words, convert = KINDS[kind]
    result = convert(value)
    if result is None:
        raise ConfigError(f"{place}: {key} is {value!r}, but it must be {words}")
    low, high = BOUNDS.get(key, (-math.inf, math.inf))
    if key in BOUNDS and not low <= result <= high:
        raise ConfigError(f"{place}: {key} is {value!r}, allowed is {low} to {high}")
    if key in CHOICES and result not in CHOICES[key]:
        raise ConfigError(f"{place}: {key} is {value!r}, allowed is {', '.join(CHOICES[key])}")
    try:
        _check_text(key, result)
    except ConfigError as error:
        raise ConfigError(f"{place}: {key}: {error.message}", error.hint) from None
    return result


def _check_text(key: str, value: Any) -> None:
    """Raise ConfigError for a text that is not what its key asks for."""
    check_node_text(key, value)
    check_fairness(key, value)
    deadlines.check_deadlines(key, value)
    if key in _ADDRESSES and value:
        parse_address(value)
    if key in _PATHS and value and not Path(value).is_absolute():
        raise ConfigError(f"{value!r} is no absolute path")
    if key == "daemon.metrics_file" and value and not value.endswith(".prom"):
        raise ConfigError(f"{value!r} does not end in .prom: node_exporter would not read it")
    if key == "daemon.freeze":
        for text in value:
            parse_freeze(text)
