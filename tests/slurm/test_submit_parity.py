"""Each invocation twice, by sbatch and by ``gsched submit``: what is said, the exit code, the job.

The job is what scontrol shows of it, its script and the environment that it was submitted with.
Jobs of the default partition, which is DOWN, stay in the queue until they have been looked at;
those of the partition `run` run to their end, and their files are compared as well.
"""

from __future__ import annotations

import difflib
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

import pytest
from support.submit_calls import ANCHOR_ID, CALLS, WITH_ACCOUNTS

from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

GSCHED = str(Path(sys.executable).with_name("gsched"))
LAUNCH = (
    sys.executable,
    "-ISc",
    "import os, signal, sys; signal.signal(signal.SIGPIPE, signal.SIG_DFL); "
    "os.execvp(sys.argv[1], sys.argv[1:])",
)
"""Runs a command with the rights, whatever they are, that a user needs to start our program."""

CONF = (f"FirstJobId={ANCHOR_ID}",)
JOB_SUBMIT_LUA = """
function slurm_job_submit(job, partitions, uid)
   if job.name == "refused" then
      slurm.log_user("this site says\\nno")
      return slurm.ERROR
   end
   if job.name == "told" then
      slurm.log_user("mind the gap")
   end
   return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
   return slurm.SUCCESS
end
return slurm.SUCCESS
"""
CLI_FILTER_LUA = """
function slurm_cli_setup_defaults(options, early)
   return slurm.SUCCESS
end
function slurm_cli_pre_submit(options, offset)
   if options["job-name"] == "banner" then
      print("Welcome to the cluster")
      print("4711")
      slurm.log_info("be nice")
   end
   if options["job-name"] == "filtered" then
      slurm.log_error("not like this")
      return slurm.ERROR
   end
   return slurm.SUCCESS
end
function slurm_cli_post_submit(offset, job, step)
   return slurm.SUCCESS
end
return slurm.SUCCESS
"""


@dataclass(frozen=True)
class Outcome:
    """What one invocation gave, without what differs between any two runs."""

    code: int
    stdout: str
    stderr: str
    said: str
    jobs: str
    script: str
    environment: str
    files: str


class Stage:
    """A testbed on which invocations are played."""

    def __init__(self, bed: Testbed) -> None:
        self.bed = bed
        self._last_id = ANCHOR_ID - 1
        (bed.layout.etc / "job_submit.lua").write_text(JOB_SUBMIT_LUA)
        (bed.layout.etc / "cli_filter.lua").write_text(CLI_FILTER_LUA)
        with bed.layout.slurm_conf.open("a") as file:
            file.write("JobSubmitPlugins=lua\nCliFilterPlugins=lua\n")
        bed.kill_slurmctld()
        bed.start_slurmctld()
        done = bed.run(["sbatch", "--parsable", "-H", "--wrap", "true"])
        assert done.stdout == f"{ANCHOR_ID}\n", done.stderr
        self._new_jobs()
        bed.run(["scontrol", "update", "partition=gpu", "state=DOWN"])

    def play(self, call, submit):
        """The outcome of `call` with the words `submit` for the program."""
        here = self._folder(call)
        env = {key: self._filled(value, here) for key, value in call.env.items()}
        done = self.bed.run(
            self._argv(call, submit, here), call.user, stdin=call.stdin, cwd=here, extra_env=env
        )
        if call.runs:
            wait_for(self._nothing_runs, f"the end of {call.name}", timeout_s=60)
        if call.settles:
            wait_for(partial(self._shows, call.settles), f"{call.settles} of {call.name}")
        jobs = self._new_jobs()
        leader = min(jobs, default=None)
        kept = "" if leader is None else self._kept(leader, "environment", call)
        text = "" if leader is None else self._kept(leader, "script", call)
        outcome = Outcome(
            code=done.returncode,
            stdout=masked(done.stdout),
            stderr=masked("".join(theirs(done.stderr))),
            said="".join(ours(done.stderr)),
            jobs="\n".join(sorted(masked(record) for record in jobs.values())),
            script=text,
            environment="\n".join(sorted(re.sub(r"^.*?\0|_=[^\0]*\0", "", kept).split("\0"))),
            files=masked(contents(here)) if call.runs else "",
        )
        if jobs and not call.runs:
            self.bed.run(["scancel", *map(str, jobs)])
        return outcome

    def _folder(self, call):
        here = self.bed.layout.home(call.user) / "parity"
        shutil.rmtree(here, ignore_errors=True)
        here.mkdir()
        data = call.script.encode() if isinstance(call.script, str) else call.script
        (here / "job.sh").write_bytes(data)
        subprocess.run(["bash", "-c", call.makes], cwd=here, check=True)
        shutil.chown(here, call.user)
        return here

    def _argv(self, call, submit, here):
        words = [*submit, *(call.own if submit[0] == GSCHED else ())]
        if call.by_bash:
            shell = f'submit() {{ {" ".join(words)} "$@"; }}; ' + self._filled(call.by_bash, here)
            words = ["bash", "-c", shell]
        else:
            words += [self._filled(word, here) for word in call.argv]
        return words if call.user == "root" else [*LAUNCH, *words]

    def _filled(self, text, here):
        return text.replace("{here}", str(here)).replace("{anchor}", str(ANCHOR_ID))

    def _new_jobs(self):
        """Records of the jobs since the last look, by id."""
        text = self.bed.run(["scontrol", "show", "job", "-o"]).stdout
        found = dict(re.findall(r"^(JobId=(\d+) .*(?:\n(?!JobId=).*)*)", text, re.MULTILINE))
        jobs = {int(job): record for record, job in found.items() if int(job) > self._last_id}
        self._last_id = max([self._last_id, *jobs])
        return jobs

    def _nothing_runs(self):
        return not self.bed.run(["squeue", "-h", "-p", "run"]).stdout

    def _shows(self, words):
        """Whether the newest job's record has the words, which Slurm's next look brings."""
        text = self.bed.run(["scontrol", "show", "job", "-o"]).stdout
        records = re.findall(r"^(JobId=(\d+) .*)", text, re.MULTILINE)
        return words in max(records, key=lambda record: int(record[1]))[0]

    def _kept(self, job, name, call):
        """What slurmctld keeps of a job: its script, or its environment."""
        if call.runs:
            return ""  # thrown away by now; the job itself has told
        path = self.bed.spec.root / "state" / f"hash.{job % 10}" / f"job.{job}" / name
        return path.read_bytes().decode("utf-8", "surrogateescape")


