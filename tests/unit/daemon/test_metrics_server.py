"""`GET /metrics` over real connections: for Prometheus, and for clients who mean no good."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from gsched.config.address import parse_address
from gsched.daemon.bounded_server import MAX_CONNECTIONS, HasAsked, Refusals
from gsched.daemon.metrics_server import MAX_REQUEST_BYTES, MetricsServer
from gsched.daemon.network_listener import NetworkListener
from gsched.errors import ConfigError, UnavailableError
from gsched.testbed.wait import wait_for


class Site:
    """A server with one counter, and how it is asked."""

    def __init__(self, server: MetricsServer, address: str) -> None:
        self.server = server
        self.at = parse_address(address)

    def get(self, path: str = "/metrics", method: str = "GET") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(*self.at, timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        try:
            return answer.status, answer.read()
        finally:
            connection.close()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.at, timeout=10)

    def told(self, raw: bytes) -> bytes:
        with self.connect() as connection:
            with suppress(OSError):  # it may have been cut off before all was sent
                connection.sendall(raw)
                connection.shutdown(socket.SHUT_WR)
            return answer_of(connection)


def answer_of(connection: socket.socket) -> bytes:
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:  # what was sent in vain is thrown away
        pass
    return b"".join(parts)


@pytest.fixture
def site() -> Iterator[Site]:
    registry = CollectorRegistry()
    Counter("gsched_rounds", "Rounds.", ["mode"], registry=registry).labels("act").inc(3)
    server = MetricsServer(registry)
    with server.listening("127.0.0.1:0") as address:
        yield Site(server, address)


def test_prometheus_reads_the_metrics(site: Site) -> None:
    status, body = site.get()
    assert status == 200
    samples = [s for f in text_string_to_metric_families(body.decode()) for s in f.samples]
    assert [(s.labels, s.value) for s in samples if s.name == "gsched_rounds_total"] == [
        ({"mode": "act"}, 3.0)
    ]
    assert site.server.refusals.total == 0


@pytest.mark.parametrize("path", ["/", "/favicon.ico", "/metrics/../etc/passwd", "/metricsx"])
def test_nothing_else_is_there(site: Site, path: str) -> None:
    assert site.get(path)[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_changed(site: Site, method: str) -> None:
    assert site.get(method=method)[0] == 501


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00\xff\x16\x03\x01\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n",
    ],
    ids=["binary", "no path", "version", "headers"],
)
def test_what_is_no_request_is_refused_in_the_words_of_http(site: Site, raw: bytes) -> None:
    assert b"gsched_rounds" not in site.told(raw)
    assert site.get()[0] == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"GET http://[::1/metrics HTTP/1.0\r\n\r\n",
        b"GET /metrics HTTP/1.0\r\nAccept: text/plain;version=x.y\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"POST /metrics HTTP/1.0\r\n\r\n",
    ],
    ids=["url", "accept", "version", "method"],
)
def test_what_is_malformed_is_counted_and_fills_no_log(
    site: Site, raw: bytes, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        assert b"gsched_rounds" not in site.told(raw)
    wait_for(lambda: site.server.refusals.total == 5, "the refusals to be counted")
    assert len(caplog.records) == 1
    assert "1 metrics request not answered" in caplog.text
    assert capfd.readouterr().err == ""


def test_a_fault_in_serving_is_counted_and_gives_the_place_back(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    class Faulty:
        refusals = Refusals("question")

        def serve(self, connection: socket.socket, has_asked: HasAsked) -> None:
            raise KeyError("hostile\ntext")

    faulty = Faulty()
    with NetworkListener(faulty, "127.0.0.1:0", "here") as listener, listener.serving():
        at = parse_address(listener.address_text)
        for _ in range(2 * MAX_CONNECTIONS):
            with socket.create_connection(at, timeout=10) as connection:
                assert answer_of(connection) == b""
        wait_for(lambda: faulty.refusals.total == 2 * MAX_CONNECTIONS, "the refusals")
    assert "1 question not answered: KeyError (test_metrics_server.py:" in caplog.text
    assert "hostile" not in caplog.text + capfd.readouterr().err
    assert "Traceback" not in caplog.text


def test_a_request_without_end_is_cut_off(site: Site) -> None:
    told = site.told(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * (4 * MAX_REQUEST_BYTES))
    assert b"gsched_rounds" not in told
    wait_for(lambda: site.server.refusals.total == 1, "the refusal to be counted")
    assert site.get()[0] == 200


def test_one_who_drips_does_not_hold_a_thread(site: Site) -> None:
    with site.connect() as connection:
        threading.Thread(target=drip, args=(connection,), daemon=True).start()
        assert b"gsched_rounds" not in answer_of(connection)
    wait_for(lambda: site.server.refusals.total == 1, "the refusal to be counted")


def drip(connection: socket.socket) -> None:
    """A byte now and then, for as long as somebody listens."""
    silence = threading.Event()
    try:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        while not silence.wait(0.05):
            connection.sendall(b"a")
    except OSError:
        return


def test_a_flood_of_silent_ones_shuts_nobody_out_and_takes_few_threads(site: Site) -> None:
    before = threading.active_count()
    with ExitStack() as opened:
        for _ in range(6 * MAX_CONNECTIONS):
            opened.enter_context(site.connect())
        assert site.get()[0] == 200
        assert threading.active_count() - before <= 2 * MAX_CONNECTIONS  # some are ending


def test_one_who_does_not_take_the_answer_hurts_nobody(site: Site) -> None:
    with ExitStack() as opened:
        for _ in range(MAX_CONNECTIONS // 2):
            opened.enter_context(site.connect()).sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert site.get()[0] == 200


def test_a_port_in_use_and_an_address_that_is_none(site: Site) -> None:
    with (
        pytest.raises(UnavailableError) as caught,
        site.server.listening(f"127.0.0.1:{site.at[1]}"),
    ):
        pass
    assert "daemon.metrics_listen" in caught.value.hint
    with pytest.raises(ConfigError), site.server.listening("nowhere"):
        pass
