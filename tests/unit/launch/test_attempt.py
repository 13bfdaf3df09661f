"""One attempt of a job from its start to its end: real processes, no Slurm."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.checkpoints import write_checkpoint
from support.gpus import gpu, recording
from support.launching import is_gone, launch

from gsched.launch.processes import Tree
from gsched.telemetry.attempts import read_register
from gsched.telemetry.user_folders import UserFolders
from gsched.testbed.wait import wait_for

ENDS = [
    *(("true", 0), ("exit 3", 3), ("no-such", 127)),
    *(("kill -9 $$", -9), ("kill -SEGV $$", -11), ("kill -PIPE $$", -13)),
]
NOBODY = 65534

GLIBCS_OWN = 0b11 << 31
"""Signals 32 and 33 of the thread library, which no program can name."""


@pytest.mark.parametrize(("body", "code"), ENDS)
def test_ends_as_the_script_did(tmp_path, body, code):
    run = launch(tmp_path, body)
    assert run.end()[0] == code
    assert not run.folder.exists()


def test_the_launcher_leaves_no_core_for_a_script_that_dumped_one(tmp_path):
    command = f"{sys.executable} -I -m gsched.launch -- /bin/sh -c 'kill -QUIT $$'"
    argv = ["/bin/bash", "-c", f"cd {tmp_path}; ulimit -c $(ulimit -Hc); exec {command}"]
    _, status = os.waitpid(os.posix_spawn(argv[0], argv, os.environ), 0)
    assert os.WTERMSIG(status) == signal.SIGQUIT
    assert not os.WCOREDUMP(status)


def test_a_command_that_is_not_there_is_said(tmp_path):
    argv = [sys.executable, "-I", "-m", "gsched.launch", "--", "/no/such", "x"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 127
    assert "gsched: error: /no/such cannot be run: No such file or directory\n" in done.stderr


def test_a_command_that_may_not_be_run_is_said(tmp_path):
    argv = [sys.executable, "-I", "-m", "gsched.launch", "--", tmp_path]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("cannot be run: Permission denied")) == (126, 1)


def test_check_says_that_it_can_run_here():
    argv = [sys.executable, "-I", "-m", "gsched.launch", "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_arguments_streams_and_dispositions_are_the_scripts_own(tmp_path):
    shown = "grep -E 'SigBlk|SigIgn' /proc/self/status | cut -f2 | tr '\\n' ' '"
    code, said = launch(tmp_path, f'echo "$#,$1,$2,$(cat)"; {shown}').end()
    assert code == 0
    assert "2,first,second word," in said
    blocked, ignored = (int(word, 16) for word in said.splitlines()[-1].split())
    assert (blocked, ignored & ~GLIBCS_OWN) == (0, 0)


def test_the_job_is_told_at_the_start(tmp_path):
    environ = {
        "SLURM_JOB_ID": "71",
        "SLURM_JOB_NAME": "a\nb",
        "SLURM_RESTART_COUNT": "2",
        "SLURMD_NODENAME": "gn7",
        "WORLD_SIZE": "4",
        "MASTER_ADDR": "gn1",
    }
    _, said = launch(tmp_path, "env", "--checkpoints", "ck", **environ).end()
    assert said.splitlines()[:2] == [
        rf"gsched: attempt 3 of job 71 (a\nb), restart 2, on gn7, checkpoints in {tmp_path}/ck/71",
        "gsched: left out, as of another run: MASTER_ADDR, WORLD_SIZE",
    ]
    variables = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    assert variables["GSCHED_CHECKPOINT_DIR"] == f"{tmp_path}/ck/71"
    assert variables["GSCHED_ATTEMPT"] == "3"
    assert not {"WORLD_SIZE", "MASTER_ADDR", "SLURM_TASK_PROLOG"} & set(variables)


def test_ranks_are_told_where_they_meet(tmp_path):
    environ = {"SLURM_JOB_ID": "71", "SLURM_NTASKS": "4", "SLURMD_NODENAME": "localhost"}
    environ["SLURM_TASK_PROLOG"] = "/own/prolog"
    _, said = launch(tmp_path, "env", "--ranks", **environ).end()
    variables = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
    assert (variables["MASTER_ADDR"], variables["WORLD_SIZE"]) == ("localhost", "4")
    assert variables["PET_RDZV_ENDPOINT"] == f"localhost:{variables['MASTER_PORT']}"
    assert (variables["GSCHED_RANKS"], variables["GSCHED_PYTHON"]) == ("1", sys.executable)
    assert os.access(variables["SLURM_TASK_PROLOG"], os.X_OK)
    assert variables["GSCHED_NEXT_TASK_PROLOG"] == "/own/prolog"


def is_kept(port):
    """Whether a launcher keeps it from those of other jobs."""
    with closing(socket.socket(socket.AF_UNIX)) as probe:
        try:
            probe.bind(f"\0gsched-port-{port}")
        except OSError:
            return True
    return False


def test_the_port_is_kept_from_other_jobs_as_long_as_the_job_runs(tmp_path):
    run = launch(tmp_path, "echo $MASTER_PORT >$F\n@", "--ranks", SLURM_JOB_ID="71")
    wait_for(lambda: "ready" in run.words(), "the trainee", 20)
    port = run.words()[0]
    assert is_kept(port)
    run.notes.with_suffix(".go").touch()
    assert run.end()[0] == 0
    assert not is_kept(port)


def test_nodes_that_do_not_see_the_hooks_are_not_told_of_them(tmp_path):
    """A prolog that is not there would fail the task; this host's disk is its own."""
    environ = {"SLURM_JOB_ID": "71", "SLURM_JOB_NUM_NODES": "2"}
    _, said = launch(tmp_path, 'echo "hook: ${SLURM_TASK_PROLOG-none}"', "--ranks", **environ).end()
    assert "hook: none\n" in said
    assert "gsched: RANK and LOCAL_RANK are not set: the job's nodes have no task prolog" in said


