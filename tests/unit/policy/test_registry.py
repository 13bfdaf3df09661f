from __future__ import annotations

import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints

import pytest
from support.jobs import view

from gsched.errors import ConfigError
from gsched.model.job import Capability
from gsched.model.jobtable import JobTable
from gsched.policy import registry
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf


def test_policies_are_found_by_name_without_a_scan_for_plugins(monkeypatch):
    def no_scan(**_):
        raise AssertionError("entry points were scanned")

    monkeypatch.setattr("importlib.metadata.entry_points", no_scan)
    assert isinstance(registry.load("qssf"), Qssf)
    assert registry.load("qssf", span_octaves=4).knob_values == {"span_octaves": 4}
    for name in registry.POLICIES:
        assert registry.load(name).name == name


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="'qsfs'") as caught:
        registry.load("qsfs")
    assert ", ".join(registry.POLICIES) in caught.value.hint


@pytest.mark.parametrize("knobs", [{"span": 3}, {"span_octaves": 0}, {"span_octaves": 33}])
def test_a_wrong_knob_is_a_configuration_error(knobs):
    with pytest.raises(ConfigError, match="span") as caught:
        registry.load("qssf", **knobs)
    assert "gsched policy list" in caught.value.hint


def test_a_policy_that_needs_what_the_backend_lacks_is_refused_by_name():
    registry.check(Qssf(), frozenset({Capability.REORDER, Capability.PLACE}))
    with pytest.raises(ConfigError, match="qssf needs reorder"):
        registry.check(Qssf(), frozenset({Capability.PLACE}))


PLUGIN = """
from gsched.policy.fifo import Fifo
class Lifo(Fifo):
    name = "lifo"
    summary = "the last is the first"
NotAPolicy = dict
class Failing(Fifo):
    name = "failing"
    def __init__(self, **knobs):
        raise RuntimeError("no such file")
from gsched.policy.base import OrderKind, Policy
class Half(Policy):
    name = summary = "half"
    requires = frozenset()
class Abstract(Half):
    order_kind = Fifo.order_kind
class Keyless(Half):
    order_kind = OrderKind.STATIC
    def decide(self, state, memory, now):
        raise NotImplementedError
"""


@pytest.fixture
def plugins(monkeypatch, tmp_path):
    """Install plugins: name → value of the entry point."""
    (tmp_path / "site_policies.py").write_text(PLUGIN)
    (tmp_path / "site_broken.py").write_text("import no_such_module_anywhere")
    (tmp_path / "site_failing.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))

    def install(**values):
        found = EntryPoints(EntryPoint(n, v, "gsched.policies") for n, v in values.items())
        monkeypatch.setattr(
            "importlib.metadata.entry_points", lambda group: found.select(group=group)
        )

    yield install
    for module in ("site_policies", "site_broken", "site_failing"):
        sys.modules.pop(module, None)


def test_a_plugin_is_used_for_a_name_outside_the_table(plugins):
    plugins(lifo="site_policies:Lifo", qssf="site_policies:Lifo")
    assert registry.load("lifo").summary == "the last is the first"
    assert isinstance(registry.load("qssf"), Qssf)
    names = [info.name for info in registry.describe_all()]
    assert names == [*registry.POLICIES, "lifo"]


@pytest.mark.parametrize(
    "value",
    [
        "site_broken:Lifo",
        "site_failing:Lifo",
        "site_policies:Missing",
        "site_policies:NotAPolicy",
        "site_policies:Half",
        "site_policies:Abstract",
        "site_policies:Keyless",
    ],
)
def test_a_broken_plugin_is_reported_and_hides_nothing(plugins, value):
    plugins(bad=value)
    with pytest.raises(ConfigError, match="bad"):
        registry.load("bad")
    infos = registry.describe_all()
    assert [info.name for info in infos] == [*registry.POLICIES, "bad"]
    assert "bad" in infos[-1].problem
    assert not infos[-1].is_live
    assert not any(info.problem for info in infos[:-1])


def test_a_plugin_whose_policy_cannot_be_made_is_a_configuration_error(plugins):
    plugins(failing="site_policies:Failing")
    with pytest.raises(ConfigError, match="failing cannot be made: RuntimeError: no such file"):
        registry.load("failing")
    with pytest.raises(ConfigError, match="failing cannot be made"):
        registry.load_scoped("qssf", {"debug": "failing"}, {})


def test_descriptions_tell_what_a_policy_is():
    infos = {info.name: info for info in registry.describe_all()}
    qssf, fifo, themis = infos["qssf"], infos["fifo"], infos["themis"]
    assert qssf.needs_prediction
    assert not fifo.needs_prediction
    assert fifo.summary == Fifo.summary
    assert [knob.name for knob in qssf.knobs] == ["span_octaves"]
    assert qssf.requires == (Capability.REORDER,)
    assert qssf.origin == "gsched.policy.qssf"
    assert qssf.description.startswith("Quasi-shortest-service-first")
    assert (qssf.needs, fifo.needs) == (("history",), ())
    assert themis.needs == ("checkpoint", "oracle")
    assert (qssf.is_live, themis.is_live) == (True, False)
    assert registry.describe("themis") == themis


def test_only_a_static_policy_has_a_static_key():
    with pytest.raises(NotImplementedError, match="tiresias"):
        registry.load("tiresias").static_key(None)


def test_a_policy_gets_of_the_site_what_it_takes():
    site = registry.SiteFacts({"lab1": 3.0, "lab2": 1.0}, {"a100": 2.0})
    assert registry.load("fifo", site).name == "fifo"
    ltgf = registry.load("ltgf", site, lease_s=600.0)
    assert ltgf.knob_values["lease_s"] == 600.0
    table = JobTable.from_views([replace(view(n), tenant=f"lab{n}") for n in (1, 2, 3)])
    shares = dict(zip(table.tenants, ltgf.order_form(table).tenants.shares.tolist(), strict=True))
    assert (shares["lab1"], shares["lab2"]) == (0.75, 0.25)
    assert shares["lab3"] < 1e-6
    for none in (None, registry.SiteFacts()):
        equal = registry.load("ltgf", none).order_form(table).tenants.shares
        assert len(set(equal.tolist())) == 1
    with pytest.raises(ConfigError, match="the quota of a is -1"):
        registry.load("ltgf", registry.SiteFacts({"a": -1.0}))


def test_each_policy_of_a_scope_gets_what_it_takes():
    site = registry.SiteFacts({"lab1": -1.0})
    assert registry.load_scoped("fifo", {"gpu": "qssf"}, {}, site).name
    for default, scope in (("fifo", {"gpu": "ltgf"}), ("ltgf", {"gpu": "fifo"}), ("ltgf", {})):
        with pytest.raises(ConfigError, match="the quota of lab1 is -1"):
            registry.load_scoped(default, scope, {}, site)


def test_what_is_to_be_asked_of_the_site():
    assert registry.takes(["fifo", "qssf"]) == registry.takes([]) == frozenset()
    assert registry.takes(["fifo", "ltgf"]) >= {"quotas"}
    with pytest.raises(ConfigError, match="no policy is called 'nobody'"):
        registry.takes(["fifo", "nobody"])
