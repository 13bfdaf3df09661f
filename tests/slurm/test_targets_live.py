"""Deadlines on a real Slurm: asked, answered within seconds, kept in SQL, warned of and judged,
though the daemon is killed in between.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.site import Site, fresh_site

from gsched.engine.faults import FaultPoint
from gsched.model.target_records import TargetRecord, TargetState
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

MAILER = """#!/bin/sh
exec >>{mail}
echo "to=$1 job=$2 level=$3"
cat
echo END
"""
HORIZON_S = 7200


class Desk:
    """A site whose daemon keeps deadlines."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.mail = site.bed.spec.root / "mail"
        mailer = site.bed.spec.root / "etc" / "mailer"
        mailer.write_text(MAILER.format(mail=self.mail))
        mailer.chmod(0o755)
        knobs = {"profile_s": "0", "lease_s": "30", "grace_s": "5"}
        knobs |= {"resume_s": "5", "margin_s": "5"}
        self.textfile = site.bed.spec.root / "gsched.prom"
        given = {"policy": '"chronus"', "leases": "true", "interval_s": "1.0"}
        given["query_listen"] = '"127.0.0.1:0"'
        site.configure("daemon", **given, metrics_file=f'"{self.textfile}"')
        site.configure("daemon.knobs", **knobs)
        site.configure("forecast", enabled="false")
        command = json.dumps([str(mailer), "{to}", "{job}", "{level}"])
        site.configure(
            "deadlines", max_horizon_s=str(HORIZON_S), mail_command=command, mail_admin='"ops"'
        )
        site.know_durations({"short": 3, "long": 900})

    @contextmanager
    def daemon(self, *words: str) -> Iterator[Background]:
        """One that has run its first round; jobs that are left over are gone after it."""
        status = self.site.state / "status.json"
        status.unlink(missing_ok=True)
        with self.site.daemon("--act", *words) as running:
            wait_for(status.exists, "the daemon's first round", 120)
            yield running
        self.site.slurm("scancel", "--user=games")

    def submit(self, name: str, deadline: str, sleep_s: int = 300) -> tuple[int, int, str]:
        """Exit code, job and what was said."""
        words = ("submit", "--parsable", "--gs-wait", "60", "--gs-deadline", deadline)
        job = ("-J", name, "--gres=gpu:1", "--mem=50", "-o", "/dev/null")
        status = json.loads((self.site.state / "status.json").read_text())
        env = {"GSCHED_DAEMON_QUERY_ADDRESS": str(status["query_address"])}
        wrap = ("--wrap", self.wrap(sleep_s))
        answer = self.site.gsched(*words, *job, *wrap, user="games", env=env)
        assert answer.stdout.strip(), answer.stderr
        return answer.returncode, int(answer.stdout.strip()), answer.stderr

    def wrap(self, sleep_s: int) -> str:
        """A job that ends well when it is let, or after so many seconds."""
        gate = self.site.bed.spec.root / "gates" / "$SLURM_JOB_ID"
        return f"for n in $(seq {2 * sleep_s}); do test -e {gate} && exit 0; sleep 0.5; done"

    def let_end(self, job: int) -> None:
        gates = self.site.bed.spec.root / "gates"
        gates.mkdir(exist_ok=True)
        (gates / str(job)).touch()

    def records(self, job: int) -> list[TargetRecord]:
        with History.open(f"sqlite:///{self.site.state}/history.db") as history:
            found = history.targets().asked(self.site.bed.spec.cluster)
            return [record for record in found if record.key.job_id == job]

    def events(self, job: int) -> list[str]:
        with History.open(f"sqlite:///{self.site.state}/history.db") as history:
            (record,) = self.records(job)
            return [event.what for event in history.targets().events(record)]

    def entry(self, job: int) -> dict[str, Any]:
        path = self.site.state / "status.json"
        document = json.loads(path.read_text()) if path.exists() else {"jobs": {}}
        return dict(document["jobs"].get(str(job), {}))

    def wait_for_outcome(self, job: int) -> TargetRecord:
        def is_over() -> TargetRecord | None:
            (record,) = self.records(job)
            return None if record.state is TargetState.STANDING else record

        found = wait_for(is_over, f"job {job}'s deadline to be judged", 120)
        assert found is not None
        return found

    def untold(self) -> int:
        with History.open(f"sqlite:///{self.site.state}/history.db") as history:
            return len(history.targets().untold(self.site.bed.spec.cluster, 0, ["late"]))

    def log(self) -> str:
        return (self.site.bed.spec.root / "daemon.log").read_text(errors="replace")

    def metrics(self) -> str:
        return self.textfile.read_text() if self.textfile.exists() else ""

    def letters(self) -> list[str]:
        text = self.mail.read_text() if self.mail.exists() else ""
        return [letter.strip() for letter in text.split("END\n") if letter.strip()]


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    with fresh_site(num_nodes=1, accounting="slurmdbd") as site:
        yield Desk(site)


def test_a_deadline_is_promised_planned_and_kept(desk: Desk) -> None:
    with desk.daemon():
        code, job, said = desk.submit("short", "now+30minutes")
        assert code == 0, said
        assert "deadline" in said
        target = desk.entry(job)["target"]
        (record,) = desk.records(job)
        assert record.promise is not None
        assert record.promise.finish_time <= record.deadline
        assert target["promised"]["finish_time"] == record.promise.finish_time
        desk.let_end(job)
        over = desk.wait_for_outcome(job)
    assert (over.state, over.reward) == (TargetState.KEPT, 100.0)
    assert desk.events(job) == ["standing", "kept"]


