"""munge(1) and unmunge(1): which munged, what is made of their answers, and of their absence."""

from __future__ import annotations

import pytest

from gsched.errors import PermissionDeniedError, UnavailableError
from gsched.slurm.munge import Decoded, Munge, munge_of, slurm_user_uid
from gsched.slurm.records import SlurmConfig


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Puts a stand-in for a program alone on PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def put(name, script):
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return put


def test_which_munged():
    def socket(auth_info, **environ):
        return munge_of(SlurmConfig({"AuthInfo": auth_info}), environ)._socket

    assert socket("socket=/run/s,cred_expire=10") == ("--socket", "/run/s")
    assert socket("socket=/run/s", MUNGE_SOCKET="/other") == ("--socket", "/run/s")
    assert socket("(null)", MUNGE_SOCKET="/other") == ("--socket", "/other")
    assert socket("(null)") == ()


def test_slurm_users_number():
    assert slurm_user_uid(SlurmConfig({"SlurmUser": "slurm(64030)"})) == 64030
    assert slurm_user_uid(SlurmConfig({"SlurmUser": "root(0)"})) == 0
    assert slurm_user_uid(SlurmConfig({})) is None


def test_without_the_programs(programs):
    for call in (lambda: Munge().encode("x"), lambda: Munge().decode("x")):
        with pytest.raises(UnavailableError, match=r"^no munge here: (un)?munge not found on PATH"):
            call()


def test_without_munged(programs):
    programs("munge", 'echo "munge: Error: Failed to access \\"/s\\"" >&2; exit 6')
    with pytest.raises(UnavailableError, match="Failed to access") as caught:
        Munge("/s").encode("x")
    assert caught.value.hint == "is munged running on this host?"


def test_the_payload_is_not_on_the_command_line(programs, tmp_path):
    script = 'echo "$@" > {0}/argv; while read line; do echo "$line" >> {0}/in; done; echo MUNGE:x:'
    programs("munge", script.format(tmp_path))
    assert Munge("/s").encode("secret\n", only_for_uid=34) == "MUNGE:x:"
    argv = (tmp_path / "argv").read_text().split()
    assert argv == ["--socket", "/s", "--ttl", "60", "--restrict-uid", "34"]
    assert (tmp_path / "in").read_text() == "secret\n"


def test_what_a_good_credential_says(programs):
    programs("unmunge", r"printf 'STATUS:          0\nUID:             34\n\nUID: 0\n\n{}'")
    assert Munge().decode("c") == Decoded(34, "UID: 0\n\n{}")


@pytest.mark.parametrize("status", [8, 15, 16, 17, 18])
def test_a_bad_credential_says_nothing_whatever_is_printed(programs, status):
    """unmunge prints the payload of a replayed credential all the same."""
    said = "printf 'STATUS: 0\\nUID: 0\\n\\n{}'; echo 'unmunge: Error: Replayed credential' >&2"
    programs("unmunge", f"{said}; exit {status}")
    with pytest.raises(PermissionDeniedError, match="munge refuses it: Replayed credential"):
        Munge().decode("c")


def test_an_answer_that_is_not_understood(programs):
    programs("unmunge", "echo STATUS: 17; echo UID: 0; echo; echo x")
    with pytest.raises(UnavailableError, match="not understood"):
        Munge().decode("c")
