"""The table of privileges: its order, and the manual page that tells it to people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gsched.daemon.helper import NODE_VERBS, VERBS
from gsched.slurm.privileges import ACTS, ActName, Privilege, denied_to, suffices

PAGE = Path(__file__).parents[3] / "man" / "man7" / "gsched-privileges.7"


@pytest.mark.parametrize("act", ["site-factor", "drain"])
def test_more_privilege_is_never_less(act: ActName) -> None:
    levels: list[Privilege] = ["user", "operator", "admin", "slurm-user", "root"]
    allowed = [suffices(level, act) for level in levels]
    assert allowed == sorted(allowed)
    assert (allowed[0], allowed[2]) == (False, True)


def test_what_is_denied_is_told_to_the_one_who_does_it() -> None:
    assert {act.doer for act in denied_to("user", "daemon")} == {"daemon"}
    assert denied_to("operator", "daemon") == ()
    assert {act.name for act in denied_to("operator", "helper")} == {
        "drain", "resume", "power", "admin-comment",
    }  # fmt: skip
    assert denied_to("admin", "helper") == ()


def test_the_page_lists_the_table() -> None:
    text = PAGE.read_text().replace("\\-", "-")
    sections = dict(re.findall(r"^\.SS By the (\w+): \w+\n(.*?)(?=^\.S[SH])", text, re.M | re.S))
    levels = dict(re.findall(r"^\.SS By the (\w+): (\w+)", text, re.M))
    for doer, level in (("daemon", "operator"), ("helper", "admin")):
        acts = [act for act in ACTS if act.doer == doer]
        assert {act.least for act in acts} == {level}
        assert levels[doer].lower().startswith(level)
        told = re.findall(r"^\.TP\n(\S+)\n(.+)\.$", sections[doer], re.M)
        assert told == [(act.name, act.words[0].upper() + act.words[1:]) for act in acts]


def test_the_page_lists_the_helpers_verbs() -> None:
    text = PAGE.read_text().replace("\\-", "-")
    assert set(re.findall(r"^\.BR (\S+) [,.]$", text, re.M)) >= set(VERBS)
    assert set(NODE_VERBS) < set(VERBS)
