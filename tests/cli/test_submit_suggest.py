"""`gsched submit --gs-suggest` as a user runs it, beside a status file of a daemon."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest

from .conftest import PROGRAM
from .test_startup import HEAVY

HOUR = 3600
DURATION = {"mean": 3000.0, "quantiles": [[0.1, 1500.0], [0.5, 2400.0], [0.9, 4200.0]],
            "source": "similar-name", "similar_jobs": 31}  # fmt: skip
PREDICTED = "predicted run 40:00 (80 %: 25:00–1:10:00, from 31 similar jobs of this user)"


@pytest.fixture
def scontrol(stand_in):
    command = stand_in("scontrol")
    command.answers("Configuration data\nClusterName = c\n")
    return command


@pytest.fixture
def sbatch(stand_in, scontrol, tmp_path):
    (tmp_path / "job.sh").write_text("#!/bin/sh\ntrue\n")
    command = stand_in("sbatch")
    command.answers("Submitted batch job 7\n")
    return command


@pytest.fixture
def publish(tmp_path):
    """Write the daemon's file; `facts` are those of job 7, submitted now."""

    def write(**facts):
        state = tmp_path / "state"
        state.mkdir(exist_ok=True)
        job = {"submit_time": int(time.time()), "state": "PENDING", "duration_s": DURATION, **facts}
        document = {"version": 1, "cluster": "c", "as_of": int(time.time()), "interval_s": 30,
                    "acting": True, "private": False, "jobs": {"7": job}}  # fmt: skip
        (state / "new").write_text(json.dumps(document))
        (state / "new").replace(state / "status.json")

    return write


def forecast():
    at = int(time.time())
    start = {"as_of": at, "median": at + 2 * HOUR, "low": at + HOUR, "high": at + 3 * HOUR,
             "coverage": 0.8, "calibrated_on": 9}  # fmt: skip
    shorter = {"kind": "time-limit", "option": "--time=1:30:00", "value": "5400",
               "start": {"median": at, "low": at, "high": at}}  # fmt: skip
    advice = {"time_limit_s": 5400, "probability": 0.96, "asked_s": 2 * 86400}
    return {"start": start, "changes": {"as_of": at, "tried": [shorter]}, "limit_advice": advice}


@pytest.mark.parametrize("stdout", ["Submitted batch job 7\n", "7\n"])
def test_it_is_told_on_stderr_and_stdout_stays_sbatchs_own(gsched, sbatch, publish, stdout):
    sbatch.answers(stdout)
    publish(**forecast())
    done = gsched("submit", "--gs-suggest", "-t", "2-0", "job.sh", environ={"TZ": "UTC"})
    assert (done.stdout, done.returncode) == (stdout, 0)
    first, second = done.stderr.splitlines()
    clock = r"(\w{3} )?\d\d:\d\d"
    interval = rf"\(80 %: {clock}–{clock}\)"
    assert re.fullmatch(
        rf"gsched: {re.escape(PREDICTED)}; expected start {clock} {interval}", first
    )
    assert second == (
        "gsched: your limit is 2-00:00:00; --time=1:30:00 would help: expected start now "
        "(long enough with probability 0.96)"
    )
    (call,) = sbatch.calls
    assert call["argv"] == ["-t", "2-0", "job.sh"]  # nothing of the job is changed


def test_without_a_daemon_nothing_but_sbatch_is_to_be_seen(gsched, sbatch, scontrol):
    plain = gsched("submit", "job.sh")
    done = gsched("submit", "--gs-suggest", "job.sh")
    assert (done.stdout, done.stderr, done.returncode) == (plain.stdout, "", 0)
    assert scontrol.calls == []


@pytest.mark.parametrize("code", [1, 42, 255])
def test_what_sbatch_refuses_is_as_without_it(gsched, sbatch, publish, code):
    publish(**forecast())
    sbatch.answers("", "sbatch: error: no\n", code)
    done = gsched("submit", "--gs-suggest", "job.sh")
    assert (done.stdout, done.stderr, done.returncode) == ("", "sbatch: error: no\n", code)


