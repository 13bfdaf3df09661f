"""Which snapshot several ranks flush: the agreement by itself, and between real writers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gsched.ckpt import layout
from gsched.ckpt.catalogue import examine
from gsched.ckpt.disk import RealDisk
from gsched.ckpt.found import Depth
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.flush import Agreement, NoAgreementError
from gsched.ckpt.writer.link import WriterLink
from gsched.testbed.wait import wait_for

RUN = "0123456789ab"
WAIT_S = 60.0
LIMIT_S = 30.0


class Part:
    """One rank's part in the flushes of a run; `now` is its stopwatch."""

    def __init__(self, folder: Path, rank: int, world_size: int = 3) -> None:
        self.now = 0.0
        target = RunTarget(folder, RUN, rank, world_size, peer_wait_s=WAIT_S)
        self.agreement = Agreement(RealDisk(), target, stopwatch=lambda: self.now)

    def begin(self, *held: int) -> None:
        self.agreeing = self.agreement.agree(held)

    def look(self) -> int | str | None:
        """The step, or why there is none; None while it waits."""
        try:
            next(self.agreeing)
        except StopIteration as end:
            return end.value
        except NoAgreementError as e:
            return str(e)
        return None


@pytest.fixture
def parts(tmp_path) -> list[Part]:
    return [Part(tmp_path / "ckpt", rank) for rank in range(3)]


def test_the_newest_that_all_hold(parts):
    for part, held in zip(parts, [(5, 6), (4, 5), (5,)], strict=True):
        part.begin(*held)
    assert [parts[2].look(), parts[0].look(), parts[1].look()] == [None, None, None]
    assert [part.look() for part in parts] == [5, 5, 5]


def test_each_flush_is_another(parts):
    for step in (5, 6, 9):
        for part in parts:
            part.begin(step - 1, step)
        assert parts[1].look() is None
        assert parts[2].look() is None
        assert [part.look() for part in parts] == [step] * 3
    parts[0].agreement.forget()
    left = sorted(p.name for p in (parts[0].agreement.target.folder).iterdir())
    assert left == [layout.flush_name(RUN, 3)]
    for part in parts:
        assert list(parts[0].agreement.target.folder.iterdir()) != []
        part.agreement.leave()
    assert list(parts[0].agreement.target.folder.iterdir()) == []


def test_no_step_is_held_by_all(parts):
    for part, step in zip(parts, (4, 5, 5), strict=True):
        part.begin(step)
    for part in (parts[1], parts[2]):
        assert part.look() is None
    assert all("held by all" in str(part.look()) for part in parts)
    for part in parts:
        part.begin(7)
    parts[1].look()
    parts[2].look()
    assert [part.look() for part in parts] == [7, 7, 7]


def test_a_rank_that_is_not_asked(parts):
    """It got no signal: the others give up, and take back what they said."""
    parts[0].begin(5)
    parts[1].begin(5)
    assert parts[1].look() is None
    assert parts[0].look() is None
    for part in parts[:2]:
        part.now = WAIT_S + 1
    assert "rank 2 does not say" in str(parts[0].look())
    assert "rank 0 does not decide" in str(parts[1].look())
    for part, step in zip(parts, (8, 8, 8), strict=True):
        part.begin(step)
    assert parts[0].look() is None  # what rank 1 said before does not count any more
    assert parts[1].look() is None
    assert parts[2].look() is None
    assert [part.look() for part in parts] == [8, 8, 8]


@pytest.mark.parametrize("has_flushed", [False, True])
@pytest.mark.parametrize(("ended", "words"), [(1, "rank 1 has ended"), (0, "rank 0 has ended")])
def test_a_rank_that_has_ended_is_not_waited_for(ended, words, has_flushed, parts, tmp_path):
    if has_flushed:
        for part in reversed(parts):
            part.begin(5)
            part.look()
        parts[1].look()
    (tmp_path / "ckpt").mkdir(exist_ok=True)
    parts[ended].agreement.leave()
    for part in parts[:ended] + parts[ended + 1 :]:
        part.begin(7)
        assert ended or part.look() == words
    assert not ended or parts[0].look() == words


def test_a_rank_that_ends_before_it_has_heard_of_a_decision(parts):
    for part in reversed(parts):
        part.begin(5)
        part.look()
    parts[1].look()
    parts[2].agreeing.close()
    parts[2].agreement.leave()
    for part in (parts[1], parts[0]):
        part.begin(7)
        said = part.look()
    assert said == "rank 2 has ended"


