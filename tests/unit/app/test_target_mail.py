"""Warnings about deadlines: each handed over once, by a command that cannot harm the daemon."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.history import CLUSTER, url_of
from support.whole_history import target

from gsched.app.target_mail import OLD_S, TRIES, TargetMail
from gsched.config.deadlines import DeadlineSettings
from gsched.config.settings import Settings
from gsched.daemon.child_process import hand_text
from gsched.engine.faults import FaultPoint
from gsched.explain.words import moment
from gsched.model.job import JobKey
from gsched.model.target_records import Risk, TargetEvent, TargetRecord, TargetState
from gsched.testbed.wait import wait_for
from gsched_sql import History

NOW = 10_000
COMMAND = ("/usr/bin/mail", "-s", "job {job}: {level}", "{to}")
AT_RISK = TargetEvent(NOW, "at-risk", 12_500, 0.4)


class Post:
    """A mailer over a real database, whose command is a list."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.told = DeadlineSettings(mail_command=COMMAND)
        self.sent: list[tuple[list[str], str]] = []
        self.problem = ""
        self.refused: set[str] = set()
        self.open = threading.Event()
        self.open.set()
        self.restart()

    def restart(self, **facts: Any) -> None:
        self.mail = TargetMail(lambda: Settings(deadlines=self.told), hand=self._hand, **facts)

    def _hand(self, argv: list[str], text: str, _limit_s: float) -> str:
        self.open.wait(30)
        self.sent.append((argv, text))
        return "no such address" if argv[-1] in self.refused else self.problem

    def befall(self, event: TargetEvent = AT_RISK, **facts: Any) -> TargetRecord:
        record = replace(target(), **facts)
        self.store.keep(CLUSTER, [(record, [event])])
        self.mail.is_due = True
        return record

    def round(self, now: int = NOW) -> None:
        self.mail.after_round(self.store, CLUSTER, now)

    def settle(self, now: int = NOW) -> None:
        """Rounds until all that was taken up is handed over and marked."""

        def is_done() -> bool:
            self.round(now)
            return not self.mail._under_way

        self.round(now)
        wait_for(is_done, "letters to be handed over", 30, 0.01)

    @property
    def argvs(self) -> list[list[str]]:
        return [argv for argv, _ in self.sent]


@pytest.fixture
def post(tmp_path, sqlite_template):
    path = tmp_path / "history.db"
    path.write_bytes(sqlite_template.read_bytes())
    with History.open(url_of(path)) as history:
        yield Post(history.targets())


def test_a_warning_is_handed_over_once(post):
    post.befall()
    post.settle()
    post.settle()
    post.restart()
    post.settle()
    assert post.argvs == [["/usr/bin/mail", "-s", "job 7: at-risk", "alice"]]
    text = post.sent[0][1]
    assert text.startswith("Job 7: its deadline ")
    assert "is at risk" in text
    assert "probability 0.40" in text
    assert post.store.untold(CLUSTER, 0, ["at-risk"]) == []


def test_a_warning_says_when_the_job_should_end_and_where_nothing_can_be_planned(post):
    post.befall()
    post.settle()
    assert f"It should end {moment(12_500, 'minutes')}, with probability 0.40." in post.sent[0][1]
    post.befall(TargetEvent(NOW + 1, "late", None, 0.0))
    post.settle()
    assert "No end can be planned." in post.sent[1][1].splitlines()
    assert "should end" not in post.sent[1][1]


def test_the_administrator_gets_a_copy(post):
    post.told = replace(post.told, mail_admin="ops@example.org")
    post.befall()
    post.settle()
    assert [argv[-1] for argv in post.argvs] == ["alice", "ops@example.org"]


def test_without_a_command_nobody_gets_mail_and_old_news_stays_old(post):
    command, post.told = post.told, DeadlineSettings()
    post.befall()
    post.settle()
    post.told = command
    post.settle(NOW + OLD_S + 1)
    assert post.sent == []


def test_what_is_no_warning_is_not_sent(post):
    for what in ("standing", "kept", "withdrawn", "failed"):
        post.befall(TargetEvent(NOW, what))
    post.settle()
    assert post.sent == []


def test_who_was_told_that_the_job_is_late_is_not_told_that_it_was_missed(post):
    missed = TargetEvent(NOW, "missed")
    post.befall(missed, state=TargetState.MISSED, warned=Risk.LATE)
    post.befall(missed, state=TargetState.MISSED, key=JobKey(CLUSTER, 8, epoch=1000))
    post.settle()
    assert [argv[2] for argv in post.argvs] == ["job 8: missed"]


@pytest.mark.parametrize("user", ["-oProxyCommand=x", "a b", "a\nb", "", "名前", "x" * 300])
def test_a_name_that_is_none_comes_into_no_command(post, user):
    post.befall(user=user)
    post.settle()
    assert post.sent == []
    post.told = replace(post.told, mail_admin="ops")
    post.mail.is_due = True
    post.settle()
    assert [argv[-1] for argv in post.argvs] == ["ops"]
    assert "\nb" not in post.sent[0][1]


def test_what_a_name_holds_is_not_filled_in_again(post):
    post.told = replace(post.told, mail_command=("/bin/m", "{to}{job}"), mail_admin="ops")
    post.befall(key=JobKey(CLUSTER, 7, 3, None, 1000))
    post.settle()
    assert post.argvs == [["/bin/m", "alice7_3"], ["/bin/m", "ops7_3"]]


