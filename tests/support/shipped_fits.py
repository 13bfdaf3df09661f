"""Makes lib/gsched/synth/fits/*.json from the public traces in ../shared.

    python tests/support/shipped_fits.py

Neither Philly's nor ITP's published tables tell users, names of jobs or final states. So that a
drawn trace has them, they recur as on LLNL's Atlas, a Slurm machine whose log tells them; each fit
says so in its sources.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import gsched.synth
from gsched.app.synth_trace import Fitted, fit_files
from gsched.app.trace_formats import TraceOptions
from gsched.model.progress import silent
from gsched.synth.fit import Fit
from support.shared import SHARED

TRACES = SHARED / "traces"
_SOURCES = {
    "atlas": ("swf", "named/llnl-atlas-2006/*.swf.gz"),
    "philly": ("philly", "philly/philly.csv.gz"),
    "itp": ("itp", "itp/cluster*.csv.gz"),
}
FOLDER = Path(gsched.synth.__file__).parent / "fits"

_PHILLY = (
    "arrivals, sizes, run times and virtual clusters: Microsoft Philly, Jeon et al., USENIX ATC "
    "2019 (CC-BY-4.0), the 82,247 jobs of github.com/siasosp23/artifacts"
)
_ITP = (
    "arrivals, sizes, run times (600 s and more) and clusters: Microsoft ITP 2021, "
    "github.com/microsoft/elasticflow-traces (MIT); its times count from its beginning, here "
    "Thursday 1970-01-01 (its weekly low falls on Saturday and Sunday then)"
)
_ATLAS = (
    "users, job names and final states, which that trace does not tell: LLNL Atlas 2006, Moe "
    "Jette, Parallel Workloads Archive (Feitelson, Tsafrir, Krakov 2014)"
)
_OF_PEOPLE = (
    *("num_users", "top_5pct_users_share", "recurring_share"),
    *("same_name_duration_correlation", "completed_share"),
)


def read_sources() -> dict[str, Fitted]:
    """The public traces, and a fit of each."""
    return {
        name: fit_files([str(f) for f in sorted(TRACES.glob(files))], TraceOptions(form), silent)
        for name, (form, files) in _SOURCES.items()
    }


def _with_people(fit: Fit, atlas: Fit, name: str, source: str) -> Fit:
    return replace(
        fit,
        name=name,
        sources=(source, _ATLAS),
        people=atlas.people,
        states=atlas.states,
        facts={k: (atlas if k in _OF_PEOPLE else fit).facts[k] for k in fit.facts},
    )


def make(sources: Mapping[str, Fitted]) -> dict[str, Fit]:
    """The shipped fits by name."""
    atlas = sources["atlas"].fit
    return {
        name: _with_people(sources[name].fit, atlas, name, source)
        for name, source in (("philly", _PHILLY), ("itp", _ITP))
    }


if __name__ == "__main__":
    for made_name, made in make(read_sources()).items():
        (FOLDER / f"{made_name}.json").write_text(made.text())
        print(made_name, len(made.text()), "bytes")
