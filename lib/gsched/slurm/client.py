"""What gsched asks of Slurm, and the client that asks with Slurm's own commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from gsched.errors import UnavailableError, UsageError
from gsched.model.cluster import NodeView, PartitionView, ReservationView
from gsched.model.history import Batch
from gsched.slurm import parse_config, parse_priority, parse_queue, parse_sacct
from gsched.slurm.fields import new_separator
from gsched.slurm.records import (
    FreeText,
    PriorityRow,
    QueueListing,
    SlurmConfig,
    UpdateOutcome,
)
from gsched.slurm.run import Completed, is_unreachable, run

MAX_SITE_FACTOR = 2**31 - 4
"""Slurm stores SiteFactor with an offset of 2^31; beyond this it takes no value."""

_MOST_IDS = 1000
_UPDATABLE_ID = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)

Privilege = Literal["root", "slurm-user", "admin", "operator", "user"]


MAY_ACT: frozenset[Privilege] = frozenset({"root", "slurm-user", "admin", "operator"})
"""Privileges that let Slurm take a SiteFactor."""


class SlurmClient(Protocol):
    """One cluster's Slurm. Every call may raise the errors of ``gsched.slurm.run``."""

    def config(self) -> SlurmConfig:
        """The configuration of slurmctld in force."""
        ...

    def queue(self, states: Literal["live", "all"] = "live") -> QueueListing:
        """The jobs that slurmctld knows: pending and running, or with those that ended lately."""
        ...

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        """Names and comments; jobs that Slurm no longer knows are absent."""
        ...

    def priorities(self) -> Mapping[int, PriorityRow]:
        """Pending jobs' priorities by raw id. Held jobs and just released ones are absent."""
        ...

    def nodes(self) -> tuple[NodeView, ...]:
        """All nodes."""
        ...

    def partitions(self) -> tuple[PartitionView, ...]:
        """All partitions, hidden ones too."""
        ...

    def reservations(self) -> tuple[ReservationView, ...]:
        """All reservations, current and future."""
        ...

    def cron_job_ids(self) -> frozenset[int]:
        """Raw ids of scrontab's jobs, and perhaps some that no job of the queue has."""
        ...

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        """Set the SiteFactor of each (slurm id, value); outcomes in the same order."""
        ...

    def accounting(self, since: int, until: int) -> Batch:
        """Attempts of jobs that slurmdbd saw in any state from `since` to `until` (epoch)."""
        ...

    def privilege(self, user: str) -> Privilege:
        """What `user`, who runs this process, may do on the cluster."""
        ...


