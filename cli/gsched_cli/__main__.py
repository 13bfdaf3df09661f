"""``python -m gsched_cli``: the same as ``gsched``."""

from __future__ import annotations

import sys

from gsched_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
