"""The query socket: users ask the daemon about their jobs, and munge proves who asks.

Threads beside the rounds, which only read the last round's bulletin. Whoever connects is hostile
until munge has named them (see ``bounded_server``); who asks too often is told to wait.
"""

from __future__ import annotations

import pwd
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from gsched.daemon.asker_rights import AskerRights
from gsched.daemon.bounded_server import (
    ANSWER_TIMEOUT_S,
    QUESTION_TIMEOUT_S,
    HasAsked,
    Refusals,
)
from gsched.daemon.forecast_book import Edition
from gsched.daemon.lines import read_line, send_line
from gsched.daemon.network_listener import NetworkListener
from gsched.daemon.query_protocol import (
    MAX_JOBS,
    MAX_OWN_JOBS,
    MAX_QUESTION_BYTES,
    Question,
    answer_payload,
    busy_payload,
    read_question,
)
from gsched.daemon.query_rates import AskerRates
from gsched.daemon.status_file import Bulletin
from gsched.errors import GschedError, TryAgainError, UnavailableError
from gsched.slurm.munge import Munge


class Foresight(Protocol):
    """Who foresees when jobs will start."""

    def edition(self) -> Edition:
        """What is to be told now."""
        ...

    def asked(self, names: Collection[str]) -> None:
        """Somebody asks about these jobs."""
        ...


class QueryServer:
    """Answers questions from the bulletin that `bulletin` gives."""

    def __init__(
        self,
        munge: Munge,
        rights: AskerRights,
        bulletin: Callable[[], Bulletin | None],
        hurry: Callable[[], None],
        foresight: Foresight,
    ) -> None:
        """`rights` says to whom Slurm shows hidden jobs.

        `hurry` is called when somebody asks about a job that no round has seen yet.
        """
        self._munge = munge
        self._rights = rights
        self._bulletin = bulletin
        self._hurry = hurry
        self._foresight = foresight
        self._rates = AskerRates()
        self.refusals = Refusals()

    @contextmanager
    def listening(self, address: str) -> Iterator[str]:
        """Serve at `address` for the block; gives the address with the port in use.

        Raises UnavailableError when nobody can listen there, and without a munge.
        """
        self._munge.encode("")  # a daemon that cannot answer shall say so at its start
        with (
            NetworkListener(self, address, "daemon.query_listen") as listener,
            listener.serving(),
        ):
            yield listener.address_text

    def serve(self, connection: socket.socket, has_asked: HasAsked) -> None:
        """Answer one question, see ``bounded_server.Answering``."""
        try:
            line = read_line(connection, MAX_QUESTION_BYTES, QUESTION_TIMEOUT_S)
            has_asked()
            asker = self._munge.decode(line)
            question = read_question(asker.payload)
            try:
                if not self._rates.allows(asker.uid):
                    raise TryAgainError(f"user {asker.uid} asks too often")
                has_asked(asker.uid)
                payload = answer_payload(question, self._answer(question, asker.uid))
            except TryAgainError as error:
                self.refusals.count(error.message)
                payload = busy_payload(question)
            answer = self._munge.encode(payload, only_for_uid=asker.uid)
            send_line(connection, answer, ANSWER_TIMEOUT_S)
        except GschedError as error:
            self.refusals.count(error.message)

    def _answer(self, question: Question, uid: int) -> dict[str, Any]:
        bulletin = self._bulletin()
        if bulletin is None:
            self._hurry()
            raise UnavailableError("no round has ended yet")
        user = _user_name(uid)
        found = {asked: bulletin.answers.index.find(asked) for asked in question.jobs}
        if None in found.values():
            self._hurry()
        own = bulletin.answers.by_owner.get(user, ()) if question.own and user else ()
        self._foresight.asked([*own[:MAX_JOBS], *(name or asked for asked, name in found.items())])
        forecast = self._foresight.edition()  # perhaps made since the bulletin
        jobs: dict[str, Any] = {}
        for asked, name in found.items():
            if name and not (bulletin.is_hidden(name, user) and not self._sees_all(uid, user)):
                jobs[asked] = forecast.into(name, bulletin.jobs[name])
        brief = len(own) > MAX_JOBS  # all of many would not fit into a credential
        for name in own[:MAX_OWN_JOBS]:
            jobs.setdefault(name, forecast.into(name, bulletin.jobs[name], brief=brief))
        return {**bulletin.head, "jobs": jobs}

    def _sees_all(self, uid: int, user: str) -> bool:
        """Whether Slurm shows hidden jobs to `user`; nobody has to be asked about root."""
        return uid == 0 or self._rights.sees_all(user)


def _user_name(uid: int) -> str:
    """The user's name on this host, '' for none: nobody's jobs are theirs."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
