"""What slurmdbd knows, by every way that it can be read: live and saved, as text and as JSON.

Totals are reckoned from sacct's own output, without gsched's readers.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.site import GSCHED, Site, fresh_site

from gsched.testbed.wait import wait_for
from gsched_sql import History
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import open_engine, reading

pytestmark = pytest.mark.slurm

EVERY = "BF,CA,CD,DL,F,NF,OOM,PD,PR,R,RQ,RS,RV,S,TO"
SPAN = ("-S", "1970-01-02T00:00:00", "-E", "2037-01-01T00:00:00")
SACCT = ("sacct", "-a", "-D", *SPAN, "-s", EVERY)
FIELDS = "JobID,Submit,State,Start,End,AllocTRES,NodeList,ExitCode,ReqTRES,User,Account,Cluster"
MORE = "Partition,QOS,Eligible,Timelimit,NNodes,NCPUS,JobName"
USAGE = "NTasks,TotalCPU,MaxRSS,TRESUsageInMax,TRESUsageInAve,TRESUsageInTot"
NOT_IN_JSON = {"state_text", "exit_code", "exit_signal", "time_limit_s", "extra"}
"""Who cancelled a job, which the text tells by number; what 22.05 does not tell of a failed job and
of one without a limit of its own; and of what users write, a file has more than gsched asks for."""
EPOCHS = {"SLURM_TIME_FORMAT": "%s", "TZ": "UTC"}
_BUSY = "x = bytearray(10**8); any(n < 0 for n in range(2 * 10**7)); import time; time.sleep(4)"
BUSY = f"srun -n2 python3 -c '{_BUSY}'"
"""It stays, so that Slurm, which measures every second at best, does so."""


class Known:
    """One database of the site's, and what is read into it."""

    def __init__(self, site: Site, name: str) -> None:
        self.site, self.path = site, site.state / f"{name}.db"
        History.create(self.url)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    @property
    def env(self) -> dict[str, str]:
        return {"GSCHED_DATABASE_URL": self.url}

    def ok(self, *words: str) -> str:
        answer = self.site.gsched("db", *words, env=self.env)
        assert answer.returncode == 0, f"{words}: {answer.stderr}"
        return answer.stdout

    def lines(self) -> list[dict[str, Any]]:
        engine = open_engine(self.url)
        with reading(engine) as conn:
            return [json.loads(line) for line in canonical_dump(conn)]

    def steps(self) -> dict[tuple[Any, ...], Any]:
        """Every step by attempt and name, but for its exit code: 22.05's JSON may not know it."""
        found = {}
        with History.open(self.url) as history:
            for job in history.jobs(every_job()):
                for submit_time, steps in history.steps_of(job).items():
                    for step in steps:
                        key = (job.key.slurm_id, submit_time, step.step)
                        found[key] = step
        return found


