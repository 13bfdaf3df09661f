"""The kind redfish, by curl, against an HTTPS server that speaks as a BMC does."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from gsched.config.power import parse_backends
from gsched.errors import UnavailableError
from gsched.power.limits import Limits
from gsched.power.reach import switch

LIMITS = Limits(5, 5, 10, 10)


class Bmc(BaseHTTPRequestHandler):
    asked: ClassVar[list[tuple[str, str, dict[str, str]]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind, _, word = self.headers.get("Authorization", " ").partition(" ")
        login = base64.b64decode(word).decode() if kind == "Basic" else ""
        self.asked.append((self.path, login, body))
        self.send_response(204 if login == "root:s3cr3t" else 401)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[dict[str, object]]:
    """A table for it."""
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj"]
    words += ["/CN=localhost", "-addext"]
    names = ["subjectAltName=DNS:localhost", "-keyout", str(tmp_path / "key")]
    made = ["openssl", *words, *names, "-out", str(tmp_path / "cert")]
    subprocess.run(made, check=True, capture_output=True)
    netrc = tmp_path / "netrc"
    netrc.write_text("default login root password s3cr3t\n")
    netrc.chmod(0o600)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    Bmc.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Bmc) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield {
            "nodes": ["gn*"], "kind": "redfish", "host": f"localhost:{server.server_port}",
            "password_file": str(netrc), "ca_file": str(tmp_path / "cert"), "system": "Node.1",
        }  # fmt: skip
        server.shutdown()


def test_each_verb_is_a_reset_with_the_login_of_the_file(bmc: dict[str, object]) -> None:
    backend = parse_backends([bmc]).tables[0]
    for verb in backend.verbs:
        switch(backend, verb, "gn01", LIMITS)
    path = "/redfish/v1/Systems/Node.1/Actions/ComputerSystem.Reset"
    resets = [body["ResetType"] for _, _, body in Bmc.asked]
    assert resets == ["GracefulShutdown", "On", "ForceRestart"]
    assert {(where, login) for where, login, _ in Bmc.asked} == {(path, "root:s3cr3t")}
    assert not any("s3cr3t" in word for verb in backend.verbs for word in backend.argv(verb, "x"))


def test_a_wrong_login_is_a_failure(bmc: dict[str, object]) -> None:
    Path(str(bmc["password_file"])).write_text("default login root password other\n")
    with pytest.raises(UnavailableError, match="401") as caught:
        switch(parse_backends([bmc]).tables[0], "resume", "gn01", LIMITS)
    assert "other" not in caught.value.message


def test_a_certificate_that_is_not_trusted_gets_no_login(bmc: dict[str, object]) -> None:
    del bmc["ca_file"]
    with pytest.raises(UnavailableError, match="curl: exit status 60"):
        switch(parse_backends([bmc]).tables[0], "resume", "gn01", LIMITS)
    assert Bmc.asked == []
