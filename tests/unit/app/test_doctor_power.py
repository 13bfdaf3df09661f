"""What doctor says of power saving: planted, found, and gone when it is mended."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.paper_site import PaperSite

from gsched.app.doctor import Walk, power_files
from gsched.app.doctor.power import wake_times
from gsched.config.loader import load
from gsched.config.node_settings import PowerSettings
from gsched.power import records
from gsched.power.state import Order, State, Store
from gsched.slurm.parse_config import parse_node_starts

Change = Callable[[PaperSite], None]
ALL = 'suspend = ["/bin/true"], resume = ["/bin/true"], restart = ["/bin/true"]'
TABLE = 'nodes = ["gn*"], kind = "command", ' + ALL


def tables(*texts: str) -> Change:
    return lambda site: site.configure(
        "power", backends=f"[{', '.join(f'{{{t}}}' for t in texts)}]"
    )


def conf(**values: str) -> Change:
    def change(site: PaperSite) -> None:
        for key, value in values.items():
            site.set(key, value)

    return change


def power(**values: str) -> Change:
    return lambda site: site.configure("power", **values)


def helper(*verbs: str) -> Change:
    words = ", ".join(f'"{verb}"' for verb in verbs)
    return lambda site: site.configure(
        "helper", verbs=f"[{words}]", nodes='["gn01"]', user='"root"'
    )


def file(name: str, mode: int) -> Change:
    def change(site: PaperSite) -> None:
        path = site.folder / name
        path.write_text("x")
        path.chmod(mode)

    return change


def ssh(site: PaperSite) -> None:
    for name in ("key", "hosts"):
        file(name, 0o600)(site)
    where = f'key_file = "{site.folder}/key", known_hosts = "{site.folder}/hosts"'
    tables(f'nodes = ["gn*"], kind = "ssh", user = "root", {where}', TABLE)(site)


def state(do: Callable[[State], State]) -> Change:
    return lambda site: (Store(site.state / "power").change(do), None)[1]


def failures(*names: str) -> Change:
    bad = dict.fromkeys(names, "no")
    return state(lambda s: records.not_awake(s, bad, PowerSettings(), 1e9))


def slurm_is_games(site: PaperSite) -> None:
    """Who may not look into a test's folder, as its owner may."""
    site.folder.chmod(0o700)
    conf(SlurmUser="games(5)")(site)


def script(interpreter: str) -> Change:
    def change(site: PaperSite) -> None:
        (site.folder / "program").write_text(f"#!{interpreter} -u\n")

    return change


def drained(reason: str) -> Change:
    def change(site: PaperSite) -> None:
        lines = site.path("nodes").read_text().splitlines()
        lines[1] = (
            f"{lines[1].partition(' Reason=')[0]} Reason={reason} [slurm@2026-11-01T00:00:00]"
        )
        assert "NodeName=gn02 " in lines[1]
        assert "State=IDLE+DRAIN " in lines[1]
        site.write("nodes", "\n".join([*lines, ""]))

    return change


def slept(site: PaperSite) -> None:
    """gn01 was resumed 25 s before its slurmd's start, gn02 one day before."""
    starts = parse_node_starts(site.path("nodes").read_text())
    orders = {
        "gn01": Order("resume", 1, starts["gn01"] - 25.0, 1, "done"),
        "gn02": Order("resume", 1, starts["gn02"] - 86400.0, 1, "done"),
    }
    state(lambda s: replace(s, orders=orders))(site)


@pytest.fixture
def site(tmp_path: Path) -> PaperSite:
    made = PaperSite(tmp_path)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for key in ("SuspendProgram", "ResumeProgram", "ResumeFailProgram"):
        made.set(key, str(program))
    conf(SuspendTimeout="60 sec", ResumeTimeout="600 sec")(made)
    tables(TABLE)(made)
    (made.state / "power").mkdir(mode=0o755)
    return made


def test_a_sound_site_has_no_finding(site: PaperSite) -> None:
    assert site.complaints() == {}
    assert "power-back-ends" in {finding.code for finding in site.examine()}


