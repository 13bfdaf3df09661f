"""`gsched queue`, `show`, `why` and `doctor` on a real Slurm, as users see them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from support.site import Site, fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

HOSTILE = 'x|"\n\x1b[31mJobId=1 UserId=root(0)'


@pytest.fixture
def site() -> Iterator[Site]:
    with fresh_site() as made:
        yield made


def ranked(site: Site, user: str | None = None) -> list[tuple[int, int]]:
    document = json.loads(site.gsched("queue", "--pending", "--json", user=user).stdout)
    return [(int(j["job"]), j["rank"]["position"]) for j in document["jobs"] if j["rank"]]


def test_every_user_sees_the_queue_in_the_daemons_order_without_the_database(site: Site) -> None:
    ids = site.queue_up([300, 5, 2000, 40])
    site.ok("daemon", "once", "--act")
    right = [ids[i] for i in (1, 3, 0, 2)]
    for path in list(site.state.glob("history.db*")):
        path.rename(site.bed.spec.root / path.name)
    for user in ("games", "news", None):
        assert ranked(site, user) == [(job, place) for place, job in enumerate(right, 1)]
    text = site.ok("queue", user="news")
    lines = text.splitlines()
    assert lines[0].split()[:4] == ["RANK", "JOBID", "PARTITION", "NAME"]
    assert lines[1].split()[:2] == ["1/4", str(right[0])]
    assert "40 GPU-s predicted: 8 × 0:05" in lines[1]
    assert "maintenance" in lines[-1]  # running jobs come last


def test_filters(site: Site) -> None:
    site.queue_up([5, 6])
    site.submit("d5", user="news")
    by_user = json.loads(site.ok("queue", "-u", "news", "--json"))
    assert [j["user"] for j in by_user["jobs"]] == ["news"]
    assert json.loads(site.ok("queue", "-p", "nowhere", "--json"))["jobs"] == []
    everybody = json.loads(site.ok("queue", "--json"))["jobs"]
    assert {j["state"] for j in everybody} == {"PENDING", "RUNNING"}


def test_ids_are_taken_as_squeue_takes_them(site: Site) -> None:
    array = site.submit("d5", 8, "games", "--begin=now+1hour", "--array=0-10:2")

    def listed(*words: str) -> list[str]:
        return site.ok("queue", "-h", "-o", "jobid", *words).split()

    for ids in (f"{array}_2", f"{array}_2,{array}_4", str(array), f"{array}_2,99999"):
        squeue = site.slurm("squeue", "-h", "-r", "-j", ids, "-o", "%i").split()
        assert set(listed("-r", "-j", ids)) == set(squeue)
    assert listed("-j", f"{array}_2") == [f"{array}_2"]
    assert listed("-j", f"{array}_[2-5]") == [f"{array}_[2,4]"]
    (job,) = site.json("queue", "-j", f"{array}_2")["jobs"]
    assert job["job"] == f"{array}_2"
    some = site.gsched("queue", "-j", f"99999,{array}_2,{array}_3")
    assert some.returncode == 0
    assert f"Slurm shows no such job (any more): 99999, {array}_3" in some.stderr
    none = site.gsched("queue", "-j", "99999")
    assert (none.returncode, site.bed.run(["squeue", "-j", "99999"]).returncode) == (1, 1)


@pytest.mark.parametrize("letter", ["-j", "-u", "-p", "-A", "-q", "-n", "-t", "-w", "-R", "-L"])
def test_a_filter_without_a_word_lists_nothing_as_with_squeue(shown: Site, letter: str) -> None:
    squeue = shown.slurm("squeue", "-h", letter, "", "-o", "%i")
    assert shown.ok("queue", "-h", "-o", "jobid", letter, "") == squeue == ""


@pytest.mark.parametrize(
    "words",
    [
        ("-A", "LAB1"), ("-A", "lab1"), ("-q", "NORMAL"), ("-n", "CASE"), ("-u", "GAMES"),
        ("-p", "GPU"), ("-p", "gpu,nowhere"), ("-L", "matlab"), ("-L", "MATLAB"),
    ],
)  # fmt: skip
def test_upper_and_lower_case_as_squeue_has_it(shown: Site, words: tuple[str, str]) -> None:
    squeue = shown.bed.run(["squeue", "-h", *words, "-o", "%i"]).stdout.split()
    assert shown.ok("queue", "-h", "-o", "jobid", *words).split() == squeue


@pytest.fixture(scope="module")
def shown() -> Iterator[Site]:
    """A site with one job that waits."""
    with fresh_site(num_nodes=1, accounting="slurmdbd", extra_conf=("Licenses=matlab:4",)) as made:
        options = ("-J", "case", "-L", "matlab:2", "--begin=now+1hour", "-o", "/dev/null")
        made.slurm("sbatch", *options, "--wrap", "true", user="games")
        yield made


def test_without_a_daemon_it_is_squeue_and_says_so(site: Site) -> None:
    ids = site.queue_up([300, 5])
    answer = site.gsched("queue", "--pending")
    assert "no predictions: no gsched daemon has answered" in answer.stderr
    assert [int(line.split()[1]) for line in answer.stdout.splitlines()[1:]] == ids


def test_an_observing_daemon_is_said_to_observe(site: Site) -> None:
    site.queue_up([300, 5])
    site.ok("daemon", "once")
    assert "the daemon observes: this order is not Slurm's own" in site.gsched("queue").stderr


def test_why_tells_the_place_the_prediction_and_the_priority(site: Site) -> None:
    ids = site.queue_up([300, 5, 2000])
    site.ok("daemon", "once", "--act")
    text = site.ok("why", str(ids[0]), user="games")
    assert re.search(
        r"8 GPUs, 1 CPU, \d+ MiB of memory on at least 1 node; free in gpu now: 0 GPUs, 126 CPUs,",
        text,
    )
    assert "1 job, 0.011 GPU-hours predicted (1 of its user)" in text
    assert "rank 2 of 3: 0.7 GPU-h predicted: 8 × 5:00" in text
    first = site.factors()[ids[1]]
    assert first > 0
    priority = f"{1_000_000 + first} = partition +1000000, gsched {first:+}"
    assert f"  priority         {priority}\n" in site.ok("why", str(ids[1]))


def test_why_counts_all_that_slurm_puts_ahead_and_names_whose_value_it_is(site: Site) -> None:
    ids = site.queue_up([300, 5, 2000])
    site.submit("d5", 8, "games", "--array=1-2")  # left alone: at the median place
    site.slurm("scontrol", "update", f"jobid={ids[0]}", "sitefactor=77")
    site.ok("daemon", "once", "--act")
    text = site.ok("why", str(ids[2]))
    assert "ahead of it      3 jobs, " in text
    assert "(3 of its user)" in text  # one by rank, one of another hand, one array
    foreign = site.ok("why", str(ids[0]))
    assert "its SiteFactor was set by somebody else" in foreign
    assert "SiteFactor (another hand's) +77" in foreign
    assert "gsched +" not in foreign


def test_why_says_when_a_job_can_never_start(site: Site) -> None:
    site.arm.fill()
    late = site.submit("d5", 8, "games", "--begin=now+1hour")
    doomed = site.submit("d5", 8, "games", f"--dependency=afterok:{late}")
    site.slurm("scancel", str(late))
    words = ("squeue", "-h", "-j", str(doomed), "-o", "%r")
    wait_for(lambda: site.slurm(*words).strip() == "DependencyNeverSatisfied", "Slurm to see it")
    assert site.ok("why", str(doomed)) == (
        f"{doomed} can never start: the job that it depends on ended the wrong way. "
        "Cancel it, or update its dependency.\n"
        f"  depends on       waits until {late} has ended well; "
        "it is CANCELLED now: it never will\n"
    )
    wide = site.submit("d5", 8, "games", "--nodes=2")
    site.slurm("scontrol", "update", "partitionname=gpu", "nodes=gn01")
    assert "can never start: it asks for 2 nodes; gpu has 1" in site.ok("why", str(wide))


def test_gpus_for_the_whole_job_are_not_taken_for_gpus_of_one_node(site: Site) -> None:
    site.arm.fill()
    spread = site.submit("d5", 0, "games", "--gpus=16")
    assert "can never start" not in site.ok("why", str(spread))
    too_many = site.submit("d5", 0, "games", "--gpus=17", "--hold")
    assert site.ok("why", str(too_many)).startswith(
        f"{too_many} can never start: it asks for 17 GPUs; gpu can give it 16 on 2 nodes"
    )
    on_one_node = site.submit("d5", 9, "games", "--hold")
    assert site.ok("why", str(on_one_node)).startswith(
        f"{on_one_node} can never start: it asks for 9 GPUs on one node; the largest node of gpu"
    )
    site.slurm("scancel", str(too_many), str(on_one_node))
    site.drain_queue()
    assert site.states()[spread] == "COMPLETED"


def test_why_of_a_running_and_of_an_unknown_job(site: Site) -> None:
    site.arm.fill()
    assert "does not wait: it is RUNNING" in site.ok("why", "1")
    unknown = site.gsched("why", "99999")
    assert unknown.returncode == 2
    assert "Slurm has no job 99999" in unknown.stderr
    nonsense = site.gsched("why", "12; rm -rf /")
    assert nonsense.returncode == 2
    assert "12; rm -rf /" in nonsense.stderr


def test_show_joins_slurm_the_daemon_and_the_history(site: Site) -> None:
    ids = site.queue_up([300, 5])
    site.ok("daemon", "once", "--act")
    document = site.json("show", str(ids[1]))
    assert document["slurm"]["name"] == "d5"
    assert document["slurm"]["num_gpus"] == 8
    assert document["gsched"]["rank"]["position"] == 1
    assert document["slurm"]["priority_parts"]["site_factor"] == site.factors()[ids[1]]
    assert document["history"][0]["attempts"][0]["state"] == "PENDING"
    site.drain_queue()
    site.ok("db", "ingest")
    past = site.json("show", str(ids[1]))["history"][0]
    assert past["state"] == "COMPLETED"
    assert past["num_gpus"] == 8
    assert "gsched show" not in site.ok("show", str(ids[1]))


def test_show_of_an_array_task_shows_that_task_alone(site: Site) -> None:
    array = site.submit("d5", 1, "games", "--array=1-3")
    wait_for(lambda: set(site.states().values()) == {"COMPLETED"}, "the tasks to end")
    site.ok("db", "ingest")
    assert [past["job"] for past in site.json("show", f"{array}_3")["history"]] == [f"{array}_3"]


def test_hostile_names_stay_in_their_line(site: Site) -> None:
    site.queue_up([5])
    job = site.submit(HOSTILE, user="news")
    site.ok("daemon", "once", "--act")
    for words in (("queue",), ("why", str(job)), ("show", str(job)), ("daemon", "once")):
        text = site.ok(*words)
        assert "\x1b" not in text
        assert not any(line.startswith(("\x1b", "JobId=1")) for line in text.splitlines())
    assert len(site.ok("queue", "--pending").splitlines()) == 3
    names = {j["name"] for j in json.loads(site.ok("queue", "--json"))["jobs"]}
    assert HOSTILE in names


def test_an_answer_ends_with_the_attempt_that_it_was_about(site: Site) -> None:
    ids = site.queue_up([300, 5])
    site.ok("daemon", "once", "--act")
    assert dict(ranked(site)).keys() == set(ids)
    before = site.state.joinpath("status.json").read_text()
    site.arm.open_gate()
    wait_for(lambda: site.states()[ids[0]] == "COMPLETED", "the job to end")
    site.slurm("scontrol", "requeuehold", str(ids[0]))
    wait_for(lambda: site.states()[ids[0]] == "PENDING", "the job to be back")
    assert ranked(site) == []
    assert site.state.joinpath("status.json").read_text() == before


def test_the_audit_needs_no_slurmctld(site: Site) -> None:
    ids = site.queue_up([300, 5])
    site.ok("daemon", "once", "--act")
    site.bed.kill_slurmctld()
    rows = site.json("daemon", "audit")
    assert {int(row["job"]) for row in rows} <= set(ids)
    assert {row["state"] for row in rows} == {"confirmed"}
    impatient = {"GSCHED_SLURM_COMMAND_TIMEOUT_S": "15"}
    assert site.gsched("queue", env=impatient).returncode == 69


def test_users_of_a_closed_state_folder_get_findings_and_no_traceback(site: Site) -> None:
    site.state.chmod(0o750)
    answer = site.gsched("doctor", "--json", user="games")
    assert answer.returncode == 0, answer.stderr
    assert {f["what"] for f in json.loads(answer.stdout)} >= {"state folder", "daemon"}
    status = site.gsched("daemon", "status", user="games")
    assert "Traceback" not in status.stderr
    assert "internal error" not in status.stderr


def test_doctor_finds_a_sound_site_sound_and_names_what_is_missing(site: Site) -> None:
    found = {f["what"]: f for f in site.json("doctor")}
    assert found["priorities"]["level"] == "ok"
    assert found["privilege"]["level"] == "ok"
    assert found["duration model"]["level"] == "warn"
    assert "gsched predict train" in found["duration model"]["mend"]
    as_user = site.gsched("doctor", "--json", user="games")
    levels = {f["what"]: f["level"] for f in json.loads(as_user.stdout)}
    assert levels["privilege"] == "note"
    site.bed.kill_slurmctld()
    down = site.gsched("doctor")
    assert down.returncode == 78
    assert "fail" in down.stdout


def test_of_a_new_job_it_is_said_when_the_daemon_looks(site: Site) -> None:
    site.queue_up([300, 5])
    site.ok("daemon", "once", "--act")
    new = str(site.submit("d5", 1))
    told = "the gsched daemon has not seen this job yet: it looked at 20"
    assert told in site.ok("why", new)
    assert told in site.gsched("queue", "-j", new).stderr
    assert told not in site.gsched("queue").stderr
    site.ok("daemon", "once", "--act")
    assert "has not seen" not in site.ok("why", new)


def test_what_is_not_about_the_cluster_that_is_meant_or_may_not_be_read_is_said(site: Site) -> None:
    job = str(site.queue_up([5])[0])
    site.ok("db", "ingest")
    elsewhere = {"SLURM_CLUSTERS": "elsewhere"}
    for words in (("why", job), ("show", job), ("eff", job), ("history",), ("queue",)):
        answer = site.gsched(*words, env=elsewhere)
        assert answer.returncode == 0, answer.stderr
        assert "warning: SLURM_CLUSTERS names elsewhere; this is testbed alone" in answer.stderr
        assert "SLURM_CLUSTERS" not in site.gsched(*words).stderr
    (site.state / "history.db").chmod(0o600)
    unreadable = "this host's history database is not readable for you"
    for words in (("history",), ("show", job)):
        assert unreadable in site.gsched(*words, user="games").stderr


def test_show_of_a_request_has_neither_epochs_nor_braces(site: Site) -> None:
    options = ("--gs-deadline=2027-12-25T10:00", "-t", "UNLIMITED", "--hold", "-o", "/dev/null")
    job = site.ok("submit", "--parsable", *options, "--wrap", "true", user="games").strip()
    site.ok("daemon", "once", "--act")
    text = site.ok("show", job)
    pairs = (line.partition("  ") for line in text.splitlines())
    lines = {what: words.strip() for what, _, words in pairs}
    assert lines["asked deadline"].startswith("2027-12-25T10:00:00")
    assert lines["gsched answers"].startswith("--gs-deadline 2027-12-25T10:00")
    assert lines["slurm time limit"] == "UNLIMITED"
    assert "{" not in text.replace(lines["asked token"], "").replace(lines["slurm comment"], "")
    for words in (("queue", "--json"), ("show", job, "--json"), ("history", "--json")):
        assert "2147483647" not in site.ok(*words)
    assert f"{job}|\n" in site.ok("queue", "-P", "-o", "jobid,limit")
