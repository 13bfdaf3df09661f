"""What is told of the run-time model: how old, pinned, fallen back on the rolling estimate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # whoever shows a status needs no numpy
    from gsched.predict.drift import Judgement

KINDS = {"gpu": "jobs with GPUs", "cpu": "jobs without GPUs"}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The model in use; times are epoch seconds, '' and None = none.

    `pinned` is the model that refits do not replace. `fallen` are the kinds of jobs (``gpu``,
    ``cpu``) that the rolling estimate predicts because the model has become worse, and since when;
    `judgements` the last comparisons of what was predicted with ended jobs, by kind. `problem` is
    why the model is not, or may not be, up to date.
    """

    written_at: float | None = None
    pinned: str = ""
    pinned_since: int | None = None
    fallen: Mapping[str, int] = field(default_factory=dict)
    judgements: Mapping[str, Judgement] = field(default_factory=dict)
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "written_at": self.written_at,
            "pinned": self.pinned or None,
            "pinned_since": self.pinned_since,
            "problem": self.problem or None,
            "fallback": dict(self.fallen),
            "compared": {
                kind: {
                    "jobs": judged.num_jobs,
                    "off_by": dict(judged.off_by),
                    "rank_correlation": dict(judged.rank_correlations),
                }
                for kind, judged in self.judgements.items()
            },
        }


def model_words(document: Mapping[str, Any]) -> str:
    """What of a model's document everybody should know, '' when all is as it should be."""
    words = [
        f"{KINDS.get(kind, kind)} are predicted by the rolling estimate: the model has become worse"
        for kind in document.get("fallback") or ()
    ]
    if document.get("pinned"):
        words.append(f"model {document['pinned']} is pinned")
    return "; ".join(words)
