"""``gsched submit`` against the real sbatch: the same jobs, and the same idea of a command line."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from gsched.app.submit import find_script
from gsched.jobscript.command_line import SBATCH, scan
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

GSCHED = str(Path(sys.executable).with_name("gsched"))
NOT_IN_EVERY_RELEASE = {
    "consolidate-segments", "container-id", "extra", "ntasks-per-tres", "oom-kill-step", "power",
    "prefer", "resv-ports", "segment", "spread-segments", "stepmgr", "tres-bind", "tres-per-task",
}  # fmt: skip


@pytest.fixture
def folder(bed, monkeypatch):
    """An empty working folder, of this process as well."""
    path = bed.layout.home("root") / "submit"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    monkeypatch.chdir(path)
    return path


def submit(bed, *words, **options):
    """Submit held; returns the job's id."""
    done = bed.run([GSCHED, "submit", "--parsable", "--hold", *words], cwd=Path.cwd(), **options)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def shown(bed, job, key):
    record = bed.run(["scontrol", "show", "job", str(job)]).stdout
    return re.search(rf"(?:^|\s){key}=(.*?) *$", record, re.MULTILINE)[1]


def test_the_tables_know_what_sbatch_knows(bed):
    """An option that needs an argument says so; one that takes none refuses it."""
    for name in SBATCH.valued:
        said = bed.run(["sbatch", f"--{name}"]).stderr
        assert f"option '--{name}' requires an argument" in said or is_absent(name, said)
    for name in SBATCH.flags:
        said = bed.run(["sbatch", f"--{name}=x"]).stderr
        assert f"option '--{name}' doesn't allow an argument" in said or is_absent(name, said)
    for name in SBATCH.optional:
        done = bed.run(["sbatch", f"--{name}", "--usage"])
        assert done.returncode == 0 or is_absent(name, done.stderr)


def is_absent(name, said):
    """Whether this release has no such option: it may take the name for a longer one."""
    return name in NOT_IN_EVERY_RELEASE and ("unrecognized option" in said or f"--{name}-" in said)


def test_the_tables_know_every_option_of_sbatchs_help(bed):
    listed = bed.run(["sbatch", "--help"]).stdout
    learned = SBATCH.learned(listed)
    assert (learned.valued, learned.flags) == (SBATCH.valued, SBATCH.flags)
    assert listed.count("--partition=") == 1


@pytest.mark.parametrize(
    "directive",
    [
        "#SBATCH --comment=plain",
        '#SBATCH --comment="a #b" # -p none',
        "#SBATCH --comm='x\\y\"z'#foo",
        "#SBATCH--comment=close",
        "#SBATCH --comment 'two words' -N1",
        "#SBATCH --comment=one\n#SBATCH --comment=two",
        "   # text\n\n#SBATCH --comment=late",
    ],
)
def test_a_scripts_comment_is_read_as_sbatch_reads_it(bed, folder, directive):
    (folder / "job.sh").write_text(f"#!/bin/sh\n{directive}\ntrue\n")
    plain = shown(bed, submit(bed, "job.sh"), "Comment")
    assert shown(bed, submit(bed, "--gs-none", "job.sh"), "Comment") == f"{plain} gs1{{none}}"


