"""One fault: how it comes, how it goes, and what is looked at afterwards."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gsched.errors import UnavailableError
from gsched.testbed.wait import wait_for
from support.faults_check import findings
from support.faults_site import FaultSite

Step = Callable[[FaultSite], None]

RECOVERY_S = 90.0
"""So long the checks may take to hold again; longer is a finding."""
_MOST_LINES = 6


def nothing(_site: FaultSite) -> None:
    """A step of a fault that needs none."""


@dataclass(frozen=True)
class Fault:
    """One fault. `inject` returns when it has been felt, `heal` when its cause is gone.

    `setting` names the site that it needs. `slurm_stops`: no job can start meanwhile. `ends`: the
    daemon does not survive it; whatever supervises it (systemd, the harness) starts it anew.
    `person`: what somebody has to do, '' where nobody has to do anything. `reorders`: the queue
    changes while it lasts, so that there is something to write.
    """

    name: str
    what: str
    inject: Step
    heal: Step = nothing
    setting: str = "sqlite"
    slurm_stops: bool = False
    ends: bool = False
    person: str = ""
    reorders: bool = True


@dataclass
class Outcome:
    """What one fault did; `findings` empty = every check held."""

    name: str
    what: str
    setting: str
    person: str
    said: list[str] = field(default_factory=list)
    ended_meanwhile: int = 0
    """Users' jobs that ran to their end while the fault was in force."""
    ended_after: int = 0
    recovery_s: float | None = None
    """Seconds from the end of the cause to a round after which every check holds."""
    findings: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "held": not self.findings}


def strike(site: FaultSite, fault: Fault) -> Outcome:
    """Inflict `fault` on a site whose daemon acts; heal it; look at everything."""
    outcome = Outcome(fault.name, fault.what, fault.setting, fault.person)
    if site.gone():
        site.start()
    site.listen()
    before = site.ended_jobs()
    try:
        if fault.reorders:
            site.pause_users() if fault.slurm_stops else site.enlarge()
        fault.inject(site)
        if not fault.slurm_stops:
            wait_for(lambda: site.ended_jobs() > before, "a user's job to end meanwhile")
        outcome.ended_meanwhile = site.ended_jobs() - before
    except (UnavailableError, AssertionError) as error:
        outcome.findings.append(f"while it lasted: {error}")
    finally:
        fault.heal(site)
        site.resume_users()
    healed = time.monotonic()
    outcome.findings += recover(site, fault)
    outcome.recovery_s = round(time.monotonic() - healed, 1)
    outcome.ended_after = site.ended_jobs() - before - outcome.ended_meanwhile
    outcome.said = in_short(site.said())
    if site.secret and site.says(site.secret):
        outcome.findings.append("the database's password is in the log")
    return outcome


def recover(site: FaultSite, fault: Fault) -> list[str]:
    """Start what has ended, wait until every check holds; what does not in RECOVERY_S seconds."""
    if fault.ends:
        if not site.gone():
            return ["the daemon should have ended"]
        site.start()
    elif site.gone():
        return [f"the daemon has ended: {site.said()[-2:]}"]
    began, ended = time.time(), site.ended_jobs()
    last = ["no round ended"]

    def holds() -> bool:
        nonlocal last
        if site.gone():
            last = [f"the daemon has ended: {site.said()[-2:]}"]
            return True
        if site.status().get("as_of", 0) < began:
            return False
        if site.checks_order and not site.is_in_order():
            last = ["the order is not the policy's"]
            return False
        if site.ended_jobs() <= ended:
            last = ["no user's job has ended since"]
            return False
        last = findings(site, after_recovery=True)
        return not last

    try:
        wait_for(holds, "recovery", RECOVERY_S, poll_s=0.3)
    except (UnavailableError, AssertionError) as error:
        last = last or [str(error)]
    return last


_DAILY = (": INFO: round: ", "daemon of ", "daemon stopped; ")
_NUMBERS = re.compile(r"\d+(\.\d+)?")


def in_short(lines: list[str]) -> list[str]:
    """What a daemon said beside the daily round: lines that differ in more than numbers."""
    seen: dict[str, str] = {}
    for line in lines:
        if not any(words in line for words in _DAILY):
            seen.setdefault(_NUMBERS.sub("N", line), line)
    return list(seen.values())[:_MOST_LINES]
