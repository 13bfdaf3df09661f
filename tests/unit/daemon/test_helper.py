"""``gsched-helper``: who may ask, what is no request, and what it leaves alone."""

from __future__ import annotations

import math
import pwd
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from gsched.config.node_settings import HelperSettings
from gsched.daemon.helper import MAX_NODES, MAX_TEXT_CHARS, VERBS, Helper, check_settings
from gsched.daemon.helper_client import UNTIL, clock
from gsched.daemon.unix_server import Asker
from gsched.errors import (
    ConfigError,
    DataError,
    PermissionDeniedError,
    TryAgainError,
    UsageError,
)
from gsched.model.hostlist import expand
from gsched.slurm.node_admin import NodeAdmin
from gsched.slurm.run import Completed

NODE = (Path(__file__).parents[2] / "data" / "slurm" / "22.05" / "nodes.txt").read_text()
NODE = NODE.splitlines()[0].replace("State=MIXED", "State={state}") + "{reason}\n"
SETTINGS = HelperSettings(verbs=VERBS, nodes=("gn[01-04]", "h.x_y-1"), user="backup")
BACKUP = Asker(pwd.getpwnam("backup").pw_uid, 34, 7)


@dataclass(frozen=True)
class Job:
    """A record of squeue; of an array also its id and task, of a het job its id and offset."""

    array: str = ""
    task: str = "N/A"
    het: str = "N/A"
    offset: str = "N/A"
    nodes: str = "gn01"
    comment: str = "(null)"


class Slurm:
    """Runs what the helper runs, on nodes (state, reason) and jobs that a test may change."""

    def __init__(self) -> None:
        self.nodes = dict.fromkeys(("gn01", "gn02", "gn05", "h.x_y-1"), ("IDLE", ""))
        self.jobs: dict[int, Job] = {}
        self.changes: list[tuple[str, ...]] = []
        self.refuses = ""

    def __call__(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float
    ) -> Completed:
        if argv[0] == "squeue":
            return self._squeue(tuple(argv))
        if "show" in argv:
            return Completed(tuple(argv), 0, self._nodes(), "")
        self.changes.append(tuple(argv))
        return Completed(tuple(argv), 1 if self.refuses else 0, "", self.refuses)

    def _nodes(self) -> str:
        return "".join(
            NODE.replace("gn01", name).format(
                state=state, reason=f" Reason={why} [root@2026-11-01T00:00:00]" if why else ""
            )
            for name, (state, why) in self.nodes.items()
        )

    def _squeue(self, argv: tuple[str, ...]) -> Completed:
        form, asked = argv[argv.index("-O") + 1], int(argv[argv.index("-j") + 1])
        separator = form.partition(":")[2].partition(",")[0]
        chosen = [
            (i, j) for i, j in self.jobs.items() if i == asked or str(asked) in (j.array, j.het)
        ]
        if not chosen:
            return Completed(argv, 1, "", "slurm_load_jobs error: Invalid job id specified\n")
        records = [
            (str(i), j.array or str(i), j.task, j.het, j.offset, j.nodes, j.comment)
            for i, j in chosen
        ]
        text = "".join("".join(v + separator for v in record) + "\n" for record in records)
        return Completed(argv, 0, text, "")


@pytest.fixture
def slurm() -> Slurm:
    return Slurm()


@pytest.fixture
def helper(slurm: Slurm) -> Helper:
    return Helper(SETTINGS, NodeAdmin(20, runner=slurm))


def asked(helper: Helper, verb: object, **fields: object) -> dict[str, Any]:
    return helper.answer({"verb": verb, **fields}, BACKUP)


# -- who and what -------------------------------------------------------------------------------


