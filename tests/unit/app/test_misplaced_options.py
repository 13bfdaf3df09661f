"""gsched's own options where they do not count: a value that stands apart, a word too late."""

from __future__ import annotations

import pytest

from gsched.app import submit
from gsched.config.settings import Settings
from gsched.errors import UsageError


@pytest.fixture(autouse=True)
def _job_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text("#!/bin/sh\n")


def prepare(*args):
    return submit.prepare(args, {"PATH": "/nowhere"}, lambda _: b"", 0, settings=Settings)


@pytest.mark.parametrize(
    ("args", "name", "meant"),
    [
        (("--gs-checkpoint", "600"), "600", "--gs-checkpoint=600"),
        (("-N1", "--gs-checkpoint", "0.5"), "0.5", "--gs-checkpoint=0.5"),
        (("--gs-runtime", "requeue", "at_timeout=3"), "at_timeout=3",
         "--gs-runtime=requeue,at_timeout=3"),
        (("--gs-runtime=ddp,nproc=2", "folder=a/b"), "folder=a/b",
         "--gs-runtime=ddp,nproc=2,folder=a/b"),
    ],
)  # fmt: skip
def test_a_value_that_stands_apart_is_named(args, name, meant):
    with pytest.raises(UsageError) as caught:
        prepare(*args, "job.sh")
    assert caught.value.message == f"there is no script {name!r}"
    assert caught.value.hint == f"did you mean {meant}?"


@pytest.mark.parametrize(
    "args",
    [
        ("--gs-checkpoint", "none.sh"),
        ("--gs-checkpoint=5", "600"),
        ("-N1", "600"),
        ("--gs-phase=eval", "a=b"),
        ("--gs-checkpoint", "--", "600"),
        ("--gs-checkpoint", "a=b"),
    ],
)
def test_what_is_no_value_is_left_to_sbatch(args):
    assert prepare(*args).argv[-1] == args[-1]


def test_a_script_may_have_such_a_name(tmp_path):
    (tmp_path / "600").write_text("#!/bin/sh\n")
    (tmp_path / "a=b").write_text("#!/bin/sh\n")
    assert prepare("--gs-dry-run", "600").script == "#!/bin/sh\n"
    assert prepare("--gs-checkpoint", "600").is_wrapped
    assert prepare("--gs-runtime", "plain", "a=b").is_wrapped


def test_an_option_behind_the_script_is_said_to_be_its_argument():
    prepared = prepare("job.sh", "-x", "--gs-checkpoint=5", "--gs-none", "--gs-other")
    assert prepared.argv == (
        "sbatch",
        "job.sh",
        "-x",
        "--gs-checkpoint=5",
        "--gs-none",
        "--gs-other",
    )
    assert prepared.warnings == (
        "--gs-checkpoint=5, --gs-none: an argument of job.sh, no option of this submission; "
        "gsched's options stand before the script",
    )


@pytest.mark.parametrize(
    "args",
    [("job.sh",), ("job.sh", "--gs"), ("--", "job.sh", "--gs-none"), ("--gs-none", "job.sh")],
)
def test_nothing_is_said_of_what_is_in_its_place(args):
    assert prepare(*args).warnings == ()
