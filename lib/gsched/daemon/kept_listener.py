"""A socket as a daemon keeps it: open when it can be, tried again at each round."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from gsched.errors import GschedError

log = logging.getLogger("gsched.daemon")


class KeptListener:
    """What shall listen. A daemon without it goes on.

    `address` is where it listens now, '' for nowhere; `problem` says why it does not.
    """

    def __init__(self, what: str, listen: Callable[[], AbstractContextManager[str]]) -> None:
        """`what` it is called in the log; `listen` gives the address in use for its block."""
        self.address = ""
        self.problem = ""
        self._what = what
        self._listen = listen
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
            self.address = self._open.enter_context(self._listen())
        except GschedError as error:
            if error.message != self.problem:
                hint = f" ({error.hint})" if error.hint else ""
                log.warning("no %s, trying again each round: %s%s", self._what, error.message, hint)
            self.problem = error.message
            return
        if self.problem:
            log.info("the %s listens at %s", self._what, self.address)
        self.problem = ""
