"""Alert rules and dashboard against what the daemon really tells: names, labels, expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from support.rounds import JOBS, backend_with, runner_for

from gsched.daemon.ces_facts import CesFacts
from gsched.daemon.demand_facts import DemandFacts
from gsched.daemon.forecast_child import ChildState
from gsched.daemon.forecast_facts import ForecastFacts, Record
from gsched.daemon.gate import Mode
from gsched.daemon.lease_facts import LeaseFacts
from gsched.daemon.metrics import Metrics
from gsched.daemon.metrics_ces import STATES
from gsched.daemon.metrics_gauges import Facts
from gsched.daemon.model_facts import ModelFacts
from gsched.daemon.target_facts import TargetFacts
from gsched.model.decision import JsonValue
from gsched.model.job import Capability, Exclusion, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb
from gsched.model.prediction_truth import PredictionTruth
from gsched.model.target_records import OUTCOMES, Risk
from gsched.predict.drift import CONTENDERS, Gap, Judgement

FOLDER = Path(__file__).parents[3] / "slurm_plugins" / "monitoring"
OF_PROMETHEUS = {"instance", "job"}
"""Labels that a scrape adds."""
SELECTOR = re.compile(r"(gsched_\w+)\{([^}]*)\}")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"([^"]*)"')
VALUES = {
    "mode": {mode.value for mode in Mode},
    "outcome": {"succeeded", *(state.value for state in OUTCOMES)},
    "risk": {risk.value for risk in Risk},
    "result": {"sent", "failed"},
    "state": {"rejected", "pending", "asleep", "unsaved"},
    "quantile": {"0.9"},
    "estimator": set(CONTENDERS),
}
_EVEN = Gap(0.0, 0.1)
POOL: JsonValue = {"pool": "cpu4@debug", **dict.fromkeys((*STATES, "wanted"), 1)}
JUDGEMENT = Judgement(
    50, dict.fromkeys(CONTENDERS, 1.5), dict.fromkeys(CONTENDERS, 0.5), _EVEN, _EVEN, _EVEN
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every sample name of a daemon about which everything is known, with its labels."""
    metrics = Metrics(tmp_path_factory.mktemp("state"))
    backend = backend_with(JOBS)
    why = Exclusion(Capability.REORDER, "opted-out", "its user has opted out")
    result = runner_for(backend, JOBS).run(True)
    views = result.state.jobs.views
    state = replace(
        result.state,
        jobs=JobTable.from_views([replace(views[0], exclusions=(why,)), *views[1:]]),
    )
    metrics.round_done(
        replace(result, state=state, decision=replace(result.decision, order={}, reasons={})),
        "act", 0.1, 0.1,
    )  # fmt: skip
    metrics.inverted({"qos": 1, "fairshare": 1, "pairs": 2})
    truth = PredictionTruth(PredictionKind.DURATION, "m", 2, 2, 1.0, 1.0, ((0.9, 1.0, 2),))
    metrics.facts(
        Facts(
            cluster="c",
            policy="qssf",
            interval_s=30,
            model=ModelFacts(written_at=1.0, judgements={"gpu": JUDGEMENT}),
            ingest_time=1.0,
            fence=1,
            open_changes=0,
            upkeep_failures={"ingest": 0},
            truths=(truth,),
            forecast=ForecastFacts(1, 2, 3.0, ChildState(), Record(10, 8, 60.0)),
            ces=CesFacts(
                {"looked_at": 1, "wake_failures": 0, "pools": [POOL]},
                {(NodeVerb.SLEEP, ChangeState.CONFIRMED): 1},
                DemandFacts(1, 1, 1, 0, 1.0, ChildState()),
            ),
            leases=LeaseFacts(length_s=3620.0, hand_over_s=181),
            targets=TargetFacts(),
        )
    )
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "gsched.rules.yml").read_text())["groups"]
    assert isinstance(group["rules"], list)
    return group["rules"]


def panels() -> list[dict[str, Any]]:
    document = json.loads((FOLDER / "gsched-dashboard.json").read_text())
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str]]:
    for rule in rules():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "5m")


ALL = list(expressions())


@pytest.mark.parametrize(("what", "expression"), ALL, ids=[what for what, _ in ALL])
def test_expressions_parse_and_ask_for_what_there_is(
    told: dict[str, set[str]], what: str, expression: str
) -> None:
    parsed = str(promql_parser.parse(expression))  # every selector with its braces
    selectors = SELECTOR.findall(parsed)
    assert selectors, what
    for name, matchers in selectors:
        assert name in told, name
        for label, operator, value in MATCHER.findall(matchers):
            assert label in told[name] | OF_PROMETHEUS, (name, label)
            if label in VALUES and operator != "!=":
                assert set(value.split("|")) <= VALUES[label], (name, label, value)
    own = set().union(*(told[name] for name, _ in selectors))
    for labels in re.findall(r"(?:by|without|on|ignoring) ?\(([\w, ]*)\)", parsed):
        assert {label.strip() for label in labels.split(",")} <= own | OF_PROMETHEUS, labels


def test_every_metric_is_looked_at_somewhere(told: dict[str, set[str]]) -> None:
    asked = "\n".join(expression for _, expression in ALL)
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in told}
    of_library = {name for name in families if name.startswith("gsched_process_")}
    assert {name for name in families - of_library if name not in asked} == set()


def test_every_alert_says_what_is_the_case_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["alert"].startswith("Gsched")
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description", "action"}, rule["alert"]
        assert "for" in rule or rule["alert"] == "GschedWatchdogNear"


def test_every_alert_has_a_test_of_promtool() -> None:
    document = yaml.safe_load((FOLDER / "gsched.rules.test.yml").read_text())
    assert document["rule_files"] == ["gsched.rules.yml"]
    tested = {
        MATCHER.search(sample["labels"])[3]  # type: ignore[index]
        for test in document["tests"]
        for asked in test["promql_expr_test"]
        for sample in asked["exp_samples"]
    }
    assert tested == {rule["alert"] for rule in rules()}


def test_every_panel_says_what_it_shows() -> None:
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["description"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
    places = [tuple(sorted(panel["gridPos"].items())) for panel in panels()]
    assert len(set(places)) == len(places)
