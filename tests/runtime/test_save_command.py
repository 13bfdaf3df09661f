"""The wrapper for trainings that know nothing of gsched: what it runs, passes on, and answers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support import saving_on_demand
from support.saving_on_demand import SAVE_NOW

from gsched.testbed.wait import wait_for

WRAPPER = (sys.executable, "-m", "gsched.runtime.save_command")
STATUS = 5


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the training saves: a real file of torch.save."""
    path = tmp_path_factory.mktemp("saved") / "model.pt"
    torch.save({"weight": torch.arange(100.0), "step": 7}, path)
    return path


class Wrapped:
    """A wrapper that runs, with its training; `log` is what the training has done."""

    def __init__(self, folder: Path, checkpoint: Path, *save: str, grace_s: float = 20.0) -> None:
        train = (
            sys.executable,
            saving_on_demand.__file__,
            str(folder),
            str(checkpoint),
            str(STATUS),
        )
        options = ("--checkpoints", str(folder), "--grace-s", str(grace_s))
        self._folder = folder
        self.process = subprocess.Popen(
            [*WRAPPER, *options, "--save", *save, "--", *train],
            env=os.environ | {"GSCHED_STOPPED_MARK": str(folder / "stopped")},
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_for(lambda: "started" in self.log, "the training")

    @property
    def log(self) -> list[str]:
        path = self._folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def end(self) -> str:
        """Wait for the end with the training's status; gives what the wrapper said."""
        said = self.process.communicate(timeout=60)[1]
        assert self.process.returncode == STATUS, said
        return said


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that must not outlive the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.terminate()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()


@pytest.fixture
def wrap(tmp_path: Path, checkpoint: Path, started: list[subprocess.Popen[str]]):
    def make(*save: str, grace_s: float = 20.0) -> Wrapped:
        wrapped = Wrapped(tmp_path, checkpoint, *save, grace_s=grace_s)
        started.append(wrapped.process)
        return wrapped

    return make


def test_term_is_passed_on_after_the_checkpoint(wrap, tmp_path: Path) -> None:
    wrapped = wrap("touch", str(tmp_path / SAVE_NOW))
    wrapped.process.terminate()
    said = wrapped.end()
    assert wrapped.log == ["started", "saved 1", "TERM"]
    assert "TERM: saving by 'touch'" in said
    assert (tmp_path / "stopped").exists(), "the job's batch process knows: this is not the end"
    assert str(tmp_path / "saved-1.pt") in said


def test_usr1_saves_and_the_training_goes_on(wrap, tmp_path: Path) -> None:
    wrapped = wrap("touch", str(tmp_path / SAVE_NOW))
    for number in (1, 2):
        wrapped.process.send_signal(signal.SIGUSR1)
        line = f"saved {number}"
        wait_for(lambda line=line: line in wrapped.log, line)
        # the wrapper looks before it takes the next one for another wish
        wait_for(lambda: not (tmp_path / SAVE_NOW).exists(), "the wish to be taken")
        assert wrapped.process.stderr is not None
        assert "saving" in wrapped.process.stderr.readline()
        assert "saved after" in wrapped.process.stderr.readline()
    assert not (tmp_path / "stopped").exists()
    wrapped.process.terminate()
    wrapped.end()
    assert wrapped.log == ["started", "saved 1", "saved 2", "saved 3", "TERM"]


def test_many_signals_are_one_save(wrap, tmp_path: Path) -> None:
    count, gate = tmp_path / "count", tmp_path / "gate"
    os.mkfifo(gate)
    slow = f"echo x >> {count}; cat {gate}; touch {tmp_path / SAVE_NOW}"
    wrapped = wrap("sh", "-c", slow)
    for signum in (signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1, signal.SIGTERM):
        wrapped.process.send_signal(signum)
        wait_for(count.exists, "the save command")
    gate.write_text("")  # lets it go on
    wrapped.end()
    assert count.read_text() == "x\n"
    assert wrapped.log == ["started", "saved 1", "TERM"]


@pytest.mark.parametrize(
    ("save", "words"),
    [
        (("false",), "ended with exit status 1"),
        (("/no/such/command",), "could not be started: No such file"),
        (("sh", "-c", "kill -9 $$"), "ended with signal 9"),
    ],
)
def test_a_save_that_fails_does_not_keep_the_signal(wrap, save, words: str) -> None:
    wrapped = wrap(*save)
    wrapped.process.terminate()
    assert words in wrapped.end()
    assert wrapped.log == ["started", "TERM"]


def test_a_save_that_hangs_is_ended_and_the_signal_passed_on(wrap, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    wrapped = wrap("sh", "-c", f"echo $$ > {pid}; exec sleep 1000", grace_s=1.0)
    wrapped.process.terminate()
    assert "the save command still runs" in wrapped.end()
    assert wrapped.log == ["started", "TERM"]
    wait_for(
        lambda: not Path(f"/proc/{int(pid.read_text())}").exists(), "the end of the save command"
    )


def test_success_without_a_checkpoint_is_no_success(wrap) -> None:
    wrapped = wrap("true", grace_s=1.0)
    wrapped.process.terminate()
    assert "no newer valid checkpoint" in wrapped.end()


def test_a_torn_checkpoint_does_not_count(wrap, tmp_path: Path, checkpoint: Path) -> None:
    target = tmp_path / "model.pt"
    wrapped = wrap("sh", "-c", f"head -c 700 {checkpoint} > {target}", grace_s=1.0)
    wrapped.process.terminate()
    assert "no newer valid checkpoint" in wrapped.end()
    assert target.stat().st_size == 700


def test_a_checkpoint_that_is_written_over_counts(wrap, tmp_path: Path, checkpoint: Path) -> None:
    target = tmp_path / "model.pt"
    target.write_bytes(checkpoint.read_bytes())
    os.utime(target, (1_700_000_000, 1_700_000_000))
    wrapped = wrap("cp", str(checkpoint), str(target))
    wrapped.process.terminate()
    assert str(target) in wrapped.end()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGQUIT])
