"""`gsched predict job` for who may not read the model."""

from __future__ import annotations

import os

import pytest

from gsched.app.job_prediction import predict_job
from gsched.config.settings import Settings
from gsched.errors import PermissionDeniedError
from gsched.predict.estimators import load_estimator

NOBODY = 65534


@pytest.fixture
def private_settings(tmp_path):
    """A model that this process may not read, be it root's or not."""
    settings = Settings(state_dir=tmp_path)
    settings.model_file.parent.mkdir(parents=True)
    settings.model_file.write_bytes(b"")
    settings.model_file.chmod(0)
    was = os.geteuid()
    if was == 0:
        os.seteuid(NOBODY)
    yield settings
    os.seteuid(was)


def test_who_may_not_read_the_model_is_told_whom_to_ask(private_settings):
    with pytest.raises(PermissionDeniedError) as plain:
        load_estimator(private_settings)
    with pytest.raises(PermissionDeniedError) as found:
        predict_job(private_settings, "48211")
    assert found.value.message == plain.value.message
    assert "`gsched why 48211`" in found.value.hint