def test_root_and_the_named_user_may_ask_and_nobody_else(helper: Helper) -> None:
    assert helper.admits(Asker(0, 0, 1))
    assert helper.admits(BACKUP)
    for uid in (BACKUP.uid + 1, pwd.getpwnam("games").pw_uid, 4_000_000_000):
        assert not helper.admits(Asker(uid, 0, 1))


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"verb": "drain", "nodes": "gn01", "reason": "x", "state": "down"}, "nothing else"),
        ({"verb": "drain", "nodes": "gn01"}, "takes nodes and reason"),
        ({"verb": "resume", "nodes": "gn01", "reason": "x"}, "resume takes nodes, and nothing"),
        ({"verb": "power-up"}, "takes nodes"),
        ({"verb": "admin-comment", "job": "7", "text": "x", "nodes": "gn01"}, "takes job and text"),
        ({"verb": "reboot", "nodes": "gn01"}, "no such verb"),
        ({"verb": ["drain"], "nodes": "gn01"}, "no such verb"),
        ({"nodes": "gn01"}, "no such verb"),
        ({"verb": "resume", "nodes": ["gn01"]}, "no host list"),
        ({"verb": "resume", "nodes": ""}, "no host list"),
        ({"verb": "resume", "nodes": "gn01," * 3000}, "no host list of at most"),
        ({"verb": "resume", "nodes": "gn[0001-1025]"}, "more than 1024 nodes"),
        ({"verb": "resume", "nodes": "gn01 state=down"}, "no node can have"),
        ({"verb": "resume", "nodes": "-gn01"}, "no node can have"),
        ({"verb": "resume", "nodes": "gn01\nstate=down"}, "no node can have"),
        ({"verb": "resume", "nodes": "gn٠١"}, "no node can have"),
        ({"verb": "resume", "nodes": "g" * 256}, "more than 255"),
        ({"verb": "admin-comment", "job": 7, "text": "x"}, "no number"),
        ({"verb": "admin-comment", "job": "7_1", "text": "x"}, "no number"),
        ({"verb": "admin-comment", "job": "7 8", "text": "x"}, "no number"),
        ({"verb": "admin-comment", "job": "٧", "text": "x"}, "no number"),
        ({"verb": "admin-comment", "job": "12345678901", "text": "x"}, "no number"),
        ({"verb": "admin-comment", "job": "7", "text": None}, "text is no text"),
    ],
)
def test_what_is_no_request_is_refused(
    helper: Helper, slurm: Slurm, question: dict[str, Any], why: str
) -> None:
    slurm.jobs[7] = Job()
    with pytest.raises(DataError, match=why):
        helper.answer(question, BACKUP)
    assert slurm.changes == []


BAD_TEXTS = ["", "  ", "x" * (MAX_TEXT_CHARS + 1), "a\nb", "a=b", 'a"b', "a'b", "a\\b", "$(a)",
             "a|b", "a<b", "a!", "é", "٣", "a\x1b", "a\n", "a\t", ["a"]]  # fmt: skip


@pytest.mark.parametrize("text", BAD_TEXTS)
def test_a_text_is_one_plain_line(helper: Helper, slurm: Slurm, text: object) -> None:
    slurm.jobs[7] = Job()
    for question in (
        {"verb": "drain", "nodes": "gn01", "reason": text},
        {"verb": "admin-comment", "job": "7", "text": text},
    ):
        with pytest.raises(DataError, match=r"(reason|text) (is no text|has a character)"):
            helper.answer(question, BACKUP)
    assert slurm.changes == []


def test_every_character_that_is_named_is_taken_up_to_the_last(
    helper: Helper, slurm: Slurm
) -> None:
    text = "Az9 _.,:;()+/@#%-".ljust(MAX_TEXT_CHARS, "x")
    assert asked(helper, "drain", nodes="gn01", reason=text)["done"] == ["gn01"]
    want = ("scontrol", "update", "nodename=gn01", "state=drain", f"reason=gsched: {text}")
    assert slurm.changes == [want]


