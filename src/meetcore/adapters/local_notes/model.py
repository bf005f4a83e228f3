"""A linear model over the features of sentences: what is learned is a weight for each feature.

`scripts/train_notes.py` writes the weights from the labelled meetings of the tests; a line of the file is the
part of the model, a feature and its weight. Scores are log odds, moved so that those above 0 are reported.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import fsum
from typing import Final

from meetcore.adapters.local_notes.features import context_of, features_of
from meetcore.adapters.local_notes.reading import Meeting

BIAS: Final = ""
"""The feature that every sentence has."""
KINDS: Final = ("decision", "action")
CONTEXT: Final = " in context"
OWNER: Final = "owner"

Weights = Mapping[str, float]
Model = Mapping[str, Weights]
"""The weights by part: each of `KINDS`, the same with `CONTEXT`, and `OWNER`."""


@cache
def shipped() -> Model:
    """Read the weights of the package, once in a process."""
    parts: dict[str, dict[str, float]] = {}
    for line in files(__package__).joinpath("weights.tsv").read_text(encoding="utf-8").splitlines():
        part, feature, weight = line.split("\t")
        parts.setdefault(part, {})[feature] = float(weight)
    return parts


def total(weights: Weights, features: Iterable[str]) -> float:
    """Return the score of features, whatever their order."""
    return fsum((weights.get(BIAS, 0.0), *(weights.get(feature, 0.0) for feature in features)))


def scores_of(meeting: Meeting, model: Model) -> Sequence[Sequence[float]]:
    """Return the scores of every sentence, as a decision and as an action; the better one counts."""
    features = features_of(meeting)
    first = [[total(model[kind], each) for each in features] for kind in KINDS]
    context = context_of(meeting, features, first)
    decided, given = ([total(model[kind + CONTEXT], each) for each in context] for kind in KINDS)
    return [
        min(one, 0.0) if other > max(one, 0.0) else one for one, other in zip(decided, given, strict=True)
    ], given
