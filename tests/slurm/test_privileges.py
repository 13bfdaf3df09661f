"""What Slurm allows to whom, and the helper that does what needs an administrator."""

from __future__ import annotations

import json
import os
import pwd
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.site import GSCHED

from gsched.app.doctor import Finding
from gsched.config.node_settings import HelperSettings
from gsched.config.settings import Settings
from gsched.daemon.helper_client import HelperClient
from gsched.daemon.unix_client import ask
from gsched.errors import DataError, PermissionDeniedError, TryAgainError, UnavailableError
from gsched.slurm.client import CommandClient
from gsched.slurm.privileges import ACTS, ADMIN_LEVELS, suffices
from gsched.slurm.run import run
from gsched.testbed import processes
from gsched.testbed.background import Background
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

ACTOR = "backup"
LEVELS = {"user": "None"} | {level: name for name, level in ADMIN_LEVELS.items()}
BELOW = {"operator": "user", "admin": "operator"}
HELPER = [sys.executable, "-m", "gsched_cli.helper"]


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    conf = ("PrivateData=jobs,accounts",)
    with Testbed.temporary(num_nodes=2, accounting="slurmdbd", extra_conf=conf) as bed:
        yield bed


def slurm(bed: Testbed, *argv: str, user: str | None = None) -> str:
    answer = bed.run(argv, user)
    assert answer.returncode == 0, f"{argv}: {answer.stderr}"
    return answer.stdout.strip()


def submit(bed: Testbed, *options: str) -> str:
    words = ("sbatch", "--parsable", "-o", "/dev/null", "--mem=10", *options)
    return slurm(bed, *words, "--wrap", "touch ~/began.$SLURM_JOB_ID; sleep 600", user="games")


def set_level(bed: Testbed, level: str) -> None:
    words = ("sacctmgr", "-i", "modify", "user", ACTOR, "set", f"adminlevel={LEVELS[level]}")
    slurm(bed, *words)


# -- the table ----------------------------------------------------------------------------------


def attempts(waits: str, runs: str) -> dict[str, tuple[str, ...]]:
    """A command for each act: what only those may do who have the level for it."""
    return {
        "see": ("squeue", "-h", "-j", waits, "-o", "%i"),
        "site-factor": ("scontrol", "update", f"jobid={waits}", "sitefactor=5"),
        "signal": ("scancel", "-s", "USR2", "--batch", runs),
        "requeue": ("scontrol", "requeue", runs),
        "reserve": (
            "scontrol", "create", "reservation", f"reservationname=gsched_target_{waits}",
            "users=games", "starttime=now", "duration=1", "nodes=gn02", "flags=ignore_jobs,overlap",
        ),
        "drain": ("scontrol", "update", "nodename=gn02", "state=drain", "reason=a test"),
        "resume": ("scontrol", "update", "nodename=gn02", "state=resume"),
        "power": ("scontrol", "update", "nodename=gn02", "state=power_up"),
        "admin-comment": ("scontrol", "update", f"jobid={waits}", "admincomment=x"),
    }  # fmt: skip


def test_every_line_of_the_table_is_true_both_ways(bed: Testbed) -> None:
    client = CommandClient(60, runner=partial(run, env=bed.env()))
    assert set(attempts("1", "1")) == {act.name for act in ACTS}
    for level in LEVELS:
        set_level(bed, level)
        assert client.privilege(ACTOR) == level
        waits, runs = submit(bed, "--begin=now+1hour"), submit(bed)
        wait_for(partial(has_begun, bed, runs), "the job to run")
        commands = attempts(waits, runs)
        for act in ACTS:
            answer = bed.run(commands[act.name], ACTOR)
            is_done = answer.returncode == 0
            if act.name == "see":  # which Slurm answers with less, not with an error
                is_done = answer.stdout.strip() == waits
            assert is_done == suffices(level, act.name), (level, act, answer.stderr)
    slurm(bed, "scancel", "--user=games")
    for act in ACTS:
        assert suffices(act.least, act.name)
        assert not suffices(BELOW[act.least], act.name)


def has_begun(bed: Testbed, job: str) -> bool:
    """Whether the job's script runs: before, Slurm takes no signal for it."""
    return (bed.layout.home("games") / f"began.{job}").exists()


