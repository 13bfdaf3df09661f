"""``gsched-helper``: does for gsched what needs a Slurm administrator, and nothing else.

The daemon is a Slurm operator; draining, power and AdminComment need more (``slurm.privileges``).
So that the daemon need not have it, this process has, under SlurmUser, and does what the verbs and
nodes in ``[helper]`` allow, for root and ``helper.user``. Each request is looked at, done by one
command of Slurm and logged with who asked. What is done already stays as it is, so a request can be
sent again after any interruption; what an administrator has done by hand is never taken back.
A request that says until when somebody waits for it is not carried out later.
"""

from __future__ import annotations

import logging
import pwd
import re
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gsched.config.node_settings import HelperSettings
from gsched.config.settings import Settings
from gsched.daemon.helper_client import UNTIL, clock
from gsched.daemon.log import set_up
from gsched.daemon.notify import Notifier
from gsched.daemon.unix_server import Asker, UnixServer
from gsched.engine.node_ports import BUSY
from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
)
from gsched.model.hostlist import expand
from gsched.slurm.node_admin import NodeAdmin, NodeCondition, NodeOrder

log = logging.getLogger("gsched.helper")

NODE_VERBS: Mapping[str, NodeOrder] = {
    "drain": "drain",
    "resume": "resume",
    "power-down": "power_down_asap",  # without "asap" a job may begin on it before it goes off
    "power-up": "power_up",
}
VERBS = (*NODE_VERBS, "admin-comment")
OUR_MARK = "gsched: "
"""Begins every reason and comment of ours: only what begins so is resumed or replaced."""
MAX_NODES = 1024
MAX_HOSTLIST_CHARS = 12_288
"""Names of so many nodes without any order, well within a question's 16 KiB."""
MAX_TEXT_CHARS = 200

_TEXT = re.compile(r"[A-Za-z0-9 _.,:;()+/@#%-]+", re.ASCII)  # nothing that scontrol could misread
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)
_JOB = re.compile(r"\d{1,10}", re.ASCII)
_FIELDS = {"drain": {"nodes", "reason"}, "admin-comment": {"job", "text"}}
_DOWN = {"powered_down", "powering_down", "power_down"}
_WAKING = {"powering_up", "power_up"}
_BROKEN = {"fail", "maint", "invalid_reg"}
_HOLDS_JOBS = {"allocated", "mixed", "completing"}
_ASAP = "POWER_DOWN_ASAP"
"""Slurm's own reason for the drain of a node that is about to sleep."""
_LOST = "Slurm has lost its power-down on the way, and nobody knows whether it is on: power it down"
_FORGOTTEN = "it is powering down: Slurm would forget the order; ask again in a while"


