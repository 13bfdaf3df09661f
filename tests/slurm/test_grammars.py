"""The grammars against the real Slurm: what it refuses is refused, what it takes means the same.

Jobs are submitted held, so that nothing runs. Where a grammar differs on purpose, a table here
says why, and the test sees that it still differs.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from support.machine import slurm_release

from gsched.errors import DataError
from gsched.model.exitcode import parse_exit_code
from gsched.model.hostlist import expand, fold
from gsched.model.job import UNLIMITED_S
from gsched.model.jobid import TaskRange, TaskSet, parse_job_id, parse_tasks
from gsched.model.times import Looking, parse_moment, parse_printed_time
from gsched.model.units import (
    count_gres,
    parse_gpus,
    parse_gres,
    parse_memory,
    parse_requested_gres,
    parse_time_limit,
)
from gsched.slurm.states import parse_node_state
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for

IS_LATER = slurm_release() >= (24, 0)
"""24.11 takes some more, and some less, than 22.05."""

PRINTING = {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0"}


def seconds_of_c() -> int:
    """What time(2) says in Slurm's programs: its clock is up to a tick behind `time.time`."""
    realtime_coarse = 5  # linux/time.h; Python has no name for it
    return int(time.clock_gettime(realtime_coarse))


def submit(bed: Testbed, *options: str, env: Mapping[str, str] | None = None) -> int | None:
    """Submit a held job; its id, or None when sbatch refuses."""
    answer = bed.run(["sbatch", "--parsable", "-H", *options, "--wrap", "true"], extra_env=env)
    if answer.returncode:
        assert not answer.stdout, answer.stdout
        assert answer.stderr, f"refused without a word: {options}"
        return None
    return int(answer.stdout)


def printed(bed: Testbed) -> dict[int, dict[str, str]]:
    """The fields of all jobs in ``scontrol show job``, by id.

    Other tests' jobs may still be known, under names with line ends.
    """
    answer = bed.run(["scontrol", "-o", "show", "job"], extra_env=PRINTING)
    lines = [line for line in answer.stdout.splitlines() if re.match(r"JobId=\d+ ", line)]
    records = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in lines]
    return {int(record["JobId"]): record for record in records}


def takes(parse: Callable[..., object], *words: object) -> bool:
    try:
        parse(*words)
    except DataError:
        return False
    return True


def submit_all(bed: Testbed, option: str, texts: Iterable[str], *more: str) -> dict[str, int]:
    """Submit one held job a text; the ids of those that Slurm took."""
    ids = {text: submit(bed, *more, f"{option}={text}") for text in texts}
    return {text: job_id for text, job_id in ids.items() if job_id is not None}


# -- moments --------------------------------------------------------------------------------

