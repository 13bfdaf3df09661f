"""`gsched jobscript`, and `gsched submit --gs-dry-run` with a template, as a user meets them."""

from __future__ import annotations

import json
import sys

import pytest
from support.golden_jobscripts import SHELL

PYTHON = {"GSCHED_JOBSCRIPT_PYTHON": sys.executable, "GSCHED_JOBSCRIPT_DIR": "/nonexistent"}


@pytest.fixture
def sbatch(stand_in):
    return stand_in("sbatch")


@pytest.fixture
def site(tmp_path):
    """A site with a template of its own, and one that is broken."""
    folder = tmp_path / "templates"
    folder.mkdir()
    own = '{# help = "The site\'s." #}\n{% extends "plain.sh.j2" %}\n'
    (folder / "own.sh.j2").write_text(own)
    (folder / "broken.sh.j2").write_text('{# help = "x" #}\n{% if %}\n')
    (folder / "wrong.sh.j2").write_text('{# help = "x" #}\n#!/bin/sh\nif {{ body }}\n')
    return PYTHON | {"GSCHED_JOBSCRIPT_DIR": str(folder)}


def test_list_names_the_templates(gsched, site):
    answer = gsched("jobscript", "list", environ=site)
    rows = {line.split()[0]: line for line in answer.stdout.splitlines()}
    assert list(rows) == [
        "TEMPLATE", "array", "broken", "ddp", "debug", "evaluation", "own", "plain", "requeue",
        "wrong",
    ]  # fmt: skip
    assert rows["requeue"].split()[1:3] == ["gsched", "always"]
    assert rows["own"].split()[1:3] == ["site", "asked"]
    assert "cannot be used: " in rows["broken"]
    assert "broken.sh.j2 line 2" in rows["broken"]
    document = json.loads(gsched("jobscript", "list", "--json", environ=site).stdout)
    found = {one["name"]: one for one in document["templates"]}
    assert found["own"]["is_site"] is True
    assert found["broken"]["help"] is None
    assert "line 2" in found["broken"]["problem"]


def test_show_tells_one_in_full(gsched):
    answer = gsched("jobscript", "show", "requeue", environ=PYTHON).stdout
    assert answer.startswith("requeue: Comes back after a preemption")
    assert "  at_timeout " in answer
    assert "[append, attempts; default append]" in answer
    document = json.loads(gsched("jobscript", "show", "ddp", "--json", environ=PYTHON).stdout)
    keys = {key["name"]: key for key in document["keys"]}
    assert keys["nproc"] == {
        "name": "nproc",
        "help": keys["nproc"]["help"],
        "default": 0,
        "minimum": 0,
        "maximum": 1024,
        "choices": [],
        "required": False,
        "needs_checkpoints": False,
    }
    assert "needed" in gsched("jobscript", "show", "evaluation", environ=PYTHON).stdout
    source = gsched("jobscript", "show", "plain", "--source", environ=PYTHON).stdout
    assert source.startswith("{#\n")
    assert source.endswith('{% extends "base.sh.j2" %}\n')


def test_show_of_none_names_those_that_there_are(gsched):
    answer = gsched("jobscript", "show", "requeu", environ=PYTHON)
    assert answer.returncode == 2
    assert "did you mean requeue?" in answer.stderr


def test_check_tries_all_and_says_what_is_wrong(gsched, site):
    answer = gsched("jobscript", "check", environ=PYTHON)
    assert answer.returncode == 0, answer.stdout
    assert answer.stdout.splitlines()[-1] == "python: ok"
    answer = gsched("jobscript", "check", environ=site)
    assert answer.returncode == 78
    assert "template own: ok" in answer.stdout
    assert "template broken: " in answer.stdout
    assert "template wrong: " in answer.stdout
    document = json.loads(gsched("jobscript", "check", "own", "--json", environ=site).stdout)
    assert document["findings"] == [
        {"what": what, "problem": None, "hint": None, "is_possible": False}
        for what in ("template own", "python")
    ]