def test_a_rank_that_ends_while_it_is_waited_for(parts):
    parts[0].begin(5)
    assert parts[0].look() is None
    parts[1].agreement.leave()
    assert parts[0].look() == "rank 1 has ended"


def test_a_writer_that_is_new_follows_what_was_decided(parts, tmp_path):
    for part in parts:
        part.begin(5, 6)
        part.look()
    assert parts[0].look() == 6
    anew = Part(tmp_path / "ckpt", 1)  # the one of before has died
    anew.begin(5, 6)
    assert anew.look() == 6


def test_a_decision_that_it_cannot_follow_is_past(parts, tmp_path):
    for part in parts:
        part.begin(5)
        part.look()
    assert [part.look() for part in parts[:1]] == [5]
    anew = Part(tmp_path / "ckpt", 1)
    anew.begin(7, 8)
    for part in (parts[0], parts[2]):
        part.begin(7, 8)
        part.look()
    assert anew.look() is None
    assert [parts[0].look(), anew.look()] == [8, 8]


@pytest.mark.parametrize("said", ["", "[", '{"steps": "5"}', '{"steps": ["5", null]}', "{}"])
def test_what_is_said_may_be_nonsense(said, parts):
    parts[0].begin(5)
    parts[0].look()
    for rank in (1, 2):
        folder = parts[0].agreement.target.folder / layout.flush_name(RUN, 1)
        (folder / layout.mark_name(rank)).write_text(said)
    parts[0].now = WAIT_S + 1
    assert isinstance(parts[0].look(), str)


# -- real writers ----------------------------------------------------------------------------------


@pytest.fixture(params=[1200.0])
def links(tmp_path, request) -> Iterator[list[WriterLink]]:
    """Of two ranks, that wait for each other for so many seconds."""
    run = layout.new_run()
    links = [
        WriterLink.open(RunTarget(tmp_path / "ckpt", run, rank, 2, peer_wait_s=request.param))
        for rank in (0, 1)
    ]
    for link in links:
        link.ensure_room(1000)
    yield links
    for link in links:
        link.close(LIMIT_S)


def fill(link: WriterLink, rank: int, step: int) -> None:
    slot = link.free_slot()
    assert slot is not None
    data = f"rank {rank} step {step}".encode()
    link.buffer(slot)[: len(data)] = data
    link.filled(slot, step, len(data))


def outcomes(links: list[WriterLink]) -> list[object]:
    return [link.poll(LIMIT_S)[0] for link in links]


def check(folder: Path, step: int) -> None:
    place = folder / layout.step_name(step)
    assert examine(place, Depth.CHECKSUMS).is_whole
    for rank in (0, 1):
        data = (place / layout.rank_file_name(rank, 2)).read_bytes()
        assert data == f"rank {rank} step {step}".encode()


def test_a_signal_to_all_ranks(links, tmp_path):
    """Rank 1 is a step behind: the one before is what both have."""
    for rank, step in ((0, 5), (1, 4), (0, 6), (1, 5)):
        fill(links[rank], rank, step)
    for link in reversed(links):
        os.write(link.wake_fd, bytes([signal.SIGTERM]))
    for outcome in outcomes(links):
        assert isinstance(outcome, Committed)
        assert (outcome.step, outcome.reason) == (5, Reason.SIGNAL)
    check(tmp_path / "ckpt", 5)


def test_a_signal_that_crosses_an_order(links, tmp_path):
    """Rank 0 writes and waits for rank 1, which has had the signal first: none waits for ever."""
    for rank, link in enumerate(links):
        fill(link, rank, 5)
    with stopped(links[0]):
        os.write(links[1].wake_fd, bytes([signal.SIGTERM]))
        wait_for(announced(links[1]).exists, "an announcement", timeout_s=LIMIT_S)
        links[0].persist(5, Reason.INTERVAL)
    os.write(links[0].wake_fd, bytes([signal.SIGTERM]))
    links[1].persist(5, Reason.INTERVAL)
    for link in reversed(links):
        assert isinstance(link.wait(5, LIMIT_S), Committed)
    check(tmp_path / "ckpt", 5)


