"""Folds of rows in chunks: where a row belongs is drawn from its values, so it does not matter how rows are cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from atklearn.chunked.checkpoint import Checkpoint
from atklearn.chunked.chunk import FoldPart
from atklearn.chunked.encoded_chunks import EncodedChunks
from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown
from atklearn.selection.folds import GRID_TOL, Judge, fill_cells
from atklearn.selection.paths import grid_cells

__all__ = ["ChunkedFold", "fold_parts", "refuse_for_chunks"]


def fold_parts(n_rows: int, cv: int, random_state: Any) -> list[FoldPart]:
    """Return the training parts of so many folds."""
    if not 2 <= cv <= n_rows:
        raise ValueError(f"cv is expected to be between 2 and the number of samples, {n_rows}, got {cv}.")
    seed = int(check_random_state(random_state).randint(1, 2**31 - 1))
    return [FoldPart(cv, fold, seed) for fold in range(cv)]


def refuse_for_chunks(cv: Any, groups: Any, n_jobs: int | None) -> None:
    """Say what chunks do not know how to do, if that is asked for."""
    if groups is not None or not (cv is None or isinstance(cv, Integral)) or n_jobs not in (None, 1):
        raise ValueError(
            "On chunks of rows, cv is expected to be a number of folds or None, n_jobs and groups None, got "
            f"cv={shown(cv)}, n_jobs={shown(n_jobs)}, groups={shown(groups)}; folds are drawn row by row, and every "
            "fit has all the workers."
        )


@dataclass(frozen=True)
class ChunkedFold:
    """A grid of fits on the rows outside a fold, to be judged on those inside; of many, on a sample of them.

    Attributes
    ----------
    data : EncodedChunks
        All rows.
    part : FoldPart
        The rows to fit.
    number : int
        Of the fold.
    ks, Cs : ndarray
    max_iter : int
    checkpoint : Checkpoint or None
        The scores of folds that are finished are in it.
    most_loss : float
        See :func:`atklearn.selection.folds.fill_cells`.
    """

    data: EncodedChunks
    part: FoldPart
    number: int
    ks: Array
    Cs: Array
    max_iter: int
    checkpoint: Checkpoint | None
    most_loss: float = np.inf

    def over(self, ks: Array, values: Array, most_loss: float) -> ChunkedFold:
        """Return the fold with another grid of k and C."""
        return replace(self, ks=ks, Cs=values, most_loss=most_loss)

    def fill(self, out: Array, judge: Judge) -> Array:
        """Write score and mean loss of every cell into ``out``, as soon as it is known; return it."""
        name = f"fold {self.number}"
        if self.checkpoint is not None and name in self.checkpoint.reached:
            out[:] = self.checkpoint.reached[name]
            return out
        part = self.part
        unseen = judge.on(self.data.among(FoldPart(part.n_folds, part.fold, part.seed, is_held_out=True)).sampled())
        n_classes = 1 if self.data.classes is None else self.data.classes.size
        problems = self.data.among(part).problems(first_token=(1 + self.number) * n_classes)
        cells = grid_cells(problems, self.ks, self.Cs, GRID_TOL, self.max_iter)
        models = ((i, j, problems.coefficients(solutions)) for i, j, solutions in cells)
        fill_cells(out, models, unseen, self.most_loss)
        if self.checkpoint is not None:
            self.checkpoint.keep(name, out.copy())
        return out
