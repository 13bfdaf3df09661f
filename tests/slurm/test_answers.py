"""Asking and being answered on a real Slurm: status file, query socket with munge, --gs-wait."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.site import GSCHED, Site, fresh_site

from gsched.daemon.bounded_server import MAX_CONNECTIONS
from gsched.daemon.lines import read_line
from gsched.daemon.query_protocol import Question
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

JOB = ("-J", "d5", "--gres=gpu:8", "-o", "/dev/null", "--wrap", "true")
PREDICTED = "gsched: predicted run 0:05 (from the site's table)\n"


class Desk:
    """A site whose daemon acts and listens, and whose nodes are full."""

    def __init__(self, site: Site, log: Path) -> None:
        self.site = site
        self.log = log
        self.address = str(self.status()["query_address"])

    def status(self) -> dict[str, Any]:
        return dict(self.site.json("daemon", "status"))

    def submit(self, *words: str, user: str = "games", **env: str) -> tuple[int, str, str]:
        """Exit code, job id and stderr of `gsched submit --parsable --gs-wait 30`.

        A later `--gs-wait` among the words counts.
        """
        argv = ("submit", "--parsable", "--gs-wait", "30", *words, *JOB)
        answer = self.site.gsched(*argv, user=user, env=env)
        return answer.returncode, answer.stdout.strip(), answer.stderr

    @property
    def socket_only(self) -> dict[str, str]:
        """Environment of a host to which the status file does not reach."""
        folder = str(self.site.bed.spec.root / "elsewhere")
        return {"GSCHED_STATE_DIR": folder, "GSCHED_DAEMON_QUERY_ADDRESS": self.address}

    def munge(self, payload: str, user: str | None = None, *options: str) -> str:
        argv = ("munge", "-S", str(self.site.bed.layout.munge_socket), *options)
        answer = self.site.bed.run(argv, user, stdin=payload)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()

    def unmunge(self, credential: str, user: str | None = None) -> tuple[int, str]:
        argv = ("unmunge", "-S", str(self.site.bed.layout.munge_socket), "-N", "-k", "UID")
        answer = self.site.bed.run(argv, user, stdin=credential)
        return answer.returncode, answer.stdout

    def connect(self) -> socket.socket:
        host, port = self.address.split(":")
        return socket.create_connection((host, int(port)), timeout=30)

    def send(self, line: str) -> str:
        """What the daemon answers to a line; '' when it hangs up."""
        with self.connect() as connection:
            connection.sendall(line.encode() + b"\n")
            return connection.makefile().readline().strip()


@contextlib.contextmanager
def open_desk(site: Site, **settings: str) -> Iterator[Desk]:
    given = {"query_listen": '"127.0.0.1:0"', **settings}
    site.configure("daemon", **given)
    site.configure("forecast", enabled="false")  # their own tests look at what it adds
    site.know_durations({"d5": 5})
    site.arm.fill()
    log = site.bed.spec.root / "daemon.log"
    with Background(site.bed, [GSCHED, "daemon", "run", "--act"], log):
        wait_for(lambda: site.json("daemon", "status")["query_address"], "the daemon to listen")
        yield Desk(site, log)


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with fresh_site(num_nodes=1) as site, open_desk(site, interval_s="1.0") as made:
        yield made


# -- answers -------------------------------------------------------------------------------------


NOTHING = "gsched: no prediction: nothing is known of jobs like this one\n"


@pytest.mark.parametrize(("user", "answer"), [("games", PREDICTED), ("news", NOTHING)])
def test_the_status_file_answers_users(desk: Desk, user: str, answer: str) -> None:
    code, job, said = desk.submit(user=user)
    assert (code, said) == (0, answer)
    assert job.isdecimal()


def test_the_socket_answers_where_the_file_does_not_reach(desk: Desk) -> None:
    assert desk.submit(**desk.socket_only)[::2] == (0, PREDICTED)
    code, _, said = desk.submit("--gs-deadline", "now+2hours", **desk.socket_only)
    assert code == 3
    assert "refused: not planned: policy qssf keeps no deadlines" in said


def test_a_refusal_can_cancel_the_job(desk: Desk) -> None:
    code, job, said = desk.submit("--gs-deadline=now+1hour", "--gs-else=cancel")
    assert code == 3
    assert f"job {job} is cancelled" in said
    assert desk.site.states()[int(job)] == "CANCELLED"
    code, job, said = desk.submit("--gs-deadline=now+1hour")
    assert (code, desk.site.states()[int(job)]) == (3, "PENDING")


def test_a_running_job_is_answered_for_too(desk: Desk) -> None:
    argv = ("submit", "--parsable", "--gs-wait", "30", "--gs-phase", "debug", "--mem=10")
    answer = desk.site.gsched(*argv, "--wrap", "sleep 60", user="games")
    assert answer.returncode == 0, answer.stderr
    assert "--gs-phase not used: policy qssf does not use it" in answer.stderr
    job = answer.stdout.strip()
    wait_for(lambda: desk.site.states()[int(job)] == "RUNNING", "the job to run")
    desk.site.slurm("scancel", job)


# -- when something is missing -------------------------------------------------------------------


def test_without_a_daemon(desk: Desk) -> None:
    nowhere = str(desk.site.bed.spec.root / "elsewhere")
    code, job, said = desk.submit(GSCHED_STATE_DIR=nowhere)
    assert code == 75
    assert f"no answer: no gsched daemon has answered here (no {nowhere}/status.json)" in said
    assert desk.site.states()[int(job)] == "PENDING"


def test_without_munge_the_file_still_answers(desk: Desk) -> None:
    tools = desk.site.bed.spec.root / "tools"
    tools.mkdir(mode=0o755)
    for name in ("sbatch", "scontrol", "squeue", "scancel", "setpriv"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    env = {"PATH": str(tools)}
    with_file = {**env, "GSCHED_DAEMON_QUERY_ADDRESS": desk.address}
    assert desk.submit(**with_file)[::2] == (0, PREDICTED)
    code, _, said = desk.submit("--gs-wait=2", **{**desk.socket_only, **env})
    assert code == 75
    assert "no munge here: munge not found on PATH" in said


# -- who asks, and who answers -------------------------------------------------------------------


def test_the_answer_can_be_read_by_the_asker_alone(desk: Desk) -> None:
    question = Question.about()
    answer = desk.send(desk.munge(question.to_json(), "games"))
    assert desk.unmunge(answer, "news")[0] == 18  # unauthorised
    code, text = desk.unmunge(answer, "games")
    assert code == 0
    assert question.nonce in text
    assert text.split()[:2] == ["UID:", "0"]


def test_a_question_is_good_once_and_not_for_long(desk: Desk) -> None:
    question = Question.about()
    credential = desk.munge(question.to_json(), "games")
    assert desk.send(credential).startswith("MUNGE:")
    assert desk.send(credential) == ""
    old = desk.munge(question.to_json(), "games", "--ttl", "1")
    seen = wait_for(lambda: desk.unmunge(old, "games")[0] == 15 or None, "it to expire") and old
    assert desk.send(seen) == ""
    forged = credential[:40] + ("A" if credential[40] != "A" else "B") + credential[41:]
    assert desk.send(forged) == ""
    assert re.search(r"questions? not answered\b.*: munge refuses it", desk.log.read_text())


@contextlib.contextmanager
def impostor(answer: Callable[[str], str]) -> Iterator[str]:
    """Somebody else's server; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):  # closed at the end
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        line = read_line(connection, 100_000, 10.0)
                        connection.sendall(answer(line).encode() + b"\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_nobody_else_can_answer(desk: Desk) -> None:
    def accept_all(line: str) -> str:
        """As `news`, who would have the job accepted; reads the question by root's leave."""
        _, text = desk.unmunge(line)
        nonce = json.loads(text.partition("\n\n")[2])["nonce"]
        document = {"version": 1, "cluster": "testbed", "as_of": 9e9, "interval_s": 30, "jobs": {}}
        payload = json.dumps({"version": 1, "nonce": nonce, "document": document})
        return desk.munge(payload, "news")

    with impostor(accept_all) as address:
        env = desk.socket_only | {"GSCHED_DAEMON_QUERY_ADDRESS": address}
        code, _, said = desk.submit("--gs-wait=2", "--gs-deadline=now+1hour", **env)
    assert code == 75
    assert f"what listens at {address} is not gsched's daemon: user 9 answered" in said


def test_an_old_answer_of_the_daemon_is_no_answer(desk: Desk) -> None:
    def old_answer(_: str) -> str:
        return desk.munge(json.dumps({"version": 1, "nonce": "0" * 32, "document": {}}))

    with impostor(old_answer) as address:
        env = desk.socket_only | {"GSCHED_DAEMON_QUERY_ADDRESS": address}
        code, _, said = desk.submit("--gs-wait=2", **env)
    assert code == 75
    assert "the answer is not to this question" in said


# -- daemons that come back, ids that are given again --------------------------------------------


def test_a_daemon_that_is_away_for_longer_than_the_grace_cancels_nothing(desk: Desk) -> None:
    """Its socket hangs up at first; then somebody else answers; at last it is there."""
    target = desk.address.split(":")
    asked: list[str] = []

    def first_in_vain(line: str) -> str:
        asked.append(line)
        if len(asked) < 8:  # the pauses grow: some seconds
            return "" if len(asked) % 2 else desk.munge("x", "news")
        with socket.create_connection((target[0], int(target[1])), timeout=30) as real:
            real.sendall(line.encode() + b"\n")
            return real.makefile().readline().strip()

    with impostor(first_in_vain) as address:
        env = desk.socket_only | {"GSCHED_DAEMON_QUERY_ADDRESS": address}
        code, _, said = desk.submit("--gs-else=cancel", **env)
    assert (code, said) == (0, PREDICTED)
    assert len(asked) >= 8


def test_what_has_become_of_the_job_is_looked_up_before_it_is_said(desk: Desk) -> None:
    env = {"GSCHED_STATE_DIR": str(desk.site.bed.spec.root / "elsewhere")}
    folder = desk.site.bed.spec.root / "cancelling"
    folder.mkdir(mode=0o755)
    sbatch = folder / "sbatch"
    sbatch.write_text('#!/bin/sh\njob=$(/usr/bin/sbatch "$@") || exit\necho $job\nscancel $job\n')
    sbatch.chmod(0o755)
    path = {"PATH": f"{folder}:/usr/bin:/bin"}
    code, job, said = desk.submit("--gs-else=cancel", **env, **path)
    assert code == 75
    assert said.endswith(f"gsched: job {job} has ended already: nothing is cancelled\n")
    _, other, _ = desk.submit(user="news", **env)
    sbatch.write_text(f"#!/bin/sh\necho {other}\n")
    root = desk.site.gsched("submit", "--gs-wait=1", "--gs-else=cancel", *JOB, env={**env, **path})
    assert root.returncode == 75
    assert f"job {other} is by now another job of that id: nothing is cancelled" in root.stderr
    assert desk.site.states()[int(other)] == "PENDING"
    sbatch.write_text("#!/bin/sh\necho 999999\n")
    code, job, said = desk.submit("--gs-wait=1", **env, **path)
    assert said.endswith("gsched: job 999999 is unknown to Slurm by now\n")


def test_a_job_for_somebody_else_is_still_the_submitters(desk: Desk) -> None:
    env = {"GSCHED_STATE_DIR": str(desk.site.bed.spec.root / "elsewhere")}
    words = ("--gs-wait=1", "--gs-else=cancel", "--uid=games", "--gid=60", "--chdir=/")
    done = desk.site.gsched("submit", "--parsable", *words, *JOB, env=env)
    assert done.returncode == 75, done.stderr
    assert f"job {done.stdout.strip()} is cancelled" in done.stderr


# -- hostile clients -----------------------------------------------------------------------------


def test_hostile_clients_hold_up_no_round(desk: Desk) -> None:
    def last_round() -> int:
        return int(desk.status()["last_round_as_of"])

    with contextlib.ExitStack() as held:
        for data in [b"", b"half a credential", b"x" * 100_000, b"\x00\xff\n"] * MAX_CONNECTIONS:
            connection = held.enter_context(desk.connect())
            with contextlib.suppress(OSError):
                connection.sendall(data)
        before = last_round()
        wait_for(lambda: last_round() >= before + 3, "rounds to go on", timeout_s=30)
        wait_for(lambda: desk.submit(**desk.socket_only)[0] == 0, "an honest user to be answered")
    assert "Traceback" not in desk.log.read_text()


# -- requests ------------------------------------------------------------------------------------


def test_the_users_comment_is_kept_to_the_byte(desk: Desk) -> None:
    comment = '{"tool": "x|y", "é": ["ü  z", "gs1(none)"]}  '
    _, job, _ = desk.submit("--gs-phase=eval", "--comment", comment)
    shown = desk.site.slurm("scontrol", "show", "job", job)
    assert f"Comment={comment} gs1{{phase=eval}}" in shown


def test_a_request_is_captured_once_and_edits_are_new_ones(desk: Desk) -> None:
    def requests() -> list[dict[str, Any]]:
        rows = desk.site.json("daemon", "audit", "-j", job)
        return [r["reason"]["params"] for r in rows if r["channel"] == "request"]

    def told() -> dict[str, Any]:
        document = json.loads((desk.site.state / "status.json").read_text())
        return dict(document["jobs"][job])

    def comment(text: str, user: str | None = None) -> int:
        argv = ("scontrol", "update", f"jobid={job}", f"comment={text}")
        return desk.site.bed.run(argv, user).returncode

    _, job, _ = desk.submit("--gs-phase=eval")
    assert requests() == [{"phases": ["eval"]}]
    assert comment("wiped by some tool") == 0
    assert comment("gs1{none}", "news") != 0  # not their job
    assert comment("gs1{share}", "games") == 0
    wait_for(lambda: len(requests()) == 2, "the edit to be seen")
    assert requests() == [{"shareable": True}, {"phases": ["eval"]}]
    assert comment("gs1{share} gs1{none}", "games") == 0
    wait_for(lambda: told().get("request_problem"), "the wrong token to be reported")
    assert told()["request_problem"] == "more than one token"
    assert told()["request"]["wants"] == {"shareable": True}
    assert len(requests()) == 2
    assert f"job {job}: its request is ignored: more than one token" in desk.log.read_text()


# -- sites of another kind -----------------------------------------------------------------------


def test_where_slurm_hides_jobs_each_user_is_told_of_their_own_and_soon() -> None:
    """The daemon looks every hour here: who asks over the socket need not wait that long."""
    with (
        fresh_site(num_nodes=1, extra_conf=("PrivateData=jobs",)) as site,
        open_desk(site, interval_s="3600.0") as desk,
    ):
        code, _, said = desk.submit()
        assert code == 75
        assert (
            "this cluster hides users' jobs (PrivateData), and daemon.query_address names" in said
        )
        code, job, said = desk.submit(GSCHED_DAEMON_QUERY_ADDRESS=desk.address)
        assert (code, said) == (0, PREDICTED)

        def seen_by(user: str | None) -> set[str]:
            answer = desk.send(desk.munge(Question.about(job).to_json(), user))
            _, text = desk.unmunge(answer, user)
            return set(json.loads(text.partition("\n\n")[2])["document"]["jobs"])

        assert (seen_by("games"), seen_by("news"), seen_by(None)) == ({job}, set(), {job})
        env = {"GSCHED_DAEMON_QUERY_ADDRESS": desk.address}
        looked = site.gsched("doctor", env=env).stdout
        assert f"the daemon of testbed answers at {desk.address}" in looked
        for words in (("show",), ("why",), ("queue", "-j")):
            told = site.gsched(*words, job, user="games", env=env)
            assert told.returncode == 0, told.stderr
            assert "no predictions" not in told.stdout + told.stderr
            assert re.search(r"\b2( of |/)2\b", told.stdout), told.stdout  # its rank
            hidden = site.gsched(*words, job, user="games")
            assert not re.search(r"\b2( of |/)2\b", hidden.stdout)


def test_a_port_in_use_stops_no_daemon(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, fresh_site(num_nodes=1) as site:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        site.configure("daemon", query_listen=f'"{address}"', interval_s="1.0")
        log = tmp_path / "daemon.log"

        def shown(key: str) -> str:
            return str(site.json("daemon", "status")[key] or "")

        with Background(site.bed, [GSCHED, "daemon", "run"], log):
            wait_for(lambda: shown("query_problem"), "the daemon to run without its socket")
            problem = f"cannot listen at {address}: Address already in use"
            assert (shown("query_problem"), shown("query_address")) == (problem, "")
            taken.close()
            wait_for(lambda: shown("query_address") == address, "the socket to be open")
        assert log.read_text().count(problem) == 1
        assert "`ss -ltnp`" in log.read_text()
