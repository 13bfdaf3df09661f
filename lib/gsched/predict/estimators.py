"""The estimator that the setting ``predict.estimator`` names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gsched.config.settings import Settings
from gsched.errors import ConfigError

if TYPE_CHECKING:
    from gsched.predict.constant import ConstantEstimator
    from gsched.predict.model import DurationModel
    from gsched.predict.table import TableEstimator


def load_estimator(settings: Settings) -> DurationModel | ConstantEstimator | TableEstimator:
    """A ready predictor.

    Raises ``store.ModelMissingError`` before the first `gsched predict train`, ConfigError for a
    wrong setting, DataError for a damaged model or table.
    """
    name = settings.predict.estimator
    if name == "model":
        from gsched.predict.store import load

        return load(settings.model_file)
    if name == "constant":
        from gsched.predict.constant import ConstantEstimator

        return ConstantEstimator()
    if name == "table":
        from gsched.predict.table import TableEstimator

        if not settings.predict.table:
            raise ConfigError(
                "predict.estimator is `table` but predict.table names no file",
                "set predict.table to a CSV file with the header user,name,duration_s",
            )
        return TableEstimator.read(Path(settings.predict.table))
    raise ConfigError(f"predict.estimator is {name!r}", "known estimators: model, constant, table")