def test_the_daemon_of_a_user_without_the_right_is_found_and_mended(bed: Testbed) -> None:
    """What doctor finds, the daemon refuses; after the mend both are content."""
    state = bed.spec.root / "actor"
    environ = {"GSCHED_STATE_DIR": str(state), "GSCHED_PREDICT_ESTIMATOR": "constant"}
    # by root: in a checkout that is closed to others, alembic does not find its own folder
    made = bed.run([GSCHED, "db", "init"], extra_env=environ)
    assert made.returncode == 0, made.stderr
    for path in (state, *state.rglob("*")):
        os.chown(path, *_ids())
    set_level(bed, "user")
    finding = doctor(bed, environ)["privilege"]
    assert finding.level == "fail"
    assert "set a job's SiteFactor" in finding.found
    refused = bed.run([GSCHED, "daemon", "once", "--act"], ACTOR, extra_env=environ)
    assert (refused.returncode, "may not set SiteFactor" in refused.stderr) == (77, True)
    slurm(bed, *finding.mend.strip("`").split())
    sound = doctor(bed, environ)
    assert (sound["privilege"].level, sound["history-source"].level) == ("ok", "ok")
    acted = bed.run([GSCHED, "daemon", "once", "--act"], ACTOR, extra_env=environ)
    assert acted.returncode == 0, acted.stderr


def test_a_slurmdbd_that_is_down_is_found(bed: Testbed) -> None:
    root = bed.spec.root
    found = [p for p in processes.find(root) if p.program == "slurmdbd"]
    for process in found:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        finding = doctor(bed, {"GSCHED_SLURM_COMMAND_TIMEOUT_S": "1"})["slurmdbd-down"]
    finally:
        for process in found:
            os.kill(process.pid, signal.SIGCONT)
    assert (finding.level, "systemctl start slurmdbd" in finding.mend) == ("fail", True)


def doctor(bed: Testbed, environ: dict[str, str] | None = None) -> dict[str, Finding]:
    answer = bed.run([GSCHED, "doctor", "--json"], extra_env=environ)
    return {f["code"]: Finding(**f) for f in json.loads(answer.stdout)}


def _ids() -> tuple[int, int]:
    entry = pwd.getpwnam(ACTOR)
    return entry.pw_uid, entry.pw_gid


# -- the helper ---------------------------------------------------------------------------------


@contextmanager
def helper(bed: Testbed, **environ: str) -> Iterator[Path]:
    """A helper that may all of it on gn01, for the user ACTOR; gives its socket."""
    state = bed.spec.root / "gsched"
    allowed = {
        "GSCHED_HELPER_VERBS": "drain,resume,power-down,power-up,admin-comment",
        "GSCHED_HELPER_NODES": "gn01",
        "GSCHED_HELPER_USER": ACTOR,
        "GSCHED_HELPER_SOCKET": str(state / "helper.sock"),
        **environ,
    }
    with Background(bed, HELPER, state / "helper.log", allowed) as process:
        path = state / "helper.sock"
        wait_for(lambda: listens(path) or not process.is_running(), "the helper")
        assert process.is_running(), process.output()
        yield path


def listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def node(bed: Testbed, name: str = "gn01") -> str:
    return slurm(bed, "scontrol", "-o", "show", "node", name)


def client(path: Path) -> HelperClient:
    return HelperClient(path, 30)


