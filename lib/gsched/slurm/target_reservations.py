"""Slurm's reservations for jobs whose deadline is due: what keeps other hands from their nodes.

They are flexible (FLEX): their job may start on other nodes as well, and runs on when they end. At
their end a job that still waits in one waits without it (NO_HOLD_JOBS_AFTER_END), so that nothing
is lost when nobody looks after them. Slurm purges them (PURGE_COMP) when their job is over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gsched.errors import UsageError
from gsched.model.cluster import ReservationView
from gsched.model.hostlist import fold
from gsched.slurm import parse_config
from gsched.slurm.actions import checked_id
from gsched.slurm.failures import may_pass
from gsched.slurm.patience import Patience, Runner
from gsched.slurm.records import QueueRow
from gsched.slurm.run import run

PREFIX = "gsched_target_"

FLAGS = "IGNORE_JOBS,FLEX,NO_HOLD_JOBS_AFTER_END,PURGE_COMP=00:01:00"
"""IGNORE_JOBS: those that run there go on until they end."""

MAX_MINUTES = 60

_NAME = re.compile(PREFIX + r"\d{1,10}(?:_\d{1,10})?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.$@-]{0,254}", re.ASCII)
_GONE = ("Requested reservation is invalid", "Reservation does not exist")


def reservation_name(slurm_id: str) -> str:
    """What the reservation of this job is called."""
    return PREFIX + slurm_id


def is_in_own(row: QueueRow) -> bool:
    """Whether a job is in the reservation that bears its number."""
    return row.reservation == reservation_name(row.slurm_id)


class TargetReservations:
    """One cluster's reservations. Whatever changes something is sent once.

    What Slurm refuses comes back in its words, "" is done; a Slurm that does not answer raises the
    errors of ``gsched.slurm.run``, and what was sent may have been taken then.
    """

    def __init__(self, timeout_s: float, *, runner: Runner = run) -> None:
        """`timeout_s` limits each command of Slurm."""
        self._patience = Patience(timeout_s, lambda _: None, asks_again=False, runner=runner)

    def shown(self) -> Mapping[str, ReservationView]:
        """Those of the form of ours, by name, whoever made them."""
        argv = ("scontrol", "-a", "-o", "show", "reservation")
        found = parse_config.parse_reservations(self._patience.read(argv).check().stdout)
        return {one.name: one for one in found if _NAME.fullmatch(one.name)}

    def make(self, name: str, user: str, nodes: Sequence[str], minutes: int) -> str:
        """Reserve whole nodes for the jobs of one user, from now on."""
        if _USER.fullmatch(user) is None or not nodes:
            raise UsageError(f"no reservation can be made for {user[:80]!r}")
        return self._scontrol(
            "create",
            "reservation",
            f"ReservationName={_checked(name)}",
            f"Users={user}",
            "StartTime=now",
            f"Duration={_minutes(minutes)}",
            f"Nodes={fold(nodes)}",
            f"Flags={FLAGS}",
        )

    def last(self, name: str, minutes: int) -> str:
        """Let one last so many minutes from its beginning."""
        return self._scontrol(
            "update", f"ReservationName={_checked(name)}", f"Duration={minutes:d}"
        )

    def move(self, name: str, nodes: Sequence[str]) -> str:
        """Reserve these nodes in place of the former ones."""
        if not nodes:
            raise UsageError(f"{name} would reserve nothing")
        return self._scontrol("update", f"ReservationName={_checked(name)}", f"Nodes={fold(nodes)}")

    def put_in(self, slurm_id: str) -> str:
        """Put a job into its reservation."""
        name = _checked(reservation_name(slurm_id))
        return self._scontrol("update", f"JobId={checked_id(slurm_id)}", f"ReservationName={name}")

    def take_out(self, slurm_id: str) -> str:
        """Let a job, waiting or running, be in no reservation."""
        return self._scontrol("update", f"JobId={checked_id(slurm_id)}", "ReservationName=")

    def remove(self, name: str) -> str:
        """Remove one; Slurm refuses that while a job is in it. One that is gone is no error."""
        said = self._scontrol("delete", f"ReservationName={_checked(name)}")
        return "" if any(text in said for text in _GONE) else said

    def _scontrol(self, *words: str) -> str:
        answer = self._patience.once(("scontrol", *words), "")
        if answer.status == 0:
            return ""
        if may_pass(answer.stderr):
            raise answer.failure()
        said = (answer.stderr.strip() or answer.stdout.strip()).partition("\n")[0]
        return said or f"status {answer.status}"


def _checked(name: str) -> str:
    """A name of the form of ours: no other reservation is ever named to Slurm."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"not a reservation of gsched's: {name[:80]!r}")
    return name


def _minutes(minutes: int) -> int:
    if not 1 <= minutes <= MAX_MINUTES:
        raise UsageError(f"a reservation lasts 1 to {MAX_MINUTES} minutes, not {minutes}")
    return minutes
