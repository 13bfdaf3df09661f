"""One run at a time in a folder: who holds it, who waits, who is told what."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest

from gsched.ckpt import layout, lock
from gsched.ckpt.lock import Holder, Stage
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink
from gsched.errors import TryAgainError
from gsched.testbed.wait import wait_for

LIMIT_S = 30.0
HERE = Holder("n1", 71, "4711")


class Asked:
    """Somebody who takes the lock: `now` is the stopwatch, which goes on when he sleeps."""

    def __init__(self, folder: Path, holder: Holder = HERE) -> None:
        self.folder = folder
        self.holder = holder
        self.now = 0.0
        self.told: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def take(self) -> lock.FolderLock | None:
        return lock.take(
            self.folder, self.holder, self.told.append, stopwatch=lambda: self.now, sleep=self.sleep
        )

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


def test_it_says_who_has_it_and_is_free_when_it_is_closed(tmp_path):
    asked = Asked(tmp_path)
    held = asked.take()
    assert json.loads((tmp_path / ".lock").read_text()) == {
        **{"host": "n1", "pid": 71, "job": "4711", "restart": 0},
        "stage": "training",
    }
    held.close()
    Asked(tmp_path).take().close()
    assert asked.told == []


@pytest.mark.parametrize(
    ("other", "limit_s"),
    [
        (HERE, 0.0),  # the same process: it would wait for itself
        (Holder("n1", 72, "4712"), lock.TRAINING_WAIT_S),
        (Holder("n2", 72), lock.OTHER_HOST_WAIT_S),
        (Holder("n2", 72, stage=Stage.FINISHING), lock.FINISHING_WAIT_S),
    ],
)
def test_another_run_is_refused_in_the_end(other, limit_s, tmp_path):
    held = Asked(tmp_path, other).take()
    asked = Asked(tmp_path)
    with pytest.raises(TryAgainError) as refused:
        asked.take()
    assert limit_s <= asked.now <= limit_s + 1
    assert f"{tmp_path} is used by another training run ({other.words})" in refused.value.message
    assert "a folder of its own" in refused.value.hint
    assert str(tmp_path / ".lock") in refused.value.hint
    assert len(asked.told) == bool(limit_s)
    held.close()


@pytest.mark.parametrize("stage", Stage)
def test_one_that_ends_is_waited_for(stage, tmp_path):
    held = Asked(tmp_path, Holder("n1", 72, stage=stage)).take()
    asked = Asked(tmp_path)
    asked.meanwhile = lambda: held.close() if abs(asked.now - 10) < 0.1 else None
    asked.take().close()
    is_finishing = stage is Stage.FINISHING
    doing = "still bringing a checkpoint to the disk" if is_finishing else "at work"
    assert asked.told == [
        f"another run is {doing} in {tmp_path} (host n1, process 72): waiting for its end"
    ]


@pytest.mark.parametrize(
    ("stage", "limit_s"),
    [(Stage.TRAINING, lock.TRAINING_WAIT_S), (Stage.FINISHING, lock.STILL_LIMIT_S)],
)
def test_a_later_attempt_takes_it_from_one_that_stays(stage, limit_s, tmp_path):
    before = Asked(tmp_path, Holder("n2", 72, "4711", 1, stage=stage)).take()
    asked = Asked(tmp_path, Holder("n1", 71, "4711", 2))
    held = asked.take()
    assert limit_s <= asked.now <= limit_s + 1
    assert asked.told[-1].startswith(
        f"an earlier attempt of this job (host n2, process 72, job 4711) does not let go of "
        f"{tmp_path}, {limit_s:.0f} s after"
    )
    assert lock.is_ours(held.fd, tmp_path)
    assert not lock.is_ours(before.fd, tmp_path)
    assert json.loads((tmp_path / ".lock").read_text())["restart"] == 2
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    before.close()
    with pytest.raises(TryAgainError):  # it holds as any other does
        Asked(tmp_path, Holder("n1", 73, "4712")).take()
    held.close()


@pytest.mark.parametrize(
    "own", [Holder("n1", 71, "4712", 2), Holder("n1", 71, "4711", 1), Holder("n1", 71, "", 2)]
)
def test_nobody_else_does(own, tmp_path):
    """Another job, the same attempt once more, a run outside of Slurm."""
    other = Holder("n2", 72, own.job and "4711", 1, stage=Stage.FINISHING)
    held = Asked(tmp_path, other).take()
    with pytest.raises(TryAgainError):
        Asked(tmp_path, own).take()
    assert lock.is_ours(held.fd, tmp_path)
    held.close()


def test_an_earlier_attempt_is_waited_for_as_long_as_it_writes(tmp_path):
    before = Asked(tmp_path, Holder("n2", 72, "4711", 1, stage=Stage.FINISHING)).take()
    asked = Asked(tmp_path, Holder("n1", 71, "4711", 2))
    partial = tmp_path / layout.partial_name(5, "a" * 12)
    partial.mkdir()

    def write() -> None:
        if asked.now < 600:
            (partial / "rank").write_bytes(b"x" * int(asked.now))

    asked.meanwhile = write
    asked.take().close()
    assert 600 + lock.STILL_LIMIT_S - 6 <= asked.now <= 600 + lock.STILL_LIMIT_S + 6
    assert "an earlier attempt of this job is still bringing a checkpoint" in asked.told[0]
    before.close()


def test_a_lock_that_a_person_has_removed_is_ours_until_another_comes(tmp_path):
    held = Asked(tmp_path).take()
    (tmp_path / ".lock").unlink()
    assert lock.is_ours(held.fd, tmp_path)
    other = Asked(tmp_path, Holder("n1", 72)).take()
    assert not lock.is_ours(held.fd, tmp_path)
    held.close()
    other.close()


def test_of_a_short_wait_nothing_is_said(tmp_path):
    held = Asked(tmp_path, Holder("n1", 72)).take()
    asked = Asked(tmp_path)
    asked.meanwhile = lambda: held.close() if asked.now < 0.3 else None
    asked.take().close()
    assert asked.told == []


def test_one_that_a_dead_host_has_is_given_up_by_removing_it(tmp_path):
    held = Asked(tmp_path, Holder("n2", 72)).take()
    asked = Asked(tmp_path)
    asked.meanwhile = lambda: (tmp_path / ".lock").unlink(missing_ok=True)
    asked.take().close()
    held.close()


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_without_locks_the_run_goes_on_and_says_so(error, tmp_path):
    asked = Asked(tmp_path)
    with patch.object(fcntl, "flock", side_effect=OSError(error, os.strerror(error))):
        assert asked.take() is None
    assert "nothing keeps another run out" in asked.told[0]
    assert os.strerror(error) in asked.told[0]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"[",
        b"{}",
        b'{"host": "n1", "pid": 1, "job": "", "stage": "training"}',
        b'{"host": "\\u001b[31m", "pid": 1, "job": "", "restart": 0, "stage": "training"}',
        b'{"host": "n1", "pid": "1", "job": "", "restart": 0, "stage": "training"}',
        b'{"host": "n1", "pid": 1, "job": "", "restart": "0", "stage": "training"}',
        b'{"host": ["n1"], "pid": 1, "job": "", "restart": 0, "stage": ["x"]}',
        b" " * 5000,
    ],
)
def test_what_it_says_may_be_nonsense(said, tmp_path):
    held = Asked(tmp_path).take()
    (tmp_path / ".lock").write_bytes(said)
    with pytest.raises(TryAgainError, match="which one is not known"):
        Asked(tmp_path).take()
    held.close()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    asked = Asked(tmp_path)
    assert asked.take() is None
    assert asked.told
    assert not (tmp_path / "elsewhere").exists()


_TRAINER = """
import sys, time
from pathlib import Path
from gsched.ckpt import layout, lock
from gsched.ckpt.manifest import Job
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink

