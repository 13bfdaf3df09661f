"""[fairness]: quotas and worths that cannot be meant are refused where they stand."""

from __future__ import annotations

import pytest

from gsched.config import loader
from gsched.errors import ConfigError


@pytest.fixture
def load_text(tmp_path):
    def load(text, **environ):
        path = tmp_path / "site.toml"
        path.write_text(text, encoding="utf-8")
        return loader.load({"GSCHED_CONFIG": str(path), **environ}).fairness

    return load


def test_what_a_site_may_write(load_text):
    told = load_text(
        '[fairness.quotas]\nlab1 = 8\n"lab 2" = 0.5\nguests = 0\n'
        "[fairness.gpu_weights]\na100 = 1.8\nv100 = 1\n"
    )
    assert told.quotas == {"lab1": 8.0, "lab 2": 0.5, "guests": 0.0}
    assert told.gpu_weights == {"a100": 1.8, "v100": 1.0}
    assert load_text("").quotas == load_text("").gpu_weights == {}
    assert load_text("", GSCHED_FAIRNESS_QUOTAS="a=1,b=2.5").quotas == {"a": 1.0, "b": 2.5}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[fairness.quotas]\nlab1 = -1", "lab1 = -1, allowed is 0 to"),
        ("[fairness.quotas]\nlab1 = 1e9", "lab1 = 1e+09, allowed is 0 to"),
        ("[fairness.quotas]\nlab1 = inf", "a table of numbers"),
        ("[fairness.quotas]\nlab1 = nan", "a table of numbers"),
        ("[fairness.quotas]\nlab1 = true", "a table of numbers"),
        ("[fairness.quotas]\nlab1 = '8'", "a table of numbers"),
        ("[fairness.quotas]\nlab1 = 0\nlab2 = 0", "nobody has a quota above 0"),
        ('[fairness.quotas]\n"" = 1', "is no name"),
        ('[fairness.quotas]\n" lab" = 1', "is no name"),
        ('[fairness.quotas]\n"a\\u001bb" = 1', "is no name"),
        (f"[fairness.quotas]\n{'x' * 256} = 1", "is longer than 255 characters"),
        (f"[fairness.gpu_weights]\n{'x' * 65} = 1", "is longer than 64 characters"),
        ("[fairness]\nquotas = 3", "a table of numbers"),
        ("[fairness.gpu_weights]\na100 = 0", "a100 = 0, allowed is 1e-06 to"),
        ("[fairness.gpu_weights]\na100 = -2", "a100 = -2, allowed is"),
        ("[fairness]\nquota = 3", "did you mean fairness.quotas?"),
    ],
)
def test_what_does_not_fit(load_text, text, message):
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    assert "site.toml" in raised.value.message
    assert message in raised.value.message + raised.value.hint


def test_nobody_can_fill_the_memory_with_names(load_text):
    rows = "\n".join(f"a{n} = 1" for n in range(100_001))
    with pytest.raises(ConfigError, match="100001 names, at most 100000"):
        load_text(f"[fairness.quotas]\n{rows}")
