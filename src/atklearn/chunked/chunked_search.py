"""Choosing k and C by cross-validation on chunks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import parallel_config
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.utils import check_random_state

from atklearn.chunked.checkpoint import Checkpoint, subject_of
from atklearn.chunked.chunked_base import OnChunks
from atklearn.chunked.chunked_posing import ChunkedData, pose
from atklearn.chunked.few_rows import few_rows
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.sights import FoldPart, Labels
from atklearn.chunked.survey import survey
from atklearn.estimators.callbacks import FitProgress
from atklearn.estimators.fitting import posing_of
from atklearn.estimators.linear_base import LinearATk
from atklearn.estimators.search_base import LinearATkCV
from atklearn.losses.individual import Array
from atklearn.losses.messages import shown
from atklearn.problems.posing import Posing
from atklearn.selection.choosing import AUTO_ROWS, Search
from atklearn.selection.folds import GRID_TOL, fill_cells
from atklearn.selection.judging import Judge
from atklearn.selection.paths import grid_cells

__all__ = ["ChunkedATkCV"]


@dataclass(frozen=True)
class ChunkedFold:
    """A grid of fits on the chunks' rows outside a fold, to be judged on those inside; of many, on a sample of them.

    Attributes
    ----------
    posing : Posing
    fleet : Fleet
    data : ChunkedData
    classes : ndarray or None
    part : FoldPart
        The rows to fit.
    number : int
        Of the fold.
    ks, Cs : ndarray
    max_iter : int
    is_weighted : bool
    checkpoint : Checkpoint or None
    most_loss : float
        See :func:`atklearn.selection.folds.fill_cells`.
    """

    posing: Posing
    fleet: Fleet
    data: ChunkedData
    classes: npt.NDArray[Any] | None
    part: FoldPart
    number: int
    ks: Array
    Cs: Array
    max_iter: int
    is_weighted: bool
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
        unseen = self._unseen()
        surveyed = survey(self.fleet, self.data.n_features, has_labels=self.classes is not None, part=self.part)
        if self.classes is not None:
            surveyed = surveyed.among(self.classes)
        names = 1 if self.classes is None else self.classes.size
        posed = pose(
            self.posing, self.fleet, self.data, surveyed, part=self.part, first_token=(1 + self.number) * names
        )
        cells = grid_cells(posed, self.ks, self.Cs, GRID_TOL, self.max_iter)
        models = ((i, j, posed.coefficients(solutions)) for i, j, solutions in cells)
        fill_cells(out, models, judge.on(*unseen), self.most_loss)
        if self.checkpoint is not None:
            self.checkpoint.keep(name, out.copy())
        return out

    def _unseen(self) -> tuple[Any, Any, Array | None]:
        """Return X, y and sample weights to judge on."""
        part = FoldPart(self.part.n_folds, self.part.fold, self.part.seed, is_held_out=True)
        surveyed = survey(self.fleet, self.data.n_features, has_labels=self.classes is not None, part=part)
        X, y, mass = surveyed.sampled(None if self.classes is None else Labels(self.classes))
        labels = y if self.classes is None else self.classes[y.astype(np.intp)]
        return X, labels, mass if self.is_weighted else None


class ChunkedATkCV(OnChunks, LinearATkCV):
    """Base of the cross-validated estimators on chunks; it goes before the one in memory in the list of bases."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose k and C, and fit them.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Anything that can be sliced by rows, such as an array in a memory-mapped file.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
        groups : None
            Not for chunks: folds are drawn row by row.

        Returns
        -------
        self : estimator
        """
        if groups is not None or not (self.cv is None or isinstance(self.cv, Integral)) or self.n_jobs not in (None, 1):
            raise ValueError(
                "On chunks, cv is expected to be a number of folds or None, n_jobs and groups None, got "
                f"cv={shown(self.cv)}, n_jobs={shown(self.n_jobs)}, groups={shown(groups)}; folds are drawn row by "
                "row, and the engine has all the workers."
            )
        self._refuse_drop()
        self._forget()
        data = self._open(X, y, sample_weight)
        fleet = Fleet(data.engine)
        try:
            progress = FitProgress(self, None, None, None)
            posing = posing_of(self, "classification" if isinstance(self, ClassifierMixin) else "regression")
            surveyed = survey(fleet, data.n_features, has_labels=posing.is_classification)
            self._name_features(data)
            posed = pose(posing, fleet, data, surveyed)
            counted = surveyed.counted(Labels(surveyed.classes) if posing.is_classification else None)
            self._survey(posed, counted.n_rows)
            checkpoint = None
            with parallel_config(backend="sequential"):  # every fit has all the workers
                if self.cv is None:
                    self._run_default(posing, *few_rows(fleet, surveyed, AUTO_ROWS), progress)
                else:
                    ks, Cs = self._given_ks(), self._Cs_of(self._total)
                    if self.checkpoint is not None:
                        grids = {"ks_used": ks, "Cs_used": Cs}
                        subject = subject_of(self._local_parameters(), counted, **grids)
                        checkpoint = Checkpoint.at(self.checkpoint, subject)
                    folds = [
                        ChunkedFold(
                            posing, fleet, data, getattr(self, "classes_", None), part, number, ks, Cs, self.max_iter,
                            sample_weight is not None, checkpoint,
                        )
                        for number, part in enumerate(self._parts(counted.n_rows))
                    ]  # fmt: skip
                    judge, criterion = self._judge()
                    search = Search(folds, judge, criterion, ks, Cs, 1.0 / (int(self.cv) - 1))
                    self._run(search, progress)
        finally:
            fleet.close()
        self._refit(X, y, sample_weight)
        if checkpoint is not None:
            checkpoint.done()
        progress.finish()
        return self

    def _parts(self, n_rows: int) -> list[FoldPart]:
        """Return the training parts of all folds."""
        n_folds = int(self.cv)
        if not 2 <= n_folds <= n_rows:
            raise ValueError(f"cv is expected to be between 2 and the number of samples, {n_rows}, got {n_folds}.")
        seed = int(check_random_state(self.random_state).randint(1, 2**31 - 1))
        return [FoldPart(n_folds, fold, seed) for fold in range(n_folds)]

    def _template(self, **options: Any) -> LinearATk:
        """Return the plain estimator on chunks; its checkpoint is a file beside."""
        path = None if self.checkpoint is None else f"{self.checkpoint}.fit"
        return super()._template(checkpoint=path, **options)
