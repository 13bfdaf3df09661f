"""[deadlines]: rules and commands that cannot be meant are refused where they stand."""

from __future__ import annotations

import pytest

from gsched.app.fairness.site import facts_by
from gsched.config import loader
from gsched.errors import ConfigError
from gsched.model.targets import TargetRules


@pytest.fixture
def load_text(tmp_path):
    def load(text, **environ):
        path = tmp_path / "site.toml"
        path.write_text(text, encoding="utf-8")
        return loader.load({"GSCHED_CONFIG": str(path), **environ})

    return load


def test_what_a_site_may_write_reaches_the_policy(load_text):
    settings = load_text(
        "[deadlines]\nusers = ['ann', 'bob']\naccounts = ['lab1']\nqos = ['high']\n"
        "max_per_user = 3\nmax_gpu_hours_per_user = 500\nmax_horizon_s = 604800\nmax_share = 0.7\n"
    )
    assert facts_by(settings, None).target_rules == TargetRules(
        frozenset({"ann", "bob"}), frozenset({"lab1"}), frozenset({"high"}), 3, 500.0, 604800, 0.7
    )


def test_nobody_is_kept_from_deadlines_by_default(load_text):
    assert facts_by(load_text(""), None).target_rules == TargetRules()


def test_a_command_for_mail(load_text):
    argv = ["/usr/bin/mail", "-s", "job {job}: deadline {level}", "{to}"]
    told = load_text(f"[deadlines]\nmail_command = {argv}\nmail_admin = 'ops+gpu@example.org'\n")
    assert told.deadlines.mail_command == tuple(argv)
    assert told.deadlines.mail_admin == "ops+gpu@example.org"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_share = 0", "allowed is 0.01 to 1"),
        ("max_per_user = -1", "allowed is 0 to"),
        ("warn_probability = 1.5", "allowed is 0 to 1"),
        ("users = ['']", "'' is no name"),
        ("accounts = [' lab1']", "' lab1' is no name"),
        ("qos = ['a\\nb']", "is no name"),
        ("users = 'ann'", "a list of texts"),
        ("mail_command = ['mail', '{to}']", "is no absolute path"),
        ("mail_command = '/usr/bin/mail {to}'", "a list of texts"),
        ("mail_command = ['/usr/bin/mail']", "{to} is in no argument"),
        ("mail_command = ['/bin/m', '{name}', '{to}']", "has '{name}'"),
        ("mail_command = ['/bin/m', '{to', '{to}']", "has '{'"),
        ("mail_command = ['/bin/{to}', '{to}']", "the same for everybody"),
        ("mail_command = ['/bin/m', 'a\\u0000b', '{to}']", "NUL"),
        (f"mail_command = ['/bin/m', '{'x' * 1025}', '{{to}}']", "at most 32 parts"),
        ("mail_admin = '-oProxy'", "no user and no address"),
        ("mail_admin = 'a b'", "no user and no address"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(load_text, text, message):
    text = text.replace("'a\\nb'", '"a\\nb"').replace("'a\\u0000b'", '"a\\u0000b"')
    with pytest.raises(ConfigError) as caught:
        load_text(f"[deadlines]\n{text}\n")
    assert message in str(caught.value) + caught.value.hint
    assert "deadlines." in str(caught.value)
