"""Processes: clean environment, time-outs, errors, signals. The commands are shell scripts."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from gsched.errors import (
    PermissionDeniedError,
    SlurmCommandError,
    TryAgainError,
    UnavailableError,
)
from gsched.slurm.run import Completed, become, passthrough, reader_environment, run
from gsched.testbed.wait import wait_for


def sh(script, **options):
    return run(["sh", "-c", script], **{"timeout_s": 60.0} | options)


def alive(pid):
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_output_status_and_standard_input():
    done = sh("cat; echo err >&2; exit 3", stdin="update jobid=1\n")
    assert (done.status, done.stdout, done.stderr) == (3, "update jobid=1\n", "err\n")
    assert done.argv[0] == "sh"


def test_large_input_and_output_do_not_block_each_other():
    text = "x" * 99 + "\n"
    done = sh("cat; cat /dev/zero | head -c 1000000 >&2", stdin=text * 20000)
    assert len(done.stdout) == 2_000_000
    assert len(done.stderr) == 1_000_000


def test_without_input_standard_input_is_empty():
    assert sh("cat").stdout == ""


def test_bytes_that_are_no_utf8_swallow_no_separator():
    done = sh(r"printf 'a\303\037b\360\237\036c\377'")
    assert done.stdout == "a\ufffd\x1fb\ufffd\x1ec\ufffd"


def test_the_environment_of_readers():
    dirty = {
        "PATH": "/bin", "HOME": "/root", "SLURM_CONF": "/etc/s.conf", "SLURM_JWT": "token",
        "SLURM_CLUSTERS": "other", "SLURM_JOB_ID": "5", "POSIXLY_CORRECT": "",
        "SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "R", "SACCT_FORMAT": "x",
        "SINFO_FORMAT": "x", "SPRIO_FORMAT": "x", "SBATCH_ACCOUNT": "x",
        "SLURM_TIME_FORMAT": "relative", "TZ": "Asia/Tokyo", "LC_ALL": "de_DE", "LC_TIME": "fr_FR",
    }  # fmt: skip
    assert reader_environment(dirty) == {
        "PATH": "/bin", "HOME": "/root", "SLURM_CONF": "/etc/s.conf", "SLURM_JWT": "token",
        "SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8",
    }  # fmt: skip


def test_the_environment_reaches_the_command(monkeypatch):
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("SLURM_CONF", "/etc/passwd")
    assert sh('echo "$SQUEUE_FORMAT|$SLURM_CONF|$TZ"').stdout == "|/etc/passwd|UTC\n"
    base = {"PATH": os.environ["PATH"], "SLURM_CONF": "/etc/group"}
    assert sh('echo "$SLURM_CONF"', env=base).stdout == "/etc/group\n"


def test_a_configuration_that_is_not_there(monkeypatch):
    """Slurm's commands themselves take a minute to say so."""
    monkeypatch.setenv("SLURM_CONF", "/no/slurm.conf")
    with pytest.raises(UnavailableError, match=r"/no/slurm\.conf, which does not exist"):
        sh("true")


def test_a_timeout_ends_the_whole_process_group(tmp_path):
    pids = tmp_path / "pids"
    with pytest.raises(TryAgainError, match=r"sh -c .* no answer within 2 s"):
        sh(f"sleep 600 & echo $! >{pids}; echo $$ >>{pids}; wait", timeout_s=2)
    for pid in pids.read_text().split():
        wait_for(lambda pid=int(pid): not alive(pid), f"the end of process {pid}")


def test_a_timeout_ends_what_a_gone_parent_left_behind(tmp_path):
    pid = tmp_path / "pid"
    with pytest.raises(TryAgainError):
        sh(f"sleep 600 & echo $! >{pid}", timeout_s=2)  # sleep holds the pipes open
    wait_for(lambda: not alive(int(pid.read_text())), "the end of sleep")


def test_a_missing_program():
    with pytest.raises(UnavailableError, match="no-such-squeue not found") as caught:
        run(["no-such-squeue"], timeout_s=1)
    assert "PATH" in caught.value.hint


def test_a_program_that_may_not_be_executed(tmp_path):
    program = tmp_path / "squeue"
    program.write_text("#!/bin/sh\n")
    with pytest.raises(PermissionDeniedError, match="may not be executed"):
        run([str(program)], timeout_s=1)


def failed(stderr, status=1):
    return Completed(("squeue", "-h"), status, "", stderr)


def test_a_failure_is_told_by_its_words():
    with pytest.raises(SlurmCommandError, match="squeue failed") as caught:
        failed("slurm_load_jobs error: Unable to contact slurm controller (x)\n").check()
    assert "scontrol ping" in caught.value.hint
    assert (caught.value.exit_code, caught.value.status) == (69, 1)


