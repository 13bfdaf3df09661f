"""What Slurm's words on stderr mean; all texts are those of real commands."""

from __future__ import annotations

import pytest

from gsched.errors import PermissionDeniedError, SlurmCommandError, TryAgainError, UnavailableError
from gsched.slurm.failures import failure, is_unreachable, may_pass

NO_CONTROLLER = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
NO_DATABASE = (
    "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to "
    "host:127.0.0.1:6819: Connection refused\n"
    "sacct: error: Sending PersistInit msg: Connection refused\n"
    "sacct: error: Problem talking to the database: Connection refused\n"
)
NO_CONFIGURATION = (
    "squeue: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
    "squeue: error: fetch_config: DNS SRV lookup failed\n"
    "squeue: error: _establish_config_source: failed to fetch config\n"
    "squeue: fatal: Could not establish a configuration source\n"
)
NO_MUNGE = (
    'squeue: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2": No such '
    "file or directory (Did you start munged?)\n"
    "squeue: error: _fetch_child: failed to fetch remote configs: Protocol authentication error\n"
    "squeue: fatal: Could not establish a configuration source\n"
)
TIMED_OUT = "slurm_load_jobs error: Socket timed out on send/recv operation\n"
RATE_LIMIT = "slurm_load_jobs error: Rate limit exceeded, please retry momentarily\n"


@pytest.mark.parametrize(
    ("program", "stderr", "hint"),
    [
        ("squeue", NO_CONTROLLER, "scontrol ping"),
        ("sacct", NO_DATABASE, "is slurmdbd up"),
        ("squeue", NO_CONFIGURATION, "SLURM_CONF_SERVER"),
        ("squeue", NO_MUNGE, "munge -n | unmunge"),
    ],
)
def test_what_is_not_there_is_told_apart(program, stderr, hint):
    error = failure((program, "-h"), 1, stderr)
    assert isinstance(error, SlurmCommandError)
    assert hint in error.hint
    assert (error.exit_code, error.argv, error.status, error.stderr) == (
        69, (program, "-h"), 1, stderr,
    )  # fmt: skip
    assert "\n" not in error.message


@pytest.mark.parametrize("stderr", [TIMED_OUT, RATE_LIMIT])
def test_a_busy_slurm_is_no_fault(stderr):
    error = failure(("squeue",), 1, stderr)
    assert isinstance(error, TryAgainError)
    assert not isinstance(error, UnavailableError)
    assert (error.exit_code, error.argv, error.status, error.stderr) == (75, ("squeue",), 1, stderr)
    assert error.message.startswith("squeue was put off, Slurm is busy: ")


def test_a_refusal_is_no_outage():
    error = failure(("scontrol",), 1, "Access/permission denied for job 7\n")
    assert isinstance(error, PermissionDeniedError)
    assert (error.exit_code, error.status) == (77, 1)
    assert error.message == "scontrol was refused: Access/permission denied for job 7"
    assert not is_unreachable("Access/permission denied for job 7\n")


@pytest.mark.parametrize(
    ("stderr", "passes"),
    [
        (NO_CONTROLLER, True), (NO_DATABASE, True), (TIMED_OUT, True), (RATE_LIMIT, True),
        (NO_CONFIGURATION, False), (NO_MUNGE, False), ("Invalid job id specified\n", False),
        ("", False),
    ],
)  # fmt: skip
def test_what_may_pass(stderr, passes):
    assert may_pass(stderr) is passes


def test_a_command_that_dies_without_a_word():
    assert failure(("squeue",), -9, "").message == "squeue failed: exit status -9"
