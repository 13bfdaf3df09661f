"""`gsched ces plan` on a real Slurm, which changes nothing; and [ces] changed under a daemon."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.ces_site import CesSite
from support.power_site import BIN

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CesSite]:
    made = CesSite(tmp_path_factory.mktemp("plan"))
    with made.bed:
        wait_for(made.are_up, "all nodes to be up")
        yield made


def plan(site: CesSite, *words: str, user: str | None = None) -> Any:
    argv = [str(BIN / "gsched"), "ces", "plan", "--json", *words]
    config = site.bed.spec.root / "user.toml"  # where users can read it
    config.write_text(site.config.read_text())
    config.chmod(0o644)
    done = site.bed.run(argv, user, extra_env={"GSCHED_CONFIG": str(config)})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def codes(found: Any) -> dict[str, str]:
    """The code of each node's reason."""
    return {node["node"]: node["reason"]["code"] for node in found["nodes"]}


def test_each_node_has_what_would_become_of_it_and_why(site: CesSite) -> None:
    before = site.states()
    job = site.submit("-w", "gn02", "--wrap", "sleep 600")
    site.bed.run(["scontrol", "update", "nodename=gn04", "state=drain", "reason=test"])
    wait_for(lambda: "DRAIN" in site.state("gn04"), "the node to be drained")
    wait_for(lambda: site.job_state(job) == "RUNNING", "the job to run")
    found = plan(site)
    assert found["notes"] == []
    (pool,) = found["pools"]
    assert pool["forecast"]["code"] == "demand.forecast"
    # of two idle nodes one is the spare
    assert (pool["idle"], pool["running"], pool["excluded"], pool["sleep"]) == (2, 1, 1, 1)
    actions = {node["node"]: node["action"] for node in found["nodes"]}
    assert sorted(actions.values()) == ["", "", "", "sleep"]
    assert codes(found) == {
        "gn01": "ces.put-to-sleep",
        "gn02": "ces.runs-jobs",
        "gn03": "ces.kept-as-spare",
        "gn04": "ces.excluded",
    }
    assert found["nodes"][0]["node"] == "gn01"  # what changes comes first
    assert all(node["reason_text"] for node in found["nodes"])
    site.bed.run(["scancel", str(job)])
    site.order("gn04", "resume")
    wait_for(lambda: site.states() == before, "all to be as it was")
    assert not site.orders()


def test_without_a_forecast_nothing_would_sleep_and_the_reason_is_told(site: CesSite) -> None:
    wait_for(site.are_up, "all nodes to be up")
    (pool,) = plan(site, "--no-forecast")["pools"]
    assert (pool["sleep"], pool["reason"]["code"]) == (0, "ces.no-forecast")
    assert pool["reason"]["params"]["why"] == "demand.not-forecast"


def test_waiting_jobs_that_name_their_nodes_are_known(site: CesSite) -> None:
    held = ("--hold", "--wrap", "true")
    jobs = [site.submit(*words, *held) for words in ((), ("-w", "gn02"), ("-x", "gn02"))]
    words = (str(BIN / "python"), "-c", _PINNED)
    done = site.bed.run(words, extra_env=site.environment)
    site.bed.run(["scancel", *map(str, jobs)])
    assert done.stdout.split() == [str(jobs[1])], done.stderr


_PINNED = "from gsched.slurm.client import CommandClient; print(*CommandClient().pinned_jobs())"


def test_whoever_cannot_read_the_history_is_told_so(site: CesSite) -> None:
    found = plan(site, user="games")
    assert any("history" in note for note in found["notes"])
    (pool,) = found["pools"]
    assert (pool["sleep"], pool["reason"]["params"]["why"]) == (0, "demand.history-unreadable")


# -- a daemon whose settings change --------------------------------------------------------------


def status(site: CesSite) -> Any:
    return json.loads(site.gsched("ces", "status", "--json"))


def reload(site: CesSite, old: str, new: str) -> int:
    """Change the settings and have the daemon read them; the command's exit code."""
    text = site.config.read_text()
    assert old in text
    site.config.write_text(text.replace(old, new))
    words = [str(BIN / "gsched"), "daemon", "reload"]
    return site.bed.run(words, extra_env=site.environment).returncode


def child_of(site: CesSite) -> int | None:
    return (status(site).get("demand") or {}).get("pid")


def test_a_reload_switches_it_on_and_off_and_refuses_what_cannot_be(site: CesSite) -> None:
    site.config.write_text(site.config.read_text().replace('mode = "act"', 'mode = "off"'))
    with site.daemon():
        wait_for(lambda: site.daemon_status().get("mode") == "act", "the first round")
        assert status(site)["mode"] == "off"
        assert reload(site, 'mode = "off"', 'mode = "observe"') == 0
        wait_for(lambda: status(site)["mode"] == "observe", "energy saving to begin")
        wait_for(lambda: child_of(site) is not None, "the child")
        child = child_of(site)
        foreseen = "the forecast"
        wait_for(lambda: status(site)["pools"][0]["forecast_made_at"] is not None, foreseen, 60)
        assert status(site)["why"] == "ces.mode is observe"
        assert reload(site, 'time_zone = "UTC"', 'time_zone = "UTC"\ncountry = "QQ"') == 78
        assert status(site)["mode"] == "observe"
        assert reload(site, 'country = "QQ"\n', "") == 0
        assert reload(site, 'mode = "observe"', 'mode = "off"') == 0
        wait_for(lambda: status(site)["mode"] == "off", "energy saving to end")
        wait_for(lambda: not is_alive(child), "the child to end")
        assert not site.asleep()


def is_alive(pid: int | None) -> bool:
    return pid is not None and Path(f"/proc/{pid}").exists()
