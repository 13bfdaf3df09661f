"""Commands that switch nodes: their end, their words, and what is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.errors import ConfigError, TryAgainError
from gsched.power.child import Ended, run
from gsched.testbed.wait import wait_for

SH = ("/bin/sh", "-c")


def test_status_and_words_are_told_and_nothing_is_inherited(monkeypatch) -> None:
    monkeypatch.setenv("GSCHED_CONFIG", "/x")
    script = "cat; pwd; echo $GSCHED_CONFIG$SECRET; echo wrong >&2; exit 4"
    assert run((*SH, script), {"SECRET": "s3"}, 20) == Ended(4, "/\ns3\nwrong")
    assert run((*SH, "kill -9 $$"), {}, 20).status == -9


def test_words_without_end_hold_up_nothing_and_are_not_kept() -> None:
    ended = run((*SH, "head -c 3000000 /dev/zero | tr '\\0' x; exit 3"), {}, 20)
    assert (ended.status, len(ended.words)) == (3, 4096)


def test_what_it_leaves_in_the_background_lives_on_and_is_not_waited_for(tmp_path: Path) -> None:
    script = f"(while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; touch {tmp_path}/lived) & exit 0"
    assert run((*SH, script), {}, 20) == Ended(0, "")
    (tmp_path / "go").touch()
    wait_for((tmp_path / "lived").exists, "what was started to go on")


def test_what_takes_too_long_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! >{tmp_path}/pid; wait"
    with pytest.raises(TryAgainError, match=r"/bin/sh did not end within 0\.5 s"):
        run((*SH, script), {}, 0.5)
    process = Path("/proc", (tmp_path / "pid").read_text().strip())
    wait_for(lambda: not process.exists() or " Z " in (process / "stat").read_text(), "its end")


@pytest.mark.parametrize("program", ["/nowhere", "/etc/passwd", "/tmp"])
def test_what_is_no_program_is_a_fault_of_the_configuration(program: str) -> None:
    with pytest.raises(ConfigError, match=f"{program} cannot be started"):
        run((program,), {}, 1)