def ours(stderr):
    return [line for line in stderr.splitlines(keepends=True) if line.startswith("gsched: ")]


def theirs(stderr):
    return [line for line in stderr.splitlines(keepends=True) if not line.startswith("gsched: ")]


def masked(text):
    """`text` without ids, the request token and what changes from second to second."""
    text = re.sub(r"(?<!\d)50\d{5}(?!\d)", "JOB", text)
    text = re.sub(r" Comment=gs1\{none\} ?| gs1\{none\}", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", without_now, text)
    text = re.sub(r"\b(EligibleTime|StartTime|EndTime)=(?:Unknown|NEAR)\b", r"\1=N", text)
    text = re.sub(r"\bPriority=[1-9]\d*", "Priority=N", text)
    text = re.sub(r"\bReason=(?:None|PartitionDown|Priority|Resources)\b", "Reason=waits", text)
    text = re.sub(r"\b(AccrueTime|LastSchedEval|RunTime|Scheduler)=\S+", r"\1=N", text)
    text = re.sub(r"\b(SLURM_TASK_PID|SLURM_JOB_(?:END|START)_TIME)=\S+", r"\1=N", text)
    return re.sub(r"^_=.*\n", "", text, flags=re.MULTILINE)


def without_now(match):
    """Times within a day of now come from the clock, others from the user."""
    distance = abs(datetime.fromisoformat(match[0]).timestamp() - time.time())
    return "NEAR" if distance < 86400 else match[0]


def contents(folder):
    """Every file below `folder` with its text."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(f"--- {path.relative_to(folder)}\n{path.read_text()}" for path in files)


def assert_alike(stage, call):
    expected = stage.play(call, ("sbatch",))
    assert expected.code == call.code, expected.stderr
    assert expected.said == ""
    found = stage.play(call, (GSCHED, "submit"))
    for name in ("code", "stdout", "stderr", "jobs", "script", "environment", "files"):
        one, other = getattr(expected, name), getattr(found, name)
        if one != other:
            words = [str(value).replace(" ", "\n").splitlines() for value in (one, other)]
            lines = difflib.unified_diff(*words, "sbatch", "gsched", n=0, lineterm="")
            pytest.fail(f"{name} of {call.name}:\n" + "\n".join(lines))
    assert found.said == call.said


@pytest.fixture(scope="module")
def stage():
    """Two nodes; the default partition is DOWN, `run` is up; a site's own Lua filters."""
    conf = ("PartitionName=run Nodes=ALL State=UP", *CONF)
    with Testbed.temporary(num_nodes=2, extra_conf=conf) as bed:
        yield Stage(bed)


@pytest.fixture(scope="module")
def stage_with_accounts():
    with Testbed.temporary(num_nodes=2, accounting="slurmdbd", extra_conf=CONF) as bed:
        yield Stage(bed)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_gsched_submit_is_sbatch(stage, call):
    assert_alike(stage, call)


@pytest.mark.parametrize("call", WITH_ACCOUNTS, ids=lambda call: call.name)
def test_gsched_submit_is_sbatch_where_accounts_are_kept(stage_with_accounts, call):
    assert_alike(stage_with_accounts, call)
