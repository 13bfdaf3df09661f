"""What it means when a command of Slurm fails, from what it says on stderr. Pure."""

from __future__ import annotations

from gsched.errors import FailedCommandError, SlurmBusyError, SlurmCommandError, SlurmDeniedError

_GONE = (
    "Unable to contact slurm controller",
    "Unable to contact slurmdbd",
    "Connection refused",
    "Problem talking to the database",
    "Unable to establish controller machine",
    "backup controller in standby",
    "Unexpected message received",  # what `scontrol update` says of a controller that is gone
)
_NO_SOURCE = "Could not establish a configuration source"
_BUSY = (
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Resource temporarily unavailable",
    "Rate limit exceeded",  # rl_enable of 23.02 and later
    "RPC rate limited",
    "Too many requests",
)
_MUNGE = ("Munge encode failed", "Munge decode failed", "Protocol authentication error")
_DENIED = (
    "Access/permission denied",
    "Invalid user id",
    "Only root or SlurmUser",
)


def is_unreachable(stderr: str) -> bool:
    """Whether a command says that slurmctld or slurmdbd does not answer."""
    return _NO_SOURCE in stderr or any(text in stderr for text in _GONE)


def is_munge(stderr: str) -> bool:
    """Whether a command says that munge does not work on this host, or on slurmctld's."""
    return any(text in stderr for text in _MUNGE)


def is_unknown_job(stderr: str) -> bool:
    """Whether a command says that slurmctld knows no job of the number asked for (any more)."""
    return "Invalid job id" in stderr


def may_pass(stderr: str) -> bool:
    """Whether it is worth asking again: Slurm is busy, restarts, or limits our rate.

    Not so where the machine has no configuration of Slurm at all, or munge does not work.
    """
    if is_munge(stderr):
        return False
    return any(text in stderr for text in (*_GONE, *_BUSY))


def failure(argv: tuple[str, ...], status: int, stderr: str) -> FailedCommandError:
    """The error that a failed command stands for, with the command, its status and its words."""
    if is_munge(stderr):
        hint = "does munge work on this host (key, clock)? Try: munge -n | unmunge"
        return SlurmCommandError(argv, status, stderr, hint)
    if is_unreachable(stderr):
        return SlurmCommandError(argv, status, stderr, _where_to_look(argv[0], stderr))
    if any(text in stderr for text in _BUSY):
        return SlurmBusyError(argv, status, stderr)
    if any(text in stderr for text in _DENIED):
        hint = "run as SlurmUser, root or a Slurm operator (sacctmgr: adminlevel=Operator)"
        return SlurmDeniedError(argv, status, stderr, hint)
    return SlurmCommandError(argv, status, stderr)


def _where_to_look(program: str, stderr: str) -> str:
    if _NO_SOURCE in stderr:
        return (
            "this host knows no Slurm: set SLURM_CONF to its slurm.conf, or on a configless site "
            "SLURM_CONF_SERVER to host:port of slurmctld"
        )
    if server_of(program) == "slurmdbd":
        return "is slurmdbd up? Try: sacctmgr show cluster"
    return "is slurmctld up, and does SLURM_CONF name the right file? Try: scontrol ping"


def server_of(program: str) -> str:
    """The daemon that a command asks first."""
    return "slurmdbd" if program in {"sacct", "sacctmgr"} else "slurmctld"
