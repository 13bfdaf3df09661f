"""One call of Slurm's: tries, pauses, limits, what is remembered, and what is refused."""

from __future__ import annotations

import fcntl
import logging
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gsched.config.power import parse_backends
from gsched.errors import DataError, TryAgainError, UnavailableError
from gsched.model.power import PowerBackends
from gsched.power import records
from gsched.power.state import Store
from gsched.testbed.wait import wait_for

FAILS = "echo broken >&2; exit 1"
GN = [f"gn{number:02}" for number in range(1, 13)]


def outcomes(site):
    return {name: (order.verb, order.outcome) for name, order in site.state.orders.items()}


def overlap(lines):
    """The most that ever ran at the same time."""
    running = most = 0
    for line in lines:
        running += 1 if line.startswith("begin") else -1
        most = max(most, running)
    return most


def test_all_nodes_are_switched_a_bounded_number_at_a_time(site):
    site.set(parallel=3)
    for name in GN:
        site.node(name, "sleep 0.1")
    assert sorted(site.call("suspend", *GN).done) == GN
    assert outcomes(site) == dict.fromkeys(GN, ("suspend", "done"))
    assert 1 < overlap(site.log()) <= 3


def test_a_failing_node_is_tried_again_with_growing_pauses_then_left(site, caplog):
    site.node("gn01", f"date +%s.%N >>{site.folder}/times; {FAILS}")
    site.set(tries=4, backoff_s=0.1)
    result = site.call("suspend", "gn01", "gn02")
    assert (result.done, list(result.failed)) == (["gn02"], ["gn01"])
    assert "exit status 1: broken" in result.failed["gn01"]
    times = [float(line) for line in (site.folder / "times").read_text().split()]
    pauses = [b - a for a, b in pairwise(times)]
    assert len(pauses) == 3
    assert pauses[0] >= 0.1 and pauses[1] >= 0.2 and pauses[2] >= 0.4  # noqa: PT018
    (failure,) = site.state.failures
    assert (failure.node, failure.verb, failure.tries) == ("gn01", "suspend", 4)
    (told,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert "left for an administrator (`gsched power clear gn01`" in told.message
    again = site.call("suspend", "gn01", "gn02")  # never looped
    assert (again.done, list(again.refused)) == (["gn02"], ["gn01"])
    assert site.begun().count("suspend gn01") == 4


def test_one_that_obeys_the_third_time_is_no_failure(site):
    site.call("suspend", "gn01")
    site.node("gn01", f"echo >>{site.folder}/n; [ $(wc -l <{site.folder}/n) -ge 3 ] || exit 1")
    assert site.call("resume", "gn01").done == ["gn01"]
    assert site.state.orders["gn01"].tries == 3
    assert site.state.failures == ()


def test_what_no_try_would_mend_is_tried_once(site):
    backends = [
        {"nodes": ["gn01"], "kind": "command", "suspend": ["/nowhere"], "resume": ["/nowhere"]}
    ]
    site.set(backends=parse_backends(backends))
    result = site.call("suspend", "gn01", "gn02")
    assert "/nowhere cannot be started" in result.failed["gn01"]
    assert "no table of power.backends can suspend it" in result.failed["gn02"]
    assert {failure.tries for failure in site.state.failures} == {1}


def test_nodes_that_hang_hold_up_no_other(site):
    site.set(parallel=2, tries=1, command_timeout_s=0.5)
    for name in GN[:4]:
        site.node(name, "sleep 600")
    result = site.call("resume", *GN)
    assert sorted(result.done) == GN[4:]
    assert set(result.failed) == set(GN[:4])
    assert all("did not end within 0.5 s" in why for why in result.failed.values())


def test_an_outcome_is_written_down_while_others_still_go_on(site):
    for name, done in (("gn02", "gn01"), ("gn03", "gn02"), ("gn04", "go")):
        site.node(name, f"until [ -e {site.folder}/{done}.done ]; do sleep 0.02; done")
    for name in ("gn01", "gn02", "gn03"):
        with (site.folder / name).open("a") as script:
            script.write(f"touch {site.folder}/{name}.done\n")
    call = threading.Thread(target=site.call, args=("suspend", *GN[:4]))
    call.start()
    wait_for(lambda: list(outcomes(site).values()).count(("suspend", "done")) == 3, "three to end")
    assert outcomes(site)["gn04"] == ("suspend", "")
    (site.folder / "go.done").touch()
    call.join()
    assert outcomes(site)["gn04"] == ("suspend", "done")


def test_a_call_ends_in_time_whatever_hangs(site):
    site.set(parallel=1, suspend_limit_s=1.0, command_timeout_s=600)
    site.node("gn01", "sleep 600")
    result = site.call("suspend", *GN[:3])
    assert set(result.failed) == set(GN[:3])
    assert outcomes(site) == dict.fromkeys(GN[:3], ("suspend", "failed"))


def test_after_too_many_failures_suspending_stops_and_resuming_goes_on(site, caplog):
    site.set(tries=1, stop_after=3)
    for name in GN[:3]:
        site.node(name, FAILS)
    site.call("suspend", *GN[:2])
    assert site.state.stopped is None
    site.call("resume", "gn03")
    assert "3 failures of 3 nodes" in site.state.stopped.why
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)
    refused = site.call("suspend", "gn09")
    assert "suspending is stopped" in refused.refused["gn09"]
    assert site.call("resume", "gn10").done == ["gn10"]
    site.store.change(lambda state: records.cleared(state, None))
    assert site.call("suspend", "gn09").done == ["gn09"]


