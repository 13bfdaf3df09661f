"""`gsched power`: orders to nodes by Slurm or an administrator, and what became of earlier ones."""

from __future__ import annotations

import logging
import logging.handlers
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsched.app.power_settings import keep, settings_to_resume, settings_to_suspend
from gsched.app.power_sight import look
from gsched.config.node_settings import PowerSettings
from gsched.config.settings import Settings
from gsched.daemon.log import one_line, set_up
from gsched.errors import EXIT_REFUSED, EXIT_UNAVAILABLE, ConfigError, DataError, UsageError
from gsched.model.hostlist import expand, fold
from gsched.model.power import Verb
from gsched.power import records
from gsched.power.guard import Guard, Seen, unguarded
from gsched.power.orders import Call, Result
from gsched.power.state import Order, State, Store, is_node_name

log = logging.getLogger("gsched.power")

LOG_SOCKET = Path("/dev/log")
_NULL_DEVICE = os.makedev(1, 3)
_PROGRAM = "gsched-power"
_MARGIN_S = 60
_NOT_AWAKE = "it did not come up within Slurm's ResumeTimeout"


def order(verb: Verb, hostlist: str, *, is_by_slurm: bool, is_forced: bool = False) -> Result:
    """Suspend, resume or restart nodes, as Slurm's programs or by an administrator's hand.

    Without `is_forced` no power is cut where jobs may run, as far as Slurm says; by hand, nodes
    must be nodes of its own. Raises ConfigError; DataError for what is no list of nodes, UsageError
    for nodes that there are not; where a suspend cannot be written down, what `gsched.power.state`
    says.
    """
    names = node_names(hostlist)
    settings = settings_to_suspend(names) if verb == "suspend" else settings_to_resume()
    limit_s = settings.power.suspend_limit_s
    guard = Guard(look, is_by_hand=not is_by_slurm, is_late=lambda: _age_s() > limit_s)
    if is_forced:
        guard = unguarded()
    elif not is_by_slurm and (unknown := _unknown(names, guard.seen())):
        raise UsageError(f"Slurm has no node {fold(unknown)}", "sinfo -N lists its nodes")
    backends = settings.power.backends
    if verb == "restart" and (lacking := [name for name in names if not backends.of(name, verb)]):
        raise ConfigError(f"no table of power.backends can restart {fold(lacking)}")
    result = Call(settings.power, Store(settings.power_dir), guard).carry_out(verb, names)
    keep(settings)
    return result


def _unknown(names: Sequence[str], nodes: Mapping[str, Seen] | None) -> list[str]:
    return [] if nodes is None else [name for name in names if name not in nodes]


