"""Signals to real processes: those that catch one get it once, those that do not never get it."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.launching import TOLD, is_gone, launch

from gsched.launch.child_process import Children
from gsched.launch.processes import Process, Tree, look_at
from gsched.launch.shell_traps import Trap, trap_in, trap_of
from gsched.launch.signals import FORWARDED
from gsched.launch.witness import Witness
from gsched.telemetry.attempts import read_register
from gsched.telemetry.user_folders import UserFolders
from gsched.testbed.wait import wait_for

ARRANGEMENTS = {
    "command": "@\nexit $?",
    "exec": "exec @",
    "background": "@ &\nwait $!",
    "nested": "sh -c 'bash -c \"@; exit \\$?\"; exit $?'\nexit $?",
    "own session": "setsid --wait @\nexit $?",
    "daemon": "(setsid @ &)\nuntil grep -qs saved $F; do sleep 0.1; done\nexit 143",
    "pipeline": "@ | cat\nexit ${PIPESTATUS[0]}",
    "subshell": "(@)\nexit $?",
}


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_a_notice_reaches_the_training_alone(tmp_path, name):
    run = launch(tmp_path, ARRANGEMENTS[name], "--grace", "5")
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "USR1")
    run.signal("TERM")
    run.wait_for_words("ready", "USR1", "TERM", "saved")
    code, said = run.end()
    assert code == 143, said


def test_who_catches_it_sees_to_what_it_has_started(tmp_path):
    """torchrun, mpirun and python pass a signal on themselves, or mean not to."""
    parent = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGUSR1, lambda *_: open(sys.argv[1], 'a').write('parent\\n'))\n"
        "sys.exit(subprocess.call(sys.argv[2:]))\n"
    )
    (tmp_path / "parent.py").write_text(parent)
    run = launch(tmp_path, f"{sys.executable} parent.py $F @")
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "parent")
    run.signal("TERM")  # which the parent does not catch
    assert run.end()[0] == 143
    assert run.words() == ["ready", "parent", "TERM", "saved"]


def test_who_waits_for_it_in_a_thread_gets_it(tmp_path):
    """All other threads block it, as srun's do."""
    waits = (
        "import os, signal, sys, threading\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "def wait(): os._exit(signal.sigwait({signal.SIGUSR1}))\n"
        "thread = threading.Thread(target=wait)\n"
        "thread.start()\n"
        "open(sys.argv[1], 'w').write('ready\\n')\n"
        "thread.join()\n"
    )
    (tmp_path / "waits.py").write_text(waits)
    run = launch(tmp_path, f"{sys.executable} waits.py $F\nexit $?")
    run.wait_for_words("ready")
    run.signal("USR1")
    assert run.end()[0] == signal.SIGUSR1


def is_shell(pid):
    process = look_at(pid)
    return process is not None and process.is_shell


def test_nobody_gets_twice_what_slurm_sends_to_all(tmp_path):
    run = launch(tmp_path, "trap '' USR1\nsetsid --wait @\nexit $?")
    run.wait_for_words("ready")
    run.signal_all("USR1")
    run.wait_for_words("ready", "USR1")
    run.signal("TERM")  # which comes after what the launcher makes of USR1
    assert run.end()[0] == 143
    assert run.words() == ["ready", "USR1", "TERM", "saved"]


def test_a_training_saves_though_slurm_has_ended_its_shells(tmp_path):
    run = launch(tmp_path, ARRANGEMENTS["nested"], "--grace", "5")
    run.wait_for_words("ready")
    script = next(filter(is_shell, Tree().children(run.process.pid)))
    for pid in [*Tree().below(script), script]:
        with suppress(ProcessLookupError):  # a shell whose child has just ended
            os.kill(pid, signal.SIGTERM)
    wait_for(lambda: is_gone(script), "the script's end")
    run.signal("TERM")
    run.end()
    assert run.words() == ["ready", "TERM", "saved"]


def test_a_training_saves_though_a_trap_ends_the_script(tmp_path):
    run = launch(tmp_path, "trap 'exit 5' TERM\n@ &\nwait", "--grace", "5")
    run.wait_for_words("ready")
    run.signal("TERM")
    assert run.end()[0] == 5
    assert run.words() == ["ready", "TERM", "saved"]


def test_a_shell_with_a_trap_gets_it_beside_what_it_runs(tmp_path):
    run = launch(tmp_path, "trap 'echo shell >>$F' USR1\n@\ncode=$?\nexit $code")
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "USR1")
    run.notes.with_suffix(".go").touch()
    assert run.end()[0] == 0
    assert run.words() == ["ready", "USR1", "done", "shell"]


