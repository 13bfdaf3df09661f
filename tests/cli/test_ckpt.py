"""`gsched ckpt` as scripts and people meet it."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys

import pytest
from support.checkpoints import names, tear, write_checkpoint
from support.json_shape import block
from support.open_folders import open_to_all

from gsched.ckpt import layout
from gsched_cli.commands.ckpt import ckpt


@pytest.fixture
def run(tmp_path):
    """Steps 10 to 40; 30 is torn, 50 was never committed."""
    folder = tmp_path / "run"
    for step in (10, 20, 40):
        write_checkpoint(folder, step)
    tear(write_checkpoint(folder, 30))
    write_checkpoint(folder, 50, name=layout.partial_name(50, "0123456789ab"))
    return folder


def test_list(gsched, run):
    done = gsched("ckpt", "list", run, "-o", "step,verdict,kind,name,reason")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "STEP  VERDICT      KIND    NAME                                     REASON",
        "  50  uncommitted  gsched  .partial-step-000000000050-0123456789ab  its writer has not "
        "committed it",
        "  40  whole        gsched  step-000000000040                        -",
        "  30  whole        gsched  step-000000000030                        -",
        "  20  whole        gsched  step-000000000020                        -",
        "  10  whole        gsched  step-000000000010                        -",
    ]


def test_verify(gsched, run):
    done = gsched("ckpt", "verify", run, "-P", "-o", "step,verdict,checked,reason")
    assert done.returncode == 65
    assert done.stdout.splitlines() == [
        "step|verdict|checked|reason",
        "50|uncommitted|lengths|its writer has not committed it",
        "40|whole|checksums|",
        "30|torn|checksums|checksum of rank-00000-of-00002.safetensors",
        "20|whole|checksums|",
        "10|whole|checksums|",
    ]
    assert done.stderr.splitlines() == [
        "gsched: warning: .partial-step-000000000050-0123456789ab is uncommitted: its writer has "
        "not committed it",
        "gsched: warning: step-000000000030 is torn: checksum of rank-00000-of-00002.safetensors",
    ]
    whole = gsched("ckpt", "verify", run / layout.step_name(40), run / layout.step_name(10))
    assert whole.returncode == 0
    assert len(whole.stdout.splitlines()) == 3


def test_latest_prints_a_path_and_nothing_else(gsched, run):
    done = gsched("ckpt", "latest", run.name)
    assert (done.returncode, done.stdout) == (0, f"{run / layout.step_name(40)}\n")
    before = gsched("ckpt", "latest", run, "--before", "40")
    assert (before.returncode, before.stdout) == (0, f"{run / layout.step_name(20)}\n")
    assert before.stderr == (
        "gsched: warning: passed over step-000000000030, torn: checksum of "
        "rank-00000-of-00002.safetensors\n"
    )


def test_exit_codes_tell_none_valid_apart(gsched, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    begun = tmp_path / "begun"
    write_checkpoint(begun, 5, name=layout.partial_name(5, "0123456789ab"))
    torn = tmp_path / "torn"
    (write_checkpoint(torn, 5) / layout.MANIFEST_NAME).unlink()
    for words in (("list",), ("verify",), ("latest",), ("prune", "--keep", "1"), ("resume",)):
        assert gsched("ckpt", *words, empty).returncode == 66, words
        assert gsched("ckpt", *words, torn).returncode == 4, words
    assert gsched("ckpt", "latest", begun).returncode == 66
    assert gsched("ckpt", "latest", tmp_path / "none").returncode == 66
    done = gsched("ckpt", "latest", torn)
    assert done.stdout == ""
    assert done.stderr == (
        "gsched: warning: passed over step-000000000005, torn: manifest.json is missing\n"
        f"gsched: error: none of 1 checkpoints in {torn} is valid; the newest, step-000000000005: "
        "manifest.json is missing\n"
        "hint: `gsched ckpt verify` says what is wrong with each\n"
    )


def test_prune_shows_first(gsched, run):
    before = names(run)
    shown = gsched("ckpt", "prune", "--keep", "1", run)
    assert shown.returncode == 0
    assert [line.split()[:3] for line in shown.stdout.splitlines()[1:]] == [
        ["spare", "50", "uncommitted"],
        ["keep", "40", "whole"],
        ["remove", "30", "whole"],
        ["remove", "20", "whole"],
        ["remove", "10", "whole"],
    ]
    assert "3 of 5 would go with --apply" in shown.stderr
    assert names(run) == before
    done = gsched("ckpt", "prune", "--keep", "1", "--apply", run)
    assert done.returncode == 0
    assert names(run) == {layout.step_name(40), layout.partial_name(50, "0123456789ab")}


@pytest.mark.parametrize("point", ["ckpt-removal-begun", "ckpt-file-removed:2"])
def test_prune_killed_goes_on_the_next_time(gsched, run, point):
    killed = gsched(
        "ckpt", "prune", "--keep", "1", "--apply", run, environ={"GSCHED_FAULT_POINT": point}
    )
    assert killed.returncode == -signal.SIGKILL
    assert any(name.startswith(layout.REMOVING_PREFIX) for name in names(run))
    assert gsched("ckpt", "latest", run).stdout == f"{run / layout.step_name(40)}\n"
    gsched("ckpt", "prune", "--keep", "1", "--apply", run)
    assert names(run) == {layout.step_name(40), layout.partial_name(50, "0123456789ab")}


def test_resume_and_undo(gsched, run):
    dry = gsched("ckpt", "resume", run, "--step", "10", "--dry-run")
    assert dry.stderr.splitlines() == [
        f"gsched: would be set aside: {layout.step_name(step)}" for step in (40, 30, 20)
    ]
    done = gsched("ckpt", "resume", run, "--step", "10")
    assert (done.returncode, done.stdout) == (0, f"{run / layout.step_name(10)}\n")
    assert gsched("ckpt", "latest", run).stdout == f"{run / layout.step_name(10)}\n"
    undone = gsched("ckpt", "resume", run, "--undo")
    assert (undone.returncode, undone.stdout) == (0, f"{run / layout.step_name(40)}\n")
    assert gsched("ckpt", "resume", run, "--undo").returncode == 2
    assert gsched("ckpt", "resume", run, "--undo", "--step", "1").returncode == 2
    torn = gsched("ckpt", "resume", run, "--step", "30")
    assert (torn.returncode, torn.stdout) == (4, "")
    assert len([name for name in names(run) if layout.parse_step_name(name) is not None]) == 4


def test_a_name_of_any_bytes(gsched, tmp_path):
    folder = tmp_path / os.fsdecode(b"run\n\xff\x1b[31m")
    write_checkpoint(folder, 1)
    done = gsched("ckpt", "latest", folder)
    assert os.fsencode(done.stdout) == os.fsencode(folder / layout.step_name(1)) + b"\n"
    (found,) = json.loads(gsched("ckpt", "list", folder, "--json").stdout)["checkpoints"]
    assert found["path"] == str(folder / layout.step_name(1))
    assert "\x1b" not in gsched("ckpt", "list", folder, "-o", "path").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("list", "run"),
        ("verify", "run"),
        ("latest", "--before", "40", "run"),
        ("prune", "--keep", "1", "run"),
        ("resume", "--step", "10", "run"),
    ],
    ids=lambda words: words[0],
)
def test_the_documented_keys_are_the_keys(gsched, run, words):
    document = json.loads(gsched("ckpt", *words, "--json").stdout)
    assert block(document) in inspect.cleandoc(ckpt.commands[words[0]].help)


def test_no_heavy_module_is_needed(gsched, run, environment):
    code = (
        "import sys\nfrom gsched_cli.main import run\n"
        f"assert run(['ckpt', 'verify', {str(run)!r}]) == 65\n"
        "print(sorted({'torch', 'numpy', 'sqlalchemy', 'pickle'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "['pickle']"  # pickletools names its operations


def test_root_changes_with_the_owners_rights_alone(gsched, run, tmp_path):
    if os.geteuid() != 0:  # nobody else has another one's rights
        return
    open_to_all(tmp_path)
    for path in (run, *run.rglob("*")):
        os.chown(path, 65534, 65534)
    locked = run / layout.step_name(10)
    os.chown(locked, 0, 0)
    locked.chmod(0o755)
    done = gsched("ckpt", "prune", "--keep", "1", "--apply", run)
    assert "belongs to another user (uid 0)" in done.stdout
    assert locked.exists()
    assert not (run / layout.step_name(20)).exists()
    link = tmp_path / "link"
    link.symlink_to(run)
    os.lchown(link, 12345, 12345)
    led = gsched("ckpt", "prune", "--keep", "1", link)
    assert (led.returncode, "is a link of uid 12345" in led.stderr) == (77, True)
