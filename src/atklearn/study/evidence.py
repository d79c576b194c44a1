"""What the cells of a comparison say: who chose what, how it did, whether the difference is more than luck.

A *method* is an aggregate loss (maximum, average, AT_k) with an individual loss and class weights. On every split its
C, and for AT_k its k, are chosen by validation within the training part alone; what counts is the test part. Two
further methods choose the individual loss and the class weights the same way: the best a user gets from the average,
and from AT_k. The verdict compares these two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from atklearn.losses.individual import Array
from atklearn.measures import MEASURES
from atklearn.selection.choosing import choose_best, choose_within_error, corrected_standard_error
from atklearn.study.methods import AGGREGATES, ANY, Aggregate, Method, in_order
from atklearn.study.results import Record

__all__ = [
    "Choice",
    "Comparison",
    "Difference",
    "Grid",
    "Recommendation",
    "choose",
    "collect_grids",
    "compare_methods",
    "paired_difference",
    "ratio_of_parts",
    "recommend",
]

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Grid:
    """The cells of one split for one individual loss and one kind of class weights.

    Attributes
    ----------
    loss, weights : str
    ks, shares : ndarray of shape (n_ks,)
        Ascending, in samples and as part of them.
    Cs : ndarray of shape (n_Cs,)
    n_folds : int or None
        Into how many folds the training part was divided; None if its validation part is a single one.
    validation : dict of ndarrays of shape (n_folds, n_ks, n_Cs)
    test : dict of ndarrays of shape (n_ks, n_Cs)
    groups : dict of ndarrays of shape (n_ks, n_Cs)
        The error of each group of rows on the test part, if groups were given.
    """

    loss: str
    weights: str
    ks: Array
    shares: Array
    Cs: Array
    n_folds: int | None
    validation: dict[str, Array]
    test: dict[str, Array]
    groups: dict[str, Array]

    @property
    def fold_to_rest(self) -> float:
        """Size of a validation fold over that of the part it is left out of."""
        if self.n_folds is None:
            raise ValueError("A grid of folds is expected, but this one has a single validation part.")
        return 1.0 / (self.n_folds - 1)


@dataclass(frozen=True)
class Choice:
    """What a method chose on a split, and what came of it."""

    loss: str
    weights: str
    k: float
    share: float
    C: float
    validation: float
    test: dict[str, float]
    groups: dict[str, float]


@dataclass(frozen=True)
class Difference:
    """A paired difference over the splits, with the corrected resampled t-test of Nadeau and Bengio (2003)."""

    mean: float
    error: float
    p_value: float


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison.

    Attributes
    ----------
    score : str
        The measure that chose and that counts.
    choices : dict
        Per method, its choice on every split.
    test_to_train : float
        Size of a test part over that of its training part.
    """

    score: str
    choices: dict[Method, list[Choice]]
    test_to_train: float

    @property
    def difference(self) -> Difference:
        """Of AT_k to the average, both with individual loss and class weights chosen; the measure's own sign."""
        return self.against_average(Method("atk", ANY, ANY))

    @property
    def verdict(self) -> Literal["helps", "hurts", "none"]:
        """What the difference says."""
        difference = self.difference
        if difference.p_value >= SIGNIFICANCE:
            return "none"
        return "helps" if MEASURES[self.score].sign * difference.mean > 0.0 else "hurts"

    def against_average(self, method: Method) -> Difference:
        """Return the difference of a method to the average with the same individual loss and class weights."""
        average = self.choices[Method("average", method.loss, method.weights)]
        return self.between(self.choices[method], average, self.score)

    def between(self, ours: list[Choice], others: list[Choice], measure: str) -> Difference:
        """Return the difference of two lists of choices, split by split."""
        differences = [a.test[measure] - b.test[measure] for a, b in zip(ours, others, strict=True)]
        return paired_difference(differences, self.test_to_train)


@dataclass(frozen=True)
class Recommendation:
    """What to use on these data, chosen by validation on all rows."""

    loss: str
    weights: str
    share: float
    C: float
    reason: str


def ratio_of_parts(shares: Mapping[str, float]) -> float:
    """Return the size of a test part over that of its training part, from the shares of the rows that they have."""
    return shares["test"] / shares["train"]


def collect_grids(records: Iterable[Record], dataset: str) -> dict[int | None, list[Grid]]:
    """Return the grids of a data set, per split."""
    cells: dict[tuple[int | None, str, str], list[Record]] = {}
    for record in records:
        if record["record"] == "cell" and record["dataset"] == dataset:
            cells.setdefault((record["split"], record["loss"], record["weights"]), []).append(record)
    grids: dict[int | None, list[Grid]] = {}
    for split, loss, weights in sorted(cells, key=lambda key: (str(key[0]), in_order(key[1], key[2]))):
        grids.setdefault(split, []).append(_grid(loss, weights, cells[split, loss, weights]))
    return grids


