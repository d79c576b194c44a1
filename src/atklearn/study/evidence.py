"""What the cells of a comparison say: who chose what, and how it did on rows that nothing had seen.

A *method* is an aggregate loss (maximum, average, AT_k) with an individual loss and class weights. On every split its
*strength*, and for AT_k its k, are chosen by validation within the training part alone, and by the very measure they
are judged by; what counts is the test part. The strength is the C of a linear model, or the rounds of boosted trees:
how closely a fit may follow its training part. The comparison is between the best average and the best AT_k, whose
individual loss and class weights are chosen in the same way. AT_k includes the average and keeps it, the same fit,
unless a smaller k is better by more than half a standard error: see :func:`choose` and docs/decisions/0016.

In the *contest* both sides may also map their decision values, fitted to the measure: a tuned threshold, or a f + b.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES
from atklearn.selection.choosing import choose_best, choose_within_error, corrected_standard_error
from atklearn.study.methods import Aggregate, Method, in_order
from atklearn.study.recalibration import Map, apply_map
from atklearn.study.results import Record

__all__ = [
    "Choice",
    "Grid",
    "Mapped",
    "best_below_all",
    "best_choice",
    "best_of_all",
    "best_of_one",
    "choose",
    "collect_grids",
    "leads",
    "method_choices",
    "ratio_of_parts",
]

_NOTHING = np.empty((1, 0))
# By how many standard errors a smaller k has to lead, and a larger k may be behind the best: see docs/decisions/0016.
_ERRORS = 0.5


@dataclass(frozen=True)
class Mapped:
    """A cell whose decision values are mapped to suit a measure.

    Attributes
    ----------
    k, strength : float
    map : tuple of float
        Slope and shift.
    validation : ndarray of shape (n_folds,)
        The measure, with maps fitted to the other folds.
    """

    k: float
    strength: float
    map: Map
    validation: Array


@dataclass(frozen=True)
class Grid:
    """The cells of one split for one individual loss and one kind of class weights.

    Attributes
    ----------
    loss, weights : str
    ks, shares : ndarray of shape (n_ks,)
        Ascending, in samples and as part of them.
    strengths : ndarray of shape (n_strengths,)
        Ascending; whole numbers of rounds.
    n_folds : int or None
        Into how many folds the training part was divided; None if its validation part is a single one.
    validation : dict of ndarrays of shape (n_folds, n_ks, n_strengths)
    test : dict of ndarrays of shape (n_ks, n_strengths)
    mapped : dict
        Per aggregate ("average", "atk") and measure, its cell with mapped decision values.
    rows : ndarray of int of shape (n_rows,)
        The rows of the test part, as places among those that are judged.
    said : dict of ndarrays of shape (n_problems, n_rows)
        Per k and strength that a measure chose, the decision values of these rows.
    drop : float
        The part of the largest losses that every fit sets aside.
    """

    loss: str
    weights: str
    ks: Array
    shares: Array
    strengths: npt.NDArray[Any]
    n_folds: int | None
    validation: dict[str, Array]
    test: dict[str, Array]
    mapped: dict[tuple[str, str], Mapped]
    rows: npt.NDArray[np.intp]
    said: dict[tuple[float, float], Array]
    drop: float = 0.0

    @property
    def fold_to_rest(self) -> float:
        """Size of a validation fold over that of the part it is left out of."""
        if self.n_folds is None:
            raise ValueError("A grid of folds is expected, but this one has a single validation part.")
        return 1.0 / (self.n_folds - 1)

    @property
    def below_all(self) -> slice:
        """Where k is more than one row and fewer than all."""
        return slice(int(self.ks[0] <= 1.0), len(self.ks) - 1)

    def scores(self, measure: str) -> Array:
        """Return the validation of a measure, higher being better, shape (n_folds, n_ks, n_strengths)."""
        return MEASURES[measure].sign * self.validation[measure]

    def choice(self, measure: str, i: int, j: int) -> Choice:
        """Return the choice of a cell by a measure."""
        k, strength = float(self.ks[i]), self.strengths[j].item()
        return Choice(
            self.loss,
            self.weights,
            k,
            float(self.shares[i]),
            strength,
            None,
            self.scores(measure)[:, i, j],
            self.fold_to_rest,
            self.rows,
            self.said.get((k, strength), _NOTHING),
            self.drop,
        )

    def mapped_choice(self, aggregate: Aggregate, measure: str) -> Choice | None:
        """Return the choice of a cell with mapped decision values; None if there is none for this measure."""
        cell = self.mapped.get((aggregate, measure))
        if cell is None:
            return None
        i = int(np.flatnonzero(self.ks == cell.k)[0])
        j = int(np.flatnonzero(self.strengths == cell.strength)[0])
        plain = self.choice(measure, i, j)
        scores = MEASURES[measure].sign * cell.validation
        said = apply_map(plain.said, cell.map)
        return replace(plain, map=cell.map, scores=scores, said=said)


@dataclass(frozen=True)
class Choice:
    """What was chosen on a split, and what came of it.

    Attributes
    ----------
    loss, weights : str
    k, share, strength : float
    map : tuple of float or None
        Of the decision values, if they are mapped.
    scores : ndarray of shape (n_folds,)
        Of the validation, higher being better.
    fold_to_rest : float
        Size of a validation fold over that of the part it is left out of.
    rows : ndarray of int of shape (n_rows,)
        Of the test part, as places among those that are judged.
    said : ndarray of shape (n_problems, n_rows)
        Decision values of these rows, mapped if they are; of no rows if this is no choice of any measure.
    drop : float
        The part of the largest losses that was set aside.
    """

    loss: str
    weights: str
    k: float
    share: float
    strength: float
    map: Map | None
    scores: Array
    fold_to_rest: float
    rows: npt.NDArray[np.intp]
    said: Array
    drop: float = 0.0

    @property
    def score(self) -> float:
        """The mean of the validation, higher being better."""
        return float(self.scores.mean())


def best_of_one(scores: Array) -> tuple[int, int]:
    """Return the cell of the maximum that is best in validation, from scores of shape (n_folds, n_ks, n_strengths)."""
    return 0, choose_best(scores[:, :1])[1]


def best_of_all(scores: Array) -> tuple[int, int]:
    """Return the cell of the average that is best in validation, from scores of shape (n_folds, n_ks, n_strengths)."""
    return scores.shape[1] - 1, choose_best(scores[:, -1:])[1]


def best_below_all(scores: Array, below_all: slice, fold_to_rest: float) -> tuple[int, int] | None:
    """Return the cell of AT_k with k < n: the largest within half a standard error of the best; None without such k."""
    inner = scores[:, below_all]
    if inner.shape[1] == 0:
        return None
    i, j = choose_within_error(inner, fold_to_rest, _ERRORS)
    return below_all.start + i, j


def leads(one: Choice, other: Choice) -> bool:
    """Return whether a choice is better than another in validation by more than half a standard error."""
    lead = one.scores - other.scores
    return bool(lead.mean() > _ERRORS * corrected_standard_error(lead, one.fold_to_rest))


def choose(
    grids: Sequence[Grid], measure: str, *, contest: bool = False
) -> tuple[Choice, Choice, Choice | None] | None:
    """Return what average and AT_k choose on one split, by a measure.

    Parameters
    ----------
    grids : sequence of Grid
        Of the split; those without the measure are left out.
    measure : str
    contest : bool, default=False
        Whether decision values may be mapped.

    Returns
    -------
    average : Choice
        The best in validation.
    atk : Choice
        The best with k < n if it leads the average by more than half a standard error, else the average itself.
    below_all : Choice or None
        The best with k < n, whether it leads or not; None if no grid has any.
    """
    averages: list[Choice | None] = []
    others: list[Choice | None] = []
    for grid in grids:
        if measure not in grid.validation:
            continue
        scores = grid.scores(measure)
        averages.append(grid.choice(measure, *best_of_all(scores)))
        cell = best_below_all(scores, grid.below_all, grid.fold_to_rest)
        others.append(None if cell is None else grid.choice(measure, *cell))
        if contest:
            averages.append(grid.mapped_choice("average", measure))
            others.append(grid.mapped_choice("atk", measure))
    average, below = best_choice(averages), best_choice(others)
    if average is None:
        return None
    return average, below if below is not None and leads(below, average) else average, below


def best_choice(choices: Iterable[Choice | None]) -> Choice | None:
    """Return the first of those choices that are best in validation; None if there are none."""
    return max((choice for choice in choices if choice is not None), key=lambda choice: choice.score, default=None)


def method_choices(grids: Sequence[Grid], measure: str) -> dict[Method, Choice]:
    """Return what every method chooses on one split by a measure, loss by loss and weights by weights."""
    chosen: dict[Method, Choice] = {}
    for grid in grids:
        found = choose([grid], measure)
        if found is None:
            continue
        average, atk, below = found
        if grid.ks[0] <= 1.0 < grid.ks[-1]:
            cell = best_of_one(grid.scores(measure))
            chosen[Method("maximum", grid.loss, grid.weights)] = grid.choice(measure, *cell)
        chosen[Method("average", grid.loss, grid.weights)] = average
        if below is not None:
            chosen[Method("atk", grid.loss, grid.weights)] = atk
    return chosen


def ratio_of_parts(shares: Mapping[str, float]) -> float:
    """Return the size of a test part over that of its training part, from the shares of the rows that they have."""
    return shares["test"] / shares["train"]


def collect_grids(records: Iterable[Record], dataset: str) -> dict[int | None, list[Grid]]:
    """Return the grids of a data set, per split."""
    found: dict[tuple[int | None, str, str, float], dict[str, list[Record]]] = {}
    for record in records:
        if record["record"] in ("cell", "map", "said") and record["dataset"] == dataset:
            kinds = found.setdefault((record["split"], record["loss"], record["weights"], record.get("drop", 0.0)), {})
            kinds.setdefault(record["record"], []).append(record)
    grids: dict[int | None, list[Grid]] = {}
    for key in sorted(found, key=lambda key: (str(key[0]), in_order(key[1], key[2]), key[3])):
        split, loss, weights, drop = key
        grids.setdefault(split, []).append(_grid(loss, weights, drop, found[key]))
    return grids


def _grid(loss: str, weights: str, drop: float, found: dict[str, list[Record]]) -> Grid:
    """Arrange the cells of one path."""
    cells = found["cell"]
    ks, strengths = (sorted({cell[axis] for cell in cells}) for axis in ("k", "strength"))
    places = {(cell["k"], cell["strength"]): cell for cell in cells}
    table = [[places[k, strength] for strength in strengths] for k in ks]
    first = table[0][0]
    return Grid(
        loss,
        weights,
        np.array(ks),
        np.array([row[0]["share"] for row in table]),
        np.array(strengths),
        first["n_folds"],
        {
            name: np.moveaxis(np.array([[cell["validation"][name] for cell in row] for row in table]), 2, 0)
            for name in first["validation"]
        },
        {name: np.array([[cell["test"][name] for cell in row] for row in table]) for name in first["test"]},
        {
            (record["aggregate"], record["measure"]): Mapped(
                record["k"], record["strength"], (record["map"][0], record["map"][1]), np.array(record["validation"])
            )
            for record in found.get("map", [])
        },
        np.array([row for record in found.get("said", []) for row in record["rows"]], dtype=np.intp),
        {
            (cell["k"], cell["strength"]): np.array(cell["decisions"])
            for record in found.get("said", [])
            for cell in record["cells"]
        },
        drop,
    )
