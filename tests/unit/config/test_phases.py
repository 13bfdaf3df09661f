from __future__ import annotations

import pytest

from gsched.config import loader
from gsched.errors import ConfigError
from gsched.model.phases import PhaseRule


@pytest.fixture
def load_text(tmp_path):
    def load(text, **environ):
        path = tmp_path / "site.toml"
        path.write_text(text, encoding="utf-8")
        return loader.load({"GSCHED_CONFIG": str(path), **environ})

    return load


def test_rules_are_read_in_order(load_text):
    settings = load_text(
        '[[phases.rules]]\nphase = "debug"\nqos = "^debug$"\nmax_gpus = 8\n'
        '[[phases.rules]]\nphase = "eval"\nname = "eval"\naccount = "a"\nuser = "u"\n'
        'partition = "p"\nmin_gpus = 0\n'
    )
    assert settings.phases.rules.rules == (
        PhaseRule("debug", qos="^debug$", max_gpus=8),
        PhaseRule("eval", name="eval", account="a", user="u", partition="p", min_gpus=0),
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[phases]\nrules = 1\n", "phases.rules must be a list of tables", "write [[phases.rul"),
        ("[phases]\nrules = ['x']\n", "phases.rules must be a list of tables", ""),
        ("[[phases.rules]]\nname = 'x'\n", "phases.rules: rule 1 names no phase", "pretrain, eval"),
        ("[[phases.rules]]\nphase = 'train'\n", "rule 1: phase is 'train'", "sft, debug, other"),
        (
            "[[phases.rules]]\nphase = 'sft'\n[[phases.rules]]\nphase = 'sft'\nnmae = 'x'\n",
            "rule 2: unknown key nmae",
            "did you mean name?",
        ),
        ("[[phases.rules]]\nphase = 'sft'\nzzz = 1\n", "unknown key zzz", "known here: phase, na"),
        ("[[phases.rules]]\nphase = 'sft'\nname = 1\n", "name is 1, but it must be a regular", ""),
        ("[[phases.rules]]\nphase = 'sft'\nname = '('\n", "name is no regular expression", ""),
        ("[[phases.rules]]\nphase = 'sft'\nmin_gpus = '1'\n", "min_gpus is '1', but it must", ""),
        ("[[phases.rules]]\nphase = 'sft'\nmin_gpus = true\n", "min_gpus is True", ""),
        ("[[phases.rules]]\nphase = 'sft'\nmax_gpus = -1\n", "max_gpus is -1", ""),
        (
            "[[phases.rules]]\nphase = 'sft'\nmin_gpus = 2\nmax_gpus = 1\n",
            "rule 1: min_gpus is more than max_gpus",
            "",
        ),
    ],
)
def test_a_wrong_rule_is_named_with_its_file(load_text, tmp_path, text, message, hint):
    with pytest.raises(ConfigError) as caught:
        load_text(text)
    assert caught.value.message.startswith(f"{tmp_path}/site.toml: ")
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_rules_stand_in_files_only(load_text):
    with pytest.raises(ConfigError, match="unknown environment variable GSCHED_PHASES_RULES"):
        load_text("", GSCHED_PHASES_RULES="x")