def test_any_other_failure():
    error = failed("", status=-9).failure()
    assert isinstance(error, SlurmCommandError)
    assert error.message == "squeue failed: exit status -9"
    assert failed("", status=0).check().status == 0


# passthrough runs in a process of its own: it works on the standard streams and on signals.


@contextmanager
def ended(argv, **options):
    """A process that is dead after the block, so that no failure can wait for it for ever."""
    with subprocess.Popen(argv, **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                kill = os.killpg if options.get("start_new_session") else os.kill
                kill(process.pid, signal.SIGKILL)


PASS = "import os,sys; from gsched.slurm.run import passthrough; "


def passing(argv, **options):
    code = f"{PASS}sys.exit(passthrough({argv!r}, os.environ))"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, errors="replace", timeout=60, **options
    )


def test_the_streams_and_the_exit_code_are_the_commands_own():
    done = passing(["sh", "-c", "cat; echo err >&2; exit 42"], input="typed")
    assert (done.stdout, done.stderr, done.returncode) == ("typed", "err\n", 42)


def test_what_the_command_prints_may_be_had_as_it_comes():
    """The command goes on only when its first words have arrived."""
    pieces = []
    reader, writer = os.pipe()

    def take(piece):
        pieces.append(piece)
        os.write(writer, b"\n")

    script = f"echo one; read go <&{reader}; echo two; exit 5"
    os.set_inheritable(reader, True)
    try:
        assert passthrough(["/bin/bash", "-c", script], {}, take) == 5
    finally:
        os.close(reader)
        os.close(writer)
    assert pieces == [b"one\n", b"two\n"]


BECOME = "import os,sys; from gsched.slurm.run import become, caller_environment; "


def becoming(argv, **options):
    code = f"{BECOME}print('first'); become({argv!r}, caller_environment())"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, errors="replace", timeout=60, **options
    )


def test_a_process_becomes_the_command():
    """Its number stays, what was printed before comes first, its ignored signals count again."""
    script = "echo $PPID $(ps -o comm= $$); grep SigIgn /proc/$$/status; cat; exit 42"
    done = becoming(["sh", "-c", script], input="typed")
    first, who, ignored, typed = done.stdout.split("\n")
    assert (first, who, typed) == ("first", f"{os.getpid()} sh", "typed")
    assert int(ignored.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0
    assert done.returncode == 42
    assert becoming(["sh", "-c", "kill -TERM $$"]).returncode == -signal.SIGTERM


def test_becoming_a_program_that_is_none(tmp_path):
    with pytest.raises(UnavailableError, match="no-such-sbatch not found"):
        become(["no-such-sbatch"], {"PATH": "/bin"})
    (tmp_path / "sbatch").write_text("")
    with pytest.raises(PermissionDeniedError, match="sbatch may not be executed"):
        become(["sbatch"], {"PATH": str(tmp_path)})
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN  # or it would end this process


@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "POSIX", "LANG": "C"}])
def test_the_callers_environment_is_handed_on_without_the_interpreters_locale(given):
    done = becoming(["env"], env={"PATH": "/usr/bin:/bin", **given})
    names = {"LC_CTYPE", "LANG"}
    lines = (line.partition("=")[::2] for line in done.stdout.splitlines())
    assert {name: value for name, value in lines if name in names} == given


def test_the_environment_is_the_given_one(capfd):
    assert passthrough(["/bin/sh", "-c", 'echo "$A:$HOME"'], {"A": "1"}) == 0
    assert capfd.readouterr().out == "1:\n"


def test_death_by_a_signal_is_told_as_shells_do():
    assert passing(["sh", "-c", "kill -TERM $$"]).returncode == 128 + signal.SIGTERM


def test_passing_on_to_a_missing_program():
    with pytest.raises(UnavailableError, match="no-such-sbatch not found"):
        passthrough(["no-such-sbatch"], {"PATH": "/bin"})


