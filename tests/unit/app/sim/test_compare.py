"""One order from the files to the report, and what an interruption leaves."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from gsched.app.sim import quotas as sim_quotas
from gsched.app.sim.cluster import ClusterOrder
from gsched.app.sim.compare import SimOrder, parse_policy, run
from gsched.app.sim.quotas import QuotasInUse, parse_quotas, quotas_in_use
from gsched.app.sim.rules import MAX_SAMPLES, RulesOrder
from gsched.app.trace_formats import TraceOptions
from gsched.config.settings import FairnessSettings, Settings
from gsched.errors import ConfigError, DataError, UsageError
from gsched.model.accounts import SiteQuotas
from gsched.model.progress import silent
from gsched.sim.compiling import TOLD
from gsched.sim.rules import Placement, Scheduler

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
JOBS = 30_000


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Jobs enough for the loops to tell how far they are."""
    path = tmp_path_factory.mktemp("traces") / "long.csv"
    lines = (
        f"2017-10-{n % 28 + 1:02} {n % 24:02}:{n % 60:02}:00,{n % 997 + 1},{n % 3 + 1},1,v{n % 3}\n"
        for n in range(JOBS)
    )
    path.write_text(HEADER + "".join(lines))
    return str(path)


def order(trace, *policies, **more):
    more.setdefault("cluster", ClusterOrder(nodes="4x8"))
    return SimOrder(policies, [trace], TraceOptions("philly"), None, **more)


def interrupting(words):
    """Progress that interrupts the first work whose name begins so, once all is compiled."""

    def told(what, _rows):
        if what.startswith(words) and not what.endswith(TOLD):
            raise KeyboardInterrupt

    return told


def jobs_in(path):
    with path.open() as file:
        return [(row["policy"], row["end_time"]) for row in csv.DictReader(file)]


def test_an_interrupted_comparison_keeps_the_policies_that_are_done(trace, tmp_path):
    out = tmp_path / "jobs.csv"
    done = run(order(trace, "fifo", "sjf", "srtf", per_job=out), Settings(), interrupting("srtf:"))
    assert done.interrupted
    assert [policy.label for policy in done.report.policies] == ["fifo", "sjf"]
    assert [policy.runs[0].all_jobs.finished for policy in done.report.policies] == [JOBS, JOBS]
    assert not done.report.interrupted
    assert len(jobs_in(out)) == 2 * JOBS
    assert done.written == (out,)


def test_a_policy_without_all_its_seeds_is_left_out_of_a_comparison(trace):
    seeded = {"rules": RulesOrder(mtbf_s=3e5, seed=4), "seeds": 2}
    done = run(order(trace, "fifo", "sjf", **seeded), Settings(), interrupting("sjf, seed 5:"))
    assert done.interrupted
    assert [(p.label, len(p.runs)) for p in done.report.policies] == [("fifo", 2)]
    alone = run(order(trace, "sjf", **seeded), Settings(), interrupting("sjf, seed 5:"))
    assert [(p.label, len(p.runs)) for p in alone.report.policies] == [("sjf", 1)]


def test_an_interrupted_simulation_leaves_the_jobs_that_are_done(trace, tmp_path):
    out = tmp_path / "jobs.csv"
    done = run(order(trace, "srtf", per_job=out), Settings(), interrupting("srtf:"))
    assert done.interrupted
    assert done.report.interrupted
    (metrics,) = done.report.policies[0].runs
    assert 0 < metrics.all_jobs.finished < JOBS
    ended = [end for _, end in jobs_in(out) if end]
    assert (len(jobs_in(out)), len(ended)) == (JOBS, metrics.all_jobs.finished)


def test_interrupted_while_it_reads_nothing_is_left(trace, tmp_path):
    out = tmp_path / "jobs.csv"
    with pytest.raises(KeyboardInterrupt):
        run(order(trace, "fifo", per_job=out), Settings(), interrupting("reading"))
    assert list(tmp_path.iterdir()) == []


def test_all_policies_see_the_same_failures_and_seeds_differ(trace):
    found = run(
        order(trace, "fifo", "sjf", rules=RulesOrder(mtbf_s=3e5, seed=4), seeds=2),
        Settings(),
        silent,
    ).report
    assert found.seeds == [4, 5]
    failures = [[r.all_jobs.failures for r in policy.runs] for policy in found.policies]
    assert all(count > 0 for runs in failures for count in runs)
    assert failures[0][0] != failures[0][1]
    again = run(
        order(trace, "fifo", rules=RulesOrder(mtbf_s=3e5, seed=5)), Settings(), silent
    ).report
    assert again.policies[0].runs[0].document() == found.policies[0].runs[1].document()