def test_check_sets_keys_to_what_they_may_be_and_asks_sbatch_for_its_options(
    gsched, sbatch, tmp_path
):
    head = '{# help = "x"\n'
    facts = {"word": 'default = ""\nchoices = ["a"]', "count": "default = 0\nminimum = 1"}
    for name, fact in (facts | {"flag": "default = false", "text": 'default = ""'}).items():
        head += f'[keys.{name}]\nhelp = "y"\nrequired = true\n{fact}\n'
    block = '#}\n{% extends "plain.sh.j2" %}{% block directives %}#SBATCH -N2 %s\n{% endblock %}'
    for name, option in {"sound": "--time=1", "other": "--nosuch=3"}.items():
        (tmp_path / f"{name}.sh.j2").write_text(head + block.replace("%s", option))
    site = PYTHON | {"GSCHED_JOBSCRIPT_DIR": str(tmp_path)}
    answer = gsched("jobscript", "check", "sound", "other", environ=site)
    assert answer.returncode == 78
    sound, other, _ = answer.stdout.splitlines()
    assert sound == "template sound: ok"
    assert other.endswith("other.sh.j2: sbatch has no option --nosuch=3")


def test_check_says_a_python_without_gsched(gsched, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named gsched >&2\nexit 1\n")
    python.chmod(0o755)
    environ = PYTHON | {"GSCHED_JOBSCRIPT_PYTHON": str(python)}
    answer = gsched("jobscript", "check", "plain", environ=environ)
    assert answer.returncode == 78
    assert f"python: {python} cannot run gsched: No module named gsched" in answer.stdout


def test_what_only_may_be_wrong_is_no_failure(gsched):
    """This process's own Python lies on a disk of this host alone, or it does not."""
    environ = PYTHON | {"GSCHED_JOBSCRIPT_PYTHON": ""}
    answer = gsched("jobscript", "check", "plain", "--json", environ=environ)
    findings = json.loads(answer.stdout)["findings"]
    assert answer.returncode == 0
    assert [one["is_possible"] for one in findings if one["problem"]] in ([], [True])


def test_a_dry_run_prints_what_sbatch_would_get(gsched, sbatch, tmp_path):
    (tmp_path / "train.sh").write_text(SHELL)
    words = ("--gs-checkpoint=60", "train.sh", "it's")
    answer = gsched("submit", "--gs-dry-run", *words, environ=PYTHON)
    assert answer.returncode == 0
    assert sbatch.calls == []
    first, _, rest = answer.stdout.partition("\n")
    command, _, end = first.partition(" <<")
    assert command == "sbatch '--comment=gs1{ckpt}' /dev/stdin 'it'\"'\"'s'"
    assert rest.endswith(end.strip("'") + "\n")
    assert f"\n{SHELL}GSCHED-END-" in rest
    submitted = gsched("submit", *words, environ=PYTHON)
    assert submitted.returncode == 0
    (call,) = sbatch.calls
    assert call["argv"] == ["--comment=gs1{ckpt}", "/dev/stdin", "it's"]
    assert call["stdin"] == rest.removesuffix(end.strip("'") + "\n")


def test_what_slurm_says_of_the_grace_after_sigterm_is_passed_on(
    gsched, sbatch, stand_in, tmp_path
):
    (tmp_path / "train.sh").write_text(SHELL)
    scontrol = stand_in("scontrol")
    words = ("submit", "--gs-dry-run", "--gs-runtime=plain", "train.sh")
    assert "--grace=" not in gsched(*words, environ=PYTHON).stdout
    scontrol.answers("ClusterName = c\nKillWait                = 17 sec\n")
    assert "        --grace=17 \\\n" in gsched(*words, environ=PYTHON).stdout


def test_a_wrong_key_is_refused_before_anything_is_submitted(gsched, sbatch, tmp_path):
    (tmp_path / "train.sh").write_text(SHELL)
    answer = gsched("submit", "--gs-runtime=requeue,grade=1", "train.sh", environ=PYTHON)
    assert answer.returncode == 2
    assert "template requeue has no key 'grade'" in answer.stderr
    assert "it has: grace, folder, at_timeout, log" in answer.stderr
    assert sbatch.calls == []