class CommandClient:
    """SlurmClient by squeue, sprio, scontrol, sacct and sacctmgr."""

    def __init__(self, timeout_s: float = 60.0) -> None:
        """`timeout_s` limits each command."""
        self._timeout_s = timeout_s

    def _run(self, *argv: str, stdin: str | None = None) -> Completed:
        return run(argv, stdin=stdin, timeout_s=self._timeout_s)

    def _output(self, *argv: str) -> str:
        return self._run(*argv).check().stdout

    def config(self) -> SlurmConfig:
        """See SlurmClient."""
        return parse_config.parse_config(self._output("scontrol", "show", "config"))

    def queue(self, states: Literal["live", "all"] = "live") -> QueueListing:
        """See SlurmClient."""
        separator = new_separator()
        chosen = ("--states=all",) if states == "all" else ()
        form = parse_queue.squeue_format(parse_queue.QUEUE_FIELDS, separator)
        text = self._output("squeue", "-h", "-a", "--local", "--noconvert", *chosen, "-O", form)
        return parse_queue.parse_queue(text, separator)

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        """See SlurmClient."""
        if not raw_ids:
            return {}
        separator = new_separator()
        form = parse_queue.squeue_format(parse_queue.FREE_TEXT_FIELDS, separator)
        # Slurm sends all jobs in any case; -j only thins out what squeue prints.
        chosen = ("-j", ",".join(map(str, raw_ids))) if len(raw_ids) <= _MOST_IDS else ()
        answer = self._run("squeue", "-h", "-a", "--local", "--states=all", *chosen, "-O", form)
        if "Invalid job id" in answer.stderr:  # squeue -j fails when its only job is gone
            return {}
        texts = parse_queue.parse_free_text(answer.check().stdout, separator)
        return {raw_id: texts[raw_id] for raw_id in raw_ids if raw_id in texts}

    def priorities(self) -> Mapping[int, PriorityRow]:
        """See SlurmClient. Empty under PriorityType=priority/basic, which has no factors."""
        separator = new_separator()
        form = parse_priority.sprio_format(separator)
        answer = self._run("sprio", "-h", "--local", "-o", form)
        if "supported priority plugin" in answer.stderr:
            return {}
        return parse_priority.parse_priorities(answer.check().stdout, separator)

    def nodes(self) -> tuple[NodeView, ...]:
        """See SlurmClient."""
        return parse_config.parse_nodes(self._output("scontrol", "-a", "-d", "-o", "show", "node"))

    def partitions(self) -> tuple[PartitionView, ...]:
        """See SlurmClient."""
        text = self._output("scontrol", "-a", "-o", "show", "partition")
        return parse_config.parse_partitions(text)

    def reservations(self) -> tuple[ReservationView, ...]:
        """See SlurmClient."""
        text = self._output("scontrol", "-a", "-o", "show", "reservation")
        return parse_config.parse_reservations(text)

    def cron_job_ids(self) -> frozenset[int]:
        """See SlurmClient. Asks for the jobs only where scrontab is switched on."""
        if "enable" not in self.config().flags("ScronParameters"):
            return frozenset()
        return parse_config.parse_cron_jobs(self._output("scontrol", "-a", "-o", "show", "job"))

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        """See SlurmClient. One scontrol for all.

        Raises when Slurm could not be reached; some values may have been taken by then.
        """
        if not values:
            return ()
        lines = [_update_line(slurm_id, value) for slurm_id, value in values]
        answer = self._run("scontrol", stdin="\n".join(lines) + "\n")
        errors = parse_config.parse_update_errors(answer.stderr)
        if answer.status != 0 and (is_unreachable(answer.stderr) or not errors):
            raise answer.failure()  # some may have been taken: the caller re-reads
        return tuple(UpdateOutcome(slurm_id, errors.get(slurm_id, "")) for slurm_id, _ in values)

    def accounting(self, since: int, until: int) -> Batch:
        """See SlurmClient. Raises UnavailableError on a cluster without slurmdbd."""
        config = self.config()
        if not config.has_slurmdbd:
            raise UnavailableError(
                "this cluster has no slurmdbd, so sacct knows no jobs",
                "set up slurmdbd, or JobCompType=jobcomp/filetxt",
            )
        separator = new_separator()
        tracked = config.get("AccountingStorageTRES").split(",")
        text = self._output(*parse_sacct.sacct_argv(since, until, separator))
        return parse_sacct.parse_sacct(text, separator, counts_gpus="gres/gpu" in tracked)

    def privilege(self, user: str) -> Privilege:
        """See SlurmClient."""
        config = self.config()
        if user == "root":
            return "root"
        if config.get("SlurmUser").partition("(")[0] == user:
            return "slurm-user"
        if not config.has_slurmdbd:
            return "user"
        text = self._output(
            "sacctmgr", "-n", "-P", "show", "user", "where", f"name={user}", "format=adminlevel"
        )
        levels: dict[str, Privilege] = {"Administrator": "admin", "Operator": "operator"}
        return levels.get(text.strip(), "user")


def _update_line(slurm_id: str, value: int) -> str:
    """A line for scontrol's stdin. Raises UsageError for what is no job id or no SiteFactor."""
    if _UPDATABLE_ID.fullmatch(slurm_id) is None:
        raise UsageError(f"not a job id: {slurm_id!r}")
    if abs(value) > MAX_SITE_FACTOR:
        raise UsageError(f"SiteFactor {value} of job {slurm_id} is beyond ±{MAX_SITE_FACTOR}")
    return f"update jobid={slurm_id} sitefactor={int(value)}"
