"""What Slurm says of askers, with a Slurm that hangs, fails and comes back."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from gsched.daemon import asker_rights
from gsched.daemon.asker_rights import AskerRights
from gsched.errors import TryAgainError, UnavailableError
from gsched.slurm.privileges import Privilege
from gsched.testbed.wait import wait_for


class Slurm:
    """Its accounting; `goes_on` is unset while that hangs."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.asked: list[str] = []
        self.levels: dict[str, Privilege] = {"news": "operator"}
        self.is_down = False
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.rights = AskerRights(self.privilege, lambda: self.now)

    def privilege(self, user: str) -> Privilege:
        self.asked.append(user)
        self.goes_on.wait(60)
        if self.is_down:
            raise UnavailableError("slurmdbd does not answer")
        return self.levels.get(user, "user")


@pytest.fixture
def slurm() -> Iterator[Slurm]:
    made = Slurm()
    yield made
    made.goes_on.set()


def test_an_answer_is_kept_for_some_minutes(slurm: Slurm) -> None:
    for _ in range(3):
        assert slurm.rights.sees_all("news")
        assert not slurm.rights.sees_all("games")
    assert slurm.asked == ["news", "games"]
    slurm.levels["news"] = "user"
    slurm.now += 299
    assert slurm.rights.sees_all("news")
    slurm.now += 2
    assert not slurm.rights.sees_all("news")


def test_nobody_is_not_asked_about(slurm: Slurm) -> None:
    assert not slurm.rights.sees_all("")
    assert slurm.asked == []


def test_after_a_failure_slurm_is_left_in_peace_whoever_asks(slurm: Slurm) -> None:
    assert slurm.rights.sees_all("news")
    slurm.is_down = True
    for user in ("games", "games", "backup"):
        with pytest.raises(TryAgainError, match=f"what user {user} may see") as told:
            slurm.rights.sees_all(user)
        assert "try again" in told.value.hint
    assert slurm.asked == ["news", "games"]
    assert slurm.rights.sees_all("news")  # still known
    slurm.is_down = False
    slurm.now += 31
    assert not slurm.rights.sees_all("games")
    assert not slurm.rights.sees_all("backup")


def test_many_who_wait_are_one_question(slurm: Slurm) -> None:
    slurm.goes_on.clear()
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(slurm.rights.sees_all("news")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    wait_for(lambda: slurm.asked, "the question")
    slurm.goes_on.set()
    for thread in threads:
        thread.join()
    assert (found, slurm.asked) == ([True] * 8, ["news"])


def test_nobody_waits_for_long(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asker_rights, "QUESTION_LIMIT_S", 0.01)
    slurm.goes_on.clear()
    first = threading.Thread(target=slurm.rights.sees_all, args=("news",))
    first.start()
    wait_for(lambda: slurm.asked, "the question")
    with pytest.raises(TryAgainError):
        slurm.rights.sees_all("games")
    slurm.goes_on.set()
    first.join()
    assert slurm.asked == ["news"]
