"""Writers outside the job step: a socket, trainers that come and go, and an orderly end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import link_trainer

from gsched.ckpt import layout, manifest
from gsched.ckpt.catalogue import newest_valid
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer import start
from gsched.ckpt.writer.link import WriterLink
from gsched.ckpt.writer.messages import Notice
from gsched.errors import UnavailableError
from gsched.testbed.wait import wait_for

LIMIT_S = 30.0
WRITER = [sys.executable, "-m", "gsched.ckpt.writer"]


@contextmanager
def writer(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A writer that listens, killed at the end where it has not ended."""
    with subprocess.Popen([*WRITER, "--listen", str(path)]) as process:
        try:
            wait_for(lambda: answers(path), "a writer that listens", timeout_s=LIMIT_S)
            yield process
        finally:
            process.kill()


@pytest.fixture
def listening(tmp_path) -> Iterator[Path]:
    path = tmp_path / "writer.sock"
    with writer(path) as process:
        yield path
        if path.exists():
            ended = end(path)
            assert ended.returncode == 0, ended.stderr
        assert process.wait(LIMIT_S) == 0
        assert not path.exists()


def answers(path: Path) -> bool:
    try:
        start.connect(path).close()
    except UnavailableError:
        return False
    return True


def end(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WRITER, "--end", str(path)], capture_output=True, text=True)


def fill(link: WriterLink, step: int, data: bytes) -> None:
    link.ensure_room(len(data))
    slot = link.free_slot()
    assert slot is not None
    link.buffer(slot)[: len(data)] = data
    link.filled(slot, step, len(data))


def save(link: WriterLink, step: int, data: bytes) -> object:
    fill(link, step, data)
    link.persist(step, Reason.INTERVAL)
    return link.wait(step, LIMIT_S)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_two_trainers_one_after_the_other_and_at_once(listening, tmp_path):
    links = {}
    for name in ("a", "b"):
        target = RunTarget(tmp_path / name, layout.new_run())
        links[name] = WriterLink.open(target, listening=str(listening))
        assert parent_of(links[name].writer_pid) != os.getpid()
    for name, link in links.items():
        assert isinstance(save(link, 7, name.encode()), Committed)
    for name, link in links.items():
        assert [type(o) for o in link.close(LIMIT_S)] == [Committed]
        found = newest_valid(tmp_path / name).checkpoint
        assert found is not None
        assert (found.path / "rank-00000-of-00001.safetensors").read_bytes() == name.encode()


def test_a_step_that_is_killed_leaves_its_newest_snapshot(listening, tmp_path):
    """All processes of the step at once, as Slurm does; and --end waits for the commit."""
    folder = tmp_path / "ckpt"
    words = [sys.executable, link_trainer.__file__, str(folder), layout.new_run(), str(listening)]
    with subprocess.Popen(
        [*words, "5", "6"], stdout=subprocess.PIPE, start_new_session=True
    ) as step:
        assert step.stdout is not None
        assert step.stdout.readline().startswith(b"ready")
        os.killpg(step.pid, signal.SIGKILL)
    assert end(listening).returncode == 0
    found = newest_valid(folder).checkpoint
    assert found is not None
    assert found.step == 6
    made = manifest.decode((found.path / "manifest.json").read_bytes())
    assert made.reason is Reason.TRAINER_DIED


def test_its_end_waits_for_what_is_being_written(listening, tmp_path):
    target = RunTarget(tmp_path / "ckpt", layout.new_run())
    link = WriterLink.open(target, listening=str(listening))
    fill(link, 7, b"data")
    os.kill(link.writer_pid, signal.SIGSTOP)
    link.persist(7, Reason.END)
    link.close(0)
    with subprocess.Popen([*WRITER, "--end", str(listening)]) as ending:
        wait_for(lambda: not listening.exists(), "the end of listening", timeout_s=LIMIT_S)
        assert ending.poll() is None
        os.kill(link.writer_pid, signal.SIGCONT)
        assert ending.wait(LIMIT_S) == 0
    assert newest_valid(tmp_path / "ckpt").checkpoint is not None


def test_it_ends_with_its_owner_once_all_is_written(tmp_path):
    path = tmp_path / "writer.sock"
    owner = subprocess.Popen(["sleep", "300"])
    process = subprocess.Popen([*WRITER, "--listen", path, "--until", str(owner.pid)])
    try:
        wait_for(lambda: answers(path), "a writer that listens", timeout_s=LIMIT_S)
        target = RunTarget(tmp_path / "ckpt", layout.new_run())
        link = WriterLink.open(target, listening=str(path))
        fill(link, 7, b"data")
        owner.kill()
        wait_for(lambda: not path.exists(), "the end of listening", timeout_s=LIMIT_S)
        assert process.poll() is None
        link.persist(7, Reason.END)
        link.close(LIMIT_S)
        assert process.wait(LIMIT_S) == 0
    finally:
        for each in (owner, process):
            each.kill()
            each.wait()
    assert newest_valid(tmp_path / "ckpt").checkpoint is not None


