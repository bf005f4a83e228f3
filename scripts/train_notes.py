"""Train the local note writer on the labelled meetings of the tests: `python -m scripts.train_notes`.

Writes the weights into the package. `--check` writes nothing and prints a cross-validation: how models that
never saw a meeting do on it. Needs numpy, which comes with the tools of development.

A part of the model is a logistic regression with an L2 penalty, fitted by L-BFGS; the owner is a choice among
candidates. The parts in context learn from scores of sentences that the first parts were not fitted to.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import chain, compress
from operator import not_
from pathlib import Path
from typing import Final

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from meetcore.adapters.local_notes.actions import candidates
from meetcore.adapters.local_notes.model import (
    BIAS,
    CONTEXT,
    KINDS,
    OWNER,
    Model,
    Weights,
    context_of,
    features_of,
    total,
)
from meetcore.adapters.local_notes.reading import read
from meetcore.adapters.local_notes.sentences import sentences_of
from tests.support import note_scores

ROOT: Final = Path(__file__).resolve().parents[1]
CORPUS: Final = ROOT / "tests/unit/adapters/local_notes_corpus"
WEIGHTS: Final = ROOT / "src/meetcore/adapters/local_notes/weights.tsv"
FOLDS: Final = 4
FEWEST_USES: Final = 4
MOST_WEIGHTS: Final = {KINDS[0]: 1800, KINDS[1]: 2400, OWNER: 1200}
EXCERPTS: Final = (1, 2, 1, 4, 3, 12)
"""Numbers of utterances."""
SHORT_COUNT: Final = 3
"""How often short recordings and single sentences count: among the meetings they are few."""
PENALTY: Final = 2.0
PENALTY_IN_CONTEXT: Final = 30.0
PENALTY_OF_OWNER: Final = 2.0
LEAST: Final = {KINDS[0]: -0.4, KINDS[1]: 0.4}
"""The log odds from which a sentence is reported, chosen for one false item in ten."""

Vector = NDArray[np.float64]
Loss = Callable[[Vector], tuple[float, Vector]]


@frozen
class Choice:
    """A task with its candidates' features, and the number of the right one."""

    features: list[Sequence[str]]
    right: int


class Piece:
    """A labelled meeting or a part of one: its sentences' features, and which are decisions and actions."""

    def __init__(self, labelled: note_scores.Meeting) -> None:
        self.meeting = read(sentences_of(labelled.transcript))
        self.features = features_of(self.meeting)
        self.targets: list[Vector] = [np.zeros(len(self.features)) for _ in KINDS]
        for target, labels in zip(self.targets, (labelled.decisions, labelled.actions), strict=True):
            for label in labels:
                target[self._place(label)] = 1.0
        self.choices = [choice for label in labelled.actions if (choice := self._choice(label))]

    def _place(self, label: note_scores.Label) -> int:
        """Return the number of the longest sentence of a label."""
        texts = {
            at: one.sentence.text for at, one in enumerate(self.meeting.readings)
            if round(one.sentence.at_s / note_scores.SECONDS_APART) == label.utterance
            and (one.sentence.text in label.sentence or label.sentence in one.sentence.text)
        }  # fmt: skip
        return max(texts, key=lambda at: len(texts[at]))

    def _choice(self, label: note_scores.Label) -> Choice | None:
        found = candidates(self.meeting, self._place(label))
        right = [at for at, owner in enumerate(found) if note_scores.names_of(owner) == label.owners]
        return Choice(list(found.values()), right[0]) if right else None


@frozen
class Example:
    """A labelled meeting, to be learned whole, and some in pieces, for recordings may be short."""

    labelled: note_scores.Meeting
    pieces: Sequence[Piece]


def example(file: Path, *, in_pieces: bool) -> Example:
    """Read a labelled meeting, also in pieces or not, or sentences that do not belong together."""
    labelled = note_scores.load(file)
    is_loose = labelled.kind == note_scores.LOOSE
    wholes = [] if is_loose else [labelled]
    parts = note_scores.excerpts(labelled, (1,) if is_loose else EXCERPTS) if in_pieces or is_loose else ()
    pieces = [Piece(one) for one in (*wholes, *parts)]
    return Example(labelled, pieces * (SHORT_COUNT if is_loose or labelled.kind == "short" else 1))