def every_job() -> Any:
    from gsched.model.past import HistoryFilter

    return HistoryFilter()


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A site whose jobs have ended in all ways, but for one that runs and one that waits."""
    conf = ("JobAcctGatherFrequency=1",)
    with fresh_site(accounting="slurmdbd", num_nodes=3, extra_conf=conf) as made:
        made.configure("database", keep_steps="true")
        run_jobs(made)
        yield made


def batch(site: Site, *words: str, command: str = "sleep 600") -> str:
    argv = ["sbatch", "--parsable", "-o", "/dev/null", *words, "--wrap", command]
    return site.slurm(*argv).strip()


def run_jobs(site: Site) -> None:
    busy = batch(site, "-J", "busy", "-n2", "--gres=gpu:2", command=BUSY)
    batch(site, "-J", "array", "-a", "1-4", "--gres=gpu:1", command="true")
    batch(site, "-J", "fails", "--gres=gpu:1", command="exit 3")
    batch(site, "-J", "a|b\nc", command="true")
    site.slurm("sbatch", "--parsable", "-J", "het", "--gres=gpu:1", "-o", "/dev/null", "--wrap",
               "true", ":", "-n1", "-J", "het")  # fmt: skip
    again = batch(site, "-J", "again", "-w", "gn01", "--gres=gpu:3", "--requeue")
    lost = batch(site, "-J", "lost", "-w", "gn03", "--gres=gpu:4", "--no-requeue")
    running = batch(site, "-J", "running", "--gres=gpu:2", "-w", "gn02")
    never = batch(site, "-J", "never", "--begin=now+9hours")
    whole = batch(site, "-J", "whole", "-a", "1-9", "--begin=now+9hours")
    batch(site, "-J", "waits", "--gres=gpu:8", "-w", "gn02")
    for job in (again, lost, running):
        wait_for(lambda j=job: site.states().get(int(j)) == "RUNNING", f"job {job} to run")
    site.slurm("scancel", never, whole)
    site.slurm("scontrol", "requeue", again)
    site.slurm("scontrol", "update", "nodename=gn03", "state=down", "reason=fan | broke\nhot")
    wait_for(lambda: site.states().get(int(busy)) == "COMPLETED", "the busy job to end")
    site.slurm("scancel", again)
    wait_for(lambda: unfinished(site) == {"running", "waits"}, "slurmdbd to know of every end")


def rows_of(site: Site, *more: str, fields: str = f"{FIELDS},JobName") -> list[list[str]]:
    """sacct's rows, cut at a separator that no name has."""
    argv = (*SACCT, *more, "-n", "-P", "--delimiter=\x1f", "-o", f"{fields},Layout")
    answer = site.bed.run(argv, extra_env=EPOCHS)
    assert answer.returncode == 0, answer.stderr
    width = fields.count(",") + 2
    cells = answer.stdout.replace("\x1f\n", "\x1f").split("\x1f")
    assert len(cells) % (width - 1) == 1, cells
    return [cells[n : n + width - 1] for n in range(0, len(cells) - 1, width - 1)]


def unfinished(site: Site) -> set[str]:
    return {row[-1] for row in rows_of(site, "-X") if row[4] == "Unknown"}


def totals_of(rows: list[list[str]]) -> tuple[Counter[str], int]:
    """Attempts by state and GPU-seconds, of sacct's rows but for arrays that wait as a whole."""
    states: Counter[str] = Counter()
    gpu_time_s = 0
    for job_id, _, state, start, end, tres, nodes, *_ in rows:
        if "[" in job_id and state == "PENDING":
            continue
        states[state.split()[0]] += _num_tasks(job_id)
        gpus = [int(t.partition("=")[2]) for t in tres.split(",") if t.startswith("gres/gpu=")]
        if end != "Unknown" and nodes != "None assigned":
            gpu_time_s += sum(gpus) * (int(end) - int(start))
    return states, gpu_time_s


def _num_tasks(job_id: str) -> int:
    """The jobs that a row stands for: an array cancelled before its start has one for all."""
    parts = job_id.rpartition("[")[2].rstrip("]").split(",") if "[" in job_id else ["0"]
    ends = [[int(end) for end in part.split("-")] for part in parts]
    return sum(end[-1] - end[0] + 1 for end in ends)


def totals_in(lines: list[dict[str, Any]]) -> tuple[Counter[str], int]:
    attempts = [line for line in lines if line["kind"] == "attempt"]
    seconds = [
        (a["num_gpus"] or 0) * (a["end_time"] - a["start_time"])
        for a in attempts
        if a["start_time"] is not None and a["end_time"] is not None
    ]
    return Counter(a["state"] for a in attempts), sum(seconds)


def save(site: Site, name: str, argv: tuple[str, ...], env: dict[str, str]) -> Path:
    answer = site.bed.run(argv, extra_env=env)
    assert answer.returncode == 0, answer.stderr
    path = site.state / name
    path.write_bytes(answer.stdout.encode())
    return path