MOMENTS = [
    "now", "now+1hour", "now + 2 minutes", "now+60", "NOW+1days", "now+3weeks", "now-1hour",
    "today", "tomorrow", "midnight", "noon", "fika", "Noon", "16:00", "16:00:30", "4:00PM",
    "4:00 pm", "12:30AM", "0:30PM", "0930", "093037", "12/31", "1/2", "12/31/37", "12.31.",
    "12.31.37", "1231-12:00", "123137-12:00:30", "12/31-noon", "12/31/37-4:00PM", "2037-12-31",
    "2037-12-31T12:00", "2037-12-31T12:00:30", "2037-12-31 12:00", "2037-12-31-12:00",
    "tomorrow 12:00", "12:00 tomorrow", "noon tomorrow", "12:00 12/31",
]  # fmt: skip
NO_MOMENTS = [
    "x", "7", "4PM", "16:0", "7:5", "24:00", "23:60", "23:59:60", "13:00PM", "now+", "now+1h",
    "now+2min", "now+1.5hours", "nowx", "today+1", "yesterday", "31.12.", "13/01", "0010",
    "12/31/2037", "12-31", "2037-1-2", "2037-13-01", "2037-12-31T12", "2037-12-31T12:00:30.5",
    "1600000000", "uptime", "16:00x",
]  # fmt: skip
SLURM_ALONE_TAKES = {
    "02/30/37": "is no day: Slurm takes it for 2 March",
    "2037-02-29": "is no day: Slurm takes it for 1 March",
    "-12:00": "a stroke before everything is a slip of the hand",
    "noon 13:00": "says two things: for Slurm the last one counts",
    "tomorrow12:00": "nothing stands between the two",
}
GSCHED_ALONE_TAKES = {
    "Tomorrow": "capitals mean nothing; for Slurm a T stands between date and time",
    "TEATIME": "capitals mean nothing",
    "2037-12-31T12:00Z": "ISO 8601 with an offset",
    "2037-12-31T12:00+05:30": "ISO 8601 with an offset",
    "elevenses": "later releases of Slurm take it",
}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata", "America/New_York"])
def test_begin_times_mean_the_same(bed, zone):
    before = seconds_of_c()
    ids = {text: submit(bed, "--begin", text, env={"TZ": zone}) for text in MOMENTS}
    after = seconds_of_c()
    jobs = printed(bed)
    for text, job_id in ids.items():
        earliest, latest = (
            parse_moment(text, now, Looking.AHEAD, ZoneInfo(zone)) for now in (before, after)
        )
        assert job_id is not None, text
        eligible = parse_printed_time(jobs[job_id]["EligibleTime"])
        if latest <= after:  # begins now: a held job is then not eligible at any time
            assert eligible is None, text
        else:
            assert eligible is not None, text
            assert earliest <= eligible <= latest, (text, zone, eligible, earliest, latest)


@pytest.mark.parametrize(
    ("zone", "texts"),
    [
        ("Europe/Berlin", ["2037-03-29T02:30", "2037-03-29T01:59", "2037-03-29T03:00",
                           "2037-10-25T02:30", "2037-10-25T01:59", "2037-10-25T03:00"]),
        ("America/New_York", ["2037-03-08T02:30", "2037-11-01T01:30", "2037-11-01T02:00"]),
        ("Asia/Kolkata", ["2037-03-29T02:30"]),
    ],
)  # fmt: skip
def test_times_at_the_changes_of_the_clocks(bed, zone, texts):
    ids = {text: submit(bed, "--begin", text, env={"TZ": zone}) for text in texts}
    jobs = printed(bed)
    for text, job_id in ids.items():
        found = parse_moment(text, time.time(), Looking.AHEAD, ZoneInfo(zone))
        assert found == int(jobs[job_id]["EligibleTime"]), text
    kinds = {datetime.fromtimestamp(parse_moment(t, 0, Looking.AHEAD, ZoneInfo(zone)),
                                    ZoneInfo(zone)).utcoffset() for t in texts}  # fmt: skip
    assert len(kinds) == (1 if zone == "Asia/Kolkata" else 2)


def test_begin_times_that_are_none(bed):
    now = seconds_of_c()
    assert submit_all(bed, "--begin", NO_MOMENTS) == {}
    for text in NO_MOMENTS:
        assert not takes(parse_moment, text, now, Looking.AHEAD), text
    assert set(submit_all(bed, "--begin", SLURM_ALONE_TAKES)) == set(SLURM_ALONE_TAKES)
    for text in SLURM_ALONE_TAKES:
        assert not takes(parse_moment, text, now, Looking.AHEAD), text
    later = {"elevenses"} if IS_LATER else set()
    assert submit_all(bed, "--begin", GSCHED_ALONE_TAKES).keys() == later
    for text in GSCHED_ALONE_TAKES:
        assert takes(parse_moment, text, now, Looking.AHEAD), text


