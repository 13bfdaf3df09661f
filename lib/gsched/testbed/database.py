"""Accounting of a testbed: MariaDB, slurmdbd, and the accounts in it."""

from __future__ import annotations

import os
import pwd
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed import conf, processes
from gsched.testbed.layout import Layout
from gsched.testbed.ports import LOOPBACK, Ports
from gsched.testbed.spec import TestbedSpec
from gsched.testbed.wait import wait_for

START_TIMEOUT_S = 60.0


def start_mariadb(layout: Layout, ports: Ports, environment: Mapping[str, str]) -> str:
    """Start MariaDB on `layout`'s own data, made when missing; slurmdbd's password for it.

    Its administrator comes in by the Unix socket and as the testbed's own user only: nobody else
    on the machine gets at it. The password is new at each start.
    """
    me = pwd.getpwuid(os.getuid()).pw_name
    layout.mysql.mkdir(mode=0o700, exist_ok=True)
    if not (layout.mysql / "mysql").is_dir():
        _install(layout, me, environment)
    processes.finish_start(
        processes.start_daemon(
            _mariadbd(layout, ports, me), environment, layout.log / "mariadb.log"
        )
    )
    wait_for(
        lambda: _sql(layout, environment, "SELECT 1").returncode == 0 or _has_died(layout),
        f"MariaDB to answer, see {layout.log}/mariadb.log",
        START_TIMEOUT_S,
    )
    password = secrets.token_hex(16)
    account = f"'{conf.ACCOUNTING_USER}'@'{LOOPBACK}'"
    answer = _sql(
        layout,
        environment,
        f"CREATE DATABASE IF NOT EXISTS {conf.ACCOUNTING_DATABASE};"
        f"CREATE OR REPLACE USER {account} IDENTIFIED BY '{password}';"
        f"GRANT ALL ON {conf.ACCOUNTING_DATABASE}.* TO {account};",
    )
    if answer.returncode:
        raise UnavailableError(f"MariaDB refused slurmdbd's database: {answer.stderr.strip()}")
    return password


def add_accounts(
    spec: TestbedSpec,
    members: Mapping[str, Sequence[str]],
    administrator: str,
    environment: Mapping[str, str],
) -> None:
    """Make the cluster, the accounts with their users, and the administrator known to slurmdbd.

    `members` maps account → users. What is there already, from an earlier start, is left alone.
    """
    known = set(_sacctmgr(environment, "show", "cluster", "format=cluster").split())
    if spec.cluster not in known:
        _sacctmgr(environment, "add", "cluster", spec.cluster)
    rows = _sacctmgr(
        environment, "show", "assoc", f"cluster={spec.cluster}", "format=account,user"
    ).splitlines()
    for account, users in members.items():
        if f"{account}|" not in rows:
            _sacctmgr(environment, "add", "account", account, f"cluster={spec.cluster}")
        missing = [user for user in users if f"{account}|{user}" not in rows]
        if missing:
            names = ",".join(missing)
            _sacctmgr(environment, "add", "user", names, f"account={account}")
    _sacctmgr(environment, "modify", "user", administrator, "set", "adminlevel=Admin")


def slurmdbd_answers(environment: Mapping[str, str]) -> bool:
    """Whether sacctmgr gets an answer."""
    return _call_sacctmgr(environment, "show", "cluster").returncode == 0


def _install(layout: Layout, me: str, environment: Mapping[str, str]) -> None:
    argv = (
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={layout.mysql}",
        f"--user={me}",
        "--auth-root-authentication-method=socket",
        f"--auth-root-socket-user={me}",
        "--skip-test-db",
    )
    log = layout.log / "mariadb-install.log"
    status = processes.finish_start(processes.start_daemon(argv, environment, log), START_TIMEOUT_S)
    if status:
        raise UnavailableError(f"mariadb-install-db failed with status {status}", f"see {log}")


def _mariadbd(layout: Layout, ports: Ports, me: str) -> tuple[str, ...]:
    return (
        # the server stays in the foreground: setsid takes it off our hands
        "setsid",
        "--fork",
        "mariadbd",
        "--no-defaults",
        f"--user={me}",
        f"--datadir={layout.mysql}",
        f"--socket={_socket(layout)}",
        f"--pid-file={layout.run}/mariadbd.pid",
        f"--bind-address={LOOPBACK}",
        f"--port={ports.mariadb}",
        # slurmdbd complains below these; nothing here needs to survive a power cut
        "--innodb-buffer-pool-size=256M",
        "--innodb-log-file-size=64M",
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=0",
        "--skip-log-bin",
    )


def _socket(layout: Layout) -> Path:
    return layout.mysql / "mysql.sock"


def _has_died(layout: Layout) -> bool:
    # setsid is what becomes mariadbd a moment later
    if any(p.program in ("setsid", "mariadbd") for p in processes.find(layout.root)):
        return False
    raise UnavailableError("MariaDB ended while starting", f"see {layout.log}/mariadb.log")


def _sql(
    layout: Layout, environment: Mapping[str, str], text: str
) -> subprocess.CompletedProcess[str]:
    me = pwd.getpwuid(os.getuid()).pw_name
    return subprocess.run(
        ("mariadb", "--no-defaults", f"--socket={_socket(layout)}", f"--user={me}"),
        input=text,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
    )


def _sacctmgr(environment: Mapping[str, str], *words: str) -> str:
    answer = _call_sacctmgr(environment, *words)
    if answer.returncode:
        raise UnavailableError(
            f"sacctmgr {' '.join(words)} failed: {(answer.stderr or answer.stdout).strip()}"
        )
    return answer.stdout


def _call_sacctmgr(environment: Mapping[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("sacctmgr", "--immediate", "--noheader", "--parsable2", *words),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
    )
