from __future__ import annotations

import os
import subprocess

import pytest

from gsched.app import submit
from gsched.errors import UnavailableError, UsageError

SCRIPT = "#!/bin/sh\n#SBATCH -p gpu\ntrue\n"


@pytest.fixture
def job_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(SCRIPT)
    return tmp_path


def prepare(*args, environ=None, stdin=b""):
    return submit.prepare(args, {"PATH": "/nowhere"} if environ is None else environ, lambda: stdin)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["job.sh"],
        ["-p", "gpu", "--gres=gpu:2", "job.sh", "--gs-none", ":", "", "a b"],
        ["--wrap", "echo hi"],
        ["-N1", ":", "-N2", "--", "job.sh"],
        ["--comment", "--gs-none", "job.sh"],
        ["--array=1-3%2", "nosuch.sh"],
    ],
)
def test_without_own_options_the_command_line_is_handed_on_to_the_letter(job_folder, args):
    assert prepare(*args).argv == ("sbatch", *args)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--gs-none", "job.sh", "--gs-none"], ["--comment=gs1{none}", "job.sh", "--gs-none"]),
        (["-H", "--gs-none", "-Q", "job.sh"], ["-H", "-Q", "--comment=gs1{none}", "job.sh"]),
        (["--gs-none", "--", "job.sh"], ["--comment=gs1{none}", "--", "job.sh"]),
        (["--gs-none", "--wrap", "x"], ["--wrap", "x", "--comment=gs1{none}"]),
        (
            ["-N1", ":", "-N2", "--gs-none", "job.sh"],
            ["-N1", "--comment=gs1{none}", ":", "-N2", "job.sh"],
        ),
        (
            ["--comment", "mine; yours", "--gs-none", "job.sh"],
            ["--comment", "mine; yours", "--comment=mine; yours gs1{none}", "job.sh"],
        ),
        (
            ["--comm=a", "--comment=b", "--gs-none", "job.sh"],
            ["--comm=a", "--comment=b", "--comment=b gs1{none}", "job.sh"],
        ),
        (
            ["--gs-none", ":", "--comment=second", "job.sh"],
            ["--comment=gs1{none}", ":", "--comment=second", "job.sh"],
        ),
        (["--gs-none", "--partition"], ["--partition"]),  # sbatch will refuse it
    ],
)
def test_opting_out_appends_the_token_to_the_comment(job_folder, args, expected):
    assert prepare(*args).argv == ("sbatch", *expected)


def test_the_scripts_own_comment_is_kept_and_the_command_lines_wins(job_folder):
    (job_folder / "job.sh").write_text('#!/bin/sh\n#SBATCH --comment="a b"\n#GSCHED --gs-none\n')
    assert prepare("job.sh").argv == ("sbatch", "--comment=a b gs1{none}", "job.sh")
    assert prepare("--comment=c", "job.sh").argv[2:] == ("--comment=c gs1{none}", "job.sh")


def test_a_comment_of_another_component_that_gets_lost_is_said(job_folder):
    het = "#!/bin/sh\n#SBATCH --comment=a\n#SBATCH hetjob\n#SBATCH --comment=b\n"
    (job_folder / "job.sh").write_text(het)
    assert "replaces those of the other components" in prepare("--gs-none", "job.sh").warnings[0]
    assert prepare("--gs-none", ":", "-N1", "job.sh").warnings == ()
    assert prepare("job.sh").warnings == ()


def test_a_script_on_standard_input_is_read_and_handed_on():
    script = b"#!/bin/sh\n#GSCHED --gs-none\necho \xff\n"
    prepared = prepare("-p", "gpu", stdin=script)
    assert prepared.argv == ("sbatch", "-p", "gpu", "--comment=gs1{none}")
    assert prepared.stdin == script


@pytest.mark.parametrize("args", [["job.sh"], ["--wrap", "x"], ["--usage"], ["-V"], ["-h"]])
def test_standard_input_is_left_alone_when_it_is_not_the_script(job_folder, args):
    def fail():
        pytest.fail("standard input was read")

    assert submit.prepare(args, {}, fail).stdin is None


@pytest.mark.parametrize("args", [["--gs-nnoe", "job.sh"], ["--gs-none=1", "job.sh"]])
def test_a_wrong_own_option_stops_the_submission(job_folder, args):
    with pytest.raises(UsageError):
        prepare(*args)


def test_a_late_directive_is_said_with_its_line(job_folder):
    (job_folder / "job.sh").write_text("#!/bin/sh\n\ntrue\n#SBATCH -N2\ntrue\n#GSCHED --gs-none\n")
    prepared = prepare("job.sh")
    assert prepared.warnings == (
        "job.sh line 4, line 6: #GSCHED and #SBATCH after the first command (line 3) is void",
    )
    assert prepared.argv == ("sbatch", "job.sh")


