"""One job of the queue: what Slurm lists of it, and what the daemon says of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gsched.app.job_progress import NOTHING_TOLD, JobProgress
from gsched.explain.policy_reasons import policy_reason, quantiles_of, slurm_reason
from gsched.explain.target_words import deadline_outcome, planned_end
from gsched.model.job import JobState, finite_limit_s
from gsched.slurm.records import FreeText, QueueRow


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """One line of ``gsched queue``. Texts are hostile. Durations in seconds, times epoch.

    `answer` is what the daemon says of this attempt, empty for none (of one that does not wait only
    its lease and its deadline); `at` the time of the listing.
    `progress` is what the job itself tells.
    """

    row: QueueRow
    text: FreeText
    answer: dict[str, Any]
    at: int
    progress: JobProgress | None = None

    @property
    def slurm_id(self) -> str:
        """As squeue prints it: ``7``, ``7_3``, ``7_[4-9]``, ``7+1``."""
        row = self.row
        return f"{row.job_id}_[{row.array_tasks}]" if row.is_unsplit_array else row.slurm_id

    @property
    def raw_id(self) -> int:
        """Slurm's own number."""
        return self.row.raw_id

    @property
    def name(self) -> str:
        """The job's name, "" where it was not read."""
        return self.text.name

    @property
    def user(self) -> str:
        """Its owner."""
        return self.row.user

    @property
    def partition(self) -> str:
        """Its partitions, commas between."""
        return ",".join(self.row.partitions)

    @property
    def is_pending(self) -> bool:
        """Whether it waits."""
        return self.row.state is JobState.PENDING

    @property
    def priority(self) -> int:
        """Slurm's priority; 0: held."""
        return self.row.priority

    @property
    def num_gpus(self) -> int:
        """GPUs over all nodes, held or asked for."""
        return self.row.num_gpus

    @property
    def gpu_types(self) -> tuple[str, ...]:
        """Types of its GPUs, where they have one."""
        return tuple(o.gpu_type for o in self.row.gpu_options if o.gpu_type)

    @property
    def rank(self) -> dict[str, Any] | None:
        """Its place in the daemon's order: queue, position, of."""
        return self.answer.get("rank")

    @property
    def rank_text(self) -> str:
        """``3/44``, or ``-`` for a job without a rank."""
        return f"{self.rank['position']}/{self.rank['of']}" if self.rank else "-"

    @property
    def predicted_duration_s(self) -> float | None:
        """Predicted run time: the median, where quantiles are told; else the mean."""
        return self._quantiles.get(0.5, self.mean_duration_s)

    @property
    def predicted_low_s(self) -> float | None:
        """Below this the run time will lie with probability 0.1."""
        return self._quantiles.get(0.1)

    @property
    def predicted_high_s(self) -> float | None:
        """Below this the run time will lie with probability 0.9."""
        return self._quantiles.get(0.9)

    @property
    def _quantiles(self) -> dict[float, float]:
        return quantiles_of(self.answer.get("duration_s") or {})

    @property
    def mean_duration_s(self) -> float | None:
        """Mean of the predicted run time, by which policies order and which can be summed."""
        return (self.answer.get("duration_s") or {}).get("mean")

    @property
    def expected_start(self) -> dict[str, Any] | None:
        """The forecast of its start: median, low, high (epoch), coverage, as_of; None without, and
        for a held job, whatever was forecast before.
        """
        return self.answer.get("start") if self.row.priority > 0 else None

    @property
    def target(self) -> dict[str, Any] | None:
        """What gsched has promised: state, deadlines, finish_time, probability, plan; else None."""
        return self.answer.get("target")

    @property
    def target_state(self) -> str | None:
        """``on-target``, ``at-risk``, ``late``; ``refused``, or ``open`` while it is not answered;
        None where no deadline was asked for.
        """
        if self.target is not None:
            return str(self.target.get("state"))
        found = deadline_outcome(self.answer.get("outcomes", ()))
        return None if found is None else str(found["outcome"])

    @property
    def deadline(self) -> int | None:
        """The deadline that is aimed at; of those that are not planned the next one (epoch).

        When all are over, the last.
        """
        times = self._deadlines
        least = max(self.at, (self.target or {}).get("finish_time", self.at))
        return next((time for time in times if time >= least), times[-1] if times else None)

    @property
    def _deadlines(self) -> list[int]:
        if self.target is not None:
            return [time for time, _ in self.target["deadlines"]]
        wants = (self.answer.get("request") or {}).get("wants", {})
        times = [time for time, _ in wants.get("soft_deadlines", [])]
        return sorted([*times, wants["deadline"]] if "deadline" in wants else times)

    @property
    def start_time(self) -> int | None:
        """When it has started."""
        return None if self.is_pending else self.row.start_time

    @property
    def slurm_start_time(self) -> int | None:
        """When Slurm expects a waiting job to start; it reckons with time limits."""
        return self.row.start_time if self.is_pending else None

    @property
    def end_time(self) -> int | None:
        """When it has ended, or its limit will end it."""
        return None if self.is_pending else self.row.end_time

    @property
    def waited_s(self) -> int:
        """From its submission (the last requeue counts as one) to its start, or until now."""
        end = self.start_time
        if end is None:
            end = self.row.end_time if self.row.state.is_terminal else self.at
        return (self.at if end is None else end) - self.row.submit_time

    @property
    def running_s(self) -> int | None:
        """From its start to its end, or until now."""
        if self.start_time is None:
            return None
        ended = self.row.end_time if self.row.state.is_terminal else None
        return (self.at if ended is None else ended) - self.start_time

    @property
    def time_limit_s(self) -> int | None:
        """Its time limit; None without one, and where Slurm shows none."""
        return finite_limit_s(self.row.time_limit_s)

    @property
    def time_left_s(self) -> int | None:
        """Until its limit ends it, while it runs; None without a limit."""
        if self.end_time is None or self.row.state.is_terminal:
            return None
        if self.time_limit_s is None:
            return None
        return max(0, self.end_time - self.at)

    @property
    def reason(self) -> str:
        """Why it waits, in words; of another job the nodes that it holds."""
        return _why(self.row, self.answer) if self.is_pending else self.row.node_list

    def tasks(self) -> Iterator[QueuedJob]:
        """One line a task, of an array that Slurm has not split yet; else itself."""
        if not self.row.is_unsplit_array:
            yield self
            return
        if self.row.tasks is None:  # an expression that is not understood stays as it is
            yield self
            return
        for number in self.row.tasks:
            row = replace(self.row, array_task=number, array_tasks="", is_unsplit_array=False)
            yield replace(self, row=row)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        row, start = self.row, self.expected_start or {}
        return {
            "job": self.slurm_id,
            "partition": self.partition,
            "name": self.name,
            "user": row.user,
            "account": row.tenant,
            "qos": row.qos,
            "state": row.state_text,
            "num_gpus": row.num_gpus,
            "gpu_types": list(self.gpu_types),
            "num_nodes": row.min_nodes,
            "num_cpus": row.num_cpus,
            "mem_bytes": row.mem_bytes,
            "time_limit_s": self.time_limit_s,
            "priority": row.priority,
            "nice": row.nice,
            "submit_time": row.submit_time,
            "eligible_time": row.eligible_time,
            "start_time": self.start_time,
            "end_time": self.end_time,
            "slurm_start_time": self.slurm_start_time,
            "waited_s": self.waited_s,
            "running_s": self.running_s,
            "rank": self.rank,
            "predicted_duration_s": self.predicted_duration_s,
            "predicted_low_s": self.predicted_low_s,
            "predicted_high_s": self.predicted_high_s,
            "expected_start_time": start.get("median"),
            "expected_low_time": start.get("low"),
            "expected_high_time": start.get("high"),
            "no_start": self.answer.get("no_start"),
            "deadline_time": self.deadline,
            "target_state": self.target_state,
            "target_finish_time": self.target and planned_end(self.target),
            "target_probability": self.target and self.target.get("probability"),
            **(self.progress.summary() if self.progress else NOTHING_TOLD),
            "slurm_reason": row.reason,
            "reason": self.reason,
            "node_list": row.node_list,
            "reservation": row.reservation,
            "dependency": row.dependency,
            "features": row.features,
            "licences": row.licences,
            "restarts": row.restarts,
            "comment": self.text.comment,
        }


def _why(row: QueueRow, answer: dict[str, Any]) -> str:
    if answer.get("excluded"):
        return f"not moved: {answer['excluded'].get('detail')}"
    if answer.get("reason"):
        return policy_reason(answer["reason"].get("code", ""), answer["reason"].get("params", {}))
    return slurm_reason(row.reason)