def test_only_listed_verbs_and_nodes(slurm: Slurm) -> None:
    narrow = Helper(replace(SETTINGS, verbs=("drain",)), NodeAdmin(20, runner=slurm))
    for verb in set(VERBS) - {"drain"}:
        with pytest.raises(PermissionDeniedError, match=r"helper\.verbs does not allow"):
            asked(narrow, verb, nodes="gn01")
    for nodes, why in (("gn05", "allow gn05"), ("gn[03-06]", "gn05 and 1 more"), ("ALL", "ALL")):
        with pytest.raises(PermissionDeniedError, match=why):
            asked(narrow, "drain", nodes=nodes, reason="x")
    assert slurm.changes == []


def test_as_many_nodes_as_are_allowed_at_a_time(slurm: Slurm) -> None:
    many = Helper(replace(SETTINGS, nodes=(f"n[1-{MAX_NODES}]",)), NodeAdmin(20, runner=slurm))
    slurm.nodes = dict.fromkeys(expand(f"n[1-{MAX_NODES}]"), ("IDLE", ""))
    found = asked(many, "power-down", nodes=f"n[1-{MAX_NODES}],n1")
    assert len(found["done"]) == MAX_NODES
    assert len(slurm.changes) == 1


def test_as_many_nodes_without_any_order(slurm: Slurm) -> None:
    names = expand(f"node[1000-{1000 + 2 * MAX_NODES}]")[: 2 * MAX_NODES : 2]
    many = Helper(replace(SETTINGS, nodes=("node[1000-9999]",)), NodeAdmin(20, runner=slurm))
    slurm.nodes = dict.fromkeys(names, ("IDLE", ""))
    assert asked(many, "power-down", nodes=",".join(names))["done"] == names
    assert len(names) == MAX_NODES


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"verbs": ()}, r"helper\.verbs is empty"),
        ({"verbs": ("drain", "reboot")}, "'reboot'"),
        ({"nodes": ("gn[1-",)}, r"helper\.nodes: "),
        ({"user": "nobody-like-that"}, "nobody-like-that"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_settings(replace(SETTINGS, **settings))


# -- nodes --------------------------------------------------------------------------------------


OURS, ANOTHERS, LOST = "gsched: fan 3", "by hand", "POWER_DOWN_ASAP"


@pytest.mark.parametrize(
    ("verb", "state", "reason", "end"),
    [
        ("drain", "IDLE", "", "done"),
        ("drain", "IDLE+DRAIN", ANOTHERS, "already"),
        ("drain", "IDLE+POWER_DOWN", "", "failed"),
        ("drain", "IDLE+POWERING_DOWN", "", "done"),
        ("resume", "IDLE+DRAIN", OURS, "done"),
        ("resume", "IDLE+DRAIN", ANOTHERS, "failed"),
        ("resume", "IDLE+DRAIN", f"not {OURS}", "failed"),
        ("resume", "IDLE+DRAIN", "", "failed"),
        ("resume", "DOWN", ANOTHERS, "already"),
        ("power-down", "IDLE", "", "done"),
        ("power-down", "IDLE+POWERED_DOWN", "", "already"),
        ("power-down", "IDLE+POWERING_DOWN", "", "already"),
        ("power-down", "MIXED+POWER_DOWN", "", "already"),
        ("power-down", "MIXED", "", "failed"),
        ("power-down", "ALLOCATED", "", "failed"),
        ("power-down", "IDLE+COMPLETING", "", "failed"),
        ("power-down", "COMPLETING", "", "failed"),
        ("resume", "IDLE+DRAIN", LOST, "failed"),
        ("power-down", "IDLE+DRAIN", ANOTHERS, "failed"),
        ("power-down", "MIXED+DRAIN", OURS, "failed"),
        ("power-down", "IDLE+DRAIN", "", "failed"),
        ("power-down", "IDLE+DRAIN", LOST, "done"),
        ("power-down", "IDLE+DRAIN+POWER_DOWN", LOST, "already"),
        ("power-down", "DOWN", ANOTHERS, "failed"),
        ("power-down", "IDLE+FAIL", ANOTHERS, "failed"),
        ("power-down", "IDLE+MAINTENANCE", "", "failed"),
        ("power-down", "IDLE+POWERING_UP", "", "failed"),
        ("power-down", "IDLE+POWER_UP", "", "failed"),
        ("power-up", "IDLE", "", "already"),
        ("power-up", "MIXED+NOT_RESPONDING+POWERING_UP", "", "already"),
        ("power-up", "DOWN", ANOTHERS, "failed"),
        ("power-up", "DOWN+POWERED_DOWN", ANOTHERS, "done"),
        ("power-up", "IDLE*", "", "failed"),
        ("power-up", "IDLE+DRAIN", LOST, "failed"),
        ("power-up", "IDLE+DRAIN", ANOTHERS, "already"),
        ("power-up", "IDLE+POWERED_DOWN", "", "done"),
        ("power-up", "IDLE+POWERING_DOWN", "", "failed"),
        ("power-up", "IDLE+POWER_DOWN", "", "failed"),
    ],
)
def test_what_becomes_of_a_node(
    helper: Helper, slurm: Slurm, verb: str, state: str, reason: str, end: str
) -> None:
    slurm.nodes["gn01"] = (state, reason)
    fields = {"nodes": "gn01"} | ({"reason": "x"} if verb == "drain" else {})
    found = asked(helper, verb, **fields)
    assert {name for name, nodes in found.items() if nodes} == {end}
    assert len(slurm.changes) == (end == "done")


def test_nodes_of_one_request_fare_each_its_own_way(helper: Helper, slurm: Slurm) -> None:
    slurm.nodes["gn02"] = ("IDLE+DRAIN", ANOTHERS)
    found = asked(helper, "drain", nodes="gn[01-03]", reason=" fan 3 ")
    assert found == {
        "done": ["gn01"],
        "already": ["gn02"],
        "failed": {"gn03": "Slurm knows no such node"},
    }
    slurm.refuses = "slurm_update error: Access/permission denied"
    found = asked(helper, "drain", nodes="gn01", reason="x")
    assert (found["done"], "denied" in found["failed"]["gn01"]) == ([], True)


# -- jobs ---------------------------------------------------------------------------------------


def test_the_comment_of_a_job_is_set_once_and_anothers_stays(helper: Helper, slurm: Slurm) -> None:
    slurm.jobs[7] = Job(nodes="gn[01-02]")
    assert asked(helper, "admin-comment", job="7", text="seen")["done"] == ["7"]
    assert slurm.changes == [("scontrol", "update", "jobid=7", "admincomment=gsched: seen")]
    slurm.jobs[7] = Job(comment="gsched: seen")
    assert asked(helper, "admin-comment", job="7", text="seen")["already"] == ["7"]
    assert asked(helper, "admin-comment", job="7", text="again")["done"] == ["7"]
    for anothers in ("checked by ops", "none", "N/A", "not gsched: seen"):
        slurm.jobs[7] = Job(comment=anothers)
        found = asked(helper, "admin-comment", job="7", text="seen")
        assert "somebody else's" in found["failed"]["7"]
    assert len(slurm.changes) == 2


def test_all_nodes_of_the_job_must_be_allowed(helper: Helper, slurm: Slurm) -> None:
    slurm.jobs |= {7: Job(nodes="gn[04-05]"), 8: Job(nodes="N/A"), 9: Job(nodes="")}
    with pytest.raises(PermissionDeniedError, match="allow gn05"):
        asked(helper, "admin-comment", job="7", text="x")
    for job, why in (("8", "no nodes yet"), ("9", "no nodes yet"), ("10", "no such job")):
        assert why in asked(helper, "admin-comment", job=job, text="x")["failed"][job]
    assert slurm.changes == []


def test_one_task_or_component_is_named_alone(helper: Helper, slurm: Slurm) -> None:
    """To scontrol the number of an array's last task, or of a het job's first part, is all of it:
    the other tasks may have comments of others, and nodes that are not the helper's.
    """
    slurm.jobs = {
        12: Job("11", "1", comment="another's"),
        11: Job("11", "2"),
        20: Job(het="20", offset="0"),
        21: Job(het="20", offset="1", nodes="gn05"),
    }
    for job, only in (("11", "11_2"), ("20", "20+0")):
        del slurm.changes[:]
        assert asked(helper, "admin-comment", job=job, text="x")["done"] == [job]
        assert slurm.changes == [("scontrol", "update", f"jobid={only}", "admincomment=gsched: x")]


@pytest.mark.parametrize("tasks", ["3-9%2", "3%1", "3,5", "3-9:2", "3-999..."])
def test_tasks_that_wait_in_one_record_cannot_be_named(
    helper: Helper, slurm: Slurm, tasks: str
) -> None:
    slurm.jobs[11] = Job("11", tasks)
    found = asked(helper, "admin-comment", job="11", text="x")
    assert "tasks still wait" in found["failed"]["11"]
    assert slurm.changes == []


def test_only_the_id_of_one_job_goes_to_scontrol(slurm: Slurm) -> None:
    admin = NodeAdmin(20, runner=slurm)
    for strange in ("7,8", "7_[1-2]", "", "7 admincomment=x"):
        with pytest.raises(UsageError):
            admin.set_admin_comment(strange, "x")
    assert slurm.changes == []


# -- requests that nobody waits for any more ----------------------------------------------------


def test_nothing_is_done_after_the_asker_has_given_up(helper: Helper, slurm: Slurm) -> None:
    slurm.jobs[7] = Job()
    for question in (
        {"verb": "power-down", "nodes": "gn01"},
        {"verb": "drain", "nodes": "gn01", "reason": "x"},
        {"verb": "admin-comment", "job": "7", "text": "x"},
    ):
        for until in (clock() - 0.001, 0, math.nan):
            with pytest.raises(TryAgainError, match="too late"):
                helper.answer({**question, UNTIL: until}, BACKUP)
        assert slurm.changes == []
        assert helper.answer({**question, UNTIL: clock() + 60}, BACKUP)["done"]
        slurm.changes.clear()
    slurm.nodes.clear()  # nor is Slurm asked
    with pytest.raises(TryAgainError, match="too late"):
        asked(helper, "power-down", nodes="gn01", until=0)


@pytest.mark.parametrize("until", ["9", True, [1], None])
def test_a_time_is_a_number(helper: Helper, slurm: Slurm, until: object) -> None:
    if until is None:
        assert asked(helper, "power-down", nodes="gn01", until=until)["done"] == ["gn01"]
        return
    with pytest.raises(DataError, match="until is no number"):
        asked(helper, "power-down", nodes="gn01", until=until)
    assert slurm.changes == []


def test_a_look_that_took_too_long_is_followed_by_no_order(slurm: Slurm) -> None:
    """The asker gives up while Slurm shows its nodes."""
    until = clock() + 0.2

    def slow(argv: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> Completed:
        while clock() <= until:
            time.sleep(0.01)
        return slurm(argv, stdin=stdin, timeout_s=timeout_s)

    helper = Helper(SETTINGS, NodeAdmin(20, runner=slow))
    with pytest.raises(TryAgainError, match="too late"):
        asked(helper, "power-down", nodes="gn01", until=until)
    assert slurm.changes == []


@pytest.mark.parametrize("nodes", ["gn*", "gn?1"])
def test_a_pattern_names_no_node(nodes: str) -> None:
    with pytest.raises(ConfigError, match="which no node can be called"):
        Helper(replace(SETTINGS, nodes=(nodes,)), NodeAdmin(20, runner=Slurm()))
