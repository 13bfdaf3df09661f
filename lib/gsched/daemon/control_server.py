"""The daemon's local socket: how it fares, reloads, the audit and metrics.

The kernel says who asks (see ``unix_server``). Everybody may ask for what the status file and the
metrics tell; only root and the daemon's own user may reload; the audit, which names others' jobs,
is for them and for Slurm's operators.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gsched.daemon.asker_rights import AskerRights
from gsched.daemon.bounded_server import goes_first
from gsched.daemon.situation import Board
from gsched.daemon.unix_server import Asker, UnixServer
from gsched.daemon.wishes import Wishes
from gsched.errors import DataError, PermissionDeniedError, UnavailableError, UsageError

MAX_AUDIT_ROWS = 1000
RELOAD_TIMEOUT_S = 60.0
"""A reload that is not done so soon comes after a long round."""

_SOCKET_MODE = 0o666  # who may connect is no secret; who may do what is asked of the kernel
_FOLDER_MODE = 0o755

Audit = Callable[[str | None, int], Sequence[Mapping[str, Any]]]
"""The newest rows, of one job where it is named, at most so many. For any thread."""


class ControlServer:
    """Answers the verbs ``status``, ``reload``, ``audit`` and ``metrics``."""

    def __init__(
        self,
        board: Board,
        wishes: Wishes,
        metrics: Callable[[], bytes],
        audit: Audit,
        rights: AskerRights,
    ) -> None:
        """`rights` says who is an operator of Slurm."""
        self._board = board
        self._wishes = wishes
        self._metrics = metrics
        self._audit = audit
        self._auditing = threading.Lock()
        self._rights = rights
        self._server = UnixServer(self.answer)
        self.refusals = self._server.refusals

    @contextmanager
    def listening(self, path: Path) -> Iterator[str]:
        """Serve at `path` during the block. Raises as ``UnixServer.listening`` does."""
        try:
            path.parent.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        except PermissionError as e:
            raise PermissionDeniedError(f"cannot make {path.parent}: {e.strerror}") from None
        except OSError as e:
            raise UnavailableError(f"cannot make {path.parent}: {e.strerror}") from None
        with self._server.listening(path, _SOCKET_MODE):
            yield str(path)

    def answer(self, question: Mapping[str, Any], asker: Asker) -> Mapping[str, Any]:
        """The answer to one question. Raises the GschedError that the asker is told."""
        verb = question.get("verb")
        if verb == "status":
            return self._board.document(trusted=goes_first(asker.uid))
        if verb == "metrics":
            return {"text": self._metrics().decode()}
        if verb == "reload":
            if not goes_first(asker.uid):
                raise PermissionDeniedError(
                    f"user {asker.name or asker.uid} may not reload the daemon",
                    "root and the user that it runs as may",
                )
            reloaded = self._wishes.reload_and_wait(RELOAD_TIMEOUT_S)
            return {
                "changed": list(reloaded.changed),
                "needs_restart": list(reloaded.needs_restart),
            }
        if verb == "audit":
            return {"rows": self._audit_rows(question, asker)}
        raise UsageError("the daemon does not know this verb")

    def _audit_rows(self, question: Mapping[str, Any], asker: Asker) -> list[Mapping[str, Any]]:
        if not (goes_first(asker.uid) or self._rights.sees_all(asker.name)):
            raise PermissionDeniedError(
                f"user {asker.name or asker.uid} may not read the audit",
                "root, the daemon's own user and Slurm's operators may; "
                "`gsched why JOB` says what was decided of a job of yours",
            )
        job, limit = question.get("job"), question.get("limit")
        if not isinstance(limit, int) or not 1 <= limit <= MAX_AUDIT_ROWS:
            raise UsageError(f"the daemon gives 1 to {MAX_AUDIT_ROWS} rows of its audit")
        if not (job is None or isinstance(job, str)):
            raise DataError("the job is no text")
        with self._auditing:  # one at a time: the database has other work
            return list(self._audit(job, limit))