WAITS = "trap 'kill $!; echo got; exit 7' {}; sleep 1000 >/dev/null 2>&1 & echo ready; wait"
"""Ends by a signal. dash loses one that comes while it starts a program: here it starts none."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_command_and_gsched_waits_for_it(number):
    name = number.name.removeprefix("SIG")
    script = WAITS.format(name)
    code = f"{PASS}sys.exit(passthrough(['sh', '-c', {script!r}], os.environ))"
    with ended(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("got\n", 7)


@pytest.mark.parametrize("on_stdout", ["None", "lambda b: os.write(1, b)"])
def test_a_signal_that_interrupts_no_wait_is_handed_on_all_the_same(on_stdout):
    """As one that comes in the moment before a wait: here another thread takes it."""
    script = WAITS.format("TERM")
    code = (
        "import os, signal, subprocess, sys, threading\n"
        "from gsched.slurm.run import passthrough\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "real = subprocess.Popen\n"
        "def masked(*args, **options):\n"
        "    process = real(*args, **options)\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "    return process\n"
        "subprocess.Popen = masked\n"
        f"sys.exit(passthrough(['sh', '-c', {script!r}], os.environ, {on_stdout}))"
    )
    with ended(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        wait_for(lambda: is_blocked(process.pid, signal.SIGTERM), "the signal to be masked")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert (out, process.returncode) == ("got\n", 7)


def is_blocked(pid, number):
    """Whether the main thread of a process takes a signal no more."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def test_signals_that_the_caller_ignores_stay_ignored():
    """As under nohup."""
    script = "kill -HUP $PPID; echo still here"
    code = f"{PASS}import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    code += f"sys.exit(passthrough(['sh', '-c', {script!r}], os.environ))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("still here\n", 0)


def test_a_signal_that_comes_before_the_command_is_not_lost():
    code = (
        "import os, signal, subprocess, sys\n"
        "from gsched.slurm.run import passthrough\n"
        "real = subprocess.Popen\n"
        "def late(*args, **options):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return real(*args, **options)\n"
        "subprocess.Popen = late\n"
        "sys.exit(passthrough(['sleep', '600'], os.environ))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM


def test_control_c_is_left_to_the_terminal():
    """It reaches the command from there; a second one, from gsched, would mean "at once".

    This command leaves the terminal's group, so that a SIGINT can only come from gsched.
    """
    command = (
        "import os, signal\n"
        "os.setpgid(0, 0)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})\n"
        "print('ready', flush=True)\n"
        "signal.sigwait({signal.SIGTERM})\n"
        "sent = signal.sigtimedwait({signal.SIGINT}, 0)\n"
        "print('none' if sent is None else 'sent', flush=True)\n"
    )
    code = f"{PASS}sys.exit(passthrough([sys.executable, '-c', {command!r}], os.environ))"
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])  # noqa: S606
    status = None
    try:
        with os.fdopen(terminal, "r+b", buffering=0) as tty:
            read_until(tty, b"ready")
            tty.write(b"\x03")
            read_until(tty, rb"\^C")  # the terminal shows it after it has sent the signal
            os.kill(pid, signal.SIGTERM)  # what gsched sends because of Ctrl-C comes before this
            assert b"none" in read_until(tty, b"none|sent")
            status = os.waitpid(pid, 0)[1]
    finally:
        if status is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def read_until(tty, pattern):
    """What the terminal shows up to `pattern`."""
    seen = b""
    while not re.search(pattern, seen):
        ready, _, _ = select.select([tty], [], [], 60)
        assert ready, f"nothing after {seen!r}"
        seen += tty.read(1024)
    return seen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_gsched_ends_the_command_that_it_waits_for(number, tmp_path):
    """As `timeout 5 gsched queue` does, or a closed terminal."""
    pid = tmp_path / "pid"
    script = f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 600"
    code = f"from gsched.slurm.run import run; run(['sh', '-c', {script!r}], timeout_s=600)"
    with ended([sys.executable, "-c", code]) as process:
        wait_for(pid.exists, "the command to run")
        process.send_signal(number)
        assert process.wait(60) == -number
    wait_for(lambda: not alive(int(pid.read_text())), "the end of the command")


@pytest.mark.parametrize("program", ["sh", "no-such-program"])
def test_a_signal_that_comes_while_the_command_is_started_ends_both(program, tmp_path):
    pid = tmp_path / "pid"
    script = f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 600"
    code = (
        "import os, signal, subprocess, time\n"
        "from gsched.slurm.run import run\n"
        "real = subprocess.Popen\n"
        "def signalled(*args, **options):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return real(*args, **options)\n"
        "subprocess.Popen = signalled\n"
        f"run([{program!r}, '-c', {script!r}], timeout_s=600)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGTERM, "")
    if pid.exists():  # it may be killed before it has come so far
        wait_for(lambda: not alive(int(pid.read_text())), "the end of the command")


def test_the_callers_signal_handlers_stay():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *_: seen.append("ours"))
    try:
        sh(f"kill -TERM {os.getpid()}; sleep 0.1")
        assert seen == ["ours"]
    finally:
        signal.signal(signal.SIGTERM, before)
    sh("true")
    assert signal.getsignal(signal.SIGTERM) == before
