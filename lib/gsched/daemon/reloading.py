"""A reload of the configuration between two rounds, told to everybody who waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from gsched.daemon.notify import Notifier
from gsched.daemon.situation import Board
from gsched.daemon.wishes import Reloaded, Wishes
from gsched.engine.ports import Clock
from gsched.errors import GschedError

log = logging.getLogger("gsched.daemon")

Reload = Callable[[], Reloaded]
"""Reads the configuration and puts it in force. Raises the error for which the former one stays."""


def reload_if_wanted(
    wishes: Wishes, reload: Reload, notifier: Notifier, board: Board, clock: Clock
) -> None:
    """Serve the wish for a reload, where there is one; a broken configuration changes nothing."""
    if not wishes.wants_reload:
        return
    tickets = wishes.take_reload()
    notifier.reloading()
    error: GschedError | None = None
    reloaded: Reloaded | None = None
    try:
        reloaded = reload()
    except GschedError as e:
        error = e
        log.error("new configuration refused, the former one stays in force: %s", e.message)
        board.post(config_problem=e.message)
    else:
        board.post(config_problem="", config_read_at=clock(), needs_restart=reloaded.needs_restart)
        log.info("configuration read: %s", ", ".join(reloaded.changed) or "nothing changed")
        if reloaded.needs_restart:
            log.warning("only a restart puts in force: %s", ", ".join(reloaded.needs_restart))
    notifier.status(board.line())
    notifier.ready()
    for ticket in tickets:
        ticket.reloaded, ticket.error = reloaded, error
        ticket.is_done.set()
