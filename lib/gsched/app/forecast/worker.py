"""The program of the daemon's forecasting process: ``python -m gsched.app.forecast.worker PID``.

It alone loads the compiled simulator. Started by ``gsched.daemon.forecast_child``.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from gsched.app.forecast.messages import Answer, Arrivals, Question, Tried
from gsched.daemon.child_process import answer, as_child, next_question
from gsched.daemon.forecast_child import MAX_MESSAGE_BYTES
from gsched.errors import GschedError
from gsched.forecast.codec import from_json, to_json
from gsched.forecast.situation import Demand, Field, Node, Situation, WaitingJob, check

_ANSWER_LIMIT_S = 60.0
_NOW_S = 60.0
"""A job that will start so soon needs no change."""


class Forecaster:
    """Answers questions; keeps the arrivals that came with an earlier one."""

    def __init__(self) -> None:
        self._arrivals = Arrivals(0.0, ())

    def answer(self, question: Question) -> Answer:
        """The outlook, and what became of those changes for which there was time.

        Raises DataError for a situation that contradicts itself.
        """
        from gsched.forecast.forecast import ForwardRun

        began = time.process_time()
        self._arrivals = question.arrivals or self._arrivals
        situation = replace(
            question.situation,
            arrivals=self._arrivals.jobs,
            arrivals_from=self._arrivals.since if self._arrivals.jobs else None,
        )
        check(situation)
        run = ForwardRun(situation, question.options)
        outlook = run.outlook(question.calibration)
        outlook_cpu_s = time.process_time() - began
        soon = {s.job_id for s in outlook.starts if s.start.median - outlook.as_of < _NOW_S}
        soon |= {job.job_id for job in outlook.no_starts}
        tried = []
        for number, wanted in enumerate(question.wanted):
            over = time.process_time() - began >= question.cpu_s
            if over and number >= question.certainly:
                break
            if wanted.job_id not in soon:
                starts = run.what_if(wanted.job_id, wanted.changes, question.calibration)
                tried.append(Tried(wanted.job_id, starts))
        return Answer(outlook, tuple(tried), time.process_time() - began, outlook_cpu_s)


def warm_up() -> None:
    """Have the simulator compiled, or its compiled form read, before any time is measured."""
    from gsched.forecast.forecast import ForwardRun
    from gsched.forecast.outlook import Change, ForecastOptions

    job = WaitingJob("1", (Demand(0, 1),), 0.0, 0.0, 60.0, (30.0,))
    field, node = Field("warm-up", "GPU"), Node("n", 0, 1)
    run = ForwardRun(Situation(0.0, (0.5,), (field,), (node,), (), (job,)), ForecastOptions(4))
    run.outlook()
    run.what_if("1", (Change("time-limit", "--time=1", "60", job),))


def main() -> None:
    """Serve the parent until it hangs up."""
    connection = as_child()
    warm_up()
    forecaster = Forecaster()
    while True:
        text = next_question(connection, MAX_MESSAGE_BYTES)
        try:
            found = forecaster.answer(from_json(Question, text.encode()))
        except GschedError as error:
            print(f"gsched: forecast: {error.message}", file=sys.stderr)
            raise SystemExit(error.exit_code) from None
        answer(connection, to_json(found).decode(), _ANSWER_LIMIT_S)


if __name__ == "__main__":
    main()