def test_the_command_lines_comment_wins(bed, folder):
    (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --comment=script\n#GSCHED --gs-none\n")
    job = submit(bed, "--comment=line", "job.sh")
    assert shown(bed, job, "Comment") == "line gs1{none}"


def test_no_variable_gives_sbatch_a_comment(bed, folder):
    """Were it to, gsched would have to look at it."""
    job = submit(bed, "--comment=x", "--wrap", "true", extra_env={"SBATCH_COMMENT": "variable"})
    assert shown(bed, job, "Comment") == "x"
    (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --comment=script\n")
    job = submit(bed, "job.sh", extra_env={"SBATCH_COMMENT": "variable"})
    assert shown(bed, job, "Comment") == "script"


def test_the_leader_of_a_heterogeneous_job_carries_the_token(bed, folder):
    (folder / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH --comment=first\n#SBATCH hetjob\n#SBATCH --comment=second\n"
    )
    job = submit(bed, "--gs-none", "-N1", ":", "-N1", "job.sh")
    comments = [shown(bed, f"{job}+{offset}", "Comment") for offset in (0, 1)]
    assert comments == ["first gs1{none}", "second"]


@pytest.mark.parametrize("removed", ["none", "here", "job", "here job", "here job bin"])
@pytest.mark.parametrize(
    "words",
    [["s.sh"], ["./s.sh"], ["-D", "job", "s.sh"], ["-D", "job", "./s.sh"], ["-Djob", "s.sh"]],
)
def test_the_script_is_found_where_sbatch_finds_it(bed, folder, words, removed):
    places = {"here": folder, "job": folder / "job", "bin": folder / "bin"}
    for name, place in places.items():
        place.mkdir(exist_ok=True)
        if name not in removed.split():
            (place / "s.sh").write_text(f"#!/bin/sh\n#SBATCH --comment={name}\ntrue\n")
    path = f"{places['bin']}:/usr/bin:/bin"
    argv = ["sbatch", "--parsable", "--hold", *words]
    done = bed.run(argv, cwd=folder, extra_env={"PATH": path})
    chdir = next((word.value for word in scan(words, SBATCH) if word.name == "chdir"), None)
    found = find_script(words[-1], chdir, {"PATH": path})
    if done.returncode == 0:
        assert places[shown(bed, int(done.stdout), "Comment")].samefile(found.parent)
    else:
        assert "Unable to open file" in done.stderr
        assert not found.exists()


def test_a_script_from_standard_input_reaches_the_job(bed, folder):
    script = "#!/bin/sh\n#GSCHED --gs-none\n#SBATCH --job-name=piped\necho from stdin: $1\n"
    job = submit(bed, stdin=script)
    assert shown(bed, job, "JobName") == "piped"
    assert shown(bed, job, "Comment") == "gs1{none}"
    assert "echo from stdin" in bed.run(["scontrol", "write", "batch_script", str(job), "-"]).stdout


def test_a_script_behind_a_pipe_is_handed_on(bed, folder):
    shell = f"{GSCHED} submit --parsable --hold <(printf '#!/bin/sh\\ntrue\\n')"
    done = bed.run(["bash", "-c", shell])
    assert done.returncode == 0, done.stderr
    assert "no regular file" in done.stderr


def test_a_submission_from_inside_a_job_starts_clean(bed, folder):
    """What Slurm told the outer job (its id, its binding) is not in the inner job's way."""
    (folder / "inner.sh").write_text("#!/bin/sh\nenv >$1.part\nmv $1.part $1\n")
    inner = "submit -c1 -J inner -o /dev/null inner.sh"
    (folder / "outer.sh").write_text(f"#!/bin/sh\n{GSCHED} {inner} nested\n")
    for argv in (
        ["sbatch", "-c2", "-J", "outer", "-o", "/dev/null", "outer.sh"],
        [GSCHED, *inner.split(), "direct"],
    ):
        done = bed.run(argv, cwd=folder)
        assert done.returncode == 0, done.stderr
    wait_for(lambda: all((folder / n).exists() for n in ("nested", "direct")), "both jobs", 60)
    nested, direct = slurm_variables(folder / "nested"), slurm_variables(folder / "direct")
    assert nested["SLURM_JOB_NAME"] == "inner"
    assert nested["SLURM_CPUS_PER_TASK"] == "1"
    assert nested.keys() == direct.keys()


def slurm_variables(path):
    variables = dict(line.partition("=")[::2] for line in path.read_text().splitlines())
    return {n: v for n, v in variables.items() if n.startswith(("SLURM", "SBATCH_"))}


def test_exit_codes_are_sbatchs_own(bed, folder):
    done = bed.run([GSCHED, "submit", "--wait", "--wrap", "exit 42"])
    assert done.returncode == 42
    for argv in (
        ["-p", "nosuch", "--wrap", "true"],
        ["--nosuch"],
        ["nosuch.sh"],
        ["--wrap", "true", "x"],
    ):
        ours = bed.run([GSCHED, "submit", *argv])
        theirs = bed.run(["sbatch", *argv])
        assert (ours.returncode, ours.stdout, ours.stderr) == (
            theirs.returncode,
            theirs.stdout,
            theirs.stderr,
        )
        assert ours.returncode != 0