def test_deadlines_are_read_like_begin_times(bed):
    texts = ["now+1hour", "2037-12-31T12:00", "12/31/37-4:00PM", "noon tomorrow"]
    before = seconds_of_c()
    ids = submit_all(bed, "--deadline", texts, "-t", "1")
    after = seconds_of_c()
    jobs = printed(bed)
    assert set(ids) == set(texts)
    for text, job_id in ids.items():
        earliest, latest = (parse_moment(text, now, Looking.AHEAD) for now in (before, after))
        assert earliest <= int(jobs[job_id]["Deadline"]) <= latest, text
    # one that is past can be read, but not kept
    assert submit_all(bed, "--deadline", ["now-1hour", "2020-01-01", "x", "2d"], "-t", "1") == {}


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata"])
def test_sacct_reads_the_same_moments(bed, zone):
    """sacct tells how it has read a start when that is after the end, before it looks for jobs."""

    def read(text: str) -> int | None:
        env = PRINTING | {"TZ": zone}
        answer = bed.run(["sacct", "-S", text, "-E", "1990-01-01"], extra_env=env)
        match = re.search(r"Start time \((\d+)\) requested is after", answer.stderr)
        assert match or "Invalid time specification" in answer.stderr, answer.stderr
        return int(match[1]) if match else None

    for text in [*MOMENTS, "2026-03-29T02:30", "2026-10-25T02:30"]:
        before = seconds_of_c()
        found = read(text)
        after = seconds_of_c()
        earliest, latest = (
            parse_moment(text, now, Looking.BACK, ZoneInfo(zone)) for now in (before, after)
        )
        assert found is not None, text
        assert earliest <= found <= latest, (text, zone, found, earliest, latest)
    for text in [*NO_MOMENTS, "2d", "6h"]:
        assert read(text) is None, text
        is_ours = text in {"2d", "6h"}
        assert takes(parse_moment, text, time.time(), Looking.BACK) is is_ours, text


# -- limits and sizes -----------------------------------------------------------------------


