"""Passwords do not come back in what a command says, nor stand for a node's fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gsched.config.power import parse_backends
from gsched.errors import UnavailableError
from gsched.model.power import PowerBackend
from gsched.power.limits import Limits
from gsched.power.own_files import OwnFileError
from gsched.power.passwords import read_password
from gsched.power.reach import switch

LIMITS = Limits(5, 5, 10, 10)
ONE_LINE = "default login admin password hunter2word\n"
LINES = """machine gn01-bmc
  login admin
  password hunter2word
machine other-bmc login u password another9
"""
QUOTED = 'machine gn01-bmc login admin password "hunter2word"\n'


def table(folder: Path, kind: str, text: str, script: str = "exit 0") -> PowerBackend:
    """A back-end whose program is `script`, with a password file that holds `text`."""
    secret, program = folder / "secret", folder / "program"
    secret.write_text(text)
    secret.chmod(0o600)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    values: dict[str, object] = {"nodes": ["gn*"], "kind": kind, "host": "%n-bmc", "user": "admin"}
    command = [str(program), "%p"]
    values |= {"password_file": str(secret), "suspend": command, "verbs": ["suspend"]}
    return parse_backends([values]).tables[0]


TELLS = r"""
tr ' ' '_' <$1
echo "curl -u admin:hunter2word"
echo "Authorization: Basic $(printf admin:hunter2word | base64)"
printf 'admin:hunter2word\n' | base64
echo "gn01-bmc refuses it"
exit 7
"""


@pytest.mark.parametrize(
    ("kind", "text"),
    [("redfish", 'default password ""\nx password hunter2word login admin\n'),
     ("redfish", ONE_LINE), ("redfish", LINES), ("redfish", QUOTED), ("ipmi", "hunter2word\n"),
     ("command", "first line\nhunter2word\n")],
)  # fmt: skip
def test_no_word_of_the_file_is_told(tmp_path: Path, kind: str, text: str) -> None:
    with pytest.raises(UnavailableError, match=r"exit status 7: .*gn01-bmc refuses it") as caught:
        switch(table(tmp_path, kind, text, TELLS), "suspend", "gn01", LIMITS)
    told = caught.value.message
    assert "hunter2" not in told
    assert "YWRtaW46aHVudGVyMn" not in told  # the beginning of the login in base64
    assert "cmQ" not in told  # and its end
    assert "another9" not in told


def test_the_shortest_password_is_struck_alone(tmp_path: Path) -> None:
    backend = replace(table(tmp_path, "ipmi", "7\n", "echo gn01 is 7, as Ojc=; exit 7"), user="")
    with pytest.raises(UnavailableError, match=r"exit status 7: gn01 is \*\*\*, as \*\*\*$"):
        switch(backend, "suspend", "gn01", LIMITS)


def test_a_command_gets_the_first_line(tmp_path: Path) -> None:
    assert read_password(table(tmp_path, "command", "one two\nthree\n")).text == "one two"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda f: (f / "secret").unlink(), "cannot read"),
        (lambda f: (f / "secret").chmod(0o644), "everybody may read it"),
        (lambda f: (f / "secret").write_text("\n"), "is empty"),
        (lambda f: (f / "program").unlink(), "cannot be started"),
    ],
)
def test_what_is_wrong_with_our_own_files_is_no_fault_of_the_node(
    tmp_path: Path, spoil, says: str
) -> None:
    backend = table(tmp_path, "ipmi", "hunter2word\n")
    switch(backend, "suspend", "gn01", LIMITS)
    spoil(tmp_path)
    with pytest.raises(OwnFileError, match=says):
        switch(backend, "suspend", "gn01", LIMITS)
