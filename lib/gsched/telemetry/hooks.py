"""Where Slurm's hooks of this installation are: programs that Slurm runs before and after tasks."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path
from typing import Literal


def hook(name: Literal["task_prolog", "task_epilog"]) -> Path | None:
    """The program, absolute; None where this installation has none that can be run."""
    installed = Path(sysconfig.get_path("data")) / "share" / "gsched" / "hooks" / name
    checkout = Path(__file__).parents[3] / "slurm_plugins" / "hooks" / name
    return next((path for path in (installed, checkout) if os.access(path, os.X_OK)), None)