def test_failures_that_are_long_past_do_not_stop_it(site):
    state, at = site.state, 1000.0
    for number in range(20):
        at += site.settings.stop_window_s / 2
        bad = {f"gn{number:02}": "no"}
        state = records.not_awake(state, bad, site.settings, at)
    assert state.stopped is None
    assert len(state.failed_nodes) == 20


@pytest.mark.parametrize("how", ["failed", "refused", "killed"])
def test_a_node_that_may_still_be_on_is_restarted_until_it_has_been(site, how):
    site.set(tries=1)
    if how == "failed":
        site.node("gn01", FAILS)
        site.call("suspend", "gn01")
        site.node("gn01", "")
    elif how == "killed":
        site.store.change(lambda state: records.begun(state, "suspend", ["gn01"], 1.0))
    else:
        site.store.change(lambda s: records.not_awake(s, {"gn01": "no"}, site.settings, 1.0))
        site.call("suspend", "gn01")
    before = len(site.begun())
    site.node("gn01", "[ $1 != restart ] || exit 1")
    site.call("resume", "gn01")
    site.node("gn01", "")
    site.call("resume", "gn01")
    site.call("resume", "gn01")
    site.call("suspend", "gn01")
    verbs = [words.removesuffix(" gn01") for words in site.begun()[before:]]
    assert verbs[:4] == ["restart", "resume", "restart", "resume"]


def test_a_restart_that_fails_is_followed_by_a_resume(site):
    site.store.change(lambda state: records.begun(state, "suspend", ["gn01"], 1.0))
    site.node("gn01", "[ $1 = resume ] || exit 1")  # it was off after all
    assert site.call("resume", "gn01").done == ["gn01"]
    assert site.begun() == ["restart gn01", "resume gn01"]


def test_a_later_call_overtakes_one_that_still_tries(site, caplog):
    caplog.set_level(logging.INFO, "gsched.power")
    site.set(tries=20, backoff_s=0.2)
    site.node("gn01", "[ $1 != suspend ] || exit 1")
    results = []
    first = threading.Thread(target=lambda: results.append(site.call("suspend", "gn01")))
    first.start()
    wait_for(lambda: "end suspend gn01" in site.log() or site.begun(), "the first try")
    assert site.call("resume", "gn01").done == ["gn01"]
    first.join()
    assert results[0].overtaken == ["gn01"]
    assert "suspend: done" not in caplog.text
    assert outcomes(site) == {"gn01": ("restart", "done")}
    assert site.state.failures == ()


def test_a_node_is_never_switched_by_two_at_once(site):
    site.node("gn01", f"[ $1 = resume ] || until [ -e {site.folder}/go ]; do sleep 0.02; done")
    first = threading.Thread(target=site.call, args=("suspend", "gn01"))
    second = threading.Thread(target=site.call, args=("resume", "gn01"))
    first.start()
    wait_for(site.begun, "the first to begin")
    second.start()
    wait_for(lambda: site.state.next_number == 3, "the second to be written down")
    (site.folder / "go").touch()
    first.join()
    second.join()
    assert site.begun() == ["suspend gn01", "restart gn01"]
    assert overlap(site.log()) == 1
    assert outcomes(site) == {"gn01": ("restart", "done")}


