"""A grid of k and C on a part of the data: the one place that fits it on some rows to be judged on others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from atklearn.encoding.encoded import Coefficients, Encoded, Problems
from atklearn.losses.individual import Array
from atklearn.runtime.threads import steady_blas
from atklearn.selection.judging import Decides, Judge, Unseen
from atklearn.selection.paths import ATkPath, grid_cells, solve_path

__all__ = ["GRID_TOL", "FilledFold", "Fold", "Split", "cv_results", "fill_cells"]

Split: TypeAlias = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]

# Cells are compared, not published: their gap, relative to the objective, need not be finer than this.
GRID_TOL = 1e-3


class FilledFold(Protocol):
    """A part of the data on which a grid of k and of C, or of rounds, is fitted, to be judged on another part."""

    def fill(self, out: Array, judge: Judge) -> Array:
        """Write score and mean loss of every cell into ``out``, shape (n_ks, n_values, 2), as soon as it is known."""

    def over(self, ks: Array, values: Array, most_loss: float) -> Self:
        """Return the fold with another grid; it ends at the first k that is not worth going on: see fill_cells."""


def fill_cells(out: Array, cells: Iterable[tuple[int, int, Decides]], unseen: Unseen, most_loss: float) -> Array:
    """Write score and mean loss of cells as soon as they are fitted, from the largest k down; return all.

    Parameters
    ----------
    out : ndarray of shape (n_ks, n_values, 2)
        k ascending.
    cells : iterable of tuples
        Place of k, place of the other parameter, model.
    unseen : Unseen
        The rows to judge on.
    most_loss : float
        The first k ends it that has no cell whose mean loss is at most this times the least of the largest k.
    """
    for i, j, model in cells:
        larger = out[i + 1 :, :, 1]
        if larger.size and larger[0].min() / most_loss > larger[-1].min():
            break
        out[i, j] = unseen.score(model)
    return out


@dataclass(frozen=True)
class Fold:
    """A grid of fits on one part of the rows, to be judged on another; it can be sent to another process.

    Attributes
    ----------
    data : Encoded
        All samples; X, y and weights are None until they are :meth:`given`.
    split : tuple of ndarrays
        The rows to fit and the rows to judge on.
    ks, Cs : sequence of float
        The grid; k as counts or shares.
    tol, max_iter : float, int
        Of every fit.
    trim : float
        A count or a share of the largest losses that every fit sets aside.
    most_loss : float
        See :func:`fill_cells`.
    """

    data: Encoded
    split: Split
    ks: Sequence[float] | Array
    Cs: Sequence[float] | Array
    tol: float = GRID_TOL
    max_iter: int = 1000
    trim: float = 0
    most_loss: float = np.inf

    def given(self, X: Any, y: Any, weight: Any) -> Fold:
        """Return the fold with its arrays, which many folds have in common and which travel once."""
        return replace(self, data=replace(self.data, X=X, y=y, weight=weight))

    def problems(self) -> Problems:
        """Return the problems on the rows to fit."""
        return self.data.part(self.split[0]).problems(on_the_host=bool(self.trim))

    def path(self) -> ATkPath:
        """Fit all cells."""
        return solve_path(self.problems(), self.ks, self.Cs, self.tol, self.max_iter, trim=self.trim)

    def cells(self) -> Iterator[tuple[int, int, Coefficients]]:
        """Fit cell by cell; yield its place in the grid and its models."""
        problems = self.problems()
        for i, j, solutions in grid_cells(problems, self.ks, self.Cs, self.tol, self.max_iter, trim=self.trim):
            yield i, j, problems.coefficients(solutions)

    def over(self, ks: Array, values: Array, most_loss: float) -> Fold:
        """Return the fold with another grid of k and C."""
        return replace(self, ks=ks, Cs=values, most_loss=most_loss)

    @steady_blas()
    def fill(self, out: Array, judge: Judge) -> Array:
        """Write score and mean loss of every cell into ``out``, shape (n_ks, n_Cs, 2), as soon as it is known."""
        part = self.data.take(self.split[1])
        return fill_cells(out, self.cells(), judge.on(part if judge.takes_tensors else part.on_host()), self.most_loss)


def cv_results(scores: Array, ks: Array, Cs: Array) -> dict[str, Any]:
    """Return scores of shape (n_splits, n_ks, n_Cs) in the format of GridSearchCV; means are over finite scores."""
    flat = scores.reshape(len(scores), -1)
    k, C = (grid.ravel() for grid in np.meshgrid(ks, Cs, indexing="ij"))
    finished = np.isfinite(flat)
    count = finished.sum(axis=0)
    safe = np.maximum(count, 1)
    mean = np.where(count, np.where(finished, flat, 0.0).sum(axis=0) / safe, np.nan)
    spread = np.where(finished, flat - mean, 0.0)
    std = np.where(count, np.sqrt((spread**2).sum(axis=0) / safe), np.nan)
    # equal scores share the best rank; an unfinished cell comes last
    order = np.where(count, -mean, np.inf)
    rank = 1 + (order[None, :] < order[:, None]).sum(axis=1)
    return {
        "params": [{"k": float(a), "C": float(b)} for a, b in zip(k, C, strict=True)],
        "param_k": k,
        "param_C": C,
        **{f"split{fold}_test_score": row for fold, row in enumerate(flat)},
        "mean_test_score": mean,
        "std_test_score": std,
        "rank_test_score": rank.astype(np.int32),
    }