def test_a_trap_for_the_end_is_none_for_the_signal(tmp_path):
    """Such a bash catches USR1 all the same, and would end at it."""
    run = launch(tmp_path, "trap 'echo bye >>$F' EXIT\n@")
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "USR1")
    run.notes.with_suffix(".go").touch()
    assert run.end()[0] == 0
    assert run.words() == ["ready", "USR1", "done", "bye"]


@pytest.mark.parametrize(
    ("script", "trap"),
    [
        ("trap cleanup EXIT", Trap.NONE),
        ("trap cleanup EXIT; kill -USR1 $pid", Trap.NONE),
        ("trap cleanup EXIT && echo $x", Trap.NONE),
        ('trap "rm -rf $x $(f "a $b") $(" EXIT', Trap.NONE),
        ("trap save TERM # not USR1", Trap.NONE),
        ("trap save TERM; echo USR1", Trap.NONE),
        ("  # a trap for $all of USR1", Trap.NONE),
        ("trap - USR1; trap '' $all", Trap.NONE),
        ("eval true; evaluate $x", Trap.NONE),
        ("trap save USR1", Trap.SET),
        ("trap 'save; x' SIGUSR1 TERM", Trap.SET),
        ('trap "a\n b \\" c" TERM usr1', Trap.SET),
        ("trap -- save 10", Trap.SET),
        ("(trap save USR1)", Trap.SET),
        ("trap 'a '\"'\"'b'\"'\"'' USR1", Trap.SET),
        ("trap save \\\n 'USR1'", Trap.SET),
        ("for s in USR1 TERM; do trap 'save $s' $s; done", Trap.SET),
        ("trap save SIG{USR1,TERM}", Trap.SET),
        ("eval \"trap 'echo' USR1\"", Trap.SET),
        ('eval "$(tool hook)"', Trap.PERHAPS),
        ("if x; then eval `y`; fi", Trap.PERHAPS),
    ],
)
def test_traps_of_a_script(script, trap):
    assert trap_in(script, signal.SIGUSR1) is trap


@pytest.mark.parametrize(
    ("caught", "number"),
    [(1 << signal.SIGUSR1 - 1, signal.SIGUSR1), ((1 << 64) - 1, signal.SIGRTMIN)],
)
def test_what_a_shell_does_not_catch_for_its_end_it_has_a_trap_for(caught, number):
    shell = Process(0, "bash", False, caught=caught, blocked=0, ignored=0)
    assert trap_of(shell, number) is Trap.SET


WAITS = "echo ready >>$F\nuntil [ -e $F.go ]; do sleep 0.05; done\n"


@pytest.mark.parametrize(
    "lines",
    [
        "for s in USR1 TERM; do trap 'echo got >>$F' $s; done",
        "S=USR1; trap 'echo got >>$F' $S",
        "trap 'echo '\"'\"'got'\"'\"' >>$F' USR1",
        "eval \"trap 'echo got >>$F' USR1\"",
        'eval "$(cat lib.sh)"',
        ". ./lib.sh",
        'source "$HERE/first.sh"',
        ". $(echo ./lib.sh)",
    ],
)
def test_a_trap_in_another_spelling_is_run_beside_one_for_the_end(tmp_path, lines):
    (tmp_path / "lib.sh").write_text("trap 'echo got >>$F' USR1\n")
    (tmp_path / "first.sh").write_text(". lib.sh\n")
    run = launch(tmp_path, f"trap 'echo bye >>$F' EXIT\n{lines}\n{WAITS}", HERE=str(tmp_path))
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "got")
    run.notes.with_suffix(".go").touch()
    assert run.end()[0] == 0
    assert run.words() == ["ready", "got", "bye"]


@pytest.mark.parametrize(
    "body",
    [
        "trap 'echo bye >>$F' EXIT\neval \"$(echo true)\"\n@",
        "trap 'echo bye >>$F' EXIT\n(. ./fifo) &\n@",
        "bash ./fifo &\necho \"trap 'echo bye >>$F' EXIT; @; exit\" >fifo\nwait",
    ],
)
def test_a_shell_that_may_end_of_it_does_not_where_its_training_takes_it(tmp_path, body):
    os.mkfifo(tmp_path / "fifo")
    run = launch(tmp_path, body)
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "USR1")
    run.notes.with_suffix(".go").touch()
    assert run.end()[0] == 0
    assert run.words() == ["ready", "USR1", "done", "bye"]


OTHERS = [
    *("ALRM", "VTALRM", "XCPU", "ABRT", "PROF", "PIPE", "XFSZ", "SEGV"),
    *("CONT", "URG", "WINCH", "IO", "34", "50", "64"),
]


def number_of(name):
    return int(name) if name.isdecimal() else getattr(signal, f"SIG{name}")