class Helper:
    """Judges requests by the settings and carries them out, one at a time."""

    def __init__(self, settings: HelperSettings, admin: NodeAdmin) -> None:
        """Raises ConfigError for verbs and nodes that there cannot be, or when none is allowed."""
        self._verbs = _verbs(settings)
        self._nodes = _nodes(settings)
        self._uids = frozenset({0, _uid(settings.user)})
        self._admin = admin
        self._one_at_a_time = threading.Lock()

    def admits(self, asker: Asker) -> bool:
        """Whether this user may ask at all."""
        return asker.uid in self._uids

    def finish(self) -> None:
        """Wait for the request in progress: systemd kills what a helper that ends leaves behind."""
        with self._one_at_a_time:
            pass

    def answer(self, question: dict[str, Any], asker: Asker) -> dict[str, Any]:
        """Carry out one request.

        The answer has, for nodes (or the job's id), ``done``: what was changed, ``already``: what
        was so before, ``failed``: why not. Raises DataError for what is no request,
        PermissionDeniedError for one that the settings do not allow.
        """
        try:
            with self._one_at_a_time:
                found = self._carry_out(question)
        except GschedError as error:
            log.warning("%s: refused: %s", asker.text, error.message)
            raise
        told = ", ".join(f"{what} {names}" for what, names in found.items() if names)
        log.info("%s: %s: %s", asker.text, question["verb"], told)
        return found

    def _carry_out(self, question: Mapping[str, Any]) -> dict[str, Any]:
        verb = question.get("verb")
        if not isinstance(verb, str) or verb not in VERBS:
            raise DataError(f"no such verb: {str(verb)[:40]!r}", f"verbs: {', '.join(VERBS)}")
        if verb not in self._verbs:
            raise PermissionDeniedError(
                f"helper.verbs does not allow {verb}", "add it in gsched.toml, restart the helper"
            )
        fields = _FIELDS.get(verb, {"nodes"})
        if question.keys() - {"verb", UNTIL} != fields:
            raise DataError(f"{verb} takes {' and '.join(sorted(fields))}, and nothing else")
        _still_wanted(question)
        if verb == "admin-comment":
            return self._comment(question)
        names = self._allowed_nodes(question["nodes"])
        reason = _text("reason", question["reason"]) if "reason" in fields else ""
        return self._order(verb, names, reason, question)

    def _order(
        self, verb: str, names: Sequence[str], reason: str, question: Mapping[str, Any]
    ) -> dict[str, Any]:
        conditions = self._admin.conditions()
        already: list[str] = []
        to_do: list[str] = []
        failed: dict[str, str] = {}
        for name in names:
            condition = conditions.get(name)
            if condition is None:
                failed[name] = "Slurm knows no such node"
            elif (problem := _problem(verb, condition)) is None:
                already.append(name)
            elif problem:
                failed[name] = problem
            else:
                to_do.append(name)
        if to_do:
            _still_wanted(question)  # Slurm may have taken long to show its nodes
        if to_do and (error := self._admin.order(to_do, NODE_VERBS[verb], reason)):
            failed |= dict.fromkeys(to_do, error)
            to_do = []
        return {"done": to_do, "already": already, "failed": failed}

    def _comment(self, question: Mapping[str, Any]) -> dict[str, Any]:
        name, text = question["job"], _text("text", question["text"])
        if not isinstance(name, str) or not _JOB.fullmatch(name):
            raise DataError("job is no number of a job", "Slurm's own number of one job, as a text")
        job = self._admin.job(int(name))
        if job is None:
            return _of_job(name, "Slurm knows no such job")
        if not job.slurm_id:
            return _of_job(name, "it is an array whose tasks still wait: none can be named alone")
        if not job.node_list:
            return _of_job(name, "it has had no nodes yet")
        self._allowed_nodes(job.node_list)
        if job.admin_comment == text:
            return {"done": [], "already": [name], "failed": {}}
        if job.admin_comment and not job.admin_comment.startswith(OUR_MARK):
            return _of_job(name, "it has an AdminComment of somebody else's")
        _still_wanted(question)
        return _of_job(name, self._admin.set_admin_comment(job.slurm_id, text))

    def _allowed_nodes(self, nodes: object) -> list[str]:
        """The names, each once. Raises when they are none or any of them is not allowed."""
        if not isinstance(nodes, str) or not nodes or len(nodes) > MAX_HOSTLIST_CHARS:
            raise DataError(f"nodes is no host list of at most {MAX_HOSTLIST_CHARS} characters")
        names = list(dict.fromkeys(expand(nodes)))
        if len(names) > MAX_NODES:
            raise DataError(f"more than {MAX_NODES} nodes at a time")
        if not all(map(_NODE.fullmatch, names)):
            raise DataError("nodes has a name that no node can have")
        if foreign := [name for name in names if name not in self._nodes]:
            raise PermissionDeniedError(
                f"helper.nodes does not allow {foreign[0]}"
                + (f" and {len(foreign) - 1} more" if len(foreign) > 1 else "")
            )
        return names


def _problem(verb: str, condition: NodeCondition) -> str | None:
    """Why the verb cannot be carried out on a node, "" where it can; None where it is done."""
    is_drained, is_ours = "drain" in condition.flags, condition.reason.startswith(OUR_MARK)
    is_about_to_sleep = "power_down" in condition.flags
    if verb == "drain":
        if is_about_to_sleep:  # Slurm ends such a drain when the power goes down
            return _FORGOTTEN
        return None if is_drained else ""
    if verb == "resume":
        if not is_drained:
            return None
        if _is_lost(condition):
            return _LOST
        return "" if is_ours else "it was drained by somebody else, who may resume it"
    return _power_down_problem(condition) if verb == "power-down" else _power_up_problem(condition)


def _power_down_problem(condition: NodeCondition) -> str | None:
    """Slurm forgets why a node was drained when the power goes down: it would come back resumed."""
    flags, state = condition.flags, condition.state
    if flags & _DOWN:
        return None
    if "drain" in flags:
        return "" if _is_lost(condition) else f"it is drained ({_why(condition)})"
    if state == "down" or flags & _BROKEN:
        what = "DOWN" if state == "down" else "failing, or in maintenance"
        return f"it is {what} ({_why(condition)})"
    if flags & _WAKING:
        return "it is waking; ask again when it is up"
    if state in _HOLDS_JOBS or "completing" in flags:  # Slurm would drain it until they end
        return BUSY
    return ""


