"""Proof of who speaks: credentials of the site's own munge, by munge(1) and unmunge(1).

The programs and not a binding: PyPI has no kept binding of libmunge, and wherever Slurm's commands
work with AuthType=auth/munge, munge is installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gsched.errors import GschedError, PermissionDeniedError, UnavailableError
from gsched.slurm.records import SlurmConfig
from gsched.slurm.run import Completed, run

TTL_S = 60
"""Seconds for which a credential of ours is good: clocks may differ by no more."""

SOCKET_VARIABLE = "MUNGE_SOCKET"

_DECODED = re.compile(r"STATUS:\s+0\nUID:\s+(?P<uid>\d{1,10})\n\n(?P<payload>.*)", re.DOTALL)
_FIRST_REFUSAL = 8  # unmunge's exit codes from here on speak of the credential
_UNREACHABLE = 6


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a good credential says: `uid` made it."""

    uid: int
    payload: str


class Munge:
    """This host's munged, reached at `socket` ('' = where munge's programs look themselves).

    Every call raises UnavailableError when there is no munge on this host.
    """

    def __init__(self, socket: str = "", timeout_s: float = 10.0) -> None:
        self._socket = ("--socket", socket) if socket else ()
        self._timeout_s = timeout_s

    def encode(
        self, payload: str, only_for_uid: int | None = None, timeout_s: float | None = None
    ) -> str:
        """A credential that carries `payload` and proves this process's user, encrypted.

        `only_for_uid`: nobody else can decode it. `timeout_s` None: this object's own.
        """
        restricted = () if only_for_uid is None else ("--restrict-uid", str(only_for_uid))
        ttl = ("--ttl", str(TTL_S))
        answer = self._run(("munge", *self._socket, *ttl, *restricted), payload, timeout_s)
        if answer.status != 0:
            raise _failure(answer)
        return answer.stdout.strip()

    def decode(self, credential: str, timeout_s: float | None = None) -> Decoded:
        """Who made a credential, and what it carries; once only, the next time it is a replay.

        Raises PermissionDeniedError for one that is forged, expired, replayed, for somebody else
        or none at all.
        """
        keys = ("--numeric", "--keys", "STATUS,UID")
        answer = self._run(("unmunge", *self._socket, *keys), credential, timeout_s)
        if answer.status >= _FIRST_REFUSAL:
            raise PermissionDeniedError(f"munge refuses it: {_said(answer)}")
        if answer.status != 0:
            raise _failure(answer)
        found = _DECODED.fullmatch(answer.stdout)
        if found is None:
            raise UnavailableError("unmunge gave an answer that is not understood")
        return Decoded(int(found["uid"]), found["payload"])

    def _run(self, argv: tuple[str, ...], stdin: str, timeout_s: float | None) -> Completed:
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            return run(argv, stdin=stdin, timeout_s=limit_s)
        except UnavailableError as error:
            raise UnavailableError(
                f"no munge here: {error.message}", "install munge, or do without the query socket"
            ) from None


def munge_of(config: SlurmConfig, environ: Mapping[str, str]) -> Munge:
    """The munge that Slurm itself uses on this host (AuthInfo), else that of MUNGE_SOCKET."""
    socket = config.flags("AuthInfo").get("socket") or environ.get(SOCKET_VARIABLE, "")
    return Munge(socket)


def slurm_user_uid(config: SlurmConfig) -> int | None:
    """Numeric id of SlurmUser, which Slurm shows as ``slurm(64030)``."""
    found = re.search(r"\((\d{1,10})\)\Z", config.get("SlurmUser"))
    return int(found[1]) if found else None


def _failure(answer: Completed) -> GschedError:
    hint = "is munged running on this host?" if answer.status == _UNREACHABLE else ""
    return UnavailableError(f"{answer.argv[0]} failed: {_said(answer)}", hint)


def _said(answer: Completed) -> str:
    text = " ".join(answer.stderr.split()).removeprefix("unmunge: Error: ")
    return text or f"exit status {answer.status}"