def test_other_signals_are_passed_on_at_once(wrap, tmp_path: Path, signum: int) -> None:
    wrapped = wrap("touch", str(tmp_path / "ran"))
    wrapped.process.send_signal(signum)
    wrapped.process.communicate(timeout=60)
    assert wrapped.process.returncode == 128 + signum
    assert not (tmp_path / "ran").exists()


def test_the_training_may_end_during_the_save(wrap, tmp_path: Path) -> None:
    end_it = "import os, signal; os.kill(int(os.environ['GSCHED_TRAIN_PID']), signal.SIGTERM)"
    wrapped = wrap(sys.executable, "-c", end_it, grace_s=1.0)
    wrapped.process.send_signal(signal.SIGUSR1)
    wrapped.end()
    assert wrapped.log == ["started", "TERM"]


def test_the_save_command_is_told_what_it_needs_and_no_shell_reads_it(wrap, tmp_path: Path) -> None:
    script = tmp_path / "told.py"
    script.write_text(
        "import os, sys\n"
        f"with open({str(tmp_path / 'told')!r}, 'w') as out:\n"
        "    print(sys.argv[1:], file=out)\n"
        "    print(os.environ['GSCHED_SIGNAL'], os.environ['GSCHED_CHECKPOINT_DIR'], file=out)\n"
        "sys.exit(1)\n"
    )
    wrapped = wrap(sys.executable, str(script), "$HOME; touch x", "a  b", "*")
    wrapped.process.terminate()
    wrapped.end()
    told = (tmp_path / "told").read_text().splitlines()
    assert told == ["['$HOME; touch x', 'a  b', '*']", f"TERM {tmp_path}"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--save", "true", "--", "sh", "-c", "exit 7"), 7),
        (("--save", "true", "--", "true"), 0),
        (("--save", "true", "--", "sh", "-c", "kill -9 $$"), 128 + 9),
        (("--save", "true", "--", "/no/such/program"), 127),
        (("--save", "true", "--", "/dev/null"), 126),
        (("--save", "true"), 2),
        (("--save", "--", "true"), 2),
        (("--grace-s", "0", "--save", "true", "--", "true"), 2),
        (("--grace-s", "nan", "--save", "true", "--", "true"), 2),
        (("--", "true"), 2),
    ],
)
def test_exit_codes(words: tuple[str, ...], code: int) -> None:
    done = subprocess.run([*WRAPPER, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


def test_neither_torch_nor_numpy_is_loaded() -> None:
    code = "import sys, gsched.runtime.save_command; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