def test_nothing_is_written_where_the_input_is_bad(tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text(HEADER + "2017-10-01 00:00:00,0,1,0,v\n")
    out = tmp_path / "jobs.csv"
    with pytest.raises(DataError):
        run(order(str(bad), "fifo", per_job=out), Settings(), silent)
    assert list(tmp_path.iterdir()) == [bad]


def test_predictions_are_made_only_for_policies_that_order_by_them(trace):
    told = []
    run(order(trace, "sjf"), Settings(), lambda what, _: told.append(what))
    assert not any("predicting" in what for what in told)
    notes = run(order(trace, "qssf"), Settings(), silent).report.notes
    assert any(note.startswith("Predictions: rolling estimate") for note in notes)


def test_policies_with_knobs():
    label, policy = parse_policy(" qssf:span_octaves=4 ")
    assert (label, policy.knob_values["span_octaves"]) == ("qssf:span_octaves=4", 4)
    for text, error in (("qssf:span_octaves=1e9", ConfigError), ("qssf:span_octaves", UsageError)):
        with pytest.raises(error):
            parse_policy(text)


class Jobs:
    """As much of some jobs as rules look at."""

    submit_s = np.array([0.0, 1e9])
    duration_s = np.array([5.0, 2e8])


def test_rules_of_a_command_line():
    rules = RulesOrder(
        placement="topology", slurm=True, seed=3, launch_s=1, cleanup_s=2, checkpoint_s=3,
        restart_s=4, mtbf_s=500, repair_s=6, checkpoint_every_s=7, sleep_after_s=8, wake_s=9,
        keep_awake=10,
    ).rules(Jobs, None)  # fmt: skip
    assert (rules.placement, rules.scheduler) == (Placement.TOPOLOGY, Scheduler.SLURM)
    costs = rules.costs
    assert (costs.launch_s, costs.cleanup_s, costs.checkpoint_s) == (1, 2, 3)
    assert (costs.restart_s, costs.restart_wide_s) == (4, 4)
    assert rules.failures.node_mtbf_s == 500
    assert (rules.failures.repair_s, rules.failures.checkpoint_every_s) == (6, 7)
    assert (rules.sleep.idle_timeout_s, rules.sleep.wake_s, rules.sleep.keep_awake) == (8, 9, 10)
    assert 1.2e9 / rules.sample_s <= MAX_SAMPLES


def test_rules_when_nothing_is_said():
    rules = RulesOrder().rules(Jobs, None)
    assert (rules.failures, rules.sharing, rules.sleep) == (None, None, None)
    assert rules.scheduler is Scheduler.PLAIN
    assert RulesOrder(restart_s=1, restart_wide_s=0).rules(Jobs, None).costs.restart_wide_s == 0


def test_classes_of_sharing_jobs_come_from_their_names(tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("class,partner,speed\na,b,0.9\nb,a,0.8\na,a,0.6\nb,b,0\n")
    trace = tmp_path / "t.csv"
    trace.write_text(
        "job_id,submit_time,duration,num_gpu,model_name\n1,0,100,1,a\n2,1,100,1,b\n3,2,100,1,c\n"
    )
    made = SimOrder(
        ("fifo",), [str(trace)], TraceOptions("elasticflow"), None,
        cluster=ClusterOrder(nodes="1x1"), rules=RulesOrder(sharing=str(pairs)),
    )  # fmt: skip
    found = run(made, Settings(), silent).report
    assert any("2 of 3 jobs have one" in note for note in found.notes)
    assert found.rules.sharing.classes == ("a", "b")
    alone = SimOrder(
        ("fifo",), [str(trace)], TraceOptions("elasticflow"), None,
        cluster=ClusterOrder(nodes="1x1"),
    )  # fmt: skip
    shared, plain = (
        report.policies[0].runs[0].all_jobs.jct_s.mean
        for report in (found, run(alone, Settings(), silent).report)
    )
    assert plain == (100 + 199 + 298) / 3
    assert shared < plain


def test_where_nothing_was_measured_or_little_that_is_said(tmp_path):
    pairs, trace = tmp_path / "pairs.csv", tmp_path / "t.csv"
    head = "job_id,submit_time,duration,num_gpu,model_name\n"
    trace.write_text(head + "".join(f"{n},{n},100,1,m{n}\n" for n in range(3)))

    def warnings(name, **more):
        pairs.write_text(f"class,partner,speed\n{name},{name},0.9\n")
        made = SimOrder(
            ("fifo",), [str(trace)], TraceOptions("elasticflow"), None,
            cluster=ClusterOrder(nodes="1x1"), rules=RulesOrder(sharing=str(pairs), **more),
        )  # fmt: skip
        return run(made, Settings(), silent).warnings

    assert warnings("m0") == (f"{pairs} tells of 1 of 3 jobs only",)
    assert warnings("m0", sharing_drawn=True) == ()
    with pytest.raises(DataError, match="none of the 3 jobs") as error:
        warnings("other")
    assert "'other'" in error.value.hint
    assert "'m0'" in error.value.hint
    with pytest.raises(DataError, match="none of the 3 jobs"):
        warnings("m0 x4", sharing_drawn=True)


def test_quotas_of_tenants_reach_the_policy_that_takes_them_and_are_told(trace):
    def outcome(*policies, settings=None, **quotas):
        made = order(trace, *policies, quotas=quotas, cluster=ClusterOrder(nodes="1x8"))
        report = run(made, settings or Settings(), silent).report
        (told,) = [note for note in report.notes if note.startswith("ltgf")]
        return report.policies[-1].runs[0].all_jobs.jct_s.mean, told

    equal, words = outcome("fifo", "ltgf")
    assert words.startswith("ltgf: all tenants have equal quotas")
    unlike, words = outcome("ltgf", v0=7.5, v1=0.5)
    assert words == "ltgf: quotas in GPUs by --quota: v0 7.5, v1 0.5; other tenants have none."
    assert unlike != equal
    of_site = Settings(fairness=FairnessSettings(quotas={"v0": 15.0, "v1": 1.0}))
    by_settings, words = outcome("ltgf", settings=of_site)
    assert "by [fairness.quotas]: v0 15" in words
    assert by_settings == unlike  # only their proportions count
    again, words = outcome("ltgf", settings=of_site, v0=0.5, v2=1)
    assert "by --quota: v0 0.5, v2 1" in words  # the command line goes before the settings
    assert again != unlike
    fifo_alone = run(order(trace, "fifo", quotas={"v0": 1.0}), Settings(), silent).report
    assert not [note for note in fifo_alone.notes if "quota" in note]


def test_a_live_cluster_tells_its_quotas_where_a_policy_takes_them(monkeypatch):
    asked = []

    def of_slurm(settings, client):
        asked.append(client)
        return SiteQuotas({"lab1": 3.0}, 8.0, "limits")

    monkeypatch.setattr(sim_quotas, "slurm_client", lambda _: "slurm")
    monkeypatch.setattr(sim_quotas, "quotas_of", of_slurm)

    def found(*policies, live=True, told=(), **fairness):
        settings = Settings(fairness=FairnessSettings(**fairness))
        return quotas_in_use(dict(told), settings, live=live, policies=policies)

    assert found("fifo", "ltgf") == QuotasInUse({"lab1": 3.0}, "GrpTRES of the accounts (sacctmgr)")
    assert asked == ["slurm"]
    assert found("fifo", "qssf") == found("ltgf", live=False) == QuotasInUse({}, "")
    assert found("ltgf", told=[("a", 1.0)]) == QuotasInUse({"a": 1.0}, "--quota")
    assert found("ltgf", quotas={"a": 2.0}) == QuotasInUse({"a": 2.0}, "[fairness.quotas]")
    assert asked == ["slurm"]


@pytest.mark.parametrize("text", ["lab", "=3", "lab=", "lab=-1", "lab=nan", "lab=inf", "lab=x"])
def test_what_is_no_quota(text):
    with pytest.raises(UsageError, match="is no tenant with a number of GPUs"):
        parse_quotas([text])


def test_quotas_as_written():
    assert parse_quotas(["lab1=3", "a=b=0.5"]) == {"lab1": 3.0, "a=b": 0.5}
    assert parse_quotas([]) == {}
    for texts in (["a=1", "a=1"], ["a=0", "b=0"]):
        with pytest.raises(UsageError, match="--quota"):
            parse_quotas(texts)