def test_without_a_state_a_resume_goes_on_and_a_suspend_does_not(site, caplog):
    (site.folder / "state").write_text("no folder")
    with pytest.raises(UnavailableError):
        site.call("suspend", "gn01")
    assert site.begun() == []
    assert site.call("resume", "gn01").done == ["gn01"]
    assert "resuming goes on without its state" in caplog.text


def test_without_a_lock_a_resume_goes_on_and_a_suspend_does_not(site, caplog):
    site.call("resume", "gn02")
    (site.folder / "state" / "nodes" / "gn01").mkdir()
    assert "cannot open" in site.call("suspend", "gn01").failed["gn01"]
    assert site.call("resume", "gn01").done == ["gn01"]
    assert "switched without its lock" in caplog.text


def test_a_damaged_state_is_put_aside_by_a_resume_and_stops_suspending(site):
    site.call("suspend", "gn01")
    site.store.file.write_text('{"format": 1, "st')
    with pytest.raises(DataError, match="is damaged"):
        site.call("suspend", "gn02")
    assert site.call("resume", "gn01").done == ["gn01"]
    assert "the state was damaged" in site.state.stopped.why
    (kept,) = site.store.folder.glob("state.json.damaged-*")
    assert kept.read_text() == '{"format": 1, "st'


def test_an_outcome_that_cannot_be_written_ends_no_call(site, caplog):
    site.node("gn01", f"mv {site.folder}/state {site.folder}/gone; touch {site.folder}/state")
    assert site.call("resume", "gn01").done == ["gn01"]
    assert "cannot be written down" in caplog.text


def test_a_password_is_in_the_environment_alone(site, tmp_path: Path, caplog):
    secret = tmp_path / "secret"
    secret.write_text("s3cr3t\n")
    secret.chmod(0o600)
    script = f'tr "\\0" " " </proc/$$/cmdline >{tmp_path}/argv; echo bad $PW; exit 1'
    table = {"nodes": ["gn01"], "kind": "command", "password_file": str(secret),
             "password_variable": "PW"}  # fmt: skip
    table |= {verb: ["/bin/sh", "-c", script] for verb in ("suspend", "resume")}
    site.set(backends=parse_backends([table]), tries=1)
    result = site.call("suspend", "gn01")
    assert result.failed["gn01"] == "/bin/sh: exit status 1: bad ***"
    assert "s3cr3t" not in (tmp_path / "argv").read_text() + caplog.text
    assert "s3cr3t" not in site.store.file.read_text()
    secret.chmod(0o644)
    site.store.change(lambda state: records.cleared(state, None))
    assert "everybody may read it" in site.call("suspend", "gn01").failed["gn01"]


def test_what_is_not_known_to_be_off_is_restarted(site):
    """Slurm waits for a new boot of a node that it believes to be off."""
    site.call("resume", "gn01")  # no record: its suspend was lost
    site.call("resume", "gn01")  # Slurm asks again while the node boots
    site.store.change(lambda s: records.begun(s, "resume", ["gn02"], 1.0))
    ended = [records.Outcome("gn02", 1, "")]
    site.store.change(lambda s: records.ended(s, s.next_number - 1, ended, site.settings, 2.0))
    site.call("resume", "gn02")  # long ago: a suspend since has been lost
    assert site.begun() == ["restart gn01", "resume gn01", "restart gn02"]


def test_a_wake_up_that_failed_is_not_tried_the_same_way_for_ever(site):
    site.call("suspend", "gn01")
    for _ in range(3):
        site.call("resume", "gn01")
        at = site.state.orders["gn01"].at
        late = records.not_awake(site.state, {"gn01": "it did not come up"}, site.settings, at)
        site.store.change(lambda _, late=late: late)
    assert site.begun()[1:] == ["resume gn01", "restart gn01", "resume gn01"]


def test_nodes_are_counted_and_not_the_failures_of_one(site):
    state = site.state
    for at in range(20):
        state = records.not_awake(state, {"gn01": "no"}, site.settings, 1000.0 + at)
    assert state.stopped is None
    bad = dict.fromkeys(GN[1:4], "no")
    state = records.not_awake(state, bad, site.settings, 1030.0)
    assert state.stopped is None
    state = records.not_awake(state, {GN[4]: "no"}, site.settings, 1031.0)
    assert "24 failures of 5 nodes" in state.stopped.why


