"""What doctor says of energy saving: planted, found, and gone when it is mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.paper_site import PaperSite

from gsched.daemon.unix_server import Asker, UnixServer

Change = Callable[[PaperSite], None]


def ces(**values: str) -> Change:
    return lambda site: site.configure("ces", **values)


def helper(**values: str) -> Change:
    return lambda site: site.configure("helper", **values)


VERBS = '["power-down", "power-up"]'


@pytest.fixture
def site(tmp_path: Path) -> Iterator[PaperSite]:
    made = PaperSite(tmp_path)
    for key in ("SuspendProgram", "ResumeProgram"):
        made.set(key, "/bin/true")
    made.set("SuspendTime", "8640000 sec")
    made.configure("ces", mode='"act"')
    made.configure("helper", verbs=VERBS, nodes='["gn[01-04]"]', user='"root"')
    with UnixServer(lambda _question, _asker: {}).listening(made.state / "helper.sock", 0o666):
        yield made


def test_a_sound_site_has_no_finding(site: PaperSite) -> None:
    assert site.complaints() == {}


def test_where_it_is_off_nothing_is_asked(site: PaperSite) -> None:
    site.configure("ces", mode='"off"', country='"QQ"', partitions='["none"]')
    site.configure("helper", verbs="[]")
    assert site.complaints() == {}
    assert any(f.code == "ces" and "switched off" in f.found for f in site.examine())


@pytest.mark.parametrize(
    ("code", "level", "plant", "says", "mend"),
    [
        ("ces-holidays", "warn", ces(country='"QQ"'), "no holidays are known", ces(country='"US"')),
        ("partition-unknown", "warn", ces(partitions='["gpus"]'), "no partition gpus → write gpu?",
         ces(partitions='["gpu"]')),
        ("partition-unknown", "warn", ces(least_idle="{ lon = 2 }"), "no partition lon",
         ces(least_idle="{ long = 2 }")),
        ("node-unknown", "warn", ces(exclude_nodes='["gn[03-09]"]'), "no node gn[05-09]",
         ces(exclude_nodes='["gn03"]')),
        ("suspend-time", "warn", lambda s: s.set("SuspendTime", "INFINITE"), "no node can be",
         lambda s: s.set("SuspendTime", "8640000 sec")),
        ("suspend-time-small", "warn", lambda s: s.set("SuspendTime", "600 sec"), "600 s", None),
        ("power-program", "warn", lambda s: s.set("ResumeProgram", "(null)"), "it is not set",
         lambda s: s.set("ResumeProgram", "/bin/true")),
        ("ces-helper-verbs", "warn", helper(verbs='["power-down"]'), "lacks power-up",
         helper(verbs=VERBS)),
        ("ces-helper-verbs", "note", lambda s: (helper(verbs="[]")(s), ces(mode='"observe"')(s))[1],
         "lacks power-down and power-up", helper(verbs=VERBS)),
        ("ces-helper-nodes", "note", helper(nodes='["gn[01-03]"]'), "gn04 is not among",
         helper(nodes='["gn[01-04]"]')),
    ],
)  # fmt: skip
def test_what_is_planted_is_found_and_gone_when_mended(
    site: PaperSite, code: str, level: str, plant: Change, says: str, mend: Change | None
) -> None:
    assert code not in site.complaints()
    plant(site)
    finding = site.complaints()[code]
    assert finding.level == level
    assert says in f"{finding.found} → {finding.mend}"
    assert finding.mend
    if mend is None:
        site.follow(finding.mend)
    else:
        mend(site)
    assert code not in site.complaints()


POOL = {
    "pool": "a100x8@gpu",
    "nodes": 4,
    "excluded": 1,
    "forecast": {"code": "demand.forecast", "params": {}},
    "forecast_made_at": 1,
}
SOUND: dict[str, Any] = {"mode": "act", "acting": True, "why": "", "problem": "", "pools": [POOL]}


@contextmanager
def daemon_that_says(site: PaperSite, told: dict[str, Any]) -> Iterator[None]:
    def answer(_question: dict[str, Any], _asker: Asker) -> dict[str, Any]:
        return {"ces": told}

    with UnixServer(answer).listening(site.state / "daemon.sock", 0o666):
        yield


@pytest.mark.parametrize(
    ("code", "level", "wrong", "says"),
    [
        ("ces-failing", "warn", {"problem": "scontrol says no"}, "scontrol says no"),
        ("ces-observes", "note", {"acting": False, "why": "frozen"}, "nothing is ordered: frozen"),
        ("ces-helper-fails", "warn", {"acting": False, "why": "gsched-helper: it refuses"},
         "woken: gsched-helper: it refuses"),
        ("ces-wake-failures", "warn",
         {"wake_failures": 3, "max_failures": 3, "failed_nodes": ["gn01", "gn02", "gn04"]},
         "3 did not wake lately (gn[01-02,04]), 3 are the limit"),
        ("ces-all-excluded", "note", {"pools": [POOL | {"excluded": 4}]}, "none of 4 nodes is"),
        ("ces-stopped", "warn", {"stopped": "5 failures"}, "5 failures"),
        ("ces-given-up", "warn", {"given_up": {"gn01": "x", "gn02": "y"}}, "gn[01-02]"),
        ("ces-forecast-failing", "warn", {"demand": {"problem": "exit status 9"}}, "status 9"),
        ("ces-no-forecast", "note", {"pools": [POOL, {
            **POOL, "forecast_made_at": None,
            "forecast": {"code": "demand.worse-than-naive", "params": {"rival": "last-value"}}}]},
         "1 of 2 pools is put to sleep, for want of a forecast: the forecast has lately been worse "
         "than last-value (1)"),
    ],
)  # fmt: skip
def test_a_daemon_that_fares_badly_is_found(
    site: PaperSite, code: str, level: str, wrong: dict[str, Any], says: str
) -> None:
    with daemon_that_says(site, SOUND):
        assert code not in site.complaints()
        assert any(f.code == "ces" and "1 pools is forecast" in f.found for f in site.examine())
    with daemon_that_says(site, SOUND | wrong):
        finding = site.complaints()[code]
        is_well = any(f.code == "ces" and "is forecast" in f.found for f in site.examine())
        assert is_well == (code == "ces-given-up")  # single nodes
    assert (finding.level, finding.mend != "") == (level, True)
    assert says in finding.found


def test_what_did_not_wake_below_the_limit_is_no_finding(site: PaperSite) -> None:
    for few in ({"wake_failures": 2, "max_failures": 3}, {"wake_failures": 2, "max_failures": 0}):
        with daemon_that_says(site, SOUND | few):
            assert "ces-wake-failures" not in site.complaints()


def test_a_daemon_that_does_not_know_of_it_yet_is_found(site: PaperSite) -> None:
    with daemon_that_says(site, {}):
        assert site.complaints()["ces-not-begun"].level == "note"
