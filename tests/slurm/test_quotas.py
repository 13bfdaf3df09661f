"""Quotas from a real slurmdbd: shares and limits of accounts, who may see them, and the daemon."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator

import pytest
from support.history import attempt, batch
from support.site import Site, fresh_site

from gsched.app.fairness.quotas import quotas_of
from gsched.config.settings import FairnessSettings, Settings
from gsched.model.accounts import SiteQuotas
from gsched.slurm.client import CommandClient
from gsched.slurm.parse_associations import parse_associations
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

GPUS = 16
CLUSTER = "testbed"


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=2, accounting="slurmdbd") as made:
        tree = (
            ("account", "dept", "fairshare=6"),
            ("account", "deep1", "parent=dept", "fairshare=2"),
            ("account", "deep2", "parent=dept", "fairshare=1"),
            ("account", "unused", "fairshare=50"),
            ("user", "games", "account=deep1,deep2"),
            ("user", "news", "account=dept", "fairshare=parent"),
        )
        for kind, name, *more in tree:
            sacctmgr(made, "add", kind, name, *more)
        for account in ("lab1", "lab2"):
            if account in accounts(made):
                sacctmgr(made, "modify", "account", account, "set", "fairshare=3")
        made.configure("daemon", policy='"ltgf"', leases="true")
        yield made


def sacctmgr(site: Site, *words: str) -> str:
    return site.slurm("sacctmgr", "-i", *words)


def accounts(site: Site) -> set[str]:
    words = ("-n", "-P", "show", "assoc", f"cluster={CLUSTER}", "format=account")
    return set(site.slurm("sacctmgr", *words).split())


@pytest.fixture
def client(site: Site, monkeypatch: pytest.MonkeyPatch) -> CommandClient:
    for name, value in site.bed.env().items():
        monkeypatch.setenv(name, value)
    return CommandClient()


def quotas(client: CommandClient, **fairness: object) -> tuple[str, dict[str, float]]:
    found = quotas_of(Settings(fairness=FairnessSettings(**fairness)), client)
    assert found.total_gpus == GPUS
    return found.source, dict(found.gpus)


def test_shares_are_divided_as_slurm_does(site: Site, client: CommandClient) -> None:
    source, found = quotas(client)
    assert source == "shares"
    assert sum(found.values()) == pytest.approx(GPUS)
    assert "unused" not in found
    assert "root" not in found
    assert found["deep1"] == pytest.approx(2 * found["deep2"])
    assert found["dept"] == pytest.approx(found["deep2"])  # its user counts as one share
    dept = found["dept"] + found["deep1"] + found["deep2"]
    assert dept == pytest.approx(2 * found["lab1"])


def test_what_sshare_calls_normalised_shares(site: Site, client: CommandClient) -> None:
    """Within dept, where all shares are plain numbers, the proportions are sshare's own."""
    told = site.slurm(
        "sshare", "-a", "-n", "-P", "-A", "deep1,deep2", "-o", "Account,User,NormShares"
    )
    norm = {
        a.strip(): float(n) for a, u, n in (x.split("|") for x in told.split("\n") if x) if not u
    }
    _, found = quotas(client)
    assert norm["deep1"] / norm["deep2"] == pytest.approx(found["deep1"] / found["deep2"], rel=1e-3)


def test_limits_go_before_shares_once_all_top_accounts_have_one(
    site: Site, client: CommandClient
) -> None:
    tops = ("lab1", "lab2", "dept", "unused")
    try:
        sacctmgr(site, "modify", "account", "lab1", "set", "grptres=gres/gpu=5")
        assert quotas(client)[0] == "shares"
        for account in tops[1:]:
            sacctmgr(site, "modify", "account", account, "set", "grptres=gres/gpu=4,cpu=64")
        source, found = quotas(client)
        assert (source, found["lab1"], found["lab2"]) == ("limits", 5.0, 4.0)
        assert found["dept"] + found["deep1"] + found["deep2"] == pytest.approx(4.0)
        assert found["deep1"] == pytest.approx(2.0)
        assert quotas(client, quotas={"x": 1.0}) == ("settings", {"x": 1.0})
    finally:
        for account in tops:
            sacctmgr(site, "modify", "account", account, "set", "grptres=gres/gpu=-1,cpu=-1")
    assert quotas(client)[0] == "shares"


