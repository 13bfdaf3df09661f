"""What the daemon tells of leases in its answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gsched.daemon.lease_document import is_lease, lease_documents
from gsched.engine.lease_driver import Unsaved
from gsched.model.accounts import LeaseGrant, LeaseRevoke
from gsched.model.job import JobKey, Lease, LeaseState

KEY = JobKey("c", 7, array_task=3)
HELD = LeaseGrant(Lease("l", LeaseState.GRANTED, 1000, 3600), KEY, 900, 8, since=1000)
REVOKE = LeaseRevoke("r", 60, 5000, "12")
GONE = replace(
    HELD, lease=replace(HELD.lease, state=LeaseState.REQUEUED), since=4700, revoke=REVOKE
)
KEPT = Unsaved(900, 990, "has not saved within 60 s")


def test_of_a_job_that_holds_gpus_until_when() -> None:
    told = lease_documents([HELD], {}, private=False)
    assert told == {"7_3": {"state": "granted", "since": 1000, "end_time": 4600}}
    assert is_lease(told["7_3"])


def test_of_one_that_waits_again_for_whom_and_since_when() -> None:
    told = lease_documents([GONE], {}, private=False)
    assert told == {"7_3": {"state": "requeued", "since": 4700, "beneficiary": "12"}}
    assert is_lease(told["7_3"])
    assert "beneficiary" not in lease_documents([GONE], {}, private=True)["7_3"]


def test_of_one_that_did_not_save_why_it_has_kept_them() -> None:
    told = lease_documents([HELD], {KEY: KEPT}, private=False)["7_3"]
    assert told["unsaved"] == {"at": 990, "why": "has not saved within 60 s"}
    assert is_lease(told)
    for other in ({KEY: replace(KEPT, attempt=5)}, {replace(KEY, epoch=1): KEPT}):
        assert "unsaved" not in lease_documents([HELD], other, private=False)["7_3"]
    long = lease_documents([HELD], {KEY: replace(KEPT, why="x" * 10_000)}, private=False)
    assert len(long["7_3"]["unsaved"]["why"]) == 300  # type: ignore[index,call-overload,arg-type]


SOUND: dict[str, Any] = {
    "state": "granted", "since": 1, "end_time": 2, "beneficiary": "7",
    "unsaved": {"at": 1, "why": "x"},
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"state": 5}, {"since": "soon"}, {"since": None}, {"end_time": 1e300}, {"beneficiary": 7},
        {"unsaved": []}, {"unsaved": {"at": 1}}, {"unsaved": {"at": "x", "why": "x"}},
        {"unsaved": {"at": 1, "why": {}}},
    ],
)  # fmt: skip
def test_what_others_have_written_is_checked(changes: dict[str, Any]) -> None:
    assert is_lease(SOUND)
    assert not is_lease(SOUND | changes)


@pytest.mark.parametrize("other", [None, [], "granted", 5, {}])
def test_what_is_no_lease_is_none(other: object) -> None:
    assert not is_lease(other)
