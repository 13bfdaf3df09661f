"""Who has a place at the daemon's sockets, and who makes room for whom."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from gsched.daemon.bounded_server import MAX_PER_USER, Places
from gsched.errors import TryAgainError, UnavailableError

NEWS, GAMES = 9, 5
Connect = Callable[[], socket.socket]


@pytest.fixture
def connect() -> Iterator[Connect]:
    with ExitStack() as opened:

        def made() -> socket.socket:
            ours, _ = map(opened.enter_context, socket.socketpair())
            return ours

        yield made


def is_lost(connection: socket.socket) -> bool:
    """Whether it has been hung up on."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


def taken(places: Places, connection: socket.socket, uid: int | None, first: bool = False) -> bool:
    """Take a place, and ask as `uid`."""
    if not places.take(connection, first):
        return False
    places.has_asked(connection, uid)
    return True


def test_who_waits_for_an_answer_makes_room_for_root_alone(connect: Connect) -> None:
    places = Places(2)
    oldest, other, late, root = (connect() for _ in range(4))
    assert taken(places, oldest, NEWS)
    assert taken(places, other, GAMES)
    assert not places.take(late)
    assert taken(places, root, 0, first=True)
    assert (is_lost(oldest), is_lost(other), is_lost(root)) == (True, False, False)
    with pytest.raises(UnavailableError, match="too many at a time"):
        places.has_asked(oldest, NEWS)


def test_root_makes_no_room_for_others_before_it_has_asked_either(connect: Connect) -> None:
    places = Places(2)
    root, silent, late, later = (connect() for _ in range(4))
    assert places.take(root, True)
    assert places.take(silent)
    assert places.take(late)
    assert (is_lost(root), is_lost(silent)) == (False, True)
    places.has_asked(late, NEWS)
    assert not places.take(later)
    assert places.take(later, True)  # root's own silent one goes before somebody who waits
    assert (is_lost(root), is_lost(late)) == (True, False)


@pytest.mark.parametrize("uid", [0, os.geteuid(), None])
def test_a_user_has_a_few_questions_under_way_and_root_any_number(
    connect: Connect, uid: int | None
) -> None:
    places = Places(100)
    asked = [connect() for _ in range(MAX_PER_USER)]
    assert all(taken(places, connection, NEWS) for connection in asked)
    with pytest.raises(TryAgainError, match=f"busy: {MAX_PER_USER} questions of user 9"):
        taken(places, connect(), NEWS)
    assert taken(places, connect(), GAMES)
    assert all(taken(places, connect(), uid) for _ in range(MAX_PER_USER + 1))
    places.give_back(asked[0])
    assert taken(places, connect(), NEWS)


def test_a_question_whose_place_is_lost_counts_until_its_thread_ends(connect: Connect) -> None:
    places = Places(MAX_PER_USER)
    asked = [connect() for _ in range(MAX_PER_USER)]
    assert all(taken(places, connection, NEWS) for connection in asked)
    assert taken(places, connect(), 0, first=True)
    places.give_back(asked[1])
    places.give_back(asked[2])
    assert taken(places, connect(), NEWS)
    assert taken(places, connect(), NEWS)
    places.give_back(asked[3])
    assert taken(places, connect(), NEWS)
    assert is_lost(asked[0])
    with pytest.raises(UnavailableError):
        places.has_asked(asked[0], NEWS)
