"""The query socket as a daemon keeps it: open when it can be, tried again at each round."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from gsched.daemon.query_server import QueryServer
from gsched.errors import GschedError

log = logging.getLogger("gsched.daemon")


class QuerySocket:
    """Where `server` shall listen. A daemon without it goes on: the status file still answers.

    `address` is where it listens now, '' for nowhere; `problem` says why it does not.
    """

    def __init__(self, server: QueryServer, wanted: str) -> None:
        self.address = ""
        self.problem = ""
        self._server = server
        self._wanted = wanted
        self._open = ExitStack()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Listen during the block, as far as that can be."""
        with self._open:
            self.keep()
            yield

    def keep(self) -> None:
        """Listen, unless it does already; one warning for each new reason why it cannot."""
        if self.address:
            return
        try:
            self.address = self._open.enter_context(self._server.listening(self._wanted))
        except GschedError as error:
            if error.message != self.problem:
                hint = f" ({error.hint})" if error.hint else ""
                log.warning("no query socket, trying again each round: %s%s", error.message, hint)
            self.problem = error.message
            return
        if self.problem:
            log.info("the query socket listens at %s", self.address)
        self.problem = ""
