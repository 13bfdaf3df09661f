"""`gsched power` as slurmctld and an administrator call it."""

from __future__ import annotations

import inspect
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from support.json_shape import block

from gsched.app.power import syslog_handler
from gsched.testbed.wait import wait_for
from gsched_cli.commands.power import power

from .conftest import PROGRAM

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def nodes(state):
    """What scontrol says of gn01 to gn99."""
    return "".join(f"NodeName=gn{n:02} State={state} CPUTot=1\n" for n in range(1, 100))


@pytest.fixture
def scontrol(stand_in):
    """Slurm has powered down all nodes."""
    command = stand_in("scontrol")
    command.answers(nodes("IDLE+POWERED_DOWN"))
    return command


@pytest.fixture
def switch(environment, tmp_path, scontrol):
    """A configuration whose nodes are switched by a script; gn66 does not obey, gn99 hangs."""
    script = tmp_path / "switch"
    script.write_text(
        f"#!/bin/sh\necho $1 $2 >>{tmp_path}/done\n"
        f"grep SigBlk /proc/$PPID/status >{tmp_path}/mask\n"
        f"ls -l /proc/$PPID/fd >{tmp_path}/fds 2>/dev/null\n[ $2 != gn66 ] || exit 9\n"
        f"[ $2 != gn99 ] || until [ -e {tmp_path}/go ]; do sleep 0.05; done\n"
    )
    script.chmod(0o755)
    config = tmp_path / "gsched.toml"
    lines = [f'{verb} = ["{script}", "{verb}", "%n"]' for verb in ("suspend", "resume", "restart")]
    head = [
        f'state_dir = "{tmp_path}/state"',
        "[power]",
        "tries = 1",
        "[[power.backends]]",
        'nodes = ["gn[01-99]"]',
    ]
    config.write_text("\n".join([*head, 'kind = "command"', *lines, ""]))
    environment["GSCHED_CONFIG"] = str(config)
    return tmp_path


def keys_promised(name, document):
    return block(document) in inspect.cleandoc(power.commands[name].help)


def test_slurms_programs_are_installed_and_are_the_commands():
    scripts = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
    for name in ("suspend", "resume", "resume-failed"):
        module, _, function = scripts[f"gsched-{name}"].partition(":")
        assert callable(getattr(import_module(module), function))
        assert PROGRAM.with_name(f"gsched-{name}").exists()
        assert name in power.commands


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("suspend", "gn[01-03]"), 0),
        (("resume", "gn66"), 69),
        (("suspend", "gn[1"), 65),
        (("suspend", "--", "-x"), 65),
        (("suspend", "a/b"), 65),
        (("resume", ""), 65),
        (("suspend",), 2),
        (("clear",), 0),
        (("status",), 0),
    ],
)
def test_exit_codes(gsched, switch, words, code):
    done = gsched("power", *words)
    assert done.returncode == code, done.stderr


def test_a_refusal_is_an_exit_code_of_its_own_until_it_is_cleared(gsched, switch):
    assert gsched("power", "resume-failed", "gn05").returncode == 0
    refused = gsched("power", "suspend", "gn05")
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "left for an administrator" in refused.stderr
    assert "failures forgotten of gn05" in gsched("power", "clear", "gn05").stderr
    assert gsched("power", "suspend", "gn05").returncode == 0


def test_documents_have_the_keys_that_the_manual_promises(gsched, switch):
    told = json.loads(gsched("power", "suspend", "gn[01,66]", "--json").stdout)
    assert told["done"] == ["gn01"]
    assert told["failed"] == [{"node": "gn66", "why": f"{switch}/switch: exit status 9"}]
    told["refused"] = told["failed"]
    assert keys_promised("suspend", told)
    assert keys_promised("resume", told)
    assert keys_promised("restart", told)
    status = json.loads(gsched("power", "status", "--json").stdout)
    assert {node["node"]: node["outcome"] for node in status["nodes"]} == {
        "gn01": "done",
        "gn66": "failed",
    }
    assert keys_promised("status", status)
    assert keys_promised("clear", json.loads(gsched("power", "clear", "--json").stdout))


def test_it_works_as_slurmscriptd_calls_it(switch, environment):
    """Streams closed, signals blocked, an environment with nothing in it."""
    program = PROGRAM.with_name("gsched-suspend")
    only = {"GSCHED_CONFIG": environment["GSCHED_CONFIG"]}

    def as_slurm() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD))
        for number in range(3):
            os.close(number)

    child = subprocess.Popen([program, "gn01"], env=only, preexec_fn=as_slurm)
    assert child.wait(60) == 0
    assert (switch / "done").read_text() == "suspend gn01\n"
    assert (switch / "mask").read_text().split()[1].strip("0") == ""
    opened = {line.split()[-3]: line.split()[-1] for line in _links(switch / "fds")}
    assert {opened["0"], opened["1"], opened["2"]} == {"/dev/null"}


def _links(path):
    return [line for line in path.read_text().splitlines() if "->" in line]


def test_what_is_killed_is_told_as_interrupted_and_a_resume_restarts(gsched, switch, environment):
    child = subprocess.Popen(
        [PROGRAM, "power", "suspend", "gn99"], env=environment, start_new_session=True
    )
    wait_for((switch / "done").exists, "the command to run")
    open_status = json.loads(gsched("power", "status", "--json").stdout)
    assert open_status["nodes"][0]["outcome"] == "under way"
    child.kill()
    child.wait()
    status = json.loads(gsched("power", "status", "--json").stdout)
    assert status["nodes"][0]["outcome"] == "interrupted"
    (switch / "go").touch()
    assert gsched("power", "resume", "gn99").returncode == 0
    assert (switch / "done").read_text().splitlines()[-1] == "restart gn99"


