"""Whether Slurm lets a user see everything: asked of it seldom, and never for long.

Slurm's accounting can hang for minutes. Whoever asks about rights then must not hold up others: it
is asked about one user at a time, within QUESTION_LIMIT_S, and after a question in vain not again
for a while, whoever asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gsched.errors import GschedError, TryAgainError
from gsched.slurm.privileges import Privilege, suffices

QUESTION_LIMIT_S = 5.0
"""So soon Slurm must answer each command of a question."""

_KEPT_S = 300.0
_FAILURE_KEPT_S = 30.0
_MOST_USERS = 4096


class AskerRights:
    """Answers of Slurm about users, kept for some minutes. For any thread."""

    def __init__(
        self,
        privilege: Callable[[str], Privilege],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`privilege` asks Slurm about a user, within QUESTION_LIMIT_S."""
        self._privilege = privilege
        self._monotonic = monotonic
        self._asking = threading.Lock()
        self._known: dict[str, tuple[float, bool]] = {}
        self._failed_at: float | None = None

    def sees_all(self, user: str) -> bool:
        """Whether `user` has an operator's rights; '' is nobody.

        Raises TryAgainError while Slurm does not say it, or has too many others to tell about.
        """
        if not user:
            return False
        known = self._kept(user)
        if known is not None:
            return known
        if not self._asking.acquire(timeout=QUESTION_LIMIT_S):
            raise _no_answer(user)
        try:
            known = self._kept(user)  # somebody else has asked meanwhile
            return self._ask(user) if known is None else known
        finally:
            self._asking.release()

    def _kept(self, user: str) -> bool | None:
        """What is known of `user`, None for nothing. Raises TryAgainError after a failure."""
        now = self._monotonic()
        at, sees_all = self._known.get(user, (now - _KEPT_S, False))
        if now - at < _KEPT_S:
            return sees_all
        if self._failed_at is not None and now - self._failed_at < _FAILURE_KEPT_S:
            raise _no_answer(user)
        return None

    def _ask(self, user: str) -> bool:
        try:
            sees_all = suffices(self._privilege(user), "see")
        except GschedError as error:
            self._failed_at = self._monotonic()
            raise _no_answer(user) from error
        self._failed_at = None
        if len(self._known) >= _MOST_USERS:
            self._known = {}
        self._known[user] = (self._monotonic(), sees_all)
        return sees_all


def _no_answer(user: str) -> TryAgainError:
    return TryAgainError(
        f"Slurm does not say now what user {user} may see", "try again in a minute"
    )
