"""What Slurm's power programs work by, also where gsched.toml is being edited and is wrong.

The file is shared with all of gsched, and a user waits for a resume: a mistake in another table is
told and not heeded, and where [power] itself cannot be had, a resume goes by the settings of the
last call. A suspend is then refused, and written down as such, for Slurm believes it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gsched.config import loader
from gsched.config.settings import Settings
from gsched.errors import ConfigError, GschedError
from gsched.model.hostlist import fold
from gsched.power import kept_settings, records
from gsched.power.state import Store

log = logging.getLogger("gsched.power")

_NEEDED = ("state_dir", "power")


def settings_to_suspend(names: Sequence[str], environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force. Raises ConfigError where [power] is wrong; `names` are refused then.

    The node stays on and Slurm takes it for off: that is remembered, so that it is restarted.
    """
    try:
        return settings_of_power(environ)
    except ConfigError as wrong:
        log.error("%s: not suspended, for the settings are wrong", fold(names))
        store, why = Store(_folder(environ)), f"the settings were wrong: {wrong.message}"
        try:
            store.change(lambda state: records.refused(state, names, why[:300], time.time()))
        except GschedError as error:
            log.error("the refusal cannot be written down: %s", error.message)
        raise


def settings_to_resume(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force, else those that were last worked by. Raises ConfigError."""
    try:
        return settings_of_power(environ)
    except ConfigError as wrong:
        folder = _folder(environ)
        try:
            power = kept_settings.kept(folder)
        except ConfigError as error:
            log.error("%s", error.message)
            raise wrong from None
        log.error("%s; resuming goes on by the settings of the last call", wrong.message)
        return replace(Settings(), power=replace(power, state_dir=str(folder)))


def keep(settings: Settings) -> None:
    """Remember settings that have been worked by; what stands against it is told."""
    try:
        kept_settings.keep(settings.power_dir, settings.power)
    except GschedError as error:
        log.warning("the settings are not kept: %s", error.message)


def settings_of_power(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force, those of [power] where others are wrong. Raises ConfigError."""
    try:
        return loader.load(environ)
    except ConfigError as wrong:
        settings = loader.load_part(_NEEDED, environ)
        log.error("the configuration is wrong, but not in [power]: %s", wrong.message)
        return settings


def _folder(environ: Mapping[str, str]) -> Path:
    """Where the state is, as far as a wrong configuration tells."""
    return loader.load_to_ask(environ)[0].power_dir
