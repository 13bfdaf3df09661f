"""Asking the daemon over its query socket, with proof of who asks and of who answers."""

from __future__ import annotations

import os
import pwd
import socket
import time
from typing import Any

from gsched.config.address import parse_address
from gsched.config.settings import DaemonSettings
from gsched.daemon.lines import read_line, send_line
from gsched.daemon.query_protocol import MAX_ANSWER_BYTES, Question, read_answer
from gsched.daemon.status_file import parse_status
from gsched.errors import ConfigError, DataError, PermissionDeniedError, UnavailableError
from gsched.slurm.munge import Munge, munge_of, slurm_user_uid
from gsched.slurm.records import SlurmConfig

_LEAST_S = 0.05


class NobodyListensError(UnavailableError):
    """The address refuses connections: no daemon is there now."""


class QueryClient:
    """One daemon, reached at ``daemon.query_address``."""

    def __init__(self, address: str, munge: Munge, trusted_uids: frozenset[int]) -> None:
        """`trusted_uids` are the users whose answers are believed."""
        self._address = address
        self._munge = munge
        self._trusted = trusted_uids

    @classmethod
    def for_site(cls, settings: DaemonSettings, config: SlurmConfig) -> QueryClient | None:
        """The client that the settings ask for; None without an address.

        Raises ConfigError when ``daemon.query_user`` is no user of this host.
        """
        if not settings.query_address:
            return None
        munge = munge_of(config, os.environ)
        return cls(settings.query_address, munge, _trusted_uids(settings, config))

    def ask(self, *jobs: str, own: bool = False, timeout_s: float = 10.0) -> dict[str, Any]:
        """The daemon's status document, with the jobs asked for that this user may see.

        `own`: also the user's own ones, MAX_OWN_JOBS at most. `timeout_s` bounds the whole, but for
        the look-up of a host's name. Raises NobodyListensError when no daemon is there,
        UnavailableError when it does not answer or there is no munge on this host, TryAgainError
        when there is no answer in time or this user asks too often, PermissionDeniedError when the
        answer is not from somebody who may give it, DataError when it makes no sense.
        """
        until = time.monotonic() + timeout_s
        question = Question.about(*jobs, own=own)
        credential = self._munge.encode(question.to_json(), timeout_s=_left_s(until))
        answer = self._exchange(credential, until)
        decoded = self._munge.decode(answer, timeout_s=_left_s(until))
        if decoded.uid not in self._trusted:
            raise PermissionDeniedError(
                f"what listens at {self._address} is not gsched's daemon: user {decoded.uid} "
                "answered",
                "set daemon.query_user if the daemon runs as that user",
            )
        document = parse_status(read_answer(decoded.payload, question))
        if document is None:
            raise DataError(f"the daemon at {self._address} gave an answer that makes no sense")
        return document

    def _exchange(self, line: str, until: float) -> str:
        address = parse_address(self._address)
        try:
            with socket.create_connection(address, timeout=_left_s(until)) as connection:
                send_line(connection, line, _left_s(until))
                return read_line(connection, MAX_ANSWER_BYTES, _left_s(until))
        except OSError as error:
            refused = isinstance(error, ConnectionRefusedError)
            raise (NobodyListensError if refused else UnavailableError)(
                f"no daemon answers at {self._address}: {error.strerror or error}"
            ) from None
        except UnavailableError as error:
            raise UnavailableError(
                f"the daemon at {self._address} gave no answer: {error.message}",
                "its log says why: too many askers, another munge key, or clocks that differ",
            ) from None


def _left_s(until: float) -> float:
    """Seconds until then; never so few that a time-out would mean "do not wait at all"."""
    return max(_LEAST_S, until - time.monotonic())


def _trusted_uids(settings: DaemonSettings, config: SlurmConfig) -> frozenset[int]:
    slurm_user = slurm_user_uid(config)
    trusted = {0} if slurm_user is None else {0, slurm_user}
    if settings.query_user:
        try:
            trusted.add(pwd.getpwnam(settings.query_user).pw_uid)
        except KeyError:
            raise ConfigError(
                f"daemon.query_user is {settings.query_user}, who is no user of this host"
            ) from None
    return frozenset(trusted)
