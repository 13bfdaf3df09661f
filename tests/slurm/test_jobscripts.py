"""Scripts that gsched wraps, on the real Slurm: what sbatch reads in them, and what they do."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from support.checkpoints import write_checkpoint
from support.golden_jobscripts import GOLDEN, golden

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

GSCHED = str(Path(sys.executable).with_name("gsched"))
TELLS = """\
#!/bin/bash
#SBATCH --time=5
printf '<%s>' "$@"; echo
cmp "$0" "$ORIGINAL" && echo "the same $(basename "$0")"
echo "in ${GSCHED_CHECKPOINT_DIR-none}, phase ${GSCHED_PHASE-none}, of ${GSCHED_SCRIPT-none}"
echo "grace ${GSCHED_GRACE_S-none}"
exit 3"""


@pytest.fixture
def folder(bed):
    """An empty working folder."""
    path = bed.layout.home("root") / "jobscripts"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


@pytest.fixture
def submit(bed, folder):
    """Submit with gsched; the process, its job's id in `job`."""

    def call(*words, check=True, **options):
        argv = [GSCHED, "submit", "--parsable", *words]
        done = bed.run(argv, cwd=folder, timeout_s=90, **options)
        assert not check or done.returncode == 0, done.stderr
        return done

    return call


def shown(bed, job, key):
    record = bed.run(["scontrol", "show", "job", str(job)]).stdout
    return re.search(rf"(?:^|\s){key}=(.*?)(?: [A-Z]\S*=.*)?$", record, re.MULTILINE)[1].strip()


def stored(bed, job):
    done = bed.run(["scontrol", "write", "batch_script", str(job), "-"])
    assert done.returncode == 0, done.stderr
    return done.stdout


def ended(bed, *jobs):
    """Wait until all have ended."""
    listed = ",".join(map(str, jobs))

    def are_over():
        return not bed.run(["squeue", "-h", "-j", listed, "-t", "PD,R,CG,CF"]).stdout.strip()

    assert wait_for(are_over, 60)


@pytest.fixture
def started(bed, submit):
    """Submit jobs by name (words, options), wait until all have ended; their ids by name."""

    def call(jobs):
        ids = {name: submit(*words, **options).stdout.strip() for name, words, options in jobs}
        ended(bed, *ids.values())
        return ids

    return call


def test_a_wrapped_script_runs_as_it_would_without(bed, folder, started):
    script = folder / "it's.sh"
    script.write_bytes(TELLS.encode())
    env = {"extra_env": {"ORIGINAL": str(script), "RANK": "7"}}
    words = ("--gs-phase=eval", "--", "./it's.sh", "a b", "", "$x'\"\\", "--gs-none", "\n")
    names = ("plain", "requeue", "debug", "ddp", "array")
    ids = started([
        (name, ("-o", name, "--gs-runtime", name, *words), env) for name in names
    ])  # fmt: skip
    for name, job in ids.items():
        out = (folder / name).read_text()
        assert "<a b><><$x'\"\\><--gs-none><\n>\nthe same slurm_script\n" in out
        root = folder / "gsched-checkpoints" / job
        given = root if name in ("requeue", "array") else "none"
        assert f"in {given}, phase eval, of {script}\ngrace 2\n" in out  # the testbed's KillWait
        assert shown(bed, job, "ExitCode") == "3:0"
        assert shown(bed, job, "JobName") == "it's.sh"
        assert f"attempt 1 of job {job}" in out


SURROUNDINGS = """\
#!/bin/sh
cat                                  # standard input
pwd; umask; ulimit -a; id
grep -E '^(Sig(Blk|Ign|Cgt)|NoNewPrivs|Seccomp)' /proc/self/status
for file in /proc/self/fd/*; do echo "${file##*/}"; done
echo "$0" | sed 's,.*/,,'; echo "$#"
env -0 | sort -z | tr '\\n\\0' ' \\n'
"""
OF_ONE_JOB = re.compile(
    r"SLURM_(JOB_?ID|TASK_PID|JOB_NAME|JOB_START_TIME|JOB_END_TIME|TASK_(PRO|EPI)LOG)"
    r"|SLURM_(CPUS_ON_NODE|JOB_CPUS_PER_NODE)|GSCHED_[A-Z_]+|_"
)
"""Variables that differ between two jobs, or are gsched's."""


