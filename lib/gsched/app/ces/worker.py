"""The process that forecasts demand: ``python -m gsched.app.ces.worker PID``.

It alone loads scikit-learn for it. Started by ``gsched.daemon.forecast_child``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gsched.app.ces.keeper import DemandKeeper
from gsched.app.ces.messages import line, read_question
from gsched.app.wiring import open_history
from gsched.config.loader import load
from gsched.daemon.child_process import answer, as_child, next_question
from gsched.daemon.forecast_child import MAX_MESSAGE_BYTES
from gsched.errors import GschedError
from gsched.model.node_use import NodeUse

_ANSWER_LIMIT_S = 60.0


def read_uses(cluster: str, since: int, until: int) -> Sequence[NodeUse]:
    """What the history of this host's settings knows. Raises what opening or reading it raises."""
    with open_history(load(), bounded=True) as history:
        return history.node_uses(cluster, since, until)


def main() -> None:
    """Serve the parent until it hangs up."""
    connection = as_child()
    keeper = DemandKeeper(read_uses)
    while True:
        text = next_question(connection, MAX_MESSAGE_BYTES)
        try:
            found = line(keeper.answer(read_question(text)))
        except GschedError as error:
            print(f"gsched: demand: {error.message}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        answer(connection, found, _ANSWER_LIMIT_S)


if __name__ == "__main__":
    main()
