"""`gsched daemon clear`: what gsched wrote is taken back, and daemons are halted."""

from __future__ import annotations

from datetime import datetime

from gsched.app.daemon_lead import refuse_beside_another_host
from gsched.app.daemon_leases import Leases
from gsched.app.daemon_parts import fault_hook, live_parts, new_round_id
from gsched.app.daemon_rights import require_privilege
from gsched.app.wiring import now, open_history
from gsched.config.settings import Settings
from gsched.daemon.clear import ClearResult, clear
from gsched.daemon.locks import StateDir


def clear_all(settings: Settings, everything: bool) -> ClearResult:
    """Set every SiteFactor back as found, and let no daemon act until the halt is lifted.

    A daemon that is in a round finishes it first. Raises TryAgainError when it does not within a
    minute, or is another host's; nothing is halted or cleared then.
    """
    state_dir = StateDir(settings.state_dir)
    with open_history(settings) as history, state_dir.writing(wait_s=60.0):
        live = live_parts(settings, history)
        require_privilege(live.client)
        refuse_beside_another_host(history, live.backend.cluster)
        state_dir.halt(f"`gsched daemon clear` ({datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z})")
        Leases(live, history, None).take_back("`gsched daemon clear`")
        return clear(
            live.backend,
            history.journal(),
            now,
            new_round_id,
            everything,
            fault_hook(),
        )
