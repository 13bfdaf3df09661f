"""Copies of a script on the nodes of a job: they go with their job, or with a later one."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.golden_jobscripts import FOLDER

from gsched.launch import private_folder
from gsched.launch.private_folder import COPIES, COPY_AGE_S, COPY_MARK, COPY_PLACES, PREFIX, held
from gsched.testbed.wait import wait_for

HERE = socket.gethostname()
Making = Callable[..., Path]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of this machine's /tmp."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.setattr(private_folder, "COPY_PLACES", (place,))
    return place


@pytest.fixture
def make(tmp_path: Path) -> Making:
    """Copies that an earlier job has left."""

    def made(
        name: str, *hosts: str, age_s: float = COPY_AGE_S + 60, place: Path = tmp_path
    ) -> Path:
        folder = place / f"{PREFIX}{name}{COPIES}"
        folder.mkdir(mode=0o700)
        (folder / "slurm_script").write_text("import time\nprint('up', flush=True)\ntime.sleep(99)")
        for host in hosts:
            (folder / f"{COPY_MARK}{host}").touch()
        then = time.time() - age_s
        os.utime(folder, (then, then))
        return folder

    return made


def run_a_job(place: Path) -> None:
    own = place / f"{PREFIX}new"
    own.mkdir()
    with held(own):
        pass
    assert not own.exists()


def test_a_jobs_own_copies_on_its_first_node_go_with_it(
    tmp_path: Path, elsewhere: Path, make: Making
) -> None:
    own = tmp_path / f"{PREFIX}1"
    own.mkdir()
    with held(own):
        copies = [make("1", HERE, age_s=0), make("1", HERE, age_s=0, place=elsewhere)]
        others = make("2", HERE, age_s=0)
    assert not any(path.exists() for path in copies)
    assert others.exists()


def test_what_a_cancelled_job_has_left_on_a_node_goes_with_a_later_job(
    tmp_path: Path, elsewhere: Path, make: Making
) -> None:
    left = [make("1", HERE), make("2", HERE, place=elsewhere)]
    run_a_job(tmp_path)
    assert not any(path.exists() for path in left)


def test_what_may_be_in_use_stays(tmp_path: Path, make: Making) -> None:
    young = make("young", HERE, age_s=60)
    foreign = make("foreign", "another-host")
    shared = make("shared", HERE, "another-host")
    unmarked = make("unmarked")
    link = tmp_path / f"{PREFIX}link{COPIES}"
    link.symlink_to(foreign)
    run_a_job(tmp_path)
    assert all(path.exists() for path in (young, foreign, shared, unmarked, link))


def test_copies_from_which_a_process_runs_stay(tmp_path: Path, make: Making) -> None:
    copies = make("1", HERE)
    argv = [sys.executable, "-I", str(copies / "slurm_script")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as rank:
        assert rank.stdout is not None
        wait_for(lambda: rank.stdout.readline() == "up\n", "the rank")  # type: ignore[union-attr]
        run_a_job(tmp_path)
        assert copies.exists()
        rank.kill()
    run_a_job(tmp_path)
    assert not copies.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder away")
def test_another_users_copies_stay(tmp_path: Path, make: Making) -> None:
    copies = make("1", HERE)
    then = copies.stat().st_mtime
    os.chown(copies, 12_345, 12_345)
    os.utime(copies, (then, then))
    run_a_job(tmp_path)
    assert copies.exists()


def test_places_and_marks_are_those_of_the_template() -> None:
    text = (FOLDER / "ddp.sh").read_text()
    (places,) = re.findall(r"for place in (.*); do", text)
    assert places.split()[-2:] == [str(place) for place in COPY_PLACES]
    assert f'"$1/{COPY_MARK}$(uname -n)"' in text
    assert f"${{folder##*/}}{COPIES}\n" in text
