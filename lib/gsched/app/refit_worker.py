"""The program that fits a model for the daemon (see ``gsched.app.refit``), once."""

from __future__ import annotations

import json

from gsched.app.training import train
from gsched.app.wiring import open_history
from gsched.config.loader import load
from gsched.daemon.child_process import answer, as_child
from gsched.errors import GschedError
from gsched.model.fit import FitOutcome

_ANSWER_S = 60.0
_MOST_WORDS = 1000  # characters


def main() -> None:
    """Fit a model, put it in use unless another is pinned, and tell the daemon."""
    connection = as_child()
    try:
        settings = load()
        with open_history(settings) as history:
            fit = train(settings, history, by_timer=True).fit
    except GschedError as e:
        told = {"exit_code": e.exit_code, "message": e.message[:_MOST_WORDS]}
    else:
        is_in_use = fit.outcome is FitOutcome.ADOPTED
        message = f"{fit.model_id}, {'in use' if is_in_use else f'not in use: {fit.why}'}"
        told = {"exit_code": 0, "message": message}
    answer(connection, json.dumps(told), _ANSWER_S)


if __name__ == "__main__":
    main()