def test_the_gpus_of_this_node_are_sampled(tmp_path):
    beats = tmp_path / "beats"
    beats.mkdir()
    beats.chmod(0o1777)
    environ = {"SLURM_JOB_ID": "71", "SLURMD_NODENAME": "gn7", "CUDA_VISIBLE_DEVICES": "0"}
    environ["GSCHED_GPU_RECORDING"] = str(recording(tmp_path / "recording", [gpu()]))
    body = (
        "until ls $GSCHED_HEARTBEAT_DIR/*/71.gpu.*; do sleep 0.1; done; echo $GSCHED_SAMPLED_NODE"
    )
    code, said = launch(tmp_path, body, "--heartbeat", str(beats), **environ).end()
    assert (code, said.splitlines()[-1]) == (0, "gn7")


def test_a_writer_listens_beside_the_script_and_ends_with_it(tmp_path):
    body = 'test -S "$GSCHED_CKPT_WRITER" && pgrep -f -- "--listen $GSCHED_CKPT_WRITER"'
    code, said = launch(tmp_path, body, "--checkpoints", "ck").end()
    assert code == 0
    writer = next(line for line in said.splitlines() if line.isdecimal())
    assert is_gone(int(writer))


def test_a_trainers_own_writer_is_waited_for(tmp_path):
    """As of one of several nodes, or of a script that starts its own."""
    writer = f"{sys.executable} -I -m gsched.ckpt.writer"
    body = (
        f"sleep 300 & echo $! >>$F\n{writer} --listen {tmp_path}/own & echo $! >>$F\n"
        f"until [ -S {tmp_path}/own ]; do sleep 0.1; done\nexit 3"
    )
    run = launch(tmp_path, body)
    wait_for(lambda: len(run.words()) == 2, "what the script starts", 20)
    other, own = map(int, run.words())
    wait_for(lambda: is_gone(other), "the end of what is no writer", 20)
    assert not is_gone(own)
    subprocess.run([*writer.split(), "--end", f"{tmp_path}/own"], check=True)
    assert run.end()[0] == 3


STARTS_WRITER = """
import contextlib, os, pathlib, sys
from gsched.launch.child_process import Children
from gsched.launch.writer import WriterOutside
folder, limit_s = pathlib.Path(sys.argv[1]), float(sys.argv[2])
assert WriterOutside.start(folder, os.environ, Children(), limit_s) is None
with contextlib.suppress(ChildProcessError):  # it has ended already, or never began
    os.waitpid(-1, 0)
"""


def taken(folder):
    (folder / "writer").touch()
    return folder


def too_long(folder):
    folder /= "x" * 100
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    ("place", "limit_s", "words"),
    [
        (Path, 0, "not ready within 0 s\n"),
        (taken, 20, "it ended at once\n"),
        (too_long, 20, "is too long for a socket\n"),
    ],
)
def test_a_writer_that_does_not_get_ready_is_told_and_ended(tmp_path, place, limit_s, words):
    argv = [sys.executable, "-I", "-c", STARTS_WRITER, place(tmp_path), str(limit_s)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1].startswith("gsched: no checkpoint writer outside the steps")
    assert done.stderr.endswith(words)