def test_it_does_not_stay_where_its_owner_has_gone_before(tmp_path):
    with subprocess.Popen(["true"]) as owner:
        pass
    path = tmp_path / "writer.sock"
    made = subprocess.run([*WRITER, "--listen", path, "--until", str(owner.pid)], check=False)
    assert (made.returncode, path.exists()) == (0, False)


def test_signals_to_the_batch_step_do_not_end_it(tmp_path):
    path = tmp_path / "writer.sock"
    with writer(path) as process:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            process.send_signal(number)
        assert answers(path)
        assert end(path).returncode == 0
        assert process.wait(LIMIT_S) == 0


def test_a_second_one_is_refused(listening):
    second = subprocess.run([*WRITER, "--listen", str(listening)], capture_output=True, text=True)
    assert second.returncode == 2
    assert "another checkpoint writer listens" in second.stderr
    assert answers(listening)


def test_a_socket_that_was_left_over_is_replaced(tmp_path):
    path = tmp_path / "writer.sock"
    with writer(path) as process:
        process.kill()
    assert path.is_socket()
    with writer(path) as process:
        assert path.stat().st_mode & 0o777 == 0o600
        assert end(path).returncode == 0


def test_a_file_of_that_name_is_left_alone(tmp_path):
    path = tmp_path / "writer.sock"
    path.write_text("precious")
    made = subprocess.run([*WRITER, "--listen", str(path)], capture_output=True, text=True)
    assert made.returncode == 69
    assert "cannot listen" in made.stderr
    assert path.read_text() == "precious"


def test_nobody_to_end(tmp_path):
    made = end(tmp_path / "writer.sock")
    assert made.returncode == 69
    assert "no checkpoint writer answers" in made.stderr


def test_without_it_one_within_the_step_is_started_and_told(tmp_path):
    path = str(tmp_path / "nobody.sock")
    link = WriterLink.open(RunTarget(tmp_path / "ckpt", layout.new_run()), listening=path)
    notices = link.poll()
    assert [type(o) for o in notices] == [Notice]
    assert path in notices[0].message
    assert parent_of(link.writer_pid) == os.getpid()
    assert isinstance(save(link, 7, b"data"), Committed)
    link.close(LIMIT_S)


def test_one_that_dies_is_reached_again(listening, tmp_path):
    """The listener starts another process; the snapshot is still in the slot."""
    target = RunTarget(tmp_path / "ckpt", layout.new_run())
    link = WriterLink.open(target, listening=str(listening))
    assert isinstance(save(link, 7, b"data"), Committed)
    os.kill(link.writer_pid, signal.SIGKILL)
    link.poll()
    notices = link.poll(LIMIT_S)
    assert "died" in notices[0].message
    assert parent_of(link.writer_pid) != os.getpid()
    assert isinstance(save(link, 8, b"more"), Committed)
    link.close(LIMIT_S)


def test_one_who_says_nothing_does_not_stop_the_others(listening, tmp_path):
    with start.connect(listening):
        link = WriterLink.open(RunTarget(tmp_path, layout.new_run()), listening=str(listening))
        assert isinstance(save(link, 7, b"data"), Committed)
        link.close(LIMIT_S)


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder that everybody may use, as /tmp."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


def as_nobody(code: str, path: Path) -> list[str]:
    """A program of another user, with a socket `s` and its `path`. It knows no gsched."""
    start = f"import os,socket,sys; s=socket.socket(1, socket.SOCK_SEQPACKET); p={str(path)!r}\n"
    become = "os.setgid(65534); os.setuid(65534)\n"
    return [sys.executable, "-c", start + become + code]


def test_another_users_listener_is_not_trusted(common):
    """It would get the snapshots."""
    path = common / "writer.sock"
    code = "s.bind(p); os.chmod(p, 0o666); s.listen(); print(flush=True); c=s.accept(); input()"
    with subprocess.Popen(
        as_nobody(code, path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline()
        with pytest.raises(UnavailableError, match="another user's"):
            start.connect(path)
        other.kill()


def test_another_user_is_not_served(common):
    """Even where somebody has opened the socket to all."""
    path = common / "writer.sock"
    with writer(path):
        path.chmod(0o666)
        code = 's.connect(p); s.send(b\'{"kind": "EndListening"}\'); print(s.recv(99))'
        made = subprocess.run(as_nobody(code, path), capture_output=True, text=True)
        assert re.search("ConnectionResetError|BrokenPipeError", made.stderr), made.stdout
        assert answers(path)
        assert end(path).returncode == 0