def test_a_node_whose_turn_never_came_is_not_at_fault(site, caplog):
    site.set(parallel=1, tries=2, resume_limit_s=1.5, command_timeout_s=600)
    site.node("gn01", "sleep 600")
    result = site.call("resume", *GN[:3])
    assert set(result.failed) == set(GN[:3])
    assert "did not end within" in result.failed["gn01"]
    assert result.failed["gn02"].startswith("not tried: ")
    assert {name: order.tries for name, order in site.state.orders.items()} == {
        "gn01": 1, "gn02": 0, "gn03": 0,
    }  # fmt: skip
    assert site.state.failed_nodes == {"gn01"}


def test_new_nodes_come_before_those_that_have_failed(site):
    site.set(parallel=1, tries=3, backoff_s=0.0)
    for name in GN[:3]:
        site.node(name, FAILS)
    site.call("suspend", *GN[:6])
    assert [line.split()[1] for line in site.begun()[:6]] == GN[:6]


def test_a_fault_of_gsched_itself_ends_no_resume(site, monkeypatch, caplog):
    def broken(*_):
        raise TypeError("oh")

    monkeypatch.setattr(records, "begun", broken)
    assert site.call("resume", "gn01").done == ["gn01"]
    assert "resuming goes on without its state" in caplog.text


def test_a_resume_does_not_wait_for_ever_for_one_that_stands_still(site, caplog):
    site.set(resume_limit_s=2.0)
    with site.store.working_on("gn01", 0.0):
        assert site.call("resume", "gn01").done == ["gn01"]
    assert "switched without its lock" in caplog.text
    site.set(suspend_limit_s=0.5)
    before = site.begun()
    with site.store.working_on("gn01", 0.0):
        assert "gn01" in site.call("suspend", "gn01").failed
    assert site.begun() == before


KILLED = """
import sys
from dataclasses import replace
from pathlib import Path
from gsched.config.node_settings import PowerSettings
from gsched.config.power import parse_backends
from gsched.power.orders import Call
from gsched.power.state import Store
tables = [{"nodes": ["gn01"], "kind": "command", "suspend": sys.argv[2:], "resume": sys.argv[2:]}]
Call(PowerSettings(backends=parse_backends(tables)), Store(Path(sys.argv[1]))).carry_out(
    "suspend", ["gn01"]
)
"""


def test_the_command_of_a_killed_call_keeps_its_node(site):
    site.node("gn01", f"[ $1 != suspend ] || until [ -e {site.folder}/go ]; do sleep 0.02; done")
    words = [sys.executable, "-c", KILLED, str(site.store.folder), str(site.folder / "switch")]
    call = subprocess.Popen([*words, "suspend", "gn01"])
    wait_for(site.begun, "the command to run")
    call.kill()
    call.wait()
    later = threading.Thread(target=site.call, args=("resume", "gn01"))
    later.start()
    wait_for(lambda: site.state.next_number == 3, "the resume to be written down")
    assert site.begun() == ["suspend gn01"]
    (site.folder / "go").touch()
    later.join()
    assert site.begun() == ["suspend gn01", "restart gn01"]
    assert overlap(site.log()) == 1


def test_what_a_command_leaves_behind_keeps_no_lock(site):
    site.node("gn01", f"(until [ -e {site.folder}/go ]; do sleep 0.02; done) >/dev/null 2>&1 &")
    site.call("suspend", "gn01")
    with site.store.working_on("gn01", 0.0):
        pass
    (site.folder / "go").touch()


def test_a_fault_of_this_hosts_files_is_no_failure_of_the_nodes(site, caplog):
    table = {"nodes": ["gn*"], "kind": "command", "suspend": ["/nowhere"], "resume": ["/nowhere"]}
    site.set(backends=parse_backends([table]), stop_after=1)
    result = site.call("suspend", *GN)
    assert set(result.failed) == set(GN)
    assert (site.state.failures, site.state.stopped) == ((), None)
    assert outcomes(site)["gn01"] == ("suspend", "failed")
    assert "gn01: suspend failed: /nowhere cannot be started" in caplog.text


def test_a_node_that_is_off_is_woken_by_the_only_try_there_is(site):
    """What is off cannot be restarted, and Slurm asks once: maint10 B1."""
    site.set(tries=1)
    may_be_on(site)
    site.node("gn01", "[ $1 != restart ] || exit 1")
    assert site.call("resume", "gn01").done == ["gn01"]
    assert site.begun() == ["restart gn01", "resume gn01"]
    order = site.state.orders["gn01"]
    assert (order.verb, order.outcome) == ("resume", "done")
    assert "exit status 1" in order.error


