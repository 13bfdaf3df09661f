"""`gsched queue` beside squeue, as two users and an admin, in odd environments."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import groupby

import pytest
from support.site import GSCHED

from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

HOSTILE = 'a|b\\x7c"\n\x1b[31m\u202e模,'
USERS = ("games", "news", None)


def ok(bed: Testbed, *words: str, user: str | None = None, **environ: str) -> str:
    answer = bed.run(words, user, extra_env=environ)
    assert answer.returncode == 0, f"{shlex.join(words)}: {answer.stderr}"
    return answer.stdout


def submit(bed: Testbed, name: str, *options: str, user: str | None = None) -> str:
    words = ("sbatch", "--parsable", "-J", name, "-o", "/dev/null", *options)
    return ok(bed, *words, "--wrap", "sleep 300", user=user).strip()


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Full nodes, two more partitions (one hidden), and jobs of three users, arrays, ended ones."""
    with Testbed.temporary(num_nodes=2, extra_conf=("MinJobAge=3000",)) as made:
        ok(made, "scontrol", "create", "partitionname=debug", "nodes=gn02", "state=up")
        ok(made, "scontrol", "create", "partitionname=attic", "nodes=gn02", "hidden=yes")
        submit(made, "full", "--gres=gpu:8", "-w", "gn01", user="games")
        submit(made, "full", "--gres=gpu:8", "-w", "gn02", "-p", "debug", user="news")
        running = ("squeue", "-h", "-t", "R", "-o", "%i")
        wait_for(lambda: len(ok(made, *running).split()) == 2, "the nodes to be full")
        submit(made, "a", "--gres=gpu:2", "-A", "lab1", "--nice=500", user="games")
        submit(made, "b", "--gres=gpu:8", "-p", "gpu,debug", "-t", "5", user="news")
        submit(made, "c", "--gres=gpu:1", "--array=1-7:2,9%2", user="games")
        submit(made, "d", "--gres=gpu:1", "-p", "attic", user="news")
        submit(made, HOSTILE, "--gres=gpu:1", "--comment", HOSTILE, user="news")
        submit(made, "late", "--begin=now+1hour")
        ok(made, "scancel", submit(made, "gone", "--hold", user="games"))
        held = submit(made, "held", "--hold", "-A", "lab2")
        ok(made, "scontrol", "update", f"jobid={held}", "comment=x")
        yield made


OPTIONS = (
    "",
    "-u games",
    "-u news,games",
    "-u 5",  # games, on every Debian
    "--me",
    "-t PD",
    "-t r,pending",
    "-t CA",
    "-t all",
    "-p gpu",
    "-p debug",
    "-p debug,attic -a",
    "-a",
    "-A lab1,lab2",
    "-n a,c",
    "-j 3,5",
    "-j 5_3",
    "-w gn02",
    "-w gn[01-02] -u games",
    "-r",
    "-r -u games -t PD",
)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_same_jobs_in_the_same_order_as_squeue(bed: Testbed, options: str) -> None:
    for user in USERS:
        theirs = ok(bed, "squeue", "-h", "-o", "%A|%P|%T|%Q|%i", *options.split(), user=user)
        expected = _settled(fields(theirs))
        ours = ok(bed, GSCHED, "queue", "-h", "-P", "-o", "jobid", *options.split(), user=user)
        assert _one_task_each(ours.split()) == _one_task_each(expected), f"as {user}"
        if options in ("", "-a", "-t PD"):
            assert len(expected) > 5


def _settled(rows: list[list[str]]) -> list[str]:
    """squeue's ids; what is alike in partition, state and priority it shows in any order."""
    alike = groupby(rows, lambda row: row[1:4])
    return [row[4] for _, group in alike for row in sorted(group, key=lambda row: int(row[0]))]


def _one_task_each(ids: list[str]) -> list[str]:
    """squeue shows of ``-j 5_3`` the whole array that is not split yet, or just that task."""
    return [re.sub(r"^5_(\[.*\]|3)$", "5_*", job_id) for job_id in ids]


def fields(text: str) -> list[list[str]]:
    return [line.split("|") for line in text.splitlines()]


def test_values_are_squeues(bed: Testbed) -> None:
    columns = "jobid,user,partition,state,cpus,priority,nice,reason,submit,start,end"
    ours = sorted(fields(ok(bed, GSCHED, "queue", "-a", "-h", "-P", "-o", columns)))
    form = "%i|%u|%P|%T|%C|%Q|%y|%r|%V|%S|%e"
    theirs = sorted(fields(ok(bed, "squeue", "-a", "-h", "-o", form, SLURM_TIME_FORMAT="%s")))
    for our, their in zip(ours, theirs, strict=True):
        assert our[:7] == their[:7]
        assert our[7] == their[7].replace("None", "")
        assert our[8] == their[8]
        if our[3] == "RUNNING":
            assert our[9:] == their[9:]


def test_a_hostile_name_moves_nothing(bed: Testbed) -> None:
    text = ok(bed, GSCHED, "queue", "-a", "-P", "-o", "jobid,name,comment,state")
    assert {line.count("|") for line in text.splitlines()} == {3}
    (row,) = [line for line in text.splitlines() if "\\u202e" in line]
    name = row.split("|")[1]
    assert name == 'a\\x7cb\\\\x7c"\\n\\x1b[31m\\u202e模,'
    assert row.split("|")[2] == name
    table = ok(bed, GSCHED, "queue", "-a", "-h", "-o", "+comment")
    assert len(table.splitlines()) == len(text.splitlines()) - 1
    document = json.loads(ok(bed, GSCHED, "queue", "--json"))
    assert HOSTILE in {job["name"] for job in document["jobs"]}
    assert len(json.loads(ok(bed, GSCHED, "queue", "-n", HOSTILE, "--json"))["jobs"]) == 1