def test_nothing_stays_on_the_node_when_the_launcher_is_killed(tmp_path):
    """Its witness and its writer see to that."""
    run = launch(tmp_path, "trap '' TERM\n@", "--checkpoints", "ck")
    run.wait_for_words("ready")
    below = list(Tree().below(run.process.pid))
    assert len(below) == 4  # the witness, the writer, the shell, the trainee
    run.process.kill()
    run.process.communicate()
    wait_for(lambda: all(map(is_gone, below)), "all to be gone")
    assert not run.folder.exists()


def test_what_a_job_has_left_that_was_killed_as_a_whole_goes_with_the_next(tmp_path):
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    killed = launch(folders[0], "@", job_dir=tmp_path / "gsched-job.1")
    killed.wait_for_words("ready")
    everything = [killed.process.pid, *Tree().below(killed.process.pid)]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # none is to see another's end
        for pid in everything:
            os.kill(pid, number)
    killed.process.communicate()
    assert killed.folder.exists()
    no_launchers = tmp_path / "gsched-job.3"  # of a script that runs without one
    no_launchers.mkdir()
    lives = launch(folders[1], "@", job_dir=tmp_path / "gsched-job.2")
    lives.wait_for_words("ready")
    assert not killed.folder.exists()
    assert launch(folders[2], "true", job_dir=tmp_path / "gsched-job.4").end()[0] == 0
    assert lives.folder.exists()
    assert no_launchers.exists()
    lives.notes.with_suffix(".go").touch()
    assert lives.end()[0] == 0


