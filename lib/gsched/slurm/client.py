"""What gsched asks of Slurm, and the client that asks with Slurm's own commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol

from gsched.errors import GschedError
from gsched.model.cluster import NodeView, PartitionView, ReservationView
from gsched.model.history import Batch, Reject
from gsched.slurm import (
    accounting,
    actions,
    detail,
    limits,
    live_sacct,
    own_preemption,
    parse_config,
    parse_node_events,
    split_tasks,
    usage,
    users,
)
from gsched.slurm.accounting import EVERY_JOB, PLAIN
from gsched.slurm.listings import Listings
from gsched.slurm.own_preemption import OwnPreemption
from gsched.slurm.parse_associations import Association, association_argv, parse_associations
from gsched.slurm.parse_limits import LimitRecord, NodeDemand
from gsched.slurm.parse_node_events import NodeEvents
from gsched.slurm.parse_usage import UsageRecord
from gsched.slurm.patience import Patience, Runner
from gsched.slurm.privileges import Privilege
from gsched.slurm.records import (
    AccountingFilter,
    FreeText,
    JobDetail,
    NodeFacts,
    PriorityRow,
    QueueListing,
    QueueRow,
    SacctForm,
    SlurmConfig,
    UpdateOutcome,
)
from gsched.slurm.run import Completed, run


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

        In squeue's own order. `with_texts` reads names and comments in the same call. Without
        `all_partitions`, jobs of hidden partitions are left out. What has not changed since the
        client's last listing of the kind is handed out as the same objects.
        """
        ...

    def jobs(self, slurm_ids: Sequence[str]) -> tuple[QueueRow, ...]:
        """These few jobs (``7``, ``7_3``), also when they have ended; unknown ones are absent."""
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

    def priorities(self, raw_ids: Sequence[int] = ()) -> Mapping[int, PriorityRow]:
        """Pending jobs' priorities by raw id. Held jobs and just released ones are absent.

        Of `raw_ids` alone, where some are named; others may be there as well.
        """
        ...

    def nodes(self) -> tuple[NodeView, ...]:
        """All nodes."""
        ...

    def node_facts(self) -> tuple[NodeFacts, ...]:
        """All nodes with what is known of their power, by one short question."""
        ...

    def switches(self) -> Mapping[str, str]:
        """The leaf switch of each node, {} where Slurm has no topology."""
        ...

    def pinned_jobs(self) -> frozenset[int]:
        """Raw ids of the waiting jobs that name nodes which they must have."""
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

    def requeue(
        self, slurm_ids: Sequence[str], *, hold: bool = False, unfinished_only: bool = False
    ) -> tuple[UpdateOutcome, ...]:
        """Requeue jobs (``7``, ``7_3``), to wait or to be held; outcomes in the same order.

        An id of an array or a het job means all of its parts. Slurm begins a job anew that has
        ended, too: with `unfinished_only` it is left as it is, and nothing is said of it.
        """
        ...

    def signal(self, slurm_id: str, name: str) -> UpdateOutcome:
        """Send a signal (``USR1``) to the batch shell of one job that runs.

        Raises when it is not known whether it was sent.
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

    def associations(self, cluster: str) -> tuple[Association, ...]:
        """Accounts and their users, as far as the caller may see them; needs slurmdbd."""
        ...

    def limits(self, account: str, qos: Sequence[str]) -> tuple[LimitRecord, ...]:
        """Limits of an account, of those above it and of some QOS, and their present use."""
        ...

    def qos_flags(self, qos: str) -> frozenset[str]:
        """The flags of a QOS, such as ``PartitionTimeLimit``."""
        ...

    def own_preemption(self, config: SlurmConfig) -> OwnPreemption:
        """Whom this Slurm itself pushes aside for whom, by a requeue."""
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
        """What `user` may do on the cluster. slurmdbd tells that of others only to operators."""
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
        self._listings = Listings(self._run)

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
        return self._listings.queue(states, with_texts, all_partitions)

    def jobs(self, slurm_ids: Sequence[str]) -> tuple[QueueRow, ...]:
        """See SlurmClient."""
        return self._listings.jobs(slurm_ids)

    def split_tasks(self, raw_ids: Sequence[int]) -> QueueListing:
        """See SlurmClient."""
        return split_tasks.split_tasks(self._run, raw_ids)

    def free_text(self, raw_ids: Sequence[int]) -> Mapping[int, FreeText]:
        """See SlurmClient."""
        return self._listings.free_text(raw_ids)

    def job_detail(self, raw_id: int) -> JobDetail | None:
        """See SlurmClient."""
        return detail.job_detail(self._run, raw_id)

    def priorities(self, raw_ids: Sequence[int] = ()) -> Mapping[int, PriorityRow]:
        """See SlurmClient. Empty under PriorityType=priority/basic, which has no factors."""
        return self._listings.priorities(raw_ids)

    def nodes(self) -> tuple[NodeView, ...]:
        """See SlurmClient."""
        return parse_config.parse_nodes(self._output("scontrol", "-a", "-d", "-o", "show", "node"))

    def node_facts(self) -> tuple[NodeFacts, ...]:
        """See SlurmClient."""
        text = self._output("scontrol", "-a", "-o", "show", "node")
        return parse_config.parse_node_facts(text)

    def switches(self) -> Mapping[str, str]:
        """See SlurmClient. Slurm fails where there is no topology."""
        answer = self._run("scontrol", "show", "topology")
        return parse_config.parse_topology(answer.stdout) if not answer.status else {}

    def pinned_jobs(self) -> frozenset[int]:
        """See SlurmClient."""
        return self._listings.pinned_jobs()

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
        return actions.set_site_factors(self._patience.once, values)

    def requeue(
        self, slurm_ids: Sequence[str], *, hold: bool = False, unfinished_only: bool = False
    ) -> tuple[UpdateOutcome, ...]:
        """See SlurmClient. One scontrol for all; raises as `set_site_factors` does."""
        once = self._patience.once
        return actions.requeue(once, slurm_ids, hold=hold, unfinished_only=unfinished_only)

    def signal(self, slurm_id: str, name: str) -> UpdateOutcome:
        """See SlurmClient. One scancel, which waits while the job is between two states."""
        return actions.signal(self._patience.once, slurm_id, name)

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

    def associations(self, cluster: str) -> tuple[Association, ...]:
        """See SlurmClient."""
        return parse_associations(self._output(*association_argv(cluster)))

    def limits(self, account: str, qos: Sequence[str]) -> tuple[LimitRecord, ...]:
        """See SlurmClient."""
        return limits.limits(self._run, account, qos)

    def qos_flags(self, qos: str) -> frozenset[str]:
        """See SlurmClient. Raises UnavailableError on a cluster without slurmdbd."""
        return limits.qos_flags(self._run, qos)

    def own_preemption(self, config: SlurmConfig) -> OwnPreemption:
        """See SlurmClient. Raises UnavailableError where slurmdbd, which knows of QOS, is not."""
        return own_preemption.ask(self._run, config)

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
        return users.privilege(self._run, self.config(), user)

    def coordinated_accounts(self, user: str) -> frozenset[str]:
        """See SlurmClient."""
        return users.coordinated_accounts(self._run, user)
