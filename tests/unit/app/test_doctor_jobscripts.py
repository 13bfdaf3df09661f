"""doctor on job scripts: faults in templates, in who may write them, and in the Python of jobs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.paper_site import PaperSite, carry_out

from gsched.app.doctor import Finding
from gsched.mounts import mounts_of_this_host, own_disk_of

SOUND = '{# help = "ours" #}\n{% extends "gsched/requeue.sh.j2" %}\n'


@pytest.fixture
def site(tmp_path: Path) -> PaperSite:
    return PaperSite(tmp_path)


@pytest.fixture
def folder(site: PaperSite) -> Path:
    """The site's templates: one, and it is sound."""
    made = site.folder / "templates"
    made.mkdir(mode=0o755)
    write(made / "ours.sh.j2", SOUND)
    return made


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o644)


def found(site: PaperSite) -> dict[str, Finding]:
    return {f.code: f for f in site.examine() if f.what == "job scripts"}


def test_a_sound_folder_is_counted(site: PaperSite, folder: Path) -> None:
    told = found(site)
    assert told.keys() == {"job-scripts"}
    assert told["job-scripts"].found.endswith("templates, 1 of the site's")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (SOUND + "{% block options %}", "Unexpected end of template"),
        ("#!/bin/sh\nsleep 1\n", "begins with no comment"),
        (SOUND.replace("requeue", "nothing"), "no such template to extend"),
        (SOUND + "{% block environment %}if{% endblock %}", "the shell does not read its result"),
        (SOUND + "{% block environment %}{{ nobody }}{% endblock %}", "nobody"),
    ],
)
def test_a_faulty_template_is_named(site: PaperSite, folder: Path, text: str, says: str) -> None:
    write(folder / "theirs.sh.j2", text)
    told = found(site)
    assert told.keys() == {"job-script-template"}
    assert says in told["job-script-template"].found
    assert told["job-script-template"].mend


def test_a_template_that_extends_itself_hides_no_other_finding(
    site: PaperSite, folder: Path
) -> None:
    text = SOUND.replace("gsched/requeue", "requeue")
    write(folder / "requeue.sh.j2", text)
    site.configure("jobscript", python='"/bin/false"')
    told = found(site)
    assert told.keys() == {"job-script-template", "job-script-python"}
    assert "extends itself" in told["job-script-template"].found


@pytest.mark.parametrize("name", ["", "ours.sh.j2"])
def test_who_else_could_write_one(site: PaperSite, folder: Path, name: str) -> None:
    path = folder / name
    path.chmod(path.stat().st_mode | 0o020)
    told = found(site)
    assert str(path) in told["job-script-writable"].found
    carry_out(told["job-script-writable"].mend)
    assert found(site).keys() == {"job-scripts"}


@pytest.mark.parametrize("python", ["/nowhere/python", "/bin/false"])
def test_a_python_that_cannot_run_gsched(site: PaperSite, python: str) -> None:
    site.configure("jobscript", python=f'"{python}"')
    told = found(site)
    assert told.keys() == {"job-script-python"}
    assert python in told["job-script-python"].found
    assert "jobscript.python" in told["job-script-python"].mend


def test_the_python_of_gsched_itself_is_good(site: PaperSite, folder: Path) -> None:
    site.configure("jobscript", python=f'"{sys.executable}"')
    assert found(site).keys() == {"job-scripts"}


def test_a_disk_of_this_host_is_named_where_nobody_has_chosen_the_python(site: PaperSite) -> None:
    site.configure("jobscript", python='""')
    kind = own_disk_of(sys.executable, mounts_of_this_host())
    told = found(site)
    assert told.keys() == {"job-script-python-local" if kind else "job-scripts"}
    assert all(f"({kind})" in f.found and f.level == "note" for f in told.values() if kind)
