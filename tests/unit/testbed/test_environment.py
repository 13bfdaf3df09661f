"""What commands in a testbed see, and what is said when something is not installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.errors import PermissionDeniedError, UnavailableError, UsageError
from gsched.testbed import environment, loopback
from gsched.testbed.daemons import last_words
from gsched.testbed.layout import Layout

LAYOUT = Layout(Path("/var/tmp/bed"))


def test_foreign_variables_of_slurm_and_gsched_are_taken_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    foreign = (
        "SLURM_CONF",
        "SLURM_JOB_ID",
        "SLURMD_NODENAME",
        "SBATCH_ACCOUNT",
        "SQUEUE_FORMAT",
        "SACCT_FORMAT",
        "SINFO_FORMAT",
        "SALLOC_ACCOUNT",
        "SRUN_DEBUG",
        "PMI_RANK",
        "GSCHED_DATABASE_URL",
        "GSCHED_CONFIG",
    )
    for name in foreign:
        monkeypatch.setenv(name, "foreign")
    monkeypatch.setenv("GSCHED_DEBUG", "1")
    monkeypatch.setenv("SLURMISH", "mine")
    found = environment.command_environment(LAYOUT)
    assert "foreign" not in found.values()
    assert found["SLURM_CONF"] == "/var/tmp/bed/etc/slurm.conf"
    assert found["GSCHED_CONFIG"] == "/var/tmp/bed/etc/gsched.toml"
    assert (found["GSCHED_DEBUG"], found["SLURMISH"]) == ("1", "mine")


def test_a_user_gets_a_home_of_the_testbed() -> None:
    found = environment.command_environment(LAYOUT, "games")
    assert [found[name] for name in ("HOME", "USER", "LOGNAME")] == [
        "/var/tmp/bed/home/games",
        "games",
        "games",
    ]
    assert environment.command_environment(LAYOUT).get("HOME") == os.environ.get("HOME")


def test_the_system_folders_are_searched_after_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/mine:/usr/bin::/mine")
    parts = environment.search_path().split(":")
    assert parts[:2] == ["/mine", "/usr/bin"]
    assert "/usr/sbin" in parts
    assert len(parts) == len(set(parts))


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    present = {"slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "scancel", "sbatch"}
    present |= {"setpriv", "setsid", "sacctmgr", "sacct", "mariadb"}

    def which(name: str, path: str) -> str | None:
        return f"{path}/{name}" if name in present else None

    monkeypatch.setattr(environment.shutil, "which", which)
    monkeypatch.setattr(loopback, "is_local_name", lambda: False)
    monkeypatch.setattr(loopback, "find_library", lambda: None)
    with pytest.raises(UnavailableError) as failure:
        environment.check_programs("filetxt")
    assert failure.value.message == "not installed: munged, libnss_wrapper.so"
    assert failure.value.hint == "apt-get install munge libnss-wrapper"
    with pytest.raises(UnavailableError) as failure:
        environment.check_programs("slurmdbd")
    assert failure.value.hint == (
        "apt-get install munge slurmdbd mariadb-server-core libnss-wrapper"
    )


def test_a_machine_that_calls_itself_local_needs_no_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loopback, "is_local_name", lambda: True)
    monkeypatch.setattr(loopback, "find_library", lambda: None)
    assert loopback.variables() == {}
    assert set(environment.exports(LAYOUT)) == {"SLURM_CONF", "GSCHED_CONFIG"}


def test_another_machine_needs_it_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback, "is_local_name", lambda: False)
    monkeypatch.setattr(loopback, "find_library", lambda: Path("/lib/libnss_wrapper.so"))
    expected = {"LD_PRELOAD": "/lib/libnss_wrapper.so", "NSS_WRAPPER_HOSTNAME": "localhost"}
    assert loopback.variables() == expected
    assert expected.items() <= environment.exports(LAYOUT).items()
    monkeypatch.setattr(loopback, "find_library", lambda: None)
    with pytest.raises(UnavailableError) as failure:
        loopback.variables()
    assert failure.value.hint == "apt-get install libnss-wrapper"


def test_a_command_changes_user_only_where_it_must_and_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert environment.as_user(("id",), environment.own_user()) == ("id",)
    with pytest.raises(UsageError, match="no user 'nobody-at-all'"):
        environment.as_user(("id",), "nobody-at-all")
    monkeypatch.setattr(environment.os, "getuid", lambda: 0)
    assert environment.as_user(("id",), "games") == (
        "setpriv",
        "--reuid=games",
        "--regid=60",
        "--clear-groups",
        "id",
    )
    monkeypatch.setattr(environment.os, "getuid", lambda: 12_345)
    with pytest.raises(PermissionDeniedError, match="only root"):
        environment.as_user(("id",), "games")


def test_accounts_hold_the_test_users_and_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.os, "getuid", lambda: 0)
    assert environment.account_members() == {
        "lab1": ("root", "games", "news"),
        "lab2": ("backup", "mail"),
    }
    monkeypatch.setattr(environment.os, "getuid", lambda: 9)  # news
    assert environment.account_members() == {"lab1": ("news",), "lab2": ()}


def test_the_last_words_of_a_daemon_are_its_last_fatal_line(tmp_path: Path) -> None:
    log = tmp_path / "slurmctld.log"
    assert last_words(log) == "it left no message"
    log.with_suffix(".out").write_text("hello\n")
    assert last_words(log) == "hello"
    log.write_text("error: one\nfatal: two\nerror: three\nfine\n")
    assert last_words(log) == "fatal: two"
    log.write_text("error: one\nerror: three\nfine\n")
    assert last_words(log) == "error: three"
