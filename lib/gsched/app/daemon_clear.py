"""`gsched daemon clear`: what gsched wrote is taken back, and daemons are halted."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime

from gsched.app.daemon_lead import refuse_beside_another_host
from gsched.app.daemon_leases import Leases
from gsched.app.daemon_parts import fault_hook, live_parts, new_round_id
from gsched.app.daemon_rights import require_privilege
from gsched.app.target_reservations import reservations_of
from gsched.app.wiring import now, open_history, slurm_client
from gsched.config.settings import Settings
from gsched.daemon.clear import ClearResult, clear, clear_unjournalled
from gsched.daemon.locks import StateDir
from gsched.errors import GschedError
from gsched_sql import History

_WAIT_S = 90.0
"""Longer than a round whose database has fallen silent (`gsched_sql.engine.SILENCE_LIMIT_S`)."""


def clear_all(settings: Settings, everything: bool) -> ClearResult:
    """Set every SiteFactor back as found, and let no daemon act until the halt is lifted.

    The halt comes first and stays, whatever fails after it; the error says so. A daemon that is in
    a round finishes it: raises TryAgainError when it does not within a minute and a half, or is
    another host's. With `everything` the history database may be away.
    """
    state_dir = StateDir(settings.state_dir)
    state_dir.halt(f"`gsched daemon clear` ({datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z})")
    try:
        with state_dir.writing(wait_s=_WAIT_S), ExitStack() as opened:
            try:
                history = opened.enter_context(open_history(settings, bounded=True))
            except GschedError as error:
                if everything:
                    return _clear_without_history(settings, error)
                hint = "`gsched daemon clear --all` sets every SiteFactor to 0 without the database"
                raise type(error)(error.message, hint, error.exit_code) from error
            return _clear(settings, history, everything)
    except GschedError as error:
        message = f"daemons are halted, but values still stand: {error.message}"
        raise type(error)(message, error.hint, error.exit_code) from error


def _clear(settings: Settings, history: History, everything: bool) -> ClearResult:
    live = live_parts(settings, history)
    require_privilege(live.client)
    refuse_beside_another_host(history, live.backend.cluster)
    Leases(live, history, None).take_back("`gsched daemon clear`")
    reservations_of(live, history, lambda: settings).release_all("`gsched daemon clear`")
    return clear(
        live.backend,
        history.journal(),
        now,
        new_round_id,
        everything,
        fault_hook(),
    )


def _clear_without_history(settings: Settings, error: GschedError) -> ClearResult:
    """Whether a daemon of another host leads cannot be known then: it is not halted."""
    client = slurm_client(settings, asks_again=False)
    require_privilege(client)
    return clear_unjournalled(client, client.config().cluster, error.message)