def _grid(loss: str, weights: str, cells: list[Record]) -> Grid:
    """Arrange the cells of one path."""
    ks, Cs = sorted({cell["k"] for cell in cells}), sorted({cell["C"] for cell in cells})
    places = {(cell["k"], cell["C"]): cell for cell in cells}
    table = [[places[k, C] for C in Cs] for k in ks]
    first = table[0][0]
    return Grid(
        loss,
        weights,
        np.array(ks),
        np.array([row[0]["share"] for row in table]),
        np.array(Cs),
        first["n_folds"],
        {
            name: np.moveaxis(np.array([[cell["validation"][name] for cell in row] for row in table]), 2, 0)
            for name in first["validation"]
        },
        {name: np.array([[cell["test"][name] for cell in row] for row in table]) for name in first["test"]},
        {name: np.array([[cell["groups"][name] for cell in row] for row in table]) for name in first.get("groups", {})},
    )


def choose(grid: Grid, aggregate: Aggregate, score: str) -> tuple[int, int]:
    """Return the cell a method chooses by validation.

    The maximum and the average choose the C with the best mean. AT_k, which includes the average, chooses as
    :class:`atklearn.ATkClassifierCV` does: the average unless a smaller k is better by more than the standard error.
    """
    scores = MEASURES[score].sign * grid.validation[score]
    if aggregate == "maximum":
        return 0, choose_best(scores[:, :1])[1]
    if aggregate == "average":
        return len(grid.ks) - 1, choose_best(scores[:, -1:])[1]
    i, j = choose_within_error(scores[:, 1:], grid.fold_to_rest)
    return i + 1, j


def _choice(grid: Grid, cell: tuple[int, int], score: str) -> Choice:
    i, j = cell
    return Choice(
        grid.loss,
        grid.weights,
        float(grid.ks[i]),
        float(grid.shares[i]),
        float(grid.Cs[j]),
        float(grid.validation[score][:, i, j].mean()),
        {name: float(values[i, j]) for name, values in grid.test.items()},
        {name: float(values[i, j]) for name, values in grid.groups.items()},
    )


def choices_of(grids: Sequence[Grid], score: str) -> dict[Method, Choice]:
    """Return what every method chooses on one split."""
    chosen: dict[Method, Choice] = {}
    for grid in grids:
        for aggregate in AGGREGATES:
            if aggregate == "maximum" and grid.weights != "plain":
                continue  # the one largest loss does not know weights
            cell = choose(grid, aggregate, score)
            chosen[Method(aggregate, grid.loss, grid.weights)] = _choice(grid, cell, score)
    for aggregate in ("average", "atk"):
        own = [choice for method, choice in chosen.items() if method.aggregate == aggregate]
        chosen[Method(aggregate, ANY, ANY)] = max(own, key=lambda choice: MEASURES[score].sign * choice.validation)
    return chosen


def paired_difference(differences: Sequence[float] | Array, test_to_train: float) -> Difference:
    """Test whether a mean over splits whose training parts overlap is zero.

    Parameters
    ----------
    differences : sequence of float
        One per split.
    test_to_train : float
        Size of a test part over that of its training part.

    Examples
    --------
    >>> paired_difference([-2.0, -1.5, -2.5, -2.0], 1 / 3).p_value < 0.05
    True
    """
    values = np.asarray(differences, dtype=np.float64)
    mean, error = float(values.mean()), float(corrected_standard_error(values, test_to_train))
    if values.size < 2:
        return Difference(mean, float("inf"), 1.0)
    if error == 0.0:  # the same on every split: no doubt, either way
        return Difference(mean, 0.0, 1.0 if mean == 0.0 else 0.0)
    return Difference(mean, error, float(2.0 * stats.t.sf(abs(mean) / error, values.size - 1)))


def compare_methods(grids: dict[int | None, list[Grid]], score: str, test_to_train: float) -> Comparison:
    """Return the outcome of a comparison from the grids of all its splits.

    Parameters
    ----------
    grids : dict
        As :func:`collect_grids` returns it.
    score : str
        The measure that chooses and that counts.
    test_to_train : float
        Size of a test part over that of its training part.
    """
    splits = sorted(split for split in grids if split is not None)
    per_split = [choices_of(grids[split], score) for split in splits]
    choices = {method: [chosen[method] for chosen in per_split] for method in per_split[0]}
    return Comparison(score, choices, test_to_train)


def recommend(comparison: Comparison, grids: Sequence[Grid]) -> Recommendation:
    """Return what to use: AT_k if it was seen to help, else the average; k and C by validation on all rows.

    Parameters
    ----------
    comparison : Comparison
    grids : sequence of Grid
        Of all rows.
    """
    aggregate: Aggregate = "atk" if comparison.verdict == "helps" else "average"
    chosen = choices_of(grids, comparison.score)[Method(aggregate, ANY, ANY)]
    on_splits = comparison.choices[Method("atk", ANY, ANY)]
    moved = sum(choice.share < 1.0 for choice in on_splits)
    if aggregate == "average":
        seen = "worse than the average" if comparison.verdict == "hurts" else "no better than the average beyond chance"
        reason = f"on the test parts AT_k was {seen}"
    elif chosen.share < 1.0:
        reason = (
            f"it is the largest k within one standard error of the best in cross-validation on all rows, and AT_k took "
            f"a k below n on {moved} of {len(on_splits)} splits"
        )
    else:
        reason = (
            f"on all rows the average is within one standard error of the best, although AT_k took a smaller k on "
            f"{moved} of {len(on_splits)} splits"
        )
    return Recommendation(chosen.loss, chosen.weights, chosen.share, chosen.C, reason)
