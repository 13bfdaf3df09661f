"""What gsched asks of Slurm, and the client that asks with Slurm's own commands."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

from gsched.errors import GschedError, UsageError
from gsched.model.cluster import NodeView, PartitionView, ReservationView
from gsched.model.history import Batch, Reject
from gsched.slurm import (
    accounting,
    detail,
    limits,
    live_sacct,
    parse_config,
    parse_node_events,
    parse_priority,
    parse_queue,
    split_tasks,
    usage,
)
from gsched.slurm.accounting import EVERY_JOB, PLAIN
from gsched.slurm.failures import is_unknown_job, may_pass
from gsched.slurm.fields import new_separator
from gsched.slurm.parse_limits import LimitRecord, NodeDemand
from gsched.slurm.parse_node_events import NodeEvents
from gsched.slurm.parse_usage import UsageRecord
from gsched.slurm.patience import Patience, Runner
from gsched.slurm.records import (
    AccountingFilter,
    FreeText,
    JobDetail,
    PriorityRow,
    QueueListing,
    SacctForm,
    SlurmConfig,
    UpdateOutcome,
)
from gsched.slurm.run import Completed, run

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

    def queue(
        self,
        states: Literal["live", "all"] = "live",
        *,
        with_texts: bool = False,
        all_partitions: bool = True,
    ) -> QueueListing:
        """The jobs that slurmctld knows: pending and running, or with those that ended lately.

        In squeue's own order. `with_texts` reads names and comments in the same call: for a view,
        not for rounds. Without `all_partitions`, jobs of hidden partitions are left out.
        """
        ...

    def split_tasks(self, raw_ids: Sequence[int]) -> QueueListing:
        """Waiting array tasks with a number of their own, which `queue` hides; with texts."""
        ...

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        """Names and comments; jobs that Slurm no longer knows are absent."""
        ...

    def job_detail(self, raw_id: int) -> JobDetail | None:
        """One job in all detail; None when slurmctld knows no job of that number (any more)."""
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

    def federation(self) -> str:
        """The federation that this cluster is a member of, '' for none. Needs slurmdbd."""
        ...

    def cron_job_ids(self) -> frozenset[int]:
        """Raw ids of scrontab's jobs, and perhaps some that no job of the queue has."""
        ...

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        """Set the SiteFactor of each (slurm id, value); outcomes in the same order.

        Raises when Slurm could not be reached or did not answer for one of them: any of them may
        have been taken then, and nothing is sent again. Whoever wrote reads back what stands.
        """
        ...

    def requeue(self, slurm_ids: Sequence[str], *, hold: bool = False) -> tuple[UpdateOutcome, ...]:
        """Requeue jobs (``7``, ``7_3``), to wait or to be held; outcomes in the same order.

        An id of an array or a het job means all of its parts.
        """
        ...

    def accounting(self, since: int, until: int, chosen: AccountingFilter = EVERY_JOB) -> Batch:
        """Attempts of jobs that slurmdbd saw in any state from `since` to `until` (epoch).

        All of it in one batch, in the order of submission; `accounting_chunks` is for long times.
        """
        ...

    def accounting_chunks(
        self,
        since: int,
        until: int,
        chosen: AccountingFilter = EVERY_JOB,
        form: SacctForm = PLAIN,
    ) -> Iterator[Batch]:
        """The same chunk by chunk, the oldest first, so that a reader can keep each at once.

        The cursor of a batch is the epoch time up to which all is read then: a read that was
        interrupted goes on from there (less ``accounting.OVERLAP_S``). An attempt may be in
        several chunks; what a later one says of it is newer.
        """
        ...

    def node_events(self, since: int) -> NodeEvents:
        """What slurmdbd knows of nodes that were down or drained at some time since `since`."""
        ...

    def limits(self, account: str, qos: Sequence[str]) -> tuple[LimitRecord, ...]:
        """Limits of an account, of those above it and of some QOS, and their present use."""
        ...

    def qos_flags(self, qos: str) -> frozenset[str]:
        """The flags of a QOS, such as ``PartitionTimeLimit``."""
        ...

    def licences(self) -> Mapping[str, int]:
        """How many of each licence the cluster has, by name."""
        ...

    def node_demand(self, raw_id: int) -> NodeDemand | None:
        """What each node must give to a job; None when slurmctld knows it no longer."""
        ...

    def usage(self, job_ids: Sequence[str]) -> tuple[tuple[UsageRecord, ...], tuple[Reject, ...]]:
        """Every attempt of some jobs with what its steps used, as sacct shows it to the caller."""
        ...

    def privilege(self, user: str) -> Privilege:
        """What `user`, who runs this process, may do on the cluster."""
        ...

    def coordinated_accounts(self, user: str) -> frozenset[str]:
        """Accounts (and those below them) whose coordinator `user` is; needs slurmdbd."""
        ...