def test_the_daemon_follows_quotas_and_tells_how_accounts_stand(site: Site) -> None:
    hour = int(time.time()) // 3600 * 3600
    past = {"cluster": CLUSTER, "tenant": "lab1", "num_gpus": 4, "allocated": ()}
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        begin = hour - 3 * 3600
        one = attempt(900_001, begin, start_time=begin, end_time=hour - 3600, **past)
        history.ingest(batch(one), source_key=None)

    def told(*words: str, user: str | None = None) -> dict[str, object]:
        return json.loads(site.ok("fairness", *words, "--json", user=user))

    def by_name(document: dict[str, object]) -> dict[str, dict[str, float]]:
        return {row["tenant"]: row for row in document["tenants"]}

    with site.daemon() as daemon:
        wait_for(lambda: told()["quotas_since"] is not None, "the daemon to note quotas")
        first = told()
        assert first["quota_source"] == "shares"
        rows = by_name(first)
        assert rows["lab1"]["received_gpu_hours"] == 8.0
        assert rows["lab1"]["owed_gpu_hours"] < 0 < rows["lab2"]["owed_gpu_hours"]
        wait_for(
            lambda: site.gsched("fairness", user="games").returncode == 0,
            "the daemon to tell everybody",
        )
        public = told(user="games")
        assert public["told_by"] == "daemon"
        assert by_name(public)["lab1"]["received_gpu_hours"] == 8.0
        assert site.gsched("fairness", "-u", "news", user="games").returncode == 77
        words = ("sbatch", "--parsable", "-A", "lab2", "-N2", "--gres=gpu:8", "-o", "/dev/null")
        jobs = [site.slurm(*words, "--wrap", "sleep 900", user="mail").strip() for _ in "12"]

        def owed_as_reasons_tell() -> float | None:
            found = json.loads((site.state / "status.json").read_text())["jobs"].get(jobs[1], {})
            return found.get("reason", {}).get("params", {}).get("owed_gpu_s")

        owed_gpu_s = wait_for(owed_as_reasons_tell, "the second job to wait and to be ranked")
        told_now = by_name(told())["lab2"]["owed_gpu_hours"]
        assert told_now > 1.5  # a quarter of the 8, less what has run just now
        # a minute of 16 GPUs is 0.27: what rounds and the history may differ by
        assert owed_gpu_s / 3600 == pytest.approx(told_now, abs=0.27)
        site.slurm("scancel", *jobs)
        sacctmgr(site, "modify", "account", "lab2", "set", "fairshare=30")
        site.ok("daemon", "reload")
        wait_for(
            lambda: by_name(told())["lab2"]["quota_gpus"] > rows["lab2"]["quota_gpus"] + 1,
            "the daemon to note the new quota",
        )
        assert daemon.is_running()
    # before the change the old quota held: due is not the new one times the window
    after = by_name(told("--since", "1h"))["lab2"]
    assert after["due_gpu_hours"] < after["quota_gpus"]


def test_a_daemon_that_began_without_slurmdbd_follows_it_once_it_answers(site: Site) -> None:
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        noted = SiteQuotas({"lab1": 16.0}, 16.0, "shares")
        history.fairness().note(CLUSTER, int(time.time()), noted)
    log = site.bed.spec.root / "daemon.log"
    log.unlink(missing_ok=True)
    slurmdbd = int((site.bed.layout.run / "slurmdbd.pid").read_text())
    os.kill(slurmdbd, signal.SIGSTOP)
    try:
        with site.daemon(env={"GSCHED_SLURM_COMMAND_TIMEOUT_S": "1"}) as daemon:
            wait_for(
                lambda: log.exists() and "quotas are those that were noted last" in log.read_text(),
                "the daemon to begin with what was noted",
            )
            os.kill(slurmdbd, signal.SIGCONT)
            wait_for(
                lambda: "quotas of tenants have changed (shares)" in log.read_text(),
                "its policy to go by the accounts",
            )
            assert daemon.is_running()
    finally:
        os.kill(slurmdbd, signal.SIGCONT)


def test_who_is_shown_a_part_of_the_accounts_is_told_so(site: Site) -> None:
    conf = site.bed.layout.etc / "slurmdbd.conf"
    conf.write_text(conf.read_text() + "PrivateData=users\n")
    os.kill(int((site.bed.layout.run / "slurmdbd.pid").read_text()), signal.SIGHUP)
    program = (
        "from gsched.app.fairness.quotas import quotas_of\n"
        "from gsched.config.settings import Settings\n"
        "from gsched.errors import GschedError\n"
        "from gsched.slurm.client import CommandClient\n"
        "try:\n"
        "    print(quotas_of(Settings(), CommandClient()).source)\n"
        "except GschedError as error:\n"
        "    print(error.exit_code, error.message)\n"
    )

    def says(user: str | None) -> str:
        answer = site.bed.run([sys.executable, "-c", program], user)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    wait_for(lambda: "only a part of the accounts" in says("games"), "slurmdbd to hide accounts")
    assert says("games").startswith("77 ")
    assert says(None) == "shares\n"  # an admin


def test_what_was_recorded_is_what_slurm_prints(site: Site) -> None:
    argv = ("sacctmgr", "-n", "-P", "show", "assoc", "where", f"cluster={CLUSTER}")
    text = site.slurm(*argv, "format=account,user,parentname,share,grptres")
    rows = {(one.account, one.user): one for one in parse_associations(text)}
    assert rows["root", ""].parent == ""
    assert rows["deep1", ""].parent == "dept"
    assert rows["dept", "news"].shares is None
    assert rows["deep1", ""].shares == 2