def test_what_is_allowed_works_and_can_be_asked_again(bed: Testbed) -> None:
    with helper(bed, GSCHED_HELPER_NODES="gn[01-02]") as path:
        asked = client(path)
        assert asked.drain(["gn01"], "fan 3 stands still").done == ("gn01",)
        assert "State=IDLE+DRAIN" in node(bed)
        assert "Reason=gsched: fan 3 stands still [" in node(bed)
        assert asked.drain(["gn01"], "another reason").already == ("gn01",)
        assert "fan 3 stands still" in node(bed)
        assert asked.resume(["gn01"]).done == ("gn01",)
        assert asked.resume(["gn01"]).already == ("gn01",)
        assert "DRAIN" not in node(bed)
        slurm(bed, "scontrol", "update", "nodename=gn01", "state=drain", "reason=by hand")
        assert "somebody else" in asked.resume(["gn01"]).failed["gn01"]
        slurm(bed, "scontrol", "update", "nodename=gn01", "state=resume")
        job = submit(bed, "-w", "gn01")
        wait_for(partial(has_begun, bed, job), "the job to run")
        assert asked.admin_comment(int(job), "root cause: ECC error").done == (job,)
        assert asked.admin_comment(int(job), "root cause: ECC error").already == (job,)
        assert "AdminComment=gsched: root cause: ECC error" in slurm(
            bed, "scontrol", "show", "job", job
        )
        array = submit(bed, "-w", "gn01", "--array=1-2")
        for task in raw_ids(bed, array):
            wait_for(partial(has_begun, bed, task), "the task to run")
        slurm(bed, "scontrol", "update", f"jobid={array}_1", "admincomment=by another tool")
        assert asked.admin_comment(int(array), "seen").done == (array,)  # the last task's number
        assert comments(bed, array) == {"by another tool", "gsched: seen"}
        het = submit(bed, ":", "-n1", "--mem=10")
        wait_for(partial(has_begun, bed, het), "the het job to run")
        slurm(bed, "scontrol", "update", f"jobid={het}+1", "admincomment=by another tool")
        assert asked.admin_comment(int(het), "seen").done == (het,)
        assert comments(bed, het) == {"by another tool", "gsched: seen"}
        bed.cancel_jobs()
        wait_for(lambda: "State=IDLE " in node(bed), "the node to be idle")
        assert asked.power_up(["gn01"]).already == ("gn01",)
        assert asked.power_down(["gn01"]).done == ("gn01",)
        assert asked.power_down(["gn01"]).already == ("gn01",)
        log = (bed.spec.root / "gsched" / "helper.log").read_text()
        assert f"user root (process {os.getpid()}): drain: done ['gn01']" in log
        wait_for(lambda: "POWERED_DOWN" in node(bed), "the node to sleep")
        assert asked.drain(["gn01"], "x").done == ("gn01",)
        assert asked.power_up(["gn01"]).done == ("gn01",)
        assert asked.resume(["gn01"]).done == ("gn01",)


def raw_ids(bed: Testbed, job: str) -> list[str]:
    """Slurm's own numbers of an array's tasks, once all have been split off."""

    def listed() -> list[str]:
        shown = slurm(bed, "squeue", "-h", "-r", "-t", "RUNNING", "-j", job, "-O", "JobID")
        return shown.split()

    wait_for(lambda: len(listed()) == 2, "both tasks to run")
    return listed()


def comments(bed: Testbed, job: str) -> set[str]:
    """The AdminComments of all parts of a job."""
    shown = slurm(bed, "squeue", "-h", "-j", job, "-O", "admin_comment:50")
    return {line.strip() for line in shown.splitlines()}


def as_user(bed: Testbed, user: str, path: Path, question: dict[str, Any]) -> str:
    """Ask as another user; the error, or "" for an answer."""
    script = (
        "import json, sys; from pathlib import Path\n"
        "from gsched.daemon.unix_client import ask\n"
        "from gsched.errors import GschedError\n"
        "try: ask(Path(sys.argv[1]), json.loads(sys.argv[2]))\n"
        "except GschedError as e: print(e.exit_code, e.message)\n"
    )
    answer = bed.run([sys.executable, "-c", script, str(path), json.dumps(question)], user)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


FORBIDDEN: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"verb": "drain", "nodes": "gn02", "reason": "x"}, PermissionDeniedError, "allow gn02"),
    ({"verb": "drain", "nodes": "gn[01-02]", "reason": "x"}, PermissionDeniedError, "allow gn02"),
    ({"verb": "drain", "nodes": "ALL", "reason": "x"}, PermissionDeniedError, "allow ALL"),
    ({"verb": "power-down", "nodes": "gn01"}, PermissionDeniedError, "helper.verbs"),
    ({"verb": "reboot", "nodes": "gn01"}, DataError, "no such verb"),
    ({"verb": ["drain"], "nodes": "gn01"}, DataError, "no such verb"),
    ({"verb": "drain", "nodes": "gn01"}, DataError, "takes nodes and reason"),
    ({"verb": "drain", "nodes": "gn01", "reason": "x", "weight": "0"}, DataError, "nothing else"),
    ({"verb": "drain", "nodes": ["gn01"], "reason": "x"}, DataError, "no host list"),
    ({"verb": "drain", "nodes": "gn01 state=down", "reason": "x"}, DataError, "no node can have"),
    ({"verb": "drain", "nodes": "gn[1-200000]", "reason": "x"}, DataError, "more than 1024"),
    ({"verb": "drain", "nodes": "gn01", "reason": ""}, DataError, "1 to 200"),
    ({"verb": "drain", "nodes": "gn01", "reason": "x" * 201}, DataError, "1 to 200"),
    ({"verb": "drain", "nodes": "gn01", "reason": "a\nstate=down"}, DataError, "not taken"),
    ({"verb": "drain", "nodes": "gn01", "reason": 'a" state=down "'}, DataError, "not taken"),
    ({"verb": "drain", "nodes": "gn01", "reason": "a State=IDLE"}, DataError, "not taken"),
    ({"verb": "drain", "nodes": "gn01", "reason": "$(id)"}, DataError, "not taken"),
    ({"verb": "drain", "nodes": "gn01", "reason": "é"}, DataError, "not taken"),
    ({"verb": "admin-comment", "job": "1 2", "text": "x"}, DataError, "no number"),
    ({"verb": "admin-comment", "job": "-1", "text": "x"}, DataError, "no number"),
]