class CommandClient:
    """SlurmClient by squeue, sprio, scontrol, sacct and sacctmgr."""

    def __init__(
        self,
        timeout_s: float = 60.0,
        notify: Callable[[str], None] = lambda _: None,
        *,
        asks_again: bool = True,
        runner: Runner = run,
    ) -> None:
        """`timeout_s` limits each question, repeated attempts included.

        `notify` is told, in a sentence, when an answer is late. A caller that comes again by itself
        wants no `asks_again`. `runner` runs the commands.
        """
        self._patience = Patience(timeout_s, notify, asks_again=asks_again, runner=runner)

    def _run(self, *argv: str) -> Completed:
        return self._patience.read(argv)

    def _output(self, *argv: str) -> str:
        return self._run(*argv).check().stdout

    def config(self) -> SlurmConfig:
        """See SlurmClient."""
        return parse_config.parse_config(self._output("scontrol", "show", "config"))

    def queue(
        self,
        states: Literal["live", "all"] = "live",
        *,
        with_texts: bool = False,
        all_partitions: bool = True,
    ) -> QueueListing:
        """See SlurmClient."""
        separator = new_separator()
        chosen = ("--states=all",) if states == "all" else ()
        hidden = ("-a",) if all_partitions else ()
        fields = parse_queue.QUEUE_FIELDS + (parse_queue.TEXT_FIELDS if with_texts else ())
        form = parse_queue.squeue_format(fields, separator)
        text = self._output("squeue", "-h", *hidden, "--local", "--noconvert", *chosen, "-O", form)
        return parse_queue.parse_queue(text, separator, with_texts=with_texts)

    def split_tasks(self, raw_ids: Sequence[int]) -> QueueListing:
        """See SlurmClient."""
        return split_tasks.split_tasks(self._run, raw_ids)

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        """See SlurmClient."""
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

    def job_detail(self, raw_id: int) -> JobDetail | None:
        """See SlurmClient."""
        return detail.job_detail(self._run, raw_id)

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

    def federation(self) -> str:
        """See SlurmClient."""
        return parse_config.parse_federation(self._output("scontrol", "show", "federation"))

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
        ids = [slurm_id for slurm_id, _ in values]
        return self._feed(ids, [_update_line(slurm_id, value) for slurm_id, value in values])

    def requeue(self, slurm_ids: Sequence[str], *, hold: bool = False) -> tuple[UpdateOutcome, ...]:
        """See SlurmClient. One scontrol for all; raises as `set_site_factors` does."""
        if not slurm_ids:
            return ()
        verb = "requeuehold" if hold else "requeue"
        return self._feed(slurm_ids, [f"{verb} {_checked(slurm_id)}" for slurm_id in slurm_ids])

    def _feed(self, slurm_ids: Sequence[str], lines: Sequence[str]) -> tuple[UpdateOutcome, ...]:
        """What one scontrol says to a line for each job. Never sent again: see SlurmClient."""
        answer = self._patience.once(("scontrol",), "\n".join(lines) + "\n")
        errors = parse_config.parse_update_errors(answer.stderr)
        if answer.status != 0 and (may_pass(answer.stderr) or not errors):
            raise answer.failure()  # some may have been taken: the caller re-reads
        return tuple(UpdateOutcome(slurm_id, errors.get(slurm_id, "")) for slurm_id in slurm_ids)

    def accounting(self, since: int, until: int, chosen: AccountingFilter = EVERY_JOB) -> Batch:
        """See SlurmClient. Raises as `accounting_chunks` does."""
        return accounting.merged(self.accounting_chunks(since, until, chosen))

    def accounting_chunks(
        self,
        since: int,
        until: int,
        chosen: AccountingFilter = EVERY_JOB,
        form: SacctForm = PLAIN,
    ) -> Iterator[Batch]:
        """See SlurmClient.

        Raises NoAccountingError on a cluster without slurmdbd, UsageError for a filter that sacct
        cannot take, TryAgainError when slurmdbd cannot even answer for an hour in time.
        """
        accounting.check_filter(chosen)
        ask = live_sacct.asking(self._run, chosen, form, self._counts_gpus)
        # a few jobs by their ids are found at once, however long ago they were
        chunk_s = until - since if chosen.job_ids else accounting.FIRST_CHUNK_S
        return accounting.read_chunks(ask, since, until, chunk_s=chunk_s)

    def node_events(self, since: int) -> NodeEvents:
        """See SlurmClient. Raises UnavailableError on a cluster without slurmdbd."""
        text = self._output(*parse_node_events.event_argv(since))
        return parse_node_events.parse_node_events(text)

    def limits(self, account: str, qos: Sequence[str]) -> tuple[LimitRecord, ...]:
        """See SlurmClient."""
        return limits.limits(self._run, account, qos)

    def qos_flags(self, qos: str) -> frozenset[str]:
        """See SlurmClient. Raises UnavailableError on a cluster without slurmdbd."""
        return limits.qos_flags(self._run, qos)

    def licences(self) -> Mapping[str, int]:
        """See SlurmClient."""
        return limits.licences(self._run)

    def node_demand(self, raw_id: int) -> NodeDemand | None:
        """See SlurmClient."""
        return limits.node_demand(self._run, raw_id)

    def usage(self, job_ids: Sequence[str]) -> tuple[tuple[UsageRecord, ...], tuple[Reject, ...]]:
        """See SlurmClient. Raises NoAccountingError on a cluster without slurmdbd."""
        return usage.usage(self._run, job_ids, counts_gpus=self._counts_gpus)

    def _counts_gpus(self) -> bool:
        """Whether the cluster accounts for GPUs; not so, as far as known, without its slurmctld."""
        try:
            answer = self._patience.once(("scontrol", "show", "config"), "")
            config = parse_config.parse_config(answer.check().stdout)
        except GschedError:
            return False
        return "gres/gpu" in config.get("AccountingStorageTRES").split(",")

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

    def coordinated_accounts(self, user: str) -> frozenset[str]:
        """See SlurmClient."""
        form = "format=coord"
        text = self._output(
            "sacctmgr", "-n", "-P", "show", "user", "where", f"name={user}", "withcoord", form
        )
        return frozenset(name for name in text.strip().split(",") if name)


def _update_line(slurm_id: str, value: int) -> str:
    """A line for scontrol's stdin. Raises UsageError for what is no job id or no SiteFactor."""
    if abs(value) > MAX_SITE_FACTOR:
        raise UsageError(f"SiteFactor {value} of job {slurm_id} is beyond ±{MAX_SITE_FACTOR}")
    return f"update jobid={_checked(slurm_id)} sitefactor={int(value)}"


def _checked(slurm_id: str) -> str:
    """The id of one job, for scontrol's stdin, where another line would be another command."""
    if _UPDATABLE_ID.fullmatch(slurm_id) is None:
        raise UsageError(f"not a job id: {slurm_id!r}")
    return slurm_id
