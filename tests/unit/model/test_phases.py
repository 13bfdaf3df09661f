from __future__ import annotations

from dataclasses import fields

import pytest

from gsched.model.job import PHASES
from gsched.model.phases import NO_RULES, PHASE_VALUES, PhaseRule, PhaseRules, phase_of, stated

JOB = {
    "name": "Eval-llama",
    "user": "ann",
    "account": "nlp",
    "partition": "gpu,cpu",
    "qos": "normal",
    "num_gpus": 8,
}
UNKNOWN = dict.fromkeys(JOB)


def classified(*rules, told=None, **job):
    return phase_of(PhaseRules(rules), told, **{**JOB, **job})


def test_what_users_may_say_and_one_more():
    assert (*PHASES, "other") == PHASE_VALUES


def test_without_rules_a_job_is_what_is_told_or_unclassified():
    assert phase_of(NO_RULES, None, **JOB) is None
    assert phase_of(NO_RULES, "sft", **JOB) == "sft"


def test_what_is_told_wins_over_rules():
    assert classified(PhaseRule("eval", name="eval"), told="pretrain") == "pretrain"


def test_the_first_rule_that_matches_counts():
    first, second = PhaseRule("debug", user="^bob$"), PhaseRule("eval", name="eval")
    assert classified(first, second, PhaseRule("other")) == "eval"
    assert classified(first, second, user="bob") == "debug"
    assert classified(first, second, name="x") is None
    assert classified(first, second, PhaseRule("other"), name="x") == "other"


@pytest.mark.parametrize(
    ("conditions", "matches"),
    [
        ({"name": "^eval"}, True),  # letter case apart
        ({"name": "llama$"}, True),
        ({"name": "^llama"}, False),
        ({"user": "a.n"}, True),
        ({"account": "^nl$"}, False),
        ({"partition": "^cpu$"}, True),  # one of a list
        ({"partition": "gpu,"}, False),
        ({"qos": "norm"}, True),
        ({"min_gpus": 8}, True),
        ({"min_gpus": 9}, False),
        ({"max_gpus": 8}, True),
        ({"max_gpus": 7}, False),
        ({"min_gpus": 8, "max_gpus": 8}, True),
        ({"name": "eval", "user": "bob"}, False),  # all must hold
        ({"name": "eval", "user": "ann", "min_gpus": 1}, True),
    ],
)
def test_conditions(conditions, matches):
    assert classified(PhaseRule("eval", **conditions)) == ("eval" if matches else None)


@pytest.mark.parametrize("name", [f.name for f in fields(PhaseRule) if f.name != "phase"])
def test_a_condition_on_what_is_not_known_is_not_fulfilled(name):
    rule = PhaseRule("eval", **{name: 0 if name.endswith("gpus") else ""})
    assert phase_of(PhaseRules((rule,)), None, **UNKNOWN) is None
    known = {**JOB, "num_gpus": 0}
    assert phase_of(PhaseRules((rule,)), None, **known) == "eval"


def test_of_a_long_name_the_beginning_and_the_end_are_searched():
    name = "a" * 300 + "middle" + "b" * 10**6 + "end"
    assert classified(PhaseRule("eval", name="middle"), name=name) is None
    assert classified(PhaseRule("eval", name="^a.*end$"), name=name) == "eval"


def test_the_digest_tells_rules_apart():
    a, b = PhaseRule("eval", name="e"), PhaseRule("sft", name="e")
    digests = {PhaseRules(rules).digest for rules in [(), (a,), (b,), (a, b), (b, a)]}
    assert len(digests) == 5
    assert PhaseRules((PhaseRule("eval", name="e"),)).digest == PhaseRules((a,)).digest


def test_of_several_stated_phases_the_first_counts():
    assert stated(("eval", "debug")) == "eval"
    assert stated(()) is None