def test_time_limits(bed):
    legal = ["1", "90", "0:30", "1:30", "1:60", "1:02:03", "1-", "1-0", "1-1", "1-25", "1-2:3",
             "1-2:3:4", "1-24:60:60", "0", "0:0", "UNLIMITED", "infinite", "-1"]  # fmt: skip
    ids = submit_all(bed, "--time", legal)
    jobs = printed(bed)
    assert set(ids) == set(legal)
    for text, job_id in ids.items():
        wanted = parse_time_limit(text)
        assert wanted is not None
        # Slurm makes whole minutes of it, rounded up, and of none no limit
        asked = UNLIMITED_S if wanted in {0, UNLIMITED_S} else -(-wanted // 60) * 60
        assert parse_time_limit(jobs[job_id]["TimeLimit"]) == asked, text
    illegal = ["5d", "1.5", "+5", "x", "1:2:3:4", "1:", ":1", "1-2:3:4:5", "5 minutes"]
    assert submit_all(bed, "--time", illegal) == {}
    for text in illegal:
        assert not takes(parse_time_limit, text), text
    # Slurm counts "-2" as minus two days and makes 8,000 years of it
    assert submit(bed, "--time=-2") is not None
    assert not takes(parse_time_limit, "-2")


def test_memory(bed):
    legal = ["0", "100", "100M", "512MB", "4G", "4g", "4GB", "1T", "1024K", "10240k"]
    ids = submit_all(bed, "--mem", legal)
    jobs = printed(bed)
    assert set(ids) == set(legal)
    for text, job_id in ids.items():
        assert parse_memory(jobs[job_id]["MinMemoryNode"]) == parse_memory(text), text
    job_id = submit(bed, "--mem-per-cpu=1G")
    assert job_id is not None
    assert parse_memory(printed(bed)[job_id]["MinMemoryCPU"]) == parse_memory("1G")
    illegal = ["x", "4GiB", "4X", "4 G", "-4G", "1e3"]
    assert submit_all(bed, "--mem", illegal) == {}
    for text in illegal:
        assert not takes(parse_memory, text), text
    # Slurm prints such forms, but does not take them
    printed_only = ["1.5G", "4Gn", "4Gc", "4P"]
    assert submit_all(bed, "--mem", printed_only) == {}
    for text in printed_only:
        assert takes(parse_memory, text), text


GPUS = ["2", "0", "a100", "a100:2", "a100=2", "a100:2,v100:1", "1,2", "x"]
NO_GPUS = ["a100:", "a100:x"]


def test_gpus_in_every_spelling(bed):
    for option, field in (
        ("--gpus", "TresPerJob"),
        ("--gpus-per-node", "TresPerNode"),
        ("--gpus-per-task", "TresPerTask"),
    ):
        # 24.11 takes a type without a count for --gpus-per-task, and then asks for nothing
        legal = ["2", "a100:2"] if IS_LATER and option == "--gpus-per-task" else GPUS
        ids = submit_all(bed, option, legal, "-n", "2")
        jobs = printed(bed)
        assert set(ids) == set(legal), option
        for text, job_id in ids.items():
            assert parse_requested_gres(jobs[job_id][field]) == parse_gpus(text), (option, text)
        taken = set(NO_GPUS) if IS_LATER and option == "--gpus-per-task" else set()
        assert submit_all(bed, option, NO_GPUS, "-n", "2").keys() == taken, option
        assert (submit(bed, option, "gpu:a100:2", "-n", "2") is not None) == IS_LATER
    for text in NO_GPUS:
        assert not takes(parse_gpus, text), text
    # Slurm refuses to mix both; for what it prints it is a matter of counting (see `count_gres`)
    assert submit(bed, "--gpus=2,a100:2") is None
    assert count_gres(parse_gpus("2,a100:2"), "gpu") == (2, (("a100", 2),))


def test_gres_in_every_spelling(bed):
    legal = ["gpu", "gpu:2", "gpu:a100", "gpu:a100:2", "gpu:0", "gpu:1K", "none"]
    if not IS_LATER:
        legal.append("gres:gpu:2")
    ids = submit_all(bed, "--gres", legal)
    jobs = printed(bed)
    assert set(ids) == set(legal)
    for text, job_id in ids.items():
        found = parse_requested_gres(jobs[job_id].get("TresPerNode", ""))
        assert found == parse_requested_gres(text), text
    assert (submit(bed, "--gres=gpu:a:b:2") is not None) == IS_LATER
    illegal = ["gpu:a100:x", ":2"]
    assert submit_all(bed, "--gres", illegal) == {}
    for text in illegal:
        assert not takes(parse_gres, text), text


def test_a_job_holds_as_many_gpus_as_its_request_says(bed):
    """Twice the same type is no sum: the last entry counts."""
    requests = {
        "--gres=gpu:1,gpu:2": (2, parse_requested_gres("gpu:1,gpu:2")),
        "--gres=gpu:a100:1,gpu:a100:3": (3, parse_requested_gres("gpu:a100:1,gpu:a100:3")),
        "--gpus=1,2": (2, parse_gpus("1,2")),
        "--gpus-per-node=a100": (1, parse_gpus("a100")),
    }
    for option, (held, request) in requests.items():
        answer = bed.run(["sbatch", "--parsable", "-o", "/dev/null", option, "--wrap", "sleep 60"])
        job_id = answer.stdout.strip()
        wait_for(lambda job=job_id: state(bed, job) == "RUNNING", f"{option} to run")
        text = bed.run(["scontrol", "-d", "-o", "show", "job", job_id]).stdout
        on_nodes = re.findall(r" GRES=(\S+)", text)
        gpus = [count_gres(parse_gres(found), "gpu")[0] for found in on_nodes]
        assert sum(gpus) == held == count_gres(request, "gpu")[0], (option, on_nodes)
        bed.run(["scancel", job_id])


def state(bed: Testbed, job_id: str) -> str:
    return bed.run(["squeue", "-h", "-t", "all", "-j", job_id, "-o", "%T"]).stdout.strip()


# -- ids ------------------------------------------------------------------------------------


def test_array_expressions(bed):
    legal = ["1-5", "1-5:2", "1,3,5", "1-5%2", "[1-5]", "1,1", "1-3%0", "0", " 1-3", "1, 3",
             "1-3,2-4", "3,1", "1-9:3,2%4", "1-5:10", "01-03", "0-999:333,5"]  # fmt: skip
    ids = submit_all(bed, "--array", legal)
    jobs = printed(bed)
    assert set(ids) == set(legal)
    for text, job_id in ids.items():
        found, wanted = parse_tasks(jobs[job_id]["ArrayTaskId"]), parse_tasks(text)
        assert list(found) == list(wanted), text
        assert found.throttle == wanted.throttle, text
    illegal = ["5-1", "1-5:0", "1-", "-3", "1--3", "a", "1-3:", "1:2", "0x3", "0-4000001"]
    assert submit_all(bed, "--array", illegal) == {}
    for text in illegal:
        assert not takes(parse_tasks, text), text
    # Slurm reads as far as it understands, and takes what stands behind a % for no limit
    careless = ["1-3%", "1-3%-1", "1-3%2%3"]
    assert set(submit_all(bed, "--array", careless)) == set(careless)
    for text in careless:
        assert not takes(parse_tasks, text), text


def test_job_ids_as_squeue_prints_them(bed):
    array = submit(bed, "--array=0,2,4,6,8,10,12,14,16,20-40%3")
    plain = submit(bed)
    het = bed.run(["sbatch", "--parsable", "-H", "-n1", ":", "-n1"], stdin="#!/bin/sh\n")
    leader = int(het.stdout)

    def ids(**env: str) -> list[str]:
        command = ["squeue", "-h", "-o", "%i"]
        return bed.run(command, extra_env=PRINTING | env).stdout.split()

    found = {text: parse_job_id(text) for text in ids()}
    assert {job.job_id for job in found.values()} == {array, plain, leader}
    assert {job.het_offset for job in found.values()} == {None, 0, 1}
    (tasks,) = (job.array_tasks for job in found.values() if job.array_tasks)
    ranges = [TaskRange(task, task) for task in range(0, 17, 2)] + [TaskRange(20, 40)]
    assert tasks == TaskSet(tuple(ranges), 3)
    assert all(str(job) == text for text, job in found.items())
    # cut short, as everywhere unless SLURM_BITSTR_LEN is set
    (cut,) = (text for text in ids(SLURM_BITSTR_LEN="16") if "..." in text)
    with pytest.raises(DataError, match="cut short by Slurm"):
        parse_job_id(cut)


def test_steps_and_exit_codes(bed):
    """A step's id, and the codes of jobs that fail, kill themselves, or end well."""
    script = "#!/bin/sh\nsrun -n1 sleep 60\n"
    running = bed.run(["sbatch", "--parsable", "-o", "/dev/null"], stdin=script).stdout.strip()
    ends = {"exit 3": "exit code 3", "kill -9 $$": "killed by SIGKILL", "true": "exit code 0"}
    ids = {}
    for command in ends:
        words = ["sbatch", "--parsable", "-o", "/dev/null", "--wrap", command]
        ids[command] = bed.run(words).stdout.strip()

    def steps() -> list[str]:
        return bed.run(["squeue", "-h", "-s", "-j", running, "-o", "%i"]).stdout.split()

    wait_for(lambda: f"{running}.0" in steps(), "the step to start")
    assert {"0", "batch"} <= {parse_job_id(text).step for text in steps()}
    assert all(str(parse_job_id(text)) == text for text in steps())
    wait_for(
        lambda: all(state(bed, i) in {"FAILED", "COMPLETED"} for i in ids.values()), "the ends"
    )
    jobs = printed(bed)
    for command, words in ends.items():
        assert parse_exit_code(jobs[int(ids[command])]["ExitCode"]).words == words


# -- nodes ----------------------------------------------------------------------------------


def test_host_lists(bed):
    seed = 20261129
    print(f"seed {seed}")
    rng = random.Random(seed)
    lists = [_host_list(rng, brackets) for brackets in (0, 1, 1, 1, 2) for _ in range(30)]
    names = hostnames(bed, ",".join(lists))
    assert expand(",".join(lists)) == names
    # what Slurm folds we unfold, and what we fold it unfolds
    ours = [fold(expand(hosts)) for hosts in lists]
    assert all(set(expand(a)) == set(expand(b)) for a, b in zip(ours, lists, strict=True))
    assert hostnames(bed, ",".join(ours)) == expand(",".join(ours))
    theirs = bed.run(["scontrol", "show", "hostlist", ",".join(names)]).stdout.strip()
    assert expand(theirs) == names
    # of three brackets the names are the same, but Slurm's order jumps: the first moves before
    # the second
    for _ in range(5):
        hosts = _host_list(rng, 3)
        assert sorted(expand(hosts)) == sorted(hostnames(bed, hosts)), hosts


def hostnames(bed: Testbed, hostlist: str) -> list[str]:
    return bed.run(["scontrol", "show", "hostnames", hostlist]).stdout.split()


def _host_list(rng: random.Random, brackets: int) -> str:
    """A name, or some brackets with ranges and numbers, some of them padded."""

    def ranges() -> str:
        width = rng.choice([0, 0, 2, 3])
        parts = []
        for _ in range(rng.randint(1, 3)):
            low = rng.randint(0, 120)
            high = low + rng.randint(0, 4)
            parts.append(f"{low:0{width}}-{high:0{width}}" if high > low else f"{low:0{width}}")
        return f"[{','.join(parts)}]"

    prefixes = ["gn", "r", "rack-a", "x1y", "node0", "h-"]
    if not brackets:
        return rng.choice([*prefixes, "login", "gn7", "gn007"])
    return "".join(rng.choice(prefixes) + ranges() for _ in range(brackets))


def test_host_lists_that_are_none(bed):
    for text in ("n[]", "n[3-1]", "n[a-b]", "n[1,,2]", "n[1-2:2]", "n[1-[2-3]]"):
        assert hostnames(bed, text) == [] or (IS_LATER and text == "n[1-[2-3]]"), text
        assert not takes(expand, text), text
    # Slurm makes a name with a bracket of it
    for text in ("n[1-", "n1]"):
        assert (hostnames(bed, text) == []) == (IS_LATER and text == "n[1-"), text
        assert not takes(expand, text), text
    # other releases take a text behind the bracket; we read it, and never write it
    assert hostnames(bed, "n[1-2]-ib") == (["n1-ib", "n2-ib"] if IS_LATER else [])
    assert expand("n[1-2]-ib") == ["n1-ib", "n2-ib"]
    assert hostnames(bed, fold(["n1-ib", "n2-ib"])) == ["n1-ib", "n2-ib"]


def test_node_states_of_scontrol_and_sinfo(bed):
    nodes = bed.run(["sinfo", "-h", "-N", "-o", "%N"]).stdout.split()
    drained, reserved = nodes[0], nodes[1]
    try:
        _scontrol(bed, "update", f"nodename={drained}", "state=drain", "reason=test")
        _scontrol(bed, "create", "reservation=maintenance", "flags=maint", "starttime=now",
                  "duration=10", "users=root", f"nodes={reserved}")  # fmt: skip
        wait_for(lambda: "maint" in dict(shown(bed))[reserved][1], "the maintenance")
        for show in (shown, listed, listed_short):
            found = dict(show(bed))
            assert "drain" in found[drained][1], show
            assert "maint" in found[reserved][1], show
            assert found[nodes[-1]] == ("idle", ()), show
    finally:
        bed.run(["scontrol", "delete", "reservation=maintenance"])
        bed.run(["scontrol", "update", f"nodename={drained}", "state=resume"])
        wait_for(lambda: set(dict(shown(bed)).values()) == {("idle", ())}, "idle nodes")


def _scontrol(bed: Testbed, *words: str) -> None:
    answer = bed.run(["scontrol", *words])
    assert answer.returncode == 0, answer.stderr


NodeStates = list[tuple[str, tuple[str, tuple[str, ...]]]]


def shown(bed: Testbed) -> NodeStates:
    text = bed.run(["scontrol", "-o", "show", "node"]).stdout
    pairs = re.findall(r"^NodeName=(\S+).* State=(\S+)", text, re.MULTILINE)
    return [(name, parse_node_state(state)) for name, state in pairs]


def listed(bed: Testbed, column: str = "%T") -> NodeStates:
    text = bed.run(["sinfo", "-h", "-N", "-o", f"%N {column}"]).stdout
    pairs = [line.split() for line in text.splitlines()]
    return [(name, parse_node_state(state)) for name, state in pairs]


def listed_short(bed: Testbed) -> NodeStates:
    return listed(bed, "%t")
