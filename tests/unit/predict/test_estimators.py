from __future__ import annotations

from dataclasses import replace

import pytest
from support.jobs import T0, view

from gsched.config.settings import PredictSettings, Settings
from gsched.errors import ConfigError, DataError
from gsched.predict.constant import ConstantEstimator
from gsched.predict.estimators import load_estimator
from gsched.predict.store import ModelMissingError, save
from gsched.predict.table import TableEstimator

NOW = T0 + 100


@pytest.fixture
def settings(tmp_path):
    return Settings(state_dir=tmp_path)


def choose(settings, **predict):
    return replace(settings, predict=PredictSettings(**predict))


@pytest.fixture
def table(tmp_path):
    """Write the lines of a table and read it."""

    def read(*lines, data=None):
        path = tmp_path / "durations.csv"
        path.write_bytes("\n".join(lines).encode() if data is None else data)
        return TableEstimator.read(path)

    return read


def test_the_model_is_loaded_from_its_place(settings, recurring_model):
    with pytest.raises(ModelMissingError):
        load_estimator(settings)
    save(recurring_model, settings.model_file)
    assert load_estimator(settings).model_id == recurring_model.model_id


def test_constant_makes_all_jobs_alike(settings):
    estimator = load_estimator(choose(settings, estimator="constant"))
    assert isinstance(estimator, ConstantEstimator)
    found = estimator.predict([view(1), view(2, user="bob", gpus=8)], NOW)
    assert found[0] == found[1]
    assert found[0].source == "constant"
    assert found[0].as_of == NOW


def test_table_needs_a_file(settings, tmp_path):
    with pytest.raises(ConfigError, match=r"predict\.table names no file"):
        load_estimator(choose(settings, estimator="table"))
    absent = str(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match="cannot read"):
        load_estimator(choose(settings, estimator="table", table=absent))
    (tmp_path / "t.csv").write_text("user,name,duration_s\nann,train,5\n")
    found = load_estimator(choose(settings, estimator="table", table=str(tmp_path / "t.csv")))
    assert found.predict([view(1)], NOW)[0].mean == 5.0


def test_an_unknown_estimator_is_refused(settings):
    with pytest.raises(ConfigError, match="'oracle'"):
        load_estimator(choose(settings, estimator="oracle"))


def test_table_goes_by_user_and_name_then_by_name(table):
    found = table("user,name,duration_s", "ann,train,10", ",train,99.5", "bob,eval,7")
    asked = [("ann", "train"), ("bob", "train"), ("bob", "eval"), ("ann", "eval"), ("ann", "Train")]
    answers = found.predict([view(i, user=u, name=n) for i, (u, n) in enumerate(asked)], NOW)
    assert [a and a.mean for a in answers] == [10.0, 99.5, 7.0, None, None]
    assert answers[0].source == "table"
    assert answers[0].model_id.startswith("table-")


def test_table_takes_hostile_names_and_windows_files(table):
    data = '\ufeffuser,name,duration_s\r\nann,"a\nb,""c""",5\r\n\r\nbob,ünï,6\r\n'.encode()
    found = table(data=data)
    answers = found.predict(
        [view(1, user="ann", name='a\nb,"c"'), view(2, user="bob", name="ünï")], NOW
    )
    assert [a.mean for a in answers] == [5.0, 6.0]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "line 1: the header"),
        (["name,user,duration_s"], "line 1: the header"),
        (["user,name,duration_s", "ann,train"], "line 2: 2 fields"),
        (["user,name,duration_s", "ann,a,1", "ann,b,x"], "line 3: duration_s 'x'"),
        (["user,name,duration_s", "ann,a,-1"], "line 2: duration_s '-1'"),
        (["user,name,duration_s", "ann,a,inf"], "line 2: duration_s 'inf'"),
        (["user,name,duration_s", "ann,a,nan"], "line 2: duration_s 'nan'"),
        (["user,name,duration_s", "ann,a,1", "ann,a,2"], "line 3: this user and name"),
        (["user,name,duration_s", 'ann,"a', "b", "c,1"], "line 4"),
        (["user,name,duration_s", "ann,a,1,2"], "line 2: 4 fields"),
    ],
)
def test_bad_rows_are_named(table, lines, problem):
    with pytest.raises(DataError, match=problem):
        table(*lines)


def test_another_table_has_another_id(table):
    first = table("user,name,duration_s", "ann,train,10").model_id
    assert table("user,name,duration_s", "ann,train,11").model_id != first
    assert table("user,name,duration_s", "ann,train,10").model_id == first