def test_a_wrapped_script_finds_the_same_surroundings(bed, folder, started):
    """Its input, folder, limits, signals, open files and environment."""
    (folder / "in").write_text("from a file\n")
    (folder / "job.sh").write_text(SURROUNDINGS)
    env = {"extra_env": {"ODD": "a\nb", "é": "ü"}}
    words = ("-i", "in", "--export=ALL,X=1", "-w", "gn01")
    started([
        ("plain", ("-o", "without", *words, "job.sh"), env),
        ("wrapped", ("-o", "with", *words, "--gs-runtime=plain", "job.sh"), env),
    ])  # fmt: skip
    without, wrapped = ((folder / name).read_text().splitlines() for name in ("without", "with"))
    assert wrapped[0].startswith("gsched: attempt 1 of job ")

    def kept(lines):
        found = [line for line in lines if not OF_ONE_JOB.fullmatch(line.partition("=")[0])]
        return [of_users(line) if line.startswith("SigIgn:") else line for line in found]

    def of_users(line):
        """Without signals 32 and 33, the C library's own, which posix_spawn may ignore."""
        return f"SigIgn:\t{int(line.partition(':')[2], 16) & ~(0b11 << 31):016x}"

    assert kept(wrapped[1:]) == kept(without)


def test_every_golden_script_runs(bed, folder):
    """As it is but for the Python; each finds the one beside this process first on PATH."""
    env = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    write_checkpoint(folder / "runs" / "7", 3)
    jobs = {}
    for name in GOLDEN:
        script = golden(name, sys.executable)
        (folder / f"{name}.sh").write_bytes(script)
        done = bed.run(
            ["sbatch", "--parsable", "-o", f"{name}.out", f"{name}.sh", "a b", "it's"],
            cwd=folder, extra_env=env,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        jobs[name] = done.stdout.strip()
    ended(bed, *jobs.values())
    for name, job in jobs.items():
        out = "".join(path.read_text() for path in sorted(folder.glob(f"{name}.out*")))
        assert shown(bed, job, "ExitCode") == "0:0", out
        if name.startswith("ddp"):
            size = {"ddp": 4, "ddp-torchrun": 2}[name]
            told = sorted(line for line in out.splitlines() if line.startswith("rank "))
            assert told == [f"rank {rank} of {size} ['a b', \"it's\"]" for rank in range(size)]
            continue
        assert out.endswith("<a b><it's>"), out
        root = {"requeue": f"gsched-checkpoints/{job}", "array": "runs/it's, 5 %"}.get(name)
        assert f"checkpoints in {folder / root if root else 'nowhere'}" in out


def test_the_templates_lines_are_in_force_and_the_users_own_win(bed, folder, submit):
    (folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --open-mode=truncate -J mine\ntrue\n")
    ours = submit("--hold", "--gs-checkpoint", "job.sh").stdout.strip()
    assert shown(bed, ours, "Requeue") == "1"
    assert shown(bed, ours, "JobName") == "mine"
    assert shown(bed, ours, "Comment") == "gs1{ckpt}"
    done = submit("--hold", "--no-requeue", "--gs-checkpoint", "job.sh")
    assert "with --no-requeue the job does not come back" in done.stderr
    assert shown(bed, done.stdout.strip(), "Requeue") == "0"
    (folder / "stays.sh").write_text("#!/bin/sh\n#SBATCH --no-requeue\n# gsched.runtime\ntrue\n")
    both = {"SBATCH_REQUEUE": "1", "SBATCH_NO_REQUEUE": "1"}
    for words, environ in ((("--requeue",), {}), ((), both)):
        done = submit(*("--hold", *words, "--gs-checkpoint", "stays.sh"), extra_env=environ)
        assert "--no-requeue" not in done.stderr
        assert shown(bed, done.stdout.strip(), "Requeue") == "1"
    named = submit("--hold", "--gs-checkpoint", "job.sh", extra_env={"SBATCH_JOB_NAME": "env"})
    assert shown(bed, named.stdout.strip(), "JobName") == "env"
    pbs = "#!/bin/sh\n#PBS -N from-pbs\n#PBS -A x\ntrue\n#PBS -N late\n"
    (folder / "pbs.sh").write_text(pbs)
    plain = bed.run(["sbatch", "--parsable", "--hold", "pbs.sh"], cwd=folder).stdout.strip()
    job = submit("--hold", "--gs-checkpoint", "pbs.sh").stdout.strip()
    for key in ("JobName", "Account"):
        assert shown(bed, job, key) == shown(bed, plain, key) != "pbs.sh"


def test_what_a_dry_run_prints_can_be_run(bed, folder, submit):
    (folder / "job.sh").write_bytes(TELLS.encode() + b"\nEOF # \xff")
    words = ("-o", "out-%j", "--gs-checkpoint=60", "job.sh", "a b", "it's")
    printed = submit("--gs-dry-run", "--hold", *words).stdout
    real = submit("--hold", *words).stdout.strip()
    for shell in ("dash", "bash"):
        done = bed.run([shell], stdin=printed, cwd=folder)
        assert done.returncode == 0, done.stderr
        assert stored(bed, done.stdout.strip()) == stored(bed, real)
        assert "a b" in shown(bed, done.stdout.strip(), "Command")


def test_a_script_from_anywhere_is_wrapped(bed, folder, started):
    (folder / "job.sh").write_text("#!/bin/sh\necho $(basename $0) $1\n")
    flags = ("-o", "%x-out", "--gs-runtime=plain")
    piped = {"stdin": "#!/bin/sh\n#SBATCH -J stdin\necho piped\n"}
    line = shlex.join([GSCHED, "submit", "--parsable", *flags, "-J", "fd"])
    done = bed.run(["bash", "-c", f"{line} <(cat job.sh) 5"], cwd=folder)
    assert done.returncode == 0, done.stderr
    started([
        ("stdin", flags, piped),
        ("wrap", (*flags, "--wrap", "echo 'wrapped'"), {}),
        ("array", (*flags, "-a", "2-3", "-o", "%x-%a", "job.sh", "one"), {}),
    ])  # fmt: skip
    ended(bed, done.stdout.strip())
    texts = {path.name: path.read_text() for path in folder.glob("*-*")}
    assert texts["stdin-out"].endswith("piped\n")
    assert texts["wrap-out"].endswith("wrapped\n")
    assert texts["job.sh-2"].endswith("slurm_script one\n")
    assert texts["job.sh-3"].endswith("slurm_script one\n")
    assert texts["fd-out"].endswith("slurm_script 5\n")


def test_components_of_a_heterogeneous_job_keep_their_own_lines(bed, folder, submit):
    het = "#!/bin/sh\n#SBATCH -c1\n#SBATCH hetjob\n#SBATCH -c2 -J second\ntrue\n"
    (folder / "het.sh").write_text(het)
    first = int(submit("--hold", "--gs-checkpoint", "het.sh").stdout)
    facts = [
        [shown(bed, job, key) for key in ("JobName", "NumCPUs", "Requeue")]
        for job in (first, first + 1)
    ]
    assert facts == [["het.sh", "1", "1"], ["second", "2", "1"]]
    (folder / "job.sh").write_text("#!/bin/sh\ntrue\n")
    line = ("-c1", "--hold", "--gs-checkpoint", ":", "-c2", "--hold", "job.sh")
    first = int(submit(*line).stdout)
    facts = [
        [shown(bed, job, key) for key in ("JobName", "NumCPUs", "Requeue")]
        for job in (first, first + 1)
    ]
    assert facts == [["job.sh", "1", "1"], ["job.sh", "2", "1"]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"true\n", "names no interpreter"),
        (b"", "names no interpreter"),
        (b"#!/bin/sh\n\0true\n", "NUL byte"),
        (b"#!/bin/sh\r\ntrue\r\n", "DOS line breaks"),
    ],
)
def test_what_slurm_takes_for_no_script_is_refused_before_it_is_queued(
    bed, folder, submit, content, said
):
    (folder / "job.sh").write_bytes(content)
    done = submit("--gs-checkpoint", "job.sh", check=False)
    assert done.returncode != 0
    assert said in done.stderr
    assert not bed.run(["squeue", "-h"]).stdout


