"""What a user's shell may hold, and hosts that hold less than usual: the answers are the same."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from support.machine import NO_NAMESPACES, has_mount_namespaces
from support.site import GSCHED

from gsched.testbed.environment import as_user
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

NONSENSE = {
    "SQUEUE_FORMAT": "%i", "SQUEUE_FORMAT2": "jobid", "SQUEUE_SORT": "-i", "SQUEUE_STATES": "S",
    "SQUEUE_USERS": "nobody", "SQUEUE_ALL": "1", "SQUEUE_PARTITION": "none", "SQUEUE_ARRAY": "1",
    "SACCT_FORMAT": "jobid", "SACCT_FEDERATION": "1", "SACCT_LOCAL": "1", "SINFO_FORMAT": "%n",
    "SINFO_PARTITION": "none", "SLURM_TIME_FORMAT": "relative", "SLURM_CLUSTERS": "elsewhere",
    "SLURM_BITSTR_LEN": "5", "SPRIO_FORMAT": "%i", "SPRIO_WEIGHTS": "1", "SPRIO_FEDERATION": "1",
    "SCONTROL_ALL": "1", "SCONTROL_FEDERATION": "1", "SLURM_JOB_ID": "1", "SLURM_DEBUG": "5",
    "SBATCH_PARTITION": "none", "LC_ALL": "C", "LANG": "tr_TR.UTF-8", "TZ": "Asia/Kolkata",
    "COLUMNS": "20", "POSIXLY_CORRECT": "1",
}  # fmt: skip
PASSING = frozenset({"waited_s", "running_s", "as_of"})  # what a second changes


def document(text):
    """A JSON document without what a second changes."""
    return json.loads(
        text, object_hook=lambda found: {k: v for k, v in found.items() if k not in PASSING}
    )


def submit(bed, *options, user="games"):
    done = bed.run(["sbatch", "--parsable", *options], user, stdin="#!/bin/sh\nsleep 600\n")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def jobs(bed):
    """Jobs whose every text and number is at rest."""
    return (
        submit(bed, "--hold", "--time=1-02:00", "--gpus=3", "--job-name=ışık | x", "--comment=ç"),
        submit(bed, "--hold", "--array=1-9:2,20-40%4", user="news"),
        submit(bed, "--hold", "-N1", ":", "-N1", "--gres=gpu:2"),
    )


@pytest.mark.parametrize(
    "words", [("queue",), ("show",), ("why",), ("history",), ("cancel", "--dry-run")], ids=" ".join
)
def test_nonsense_in_the_environment_changes_no_document(bed, jobs, words):
    argv = [GSCHED, *words, "--json"]
    if words[0] in ("show", "why", "cancel"):
        argv.append(jobs[0])
    clean = bed.run(argv, "games", extra_env={"LC_ALL": "C.UTF-8"})
    nonsense = dict(NONSENSE)
    if words[0] == "cancel":
        del nonsense["SLURM_CLUSTERS"]  # scancel obeys it, so that a dry run must, too
    dirty = bed.run(argv, "games", extra_env=nonsense)
    assert clean.returncode == 0, clean.stderr
    assert document(dirty.stdout) == document(clean.stdout)
    said = [line for line in dirty.stderr.splitlines() if "SLURM_CLUSTERS" not in line]
    assert (said, dirty.returncode) == (clean.stderr.splitlines(), 0)


def test_a_job_is_requeued_whatever_the_environment_says(bed):
    job = submit(bed)
    state = ["squeue", "-h", "-j", job, "-o", "%T"]
    wait_for(lambda: bed.run(state).stdout.strip() == "RUNNING", "the job to run")
    nonsense = {k: v for k, v in NONSENSE.items() if k != "SLURM_CLUSTERS"}
    done = bed.run([GSCHED, "requeue", "--json", job], "games", extra_env=nonsense)
    assert (done.returncode, json.loads(done.stdout)["jobs"][0]["requeued"]) == (0, True)


@pytest.mark.parametrize("words", [("requeue",), ("cancel", "--dry-run")])
def test_a_shell_that_means_another_cluster_is_not_misunderstood(bed, jobs, words):
    done = bed.run([GSCHED, *words, jobs[0]], "games", extra_env={"SLURM_CLUSTERS": "elsewhere"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "SLURM_CLUSTERS" in done.stderr


def test_a_configuration_that_is_not_there_is_named_at_once(bed):
    done = bed.run([GSCHED, "queue"], extra_env={"SLURM_CONF": "/no/slurm.conf"})
    assert done.returncode == 69
    assert done.stderr.startswith("gsched: error: SLURM_CONF names /no/slurm.conf, which does not")


# A host without slurm.conf: nothing but the client commands and munge at its usual place. /run is
# a file system of the test's own there.
BARE_HOST = """
mount -t tmpfs none /run && mkdir /run/munge && ln -s "$1" /run/munge/munge.socket.2 || exit 99
if [ -n "$2" ]; then mkdir -p /run/slurm && ln -s "$2" /run/slurm/conf; fi
shift 2
exec env -u SLURM_CONF "$@"
"""
CLIENT_COMMANDS = ("squeue", "scontrol", "sbatch", "scancel", "sacct", "sprio", "sinfo", "sacctmgr")


@pytest.fixture(scope="module")
def configless(tmp_path_factory):
    """A configless site, and a function that runs a command on a login node of it as games."""
    from gsched.testbed.cluster import Testbed

    if not has_mount_namespaces():
        pytest.skip(NO_NAMESPACES)
    folder = tmp_path_factory.mktemp("bin")
    folder.chmod(0o755)
    for name in CLIENT_COMMANDS:
        (folder / name).symlink_to(shutil.which(name))
    with Testbed.temporary(
        num_nodes=1, extra_conf=("SlurmctldParameters=enable_configless",)
    ) as bed:
        conf = bed.layout.slurm_conf.read_text()
        port = re.search(r"^SlurmctldPort=(\d+)", conf, re.MULTILINE)[1]

        def on_login_node(*argv, cached=False, server=f"127.0.0.1:{port}", stdin=""):
            command = as_user(argv, "games")
            served = {} if cached or not server else {"SLURM_CONF_SERVER": server}
            place = str(bed.layout.slurm_conf.parent) if cached else ""
            setting = ["unshare", "-m", "sh", "-c", BARE_HOST, "sh"]
            env = {"HOME": str(bed.layout.home("games")), "USER": "games", "LOGNAME": "games"}
            path = {"PATH": f"{folder}:{bed.env()['PATH']}"}
            return bed.run(
                [*setting, str(bed.layout.munge_socket), place, "env",
                 *(f"{k}={v}" for k, v in (env | served | path).items()), *command],
                cwd=bed.layout.home("games"), stdin=stdin,
            )  # fmt: skip

        yield on_login_node


@pytest.mark.parametrize("cached", [False, True], ids=["SLURM_CONF_SERVER", "run-slurm-conf"])
def test_all_of_it_works_on_a_configless_site(configless, cached):
    made = configless(GSCHED, "submit", "--parsable", "--hold", "--gs-none", cached=cached,
                      stdin="#!/bin/sh\ntrue\n")  # fmt: skip
    assert made.returncode == 0, made.stderr
    job = made.stdout.strip()
    shown = configless(GSCHED, "show", job, "--json", cached=cached)
    assert json.loads(shown.stdout)["slurm"]["user"] == "games", shown.stderr
    assert job in configless(GSCHED, "queue", cached=cached).stdout
    assert job in configless(GSCHED, "why", job, cached=cached).stdout
    cancelled = configless(GSCHED, "cancel", job, cached=cached)
    assert cancelled.returncode == 0, cancelled.stderr
    refused = configless(GSCHED, "requeue", "999999", cached=cached)
    assert "Slurm has no job 999999" in refused.stderr


def test_a_host_that_knows_no_slurm_says_so_at_once(configless):
    done = configless(GSCHED, "queue", server="")
    assert done.returncode == 69
    assert done.stderr.splitlines()[-1].startswith("hint: this host knows no Slurm: set SLURM_CONF")
    assert "does not answer yet" not in done.stderr