def _power_up_problem(condition: NodeCondition) -> str | None:
    flags = condition.flags
    if flags & {"power_down", "powering_down"}:
        return _FORGOTTEN
    if "powered_down" in flags:
        return ""
    if flags & _WAKING:
        return None
    if condition.state == "down":
        return f"it is DOWN ({_why(condition)})"
    if _is_lost(condition):
        return _LOST
    return "it does not answer" if "not_responding" in flags else None


def _is_lost(condition: NodeCondition) -> bool:
    """Whether a slurmctld that died has left nothing of a power-down but its drain."""
    return (
        condition.reason.startswith(_ASAP)
        and "drain" in condition.flags
        and not condition.flags & _DOWN
    )


def _why(condition: NodeCondition) -> str:
    return condition.reason[:MAX_TEXT_CHARS] or "no reason is given"


def _still_wanted(question: Mapping[str, Any]) -> None:
    """Raise TryAgainError for a request that nobody waits for any more."""
    until = question.get(UNTIL)
    if until is None:
        return
    if isinstance(until, bool) or not isinstance(until, int | float):
        raise DataError(f"{UNTIL} is no number")
    if not clock() <= until:
        raise TryAgainError("too late: whoever asked does not wait any more; nothing was done")


def _of_job(name: str, error: str) -> dict[str, Any]:
    return {
        "done": [] if error else [name],
        "already": [],
        "failed": {name: error} if error else {},
    }


def _text(what: str, value: object) -> str:
    """One plain line, marked as ours. Raises DataError for any other."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT_CHARS:
        raise DataError(f"{what} is no text of 1 to {MAX_TEXT_CHARS} characters")
    if not _TEXT.fullmatch(value):
        raise DataError(
            f"{what} has a character that is not taken",
            "letters, digits, blanks and _ . , : ; ( ) + / @ # % - on one line",
        )
    return OUR_MARK + value.strip()


def _verbs(settings: HelperSettings) -> frozenset[str]:
    if not settings.verbs:
        raise ConfigError(
            "helper.verbs is empty: there is nothing that the helper may do",
            f"name what it may do in [helper] of gsched.toml: {', '.join(VERBS)}",
        )
    if unknown := [verb for verb in settings.verbs if verb not in VERBS]:
        raise ConfigError(
            f"helper.verbs has {unknown[0]!r}, which is no verb", f"verbs: {', '.join(VERBS)}"
        )
    return frozenset(settings.verbs)


def _nodes(settings: HelperSettings) -> frozenset[str]:
    try:
        names = frozenset(name for hostlist in settings.nodes for name in expand(hostlist))
    except DataError as error:
        raise ConfigError(f"helper.nodes: {error.message}", error.hint) from None
    if strange := sorted(name for name in names if not _NODE.fullmatch(name)):
        raise ConfigError(
            f"helper.nodes has {strange[0]!r}, which no node can be called",
            "host lists such as gn[01-16]; * and ? have no meaning in them",
        )
    return names


def _uid(user: str) -> int:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ConfigError(f"helper.user is {user}, who is no user of this host") from None


def check_settings(settings: HelperSettings) -> None:
    """Raise ConfigError for a table ``[helper]`` with which the helper would not start."""
    _verbs(settings), _nodes(settings), _uid(settings.user)


@contextmanager
def serving(settings: Settings) -> Iterator[None]:
    """Serve requests at the helper's socket during the block.

    Raises ConfigError for settings that do not fit, UnavailableError or PermissionDeniedError
    where nobody can listen there.
    """
    helper = Helper(settings.helper, NodeAdmin(settings.slurm.command_timeout_s))
    server = UnixServer(helper.answer, helper.admits)
    with server.listening(settings.helper_socket):  # open to all: the kernel says who asks
        verbs = ", ".join(settings.helper.verbs)
        log.info("for user %s: %s; at %s", settings.helper.user, verbs, settings.helper_socket)
        yield
    helper.finish()


def run(settings: Settings) -> None:
    """Be the helper until SIGTERM or SIGINT. Raises as `serving` does."""
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: ended.set())
    set_up(logging.INFO)
    notifier = Notifier.from_environment()
    with serving(settings):
        notifier.ready()
        ended.wait()
        notifier.stopping()
