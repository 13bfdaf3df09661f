"""Whether a process lives, and whether this is the machine that a daemon has told of."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from gsched.testbed.wait import wait_for
from gsched_sql import machine, machine_id

ASK_AS_ANOTHER = """
import os, sys
from gsched_sql.machine import lives
os.setuid(8)
print(lives(int(sys.argv[1])))
"""


def test_a_process_lives_until_it_has_ended() -> None:
    with subprocess.Popen((sys.executable, "-c", "input()"), stdin=subprocess.PIPE) as other:
        assert machine.lives(other.pid)
        other.kill()
        wait_for(lambda: not machine.lives(other.pid), "the end of a process")
        assert Path(f"/proc/{other.pid}").exists()  # nobody has waited for it
    assert not machine.lives(other.pid)


def test_a_process_of_another_user_lives() -> None:
    argv = [sys.executable, "-c", ASK_AS_ANOTHER, str(os.getpid())]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "True\n"


def test_what_is_no_number_of_a_process_is_not_taken_for_dead() -> None:
    assert machine.lives(2**70)


def test_this_machine_is_known_by_name_and_id() -> None:
    here = (socket.gethostname(), machine_id())
    assert machine.is_here(*here)
    assert not machine.is_here("elsewhere", here[1])  # a container of this machine
    assert not machine.is_here(here[0], "another-machine")
