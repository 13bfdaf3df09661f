"""All settings of gsched with their defaults. Files and environment are read by ``loader``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from gsched.config.deadlines import DeadlineSettings
from gsched.config.node_settings import (
    CesTable,
    EnergySettings,
    HelperSettings,
    PowerSettings,
)
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
    default_duration_s: int = 3600
    """Seconds that a job without a time limit is taken to run before any job has ended."""
    keep_models: int = 10
    """So many models are kept, the one in use among them, for `gsched predict rollback`."""


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
    """Priority points by which a job may be moved up or down; 0 = from the priority weights. Two
    exceptions reach to twice as many: see starvation_bound_s and leases."""
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
    """true = a policy may lease GPUs (ltgf, tiresias, edf and others do): a job whose lease has
    ended, and whose turn it is not any more, is told to save (signal USR1 to its batch shell), and
    requeued when it has. Only jobs whose users have asked for it give way (`gsched submit
    --gs-checkpoint`), and none that does not save within its grace (`grace_s` in `knobs`): what has
    come of it is in its heartbeat, so that [heartbeat] dir should be set; without one the grace
    alone decides. A lease lasts an hour, or 20 times as long as such a hand-over takes where that
    is more; `lease_s` in `knobs` sets another length, and none is granted that is shorter than 20
    hand-overs. Where Slurm itself preempts one job for another by requeueing it (PreemptType), that
    is left to Slurm. The job that shall have the GPUs is moved up until its priority lies above
    that of every waiting job in a common partition (but those of starvation_bound_s), by up to
    2 × max_shift; where that does not reach, nobody gives way. See gsched-fairness(7)."""
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
class FairnessSettings:
    """Whose the GPUs are, for the policy ltgf and `gsched fairness`. See gsched-fairness(7)."""

    quotas: dict[str, float] = field(default_factory=dict)
    """GPUs of each tenant (account), as a table: account = GPUs, in GPUs of worth 1. Who is not
    named has none, and gets what others leave. Empty = as Slurm says: GrpTRES=gres/gpu of the
    accounts where all that lie directly below root have one, else their shares (sacctmgr,
    Fairshare) of the cluster's GPUs; without slurmdbd equal parts."""
    gpu_weights: dict[str, float] = field(default_factory=dict)
    """What a GPU of a type is worth, as a table: type (as in gres/gpu:TYPE) = worth, above 0. A
    type that is not named is worth 1."""


@dataclass(frozen=True, slots=True)
class ForecastSettings:
    """When waiting jobs will start, as the daemon foresees it. It reads only, and moves no job."""

    enabled: bool = True
    """false = the daemon makes no forecasts: `gsched why` shows Slurm's own expectation alone."""
    interval_s: float = 60.0
    """Seconds between forecasts, which a process of the daemon's makes from what a round has seen.
    Where one takes longer than cpu_share allows, they are further apart."""
    samples: int = 32
    """Futures that are drawn for each forecast: more give steadier intervals and take longer."""
    cpu_share: float = 0.25
    """Share of one processor that forecasts may take in the long run, at nice 10. What is left of
    it after the forecast itself goes into trying what would start jobs sooner: those first that
    somebody asks about, then those that have just been submitted."""


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """Where training jobs tell how far they are."""

    dir: str = ""
    """Path of a folder that the nodes and this host share, one for each cluster, in which every
    user may make a folder and nobody may touch another's (mode 1777, as /tmp has). Jobs that use
    gsched's runtime write there, `gsched show`, `queue` and `top` read. A rank has a file of 24 kB,
    made with its user's umask: who can read it can read step, loss and the checkpoint folder's
    name. A user's files that nobody has written for 30 days are removed by the user's next job,
    those of users who are gone by nobody: systemd-tmpfiles can, with `e DIR 1777 - - 60d`. Empty =
    none."""


@dataclass(frozen=True, slots=True)
class SubmitSettings:
    """What `gsched submit` does of its own accord."""

    opt_out: bool = False
    """true = every submission asks gsched to keep away from the job, as by --gs-none. For one's own
    configuration file."""
    suggest_wait_s: float = 5.0
    """Seconds that --gs-suggest waits at most for what the daemon expects of the new job."""


@dataclass(frozen=True, slots=True)
class JobscriptSettings:
    """What `gsched submit --gs-checkpoint` and `--gs-runtime` put around a job's script."""

    dir: str = "/etc/gsched/jobscripts"
    """Path of the folder with the site's own templates, NAME.sh.j2; one of the same name as a
    template of gsched's goes before it. Need not be there. Empty = none."""
    python: str = ""
    """Path of the Python with gsched in it that compute nodes have. Empty = the one that runs
    `gsched submit`, which is right where nodes share its folder."""
    grace_s: int = 120
    """Seconds before a job's time limit at which it is told to save (sbatch --signal=B:USR1@…)."""
    checkpoints: str = "gsched-checkpoints"
    """Folder in which each job gets one of its own for its checkpoints, named by the job's id; a
    relative path counts from the folder that the job runs in."""


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
    fairness: FairnessSettings = FairnessSettings()
    deadlines: DeadlineSettings = DeadlineSettings()
    forecast: ForecastSettings = ForecastSettings()
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    helper: HelperSettings = HelperSettings()
    power: PowerSettings = PowerSettings()
    ces: CesTable = CesTable()
    energy: EnergySettings = EnergySettings()
    submit: SubmitSettings = SubmitSettings()
    jobscript: JobscriptSettings = JobscriptSettings()
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
    def power_dir(self) -> Path:
        """The folder in which `gsched power` keeps its state; SlurmUser's."""
        if self.power.state_dir:
            return Path(self.power.state_dir)
        is_site = self.state_dir == DEFAULT_STATE_DIR
        return Path("/var/lib/gsched-power") if is_site else self.state_dir / "power"

    @property
    def helper_socket(self) -> Path:
        """The local socket of `gsched-helper`."""
        return self._socket(self.helper.socket, "gsched-helper", "helper.sock")

    def _socket(self, configured: str, run_folder: str, name: str) -> Path:
        if configured:
            return Path(configured)
        is_site = self.state_dir == DEFAULT_STATE_DIR
        return Path("/run", run_folder, name) if is_site else self.state_dir / name
