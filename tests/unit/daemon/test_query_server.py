"""The query socket over real connections, with a stand-in for munge that costs no process."""

from __future__ import annotations

import json
import pwd
import socket
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from gsched.config.settings import DaemonSettings
from gsched.daemon import bounded_server
from gsched.daemon.asker_rights import AskerRights
from gsched.daemon.bounded_server import MAX_CONNECTIONS
from gsched.daemon.forecast_book import NOTHING_FORESEEN, Edition
from gsched.daemon.kept_listener import KeptListener
from gsched.daemon.lines import read_line
from gsched.daemon.query_client import NobodyListensError, QueryClient
from gsched.daemon.query_protocol import (
    MAX_JOBS,
    MAX_OWN_JOBS,
    MAX_QUESTION_BYTES,
    Question,
    answer_payload,
    read_answer,
    read_question,
)
from gsched.daemon.query_rates import BURST, PER_S, AskerRates
from gsched.daemon.query_server import QueryServer
from gsched.daemon.status_file import Bulletin, JobAnswers
from gsched.errors import (
    ConfigError,
    DataError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched.slurm.munge import Decoded
from gsched.slurm.privileges import Privilege
from gsched.slurm.records import SlurmConfig
from gsched.testbed.wait import wait_for

ROOT, GAMES, NEWS, NOBODY = 0, 5, 9, 4_000_000_000
HEAD = {"version": 1, "cluster": "c", "as_of": 1, "interval_s": 30.0}


class StandInMunge:
    """Credentials that say openly who made them and who may read them."""

    def __init__(self, uid: int) -> None:
        self.uid = uid

    def encode(
        self, payload: str, only_for_uid: int | None = None, timeout_s: float | None = None
    ) -> str:
        return json.dumps([self.uid, only_for_uid, payload])

    def decode(self, credential: str, timeout_s: float | None = None) -> Decoded:
        try:
            uid, reader, payload = json.loads(credential)
        except (ValueError, RecursionError):
            raise PermissionDeniedError("munge refuses it: no credential") from None
        if reader not in (None, self.uid):
            raise PermissionDeniedError("munge refuses it: for somebody else")
        return Decoded(uid, payload)


OWNERS = {"7": "games", "8": "news", "9_3": "games"}


class Office:
    """A server with two jobs in its bulletin, of games and of news; it foresees what it is told."""

    def __init__(self, private: bool = False) -> None:
        self.bulletin: Bulletin | None = Bulletin(
            HEAD,
            JobAnswers(
                {"7": {"submit_time": 70}, "8": {"submit_time": 80}, "9_3": {"submit_time": 93}},
                OWNERS,
            ),
            private,
        )
        self.hurries = 0
        self.forecast = NOTHING_FORESEEN
        self.asked_about: list[str] = []
        self.privileges: dict[str, Privilege] = {"games": "user", "news": "operator"}
        self.privilege_asked: list[str] = []
        self.server = QueryServer(
            StandInMunge(ROOT),  # type: ignore[arg-type]
            AskerRights(self.privilege),
            lambda: self.bulletin,
            self.hurry,
            self,
        )

    def hurry(self) -> None:
        self.hurries += 1

    def edition(self) -> Edition:
        return self.forecast

    def asked(self, names: Collection[str]) -> None:
        self.asked_about += names

    def privilege(self, user: str) -> Privilege:
        self.privilege_asked.append(user)
        return self.privileges[user]

    @contextmanager
    def opened(self) -> Iterator[str]:
        with self.server.listening("127.0.0.1:0") as address:
            yield address


def ask(address: str, uid: int, *jobs: str) -> dict[str, Any]:
    munge = StandInMunge(uid)
    return QueryClient(address, munge, frozenset({ROOT})).ask(*jobs)  # type: ignore[arg-type]


def seen(address: str, uid: int, *jobs: str) -> set[str]:
    return set(ask(address, uid, *jobs)["jobs"])


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_question_about_a_job_and_about_the_daemon(office: Office) -> None:
    with office.opened() as address:
        assert ask(address, GAMES, "7") == {**HEAD, "jobs": {"7": {"submit_time": 70}}}
        assert ask(address, GAMES) == {**HEAD, "jobs": {}}
        assert ask(address, GAMES, "9")["jobs"] == {"9": {"submit_time": 93}}  # an array's id
    assert office.hurries == 0


def test_who_foresees_hears_what_is_asked_and_the_newest_forecast_is_told(office: Office) -> None:
    assert office.bulletin is not None
    rank = {"queue": "gpu", "position": 1, "of": 2}
    job = {"submit_time": 70, "state": "PENDING", "start": {"median": 1}, "rank": rank}
    office.bulletin = replace(
        office.bulletin, answers=JobAnswers({"7": job, "9_3": {"submit_time": 93}}, OWNERS)
    )
    start = {"as_of": 5, "median": 60, "low": 50, "high": 90, "coverage": 0.8, "calibrated_on": 0}
    office.forecast = Edition(3, "pending", {("7", 70): {"start": start}, ("7", 10): {}})
    with office.opened() as address:
        told = ask(address, GAMES, "7", "9", "123")["jobs"]
    assert told == {"7": {**job, "start": start}, "9": {"submit_time": 93}}
    assert office.asked_about == ["7", "9_3", "123"]
    office.forecast = Edition(4, "pending")
    with office.opened() as address:
        told = ask(address, GAMES, "7")["jobs"]
    assert told["7"] == {
        "submit_time": 70, "state": "PENDING", "rank": rank, "no_start": "pending",
    }  # fmt: skip


def test_a_job_that_no_round_has_seen_hurries_the_next_one(office: Office) -> None:
    with office.opened() as address:
        assert ask(address, GAMES, "7", "99")["jobs"] == {"7": {"submit_time": 70}}
        assert office.hurries == 1
        office.bulletin = None
        with pytest.raises(UnavailableError, match="gave no answer"):
            ask(address, GAMES, "7")
    assert office.hurries == 2


def test_where_slurm_hides_jobs_each_sees_their_own_and_operators_all() -> None:
    office = Office(private=True)
    with office.opened() as address:
        assert seen(address, GAMES, "7", "8", "9") == {"7", "9"}
        assert seen(address, NEWS, "7", "8") == {"7", "8"}
        assert seen(address, ROOT, "7", "8") == {"7", "8"}
        assert seen(address, NOBODY, "7", "8") == set()
        assert office.hurries == 0  # a hidden job is no unknown one
        assert office.privilege_asked == ["games", "news"]
        seen(address, GAMES, "7")
    assert office.privilege_asked == ["games", "news"]  # not one sacctmgr a question


def test_elsewhere_everybody_sees_all_and_nobody_is_looked_up(office: Office) -> None:
    with office.opened() as address:
        assert seen(address, NOBODY, "7", "8") == {"7", "8"}
    assert office.privilege_asked == []


def test_the_answer_is_for_the_asker_alone(office: Office) -> None:
    question = Question.about("7")
    with office.opened() as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as connection:
            line = StandInMunge(GAMES).encode(question.to_json())
            connection.sendall(line.encode() + b"\n")
            answer = read_line(connection, 10_000, 5.0)
    assert json.loads(answer)[:2] == [ROOT, GAMES]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no credential"),
        (b"\n", "no credential"),
        (b"\xff\xfe\x00\n", "no ASCII"),
        (b"[" * 5000 + b"\n", "no credential"),
        (b"x" * (MAX_QUESTION_BYTES + 1), f"more than {MAX_QUESTION_BYTES} bytes"),
        (json.dumps([GAMES, NEWS, "{}"]).encode() + b"\n", "for somebody else"),
        (json.dumps([GAMES, None, "{}"]).encode() + b"\n", "not of version 1"),
        (json.dumps([GAMES, None, "[" * 3000]).encode() + b"\n", "not JSON"),
        (json.dumps([GAMES, None, '{"version": 1, "nonce": "x", "jobs": []}']).encode() + b"\n",
         "not a question"),
        (json.dumps([GAMES, None, json.dumps(
            {"version": 1, "nonce": "0" * 32, "jobs": ["7; rm -rf /"]})]).encode() + b"\n",
         "not a list of job ids"),
        (json.dumps([GAMES, None, json.dumps(
            {"version": 1, "nonce": "0" * 32, "jobs": ["7"] * (MAX_JOBS + 1)})]).encode() + b"\n",
         "not a list of job ids"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_gets_no_answer(
    office: Office, data: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    with office.opened() as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(data)
            with suppress(ConnectionResetError):  # it hung up before it had read all
                assert connection.recv(100) == b""
        wait_for(lambda: caplog.records, "a line in the log")
        assert seen(address, GAMES, "7") == {"7"}
    assert why in caplog.text


def test_those_who_say_nothing_are_hung_up_on_and_take_no_more_than_the_places(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "QUESTION_TIMEOUT_S", 0.5)
    with office.opened() as address, ExitStack() as open_ones:
        host, port = address.split(":")
        silent = [
            open_ones.enter_context(socket.create_connection((host, int(port)), timeout=10))
            for _ in range(2 * MAX_CONNECTIONS)
        ]
        for connection in silent:
            with suppress(OSError):
                connection.sendall(b"half a que")
        closed = [is_closed(connection) for connection in silent]
        assert closed == [True] * len(silent)
        assert wait_for(lambda: answers(address), "an honest question to be answered")


def test_a_flood_of_silent_ones_shuts_nobody_out(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        bounded_server, "QUESTION_TIMEOUT_S", 3600.0
    )  # they do not go by themselves
    with office.opened() as address, ExitStack() as open_ones:
        host, port = address.split(":")
        for number in range(3 * MAX_CONNECTIONS):
            connection = open_ones.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(b"half a que")
            if number % MAX_CONNECTIONS == 0:
                assert seen(address, GAMES, "7") == {"7"}


def test_who_has_asked_keeps_the_place_until_the_answer(office: Office) -> None:
    may_go_on = threading.Event()
    decoding: list[str] = []
    decode = StandInMunge(ROOT).decode

    class SlowMunge(StandInMunge):
        def decode(self, credential: str, timeout_s: float | None = None) -> Decoded:
            decoding.append(credential)
            may_go_on.wait(60)
            return decode(credential)

    office.server._munge = SlowMunge(ROOT)  # type: ignore[assignment]
    question = Question.about("7")
    line = StandInMunge(GAMES).encode(question.to_json()).encode() + b"\n"
    with office.opened() as address, ExitStack() as open_ones:
        host, port = address.split(":")
        asked = [
            open_ones.enter_context(socket.create_connection((host, int(port)), timeout=60))
            for _ in range(MAX_CONNECTIONS)
        ]
        for connection in asked:
            connection.sendall(line)
        wait_for(lambda: len(decoding) == MAX_CONNECTIONS, "all to have asked")
        with socket.create_connection((host, int(port)), timeout=60) as late:
            assert late.recv(1) == b""
        may_go_on.set()
        answers = [read_line(connection, 10_000, 60.0) for connection in asked]
    assert all(question.nonce in answer for answer in answers)


def test_who_asks_too_often_is_told_to_wait_and_nobody_else(office: Office) -> None:
    office.server._rates = AskerRates(lambda: 0.0)  # no time goes by
    with office.opened() as address:
        for _ in range(BURST):
            ask(address, GAMES, "7")
        with pytest.raises(TryAgainError, match="busy: this user asks too often"):
            ask(address, GAMES, "7")
        assert seen(address, NEWS, "7") == {"7"}


def test_a_users_questions_come_back_with_time() -> None:
    clock = [0.0]
    rates = AskerRates(lambda: clock[0])
    assert [rates.allows(1) for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    clock[0] += 2.5 / PER_S
    assert [rates.allows(1) for _ in range(4)] == [True, True, False, False]
    assert rates.allows(2)


def test_ones_own_jobs_need_no_ids() -> None:
    office = Office(private=True)
    with office.opened() as address:
        munge = StandInMunge(GAMES)
        client = QueryClient(address, munge, frozenset({ROOT}))  # type: ignore[arg-type]
        assert set(client.ask(own=True)["jobs"]) == {"7", "9_3"}
        assert set(client.ask("8", own=True)["jobs"]) == {"7", "9_3"}
    assert office.hurries == 0


def test_of_many_own_jobs_the_waiting_ones_come_first() -> None:
    jobs: dict[str, Any] = {
        str(n): {"submit_time": n, "state": "PENDING" if n % 2 else "RUNNING"}
        for n in range(2 * MAX_OWN_JOBS)
    }
    office = Office()
    office.bulletin = Bulletin(HEAD, JobAnswers(jobs, dict.fromkeys(jobs, "games")), True)
    with office.opened() as address:
        munge = StandInMunge(GAMES)
        client = QueryClient(address, munge, frozenset({ROOT}))  # type: ignore[arg-type]
        told = client.ask(own=True)["jobs"]
    assert len(told) == MAX_OWN_JOBS
    assert {job["state"] for job in told.values()} == {"PENDING"}


class OnceThrough(dict[str, Any]):
    """Jobs that may be gone through while a bulletin is made, and not for a question."""

    is_closed = False

    def __iter__(self) -> Iterator[str]:
        assert not self.is_closed, "all jobs were gone through"
        return super().__iter__()

    def items(self) -> Any:
        assert not self.is_closed, "all jobs were gone through"
        return super().items()


def test_a_question_does_not_go_through_all_jobs() -> None:
    jobs = OnceThrough({"7": {"submit_time": 70}, "9_3": {"submit_time": 93}})
    office = Office(private=True)
    office.bulletin = Bulletin(HEAD, JobAnswers(jobs, {"7": "games", "9_3": "games"}), True)
    jobs.is_closed = True
    with office.opened() as address:
        unknown = [str(n) for n in range(100, 100 + MAX_JOBS - 2)]
        assert seen(address, GAMES, "7", "9", *unknown) == {"7", "9"}


def test_what_was_not_answered_is_counted_and_told_once_a_minute(
    office: Office, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def told() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return found

    office.server.refusals.count("first")
    assert told() == ["1 question not answered: first"]
    office.server.refusals.count("second")
    office.server.refusals.count("third")
    office.server.refusals.report()
    assert told() == []
    clock[0] += 61
    office.server.refusals.report()
    assert told() == ["2 questions not answered, the last one: third"]
    office.server.refusals.report()
    assert told() == []


def test_what_was_counted_is_told_without_another_refusal(
    office: Office, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    office.server.refusals.count("first")
    office.server.refusals.count("second")
    monkeypatch.setattr(bounded_server, "_LOG_INTERVAL_S", 0.0)
    with office.opened():
        wait_for(lambda: "1 question not answered: second" in caplog.text, "the log to tell")


# -- a socket that cannot be opened --------------------------------------------------------------


def test_a_port_in_use_is_tried_again_and_said_once(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    with ExitStack() as other:
        address = other.enter_context(Office().opened())
        kept = KeptListener("query socket", lambda: office.server.listening(address))
        with kept.kept():
            kept.keep()
            assert kept.address == ""
            assert kept.problem == f"cannot listen at {address}: Address already in use"
            (said,) = [record.getMessage() for record in caplog.records]
            assert kept.problem in said
            assert "ss -ltnp" in said
            other.close()
            kept.keep()
            assert (kept.address, kept.problem) == (address, "")
            assert seen(address, GAMES, "7") == {"7"}
    with pytest.raises(UnavailableError):
        ask(address, GAMES, "7")


def test_bytes_that_drip_do_not_prolong_it(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_server, "QUESTION_TIMEOUT_S", 0.3)
    with office.opened() as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            wait_for(lambda: drips_in_vain(connection), "the slow one to be hung up on")
        assert answers(address)


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def drips_in_vain(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
        connection.settimeout(0.01)
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def answers(address: str) -> bool:
    try:
        return seen(address, GAMES, "7") == {"7"}
    except UnavailableError:
        return False


# -- the asker's side ----------------------------------------------------------------------------


def test_an_answer_of_just_anybody_is_not_believed(office: Office) -> None:
    office.server._munge = StandInMunge(NEWS)  # type: ignore[assignment]
    with office.opened() as address:
        with pytest.raises(PermissionDeniedError, match="is not gsched's daemon: user 9 answered"):
            ask(address, GAMES, "7")
        config = SlurmConfig({"SlurmUser": "backup(34)"})
        me = pwd.getpwuid(NEWS).pw_name
        settings = DaemonSettings(query_address=address, query_user=me)
        client = QueryClient.for_site(settings, config)
        assert client is not None
        client._munge = StandInMunge(GAMES)  # type: ignore[assignment]
        assert set(client.ask("7")["jobs"]) == {"7"}


def test_whom_a_site_believes() -> None:
    config = SlurmConfig({"SlurmUser": "backup(34)"})
    client = QueryClient.for_site(DaemonSettings(query_address="h:1"), config)
    assert client is not None
    assert client._trusted == {0, 34}
    assert QueryClient.for_site(DaemonSettings(), config) is None
    unknown = DaemonSettings(query_address="h:1", query_user="no-such-user")
    with pytest.raises(ConfigError, match=r"daemon\.query_user is no-such-user"):
        QueryClient.for_site(unknown, config)


def test_an_answer_to_another_question_is_none() -> None:
    ours, other = Question.about("7"), Question.about("7")
    assert json.loads(read_answer(answer_payload(ours, {"a": 1}), ours)) == {"a": 1}
    with pytest.raises(DataError, match="not to this question"):
        read_answer(answer_payload(other, {"a": 1}), ours)
    for text in ("", "[]", "7", '{"version": 2}', "[" * 100_000):
        with pytest.raises(DataError):
            read_answer(text, ours)


def test_questions_come_back() -> None:
    question = Question.about("7", "7_3", "7+1")
    assert read_question(question.to_json()) == question
    assert Question.about("7").nonce != Question.about("7").nonce


def test_nobody_can_listen_where_somebody_does(office: Office) -> None:
    with (
        office.opened() as address,
        pytest.raises(
            UnavailableError, match=f"cannot listen at {address}: Address already in use"
        ) as caught,
        Office().server.listening(address),
    ):
        pass
    assert "ss -ltnp" in caught.value.hint
    with (
        pytest.raises(UnavailableError, match=r"cannot listen at no\.such\.host\.invalid:80"),
        office.server.listening("no.such.host.invalid:80"),
    ):
        pass


def test_when_it_ends_nobody_listens(office: Office) -> None:
    with office.opened() as address:
        pass
    with pytest.raises(NobodyListensError, match=f"no daemon answers at {address}"):
        ask(address, GAMES, "7")
