"""Programs that a test has run in the place of the forecasting process, by how they behave.

``python -m support.forecast_children PARENT``, with the behaviour in CHILD: ``echo`` answers with
what it was asked and its pid, niceness and ignored signals; ``dies`` ends at the first question;
``silent`` stops itself; ``long`` answers without end; ``deaf`` reads nothing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from gsched.app.forecast.messages import Answer, Question, Tried
from gsched.daemon.child_process import answer, as_child, next_question
from gsched.forecast.codec import from_json, to_json
from gsched.forecast.outlook import ChangedStart, Interval, NextFree, Outlook, Start

MODULE = "support.forecast_children"
MOST = 1 << 26


def environment(behaviour: str) -> dict[str, str]:
    """For a child that behaves so."""
    folders = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "CHILD": behaviour, "PYTHONPATH": ":".join(folders)}


def _foreseen(question: Question) -> Answer:
    """Starts as many seconds from now as a job's order says, which costs a second."""
    situation = question.situation
    starts = []
    for job in situation.waiting:
        at = situation.as_of - job.order
        interval = Interval(at, at - 10.0, at + 10.0)
        told = question.calibration.apply(situation.as_of, interval)
        next_free = 0 if situation.running else None
        known = question.calibration.learnt_from
        starts.append(Start(job.job_id, told, interval, known, next_free))
    now = situation.as_of
    free = tuple(
        NextFree(job.job_id, ("gn1",), 1, Interval(now + 2, now + 1, now + 3))
        for job in situation.running[:1]
    )
    options = question.options
    outlook = Outlook(situation.as_of, options.samples, options.seed, 0.8, tuple(starts), (), free)
    tried = tuple(
        Tried(
            one.job_id,
            tuple(ChangedStart(c.kind, c.option, c.value, starts[0].start) for c in one.changes),
        )
        for one in question.wanted[: max(question.certainly, int(question.cpu_s))]
    )
    return Answer(outlook, tried, 1.0, 1.0)


def main() -> None:
    behaviour = os.environ["CHILD"]
    connection = as_child()
    if behaviour == "deaf":
        threading.Event().wait()
    while True:
        asked = next_question(connection, MOST)
        if behaviour == "dies":
            sys.exit(3)
        if behaviour == "silent":
            os.kill(os.getpid(), signal.SIGSTOP)
        if behaviour == "long":
            while True:
                connection.sendall(b"x" * 65536)
        if behaviour == "foresees":
            asked = from_json(Question, asked.encode())
            folder = Path(os.environ["ASKED"])
            number = len(list(folder.iterdir()))
            (folder / f"{number:03}").write_bytes(to_json(asked))
            answer(connection, to_json(_foreseen(asked)).decode(), 10.0)
            continue
        ignored = [
            n.name for n in (signal.SIGINT, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_IGN
        ]
        told = {
            "asked": asked,
            "pid": os.getpid(),
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "session": os.getsid(0),
            "ignored": ignored,
        }
        answer(connection, json.dumps(told), 10.0)


if __name__ == "__main__":
    main()