def test_totals_and_dumps_agree_whatever_way_they_came(site: Site) -> None:
    rows = rows_of(site, "-X")
    wanted = totals_of(rows)
    assert {"COMPLETED", "CANCELLED", "FAILED", "NODE_FAIL", "REQUEUED", "RUNNING", "PENDING"} == (
        set(wanted[0])
    )
    text, document = Known(site, "text"), Known(site, "document")
    text.ok("ingest", "--source", "sacct")
    document.ok("ingest", "--source", "sacct-json")
    saved_text, saved_document = Known(site, "saved-text"), Known(site, "saved-document")
    fields = f"{FIELDS},{USAGE},{MORE}"
    table = save(site, "jobs.txt", (*SACCT, "-P", "--noconvert", "-o", fields), {"TZ": "UTC"})
    whole = save(site, "jobs.json", (*SACCT, "--json"), {"TZ": "UTC"})
    saved_text.ok("import", "--format", "sacct", "--timezone", "UTC", str(table))
    saved_document.ok("import", "--format", "sacct-json", str(whole))
    for known in (text, document, saved_text, saved_document):
        assert totals_in(known.lines()) == wanted, known.path
    base = text.lines()
    # what has no place of its own is kept of a file
    assert told_by(saved_text, {"extra"}) == [without(line, {"extra"}) for line in base]
    for known in (document, saved_document):
        assert told_by(known, NOT_IN_JSON) == [without(line, NOT_IN_JSON) for line in base]
    check_steps(text, document, saved_text, saved_document)


def told_by(known: Known, left_out: set[str]) -> list[dict[str, Any]]:
    return [without(line, left_out) for line in known.lines()]


def without(line: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in names}


def check_steps(text: Known, *others: Known) -> None:
    steps = text.steps()
    assert {step for _, _, step in steps} >= {"batch", "0"}
    busy = next(step for key, step in steps.items() if step.name == "python3")
    assert busy.num_tasks == 2
    assert busy.cpu_time_s > 0
    assert busy.max_rss_bytes > 10**8
    for known in others:
        found = known.steps()
        assert found.keys() == steps.keys()
        for key, step in steps.items():
            for name in ("state", "start_time", "end_time", "cpu_time_s", "max_rss_bytes",
                         "rss_bytes", "num_tasks", "num_cpus", "num_nodes", "name"):  # fmt: skip
                assert getattr(found[key], name) == getattr(step, name), (key, name)


def test_two_ingests_at_once_do_what_one_does(site: Site) -> None:
    one, both = Known(site, "one"), Known(site, "both")
    one.ok("ingest")
    env = site.bed.env() | both.env
    ways = ("auto", "sacct-json", "auto")
    running = [
        subprocess.Popen([GSCHED, "db", "ingest", "--source", way], env=env, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for way in ways
    ]  # fmt: skip
    for process in running:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    left_out = NOT_IN_JSON | {"conflicts", "claims"}
    assert told_by(both, left_out) == told_by(one, left_out)
    before = one.lines()
    one.ok("ingest", "--since", "1d")
    assert one.lines() == before


def test_nodes_that_were_down_are_told(site: Site) -> None:
    known = Known(site, "events")
    first = json.loads(known.ok("ingest", "--json"))
    assert first["node_events"]["new"] >= 1
    assert json.loads(known.ok("ingest", "--json"))["node_events"]["new"] == 0
    with History.open(known.url) as history:
        events = [e for e in history.node_events("testbed", 0, 2**40) if e.node == "gn03"]
    down = next(event for event in events if event.reason == "fan | broke\nhot")
    assert down.user == "root"
    assert down.end_time is None or down.end_time >= down.start_time


def test_what_runs_now_is_completed_when_it_ends(site: Site) -> None:
    """The last of this module: it ends the job that the others know as running."""
    known = Known(site, "later")
    known.ok("ingest", "--source", "sacct")
    running = [row[0] for row in rows_of(site, "-X") if row[2] == "RUNNING"]
    assert len(running) == 1
    site.slurm("scancel", running[0])
    wait_for(lambda: unfinished(site) == {"waits"}, "slurmdbd to know of the end")
    known.ok("ingest", "--source", "sacct")
    assert totals_in(known.lines()) == totals_of(rows_of(site, "-X"))
    late = Known(site, "late")
    late.ok("ingest", "--source", "sacct")
    assert late.lines() == known.lines()
