"""The folders of the database servers that tests start: none is left, and none disturbs another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from support.server_processes import server_folder

HOLD = """
import sys
from support.server_processes import server_folder
with server_folder(sys.argv[1]) as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_has_left_goes_at_the_next_start(tmp_path):
    tests = str(Path(__file__).parents[1])
    ended, alive = (
        subprocess.Popen(
            (sys.executable, "-c", HOLD, tmp_path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": tests},
            text=True,
        )
        for _ in range(2)
    )
    try:
        left, used = (Path(process.stdout.readline().strip()) for process in (ended, alive))
        ended.send_signal(signal.SIGTERM)
        ended.wait()
        assert left.is_dir()
        somebodys = tmp_path / "gsched-server-abc"
        somebodys.mkdir()
        with server_folder(str(tmp_path)) as mine:
            assert sorted(tmp_path.iterdir()) == sorted([used, mine, somebodys])
        assert not mine.exists()
    finally:
        for process in (ended, alive):
            process.kill()
            process.communicate()