def test_a_broken_configuration_is_told_and_switches_nothing(gsched, switch):
    (switch / "gsched.toml").write_text("[power]\nbackends = 3\n")
    done = gsched("power", "suspend", "gn01")
    assert done.returncode == 78
    assert "power.backends must be a list of tables" in done.stderr
    assert not (switch / "done").exists()


def test_a_job_is_not_cut_off_by_hand_but_by_force(gsched, switch, scontrol):
    scontrol.answers(nodes("MIXED"))
    for words in (("suspend", "gn01"), ("restart", "gn01")):
        refused = gsched("power", *words)
        assert refused.returncode == 3
        assert "it is MIXED" in refused.stderr
    assert gsched("power", "resume", "gn01").returncode == 0
    assert (switch / "done").read_text() == "resume gn01\n"
    assert gsched("power", "restart", "gn01", "--force").returncode == 0
    assert gsched("power", "suspend", "gn01", "--force").returncode == 0
    assert (switch / "done").read_text() == "resume gn01\nrestart gn01\nsuspend gn01\n"


def test_without_slurm_a_hand_cuts_no_power_and_slurms_programs_go_on(
    gsched, switch, scontrol, environment
):
    scontrol.answers(stderr="scontrol: error: no answer", code=1)
    assert gsched("power", "suspend", "gn01").returncode == 3
    assert gsched("power", "resume", "gn01").returncode == 0
    for name in ("gsched-suspend", "gsched-resume"):
        program = PROGRAM.with_name(name)
        assert subprocess.run([program, "gn02"], env=environment, check=False).returncode == 0
    assert (switch / "done").read_text() == "resume gn01\nsuspend gn02\nresume gn02\n"


def test_names_that_slurm_does_not_have_are_an_error_of_the_hands(gsched, switch, scontrol):
    scontrol.answers("NodeName=gn01 State=IDLE+POWERED_DOWN CPUTot=1\n")
    for verb in ("suspend", "resume", "restart"):
        done = gsched("power", verb, "gn[01,90-93]")
        assert (done.returncode, "Slurm has no node gn[90-93]" in done.stderr) == (2, True)
    assert not (switch / "done").exists()
    assert json.loads(gsched("power", "status", "--json").stdout)["failures"] == []


def test_clear_says_what_is_still_stopped_and_which_nodes_burn_on(gsched, switch, scontrol):
    config = switch / "gsched.toml"
    config.write_text(config.read_text().replace("tries = 1", "tries = 1\nstop_after = 1"))
    assert gsched("power", "suspend", "gn66").returncode == 69
    assert gsched("power", "suspend", "gn05").returncode == 3
    one = gsched("power", "clear", "gn66").stderr
    assert "suspending is still stopped: 1 failures of 1 nodes" in one
    assert "`gsched power suspend 'gn66'`" in one
    going_on = gsched("power", "clear", "--stop").stderr
    assert "nodes are suspended again" in going_on
    assert "`gsched power suspend 'gn05'`" in going_on  # gn66's order is forgotten
    scontrol.answers(nodes("IDLE"))  # they have come back meanwhile
    assert "suspend" not in gsched("power", "clear").stderr
    assert gsched("power", "clear", "--stop", "gn01").returncode == 2
    scontrol.answers("NodeName=gn01 State=IDLE CPUTot=1\n")
    gsched("power", "clear", "gn05")
    assert json.loads(gsched("power", "status", "--json").stdout)["nodes"] == []


def test_a_mistake_elsewhere_in_the_configuration_stops_nothing(gsched, switch):
    config = switch / "gsched.toml"
    right = config.read_text()
    config.write_text(f"{right}[daemon]\nintervall_s = 5\n")
    suspended = gsched("power", "suspend", "gn01")
    assert (suspended.returncode, "intervall_s" in suspended.stderr) == (0, True)
    config.write_text(f"{right}[power\n")
    assert gsched("power", "suspend", "gn02").returncode == 78
    assert gsched("power", "resume", "gn[01-02]").returncode == 0  # as it was before
    lines = (switch / "done").read_text().splitlines()
    assert lines[0] == "suspend gn01"
    assert sorted(lines[1:]) == ["restart gn02", "resume gn01"]


def test_syslog_gets_one_line_each_with_its_level(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "log"))
        handler = syslog_handler(tmp_path / "log")
        for level in (logging.INFO, logging.ERROR):
            handler.handle(logging.LogRecord("x", level, "", 0, "gn01\nfeigned", (), None))
        handler.close()
        lines = [listening.recv(1000).decode() for _ in range(2)]
    pid = os.getpid()
    daemon = 3 << 3
    assert lines == [f"<{daemon + n}>gsched-power[{pid}]: gn01\\nfeigned" for n in (6, 3)]


def test_it_loads_no_ssh_and_nothing_heavy_where_no_back_end_needs_it(switch, environment):
    words = [sys.executable, "-X", "importtime", PROGRAM, "power", "suspend", "gn01"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.split("\n")}
    assert "gsched_cli" in loaded
    assert not {"paramiko", "cryptography", "numpy", "sqlalchemy", "sklearn", "jinja2"} & loaded
