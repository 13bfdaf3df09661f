"""All settings of gsched with their defaults. Files and environment are read by ``loader``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from gsched.model.phases import NO_RULES, PhaseRules

DEFAULT_STATE_DIR = Path("/var/lib/gsched")


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Where the job history is kept."""

    url: str = ""
    """postgresql://USER@HOST/DATABASE, mariadb://USER@HOST/DATABASE or sqlite:///FILE; empty =
    SQLite in `state_dir`/history.db, which is for one host and one user. Options of the drivers
    (psycopg, PyMySQL) follow as ?NAME=VALUE&…: sslmode=verify-full, sslrootcert=FILE;
    ssl_ca=FILE, ssl_check_hostname=true, unix_socket=PATH. A password in the URL is taken only
    from GSCHED_DATABASE_URL and from a file like that of `password_file`."""
    password_file: str = ""
    """Path of a file whose first line is the server's password. It belongs to root or to whoever
    uses it, nobody but owner and group can read it and only the owner can write it (mode 0600 or
    0640). Empty = the client's own ways: for PostgreSQL ~/.pgpass and all of libpq's, for MariaDB
    `password` of the group [client] in ~/.my.cnf, of mode 0600."""
    keep_steps: bool = False
    """true = job steps are kept too, with CPU time, memory and GPU use: those that are read from
    now on. `gsched db ingest --since TIME` brings earlier ones that slurmdbd still has."""


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """How Slurm's commands are called."""

    command_timeout_s: float = 60.0
    """Seconds that one question to Slurm may take, repeated attempts included; then the command and
    its process group are killed."""
    jobcomp_file: str = ""
    """Path of jobcomp/filetxt's file; empty = as `scontrol show config` says. The name of a job
    can hold a whole record of somebody else's, and nothing in the file tells it from a true one:
    the first record of an attempt stays, one that contradicts it is rejected. Where users may not
    trust each other, slurmdbd is needed: it cannot be forged so."""


@dataclass(frozen=True, slots=True)
class PredictSettings:
    """How run times are predicted."""

    estimator: str = "model"
    """`model` (trained on the history), `constant` (all alike), `table` (a CSV file)."""
    table: str = ""
    """CSV file user,name,duration_s for the estimator `table`."""
    retrain_interval_s: int = 3600
    """Seconds between refits by the daemon; 0 = only `gsched predict train`."""
    min_jobs: int = 10
    """Fewer finished jobs than this train no model."""
    history_days: int = 180
    """Jobs that ended longer ago than this many days are not trained on."""


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """How the priority daemon works."""

    policy: str = "qssf"
    """Name of the policy, see `gsched policy list`."""
    policy_scope: dict[str, str] = field(default_factory=dict)
    """Policies of single partitions, as a table: partition = policy; all others have `policy`. A
    job that is in partitions of two policies keeps the median place."""
    interval_s: float = 30.0
    """Seconds between rounds."""
    decide_limit_s: float = 10.0
    """Seconds that a policy may take to decide; then its round fails and the last order stays."""
    max_shift: int = 0
    """Priority points by which a job may be moved up or down; 0 = from the priority weights. See
    starvation_bound_s for the one exception."""
    quantum: int = 0
    """SiteFactor values are multiples of this; 0 = 1/500 of the range."""
    dead_band: int = 0
    """A value that differs by less than this is not written; 0 = one quantum."""
    write_budget: int = 1000
    """Most SiteFactor writes in one round."""
    burst_interval_s: float = 0.0
    """Seconds from one round that writes to the next one that may: Slurm's backfill begins anew
    when priorities change under it. 0 = the cluster's bf_interval."""
    starvation_bound_s: int = 7 * 86400
    """A job that has waited so many seconds since it could start (a requeued one: since its first
    submit) is moved up, whatever the policy says, until its priority lies above that of every
    waiting job in a common partition that has not; of those that have, the longest waiter first as
    far as the range reaches. 0 = never. Its SiteFactor may come to 2 × max_shift, which is enough
    unless max_shift is set below the sum of the weights by which jobs of a partition differ, or
    PriorityWeightPartition lies below it: `gsched doctor` and `gsched why` say so then. Nice values
    may outweigh it as well, and what an administrator has set by hand (Priority, SiteFactor) is
    not outbid."""
    freeze: tuple[str, ...] = ()
    """Times in which the daemon only observes, in the head node's local time: `Fri 16:00-Mon 08:00`
    or `Sun 02:00-06:00` every week, `22:00-06:00` every day, `2026-12-24T00:00/2027-01-02T00:00`
    once. What was written before stands meanwhile. Where clocks change within a window it is rather
    longer than shorter."""
    kill_switch: Path = Path("/etc/gsched/off")
    """While there is a file of this name, an acting daemon takes back every value that was written
    and then only observes. Any file will do; its first line is told as the reason. The values are
    in the history database: while that does not answer, no daemon writes, but they stand until it
    does; `gsched daemon clear --all` sets them to 0 without it."""
    partitions: tuple[str, ...] = ()
    """Partitions whose jobs gsched may move; empty = all."""
    leases: bool = False
    """true = a policy may lease GPUs: a job whose lease has ended is told to save (signal USR1 to
    its batch shell) and requeued, where its user has asked for that. None of this release's
    policies does, nor can a user ask yet. Where Slurm preempts by itself (PreemptType,
    PreemptMode=REQUEUE), that is the better way."""
    control_partitions: tuple[str, ...] = ()
    """Partitions whose jobs are ranked but not moved: the control with which `gsched daemon report`
    compares the others."""
    control_interval_s: int = 0
    """Seconds for which an acting daemon acts, and then only observes, in turn (604800 = every
    second week, from Monday 00:00 UTC): the control of `gsched daemon report` by time. At the turn
    to observing it takes back what it has written. 0 = off."""
    exclude_users: tuple[str, ...] = ()
    """Users whose jobs are never touched."""
    exclude_accounts: tuple[str, ...] = ()
    """Accounts whose jobs are never touched."""
    query_listen: str = ""
    """host:port on which the daemon answers gsched's clients (munge proves who asks and who
    answers); empty = only by its status file. Where it cannot listen there (the port is in use) the
    daemon goes on without, says so, and tries again each round."""
    query_address: str = ""
    """host:port at which clients on other hosts reach query_listen; empty = they read the status
    file only."""
    query_user: str = ""
    """User whose answers clients believe besides root's and SlurmUser's: the one that the daemon
    runs as."""
    socket: str = ""
    """Path of the local socket by which `gsched daemon status`, `reload` and `audit` reach the
    daemon; the kernel says who asks. Empty = /run/gsched/daemon.sock with the default `state_dir`,
    daemon.sock in any other one."""
    metrics_listen: str = ""
    """host:port on which Prometheus reads the daemon's metrics, without proof of who asks: they
    hold counts and times, no names of users or jobs. Empty = off."""
    metrics_file: str = ""
    """Path of a file ending in .prom that is replaced after every round, or try to begin, and
    removed when the daemon ends, for node_exporter's textfile collector. Empty = off."""
    knobs: dict[str, float] = field(default_factory=dict)
    """Knobs of the policy, see `gsched policy list --json`; with `policy_scope` each policy takes
    those that it has."""