def test_ranks_find_each_other_on_one_node_and_on_two(bed, folder, started):
    (folder / "rank.py").write_text(
        "#!/usr/bin/env python3\n"
        "import os, sys\n"
        "names = 'RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE', 'MASTER_PORT'\n"
        "print('rank', *(os.environ.get(n) for n in names), sys.argv[1:], flush=True)\n"
    )
    words = ("--gs-runtime=ddp", "rank.py", "a b")
    started([
        (str(nodes), ("-N", str(nodes), "--ntasks-per-node=2", "-o", str(nodes), *words), {})
        for nodes in (1, 2)
    ])  # fmt: skip
    for nodes in (1, 2):
        out = (folder / str(nodes)).read_text()
        lines = [line.split(" ", 6) for line in out.splitlines() if line.startswith("rank ")]
        assert sorted(line[1] for line in lines) == [str(n) for n in range(2 * nodes)], out
        assert {line[2] for line in lines} == {str(2 * nodes)}
        assert sorted(line[3] for line in lines) == sorted("01" * nodes)
        assert {line[4] for line in lines} == {"2"}
        assert len({line[5] for line in lines}) == 1
        assert {line[6] for line in lines} == {"['a b']"}
    assert not list(Path("/tmp").glob("gsched-job.*.ranks"))


