"""Faults of a policy that a plugin brings along."""

from __future__ import annotations

from pathlib import Path

from gsched.testbed.wait import wait_for
from support.faults import Fault
from support.faults_process import imports
from support.faults_site import FaultSite

FILE_VARIABLE = "FAULTY_POLICY_FILE"

_WAYS = {
    "raise": "raises an exception",
    "exit": "calls sys.exit",
    "loop": "never comes back",
    "loop-and-hold-on": "never comes back, and swallows every Exception",
    "none": "returns nothing",
    "text": "returns a text",
    "nan": "returns levels that are no numbers",
    "huge": "returns levels beyond every bound",
    "untouchable": "puts jobs first that must not be touched, and one that is not there",
    "no-reasons": "gives no reasons",
    "memory": "returns a memory that cannot be kept",
}
_FAILS = {"raise", "exit", "loop", "loop-and-hold-on", "none", "text"}


def switch(site: FaultSite) -> Path:
    """The file that says how this site's policy goes wrong."""
    return site.bed.spec.root / "way"


def policy_environment(site: FaultSite) -> dict[str, str]:
    """What a daemon needs to find the plugin."""
    return {**imports("faulty_policy"), FILE_VARIABLE: str(switch(site))}


def _policy(way: str) -> Fault:
    def inject(site: FaultSite) -> None:
        switch(site).write_text(way)
        if way in _FAILS:
            wait_for(lambda: site.says("round failed"), f"a failed round: {site.said()[-2:]}")
        else:
            site.wait_for_round(site.status()["as_of"] + 2)

    def heal(site: FaultSite) -> None:
        switch(site).write_text("")

    return Fault(f"policy-{way}", f"the policy {_WAYS[way]}", inject, heal, setting="policy")


POLICY_FAULTS = tuple(_policy(way) for way in _WAYS)