@pytest.mark.parametrize("throttle", ["", "%1"])
def test_each_task_of_an_array_has_its_own_promise_to_the_end(desk: Desk, throttle: str) -> None:
    """The last one bears the number of the array, and may wait in its record until it starts."""
    with desk.daemon():
        words = ("submit", "--parsable", "--gs-deadline", "now+30minutes", "-J", "short")
        argv = (*words, f"--array=1-2{throttle}", "--gres=gpu:1", "--mem=50", "-o", "/dev/null")
        job = int(desk.site.ok(*argv, "--wrap", "sleep 8", user="games").strip())

        def outcomes() -> dict[str, str]:
            return {record.key.slurm_id: record.state.value for record in desk.records(job)}

        both = {f"{job}_1": "kept", f"{job}_2": "kept"}
        wait_for(lambda: outcomes() == both, "both tasks to be judged", 150)


def test_what_cannot_be_kept_is_refused_with_why_and_when(desk: Desk) -> None:
    with desk.daemon():
        code, job, said = desk.submit("long", "now+2minutes")
        assert code == 3, said
        (record,) = desk.records(job)
        assert record.state is TargetState.REFUSED
        assert record.why.startswith("chronus.refused-")
        assert record.earliest is not None
        assert record.earliest >= record.asked_time + 900
        (outcome,) = desk.entry(job)["outcomes"]
        assert outcome["why"]["code"] == record.why
        assert outcome["earliest"] == record.earliest


def test_who_waits_for_the_answer_does_not_wait_for_the_next_round(desk: Desk) -> None:
    """Rounds are 20 minutes apart: the daemon hurries for a job that it is asked about."""
    with desk.daemon("--interval", "1200"):
        code, job, said = desk.submit("short", "now+30minutes")
        assert code == 0, said
        assert [record.state for record in desk.records(job)] == [TargetState.STANDING]


def test_what_the_site_does_not_allow_is_refused(desk: Desk) -> None:
    with desk.daemon():
        code, job, said = desk.submit("short", "now+5hours")
        assert code == 3, said
        (record,) = desk.records(job)
        assert record.why == "chronus.refused-rule"
        assert record.params["rule"] == "max_horizon_s"
        config = desk.site.config.read_text()
        desk.site.config.write_text(config.replace(f"= {HORIZON_S}", f"= {10 * HORIZON_S}"))
        desk.site.ok("daemon", "reload")
        code, job, said = desk.submit("short", "now+5hours")
        assert code == 0, said


def test_a_daemon_that_is_killed_once_it_has_promised_keeps_the_promise(desk: Desk) -> None:
    words = ("submit", "--parsable", "--gs-deadline", "now+30minutes", "-J", "short")
    argv = (*words, "--gres=gpu:1", "--mem=50", "-o", "/dev/null", "--wrap", desk.wrap(300))
    job = int(desk.site.ok(*argv, user="games").strip())
    point = {"GSCHED_FAULT_POINT": FaultPoint.TARGETS_KEPT.value}
    with desk.site.daemon("--act", env=point) as killed:
        wait_for(lambda: not killed.is_running(), "the daemon to be killed", 120)
    (promised,) = desk.records(job)
    assert promised.state is TargetState.STANDING
    with sqlite3.connect(desk.site.state / "history.db") as database:
        database.execute("DELETE FROM policy_memory")  # nor does it remember anything
    with desk.daemon():
        wait_for(lambda: "target" in desk.entry(job), "the promise to be told", 60)
        told = desk.entry(job)["target"]["promised"]
        assert promised.promise is not None
        assert told["finish_time"] == promised.promise.finish_time
        assert told["time"] == promised.promise.time
        assert "1 promised deadlines were not remembered" in desk.log()
        desk.let_end(job)
        over = desk.wait_for_outcome(job)
    assert over.state is TargetState.KEPT
    assert desk.events(job) == ["standing", "kept"]


def test_who_is_late_is_warned_and_judged(desk: Desk) -> None:
    with desk.daemon():
        code, job, said = desk.submit("short", "now+60seconds")
        assert code == 0, said
        wait_for(lambda: "late" in desk.events(job), "the job to be late", 150)
        wait_for(
            lambda: any(f"job={job} level=late" in letter for letter in desk.letters()),
            "the warning to be sent",
            60,
        )
        wait_for(
            lambda: desk.entry(job)["target"]["state"] == "late",
            "the status file, which a round writes last, to tell it",
            30,
        )
        wait_for(lambda: 'gsched_targets{risk="late"} 1.0' in desk.metrics(), "metrics", 30)
        desk.site.slurm("scancel", str(job))
        over = desk.wait_for_outcome(job)
        late = [letter for letter in desk.letters() if f"job={job} level=late" in letter]
        wait_for(lambda: desk.untold() == 0, "what was sent to be marked", 60)
    assert over.state is TargetState.MISSED
    assert {letter.split()[0] for letter in late} == {"to=games", "to=ops"}
    assert all("`gsched why" in letter for letter in late)
