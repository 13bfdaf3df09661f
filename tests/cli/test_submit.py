from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gsched.jobscript.requests import OPTIONS
from gsched.testbed.wait import wait_for

from .conftest import PROGRAM

SCRIPT = "#!/bin/sh\n#SBATCH -p gpu\ntrue\n"


@pytest.fixture
def sbatch(stand_in, tmp_path):
    (tmp_path / "job.sh").write_text(SCRIPT)
    return stand_in("sbatch")


@pytest.mark.parametrize(
    ("stdout", "stderr", "code"),
    [
        ("Submitted batch job 7\n", "", 0),
        ("Submitted batch job 7 on cluster b\n", "site banner\n", 0),
        ("7;b\n", "", 0),
        ("", "sbatch: error: invalid partition specified: x\n", 1),
        ("", "sbatch: unrecognized option '--x'\n", 255),
        ("Submitted batch job 7\n", "", 42),
    ],
)
def test_what_sbatch_says_comes_back_unchanged(gsched, sbatch, stdout, stderr, code):
    sbatch.answers(stdout, stderr, code)
    done = gsched("submit", "-W", "job.sh")
    assert (done.stdout, done.stderr, done.returncode) == (stdout, stderr, code)


def test_the_command_line_and_the_environment_reach_sbatch(gsched, sbatch):
    args = ["-p", "gpu", "--comment=a 'b'", "job.sh", "--gs-none", "", "*", "a\nb"]
    gsched("submit", *args, environ={"SBATCH_ACCOUNT": "lab1", "SLURM_CONF": "/x"})
    (call,) = sbatch.calls
    assert call["argv"] == args
    assert (call["env"]["SBATCH_ACCOUNT"], call["env"]["SLURM_CONF"]) == ("lab1", "/x")


def test_bytes_that_are_no_utf8_reach_sbatch(gsched, sbatch):
    gsched("submit", b"--job-name=\xff", "job.sh")
    assert sbatch.calls[0]["argv"][0] == "--job-name=\udcff"


def test_opting_out_is_written_into_the_comment(gsched, sbatch):
    gsched("submit", "--gs-none", "--comment=mine", "job.sh")
    assert sbatch.calls[0]["argv"] == ["--comment=mine", "--comment=mine gs1{none}", "job.sh"]


def test_the_script_may_come_on_standard_input(gsched, sbatch):
    script = SCRIPT.replace("true", "#GSCHED --gs-none\ntrue")
    gsched("submit", "-H", stdin=script)
    (call,) = sbatch.calls
    assert call["argv"] == ["-H", "--comment=gs1{none}"]
    assert call["stdin"] == script


def test_a_dry_run_prints_and_submits_nothing(gsched, sbatch):
    done = gsched("submit", "--gs-dry-run", "--gs-none", "-J", "a b", "job.sh")
    assert done.stdout == f"sbatch -J 'a b' '--comment=gs1{{none}}' job.sh\n# job.sh:\n{SCRIPT}"
    assert (done.stderr, done.returncode, sbatch.calls) == ("", 0, [])


@pytest.mark.parametrize(
    ("option", "hint"),
    [("--gs-nnoe", "did you mean --gs-none?"), ("--gs-qqqqqqq", "see `gsched submit --help`")],
)
def test_a_wrong_own_option_submits_nothing(gsched, sbatch, option, hint):
    done = gsched("submit", option, "job.sh")
    assert done.returncode == 2
    assert done.stderr == f"gsched: error: no such option '{option}'\nhint: {hint}\n"
    assert (done.stdout, sbatch.calls) == ("", [])


def test_a_late_directive_is_said_and_submitted(gsched, sbatch, tmp_path):
    sbatch.answers("Submitted batch job 7\n")
    (tmp_path / "job.sh").write_text("#!/bin/sh\ntrue\n#SBATCH -p gpu\n")
    done = gsched("submit", "job.sh")
    assert (done.stdout, done.returncode) == ("Submitted batch job 7\n", 0)
    assert done.stderr == (
        "gsched: warning: job.sh line 3: #SBATCH after the first command (line 2) is void\n"
    )


def test_help_is_ours_and_the_short_form_is_sbatchs(gsched, sbatch):
    done = gsched("submit", "-p", "gpu", "--help")
    assert done.stdout.startswith("Usage: gsched submit [SBATCH OPTIONS]")
    assert all(name in done.stdout for name in OPTIONS)
    assert sbatch.calls == []
    gsched("submit", "-h")
    gsched("submit", "job.sh", "--help")
    assert [call["argv"] for call in sbatch.calls] == [["-h"], ["job.sh", "--help"]]


def test_without_sbatch_the_error_says_so(gsched, tmp_path):
    done = gsched("submit", "job.sh", environ={"PATH": str(tmp_path)})
    assert done.returncode == 69
    assert done.stderr.startswith("gsched: error: sbatch not found on PATH\nhint: ")


def test_sbatch_killed_by_a_signal_is_seen_by_the_caller(gsched, tmp_path, environment):
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nkill -KILL $$\n")
    program.chmod(0o755)
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    assert gsched("submit", "--wrap", "x").returncode == -signal.SIGKILL