class Matrix:
    """Rows of features as a sparse matrix of ones; the last column is the bias."""

    def __init__(self, rows: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
        places = {name: at for at, name in enumerate(columns)}
        # In order, so that sums are the same in every process.
        found = [[*sorted(places[name] for name in row if name in places), len(columns)] for row in rows]
        self.columns = np.fromiter(chain.from_iterable(found), dtype=np.int64)
        counts = np.array([len(each) for each in found])
        self.rows = np.repeat(np.arange(len(rows)), counts)
        self.begins = np.concatenate([[0], np.cumsum(counts)[:-1]])
        self.width = len(columns) + 1

    def only(self, columns: Sequence[int]) -> "Matrix":
        """Return the matrix of some columns and the bias."""
        places = np.full(self.width, -1)
        places[[*columns, self.width - 1]] = np.arange(len(columns) + 1)
        part, is_kept = copy(self), places[self.columns] >= 0
        part.columns, part.rows = places[self.columns][is_kept], self.rows[is_kept]
        part.begins = np.searchsorted(part.rows, np.arange(len(self.begins)))
        part.width = len(columns) + 1
        return part

    def times(self, weights: Vector) -> Vector:
        """Return the score of every row."""
        return np.add.reduceat(weights[self.columns], self.begins)

    def gather(self, values: Vector) -> Vector:
        """Return the sum of the rows' values for every column."""
        sums = np.bincount(self.columns, weights=values[self.rows], minlength=self.width)
        return np.asarray(sums, dtype=np.float64)


def minimized(loss: Loss, weights: Vector, most: int = 60, kept: int = 8) -> Vector:
    """Return weights of the least loss, by L-BFGS with a backtracking search."""
    value, slope = loss(weights)
    steps: list[tuple[Vector, Vector]] = []
    for _ in range(most):
        way, factors = slope.copy(), []
        for step, turn in reversed(steps):
            factors.append((step @ way) / (turn @ step))
            way -= factors[-1] * turn
        way *= (
            (steps[-1][0] @ steps[-1][1]) / (steps[-1][1] @ steps[-1][1])
            if steps
            else 1 / np.abs(slope).sum()
        )
        for (step, turn), factor in zip(steps, reversed(factors), strict=True):
            way += (factor - (turn @ way) / (turn @ step)) * step
        length, fall = 1.0, slope @ way
        while (after := loss(weights - length * way))[0] > value - 1e-4 * length * fall and length > 1e-6:
            length /= 2
        step, turn = -length * way, after[1] - slope
        steps = [*steps, (step, turn)][-kept:] if step @ turn > 1e-10 else steps
        is_done = abs(value - after[0]) < 1e-5 * abs(value)
        weights, (value, slope) = weights + step, after
        if is_done:
            break
    return weights


def logistic(rows: Matrix, target: Vector, penalty: float, begin: Vector | None = None) -> Vector:
    """Fit a logistic regression, from weights to begin with."""
    penalties = np.full(rows.width, penalty)
    penalties[-1] = 1e-4

    def loss(weights: Vector) -> tuple[float, Vector]:
        scores = rows.times(weights)
        off = 1 / (1 + np.exp(-scores)) - target
        cost = np.logaddexp(0, scores).sum() - scores @ target + 0.5 * (penalties * weights) @ weights
        return float(cost), rows.gather(off) + penalties * weights

    return minimized(loss, np.zeros(rows.width) if begin is None else begin)


def choosing(choices: Sequence[Choice], columns: Sequence[str]) -> Vector:
    """Fit the weights by which the right one of several candidates has the highest score."""
    rows = Matrix([each for one in choices for each in one.features], columns)
    sizes = np.array([len(one.features) for one in choices])
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    group, right = (
        np.repeat(np.arange(len(choices)), sizes),
        begins + np.array([one.right for one in choices]),
    )

    def loss(weights: Vector) -> tuple[float, Vector]:
        scores = rows.times(weights)
        scores -= np.maximum.reduceat(scores, begins)[group]
        sums = np.add.reduceat(np.exp(scores), begins)
        off = np.exp(scores) / sums[group]
        off[right] -= 1
        cost = np.log(sums).sum() - scores[right].sum() + 0.5 * PENALTY_OF_OWNER * weights @ weights
        return float(cost), rows.gather(off) + PENALTY_OF_OWNER * weights

    return minimized(loss, np.zeros(rows.width))


def used(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the features that occur often enough."""
    counts = Counter(name for row in rows for name in set(row))
    return sorted(name for name, count in counts.items() if count >= FEWEST_USES)


def largest(weights: Vector, most: int) -> list[int]:
    """Return the columns with the largest weights, in order."""
    return sorted(np.argsort(-np.abs(weights[:-1]), kind="stable")[:most].tolist())


def named(columns: Sequence[str], weights: Vector, move: float = 0.0) -> Weights:
    """Return weights by feature, rounded, without those that are zero."""
    values = dict(zip((*columns, BIAS), weights.tolist(), strict=True))
    values[BIAS] += move
    return {name: round(value, 2) for name, value in values.items() if round(value, 2)}


def first_parts(pieces: Sequence[Piece]) -> dict[str, Weights]:
    """Fit the parts that look at a sentence and its surroundings."""
    rows = [row for one in pieces for row in one.features]
    columns, parts = used(rows), dict[str, Weights]()
    whole = Matrix(rows, columns)
    for number, kind in enumerate(KINDS):
        target = np.concatenate([one.targets[number] for one in pieces])
        weights = logistic(whole, target, PENALTY)
        some = largest(weights, MOST_WEIGHTS[kind])
        begin = weights[[*some, -1]]
        parts[kind] = named([columns[at] for at in some], logistic(whole.only(some), target, PENALTY, begin))
    return parts


def contexts(piece: Piece, parts: Model) -> list[list[str]]:
    """Return the features in context by the scores of first parts."""
    scores = [[total(parts[kind], each) for each in piece.features] for kind in KINDS]
    return context_of(piece.meeting, piece.features, scores)


def trained(examples: Sequence[Example]) -> Model:
    """Fit all parts of the model."""
    rows: list[list[str]] = []
    targets: list[list[Vector]] = [[] for _ in KINDS]
    for learned, held in split(examples):
        parts = first_parts(pieces_of(learned))
        rows += [row for one in pieces_of(held) for row in contexts(one, parts)]
        for number, target in enumerate(targets):
            target += [one.targets[number] for one in pieces_of(held)]
    columns, model = used(rows), first_parts(pieces_of(examples))
    for kind, target in zip(KINDS, targets, strict=True):
        weights = logistic(Matrix(rows, columns), np.concatenate(target), PENALTY_IN_CONTEXT)
        model[kind + CONTEXT] = named(columns, weights, -LEAST[kind])
    choices = [choice for one in pieces_of(examples) for choice in one.choices]
    columns = used([row for choice in choices for row in choice.features])
    some = [columns[at] for at in largest(choosing(choices, columns), MOST_WEIGHTS[OWNER])]
    model[OWNER] = named(some, choosing(choices, some))
    return model


def pieces_of(examples: Sequence[Example]) -> list[Piece]:
    """Return all that is learned of meetings."""
    return [piece for one in examples for piece in one.pieces]


def split(examples: Sequence[Example]) -> Iterator[tuple[Sequence[Example], Sequence[Example]]]:
    """Yield the meetings to learn from and those held back, each once, and those of an author together.

    The first letter of a file's name stands for its author.
    """
    for fold in range(FOLDS):
        is_held = [ord(one.labelled.name[0]) % FOLDS == fold for one in examples]
        yield list(compress(examples, map(not_, is_held))), list(compress(examples, is_held))


def checked(examples: Sequence[Example]) -> Iterator[note_scores.Score]:
    """Yield the score of every meeting, by a model that was trained without it."""
    for learned, held in split(examples):
        model = trained(learned)
        wholes = (one.labelled for one in held if one.labelled.kind != note_scores.LOOSE)
        yield from (note_scores.score(one, model) for one in wholes)


def main() -> None:
    """Write the weights, or print the table of the cross-validation."""
    files = [*sorted(CORPUS.glob("*.txt")), *sorted(CORPUS.glob("training/*.txt"))]
    examples = [example(file, in_pieces=True) for at, file in enumerate(files)]
    if "--check" in sys.argv:
        scores = sorted(checked(examples), key=lambda one: one.name)
        print(note_scores.table(scores))
        if "-v" in sys.argv:
            note_scores.show(scores)
        return
    lines = (
        f"{part}\t{name}\t{weight:.2f}\n"
        for part, weights in trained(examples).items()
        for name, weight in sorted(weights.items())
    )
    WEIGHTS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