def test_a_cancelled_job_on_two_nodes_leaves_nothing_on_its_first(bed, folder, submit):
    """No step can be started to remove the copies; here the nodes share one /tmp."""
    (folder / "rank.py").write_text(
        "#!/usr/bin/env python3\n"
        "import sys, time\n"
        "open(sys.argv[1], 'w').write(sys.argv[0])\n"
        "time.sleep(600)\n"
    )
    words = ("-N2", "--ntasks-per-node=1", "-o", "out", "--gs-runtime=ddp", "rank.py")
    job = submit(*words, str(folder / "begun")).stdout.strip()
    begun = folder / "begun"
    wait_for(lambda: begun.exists() and begun.read_text(), "the first rank")
    copies = Path(begun.read_text()).parent
    assert copies.name.startswith("gsched-job.")
    assert copies.name.endswith(".ranks")
    assert bed.run(["scancel", job]).returncode == 0
    ended(bed, job)
    wait_for(lambda: not copies.exists(), "the copies to be gone")


def test_where_the_node_has_no_gsched_the_script_runs_without(bed, folder, submit):
    """The Python goes away between submission and start."""
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    (folder / "job.sh").write_text(TELLS)
    env = {
        "GSCHED_JOBSCRIPT_PYTHON": str(python),
        "ORIGINAL": str(folder / "job.sh"),
        "TMPDIR": str(folder),
    }
    words = ("-o", "out", "--gs-checkpoint", "job.sh", "x")
    job = submit("--hold", *words, extra_env=env).stdout.strip()
    python.unlink()
    bed.run(["scontrol", "release", job])
    ended(bed, job)
    out = (folder / "out").read_text()
    assert f"{python} cannot run gsched on" in out
    assert "<x>\nthe same slurm_script\n" in out
    assert shown(bed, job, "ExitCode") == "3:0"
    refused = submit(*words, extra_env=env, check=False)
    assert refused.returncode == 78
    assert f"{python} cannot be run" in refused.stderr


def test_the_nodes_of_a_partition_are_tried(bed):
    partition = bed.run(["sinfo", "-h", "-o", "%R"]).stdout.split()[0]
    done = bed.run([GSCHED, "jobscript", "check", "-p", partition], timeout_s=90)
    assert done.returncode == 0, done.stdout
    assert f"python on a node of partition {partition}: ok" in done.stdout