def without(site, verb, *words):
    """As the site's, but for what one verb runs."""
    (table,) = site.settings.backends.tables
    verbs = tuple(one for one in table.verbs if words or one != verb)
    return PowerBackends((replace(table, verbs=verbs, **{verb: words}),))


@pytest.mark.parametrize("words", [(), ("/nowhere",)])
def test_without_a_restart_that_works_a_node_is_resumed(site, words, caplog):
    site.set(backends=without(site, "restart", *words))
    may_be_on(site)
    for _ in range(2):  # it is told each time: Slurm will not take back a node that was on
        assert site.call("resume", "gn01").done == ["gn01"]
    assert site.begun() == ["resume gn01"] * 2
    assert site.state.failures == ()
    assert caplog.text.count("gn01: resumed, and not restarted: ") == 2


def may_be_on(site):
    site.store.change(lambda state: records.begun(state, "suspend", ["gn01"], 1.0))


def test_what_may_be_on_is_suspended_and_not_restarted(site):
    may_be_on(site)
    site.call("suspend", "gn01")
    assert site.begun() == ["suspend gn01"]


def test_a_late_outcome_does_not_replace_a_later_order(site):
    for verb in ("suspend", "resume"):
        site.store.change(lambda s, verb=verb: records.begun(s, verb, ["gn01"], 1.0))
    late = [records.Outcome("gn01", 3, "broken")]
    before = site.state
    assert records.ended(before, 1, late, site.settings, 2.0) == before


CUT = """
import sys
from pathlib import Path
from gsched.config.node_settings import PowerSettings
from gsched.config.power import parse_backends
from gsched.power.orders import Call
from gsched.power.state import Store
folder = Path(sys.argv[1])
words = [str(folder / "slow"), "%n"]
tables = [{"nodes": ["gn[01-99]"], "kind": "command", "suspend": words, "resume": words}]
settings = PowerSettings(suspend_limit_s=4, command_timeout_s=600, backends=parse_backends(tables))
Call(settings, Store(folder / "state")).carry_out("suspend", [f"gn{n:02}" for n in range(1, 21)])
"""


def test_nothing_that_was_begun_outlives_the_call(site):
    """Else it would switch off a node that has been woken since: maint10 A1."""
    slow = site.folder / "slow"
    slow.write_text(f"#!/bin/sh\necho $$ >>{site.folder}/pids\nexec sleep 600\n")
    slow.chmod(0o755)
    subprocess.run([sys.executable, "-c", CUT, str(site.folder)], check=True)
    pids = (site.folder / "pids").read_text().split()
    assert len(pids) == 20
    assert [pid for pid in pids if alive(pid)] == []
    assert all("did not end" in order.error for order in site.state.orders.values())


def alive(pid):
    try:
        return " Z " not in Path("/proc", pid, "stat").read_text()
    except FileNotFoundError:
        return False


def test_outcomes_wait_for_a_state_that_somebody_holds(site, monkeypatch):
    """A failure that is not written down is no failure to anybody: maint10 B2."""
    in_vain, change = [], Store.change

    def counted(self, *words):
        try:
            return change(self, *words)
        except TryAgainError:
            in_vain.append(words)
            raise

    monkeypatch.setattr(Store, "change", counted)
    site.set(tries=1)
    site.node("gn01", f"until [ -e {site.folder}/go ]; do sleep 0.02; done; {FAILS}")
    site.node("gn02", f"until [ -e {site.folder}/go2 ]; do sleep 0.02; done")
    call = threading.Thread(target=site.call, args=("suspend", "gn01", "gn02"))
    call.start()
    wait_for(lambda: len(site.begun()) == 2, "both to be tried")
    with (site.store.folder / "state.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (site.folder / "go").touch()
        wait_for(lambda: len(in_vain) > 2, "it to be written in vain")
        (site.folder / "go2").touch()  # tries go on and end meanwhile
        wait_for(lambda: "end suspend gn02" in site.log(), "the second to end")
    call.join()
    assert outcomes(site) == {"gn01": ("suspend", "failed"), "gn02": ("suspend", "done")}
    assert site.state.failed_nodes == {"gn01"}