def _age_s() -> float:
    """Seconds since this process was started."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began_s


def resume_failed(hostlist: str) -> list[str]:
    """Write down nodes that have not come up, as ResumeFailProgram of Slurm; which ones."""
    names, settings = node_names(hostlist), settings_to_resume()
    for name in names:
        log.error("%s: %s; left for an administrator", name, _NOT_AWAKE)
    was_stopped = True

    def change(state: State) -> State:
        nonlocal was_stopped
        was_stopped = state.stopped is not None
        why = dict.fromkeys(names, _NOT_AWAKE)
        return records.not_awake(state, why, settings.power, time.time())

    state = Store(settings.power_dir).change(change)
    if state.stopped and not was_stopped:
        log.critical("no node is suspended any more: %s", state.stopped.why)
    return names


@dataclass(frozen=True, slots=True)
class Cleared:
    """What `clear` has changed, and what is left to do."""

    nodes: list[str]
    """Those that are suspended again from now on."""
    was_stopped: bool
    """Whether suspending had been stopped, and goes on."""
    stopped_why: str
    """Why suspending is still stopped, "" where it is not."""
    may_be_on: list[str]
    """Those of the nodes that Slurm takes for off, and that nobody has switched off."""


def clear(settings: Settings, hostlist: str | None, *, is_stop: bool = False) -> Cleared:
    """Forget failures of nodes; of all, and the stop, without a list; with `is_stop` that alone.

    What is kept of named nodes that Slurm no longer has is forgotten altogether.
    """
    names = None if hostlist is None else node_names(hostlist)
    nodes = look() if names is not None else None
    before = State()

    def change(state: State) -> State:
        nonlocal before
        before = state
        if is_stop:
            return records.going_on(state, time.time())
        return records.cleared(state, names, _unknown(names or (), nodes), time.time())

    after = Store(settings.power_dir).change(change)
    misled = [name for name in records.misled(before) if names is None or name in names]
    if misled and nodes is None:
        nodes = look()
    return Cleared(
        nodes=sorted(before.failed_nodes - after.failed_nodes),
        was_stopped=before.stopped is not None and after.stopped is None,
        stopped_why=after.stopped.why if after.stopped else "",
        may_be_on=[name for name in misled if nodes and name in nodes and nodes[name].is_off],
    )


def node_names(hostlist: str) -> list[str]:
    """The names of a host list, each once. Raises DataError for what no node can be called."""
    names = list(dict.fromkeys(expand(hostlist)))
    if not names:
        raise DataError("no node is named")
    if odd := [name for name in names if not is_node_name(name)]:
        raise DataError(f"{odd[0][:80]!r} is no name of a node")
    return names


def exit_code(result: Result) -> int:
    """0 where every node was switched, or is left to a later call."""
    if result.failed:
        return EXIT_UNAVAILABLE
    return EXIT_REFUSED if result.refused else 0


def result_document(result: Result) -> dict[str, Any]:
    """What one call did, with stable keys."""
    return {
        "done": sorted(result.done),
        "failed": [{"node": n, "why": why} for n, why in sorted(result.failed.items())],
        "refused": [{"node": n, "why": why} for n, why in sorted(result.refused.items())],
        "overtaken": sorted(result.overtaken),
    }


def status_document(settings: Settings) -> dict[str, Any]:
    """The state, with stable keys. Raises what `Store.read` does."""
    store = Store(settings.power_dir)
    state = store.read()
    return {
        "state_dir": str(store.folder),
        "stopped_at": state.stopped.at if state.stopped else None,
        "stopped_why": state.stopped.why if state.stopped else "",
        "failures": [
            {"node": f.node, "verb": f.verb, "at": f.at, "tries": f.tries, "error": f.error}
            for f in state.failures
        ],
        "nodes": [
            {
                "node": name,
                "verb": found.verb,
                "asked_at": found.at,
                "outcome": found.outcome or _open_outcome(found, settings.power),
                "ended_at": found.ended_at,
                "tries": found.tries,
                "error": found.error,
            }
            for name, found in sorted(state.orders.items())
        ],
    }


def _open_outcome(order: Order, settings: PowerSettings) -> str:
    limit_s = max(settings.suspend_limit_s, settings.resume_limit_s)
    is_recent = time.time() - order.at <= limit_s + _MARGIN_S  # a pid may be somebody else's later
    is_running = is_recent and Path(f"/proc/{order.pid}").exists()
    return "under way" if is_running else "interrupted"


@contextmanager
def as_slurms_program() -> Iterator[None]:
    """Mend what slurmscriptd gives its programs: closed streams and blocked signals.

    The log goes to stderr. Where that leads nowhere it goes to syslog, which journald keeps with
    the level of each line, and so do errors that end the block.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number, 0
    set_up(logging.INFO)
    if os.fstat(2).st_rdev != _NULL_DEVICE:
        yield
        return
    with suppress(OSError):  # no syslog on this host: the state tells all the same
        logging.getLogger().handlers[:] = [syslog_handler(LOG_SOCKET)]
    try:
        yield
    except Exception as error:
        log.critical("%s", error)
        raise


def syslog_handler(socket: Path) -> logging.Handler:
    """Sends lines to the syslog at `socket`. Raises OSError where none listens."""
    handler = logging.handlers.SysLogHandler(str(socket), logging.handlers.SysLogHandler.LOG_DAEMON)
    handler.append_nul = False
    handler.setFormatter(_SyslogFormatter())
    return handler


class _SyslogFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{_PROGRAM}[{os.getpid()}]: {one_line(super().format(record))}"