NONSENSE = {
    "SQUEUE_FORMAT": "%j%j", "SQUEUE_FORMAT2": "Nonsense:3", "SQUEUE_SORT": "-i", "SQUEUE_USERS":
    "nobody", "SQUEUE_STATES": "CA", "SQUEUE_PARTITION": "no", "SQUEUE_ALL": "1",
    "SLURM_TIME_FORMAT": "relative", "SLURM_BITSTR_LEN": "1", "SQUEUE_ARRAY": "1",
    "SLURM_JOB_ID": "3", "SQUEUE_NAMES": "x", "SQUEUE_ACCOUNT": "x",
}  # fmt: skip
COLUMNS = "jobid,partition,user,account,state,gpus,cpus,mem,limit,reason,submit,eligible,nodelist"


@pytest.mark.parametrize(
    "environ",
    [
        NONSENSE,
        {"LC_ALL": "C"},
        {"LC_ALL": "de_DE.UTF-8", "LANG": "xx_YY"},
        {"TZ": "Asia/Kolkata"},
        {"TZ": "Europe/Berlin"},
    ],
    ids=["nonsense", "C", "no locale", "+5:30", "DST"],
)
def test_no_environment_changes_what_is_read(bed: Testbed, environ: dict[str, str]) -> None:
    words = (GSCHED, "queue", "-a", "-P", "-o", COLUMNS)
    for user in USERS:
        assert ok(bed, *words, user=user, **environ) == ok(bed, *words, user=user)


def test_times_are_of_the_users_zone(bed: Testbed) -> None:
    shown = ok(bed, GSCHED, "queue", "-h", "-o", "submit", TZ="Asia/Kolkata").split()
    assert all(time.endswith("+05:30") for time in shown)


def test_the_c_locale_gets_ascii(bed: Testbed) -> None:
    answer = bed.run([GSCHED, "queue", "-o", "+comment"], extra_env={"LC_ALL": "C"})
    assert answer.stdout.isascii()
    assert answer.stderr.isascii()
    assert "\\u6a21" in answer.stdout


def test_since_and_the_kinds_of_jobs(bed: Testbed) -> None:
    words = (GSCHED, "queue", "-h", "-P", "-o", "state")
    assert ok(bed, *words, "--since", "1d") == ok(bed, *words)
    assert ok(bed, *words, "--since", "now+1hour") == ""
    assert set(ok(bed, *words, "--pending").split()) == {"PENDING"}
    assert set(ok(bed, *words, "--running").split()) == {"RUNNING"}


def test_sorting(bed: Testbed) -> None:
    rows = fields(ok(bed, GSCHED, "queue", "-h", "-P", "-o", "gpus,jobid", "-S", "-gpus,jobid"))
    gpus = [int(row[0]) for row in rows]
    assert gpus == sorted(gpus, reverse=True)
    assert len(set(gpus)) > 2


def test_one_cluster_is_read_and_others_are_named(bed: Testbed) -> None:
    words = (GSCHED, "queue", "-P", "-o", "jobid")
    assert ok(bed, *words, "-M", "testbed") == ok(bed, *words)
    other = bed.run([GSCHED, "queue", "-M", "testbed,far"])
    assert other.returncode == 2
    assert "not 'far'" in other.stderr
    warned = bed.run([GSCHED, "queue"], extra_env={"SLURM_CLUSTERS": "far"})
    assert warned.returncode == 0
    assert "warning: SLURM_CLUSTERS names far; this is testbed alone" in warned.stderr


def test_a_reader_who_leaves_is_not_answered_with_an_error(bed: Testbed) -> None:
    script = f"{GSCHED} queue -r --no-color | true; echo ${{PIPESTATUS[0]}}"
    answer = bed.run(["bash", "-c", script])
    assert answer.stdout.strip() in ("0", "141")  # whether it had written before the reader left
    assert "error" not in answer.stderr


def test_where_jobs_are_private_a_user_sees_his_own() -> None:
    with Testbed.temporary(num_nodes=1, extra_conf=("PrivateData=jobs",)) as private:
        for user in USERS:
            submit(private, "mine", "--hold", user=user)
        for user in USERS:
            document = json.loads(ok(private, GSCHED, "queue", "--json", user=user))
            seen = {job["user"] for job in document["jobs"]}
            assert seen == ({user} if user else {"games", "news", "root"})


def test_without_slurmctld_it_says_so_in_two_lines() -> None:
    with Testbed.temporary(num_nodes=1, extra_conf=("MessageTimeout=2",)) as alone:
        alone.kill_slurmctld()
        soon = {"GSCHED_SLURM_COMMAND_TIMEOUT_S": "1"}
        answer = alone.run([GSCHED, "queue"], "games", extra_env=soon)
        assert answer.returncode in (69, 75)
        assert answer.stdout == ""
        assert [line.split(":")[0] for line in answer.stderr.splitlines()] == ["gsched", "hint"]
