"""The long questions of a round: squeue's listing and sprio's, read with what stood in the last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from gsched.slurm import parse_priority, parse_queue
from gsched.slurm.actions import checked_id
from gsched.slurm.failures import is_unknown_job
from gsched.slurm.fields import new_separator
from gsched.slurm.records import FreeText, PriorityRow, QueueListing, QueueRow
from gsched.slurm.run import Run

_MOST_IDS = 1000
_FEW_IDS = 100


class Listings:
    """Asks for jobs; what a record that has not changed became is handed out again."""

    def __init__(self, run: Run) -> None:
        """`run` runs a command."""
        self._run = run
        self._queues = {
            with_texts: parse_queue.queue_cache(with_texts=with_texts)
            for with_texts in (False, True)
        }
        self._priorities = parse_priority.priority_cache()

    def queue(
        self, states: Literal["live", "all"], with_texts: bool, all_partitions: bool
    ) -> QueueListing:
        """See ``SlurmClient.queue``."""
        separator = new_separator()
        chosen = ("--states=all",) if states == "all" else ()
        hidden = ("-a",) if all_partitions else ()
        fields = parse_queue.QUEUE_FIELDS + (parse_queue.TEXT_FIELDS if with_texts else ())
        form = parse_queue.squeue_format(fields, separator)
        argv = ("squeue", "-h", *hidden, "--local", "--noconvert", *chosen, "-O", form)
        return parse_queue.parse_queue(
            self._run(*argv).check().stdout,
            separator,
            with_texts=with_texts,
            cache=self._queues[with_texts],
        )

    def jobs(self, slurm_ids: Sequence[str]) -> tuple[QueueRow, ...]:
        """See ``SlurmClient.jobs``. Of a single id slurmctld is asked for that job alone."""
        if not slurm_ids:
            return ()
        separator = new_separator()
        form = parse_queue.squeue_format(parse_queue.QUEUE_FIELDS, separator)
        chosen = ("--states=all", "-j", ",".join(map(checked_id, slurm_ids)))
        answer = self._run(
            "squeue", "-r", "-h", "-a", "--local", "--noconvert", *chosen, "-O", form
        )
        if is_unknown_job(answer.stderr):  # squeue -j fails when its only job is gone
            return ()
        return parse_queue.parse_queue(answer.check().stdout, separator).rows

    def pinned_jobs(self) -> frozenset[int]:
        """See ``CommandClient.pinned_jobs``."""
        separator = new_separator()
        form = parse_queue.squeue_format(parse_queue.PINNED_FIELDS, separator)
        answer = self._run("squeue", "-h", "-a", "--local", "--states=PENDING", "-O", form)
        return parse_queue.parse_pinned(answer.check().stdout, separator)

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        """See ``SlurmClient.free_text``."""
        if not raw_ids:
            return {}
        separator = new_separator()
        form = parse_queue.squeue_format(parse_queue.FREE_TEXT_FIELDS, separator)
        # Slurm sends all jobs in any case; -j only thins out what squeue prints.
        chosen = ("-j", ",".join(map(str, raw_ids))) if len(raw_ids) <= _MOST_IDS else ()
        answer = self._run("squeue", "-h", "-a", "--local", "--states=all", *chosen, "-O", form)
        if is_unknown_job(answer.stderr):  # squeue -j fails when its only job is gone
            return {}
        texts = parse_queue.parse_free_text(answer.check().stdout, separator)
        return {raw_id: texts[raw_id] for raw_id in raw_ids if raw_id in texts}

    def priorities(self, raw_ids: Sequence[int]) -> Mapping[int, PriorityRow]:
        """See ``SlurmClient.priorities``.

        slurmctld of 22.05 goes through the list of ids for every job of its queue, while it holds
        the lock on them: instead of more than a few ids, all jobs are the smaller question.
        """
        separator = new_separator()
        form = parse_priority.sprio_format(separator)
        few = 0 < len(raw_ids) <= _FEW_IDS
        chosen = ("-j", ",".join(map(str, raw_ids))) if few else ()
        answer = self._run("sprio", "-h", "--local", *chosen, "-o", form)
        if "supported priority plugin" in answer.stderr:
            return {}
        text = answer.check().stdout
        cache = None if few else self._priorities
        return parse_priority.parse_priorities(text, separator, cache)
