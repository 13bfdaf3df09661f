"""What is said to Slurm about gsched's own reservations, and about no others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from gsched.errors import FailedCommandError, UsageError
from gsched.slurm.run import Completed
from gsched.slurm.target_reservations import TargetReservations, reservation_name

SHOWN = """\
ReservationName=gsched_target_7 StartTime=1796090400 EndTime=1796092200 \
Duration=00:30:00 Nodes=n[1-2] Flags=FLEX Users=ann Accounts=(null)
ReservationName=maint StartTime=1796090400 EndTime=1796092200 Nodes=n3 Users=root
ReservationName=gsched_target_x StartTime=1796090400 EndTime=1796092200 Nodes=n4
"""


class Slurm:
    """Takes commands, and answers what a test says."""

    def __init__(self, status: int = 0, stderr: str = "", stdout: str = "") -> None:
        self.answer = (status, stdout, stderr)
        self.asked: list[tuple[str, ...]] = []

    def __call__(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float
    ) -> Completed:
        assert not stdin
        self.asked.append(tuple(argv))
        return Completed(tuple(argv), *self.answer)


def test_only_names_of_the_form_of_ours_are_seen() -> None:
    found = TargetReservations(5, runner=Slurm(stdout=SHOWN)).shown()
    assert set(found) == {"gsched_target_7"}
    assert found["gsched_target_7"].nodes == ("n1", "n2")
    assert found["gsched_target_7"].users == ("ann",)


def test_it_is_flexible_and_no_job_is_held_at_its_end() -> None:
    slurm = Slurm()
    port = TargetReservations(5, runner=slurm)
    assert port.make(reservation_name("7_3"), "ann", ["n2", "n1"], 30) == ""
    (argv,) = slurm.asked
    assert argv[:4] == ("scontrol", "create", "reservation", "ReservationName=gsched_target_7_3")
    assert {"Users=ann", "StartTime=now", "Duration=30", "Nodes=n[1-2]"} < set(argv)
    flags = set(argv[-1].removeprefix("Flags=").split(","))
    assert {"FLEX", "NO_HOLD_JOBS_AFTER_END", "IGNORE_JOBS", "PURGE_COMP=00:01:00"} == flags


@pytest.mark.parametrize("name", ["maint", "gsched_target_", "gsched_target_7 users=all", "7", ""])
def test_another_name_is_never_said(name: str) -> None:
    slurm = Slurm()
    port = TargetReservations(5, runner=slurm)
    for act in (
        lambda: port.remove(name),
        lambda: port.last(name, 5),
        lambda: port.move(name, ["n1"]),
        lambda: port.make(name, "ann", ["n1"], 5),
    ):
        with pytest.raises(UsageError):
            act()
    assert slurm.asked == []


@pytest.mark.parametrize("user", ["-ann", "ann,bob", "", "a b", "ann\nbob"])
def test_a_strange_user_gets_none(user: str) -> None:
    slurm = Slurm()
    with pytest.raises(UsageError):
        TargetReservations(5, runner=slurm).make("gsched_target_7", user, ["n1"], 5)
    assert slurm.asked == []


@pytest.mark.parametrize("minutes", [0, 61])
def test_it_never_lasts_for_ever(minutes: int) -> None:
    with pytest.raises(UsageError):
        TargetReservations(5, runner=Slurm()).make("gsched_target_7", "ann", ["n1"], minutes)


def test_what_slurm_refuses_comes_back_and_what_is_gone_is_no_error() -> None:
    busy = Slurm(1, "delete_reservation reservation=x: Requested reservation is in use\n")
    assert "in use" in TargetReservations(5, runner=busy).remove("gsched_target_7")
    gone = Slurm(1, "delete_reservation reservation=x: Requested reservation is invalid\n")
    assert TargetReservations(5, runner=gone).remove("gsched_target_7") == ""
    denied = Slurm(1, "Access denied to requested reservation for job 7")
    assert "denied" in TargetReservations(5, runner=denied).put_in("7")
    away = Slurm(1, "slurm_update error: Unable to contact slurm controller (connect failure)")
    with pytest.raises(FailedCommandError):
        TargetReservations(5, runner=away).take_out("7")
