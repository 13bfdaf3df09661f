"""``gsched submit`` against the real sbatch: the same jobs, and the same idea of a command line."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random

import pytest
from support.machine import slurm_release

from gsched.app.job_script import find_script
from gsched.app.submit import first_comment
from gsched.jobscript.command_line import SBATCH, scan
from gsched.jobscript.directives import read_directives
from gsched.testbed.wait import wait_for

IS_LATER = slurm_release() >= (24, 0)

pytestmark = pytest.mark.slurm

GSCHED = str(Path(sys.executable).with_name("gsched"))
NOT_IN_EVERY_RELEASE = {
    "consolidate-segments", "container-id", "container-type", "extra", "ntasks-per-tres",
    "oom-kill-step", "power", "prefer", "resv-ports", "segment", "spread-segments", "stepmgr",
    "tres-bind", "tres-per-task",
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


@pytest.mark.parametrize("chdir", ["", "closed", "good"])
@pytest.mark.parametrize("name", ["s.sh", "absent.sh", "/root/none.sh", "x" * 300, "/" + "x" * 300])
def test_what_a_user_may_not_see_is_the_same_for_both(bed, name, chdir):
    """Folders on PATH that cannot be looked into, before the one that has the script."""
    folder = Path(tempfile.mkdtemp(dir=bed.spec.root))
    for place in ("closed", "good"):
        (folder / place).mkdir()
        (folder / place / "s.sh").write_text(f"#!/bin/sh\n#SBATCH --comment={place}\ntrue\n")
    (folder / "closed").chmod(0o700)
    folder.chmod(0o755)
    path = {"PATH": f"{folder}/closed:/root:/usr/bin:/bin:/{'x' * 300}:{folder}/good"}
    words = ["--parsable", "--hold", "-o", "/dev/null", *([f"-D{folder}/{chdir}"] if chdir else [])]
    theirs, ours = (
        bed.run([*argv, *words, name], "games", cwd=folder, extra_env=path)
        for argv in (["sbatch"], [GSCHED, "submit"])
    )
    assert (ours.returncode, ours.stderr) == (theirs.returncode, theirs.stderr)
    assert (ours.returncode == 0) is (name == "s.sh")
    if ours.returncode == 0:
        done = bed.run([GSCHED, "submit", "--gs-none", *words, name], "games", cwd=folder,
                       extra_env=path)  # fmt: skip
        assert shown(bed, int(theirs.stdout), "Comment") == "good"
        assert shown(bed, int(done.stdout), "Comment") == "good gs1{none}"


def test_a_script_from_standard_input_reaches_the_job(bed, folder):
    script = "#!/bin/sh\n#GSCHED --gs-none\n#SBATCH --job-name=piped\necho from stdin: $1\n"
    job = submit(bed, stdin=script)
    assert shown(bed, job, "JobName") == "piped"
    assert shown(bed, job, "Comment") == "gs1{none}"
    assert "echo from stdin" in bed.run(["scontrol", "write", "batch_script", str(job), "-"]).stdout


def test_a_script_behind_a_pipe_is_read_like_any_other(bed, folder):
    script = r"#!/bin/sh\n#GSCHED --gs-none\ntrue\n"
    done = bed.run(["bash", "-c", f"{GSCHED} submit --parsable --hold <(printf '{script}')"])
    assert (done.returncode, done.stderr) == (0, "")
    assert shown(bed, int(done.stdout), "Comment") == "gs1{none}"


def pieces_of_a_directive(random):
    """What may follow ``--comment=`` in a script, odd but with its quotes closed."""

    # of a backslash before a blank 22.05 drops both, 24.11 keeps the blank
    blanks = "" if IS_LATER else " \t"
    lone = [] if IS_LATER else ["\\"]

    def piece():
        kind = random.randrange(8)
        if kind == 0:
            return "\\" + random.choice("ab\"'\\#" + blanks)
        if kind == 1:
            return "'" + "".join(random.choices('ab "#', k=random.randrange(4))) + "'"
        if kind == 2:
            return '"' + "".join(random.choices("ab '#\t", k=random.randrange(4))) + '"'
        return random.choice(["a", "b=", "é", "#", "\u00a0", "$x", *lone])

    text = "".join(piece() for _ in range(random.randrange(8)))
    return text + random.choice(["", "", "  ", "\t", " # c 'x", " -H", " '' -N9"])


def test_odd_directives_are_read_as_sbatch_reads_them(bed, folder):
    """Random ones against the comment that sbatch itself makes of them."""
    random = Random(20_261_129)
    seen = 0
    for _ in range(150):
        marks = [
            "#SBATCH --comment=",
            "#SBATCH -H --comment ",
            "#SBATCH\t--com=",
        ]
        if not IS_LATER:  # 24.11 wants a blank behind the mark
            marks.append("#SBATCH--comment=")
        lines = [random.choice(marks) + pieces_of_a_directive(random) for _ in range(2)]
        text = "\n".join(["#!/bin/sh", *lines, random.choice(["", "  # x", "#"]), "true", ""])
        (folder / "job.sh").write_text(text)
        done = bed.run(["sbatch", "--parsable", "--hold", "job.sh"], cwd=folder)
        if done.returncode != 0:
            continue
        seen += 1
        record = bed.run(["scontrol", "show", "job", "-o", done.stdout.strip()]).stdout
        comment = re.search(r" Comment=(.*) StdErr=", record)
        sections = [scan(words, SBATCH) for words in read_directives(text, "job.sh").sbatch]
        # a blank that a backslash keeps at the very end: 22.05 drops it, 24.11 does not
        expected = comment[1].rstrip(" ") if comment else ""
        assert first_comment([], sections).rstrip(" ") == expected, text
    assert seen > 60


def test_nothing_of_the_outer_job_is_in_the_inner_one(bed, folder):
    """Submitted from inside a job with GPUs, bindings and variables, or from outside: the same."""
    (folder / "inner.sh").write_text("#!/bin/sh\nenv -0 >$1.part\nmv $1.part $1\n")
    inner = "submit -c1 -J inner -o /dev/null -w gn01 inner.sh"
    (folder / "outer.sh").write_text(
        "#!/bin/sh\n"
        "export SBATCH_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND=mask_cpu:0x1 SBATCH_QOS=normal\n"
        f"{GSCHED} {inner} nested 2>said\n"
        f"srun -n1 --overlap {GSCHED} {inner} from-a-step\n"
    )
    outer = ["sbatch", "-n2", "-c2", "--gres=gpu:2", "-J", "outer", "-o", "out", "outer.sh"]
    done = bed.run(outer, cwd=folder, extra_env={"SBATCH_TIMELIMIT": "9", "SBATCH_HINT": "x"})
    assert done.returncode != 0  # sbatch obeys its variables
    done = bed.run(outer, cwd=folder, extra_env={"SBATCH_TIMELIMIT": "9"})
    assert done.returncode == 0, done.stderr
    done = bed.run(
        [GSCHED, *inner.split(), "direct"], cwd=folder, extra_env={"SBATCH_QOS": "normal"}
    )
    assert done.returncode == 0, done.stderr
    names = ("nested", "from-a-step", "direct")
    wait_for(lambda: all((folder / n).exists() for n in names), "the three inner jobs", 60)
    nested, stepped, direct = (variables(folder / name) for name in names)
    assert nested["SLURM_JOB_NAME"] == "inner"
    assert nested["SBATCH_QOS"] == "normal"
    assert (folder / "said").read_text() == (
        "gsched: warning: SBATCH_TIMELIMIT: not passed on from inside a job, "
        "it may be the outer job's\n"
    )
    for found in (nested, stepped):
        assert {n: v for n, v in found.items() if direct.get(n) != v} == {}
        assert direct.keys() - found.keys() == set()


def variables(path):
    """The environment of a job without what is another number in every job or shell."""
    pairs = (entry.partition("=")[::2] for entry in path.read_text().split("\0") if entry)
    own = {"SLURM_JOB_ID", "SLURM_JOBID", "SLURM_TASK_PID", "SLURM_RLIMIT_NOFILE", "_", "PWD",
           "SLURM_SUBMIT_HOST", "SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME"}  # fmt: skip
    return {name: value for name, value in pairs if name not in own}


def test_a_login_node_with_the_client_commands_alone(bed, folder, tmp_path):
    """No HOME, no configuration of gsched, nothing on PATH but sbatch."""
    (folder / "bin").mkdir()
    (folder / "bin" / "sbatch").symlink_to("/usr/bin/sbatch")
    (folder / "job.sh").write_text("#!/bin/sh\n#GSCHED --gs-none\ntrue\n")
    environ = {"PATH": f"{folder}/bin", "SLURM_CONF": str(bed.layout.slurm_conf)}
    interpreter = [sys.executable, GSCHED]
    argv = ["/usr/bin/env", "-i", *(f"{k}={v}" for k, v in environ.items()), *interpreter]
    done = bed.run([*argv, "submit", "--parsable", "-H", "--nosuch-but-known=1", "job.sh"])
    assert (done.returncode, done.stdout) == (255, "")
    done = bed.run([*argv, "submit", "--parsable", "-H", "job.sh"], cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown(bed, int(done.stdout), "Comment") == "gs1{none}"


def test_waiting_for_an_answer_where_no_daemon_is(bed, folder):
    waited = [GSCHED, "submit", "--gs-wait=1", "--gs-phase=eval", "-H", "-a", "0-3%2"]
    done = bed.run([*waited, "--wrap", "true"])
    assert done.returncode == 75
    job = re.fullmatch(r"Submitted batch job (\d+)\n", done.stdout)[1]
    assert "gsched: no answer" in done.stderr
    assert done.stderr.endswith(f"gsched: job {job} stays in the queue\n")
    assert shown(bed, job, "JobState").startswith("PENDING ")
    done = bed.run([*waited, "--gs-else=cancel", "--parsable", "--wrap", "true"])
    assert done.returncode == 75
    job = done.stdout.strip()
    assert done.stderr.endswith(f"gsched: job {job} is cancelled\n")
    assert shown(bed, job, "JobState").startswith("CANCELLED ")


def test_waiting_changes_no_code_of_a_failing_sbatch(bed, folder):
    for argv in (["-p", "nosuch", "--wrap", "true"], ["nosuch.sh"], ["--nosuch"]):
        theirs = bed.run(["sbatch", *argv])
        done = bed.run([GSCHED, "submit", "--gs-wait=1", "--gs-phase=eval", *argv])
        assert (done.returncode, done.stdout, done.stderr) == (
            theirs.returncode,
            theirs.stdout,
            theirs.stderr,
        )
