"""Folds of rows in chunks: where a row belongs is drawn from its values, so it does not matter how rows are cut."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from sklearn.utils import check_random_state

from atklearn.chunked.checkpoint import Checkpoint
from atklearn.chunked.encoded_chunks import EncodedChunks
from atklearn.chunked.sights import FoldPart
from atklearn.losses.individual import Array
from atklearn.losses.messages import shown
from atklearn.selection.folds import GRID_TOL, Judging
from atklearn.selection.paths import grid_cells

__all__ = ["ChunkedFold", "fold_parts"]

_FOLDS = 5
# How often the default folds are drawn, for fewer samples than these; once for more, whose scores are sure enough.
_REPEATS = ((1_500, 5), (100_000, 2))


def fold_parts(n_rows: int, cv: Any, groups: Any, n_jobs: int | None, random_state: Any) -> list[FoldPart]:
    """Return the training parts of all folds, or say what chunks do not know how to do."""
    if groups is not None or not (cv is None or isinstance(cv, Integral)) or n_jobs not in (None, 1):
        raise ValueError(
            "On chunks of rows, cv is expected to be a number of folds or None, n_jobs and groups None, got "
            f"cv={shown(cv)}, n_jobs={shown(n_jobs)}, groups={shown(groups)}; folds are drawn row by row, and every "
            "fit has all the workers."
        )
    n_folds = _FOLDS if cv is None else int(cv)
    if not 2 <= n_folds <= n_rows:
        raise ValueError(f"cv is expected to be between 2 and the number of samples, {n_rows}, got {n_folds}.")
    repeats = 1
    if cv is None:
        repeats = next((times for below, times in _REPEATS if n_rows < below), 1)
    seeds = check_random_state(random_state).randint(1, 2**31 - 1, size=repeats)
    return [FoldPart(n_folds, fold, int(seed)) for seed in seeds for fold in range(n_folds)]


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
    """

    data: EncodedChunks
    part: FoldPart
    number: int
    ks: Array
    Cs: Array
    max_iter: int
    checkpoint: Checkpoint | None

    def fill(self, out: Array, judge: Judging) -> Array:
        """Write the score of every cell into ``out``, as soon as it is known; return it."""
        name = f"fold {self.number}"
        if self.checkpoint is not None and name in self.checkpoint.reached:
            out[:] = self.checkpoint.reached[name]
            return out
        part = self.part
        unseen = self.data.among(FoldPart(part.n_folds, part.fold, part.seed, is_held_out=True)).sampled()
        n_classes = 1 if self.data.classes is None else self.data.classes.size
        problems = self.data.among(part).problems(first_token=(1 + self.number) * n_classes)
        for i, j, solutions in grid_cells(problems, self.ks, self.Cs, GRID_TOL, self.max_iter):
            out[i, j] = judge(problems.coefficients(solutions), *unseen)
        if self.checkpoint is not None:
            self.checkpoint.keep(name, out.copy())
        return out