def test_a_daemon_that_has_not_got_so_far_is_not_waited_for_long(gsched, sbatch, publish):
    publish()
    done = gsched("submit", "--gs-suggest", "job.sh", environ={"GSCHED_SUBMIT_SUGGEST_WAIT_S": "1"})
    assert (done.stdout, done.returncode) == ("Submitted batch job 7\n", 0)
    late = "no expected start within 1 s; `gsched why 7` has it later"
    assert done.stderr == f"gsched: {PREDICTED}\ngsched: {late}\n"


def test_a_status_file_of_nonsense_changes_nothing(gsched, sbatch, publish, tmp_path):
    publish(**forecast() | {"start": {"median": "soon"}})
    path = tmp_path / "state" / "status.json"
    environ = {"GSCHED_SUBMIT_SUGGEST_WAIT_S": "1"}
    for text in (path.read_text(), "[]", "\0", '{"version": 1, "jobs": {"7"'):
        path.write_text(text)
        done = gsched("submit", "--gs-suggest", "job.sh", environ=environ)
        assert (done.stdout, done.returncode) == ("Submitted batch job 7\n", 0)
        assert "error" not in done.stderr


def test_a_broken_configuration_stops_no_submission(gsched, sbatch, publish, tmp_path):
    publish(**forecast())
    config = tmp_path / "gsched.toml"
    config.write_text("nonsense\n")
    done = gsched("submit", "--gs-suggest", "job.sh", environ={"GSCHED_CONFIG": str(config)})
    assert (done.stdout, done.returncode) == ("Submitted batch job 7\n", 0)
    assert done.stderr.startswith("gsched: warning: the job is submitted as with --gs-none, for ")
    assert len(done.stderr.splitlines()) == 1


def test_it_says_what_makes_it_void(gsched, sbatch, publish):
    publish(**forecast())
    done = gsched("submit", "--gs-suggest", "-W", "job.sh")
    assert (done.stdout, done.returncode) == ("Submitted batch job 7\n", 0)
    assert done.stderr == (
        "gsched: warning: --gs-suggest is void: sbatch --wait ends with the job, too late for "
        "gsched's answer\n"
    )


def test_with_an_answer_the_answer_has_the_code(gsched, sbatch, publish):
    publish(**forecast(), accepted=True)
    good = gsched("submit", "--gs-suggest", "--gs-wait=5", "job.sh")
    assert (good.stdout, good.returncode) == ("Submitted batch job 7\n", 0)
    assert len(good.stderr.splitlines()) == 2
    publish(accepted=False, request_problem="too long")
    bad = gsched("submit", "--gs-suggest", "--gs-wait=5", "job.sh")
    assert bad.returncode == 3
    assert "no expected start" not in bad.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_waiting_alone(tmp_path, environment, sbatch, stand_in, number):
    environment["GSCHED_SUBMIT_SUGGEST_WAIT_S"] = "600"
    stand_in("munge")
    with ExitStack() as open_things:
        silent = open_things.enter_context(socket.create_server(("127.0.0.1", 0)))
        environment["GSCHED_DAEMON_QUERY_ADDRESS"] = f"127.0.0.1:{silent.getsockname()[1]}"
        process = open_things.enter_context(
            subprocess.Popen(
                [PROGRAM, "submit", "--gs-suggest", "job.sh"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                cwd=tmp_path,
                start_new_session=True,
                text=True,
            )
        )
        try:
            silent.settimeout(60)
            open_things.enter_context(silent.accept()[0])  # it is asked, and does not answer
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "Submitted batch job 7\n", "")


@pytest.mark.parametrize("end", ["2>&-", "2>/dev/full", "2> >(exec true)"])
def test_a_stderr_that_nobody_reads_changes_no_code(sbatch, publish, tmp_path, environment, end):
    publish(**forecast())
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho Submitted batch job 7\n")
    program.chmod(0o755)
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    text = f"{PROGRAM} submit --gs-suggest job.sh {end}"
    done = subprocess.run(
        ["bash", "-c", text], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert (done.stdout, done.returncode) == (b"Submitted batch job 7\n", 0)


def test_nothing_heavy_is_loaded_for_it(sbatch, publish, tmp_path, environment):
    publish(**forecast())
    argv = [sys.executable, "-X", "importtime", PROGRAM, "submit", "--gs-suggest", "job.sh"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "would help" in done.stderr
    names = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "gsched.app.answers" in names
    assert HEAVY & (names | {name.partition(".")[0] for name in names}) == set()
