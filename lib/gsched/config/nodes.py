"""Checks of the settings that concern nodes: ``[ces]`` and ``[energy]``."""

from __future__ import annotations

import re
from zoneinfo import ZoneInfo

from gsched.config.node_settings import CesTable
from gsched.errors import ConfigError, DataError
from gsched.model.hostlist import expand

_COUNTRY = re.compile(r"[A-Z]{2,3}")
_SUBDIVISION = re.compile(r"[A-Z0-9]{1,10}", re.IGNORECASE | re.ASCII)
_CURRENCY = re.compile(r"[^\s\x00-\x1f\x7f]{1,8}")
MOST_IDLE = 1_000_000


def check_node_text(key: str, value: object) -> None:
    """Raise ConfigError for a value of ``[ces]`` or ``[energy]`` that is not what its key asks for.

    Whether holidays are known of a country is asked by `check_holidays`, which takes longer.
    """
    if key == "ces.exclude_nodes" and isinstance(value, tuple):
        for host_list in value:
            _host_list(host_list)
    if key == "ces.least_idle" and isinstance(value, dict):
        for partition, nodes in value.items():
            if not 0 <= nodes <= MOST_IDLE:
                raise ConfigError(f"{partition} = {nodes}, allowed is 0 to {MOST_IDLE}")
    if not isinstance(value, str):
        return
    if key == "energy.currency" and not _CURRENCY.fullmatch(value):
        raise ConfigError(f"{value!r} is no name of a currency", "a short word, such as EUR")
    if not value:
        return
    if key == "ces.time_zone":
        _zone(value)
    if key == "ces.country" and not _COUNTRY.fullmatch(value):
        raise ConfigError(f"{value!r} is no country", "a code of ISO 3166, such as US, DE, CN")
    if key == "ces.subdivision" and not _SUBDIVISION.fullmatch(value):
        raise ConfigError(f"{value!r} is no part of a country", "a code of ISO 3166-2 behind its -")


def check_holidays(table: CesTable) -> None:
    """Raise ConfigError where no public holidays are known of the country or its part."""
    if not table.country:
        if table.subdivision:
            raise ConfigError("ces.subdivision has no country", "set ces.country as well")
        return
    import holidays

    known = holidays.list_supported_countries(include_aliases=True)
    if table.country not in known:
        raise ConfigError(
            f"ces.country: no holidays are known of {table.country}",
            "a code of ISO 3166, such as US, DE, CN; empty = none",
        )
    parts = known[table.country]
    if table.subdivision and table.subdivision not in parts:
        raise ConfigError(
            f"ces.subdivision: no holidays are known of {table.country}-{table.subdivision}",
            f"known: {', '.join(parts)}" if parts else "this country has none of its parts",
        )


def _host_list(text: str) -> None:
    try:
        names = expand(text)
    except DataError as error:
        raise ConfigError(error.message, error.hint) from None
    if not names:
        raise ConfigError(f"{text!r} names no node")
    if set(text) & set("*?"):
        raise ConfigError(
            f"{text!r}: * and ? have no meaning in a host list", "write gn[01-16], or each name"
        )


def _zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise ConfigError(
            f"{name!r} is no time zone of this host", "a name such as Europe/Berlin"
        ) from None
