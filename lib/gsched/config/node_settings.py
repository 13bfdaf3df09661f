"""Settings of what concerns nodes: who changes them, how they are reached, which of them sleep."""

from __future__ import annotations

from dataclasses import dataclass, field

from gsched.model.power import NO_BACKENDS, PowerBackends


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
class PowerSettings:
    """How `gsched power suspend` and `resume`, Slurm's power-saving programs, reach the nodes."""

    state_dir: str = ""
    """Path of the folder that keeps what was asked and what failed; it belongs to SlurmUser, and
    two hosts of slurmctld must share it. Empty = /var/lib/gsched-power with the default
    `state_dir`, power in any other one."""
    parallel: int = 32
    """Nodes that one call works on at the same time."""
    tries: int = 3
    """So often a node is tried in one call; then it is reported and left for the administrator."""
    backoff_s: float = 2.0
    """Seconds before the second try; twice as many before each further one."""
    connect_timeout_s: float = 5.0
    """Seconds in which an SSH server must take a connection, and again in which it must show its
    key."""
    auth_timeout_s: float = 10.0
    """Seconds in which an SSH server must have taken the key, and again in which it must have taken
    the command."""
    command_timeout_s: float = 15.0
    """Seconds that a command may take, here or behind SSH; here it is killed then."""
    suspend_limit_s: float = 25.0
    """Seconds that one call to suspend may take, all tries included: less than Slurm's
    SuspendTimeout."""
    resume_limit_s: float = 50.0
    """Seconds that one call to resume may take, all tries included: less than Slurm's
    ResumeTimeout."""
    stop_after: int = 5
    """When so many nodes have failed within `stop_window_s` no node is suspended any more, until
    `gsched power clear`; resuming goes on."""
    stop_window_s: float = 3600.0
    """Seconds in which nodes that fail are counted."""
    backends: PowerBackends = NO_BACKENDS
    """Ways to the nodes, each a table [[power.backends]]; the first counts that has the node and
    can do what is asked. `nodes`: host lists, in which * and ? stand for any characters and any
    one. `kind`: ssh, ipmi, redfish, command. `verbs`: any of suspend, resume and restart (for a
    node that never went off: Slurm takes it back only with a new boot time); by default all that
    the table can do. ssh: `user`, `key_file` (mode 0600), `known_hosts` (a host that is not in it
    is refused), `port` (22) and `host`, in which %n stands for the node's name: by default the
    node itself, for suspend alone. Such a host gets the verb and nothing else, one without %n
    `VERB NODE`; its forced command decides what they do, see gsched-privileges(7). The others run
    a command for each node, without a shell: `suspend`, `resume` and `restart` are lists of words,
    the first an absolute path; in them %n stands for the node, %h for `host`, %u for `user`, %p for
    `password_file`, %s for `system`, %c for `ca_file`, %% for a percent sign. ipmi runs ipmitool
    with `host` (a BMC, such as %n-bmc), `user`, `password_file` (which holds the password alone);
    redfish runs curl with `host`, `password_file` (in the form of netrc: default login NAME
    password WORD), `system` (1) and `ca_file` (certificates to trust instead of the host's own);
    command has no words of its own. With `password_variable` they get the file's first line in that
    environment variable; a password is in no argument and no log."""


@dataclass(frozen=True, slots=True)
class CesTable:
    """Cluster energy saving: the daemon puts idle nodes to sleep and wakes them in time, through
    `gsched-helper` and Slurm's own power saving. See gsched-ces(7)."""

    mode: str = "off"
    """off; observe = say what would be done; act = do it, while the daemon itself acts."""
    partitions: tuple[str, ...] = ()
    """Only nodes that are in none but these partitions; empty = all nodes."""
    exclude_nodes: tuple[str, ...] = ()
    """Host lists (gn[01-16]; no * or ?) of nodes that are left alone. Those of Slurm's
    SuspendExcNodes and SuspendExcParts always are. While Slurm does not know a name in here, in
    partitions or in least_idle, nothing is ordered."""
    spare: int = -1
    """Idle nodes of a pool (nodes alike in hardware and partitions) that stay awake, and that are
    woken beyond what jobs wait for: the paper's sigma. -1 = 5 % of the pool, at least 1."""
    least_idle: dict[str, int] = field(default_factory=dict)
    """Idle nodes of single partitions that never sleep, as a table: partition = nodes."""
    min_idle_s: int = 7200
    """Seconds for which a node has been idle before it is put to sleep."""
    hold_s: int = 7200
    """Seconds after a wake-up in which no node of the pool is put to sleep."""
    period_s: int = 600
    """Seconds between two times at which nodes of a pool are put to sleep."""
    past_window_s: int = 3600
    """Seconds of the past whose mean demand is compared with that of now."""
    future_window_s: int = 10800
    """Seconds ahead whose mean forecast is compared with the demand of now."""
    fall_h: float = -1.0
    """Nodes by which demand must have fallen from its past mean; negative: it may have risen by
    that much. The paper's xi_H."""
    fall_p: float = -1.0
    """Nodes by which the forecast must lie below the demand of now; negative: it may lie above it
    by that much. The paper's xi_P."""
    peak_window_s: int = 7200
    """Seconds ahead: what the forecast's upper bound says may be needed by then stays awake, too.
    0 = fall_p alone decides."""
    max_sleep: int = 10
    """Most nodes that one round puts to sleep, at least 1. observe is the mode that puts none."""
    max_wake: int = 0
    """Most nodes that one round wakes; the others follow stagger_s later. 0 = any number."""
    stagger_s: int = 60
    """Seconds between two parts of a wake-up that max_wake has cut."""
    wakes_ahead: bool = True
    """true = nodes are woken before anybody waits, where the forecast's upper bound says that they
    may be needed by the time they would be awake."""
    max_failures: int = 3
    """After so many nodes that did not wake within failure_memory_s nothing is put to sleep.
    0 = never stop for that."""
    failure_memory_s: int = 86400
    """Seconds for which a node that did not wake counts as failed, and is left alone; less where it
    has woken since, or after `gsched power clear`."""
    history_days: int = 90
    """Days of job history that the forecast learns from."""
    time_zone: str = ""
    """Zone of the hours and days by which demand is forecast, such as Europe/Berlin; empty = the
    head node's own."""
    country: str = ""
    """Country whose public holidays the forecast knows, such as DE or US; empty = none."""
    subdivision: str = ""
    """Part of the country with holidays of its own, such as BY or CA."""


@dataclass(frozen=True, slots=True)
class EnergySettings:
    """What `gsched ces report` assumes of power: nothing is metered."""

    idle_w: float = 800.0
    """Watts of a node that is awake and idle (800: what Helios assumed of a DGX-1)."""
    asleep_w: float = 0.0
    """Watts of a node that sleeps."""
    waking_w: float = 800.0
    """Watts of a node while it wakes."""
    cooling_factor: float = 0.5
    """Energy of cooling and power supply per energy of the servers: PUE - 1. (Helios assumed 2.)"""
    price_a_kwh: float = 0.15
    """Price of a kWh."""
    currency: str = "USD"
    """What the price is in."""
    co2_g_a_kwh: float = 450.0
    """Grams of CO2 emitted per kWh."""