def announced(link: WriterLink) -> Path:
    """What a rank has said in the first flush."""
    folder = link.target.folder / layout.flush_name(link.target.run, 1)
    return folder / layout.mark_name(link.target.rank)


@contextmanager
def stopped(link: WriterLink) -> Iterator[None]:
    """Its writer stands still: it hears nothing."""
    os.kill(link.writer_pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(link.writer_pid, signal.SIGCONT)


def test_slots_stay_until_the_ranks_have_agreed(links):
    for rank, link in enumerate(links):
        fill(link, rank, 5)
        fill(link, rank, 6)
    with stopped(links[1]):
        os.write(links[0].wake_fd, bytes([signal.SIGTERM]))
        wait_for(announced(links[0]).exists, "an announcement", timeout_s=LIMIT_S)
        said = json.loads(announced(links[0]).read_text())
        assert said == {"steps": [5, 6], "reason": "signal"}
        assert links[0].free_slot() is None
        links[0].persist(5, Reason.INTERVAL)  # older: done meanwhile, and the slots still stay
        marked = links[0].target.partial(5) / layout.mark_name(0)
        wait_for(marked.exists, "the file of rank 0", timeout_s=LIMIT_S)
        assert links[0].free_slot() is None
    assert [o.step for o in outcomes(links)] == [6, 6]
    for rank, link in enumerate(links):
        fill(link, rank, 7)


@pytest.mark.parametrize("signalled", [0, 1])
def test_a_signal_to_one_rank_alone(signalled, links, tmp_path):
    """The other's writer hears of it, within a step: its trainer does nothing."""
    for rank, link in enumerate(links):
        fill(link, rank, 5)
        fill(link, rank, 6)
    for expected in (6, 8):  # and once more, later
        os.write(links[signalled].wake_fd, bytes([signal.SIGTERM]))
        for outcome in outcomes(links):
            assert isinstance(outcome, Committed)
            assert (outcome.step, outcome.reason) == (expected, Reason.SIGNAL)
        check(tmp_path / "ckpt", expected)
        for rank, link in enumerate(links):
            fill(link, rank, expected + 1)
            fill(link, rank, expected + 2)
    assert all_ended(links) == [[], []]


@pytest.mark.parametrize("died", [0, 1])
def test_a_trainer_that_died_alone(died, links, tmp_path):
    """The others' trainers may wait for it for long. All that can be saved then is: nothing more
    is agreed upon when they end as well, though they hold something newer."""
    for rank, link in enumerate(links):
        fill(link, rank, 5)
    other = links[1 - died]
    fill(other, 1 - died, 6)
    links[died].flush(Reason.TRAINER_DIED)
    assert [o.step for o in outcomes(links)] == [5, 5]
    check(tmp_path / "ckpt", 5)
    links[died].close(LIMIT_S)
    other.flush(Reason.TRAINER_DIED)
    assert other.close(LIMIT_S) == []
    assert {p.name for p in (tmp_path / "ckpt").iterdir()} == {"latest", layout.step_name(5)}


@pytest.mark.parametrize("links", [60.0], indirect=True)
@pytest.mark.parametrize("signalled", [0, 1])
def test_a_signal_to_one_rank_whose_peer_is_deaf(signalled, links, tmp_path):
    """It waits for the other in vain; but training gets a slot, and saves something newer."""
    for rank, link in enumerate(links):
        fill(link, rank, 5)
        fill(link, rank, 6)
    with stopped(links[1 - signalled]):
        os.write(links[signalled].wake_fd, bytes([signal.SIGTERM]))
        wait_for(announced(links[signalled]).exists, "an announcement", timeout_s=LIMIT_S)
        for rank, link in enumerate(links):
            slot = wait_for_slot(link)
            link.give_up(slot)
            fill(link, rank, 7)
            link.persist(7, Reason.SIGNAL)
        wait_for(lambda: not announced(links[signalled]).exists(), "the end of the flush")
    for link in links:
        assert isinstance(link.wait(7, LIMIT_S), Committed)
    check(tmp_path / "ckpt", 7)
    assert [[type(o) for o in said] for said in all_ended(links)] == [[Committed]] * 2


@pytest.mark.parametrize("follows", [True, False])
def test_what_all_hold_no_more_is_told_only_if_nothing_newer_follows(follows, links):
    """Signals come to ranks whose trainers are a step apart, and then save what they have next."""
    fill(links[0], 0, 5)
    fill(links[1], 1, 6)
    os.write(links[0].wake_fd, bytes([signal.SIGTERM]))
    decided = links[0].target.folder / layout.flush_name(links[0].target.run, 1)
    wait_for((decided / layout.DECISION_NAME).exists, "a decision", timeout_s=LIMIT_S)
    if follows:
        for rank, link in enumerate(links):
            fill(link, rank, 7)
            link.persist(7, Reason.SIGNAL)
        assert [o.step for o in outcomes(links)] == [7, 7]
    said = [o for outcomes in all_ended(links) for o in outcomes]
    assert [o.message for o in said] == ["no step is held by all ranks"] * (0 if follows else 2)


def all_ended(links: list[WriterLink]) -> list[list[object]]:
    """Close them; no writer still waits for another one."""
    said = [link.close(LIMIT_S) for link in links]
    assert not any(Path(f"/proc/{link.writer_pid}").exists() for link in links)
    return said


def test_what_one_rank_alone_began_ends_with_something_newer(links, tmp_path):
    for rank, link in enumerate(links):
        fill(link, rank, 5)
    links[0].persist(5, Reason.INTERVAL)
    for rank, link in enumerate(links):
        fill(link, rank, 6)
        link.persist(6, Reason.INTERVAL)
    for link in links:
        assert isinstance(link.wait(6, LIMIT_S), Committed)
    check(tmp_path / "ckpt", 6)
    all_ended(links)
    assert {p.name for p in (tmp_path / "ckpt").iterdir()} == {"latest", layout.step_name(6)}


def wait_for_slot(link: WriterLink) -> int:
    found: list[int] = []

    def looked() -> bool:
        slot = link.free_slot()
        if slot is not None:
            found.append(slot)
        return slot is not None

    wait_for(looked, "a free slot", timeout_s=LIMIT_S)
    return found[0]


def test_a_rank_that_does_not_hold_what_it_should(links):
    fill(links[0], 0, 5)
    fill(links[1], 1, 6)
    for link in links:
        link.persist(5, Reason.ASKED)
    for link in links:
        outcome = link.wait(5, LIMIT_S)
        assert isinstance(outcome, Failed)
    assert links[0].wait(5, 0).error == "no-snapshot"
    assert "rank 1" in links[0].wait(5, 0).message


def test_a_rank_without_any_snapshot(links):
    fill(links[0], 0, 5)
    for link in links:
        link.flush(Reason.ASKED)
    for outcome in outcomes(links):
        assert isinstance(outcome, Failed)
        assert outcome.error == "no-snapshot"


@pytest.mark.parametrize("dies", [0, 1])
def test_a_trainer_that_dies_after_the_others_have_ended(dies, links, tmp_path):
    """Its writer does not wait for theirs: the batch script waits for it."""
    for rank, link in enumerate(links):
        fill(link, rank, 5)
    links[1 - dies].close(LIMIT_S)
    links[dies].flush(Reason.TRAINER_DIED)
    said = links[dies].close(LIMIT_S)
    assert [f"rank {1 - dies} has ended" in o.message for o in said if isinstance(o, Failed)]
    assert not Path(f"/proc/{links[dies].writer_pid}").exists()
    assert not any(p.name.startswith(".flush") for p in (tmp_path / "ckpt").iterdir())


def test_nothing_is_left_of_the_agreement(links, tmp_path):
    for step in (5, 6):
        for rank, link in enumerate(links):
            fill(link, rank, step)
            link.flush(Reason.ASKED)
        assert all(isinstance(o, Committed) for o in outcomes(links))
    for link in reversed(links):
        link.close(LIMIT_S)
    names = {p.name for p in (tmp_path / "ckpt").iterdir()}
    assert names == {"latest", layout.step_name(5), layout.step_name(6)}


def test_a_rank_whose_writer_dies_in_the_midst(links, tmp_path):
    """Rank 0 waits for rank 1's file; the new writer of rank 1 finds the order again."""
    for rank, link in enumerate(links):
        fill(link, rank, 5)
    links[0].persist(5, Reason.INTERVAL)
    os.kill(links[1].writer_pid, signal.SIGKILL)
    links[1].persist(5, Reason.INTERVAL)
    for link in reversed(links):
        assert isinstance(link.wait(5, LIMIT_S), Committed)
    check(tmp_path / "ckpt", 5)
