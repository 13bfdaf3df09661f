"""A trainer's end in this process, and a real writer: slots, orders, signals, deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import link_trainer

from gsched.ckpt import cgroup_memory, layout, manifest
from gsched.ckpt.catalogue import newest_valid
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer import link as writer_link
from gsched.ckpt.writer import start
from gsched.ckpt.writer.link import MAX_DEATHS, WriterLink
from gsched.ckpt.writer.messages import Notice
from gsched.errors import UnavailableError
from gsched.testbed.wait import wait_for

LIMIT_S = 30.0
ROOM = 100_000


@pytest.fixture
def link(tmp_path) -> Iterator[WriterLink]:
    link = WriterLink.open(RunTarget(tmp_path / "ckpt", layout.new_run()))
    assert link.ensure_room(ROOM) == 2
    yield link
    link.close(LIMIT_S)


def contents(step: int) -> bytes:
    return f"snapshot of {step} ".encode() * 1000


def fill(link: WriterLink, step: int) -> int:
    slot = link.free_slot()
    assert slot is not None
    data = contents(step)
    link.buffer(slot)[: len(data)] = data
    link.filled(slot, step, len(data))
    return slot


def save(link: WriterLink, step: int) -> Committed | Failed | None:
    fill(link, step)
    link.persist(step, Reason.INTERVAL)
    return link.wait(step, LIMIT_S)


def next_outcome(link: WriterLink) -> object:
    return link.poll(LIMIT_S)[0]


def on_disk(folder: Path, step: int) -> bytes:
    return (folder / layout.step_name(step) / "rank-00000-of-00001.safetensors").read_bytes()


def steps(folder: Path) -> list[int]:
    found = (layout.parse_step_name(p.name) for p in folder.iterdir())
    return sorted(step for step in found if step is not None)


@contextmanager
def stopped(link: WriterLink) -> Iterator[None]:
    """The writer stands still, as on a disk that does not answer."""
    os.kill(link.writer_pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(link.writer_pid, signal.SIGCONT)


def test_what_a_slot_holds_is_on_the_disk(link, tmp_path):
    outcome = save(link, 7)
    assert isinstance(outcome, Committed)
    assert (outcome.step, outcome.reason) == (7, Reason.INTERVAL)
    assert outcome.num_bytes == len(contents(7))
    assert on_disk(tmp_path / "ckpt", 7) == contents(7)
    assert link.poll() == [outcome]
    assert link.poll() == []


def test_the_newest_snapshot_is_never_taken(link):
    one, two = fill(link, 1), fill(link, 2)
    assert {one, two} == {0, 1}
    assert link.free_slot() == one
    assert link.free_slot() is None
    link.give_up(one)
    assert fill(link, 3) == one
    assert fill(link, 4) == two


def test_what_is_to_be_written_is_not_taken(link, tmp_path):
    """The writer stands still: snapshots have to wait for it."""
    fill(link, 1)
    with stopped(link):
        link.persist(1, Reason.ASKED)
        fill(link, 2)
        assert link.free_slot() is None
        assert link.wait(1, 0.05) is None
    assert isinstance(link.wait(1, LIMIT_S), Committed)
    assert on_disk(tmp_path / "ckpt", 1) == contents(1)
    fill(link, 3)


def test_with_one_slot_a_snapshot_takes_the_place_of_the_last(tmp_path):
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()), num_slots=1)
    assert link.ensure_room(ROOM) == 1
    fill(link, 1)
    link.persist(1, Reason.ASKED)
    link.wait(1, LIMIT_S)
    fill(link, 2)
    link.flush(Reason.ASKED)
    assert [o.step for o in link.poll() + link.poll(LIMIT_S)] == [1, 2]
    link.close(LIMIT_S)


def test_a_step_that_no_slot_holds(link):
    fill(link, 1)
    link.persist(5, Reason.ASKED)
    outcome = link.wait(5, LIMIT_S)
    assert isinstance(outcome, Failed)
    assert outcome.error == "no-snapshot"


def test_slots_grow_and_keep_what_they_hold(link, tmp_path):
    fill(link, 1)
    assert link.ensure_room(20 * ROOM) == 2
    assert link.ensure_room(ROOM) == 2
    link.persist(1, Reason.ASKED)
    assert isinstance(link.wait(1, LIMIT_S), Committed)
    assert on_disk(tmp_path / "ckpt", 1) == contents(1)
    slot = link.free_slot()
    large = os.urandom(20 * ROOM)
    link.buffer(slot)[: len(large)] = large
    link.filled(slot, 2, len(large))
    link.flush(Reason.ASKED)
    assert [o.step for o in link.poll() + link.poll(LIMIT_S)] == [1, 2]
    assert on_disk(tmp_path / "ckpt", 2) == large


def sharers(share_bytes: float) -> int:
    """Among how many processes what is free here is about so much for each."""
    bound = cgroup_memory.tightest()
    assert bound is not None
    return int(bound.headroom / share_bytes)


@pytest.mark.parametrize(("room_slots", "slots"), [(3, 2), (1.5, 1), (0.5, 0)])
def test_no_more_slots_than_there_is_memory_for(room_slots, slots, tmp_path):
    size = 2**20
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()))
    assert link.ensure_room(size, sharers(room_slots * size)) == link.num_slots == slots
    if slots:
        assert isinstance(save(link, 1), Committed)
    else:
        assert link.free_slot() is None
    link.close(LIMIT_S)


def test_slots_that_have_some_room_need_only_the_rest(link):
    """A job that is nearly full, whose state grows a little."""
    assert link.ensure_room(ROOM + 500, sharers(1500)) == 2
    assert link.ensure_room(ROOM + 1600, sharers(1500)) == 1


def test_more_than_a_slot_has_is_refused(link):
    slot = link.free_slot()
    with pytest.raises(ValueError, match="does not fit"):
        link.filled(slot, 1, ROOM + 1)
    link.give_up(slot)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_flushes_the_newest_snapshot(number, link, tmp_path):
    """As Python's own handler does it: a byte with the signal's number."""
    fill(link, 1)
    fill(link, 2)
    before = signal.set_wakeup_fd(link.wake_fd)
    earlier = signal.signal(number, lambda *_: None)
    try:
        os.kill(os.getpid(), number)
        outcome = next_outcome(link)
    finally:
        signal.signal(number, earlier)
        signal.set_wakeup_fd(before)
    assert isinstance(outcome, Committed)
    assert (outcome.step, outcome.reason) == (2, Reason.SIGNAL)
    found = newest_valid(tmp_path / "ckpt").checkpoint
    assert found is not None
    assert found.step == 2
    made = manifest.decode((found.path / "manifest.json").read_bytes())
    assert made.reason is Reason.SIGNAL


def test_other_signals_mean_nothing(link):
    fill(link, 1)
    os.write(link.wake_fd, bytes([signal.SIGCHLD, signal.SIGINT]))
    link.persist(99, Reason.ASKED)  # signals are looked at before orders
    assert isinstance(link.wait(99, LIMIT_S), Failed)
    assert isinstance(save(link, 2), Committed)
    assert [o.step for o in link.poll()] == [99, 2]


def test_a_half_filled_slot_is_never_flushed(link, tmp_path):
    fill(link, 1)
    slot = link.free_slot()
    link.buffer(slot)[:7] = b"garbage"
    os.write(link.wake_fd, bytes([signal.SIGTERM]))
    outcome = next_outcome(link)
    assert isinstance(outcome, Committed)
    assert outcome.step == 1
    assert on_disk(tmp_path / "ckpt", 1) == contents(1)
    link.filled(slot, 2, 7)


def test_a_slot_that_was_given_up_is_empty(link):
    """What it held before is half overwritten."""
    fill(link, 1)
    fill(link, 2)
    slot = link.free_slot()
    for _ in range(2):  # while it is being filled, and after that has failed
        link.persist(1, Reason.ASKED)
        outcome = link.wait(1, LIMIT_S)
        assert isinstance(outcome, Failed)
        assert outcome.error == "no-snapshot"
        link.give_up(slot)


def test_a_flush_of_what_is_committed_already(link):
    save(link, 1)
    link.poll()
    link.flush(Reason.ASKED)
    outcome = next_outcome(link)
    assert isinstance(outcome, Committed)
    assert (outcome.step, outcome.num_bytes) == (1, 0)


def test_a_flush_of_nothing(link):
    link.flush(Reason.ASKED)
    outcome = next_outcome(link)
    assert isinstance(outcome, Failed)
    assert (outcome.step, outcome.error) == (-1, "no-snapshot")


def test_signals_to_all_of_a_step_do_not_end_the_writer(link):
    for number in start.MEANT_FOR_TRAINER:
        os.kill(link.writer_pid, number)
    assert isinstance(save(link, 1), Committed)
    assert [type(o) for o in link.poll()] == [Committed]
    assert os.getsid(link.writer_pid) != os.getsid(0)
    assert os.getpriority(os.PRIO_PROCESS, link.writer_pid) > os.getpriority(os.PRIO_PROCESS, 0)


def test_a_signal_while_the_writer_starts_does_not_end_it(tmp_path):
    connection, child = start.start_child()
    for number in start.MEANT_FOR_TRAINER:
        os.kill(child.process.pid, number)
    connection.close()
    assert child.end_words() == "exit status 0"


def test_a_writer_that_dies_is_replaced_and_does_what_was_asked(link, tmp_path):
    fill(link, 1)
    with stopped(link):
        link.persist(1, Reason.ASKED)
        dead = link.writer_pid
        os.kill(dead, signal.SIGKILL)
        assert isinstance(link.wait(1, LIMIT_S), Committed)
    assert link.writer_pid != dead
    notices = [o.message for o in link.poll() if isinstance(o, Notice)]
    assert len(notices) == 1
    assert "signal 9" in notices[0]
    assert on_disk(tmp_path / "ckpt", 1) == contents(1)


@pytest.fixture
def dead(tmp_path) -> WriterLink:
    """Its writer has died, and it has not noticed yet."""
    link = WriterLink.open(RunTarget(tmp_path / "ckpt", layout.new_run()))
    link.ensure_room(ROOM)
    fill(link, 1)
    fill(link, 2)
    kill(link)
    return link


def kill(link: WriterLink) -> None:
    os.kill(link.writer_pid, signal.SIGKILL)
    os.waitid(os.P_PID, link.writer_pid, os.WEXITED | os.WNOWAIT)


def test_a_flush_that_finds_the_writer_dead(dead, tmp_path):
    dead.flush(Reason.ASKED)
    assert [type(o) for o in dead.close(LIMIT_S)] == [Notice, Committed]
    assert on_disk(tmp_path / "ckpt", 2) == contents(2)


def test_a_writer_that_dies_before_it_closes(tmp_path):
    """What was asked is done by another one: a step, a flush, and the rest."""
    for asks in (lambda link: link.persist(2, Reason.END), lambda link: link.flush(Reason.ASKED)):
        folder = tmp_path / layout.new_run()
        link = WriterLink.open(RunTarget(folder, layout.new_run()))
        link.ensure_room(ROOM)
        fill(link, 2)
        os.kill(link.writer_pid, signal.SIGSTOP)
        asks(link)
        killer = threading.Timer(
            0.05, os.kill, [link.writer_pid, signal.SIGKILL]
        )  # while it closes
        killer.start()
        assert [type(o) for o in link.close(LIMIT_S)] == [Notice, Committed]
        killer.join()
        assert not Path(f"/proc/{link.writer_pid}").exists()
        assert on_disk(folder, 2) == contents(2)


def test_none_is_started_for_nothing(dead, tmp_path):
    pid = dead.writer_pid
    assert dead.close(LIMIT_S) == []
    assert dead.writer_pid == pid
    assert not (tmp_path / "ckpt").exists()


def test_a_writer_that_does_not_get_ready(tmp_path, monkeypatch):
    """Its Python hangs, as on a file system that does not answer: training goes on without it."""
    (tmp_path / "sitecustomize.py").write_text("import signal; signal.pause()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(writer_link, "READY_LIMIT_S", 0.2)
    with pytest.raises(UnavailableError, match="it hung, and was killed"):
        WriterLink.open(RunTarget(tmp_path / "ckpt", layout.new_run()))


def test_writers_that_die_over_and_over_are_given_up(link):
    fill(link, 1)
    said = []
    for _ in range(MAX_DEATHS):
        dead = link.writer_pid
        os.kill(dead, signal.SIGKILL)
        said += link.poll(LIMIT_S)
    assert [type(o) for o in said] == [Notice] * MAX_DEATHS
    assert "no other is started" in said[-1].message
    link.persist(1, Reason.ASKED)
    outcome = link.wait(1, LIMIT_S)
    assert isinstance(outcome, Failed)
    assert outcome.error == "no-writer"


def test_a_writer_that_cannot_start_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    with pytest.raises(Exception, match="did not start: exit status 1") as caught:
        WriterLink.open(RunTarget(tmp_path, layout.new_run()))
    assert type(caught.value).__name__ == "UnavailableError"


def test_old_ones_are_removed(tmp_path):
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run(), keep=2))
    link.ensure_room(ROOM)
    for step in range(1, 6):
        assert isinstance(save(link, step), Committed)
    assert {type(o) for o in link.close(LIMIT_S)} == {Committed}
    assert steps(tmp_path) == [4, 5]
    assert {p.name for p in tmp_path.iterdir() if not p.name.startswith("step-")} == {"latest"}


def test_all_are_kept_where_that_is_wanted(tmp_path):
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run(), keep=None))
    link.ensure_room(ROOM)
    for step in range(1, 6):
        save(link, step)
    link.close(LIMIT_S)
    assert steps(tmp_path) == [1, 2, 3, 4, 5]


def test_partials_of_writers_of_this_run_are_removed(tmp_path):
    run = layout.new_run()
    for name in (layout.partial_name(3, run), layout.partial_name(3, layout.new_run())):
        (tmp_path / name).mkdir()
    link = WriterLink.open(RunTarget(tmp_path, run))
    link.ensure_room(ROOM)
    save(link, 5)
    link.close(LIMIT_S)
    left = [layout.parse_partial_name(p.name) for p in tmp_path.iterdir()]
    assert [p for p in left if p and p[1] == run] == []
    assert len([p for p in left if p]) == 1  # another run's may be alive


def test_agreements_of_runs_that_died_are_removed(tmp_path):
    old, young = (tmp_path / layout.flush_name(layout.new_run(), 1) for _ in range(2))
    for folder in (old, young):
        folder.mkdir()
        (folder / layout.mark_name(0)).write_text("{}")
    os.utime(old, (0, 0))
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()))
    link.ensure_room(ROOM)
    save(link, 5)
    link.close(LIMIT_S)
    assert not old.exists()
    assert young.exists()


def test_close_waits_for_what_was_asked(tmp_path):
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()))
    link.ensure_room(ROOM)
    fill(link, 1)
    pid = link.writer_pid
    link.persist(1, Reason.END)
    said = link.close(LIMIT_S)
    assert [type(o) for o in said] == [Committed]
    assert not Path(f"/proc/{pid}").exists()
    assert steps(tmp_path) == [1]


def test_a_writer_that_takes_long_goes_on_alone(tmp_path):
    link = WriterLink.open(RunTarget(tmp_path, layout.new_run()))
    link.ensure_room(ROOM)
    fill(link, 1)
    pid = link.writer_pid
    os.kill(pid, signal.SIGSTOP)
    link.persist(1, Reason.END)
    assert link.close(0.05) == []
    os.kill(pid, signal.SIGCONT)
    wait_for(lambda: newest(tmp_path) == 1, "the commit", timeout_s=LIMIT_S)
    os.waitpid(pid, 0)


def newest(folder: Path) -> int | None:
    found = newest_valid(folder).checkpoint
    return found.step if found else None


def test_a_forked_child_has_no_part_in_it(link, tmp_path):
    """As a data-loading worker: it ends, and is signalled, without any effect on the writer."""
    fill(link, 1)
    read, write = os.pipe()
    before = signal.set_wakeup_fd(link.wake_fd)
    child = os.fork()
    if child == 0:
        try:
            state = (signal.set_wakeup_fd(-1), link.num_slots, link.poll(), link.free_slot())
            os.write(write, b"clean" if state == (-1, 0, [], None) else repr(state).encode())
        finally:
            os._exit(0)
    signal.set_wakeup_fd(before)
    os.waitpid(child, 0)
    assert os.read(read, 1000) == b"clean"
    os.close(read)
    os.close(write)
    assert link.poll() == []
    link.flush(Reason.ASKED)
    assert isinstance(next_outcome(link), Committed)
    assert on_disk(tmp_path / "ckpt", 1) == contents(1)


@contextmanager
def trainer(folder: Path, *steps: int, listening: str = "") -> Iterator[tuple[int, int]]:
    """A trainer as a process, and its child; both are gone afterwards."""
    words = [sys.executable, link_trainer.__file__, str(folder), layout.new_run(), listening]
    with subprocess.Popen([*words, *map(str, steps)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready, child = process.stdout.readline().split()
        assert ready == b"ready"
        try:
            yield process.pid, int(child)
        finally:
            process.kill()
            os.kill(int(child), signal.SIGKILL)


def test_a_trainer_that_dies_leaves_its_newest_snapshot(tmp_path):
    """Its child holds on to all that it had; the writer does not wait for that one."""
    with trainer(tmp_path / "ckpt", 5, 6) as (pid, child):
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: (tmp_path / "ckpt" / "latest").exists(), "a commit", timeout_s=LIMIT_S)
        assert Path(f"/proc/{child}").exists()
    found = newest_valid(tmp_path / "ckpt").checkpoint
    assert found is not None
    assert found.step == 6
    assert on_disk(tmp_path / "ckpt", 6) == b"snapshot of 6"
    made = manifest.decode((found.path / "manifest.json").read_bytes())
    assert made.reason is Reason.TRAINER_DIED


def test_a_file_beside_the_training_is_not_the_writers(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    monkeypatch.chdir(tmp_path)
    link = WriterLink.open(RunTarget(tmp_path / "ckpt", layout.new_run()))
    link.ensure_room(ROOM)
    assert isinstance(save(link, 1), Committed)
    link.close(LIMIT_S)


def test_the_writer_knows_nothing_of_torch():
    code = (
        "import sys, gsched.ckpt.writer.__main__; print('torch' in sys.modules, len(sys.modules))"
    )
    made = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert made.stdout.startswith("False")