folder = Path(sys.argv[1])
job = Job(sys.argv[2], 0) if len(sys.argv) > 2 else None
held = lock.take(folder, lock.Holder.this_process(job), print)
link = WriterLink.open(RunTarget(folder, layout.new_run()), lock=held)
link.ensure_room(1000)
slot = link.free_slot()
link.filled(slot, 5, 100)
print(link.writer_pid, flush=True)
time.sleep(600)
"""


def test_a_writer_holds_it_until_all_is_written(tmp_path):
    """The trainer is killed; the next one waits until the step that it has left is committed."""
    argv = [sys.executable, "-P", "-c", _TRAINER, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as trainer:
        writer = int(trainer.stdout.readline())
        os.kill(writer, signal.SIGSTOP)
        trainer.kill()
    asked = Asked(tmp_path, Holder(socket.gethostname(), 1))
    with pytest.raises(TryAgainError, match=f"process {trainer.pid}"):
        asked.take()
    os.kill(writer, signal.SIGCONT)
    lock.take(tmp_path, asked.holder, asked.told.append).close()
    assert (tmp_path / layout.step_name(5)).is_dir()


def test_a_writer_that_hangs_commits_nothing_once_a_later_attempt_has_the_folder(tmp_path):
    """The trainer is killed, its writer stands still; what it writes later must not be seen."""
    argv = [sys.executable, "-P", "-c", _TRAINER, str(tmp_path), "4711"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as trainer:
        writer = int(trainer.stdout.readline())
        os.kill(writer, signal.SIGSTOP)
        trainer.kill()
    later = Asked(tmp_path, Holder(socket.gethostname(), 1, "4711", 1))
    held = later.take()
    assert later.now <= lock.TRAINING_WAIT_S + 1  # it could not even say that it finishes
    pidfd = os.pidfd_open(writer)
    os.kill(writer, signal.SIGCONT)
    wait_for(lambda: select.select([pidfd], [], [], 0)[0], "the writer to end")
    os.close(pidfd)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock"]
    assert json.loads((tmp_path / ".lock").read_text())["restart"] == 1
    held.close()


def test_after_the_trainer_it_names_the_writer(tmp_path):
    held = Asked(tmp_path).take()
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()), lock=held)
    writer = link.writer_pid
    os.kill(writer, signal.SIGSTOP)
    link.close(0.0)
    os.kill(writer, signal.SIGCONT)
    wait_for(lambda: "finishing" in (tmp_path / ".lock").read_text(), "the writer's word")
    said = json.loads((tmp_path / ".lock").read_text())
    who = {"host": "n1", "pid": writer, "job": "4711", "restart": 0}
    assert said == {**who, "stage": "finishing"}


def test_a_forked_child_of_the_trainer_does_not_hold_it(tmp_path):
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()), lock=Asked(tmp_path).take())
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(read, 1)
        os._exit(0)
    link.close(LIMIT_S)
    Asked(tmp_path, Holder("n1", 72)).take().close()
    os.write(write, b"x")
    os.waitpid(child, 0)
    os.close(read)
    os.close(write)


def test_a_writer_started_anew_holds_it_too(tmp_path):
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()), lock=Asked(tmp_path).take())
    link.ensure_room(1000)
    os.kill(link.writer_pid, signal.SIGKILL)
    link.filled(link.free_slot(), 5, 100)
    link.persist(5, Reason.ASKED)
    assert isinstance(link.wait(5, LIMIT_S), Committed)
    files = [os.path.realpath(p) for p in Path(f"/proc/{link.writer_pid}/fd").iterdir()]
    assert str(tmp_path / ".lock") in files
    link.close(LIMIT_S)
