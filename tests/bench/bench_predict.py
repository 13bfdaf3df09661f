"""How well run times are predicted on real logs, walking forward over the whole of each.

Run from the repository root: ``python tests/bench/bench_predict.py [LOG]...``. Reads the named logs
of ``../shared/traces``, prints tables, and writes ``tests/results/predict.json`` (with LOGs, only
theirs anew). What is judged and how is `gsched predict eval`: every job is predicted as it was
submitted, from what had ended before, by all contenders; the model is fitted anew each week.
Parameters were chosen on the logs with ``"judges": false``; the others judge.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.named_logs import LOGS, load  # noqa: E402

from gsched.app.evaluation.evaluate import judge  # noqa: E402
from gsched.app.evaluation.inputs import PastFromFiles  # noqa: E402
from gsched.app.evaluation.tables import lines, tables  # noqa: E402
from gsched.predict.walk import WalkOptions  # noqa: E402

RESULT = ROOT / "tests" / "results" / "predict.json"
WORKERS = 2


def measure(name: str) -> tuple[dict[str, Any], str]:
    """The document of one log, and the same as text."""
    log, began = LOGS[name], time.perf_counter()
    past = PastFromFiles(load(name), waits_known=log.has_waits)
    evaluation = judge(past, name, WalkOptions())
    document = {
        "input_sha256": [hashlib.sha256(file.read_bytes()).hexdigest() for file in log.files],
        "judges": log.judges,
        "unit": log.unit,
        "took_s": round(time.perf_counter() - began),
        **evaluation.document(),
    }
    return document, "\n".join([*_table_lines(evaluation), *lines(evaluation)])


def _table_lines(evaluation: Any) -> list[str]:
    told = []
    for table in tables(evaluation):
        widths = [max(map(len, column)) for column in zip(table.headings, *table.rows, strict=True)]
        rows = (table.headings, *table.rows)
        told += [table.title, *("  ".join(map(str.ljust, row, widths)) for row in rows), ""]
    return told


def main(names: list[str]) -> int:
    """Print and write the figures of the logs, all of them without NAMES."""
    wanted = names or list(LOGS)
    if unknown := set(wanted) - set(LOGS):
        print(f"no such log: {', '.join(unknown)}; known: {', '.join(LOGS)}", file=sys.stderr)
        return 2
    results = json.loads(RESULT.read_text()) if names and RESULT.exists() else {}
    with ProcessPoolExecutor(WORKERS) as pool:
        running = {pool.submit(measure, name): name for name in wanted}
        for done in as_completed(running):
            results[running[done]], text = done.result()
            print(f"== {running[done]}\n{text}\n", flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(
        json.dumps({name: _rounded(results[name]) for name in LOGS if name in results}, indent=1)
        + "\n"
    )
    return 0


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
