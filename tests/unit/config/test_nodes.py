"""[ces] and [energy]: what cannot be meant is refused where it stands."""

from __future__ import annotations

import pytest

from gsched.config import loader
from gsched.config.node_settings import CesTable
from gsched.config.nodes import check_holidays
from gsched.errors import ConfigError


@pytest.fixture
def load_text(tmp_path):
    def load(text, **environ):
        path = tmp_path / "site.toml"
        path.write_text(text, encoding="utf-8")
        return loader.load({"GSCHED_CONFIG": str(path), **environ})

    return load


def test_what_a_site_may_write(load_text):
    settings = load_text(
        '[ces]\nmode = "act"\nexclude_nodes = ["gn[01-04]"]\ntime_zone = "Europe/Berlin"\n'
        'country = "DE"\nsubdivision = "BY"\nfall_h = 2\n[ces.least_idle]\ndebug = 2\n'
        '[energy]\ncurrency = "€"\n',
        GSCHED_CES_SPARE="3",
    )
    assert settings.ces.least_idle == {"debug": 2}
    assert (settings.ces.fall_h, settings.ces.spare) == (2.0, 3)
    assert settings.energy.currency == "€"
    check_holidays(settings.ces)
    assert load_text("", GSCHED_CES_LEAST_IDLE="a=1,b=2").ces.least_idle == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[ces]\nmode = "on"', "allowed is off, observe, act"),
        ('[ces]\nexclude_nodes = ["gn[01-"]', "ces.exclude_nodes"),
        ('[ces]\nexclude_nodes = [""]', "names no node"),
        ('[ces]\nexclude_nodes = ["gn*"]', "have no meaning in a host list"),
        ("[ces]\nmax_sleep = 0", "ces.max_sleep"),
        ('[ces]\ntime_zone = "Mars/Olympus"', "no time zone"),
        ('[ces]\ntime_zone = "../../etc/passwd"', "no time zone"),
        ('[ces]\ncountry = "Germany"', "no country"),
        ('[ces]\nsubdivision = "../x"', "no part of a country"),
        ("[ces.least_idle]\ndebug = -1", "debug = -1, allowed is 0"),
        ("[ces.least_idle]\ndebug = 1.5", "a table of whole numbers"),
        ("[ces.least_idle]\ndebug = true", "a table of whole numbers"),
        ("[ces]\nspare = -2", "allowed is -1"),
        ("[ces]\nperiod_s = 0", "ces.period_s"),
        ("[ces]\nfuture_window_s = 99999999", "ces.future_window_s"),
        ("[energy]\nidle_w = -1.0", "energy.idle_w"),
        ('[energy]\ncurrency = ""', "no name of a currency"),
        ('[energy]\ncurrency = "a b"', "no name of a currency"),
    ],
)
def test_what_does_not_fit(load_text, text, message):
    with pytest.raises(ConfigError, match=r"site\.toml") as raised:
        load_text(text)
    assert message in raised.value.message


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (CesTable(country="XX"), "no holidays are known of XX"),
        (CesTable(country="DE", subdivision="CA"), "no holidays are known of DE-CA"),
        (CesTable(subdivision="BY"), "ces.subdivision has no country"),
    ],
)
def test_countries_without_known_holidays(table, message):
    with pytest.raises(ConfigError, match=message):
        check_holidays(table)


def test_countries_with_known_holidays():
    check_holidays(CesTable())
    check_holidays(CesTable(country="US", subdivision="CA"))