def test_a_pipe_as_script_is_not_drained(job_folder):
    os.mkfifo("pipe.sh")
    prepared = prepare("./pipe.sh")
    assert prepared.argv == ("sbatch", "./pipe.sh")
    assert "no regular file" in prepared.warnings[0]


def test_inside_a_job_its_variables_are_not_passed_on():
    environ = {
        "SLURM_JOB_ID": "7",
        "SLURM_CPU_BIND": "mask",
        "SLURM_EXPORT_ENV": "NONE",
        "SLURMD_NODENAME": "n1",
        "SBATCH_CPU_BIND_TYPE": "mask_cpu:",
        "SBATCH_MEM_BIND": "local",
        "SLURM_CONF": "/x/slurm.conf",
        "SBATCH_ACCOUNT": "lab1",
        "HOME": "/home/a",
    }
    kept = {"SLURM_CONF": "/x/slurm.conf", "SBATCH_ACCOUNT": "lab1", "HOME": "/home/a"}
    assert prepare("--wrap", "x", environ=environ).environ == kept


def test_outside_a_job_every_variable_is_passed_on():
    environ = {"SLURM_CLUSTERS": "b", "SBATCH_CPU_BIND": "x", "SLURM_HINT": "nomultithread"}
    assert prepare("--wrap", "x", environ=environ).environ == environ


# The order was seen with sbatch 22.05.8.
def test_the_script_is_looked_for_where_sbatch_looks(tmp_path, monkeypatch):
    for folder in ("here", "job", "bin1", "bin2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "s.sh").touch()
    monkeypatch.chdir(tmp_path / "here")
    environ = {"PATH": f"/nowhere:{tmp_path / 'bin1'}:{tmp_path / 'bin2'}"}

    def found(name, chdir=None):
        return submit.find_script(name, chdir, environ).resolve().relative_to(tmp_path).parts[0]

    assert found("s.sh") == "here"
    assert found("s.sh", "../job") == "job"
    assert found("./s.sh", "../job") == "here"
    (tmp_path / "job" / "s.sh").unlink()
    assert found("s.sh", "../job") == "bin1"
    (tmp_path / "here" / "s.sh").unlink()
    (tmp_path / "here" / "s.sh").mkdir()
    assert found("s.sh") == "bin1"


def test_an_unknown_option_is_looked_up_in_sbatchs_help(tmp_path, job_folder, monkeypatch):
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\necho '      --container-image=PATH  the image'\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:{os.environ['PATH']}")
    args = ["--container-image", "ubuntu", "--gs-none", "job.sh"]
    expected = ("sbatch", "--container-image", "ubuntu", "--comment=gs1{none}", "job.sh")
    assert prepare(*args).argv == expected


def test_without_sbatchs_help_an_unknown_option_has_no_argument(job_folder, monkeypatch):
    def missing(argv, timeout_s):
        assert argv == ["sbatch", "--help"]
        raise UnavailableError("sbatch not found on PATH")

    monkeypatch.setattr(submit, "run", missing)
    assert prepare("--x-ray", "--gs-none", "job.sh").argv[-1] == "job.sh"
    assert prepare("--x-ray", "--gs-none", "job.sh").argv[1] == "--x-ray"


def test_a_dry_run_shows_the_command_line_and_the_script(job_folder):
    prepared = prepare("--gs-dry-run", "--comment", "it's", "job.sh", "a b")
    assert prepared.is_dry_run
    assert submit.dry_run_text(prepared) == (
        "sbatch --comment 'it'\"'\"'s' job.sh 'a b'\n# job.sh:\n" + SCRIPT
    )
    wrapped = prepare("--gs-dry-run", "--wrap", "echo hi")
    assert submit.dry_run_text(wrapped) == "sbatch --wrap 'echo hi'\n"


@pytest.mark.parametrize(
    "word", ["a b", "it's", "\x1b[31m", "two\nlines'", "\udcff\\x", "模\u202e"]
)
def test_a_quoted_word_is_read_back_by_a_shell(job_folder, word):
    prepared = prepare("--gs-dry-run", "--wrap", "x", "-J", word)
    line = submit.dry_run_text(prepared).rstrip("\n")
    assert line.isprintable()
    echo = line.replace("sbatch", "printf %s\\\\n", 1)
    done = subprocess.run(["bash", "-c", echo], capture_output=True, check=True)
    assert os.fsdecode(done.stdout).removeprefix("--wrap\nx\n-J\n") == word + "\n"