def test_ctrl_c_while_sbatch_waits_leaves_its_exit_code(tmp_path, environment):
    """`sbatch --wait` gets the signal and decides; gsched only waits for it."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ntrap 'exit 7' INT\necho ready\nread line\nexit 9\n")
    program.chmod(0o755)
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    with subprocess.Popen(
        [PROGRAM, "submit", "-W", "--wrap", "x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        try:
            code = process.wait(60)  # with its stdin open: only the signal ends the stand-in
        finally:
            process.kill()
        assert (code, process.stdout.read(), process.stderr.read()) == (7, b"", b"")


def test_while_an_answer_is_awaited_sbatchs_words_are_there_at_once(tmp_path, environment):
    """A script that reads them need not wait for gsched."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho Submitted batch job 7\nread line\nexit 9\n")
    program.chmod(0o755)
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"
    with subprocess.Popen(
        [PROGRAM, "submit", "--gs-wait=1", "--gs-phase=eval", "--wrap", "x"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.stdout.readline() == b"Submitted batch job 7\n"
        out, err = process.communicate(b"\n")  # only now sbatch may end
    assert (process.returncode, out, err) == (9, b"", b"")


def test_a_broken_configuration_stops_waiting_but_no_plain_submission(gsched, sbatch, tmp_path):
    config = tmp_path / "gsched.toml"
    config.write_text("nonsense\n")
    variables = {"GSCHED_CONFIG": str(config)}
    done = gsched("submit", "--gs-wait=1", "--gs-phase=eval", "job.sh", environ=variables)
    assert (done.returncode, sbatch.calls) == (78, [])
    sbatch.answers("Submitted batch job 7\n")
    done = gsched("submit", "job.sh", environ=variables)
    assert (done.returncode, done.stdout) == (0, "Submitted batch job 7\n")
    assert done.stderr.startswith("gsched: warning: the job is submitted as with --gs-none, for ")
    assert sbatch.calls[0]["argv"] == ["--comment=gs1{none}", "job.sh"]


@pytest.mark.parametrize(
    "variables",
    [
        {"GSCHED_SUBMIT_OPT_OUT": "ture"},
        {"GSCHED_SUBMIT_OPTOUT": "true"},
        {"GSCHED_CONFIG": "/nowhere/gsched.toml"},
        {"XDG_CONFIG_HOME": "/" + "x" * 300},
    ],
)
def test_an_opt_out_that_is_not_understood_counts(gsched, sbatch, variables):
    done = gsched("submit", "job.sh", environ=variables)
    assert (done.returncode, sbatch.calls[0]["argv"]) == (0, ["--comment=gs1{none}", "job.sh"])
    assert "the job is submitted as with --gs-none" in done.stderr
    done = gsched("submit", "--gs-phase=eval", "job.sh", environ=variables)
    assert (done.returncode, len(sbatch.calls)) == (78, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_waiting_leaves_the_job_and_says_so(
    tmp_path, environment, sbatch, stand_in, number
):
    sbatch.answers("Submitted batch job 7\n")
    stand_in("scontrol").answers("Configuration data\nClusterName = c\n")
    scancel = stand_in("scancel")
    environment["GSCHED_DAEMON_QUERY_ADDRESS"] = "127.0.0.1:1"
    munge = stand_in("munge")  # asked again and again
    with subprocess.Popen(
        [PROGRAM, "submit", "--gs-wait=600", "--gs-else=cancel", "job.sh"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=tmp_path,
        start_new_session=True,
        text=True,
    ) as process:
        try:
            wait_for(lambda: munge.calls, "the daemon to be asked")
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out) == (128 + number, "Submitted batch job 7\n")
    assert err == "gsched: not waiting any longer; job 7 is submitted and not cancelled\n"
    assert scancel.calls == []


def test_a_standing_opt_out_of_the_users_own_configuration(gsched, sbatch, environment):
    config = Path(environment["HOME"], ".config", "gsched", "gsched.toml")
    config.parent.mkdir(parents=True)
    config.write_text("[submit]\nopt_out = true\n")
    gsched("submit", "job.sh")
    assert sbatch.calls[0]["argv"] == ["--comment=gs1{none}", "job.sh"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("source", ["job.sh", "--wrap=x", ""])
def test_closed_streams_are_closed_for_sbatch_as_well(tmp_path, environment, closed, source):
    """And it is called once, whatever its code."""
    program = tmp_path / "bin" / "sbatch"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nls /proc/$$/fd >>{tmp_path}/open; exit 42\n")
    program.chmod(0o755)
    (tmp_path / "job.sh").write_text(SCRIPT)
    environment["PATH"] = f"{program.parent}:{environment['PATH']}"

    def still_open(command):
        argv = ["bash", "-c", f"{command} {source} {closed}"]
        done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, check=False)
        assert done.returncode == 42
        found = (tmp_path / "open").read_text().split()
        (tmp_path / "open").unlink()
        return [number for number in found if number in "012"]

    expected = still_open("sbatch")
    if source == "":  # what was read from standard input lies there again
        expected = sorted({"0", *expected})
    assert still_open(f"{PROGRAM} submit") == expected


def test_what_only_waiting_needs_is_not_loaded_by_a_plain_submission(sbatch, tmp_path, environment):
    argv = [sys.executable, "-X", "importtime", PROGRAM, "submit", "--gs-phase=eval", "job.sh"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    names = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "gsched.app.submit" in names
    assert {n for n in names if n.startswith(("gsched.daemon", "gsched.app."))} == {
        "gsched.app.submit",
        "gsched.app.job_script",
        "gsched.app.misplaced_options",
        "gsched.app.nested_submit",
        "gsched.app.sbatch_words",
    }
    assert len(sbatch.calls) == 1
