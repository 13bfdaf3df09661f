"""The fault matrix: every fault on a private real Slurm, what was seen, how soon all was well.

Writes tests/results/faults.json, one entry a fault, and the table of gsched-faults(7), after each
of them. A fault that held with the same sources is not inflicted again unless named: an interrupted
run goes on.

    python tests/bench/bench_faults.py [NAME…]

NAME is a fault's, or a pattern such as 'kill-random-*'. Ends with 1 when a check did not hold.
"""

from __future__ import annotations

import fnmatch
import functools
import hashlib
import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

from gsched.errors import GschedError

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support import faults_page  # noqa: E402
from support.faults import Fault, Outcome, strike  # noqa: E402
from support.faults_settings import ALL_FAULTS, SETTINGS  # noqa: E402
from support.machine import slurm_release  # noqa: E402

RESULT = ROOT / "tests" / "results" / "faults.json"
SEED = 20_261_129
WHAT = (
    "One entry a fault: what was done; what the daemon said beside its daily rounds; users' jobs "
    "that ended while it lasted, and after; seconds from the end of its cause to a round after "
    "which every check holds. Checks: Slurm's queue goes on; no job of a kind that gsched leaves "
    "alone, and no value of another hand, has changed; the journal explains every SiteFactor, all "
    "confirmed changes are there, none is left open; the order is the policy's."
)


def main() -> int:
    """Inflict what is asked for, record and print; 1 when a check did not hold."""
    chosen = [f for f in ALL_FAULTS if _is_chosen(f, sys.argv[1:])]
    if not chosen:
        print("no fault of that name", file=sys.stderr)
        return 2
    for setting in SETTINGS:
        faults = [f for f in chosen if f.setting == setting]
        if faults:
            _inflict(setting, faults)
    entries = _recorded()
    failed = [name for name, entry in entries.items() if not entry["held"]]
    print(f"{len(entries)} faults, checks did not hold in {len(failed)}: {' '.join(failed)}")
    return 1 if failed else 0


def _is_chosen(fault: Fault, patterns: list[str]) -> bool:
    if patterns:
        return any(fnmatch.fnmatch(fault.name, pattern) for pattern in patterns)
    entry = _recorded().get(fault.name, {})
    return not (entry.get("held") and entry.get("source") == _source())


@functools.cache
def _source() -> str:
    """A digest of gsched and of the faults: what was found with others says little."""
    digest = hashlib.sha256()
    for folder in ("lib/gsched", "sql/gsched_sql", "tests/support"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _inflict(setting: str, faults: list[Fault]) -> None:
    with SETTINGS[setting](SEED) as site:
        for fault in faults:
            began = time.monotonic()
            try:
                outcome = strike(site, fault)
            except (GschedError, AssertionError) as error:
                outcome = Outcome(fault.name, fault.what, setting, fault.person)
                outcome.findings.append(f"{type(error).__name__}: {error}")
            _record(outcome)
            _tell(outcome, time.monotonic() - began)


def _tell(outcome: Outcome, wall_s: float) -> None:
    how = "well" if not outcome.findings else "NOT WELL"
    print(f"{wall_s:6.1f} s  {outcome.name}: {how}", file=sys.stderr, flush=True)
    for finding in outcome.findings:
        print(f"          {finding}", file=sys.stderr, flush=True)


def _recorded() -> dict[str, Any]:
    if not RESULT.exists():
        return {}
    found: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))["faults"]
    return found


def _record(outcome: Outcome) -> None:
    entries = _recorded() | {outcome.name: {**outcome.to_json(), "source": _source()}}
    in_order = {fault.name: entries[fault.name] for fault in ALL_FAULTS if fault.name in entries}
    document = {
        "what": WHAT,
        "slurm": ".".join(f"{part:02}" for part in slurm_release()),
        "python": platform.python_version(),
        "seed": SEED,
        "faults": in_order,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    faults_page.PAGE.write_text(faults_page.page(faults_page.PAGE.read_text(), in_order))


if __name__ == "__main__":
    sys.exit(main())
