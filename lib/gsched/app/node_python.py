"""The Python that runs gsched on compute nodes: whether it can, and whether nodes have it."""

from __future__ import annotations

import os
import sys

from gsched.config.settings import JobscriptSettings
from gsched.errors import ConfigError, GschedError, TryAgainError
from gsched.mounts import mounts_of_this_host, own_disk_of
from gsched.slurm.run import run

CHECK = ("-I", "-m", "gsched.launch", "--check")
"""What a Python that can run jobs with gsched ends with status 0 for."""

_CHECK_S = 30.0


def own_disk(python: str, settings: JobscriptSettings) -> str:
    """The kind of a disk of this host alone on which `python` lies, unless it was chosen; or ''."""
    return "" if settings.python else own_disk_of(python, mounts_of_this_host())


def node_python(settings: JobscriptSettings) -> str:
    """The Python that jobs start gsched with. Raises ConfigError when this host's cannot do it."""
    python = settings.python or sys.executable
    hint = "jobscript.python names one that has gsched and that compute nodes have"
    if not os.access(python, os.X_OK):
        raise ConfigError(f"{python or 'the Python of this process'} cannot be run", hint)
    try:
        answer = run([python, *CHECK], timeout_s=_CHECK_S)
    except TryAgainError:
        raise ConfigError(f"{python} does not start gsched within {_CHECK_S:g} s", hint) from None
    except GschedError as error:
        raise ConfigError(f"{python} cannot run gsched: {error.message}", hint) from None
    if answer.status != 0:
        said = (answer.stderr.strip() or f"it ends with status {answer.status}").splitlines()[-1]
        raise ConfigError(f"{python} cannot run gsched: {said}", hint)
    return python