@pytest.mark.parametrize(
    ("code", "level", "plant", "says", "mend"),
    [
        ("suspend-time", "note", conf(SuspendTime="INFINITE"), "no node can be powered down",
         conf(SuspendTime="8640000 sec")),
        ("suspend-time-small", "note", conf(SuspendTime="300 sec"), "has been idle", None),
        ("power-program", "warn", conf(ResumeProgram="(null)"), "it is not set",
         conf(ResumeProgram="/bin/true")),
        ("power-program", "warn", conf(SuspendProgram="/no/where"), "no such file or directory",
         conf(SuspendProgram="/bin/true")),
        ("power-program", "warn", lambda s: (s.folder / "program").chmod(0o644),
         "is closed to root",
         lambda s: (s.folder / "program").chmod(0o755)),
        ("power-program", "warn", lambda s: (s.folder.parent.chmod(0o700), conf(
            SlurmUser="games(5)")(s))[1], "is closed to games", conf(SlurmUser="root(0)")),
        ("power-resume-fail", "note", conf(ResumeFailProgram="(null)"), "does not hear",
         conf(ResumeFailProgram="/bin/true")),
        ("power-limit", "warn", conf(SuspendTimeout="25 sec"), "may take 25 s", None),
        ("power-limit", "warn", conf(ResumeTimeout="50 sec"), "ResumeTimeout is 50 s",
         power(resume_limit_s="40")),
        ("power-rate", "note", conf(ResumeRate="1 nodes/min", ResumeTimeout="120 sec"),
         "all 4 that [power] covers take 4 minutes", None),
        ("power-slow-wake", "warn", lambda s: (slept(s), power(resume_limit_s="9")(s), conf(
            ResumeTimeout="30 sec")(s))[2], "up to 25 s: gn01", None),
        ("power-nodes-unknown", "warn", tables(TABLE, TABLE.replace("gn*", "xn*")),
         "table 2", tables(TABLE)),
        ("power-nodes-uncovered", "note", tables(TABLE.replace("gn*", "gn0[1-3]")), "gn04",
         conf(SuspendExcNodes="gn04:1")),
        ("power-nodes-uncovered", "warn", lambda s: (helper("power-down")(s), tables(
            TABLE.replace("gn*", "gn02"))(s))[1], "gn01: it would fail", tables(TABLE)),
        ("power-no-restart", "note", tables(TABLE.partition(", restart")[0]),
         "waits for a new boot time", tables(TABLE)),
        ("power-file", "warn", lambda s: (ssh(s), file("key", 0o640)(s))[1], "can use the key",
         file("key", 0o600)),
        ("power-file", "warn", lambda s: (ssh(s), file("hosts", 0o666)(s))[1], "others may write",
         file("hosts", 0o644)),
        ("power-file", "warn", tables(TABLE.replace("/bin/true", "/no/where")),
         "/no/where cannot be executed", tables(TABLE)),
        ("power-file", "warn", lambda s: (ssh(s), slurm_is_games(s))[1],
         "hosts cannot be read by games: ", conf(SlurmUser="root(0)")),
        ("power-config", "warn", slurm_is_games, "gsched.toml: cannot be read by games",
         conf(SlurmUser="root(0)")),
        ("power-program", "warn", script("/no/where/python"),
         "program: it is run by /no/where/python, and /no: no such file", script("/bin/sh")),
        ("power-lost-order", "warn", drained("POWER_DOWN_ASAP"),
         "lost on the way, and used no more: gn02 → `scontrol update nodename=gn02", drained("x")),
        ("power-folder-absent", "warn", lambda s: (s.state / "power").rmdir(), "install -d",
         lambda s: (s.state / "power").mkdir(mode=0o755)),
        ("power-folder-writable", "warn", lambda s: (s.state / "power").chmod(0o777),
         "chmod go-w",
         lambda s: (s.state / "power").chmod(0o755)),
        ("power-folder-owner", "warn", lambda s: os.chown(s.state / "power", 5, -1),
         "Slurm runs its programs as root", lambda s: os.chown(s.state / "power", 0, -1)),
        ("power-two-heads", "warn", lambda s: s.write("config", s.path("config").read_text()
            + "SlurmctldHost[1]        = other(10.0.0.2)\n"), "2 hosts",
         lambda s: s.write("config", s.path("config").read_text().replace("Host[1]", "Addr"))),
        ("power-state", "warn", lambda s: (s.state / "power/state.json").write_text("{"),
         "damaged",
         lambda s: (s.state / "power/state.json").unlink()),
        ("power-failed", "warn", failures("gn02"), "given up, and not suspended again: gn02",
         state(lambda s: records.cleared(s, None))),
        ("power-stopped", "warn", failures("a", "b", "c", "d", "e"),
         "no node is suspended any more",
         state(lambda s: records.cleared(s, None))),
    ],
)  # fmt: skip
def test_what_is_planted_is_found_and_gone_when_mended(
    site: PaperSite, code: str, level: str, plant: Change, says: str, mend: Change | None
) -> None:
    assert code not in site.complaints()
    plant(site)
    finding = site.complaints()[code]
    assert finding.level == level
    assert says in f"{finding.found} → {finding.mend}"
    assert finding.mend
    if mend is None:
        site.follow(finding.mend)
    else:
        mend(site)
    assert code not in site.complaints()


def test_slurms_own_sleeping_is_a_warning_where_gsched_shall_choose(site: PaperSite) -> None:
    helper("power-down")(site)
    conf(SuspendTime="300 sec")(site)
    assert site.complaints()["suspend-time-small"].level == "warn"


def test_a_slurmd_that_was_started_for_another_reason_is_no_wake() -> None:
    orders = {
        "a": Order("resume", 1, 1000.0, 1, "done"),
        "b": Order("restart", 1, 1000.0, 1, "done"),
        "c": Order("suspend", 1, 1000.0, 1, "done"),
        "d": Order("resume", 1, 1000.0, 1, "done"),
    }
    starts = {"a": 1030, "b": 990, "c": 1030, "d": 1000 + 3 * 3600}
    assert wake_times(State(orders=orders), starts) == {"a": 30.0}


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_what_is_closed_to_who_asks_is_no_fault_of_the_files(site: PaperSite) -> None:
    ssh(site)
    site.examine()
    environ = {**site.environ, "GSCHED_CONFIG": str(site.folder / "gsched.toml")}
    walk = Walk(load(environ), environ)
    assert walk.config.get("SlurmUser") == "root(0)"
    site.folder.chmod(0o700)
    os.seteuid(65534)
    try:
        (finding,) = power_files.check(walk)
    finally:
        os.seteuid(0)
    assert (finding.level, finding.code) == ("note", "power-unseen")
    assert finding.mend == "run `gsched doctor` as root"
    assert [found.code for found in power_files.check(walk)] == ["power-back-ends"]