def test_a_command_that_fails_is_tried_a_few_times_and_said(post, caplog):
    post.problem = "/usr/bin/mail has failed: exit status 1"
    post.befall()
    with caplog.at_level(logging.WARNING):
        for _ in range(TRIES + 2):
            post.settle()
    assert len(post.sent) == TRIES
    assert post.mail.counts == {"failed": TRIES}
    assert "job 7: warned in vain" in caplog.text
    post.problem = ""
    post.befall(key=JobKey(CLUSTER, 8, epoch=1000))
    post.settle()
    assert post.mail.counts == {"failed": TRIES, "sent": 1}


def test_who_got_a_warning_does_not_get_it_again_as_another_did_not(post, caplog):
    post.told = replace(post.told, mail_admin="ops@example.org")
    post.refused = {"ops@example.org"}
    post.befall()
    with caplog.at_level(logging.WARNING):
        for _ in range(TRIES + 2):
            post.settle()
    assert [argv[-1] for argv in post.argvs] == ["alice"] + ["ops@example.org"] * TRIES
    assert post.mail.counts == {"sent": 1, "failed": TRIES}
    assert post.store.untold(CLUSTER, 0, ["at-risk"]) == []
    assert "job 7: warned in vain, except for its user" in caplog.text
    post.refused = {"alice"}
    post.befall(key=JobKey(CLUSTER, 8, epoch=1000))
    for _ in range(TRIES + 2):
        post.settle()
    assert [argv[-1] for argv in post.argvs[4:]] == ["alice", "ops@example.org", "alice", "alice"]
    assert len(post.store.untold(CLUSTER, 0, ["at-risk"])) == 1


def test_a_warning_survives_a_database_that_fails_for_a_moment(post, monkeypatch):
    def fail_once(name: str) -> None:
        own = getattr(post.store, name)

        def fail(*_args: Any) -> Any:
            monkeypatch.setattr(post.store, name, own)
            raise OSError(name)

        monkeypatch.setattr(post.store, name, fail)

    post.befall()
    fail_once("untold")
    with pytest.raises(OSError, match="untold"):
        post.round()
    fail_once("told")
    post.round()
    wait_for(lambda: post.sent, "the letter to be handed over", 30, 0.01)
    with pytest.raises(OSError, match="told"):
        wait_for(post.settle, "the mark", 30, 0.01)
    post.mail.is_due = True
    post.settle()
    assert len(post.sent) == 1
    assert post.store.untold(CLUSTER, 0, ["at-risk"]) == []


def test_rounds_do_not_wait_for_a_command_that_hangs(post):
    post.open.clear()
    post.befall()
    post.round()
    post.befall(key=JobKey(CLUSTER, 8, epoch=1000))
    post.round()
    assert post.sent == []
    post.open.set()
    post.settle()
    assert [argv[2] for argv in post.argvs] == ["job 7: at-risk", "job 8: at-risk"]


def test_a_kill_after_the_command_repeats_the_warning_and_loses_none(post):
    class KilledError(Exception):
        pass

    def die(point: FaultPoint) -> None:
        assert point is FaultPoint.TARGETS_MAILED
        raise KilledError

    post.restart(on_point=die)
    post.befall()
    post.round()
    wait_for(lambda: post.sent, "the letter to be handed over", 30, 0.01)
    with pytest.raises(KilledError):
        post.settle()
    post.restart()
    post.settle()
    assert len(post.sent) == 2
    post.restart()
    post.settle()
    assert len(post.sent) == 2


# -- the command ---------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path):
    def make(text: str) -> str:
        path = tmp_path / "mailer"
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    return make


def test_a_command_gets_text_and_arguments_as_they_are(script, tmp_path):
    out = tmp_path / "out"
    mailer = script(f'printf "%s\\n" "$@" > {out}; cat >> {out}; env > {out}.env')
    os.environ["SECRET_OF_THE_DAEMON"] = "x"
    try:
        assert hand_text([mailer, "$(id); a b", "'"], "line\n.\n~! id\n", 30) == ""
    finally:
        del os.environ["SECRET_OF_THE_DAEMON"]
    assert out.read_text() == "$(id); a b\n'\nline\n.\n~! id\n"
    assert "SECRET" not in Path(f"{out}.env").read_text()


def test_a_command_that_cannot_be_run_fails_or_does_not_read_is_said(script):
    assert "cannot be run: No such file" in hand_text(["/nowhere/mail"], "x", 30)
    assert hand_text([script("exit 3")], "x", 30).endswith("has failed: exit status 3")
    assert hand_text([script("kill -9 $$")], "x", 30).endswith("has failed: signal 9")
    assert hand_text([script("exec <&-; exit 0")], "x" * 1_000_000, 30) == ""


def test_a_command_that_hangs_is_killed_with_all_that_it_has_started(script, tmp_path):
    pid = tmp_path / "pid"
    mailer = script(f"sleep 1000 & echo $! > {pid}; wait")
    assert "takes longer than 0.5 s" in hand_text([mailer], "x", 0.5)
    child = int(pid.read_text())
    wait_for(lambda: not _lives(child), "the child to be gone", 30)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