def test_a_trap_for_any_signal_is_run(tmp_path):
    traps = "\n".join(f"trap 'echo {name} >>$F' {name}" for name in [*OTHERS, "TSTP"])
    beats = tmp_path / "beats"
    beats.mkdir()
    beats.chmod(0o1777)
    run = launch(tmp_path, f"{traps}\n{WAITS}", "--heartbeat", str(beats), SLURM_JOB_ID="7")
    run.wait_for_words("ready")
    for name in OTHERS:
        run.process.send_signal(number_of(name))
    wait_for(lambda: set(run.words()) == {"ready", *OTHERS}, "all of them", 20)
    run.signal("TSTP")  # before SIGCONT it would be void
    wait_for(lambda: run.words()[-1] == "TSTP", "the last")
    run.notes.with_suffix(".go").touch()
    code, said = run.end()
    assert code == 0
    assert len(run.words()) == len(OTHERS) + 2
    assert "gsched: SIGRTMIN+16: brought to bash\n" in said
    (attempt,) = read_register(UserFolders(beats), os.getuid(), "7").attempts
    assert {"ALRM", "RTMIN+16", "RTMAX"} < {name for name, _ in attempt.signals}


def test_what_srun_does_not_pass_on_is_not_for_its_tasks(tmp_path):
    """So the script ends, as without gsched: nobody asks Slurm to bring it to them."""
    run = launch(tmp_path, "cp /bin/sleep srun\n./srun 300 &\necho ready >>$F\nwait")
    run.wait_for_words("ready")
    run.signal("ALRM")
    code, said = run.end()
    assert code == -signal.SIGALRM
    assert "gsched: SIGALRM: no process of the script catches it; the script ends\n" in said


def test_all_that_a_process_can_catch_is_brought_on():
    kept = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    assert {*range(1, 32), *range(34, 65)} == FORWARDED | kept


def test_the_signal_of_a_parents_death_is_one_as_others_are(tmp_path):
    """Sent to all, it reaches the witness, which kills the script of a launcher that has died."""
    traps = "trap 'echo ALRM >>$F' ALRM; trap 'exit 5' TERM"
    run = launch(tmp_path, f"{traps}\necho ready >>$F\nwhile :; do sleep 300 & wait; done")
    run.wait_for_words("ready")
    run.signal_all("ALRM")
    run.wait_for_words("ready", "ALRM")
    run.signal("TERM")
    assert run.end()[0] == 5
    assert run.words() == ["ready", "ALRM"]


def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_one_that_stops_does_not_stop_the_launcher(tmp_path):
    os.mkfifo(tmp_path / "go")
    run = launch(tmp_path, "echo ready >>$F\nread < go\nexit 3")
    run.wait_for_words("ready")
    shell = next(filter(is_shell, Tree().children(run.process.pid)))
    run.signal("TSTP")
    wait_for(lambda: is_stopped(shell), "the stopped script")
    assert not is_stopped(run.process.pid)
    run.signal("CONT")
    wait_for(lambda: not is_stopped(shell), "the script that goes on")
    (tmp_path / "go").write_text("\n")
    code, said = run.end()
    assert code == 3
    assert "gsched: SIGTSTP: no process of the script catches it; the script stops\n" in said


def test_two_signals_that_slurm_sends_to_all_come_once_each(tmp_path):
    """As SIGCONT and SIGTERM do, at each end of a job."""
    run = launch(tmp_path, "trap '' USR1 USR2\nsetsid --wait @\nexit $?")
    run.wait_for_words("ready")
    run.signal("STOP")
    for name in ("USR2", "USR1"):
        run.signal_all(name)
    run.signal("CONT")
    wait_for(lambda: len(run.words()) == 3, "both")
    run.signal("TERM")  # which comes after what the launcher makes of the others
    assert run.end()[0] == 143
    assert sorted(run.words()) == ["TERM", "USR1", "USR2", "ready", "saved"]


def test_a_notice_that_nobody_takes_ends_nothing(tmp_path):
    run = launch(tmp_path, "echo ready >>$F\nsleep 1\nexit 3")
    run.wait_for_words("ready")
    run.signal("USR1")
    run.signal("USR2")
    run.signal("CONT")
    run.signal("WINCH")
    code, said = run.end()
    assert code == 3
    assert said.count("catches it") == 2  # the others do nothing by default
    assert "gsched: SIGUSR1: no process of the script catches it; it goes on\n" in said
    assert "gsched: SIGUSR2: no process of the script catches it; it goes on\n" in said


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT", "ALRM", "XCPU", "RTMIN"])
def test_another_signal_that_nobody_takes_ends_the_script(tmp_path, name):
    run = launch(tmp_path, f"trap - {name}\necho ready >>$F\nexec sleep 300")
    run.wait_for_words("ready")
    run.signal(name)
    assert run.end()[0] == -getattr(signal, f"SIG{name}")