@pytest.mark.parametrize(
    ("options", "environ"),
    [([], {}), (["--checkpoints", "ck"], {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"})],
)
def test_no_writer_without_checkpoints_nor_for_several_nodes(tmp_path, options, environ):
    _, said = launch(
        tmp_path, 'echo "writer: ${GSCHED_CKPT_WRITER-none}"', *options, **environ
    ).end()
    assert "writer: none" in said


def test_output_of_each_attempt_in_a_file_of_its_own(tmp_path):
    output = tmp_path / "slurm-7.out"
    script = tmp_path / "script"
    script.write_text("echo out; echo err >&2\n")
    for restart in ("0", "1"):
        environ = os.environ | {"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": restart}
        with output.open("a") as file:
            subprocess.run(
                [
                    *(sys.executable, "-I", "-m", "gsched.launch", "--attempt-logs"),
                    *("--", "/bin/sh", script),
                ],
                stdout=file, stderr=file, env=environ, check=True,
            )  # fmt: skip
    lines = output.read_text().splitlines()
    assert len(lines) == 2
    for number, line in enumerate(lines, 1):
        log = Path(f"{output}.attempt-{number}")
        assert line.startswith(f"gsched: attempt {number} of job 7")
        assert line.endswith(f"its output goes to {log}")
        assert log.read_text().splitlines()[-2:] == ["out", "err"]


def test_a_log_that_is_there_is_not_written_over(tmp_path):
    (tmp_path / "out.attempt-1").write_text("of an earlier job with the same output file\n")
    with (tmp_path / "out").open("a") as file:
        argv = [sys.executable, "-I", "-m", "gsched.launch", "--attempt-logs", "--", "echo", "x"]
        environ = os.environ | {"SLURM_JOB_ID": "7"}
        subprocess.run(argv, stdout=file, stderr=file, env=environ, check=True)
    lines = (tmp_path / "out.attempt-1").read_text().splitlines()
    assert (lines[0], lines[-1]) == ("of an earlier job with the same output file", "x")


def test_an_output_file_that_was_removed_has_no_logs_beside_it(tmp_path):
    output, named_like_it = tmp_path / "out", tmp_path / "out (deleted)"
    with output.open("a") as file:
        output.unlink()
        named_like_it.touch()
        argv = [sys.executable, "-I", "-m", "gsched.launch", "--attempt-logs", "--", "echo", "x"]
        environ = os.environ | {"SLURM_JOB_ID": "7"}
        subprocess.run(argv, stdout=file, stderr=file, env=environ, check=True)
    assert list(tmp_path.iterdir()) == [named_like_it]


def test_where_slurms_output_is_no_file_it_stays_as_it_is(tmp_path):
    code, said = launch(tmp_path, "echo out", "--attempt-logs", SLURM_JOB_ID="7").end()
    assert code == 0
    assert "gsched: no log of this attempt alone: Slurm's output is no file\n" in said
    assert said.endswith("out\n")


def test_a_link_is_not_followed_to_an_attempts_log(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine\n")
    (tmp_path / "out.attempt-1").symlink_to(victim)
    with (tmp_path / "out").open("a") as file:
        argv = [sys.executable, "-I", "-m", "gsched.launch", "--attempt-logs", "--", "echo", "x"]
        environ = os.environ | {"SLURM_JOB_ID": "7"}
        subprocess.run(argv, stdout=file, stderr=file, env=environ, check=True)
    assert victim.read_text() == "mine\n"
    assert "no log of this attempt alone" in (tmp_path / "out").read_text()


def test_nor_is_a_log_anything_else_that_somebody_has_put_there(tmp_path):
    fifo, other = tmp_path / "fifo", tmp_path / "other"
    os.mkfifo(f"{fifo}.attempt-1")
    Path(f"{other}.attempt-1").touch(0o666)
    os.chown(f"{other}.attempt-1", NOBODY, -1)
    for path in (fifo, other):
        with path.open("a") as file:
            argv = [sys.executable, "-I", "-m", "gsched.launch", "--attempt-logs", "--", "echo"]
            environ = os.environ | {"SLURM_JOB_ID": "7"}
            subprocess.run(argv, stdout=file, stderr=file, env=environ, check=True)
        assert "no log of this attempt alone" in path.read_text()
    assert Path(f"{other}.attempt-1").read_text() == ""


PIN = ".gsched-evaluates-7"


def test_what_is_told_is_told_for_this_job_alone(tmp_path):
    """A job that its script submits by sbatch itself inherits all of it."""
    shows = (
        "import os; from gsched.telemetry.job_environment import of_this_job as of;"
        "print(*(bool(of(os.environ, n)) for n in os.environ if n.startswith('GSCHED_')"
        " and n.endswith(('DIR', 'MARK', 'WRITER'))))"
    )
    body = f'for SLURM_JOB_ID in 7 8; do {sys.executable} -I -c "{shows}"; done'
    code, said = launch(tmp_path, body, "--checkpoints", "ck", SLURM_JOB_ID="7").end()
    assert (code, said.splitlines()[-2:]) == (0, ["True True True", "False False False"])


def evaluated(tmp_path, restart="0"):
    """Exit code, and what the script was told, or else all that was said."""
    run = launch(
        tmp_path, 'echo "of: $GSCHED_EVAL_CHECKPOINT"', "--evaluate", "run",
        SLURM_JOB_ID="7", SLURM_RESTART_COUNT=restart,
    )  # fmt: skip
    code, said = run.end()
    return code, next((line[4:] for line in said.splitlines() if line.startswith("of: ")), said)


def test_an_evaluation_looks_at_the_newest_valid_checkpoint(tmp_path):
    whole = write_checkpoint(tmp_path / "run", 10)
    torn = write_checkpoint(tmp_path / "run", 20)
    next(torn.glob("*.safetensors")).write_bytes(b"")
    assert evaluated(tmp_path) == (0, str(whole))


def slurm_says(tmp_path, words):
    """Stands in for squeue; gives the PATH that finds it."""
    squeue = tmp_path / "squeue"
    squeue.write_text(f"#!/bin/sh\necho {words}\n")
    squeue.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("words", "is_kept"),
    [
        ("COMPLETING 4000000000 N/A 1", True),  # as of a job that is being requeued
        ("COMPLETING 1700000000 N/A 1", True),
        ("COMPLETING 4000000000 N/A 0", True),
        ("RUNNING 4000000000 N/A 0", True),
        ("", True),
        ("COMPLETING 1700000000 N/A 0", False),  # as of one that is cancelled
    ],
)
def test_a_requeued_evaluation_looks_at_the_same_one(tmp_path, words, is_kept):
    first = write_checkpoint(tmp_path / "run", 10)
    environ = {"SLURM_JOB_ID": "7", "PATH": slurm_says(tmp_path, words)}
    run = launch(tmp_path, "@", "--evaluate", "run", "--grace", "5", **environ)
    run.wait_for_words("ready")
    run.signal("TERM")
    assert run.end()[0] == 143
    newer = write_checkpoint(tmp_path / "run", 20)
    assert (tmp_path / PIN).exists() is is_kept
    assert evaluated(tmp_path, restart="1") == (0, str(first if is_kept else newer))
    assert not (tmp_path / PIN).exists()
    assert evaluated(tmp_path) == (0, str(newer))


def test_an_evaluation_that_fails_may_be_requeued_as_well(tmp_path):
    first = write_checkpoint(tmp_path / "run", 10)
    launch(tmp_path, "exit 5", "--evaluate", "run", SLURM_JOB_ID="7", PATH="/nowhere").end()
    write_checkpoint(tmp_path / "run", 20)
    assert evaluated(tmp_path, restart="1") == (0, str(first))


def test_what_a_job_of_that_number_has_left_before_is_not_this_ones(tmp_path):
    (tmp_path / PIN).write_text(f"7\n{write_checkpoint(tmp_path / 'run', 10)}")
    newer = write_checkpoint(tmp_path / "run", 20)
    assert evaluated(tmp_path) == (0, str(newer))


def test_where_the_one_has_gone_another_is_chosen(tmp_path):
    (tmp_path / PIN).write_text(f"7\n{tmp_path}/run/gone")
    (tmp_path / PIN).chmod(0o600)
    newer = write_checkpoint(tmp_path / "run", 20)
    assert evaluated(tmp_path, restart="1") == (0, str(newer))


def link(pin):
    pin.symlink_to(pin.with_name("choice"))


def second_name(pin):
    pin.hardlink_to(pin.with_name("choice"))


def another_users(pin):
    pin.write_bytes(pin.with_name("choice").read_bytes())
    os.chown(pin, NOBODY, -1)


def that_all_may_write(pin):
    pin.write_bytes(pin.with_name("choice").read_bytes())
    pin.chmod(0o666)


def another_jobs(pin):
    pin.write_bytes(b"8" + pin.with_name("choice").read_bytes()[1:])


@pytest.mark.parametrize("restart", ["0", "1"])
@pytest.mark.parametrize(
    "put", [link, second_name, os.mkfifo, another_users, that_all_may_write, another_jobs]
)
def test_nobody_else_decides_what_is_evaluated_or_written(tmp_path, put, restart):
    """The job's folder may be one that colleagues can write."""
    choice = tmp_path / "choice"
    text = f"7\n{write_checkpoint(tmp_path / 'run', 10)}"
    choice.write_text(text)
    newest = write_checkpoint(tmp_path / "run", 20)
    put(tmp_path / PIN)
    assert evaluated(tmp_path, restart) == (0, str(newest))
    assert choice.read_text() == text


def test_an_evaluation_without_a_valid_checkpoint_does_not_begin(tmp_path):
    (tmp_path / "run").mkdir()
    code, said = evaluated(tmp_path)
    assert code == 4
    assert f"gsched: error: no valid checkpoint in {tmp_path}/run\n" in said


def test_an_attempt_is_registered(tmp_path):
    beats = tmp_path / "beats"
    beats.mkdir()
    beats.chmod(0o1777)
    run = launch(
        tmp_path, "@", "--checkpoints", "ck", "--grace", "5", "--heartbeat", str(beats),
        SLURM_JOB_ID="7", SLURM_RESTART_COUNT="1", SLURMD_NODENAME="gn7",
    )  # fmt: skip
    run.wait_for_words("ready")
    run.signal("USR1")
    run.wait_for_words("ready", "USR1")
    run.signal("TERM")
    assert run.end()[0] == 143
    (attempt,) = read_register(UserFolders(beats), os.getuid(), "7").attempts
    assert (attempt.restart, attempt.host, attempt.exit_code) == (1, "gn7", 143)
    assert attempt.checkpoints == f"{tmp_path}/ck/7"
    assert [name for name, _ in attempt.signals] == ["USR1", "TERM"]


def test_a_command_that_cannot_be_started_ends_its_attempt(tmp_path):
    beats = tmp_path / "beats"
    beats.mkdir()
    beats.chmod(0o1777)
    argv = [sys.executable, "-I", "-m", "gsched.launch", "--heartbeat", beats, "--", "/no/such"]
    done = subprocess.run(argv, env=os.environ | {"SLURM_JOB_ID": "7"}, check=False)
    (attempt,) = read_register(UserFolders(beats), os.getuid(), "7").attempts
    assert attempt.exit_code == done.returncode == 127


def test_a_register_that_cannot_be_written_is_said_once(tmp_path):
    code, said = launch(tmp_path, "exit 3", "--heartbeat", "/no/such", SLURM_JOB_ID="7").end()
    assert code == 3
    user = os.getuid()
    words = f"gsched: this attempt is not in the register of attempts: /no/such/{user}: No such"
    assert said.count("register of attempts") == said.count(words) == 1
