"""What estimators on chunks share, whatever their engine: survey, statement of the problems, solution, checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import _clone_parametrized, _fit_context
from sklearn.utils import Tags

from atklearn.chunked.checkpoint import Checkpoint, subject_of
from atklearn.chunked.chunked_posing import ChunkedData, pose
from atklearn.chunked.few_rows import few_rows
from atklearn.chunked.fleet import Fleet
from atklearn.chunked.survey import survey
from atklearn.estimators.callbacks import FitProgress
from atklearn.estimators.fitting import keeping_fitted_state, posing_of, warn_unless_converged
from atklearn.estimators.linear_base import LinearATk
from atklearn.losses.individual import IndividualLoss
from atklearn.losses.messages import shown
from atklearn.problems.posing import Posed
from atklearn.problems.solution import Solution
from atklearn.selection.choosing import AUTO_ROWS
from atklearn.solvers.exact.newton import Progress

__all__ = ["ChunkedATk", "OnChunks"]


class OnChunks(ABC):
    """What plain and cross-validated estimators on chunks share: parameters beside the local ones, and the data.

    A subclass says by ``_open`` how data become chunks.
    """

    _local: ClassVar[type[Any]]
    _own_parameters: ClassVar[dict[str, Any]] = {"checkpoint": None}  # with their defaults
    _own_constraints: ClassVar[dict[str, list[Any]]] = {"checkpoint": [str, Path, None]}
    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _shared_parameters: ClassVar[tuple[str, ...]] = ()  # that copies have in common
    checkpoint: str | Path | None
    drop: float

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "_local" in vars(cls):  # all parameters of the estimator in memory, whatever they are, and its own
            cls.__init__ = _joined_init(cls._local, cls._own_parameters)  # type: ignore[method-assign]
            cls._parameter_constraints = {**cls._local._parameter_constraints, **cls._own_constraints}

    def _local_parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator in memory."""
        return {name: getattr(self, name) for name in self._local().get_params(deep=False)}

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy; what it works with, a client or executor, is the same and not a copy of it."""
        shared = {name: getattr(self, name) for name in self._shared_parameters}
        vars(self).update(dict.fromkeys(shared))
        try:
            copy: Self = _clone_parametrized(self)
        finally:
            vars(self).update(shared)
        vars(copy).update(shared)
        return copy

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.array_api_support = False  # chunks are arrays
        return tags

    @abstractmethod
    def _open(self, X: Any, y: Any, sample_weight: Any) -> ChunkedData:
        """Return the data as an engine holds them."""

    def _refuse_drop(self) -> None:
        """Raise if rows are to be set aside: every round of that would take new rows from all chunks."""
        if self.drop:
            raise ValueError(
                f"On chunks, drop is expected to be 0, got {shown(self.drop)}; set rows aside in memory, with the "
                "estimator of the same name in atklearn on as many rows as fit."
            )

    def _name_features(self, data: ChunkedData) -> None:
        """Publish what is known of the features."""
        self.n_features_in_ = data.n_features
        if data.names is not None:
            self.feature_names_in_ = np.array(data.names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def to_local(self) -> Any:
        """Return the fitted model as the estimator in memory, to predict there.

        It has all that was fitted but ``sample_weights_``, which have an entry for every row.

        Returns
        -------
        local : estimator
            Of the same name, from ``atklearn``.
        """
        local = self._local(**self._local_parameters())
        for name, value in vars(self).items():
            if name.endswith("_") and not name.startswith("_") and name != "sample_weights_":
                setattr(local, name, value.to_local() if isinstance(value, OnChunks) else value)
        return local


def _joined_init(local: type[Any], own: dict[str, Any]) -> Callable[..., None]:
    """Return an ``__init__`` that stores the parameters of a class, and some more, under a signature that shows all."""
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in own.items()]

    def store(self: Any, *arguments: Any, **named: Any) -> None:
        given = {name: named.pop(name, default) for name, default in own.items()}
        local.__init__(self, *arguments, **named)
        vars(self).update(given)

    store.__signature__ = Signature([*signature(local.__init__).parameters.values(), *more])  # type: ignore[attr-defined]
    return store


class ChunkedATk(OnChunks, LinearATk):
    """Base of the plain estimators on chunks; it goes before the one in memory in the list of bases."""

    _open_checkpoint: Checkpoint | None = None

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Anything that can be sliced by rows, such as an array in a memory-mapped file.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : estimator
        """
        if self.solver != "exact":
            raise ValueError(
                f"On chunks, solver is expected to be 'exact', got {shown(self.solver)}; for stochastic steps over "
                "blocks of rows use SGDATkClassifier or SGDATkRegressor."
            )
        self._refuse_drop()
        with keeping_fitted_state(self):
            data = self._open(X, y, sample_weight)
            fleet = Fleet(data.engine)
            try:
                posing = posing_of(self, self._task)
                surveyed = survey(fleet, data.n_features, has_labels=posing.is_classification)
                self._name_features(data)
                k, factor = self._given_k()
                if self._chooses_k():
                    k, factor = self._auto_k(posing, *few_rows(fleet, surveyed, AUTO_ROWS))
                posed = pose(posing, fleet, data, surveyed, k=k)
                progress = _Following(self, fleet, posing.loss)
                posed, solutions = self._solve(posed, factor, progress)
                self._publish(posed, solutions)
                self.n_passes_ = fleet.reads + data.n_reads_to_spread
                warn_unless_converged(solutions, posed.targets.names, self.tol, self.C_)
                progress.finish()
            finally:
                self._open_checkpoint = None
                fleet.close()
        return self

    def _solve(self, posed: Posed, factor: float, progress: FitProgress) -> tuple[Posed, list[Solution]]:
        """Solve, going on from the checkpoint if there is one."""
        assert isinstance(progress, _Following)
        progress.checkpoint = self._checkpoint(posed)
        solved = super()._solve(posed, factor, progress)
        if progress.checkpoint is not None:
            progress.checkpoint.done()
        return solved

    def _checkpoint(self, posed: Posed) -> Checkpoint | None:
        """Return the checkpoint of this fit, if one is asked for."""
        if self.checkpoint is not None:
            rows: Any = posed.problems[0].rows
            subject = subject_of(self._local_parameters(), rows.counted, k_used=posed.k)
            self._open_checkpoint = Checkpoint.at(self.checkpoint, subject)
        return self._open_checkpoint

    def _starts(self, posed: Posed) -> list[Solution | None]:
        """Return where the checkpoint has got to, or else the previous solutions if a warm start is asked for."""
        starts = super()._starts(posed)
        if self._open_checkpoint is not None:
            rows: list[Any] = [problem.rows for problem in posed.problems]
            found = [
                self._open_checkpoint.start(name, each) for name, each in zip(posed.targets.names, rows, strict=True)
            ]
            starts = [one or other for one, other in zip(found, starts, strict=True)]
        return starts


class _Following(FitProgress):
    """Progress of a fit on chunks: it notes what was reached, and tells how often the data were read."""

    def __init__(self, estimator: Any, fleet: Fleet, loss: IndividualLoss) -> None:
        super().__init__(estimator, None, None, None)
        self.fleet, self.loss = fleet, loss
        self.checkpoint: Checkpoint | None = None

    def following(self, problem: str) -> Progress | None:
        """Return what the solver calls while it works on the named problem."""
        report = super().following(problem)
        if report is None and self.checkpoint is None:
            return None

        def follow(step: int, objective: float, gap: float) -> bool:
            point = self.fleet.latest() if self.fleet.latest is not None else None
            # where zero may be optimal the hinge stands in for the loss: what it has reached is no start for this one
            if self.checkpoint is not None and point is not None and type(point.rows.loss) is type(self.loss):
                self.checkpoint.note(problem, point)
            return report is not None and bool(report(step, objective, gap))

        return follow

    def tail(self) -> str:
        """Return what else a line of progress says."""
        return f", {self.fleet.reads} passes over the data"