def test_one_that_the_script_ignores_ends_nothing(tmp_path):
    run = launch(tmp_path, f"trap '' HUP\n{WAITS}exit 3")
    run.wait_for_words("ready")
    run.signal("HUP")
    run.notes.with_suffix(".go").touch()
    code, said = run.end()
    assert code == 3
    assert "gsched: SIGHUP: no process of the script catches it; it goes on\n" in said


def test_a_witness_that_was_killed_ends_no_job(tmp_path):
    run = launch(tmp_path, f"{WAITS}exit 3")
    run.wait_for_words("ready")
    witness = next(pid for pid in Tree().children(run.process.pid) if not is_shell(pid))
    os.kill(witness, signal.SIGKILL)
    wait_for(lambda: look_at(witness) is None, "the witness to be reaped")
    run.notes.with_suffix(".go").touch()
    assert run.end() == (3, "gsched: not in a job of Slurm's\n")


def test_the_witness_gives_slurm_time_to_signal_all():
    """One scancel signals them one after the other, the batch process first."""
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    try:
        with Witness(Children(), None) as witness:
            begun = time.monotonic()
            assert not witness.saw(signal.SIGUSR1)
            assert time.monotonic() - begun > 0.05
            os.kill(witness.pid, signal.SIGUSR1)
            assert witness.saw(signal.SIGUSR1)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)


def test_ends_of_children_are_told_to_a_launcher_whose_caller_ignores_them():
    start = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "os.execv(sys.executable, [sys.executable, '-I', '-m', 'gsched.launch', *sys.argv[1:]])\n"
    )
    argv = [sys.executable, "-c", start, "--", "/bin/sh", "-c", "exit 3"]
    assert subprocess.run(argv, timeout=60, check=False).returncode == 3


def test_what_a_script_leaves_is_killed(tmp_path):
    run = launch(tmp_path, "trap '' TERM\n(setsid sleep 300 &)\nsleep 300 &\necho $! >$F\nexit 4")
    assert run.end()[0] == 4
    assert is_gone(int(run.notes.read_text()))


def test_a_checkpoint_writer_that_a_script_leaves_ends_by_itself(tmp_path):
    """As trainers have one each, where a job has several nodes."""
    loop = "until [ -e $0.go ]; do sleep 0.05; done; echo written >>$0"
    body = f"""setsid bash -c '{loop}' $F gsched.ckpt.writer &
        sleep 300 &
        echo $! >$F
        exit 4"""
    run = launch(tmp_path, body)
    wait_for(lambda: run.words(), "the start")
    left = int(run.words()[0])
    wait_for(lambda: is_gone(left), "the end of what is no writer")
    run.notes.with_suffix(".go").touch()
    assert run.end()[0] == 4
    assert run.words() == [str(left), "written"]


def test_nothing_stays_when_the_launcher_is_killed(tmp_path):
    """By Slurm where ProctrackType is pgid, with its process group; the script has its own."""
    run = launch(tmp_path, "trap '' TERM\n@")
    run.wait_for_words("ready")
    below = list(Tree().below(run.process.pid))
    assert len(below) == 3  # the witness, the shell, the trainee
    os.killpg(run.process.pid, signal.SIGKILL)
    run.process.wait()
    wait_for(lambda: all(map(is_gone, below)), "all to be gone")
    assert run.words() == ["ready"]


def test_a_job_that_slurm_has_lost_saves_and_ends(tmp_path):
    """slurmstepd was killed with its node's slurmd: the job begins anew elsewhere."""
    stepd = (
        "import subprocess, sys, time\n"
        "print(subprocess.Popen(sys.argv[1:]).pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    script = tmp_path / "script"
    notes = tmp_path / "again"
    script.write_text(f"trap '' TERM\nsleep 300 &\n{TOLD} {notes} TERM 143\nsleep 300\n")
    parent = subprocess.Popen(
        [
            *(sys.executable, "-c", stepd, sys.executable, "-I", "-m", "gsched.launch"),
            *("--grace", "3", "--", "/bin/bash", script),
        ],
        env=os.environ | {"SLURM_JOB_ID": "7", "PATH": "/nowhere"},
        stdout=subprocess.PIPE,
        text=True,
    )
    launcher = int(parent.stdout.readline())
    wait_for(notes.exists, "the trainee")
    below = list(Tree().below(launcher))
    parent.kill()
    parent.communicate()
    wait_for(lambda: all(map(is_gone, below)), "all to be gone")
    assert notes.read_text().split() == ["ready", "TERM", "saved"]
