"""Whose how many GPUs are: the settings, Slurm's limits, its shares, or nobody's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.app.fairness.account_tree import AccountTree
from gsched.app.fairness.quotas import SOURCE_WORDS, quotas_of
from gsched.app.fairness.site import facts_by, site_facts
from gsched.config.settings import DaemonSettings, FairnessSettings, Settings
from gsched.errors import DataError, PermissionDeniedError, UnavailableError
from gsched.model.accounts import QUOTA_SOURCES, SiteQuotas
from gsched.slurm.parse_associations import Association, parse_associations
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

RECORDED = Path(__file__).parents[3] / "data" / "slurm" / "22.05" / "associations.txt"
ROOT = Association("root", "", "", 1, None)
ADMIN = Association("root", "root", "", 1, None)


def account(name, parent="root", shares=1, gpus=None):
    return Association(name, "", parent, shares, gpus)


def user(name, of, shares=1):
    return Association(of, name, "", shares, None)


class Cluster:
    """What `quotas_of` asks of a SlurmClient; counts the questions."""

    def __init__(self, rows=(), gpus=((("a100", 8),), (("v100", 4),)), slurmdbd=True):
        self.rows, self.asked = (ROOT, ADMIN, *rows), []
        self.gpus, self.slurmdbd = gpus, slurmdbd

    def nodes(self):
        self.asked.append("nodes")
        return tuple(SimpleNamespace(gpus=gpus) for gpus in self.gpus)

    def config(self):
        kind = "accounting_storage/slurmdbd" if self.slurmdbd else "accounting_storage/none"
        return SlurmConfig({"ClusterName": "lab", "AccountingStorageType": kind})

    def associations(self, cluster):
        assert cluster == "lab"
        self.asked.append("associations")
        return self.rows


def quotas(cluster, **fairness):
    found = quotas_of(Settings(fairness=FairnessSettings(**fairness)), cluster)
    return found.source, dict(found.gpus), found.total_gpus


THREE = (account("lab1", shares=2), user("a", "lab1"), account("lab2"), user("b", "lab2"))


def test_settings_go_before_slurm_which_is_not_asked_then():
    cluster = Cluster(THREE)
    assert quotas(cluster, quotas={"lab9": 3.0}) == ("settings", {"lab9": 3.0}, 12.0)
    assert cluster.asked == ["nodes"]


def test_shares_are_parts_of_all_gpus_by_worth():
    assert quotas(Cluster(THREE)) == ("shares", {"lab1": 8.0, "lab2": 4.0}, 12.0)
    source, found, total = quotas(Cluster(THREE), gpu_weights={"a100": 2.5})
    assert (source, total) == ("shares", 24.0)
    assert found == pytest.approx({"lab1": 16.0, "lab2": 8.0})


def test_limits_count_where_all_accounts_below_root_have_one():
    rows = (
        account("lab1", gpus=(("", 6),)),
        user("a", "lab1"),
        account("lab2", gpus=(("a100", 2), ("v100", 1))),
        user("b", "lab2"),
    )
    assert quotas(Cluster(rows)) == ("limits", {"lab1": 6.0, "lab2": 3.0}, 12.0)
    # 12 GPUs of 24 worth: one of any type is worth 2
    weighted = quotas(Cluster(rows), gpu_weights={"a100": 2.5})
    assert weighted == ("limits", {"lab1": 12.0, "lab2": 6.0}, 24.0)
    source, found, _ = quotas(Cluster((*rows, account("lab3"), user("c", "lab3"))))
    assert (source, found) == ("shares", {"lab1": 4.0, "lab2": 4.0, "lab3": 4.0})
    # an account that nobody can use needs no limit
    assert quotas(Cluster((*rows, account("empty"))))[0] == "limits"


def test_below_a_limit_shares_divide_it_and_a_limit_of_ones_own_goes_first():
    rows = (
        account("dept", gpus=(("", 8),)),
        account("lab1", "dept", 3),
        user("a", "lab1"),
        account("lab2", "dept", 1),
        user("b", "lab2"),
        account("lab3", "dept", 4, gpus=(("", 1),)),
        user("c", "lab3"),
    )
    source, found, _ = quotas(Cluster(rows))
    assert (source, found) == ("limits", {"lab1": 3.0, "lab2": 1.0, "lab3": 1.0})


def test_an_account_with_users_and_accounts_below_keeps_its_users_part():
    rows = (account("dept"), user("head", "dept", 1), user("x", "dept", 2), account("lab1", "dept"),
            user("a", "lab1"))  # fmt: skip
    assert quotas(Cluster(rows))[1] == {"dept": 9.0, "lab1": 3.0}


def test_parents_shares_hand_an_account_s_sharers_up():
    rows = (
        account("dept", shares=None),
        account("lab1", "dept", 2),
        user("a", "lab1"),
        account("lab2", "dept", 1),
        user("b", "lab2", None),
        user("c", "lab2", None),
        account("solo", shares=3),
        user("d", "solo"),
    )
    assert quotas(Cluster(rows))[1] == {"lab1": 4.0, "lab2": 2.0, "solo": 6.0}


def test_equal_ones_where_nobody_says_any():
    assert quotas(Cluster(THREE, slurmdbd=False)) == ("equal", {}, 12.0)
    assert quotas(Cluster()) == ("equal", {}, 12.0)
    no_shares = (account("lab1", shares=0), user("a", "lab1"))
    assert quotas(Cluster(no_shares)) == ("equal", {}, 12.0)
    assert quotas(Cluster(THREE, gpus=())) == ("equal", {}, 0)
    zero = (account("lab1", gpus=(("", 0),)), user("a", "lab1"))
    assert quotas(Cluster(zero))[0] == "shares"
    assert set(SOURCE_WORDS) == set(QUOTA_SOURCES)


@pytest.mark.parametrize(
    "rows",
    [
        (),
        (ROOT, ADMIN, account("lab1", "dept"), user("a", "lab1")),
        (ROOT, ADMIN, user("a", "lab1")),
        (ROOT, account("lab1"), user("a", "lab1")),  # as with PrivateData=users
        (ADMIN, account("lab1"), user("a", "lab1")),
    ],
)
def test_a_tree_of_which_only_a_part_is_shown_is_no_ground_for_quotas(rows):
    with pytest.raises(PermissionDeniedError, match="only a part of the accounts"):
        AccountTree(rows)


@given(st.lists(st.tuples(st.integers(0, 30), st.none() | st.integers(0, 9), st.integers(0, 2)),
                max_size=12))  # fmt: skip
def test_nothing_is_lost_and_nothing_made_in_dividing(drawn):
    names = ["root", *(f"a{n}" for n in range(len(drawn)))]
    rows = [ROOT, ADMIN]
    for number, (parent, shares, users) in enumerate(drawn):
        name = names[number + 1]
        rows.append(account(name, names[parent % (number + 1)], shares))
        rows += [user(f"u{n}", name, n + 1) for n in range(users)]
    found = AccountTree(rows).by_shares(100.0)
    assert all(part >= 0 for part in found.values())
    assert set(found) <= {row.account for row in rows if row.user} - {"root"}
    above_zero = all(shares != 0 for _, shares, _ in drawn)
    if found and above_zero:
        assert sum(found.values()) == pytest.approx(100.0)
    assert AccountTree(rows[::-1]).by_shares(100.0) == pytest.approx(found)


def test_what_sacctmgr_prints():
    rows = parse_associations(RECORDED.read_text())
    assert rows[:2] == (ROOT, ADMIN)
    assert rows[2:6] == (
        account("dept", shares=6, gpus=(("", 8),)),
        user("news", "dept", None),
        account("deep1", "dept", shares=2),
        user("games", "deep1"),
    )
    by_name = {one.account: one for one in rows if not one.user}
    assert by_name["deep2"].shares is None
    assert by_name["lab1"].gpus == (("", 5),)
    assert by_name["lab2"].gpus == (("a100", 2),)
    assert len(rows) == 16
    assert parse_associations("") == ()
    for text in ("lab1||root|1", "lab1||root|x|", "lab1||root||", "a|b||1||", "lab1||root|1|gpu"):
        with pytest.raises(DataError):
            parse_associations(text)


def test_the_recorded_tree_gives_its_limits():
    class Recorded(Cluster):
        def associations(self, cluster):
            return parse_associations(RECORDED.read_text())

    source, found, _ = quotas(Recorded())
    assert source == "limits"
    assert (found["lab1"], found["lab2"]) == (5.0, 2.0)
    # news' one share, deep1's two, and those of deep2's user in the place of deep2
    assert (found["dept"], found["deep1"], found["deep2"]) == (2.0, 4.0, 2.0)


@pytest.fixture
def history(tmp_path):
    url = f"sqlite:///{tmp_path}/history.db"
    History.create(url)
    with History.open(url) as opened:
        yield opened


def test_slurm_is_asked_only_for_policies_that_take_quotas(history):
    cluster = Cluster(THREE)
    weights = {"a100": 2.0}

    def facts(**daemon):
        site = FairnessSettings(gpu_weights=weights)
        return site_facts(
            Settings(daemon=DaemonSettings(**daemon), fairness=site), cluster, history, "lab"
        )

    assert facts(policy="qssf").quotas is None
    assert cluster.asked == []
    assert facts(policy="ltgf").quotas == pytest.approx({"lab1": 40 / 3, "lab2": 20 / 3})
    assert facts(policy="qssf", policy_scope={"gpu": "ltgf"}).quotas is not None
    assert facts(policy="ltgf").gpu_weights == weights
    assert facts_by(Settings(), SiteQuotas({}, 12.0, "equal")).quotas is None


def test_while_slurmdbd_is_silent_the_quotas_noted_last_count(history):
    class Silent(Cluster):
        def associations(self, cluster):
            raise UnavailableError("slurmdbd does not answer")

    settings = Settings(daemon=DaemonSettings(policy="ltgf"))
    with pytest.raises(UnavailableError):
        site_facts(settings, Silent(), history, "lab")
    ledger = history.fairness()
    ledger.note("lab", 1000, SiteQuotas({"a": 4.0, "b": 8.0}, 12.0, "shares"))
    ledger.note("lab", 2000, SiteQuotas({"a": 9.0}, 12.0, "shares"))
    assert site_facts(settings, Silent(), history, "lab").quotas == {"a": 9.0}
    with pytest.raises(UnavailableError):
        site_facts(settings, Silent(), history, "other")
    ledger.note("lab", 3000, SiteQuotas({"a": 6.0, "b": 6.0}, 12.0, "equal"))
    assert site_facts(settings, Silent(), history, "lab").quotas is None

    class Partial(Cluster):
        def associations(self, cluster):
            return self.rows[2:]

    with pytest.raises(PermissionDeniedError):  # that will not pass by itself
        site_facts(settings, Partial(THREE), history, "lab")