@dataclass(frozen=True, slots=True)
class HelperSettings:
    """The helper `gsched-helper`, which does for the daemon what needs a Slurm administrator."""

    verbs: tuple[str, ...] = ()
    """What it may do: drain, resume, power-down, power-up, admin-comment. Empty = nothing."""
    nodes: tuple[str, ...] = ()
    """Host lists (gn[01-16]) of the nodes that it may do it to."""
    user: str = "gsched"
    """The user that may ask it, besides root."""
    socket: str = ""
    """Path of its socket. Empty = /run/gsched-helper/helper.sock with the default `state_dir`,
    helper.sock in any other one."""


@dataclass(frozen=True, slots=True)
class SubmitSettings:
    """What `gsched submit` does of its own accord."""

    opt_out: bool = False
    """true = every submission asks gsched to keep away from the job, as by --gs-none. For one's own
    configuration file."""


@dataclass(frozen=True, slots=True)
class PhaseSettings:
    """What jobs do, where neither their users nor their source say it."""

    rules: PhaseRules = NO_RULES
    """Rules in order, each a table [[phases.rules]]; the first that matches gives a job's phase.
    `phase` is pretrain, eval, sft, debug or other. The conditions, all of which must hold: regular
    expressions `name`, `user`, `account`, `partition`, `qos`, found anywhere in the job's value,
    letter case apart, and the numbers `min_gpus`, `max_gpus`, both included. What gsched submit
    --gs-phase says wins over rules; a job that matches none is unclassified. After a change of the
    rules `gsched db upgrade` classifies the stored jobs again."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole configuration. `sources` lists the files that were read, in order."""

    state_dir: Path = DEFAULT_STATE_DIR
    """Folder of the database, the models, the daemon's lock and its status file."""
    database: DatabaseSettings = DatabaseSettings()
    slurm: SlurmSettings = SlurmSettings()
    predict: PredictSettings = PredictSettings()
    daemon: DaemonSettings = DaemonSettings()
    helper: HelperSettings = HelperSettings()
    submit: SubmitSettings = SubmitSettings()
    phases: PhaseSettings = PhaseSettings()
    sources: tuple[Path, ...] = ()

    @property
    def database_url(self) -> str:
        """The URL in force; it says where a password lies, not what it is."""
        url = self.database.url or f"sqlite:///{self.state_dir / 'history.db'}"
        if not self.database.password_file or url.startswith("sqlite"):
            return url
        path = quote(self.database.password_file)
        return f"{url}{'&' if '?' in url else '?'}password_file={path}"

    @property
    def model_file(self) -> Path:
        """The duration model that the daemon and `predict job` use."""
        return self.state_dir / "models" / "duration.gsmodel"

    @property
    def status_file(self) -> Path:
        """The public answer of the daemon: every user may read it."""
        return self.state_dir / "status.json"

    @property
    def daemon_socket(self) -> Path:
        """The local socket of the daemon."""
        return self._socket(self.daemon.socket, "gsched", "daemon.sock")

    @property
    def helper_socket(self) -> Path:
        """The local socket of `gsched-helper`."""
        return self._socket(self.helper.socket, "gsched-helper", "helper.sock")

    def _socket(self, configured: str, run_folder: str, name: str) -> Path:
        if configured:
            return Path(configured)
        is_site = self.state_dir == DEFAULT_STATE_DIR
        return Path("/run", run_folder, name) if is_site else self.state_dir / name