def test_what_is_forbidden_is_refused_and_changes_nothing(bed: Testbed) -> None:
    with helper(bed, GSCHED_HELPER_VERBS="drain,admin-comment") as path:
        elsewhere = submit(bed, "-w", "gn02")
        wait_for(partial(has_begun, bed, elsewhere), "the job to run")
        before = _marks(bed)
        cases = [
            *FORBIDDEN,
            (
                {"verb": "admin-comment", "job": elsewhere, "text": "x"},
                PermissionDeniedError,
                "allow gn02",
            ),
        ]
        for question, error, why in cases:
            with pytest.raises(error, match=why):
                wait_for(partial(is_answered, path, question), "the rate to allow more")
        question = {"verb": "drain", "nodes": "gn01", "reason": "x"}
        for user in ("games", "news"):
            assert "may not ask here" in as_user(bed, user, path, question)
        assert _marks(bed) == before
        for rude in (b"x" * 100_000, b"{" * 5000 + b"\n", b"\xff\xfe\n"):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(rude)
                assert b'"error"' in connection.recv(4096)
        with socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(path))
            assert as_user(bed, ACTOR, path, question) == ""
        assert "DRAIN" in node(bed)
        slurm(bed, "scontrol", "update", "nodename=gn01", "state=resume")
        bed.cancel_jobs()


def is_answered(path: Path, question: dict[str, Any]) -> bool:
    """Ask; False when the helper says that it is asked too often. Raises any other error."""
    try:
        ask(path, question)
    except TryAgainError:
        return False
    return True


def _marks(bed: Testbed) -> list[list[str]]:
    """What somebody could have changed of the nodes; idle or not is Slurm's own affair."""
    keys = ("Reason=", "Comment=", "Weight=")
    lines = [node(bed, name) for name in ("gn01", "gn02")]
    return [
        [*(word for word in line.split() if word.startswith(keys)), str("DRAIN" in line)]
        for line in lines
    ]


def test_a_helper_that_is_killed_leaves_nothing_half_done(bed: Testbed) -> None:
    for _ in range(2):
        with helper(bed) as path, socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            question = {"verb": "drain", "nodes": "gn01", "reason": "half"}
            connection.sendall(json.dumps(question).encode() + b"\n")
            _kill(bed)
        with pytest.raises(UnavailableError):
            client(path).drain(["gn01"], "half")
        with helper(bed) as path:  # the dead one's socket does not stop it
            outcome = client(path).drain(["gn01"], "half")
            assert (*outcome.done, *outcome.already) == ("gn01",)
            assert "Reason=gsched: half [" in node(bed)
            assert client(path).resume(["gn01"]).done == ("gn01",)


def _kill(bed: Testbed) -> None:
    for process in processes.find(bed.spec.root):
        if "gsched_cli.helper" in process.argv:
            os.kill(process.pid, signal.SIGKILL)


def test_with_nothing_allowed_it_does_not_start(bed: Testbed) -> None:
    for environ, why in (
        ({}, "helper.verbs is empty"),
        ({"GSCHED_HELPER_VERBS": "reboot"}, "which is no verb"),
        ({"GSCHED_HELPER_VERBS": "drain", "GSCHED_HELPER_USER": "nobody-at-all"}, "no user"),
    ):
        answer = bed.run(HELPER, extra_env=environ)
        assert (answer.returncode, why in answer.stderr) == (78, True), answer.stderr
    assert HelperSettings().verbs == ()
    assert Settings().helper_socket == Path("/run/gsched-helper/helper.sock")
