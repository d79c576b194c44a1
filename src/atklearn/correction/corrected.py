"""A model and a correction of its tail: cross-fit, choose, fit the layer to what was left out, the models to all."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, _fit_context, clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import BaseCrossValidator, KFold, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping, _routing_enabled, process_routing
from sklearn.utils.validation import check_consistent_length, check_is_fitted, has_fit_parameter, validate_data

from atklearn.correction.cross_fitting import ModelToFit, cross_fit, cross_fit_apart, fit_models, linear_share
from atklearn.correction.evidence import TailProfile
from atklearn.correction.layer import CorrectionFold, Layer, OutOfFold, Target
from atklearn.correction.rows import RowEncoder, SeenColumns
from atklearn.encoding.encoded import Coefficients, check_mass
from atklearn.encoding.frames import column_names, some_columns
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.estimators.shared import Constraints, published_at_once
from atklearn.losses.aggregate import resolve_k, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.runtime.messages import shown, stack_level
from atklearn.selection.choosing import Criterion, Search, Selection
from atklearn.selection.folds import Places, Split, WorstLosses

__all__ = ["CS", "FEWEST_ROWS", "KS", "LINEAR", "RULE", "SURE", "Splitter", "TailCorrected"]

Splitter: TypeAlias = BaseCrossValidator | Iterable[tuple[npt.ArrayLike, npt.ArrayLike]] | int | str

# The grid (docs/decisions/0030), and how many rows k and C are chosen on.
KS = np.array([0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 1.0])
CS = np.array([1.0, 100.0, 10_000.0])
_CHOICE_ROWS = 10_000
RULE = "one_standard_error"
# Smaller k are not tried on a fold where one costs so much more than the budget.
_FAR_BEYOND = 0.2
_FOLDS = 5
# Models of different folds differ by what was left out of them; where this part of it is linear in what the correction
# sees, it could tell. It is looked at on so many rows.
LINEAR = 0.5
_SAMPLED = 400
_MOST_SPLITS = 12  # whose pairs are fitted, too
# The lead on rows left out that is not chance, in standard errors: one-sided, one time in twenty.
SURE = 1.645
FEWEST_ROWS = 8  # to fit a correction on


class TailCorrected(BaseEstimator, ABC):
    """Base of the two estimators: what is cross-fitted, chosen, fitted and published."""

    selection_: Selection
    correction_: ATkClassifier | ATkRegressor | None
    layer_: Layer | None
    __metadata_request__fit: ClassVar[dict[str, str]] = {"groups": UNUSED}  # it is the splitter's
    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [HasMethods(["fit"]), None],
        "tail": [Interval(Real, 0.0, 1.0, closed="right")],
        "at_most": [Interval(Real, 0.0, None, closed="both"), None],
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"auto", "max"})],
        "C": [Interval(Real, 0.0, None, closed="neither"), None],
        "experts": [StrOptions({"auto"}), list, tuple, None],
        "features": [StrOptions({"all", "prediction"}), list, HasMethods(["fit", "transform"])],
        "cv": ["cv_object", StrOptions({"prefit"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, **params: Any) -> Self:
        """Cross-fit the model and its experts, choose the correction, and fit all of them.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Whatever the estimator takes.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Handed on to the models that take weights.
        groups : array-like of shape (n_samples,), default=None
            Handed on to the splitter.
        **params : dict
            Metadata for the estimator and the splitter, by scikit-learn's metadata routing, where that is enabled.

        Returns
        -------
        self : estimator
        """
        X = self._entered(X, reset=True)
        check_consistent_length(X, y, sample_weight)
        mass = check_mass(sample_weight, np.shape(X)[0])
        y = self._checked(y, mass)
        if self.k != "auto":
            resolve_k(self.k, float(mass.sum()))  # says what is wrong with it before anything is fitted
        target = self._target(y, mass)
        self.encoder_ = self._encoder()
        features = np.empty((len(y), 0)) if self.encoder_ is None else self.encoder_.fit_transform(self._taken(X), y)
        if groups is not None:
            params["groups"] = groups
        models, split_params = self._models(X, sample_weight, params)
        parts = self._splitter(y).split(X, y, **split_params)
        splits: list[Split] = [(np.asarray(train), np.asarray(test)) for train, test in parts]
        random = check_random_state(self.random_state)
        sample = random.permutation(len(y))[:_SAMPLED]
        predictions, known, sampled = cross_fit(models, X, y, splits, self._predict, self.n_jobs, sample)
        if known.size < len(y):
            warnings.warn(
                f"cv leaves {len(y) - known.size} of {len(y)} rows without out-of-fold predictions; the correction is "
                "fitted and chosen on the others.",
                UserWarning,
                stacklevel=stack_level(),
            )
        known = known[mass[known] > 0.0]
        rows = OutOfFold(predictions, features, target, mass, self._n_problems)
        left_out = rows if known.size == len(y) else rows.take(known)
        of_folds = self._kept_apart(rows, left_out.view(), models, X, y, splits, sampled, sample)
        some = known if known.size <= _CHOICE_ROWS else np.sort(random.choice(known, _CHOICE_ROWS, replace=False))
        cap = self._choose(of_folds, splits, some)
        if self.is_corrected_:
            self._fit_layer(left_out, cap, weighted=sample_weight is not None)
        else:
            models = models[:1]
            self.correction_ = self.layer_ = None
        self.estimator_, *self.experts_ = fit_models(models, X, y, self.n_jobs)
        return self

    def _kept_apart(
        self, rows: OutOfFold, view: SeenColumns, models: list[ModelToFit], X: Any, y: npt.NDArray[Any],
        splits: Sequence[Split], sampled: Array, sample: Places,
    ) -> list[OutOfFold]:  # fmt: skip
        """Return the rows as every fold may see them: see :func:`cross_fit_apart`, for models that need it."""
        width = self._n_problems
        seen = view.transform(rows.predictions[sample], rows.X[sample])[:, view.n_predictions :]
        columns = [np.arange(width) + place * width for place in range(len(models))]
        needed = [place for place, own in enumerate(columns) if linear_share(sampled[..., own], seen) > LINEAR]
        if needed and len(splits) > _MOST_SPLITS:
            warnings.warn(
                f"With {len(splits)} parts, models of different parts differ by what the correction sees, and what it "
                f"seems to gain may be what it reads from that; use {_MOST_SPLITS} parts at most.",
                UserWarning,
                stacklevel=stack_level(),
            )
        if not needed or len(splits) > _MOST_SPLITS:
            return [rows] * len(splits)
        found = cross_fit_apart([models[place] for place in needed], X, y, splits, self._predict, self.n_jobs)
        own, of_folds = np.concatenate([columns[place] for place in needed]), []
        for there, values in found:
            predictions = rows.predictions.copy()
            if there.size:
                predictions[np.ix_(there, own)] = values
            of_folds.append(rows._replace(predictions=predictions))
        return of_folds

    def _choose(self, of_folds: Sequence[OutOfFold], splits: Sequence[Split], known: Places) -> float:
        """Choose k and C on the rows left out, and publish what that brings and costs; return the cap chosen."""
        rows = of_folds[0]
        among = np.zeros(len(rows.mass), dtype=bool)
        among[known] = True
        warn_of_one_row(self.k)
        total = float(rows.mass[known].sum())
        ks = KS if self.k == "auto" else np.array([min(resolve_k(self.k, total) / total, 1.0)])
        pairs = np.array([(C, cap) for C in self._Cs(rows) for cap in self._caps()])
        most = np.inf if self.at_most is None else (1.0 + self.at_most) * (1.0 + _FAR_BEYOND)
        folds = [
            CorrectionFold(own, (train[among[train]], test[among[test]]), ks, pairs, self.tail, most)
            for own, (train, test) in zip(of_folds, splits, strict=True)
        ]
        folds = [fold for fold in folds if self._is_enough(rows, fold.split)]
        if not folds:
            raise ValueError(
                f"cv is expected to leave at least {FEWEST_ROWS} rows with out-of-fold predictions, of every class, to "
                f"fit a correction on, and others to judge it on, got {known.size} rows in {len(splits)} parts; use "
                "more rows, or fewer parts."
            )
        measure = f"worst {100 * self.tail:g} % of the {self._errors}"
        criterion = Criterion(measure, WorstLosses(self.tail), np.inf if self.at_most is None else self.at_most, RULE)
        sizes = [rows.mass[fold.split[1]].sum() / rows.mass[fold.split[0]].sum() for fold in folds]
        before = np.array([fold.score(fold.unseen.plain) for fold in folds])
        search = Search(folds, None, criterion, ks, pairs[:, 0], float(np.mean(sizes)), incumbent=before)
        search.run(self.n_jobs)
        selection = search.selection()
        is_asked = self.k != "auto" and self.C is not None
        self.profile_ = _profile(search, folds, is_asked)
        if is_asked:
            selection = replace(selection, reason="Corrected in any case: k and C were given.")
        elif selection.is_ahead and self.profile_.lead <= SURE * self.profile_.lead_error:
            reason = f"The model as it was: no correction lowers the {measure} by more than chance may."
            selection = replace(selection, is_ahead=False, reason=reason)
        self.selection_ = selection
        self.is_corrected_ = is_asked or selection.is_ahead
        place = self.profile_.shares.index(self.tail)
        if not self.is_corrected_:
            self.profile_ = self.profile_.uncorrected()
        self.tail_before_ = float(self.profile_.worst["plain"][place])
        self.tail_after_ = float(self.profile_.worst["corrected"][place])
        self.price_ = {name: self.profile_.price(name) for name in ("plain", "average")}
        return float(pairs[self.selection_.chosen[1], 1])

    def _fit_layer(self, rows: OutOfFold, cap: float, *, weighted: bool) -> None:
        """Fit the correction that was chosen to all rows left out."""
        view = rows.view()
        seen = view.transform(rows.predictions, rows.X)
        kind = ATkClassifier if is_classifier(self) else ATkRegressor
        correction = kind(self.loss, k=self.selection_.k, C=self.selection_.value)
        correction.fit(seen, rows.target.response(rows.own), rows.mass if weighted else None)
        model = Coefficients(np.atleast_2d(correction.coef_), np.atleast_1d(correction.intercept_))
        self.correction_ = correction
        self.layer_ = Layer.on(rows, view, seen, model, cap)

    def _corrected(self, X: Any) -> Array:
        """Return the corrected predictions, or decision values, shape (n_problems, n_samples)."""
        check_is_fitted(self, "estimator_")
        X = self._entered(X, reset=False)
        predictions = np.hstack([self._predict(model, X) for model in (self.estimator_, *self.experts_)])
        if self.layer_ is None:
            return np.clip(predictions[:, : self._n_problems].T, *self._bounds())
        features = np.empty((len(predictions), 0)) if self.encoder_ is None else self.encoder_.transform(self._taken(X))
        return self.layer_.decision(predictions, features)

    def _entered(self, X: Any, *, reset: bool) -> Any:
        """Return X as something with rows, its columns noted or compared with those of the fit."""
        X = X.tocsr() if sp.issparse(X) else (X if hasattr(X, "shape") else np.asarray(X))
        has_columns = self.features == "all" or isinstance(self.features, list) or hasattr(self, "n_features_in_")
        if len(X.shape) == 1 and has_columns:
            raise ValueError(
                f"X is expected to have rows and columns, got shape {X.shape}; Reshape your data: X.reshape(1, -1) is "
                "one row."
            )
        validate_data(self, X, skip_check_array=True, reset=reset)
        return X

    def _models(self, X: Any, sample_weight: Any, params: dict[str, Any]) -> tuple[list[ModelToFit], dict[str, Any]]:
        """Return the model and its experts with what their fits take, and what the splitter takes."""
        base, experts = self._base(), self._experts(np.shape(X)[0])
        if _routing_enabled():
            if sample_weight is not None:
                params["sample_weight"] = sample_weight
            routed = process_routing(self, "fit", **params)
            of_base, of_splitter = routed["estimator"]["fit"], routed["splitter"]["split"]
        else:
            unknown = params.keys() - {"groups"}
            if unknown:
                raise TypeError(
                    f"fit() got {sorted(unknown)}, which scikit-learn's metadata routing hands on once it is enabled: "
                    "sklearn.set_config(enable_metadata_routing=True)."
                )
            of_base, of_splitter = _weights_for(base, sample_weight), params
        found = [ModelToFit(base, of_base)]
        return found + [ModelToFit(each, _weights_for(each, sample_weight)) for each in experts], of_splitter

    def _base(self) -> BaseEstimator:
        """Return what is cross-fitted."""
        if self.cv != "prefit":
            return self._default_estimator() if self.estimator is None else self.estimator
        if self.estimator is None:
            raise ValueError('cv="prefit" expects the fitted model as estimator, got None; pass it.')
        check_is_fitted(self.estimator)
        return FrozenEstimator(self.estimator)

    def _splitter(self, y: npt.NDArray[Any] | None = None) -> BaseCrossValidator:
        """Return what cuts the rows into parts; a number draws as many at random."""
        number = _FOLDS if isinstance(self.cv, str) or self.cv is None else self.cv
        if not isinstance(number, Integral):
            return check_cv(number, y, classifier=is_classifier(self))
        kind = StratifiedKFold if is_classifier(self) else KFold
        return kind(int(number), shuffle=True, random_state=self.random_state)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return what metadata goes where.

        Returns
        -------
        router : MetadataRouter
        """
        to = MethodMapping()
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._base(), method_mapping=to.add(caller="fit", callee="fit"))
            .add(splitter=self._splitter(), method_mapping=MethodMapping().add(caller="fit", callee="split"))
        )

    def _taken(self, X: Any) -> Any:
        """Return the columns of X that the correction may see."""
        if not isinstance(self.features, list):
            return X
        names = column_names(X)
        places = [names.index(name) if names is not None and name in names else name for name in self.features]
        if not all(isinstance(place, Integral) and 0 <= int(place) < np.shape(X)[1] for place in places):
            raise ValueError(
                f"features is expected to be names or places of the {np.shape(X)[1]} columns of X, got "
                f"{shown(self.features)}; check them."
            )
        return some_columns(X, [int(place) for place in places])

    def _encoder(self) -> Any:
        """Return what makes numbers of X for the correction; None where it sees none."""
        if isinstance(self.features, str):
            return RowEncoder() if self.features == "all" else None
        return RowEncoder() if isinstance(self.features, list) else make_pipeline(clone(self.features), RowEncoder())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        base = self._default_estimator() if self.estimator is None else self.estimator
        of_base = get_tags(base).input_tags
        tags.input_tags.allow_nan, tags.input_tags.sparse = of_base.allow_nan, of_base.sparse
        return tags

    _errors: ClassVar[str]  # what they are called

    @property
    @abstractmethod
    def _n_problems(self) -> int:
        """One, or one per class of more than two."""

    @abstractmethod
    def _default_estimator(self) -> BaseEstimator:
        """Return the model for None."""

    @abstractmethod
    def _experts(self, n_samples: int) -> list[BaseEstimator]:
        """Return the experts."""

    @abstractmethod
    def _checked(self, y: Any, mass: Array) -> npt.NDArray[Any]:
        """Return y, checked, as models are fitted to it; publish what is known of it."""

    @abstractmethod
    def _target(self, y: npt.NDArray[Any], mass: Array) -> Target:
        """Return what is predicted."""

    @abstractmethod
    def _predict(self, model: BaseEstimator, X: Any) -> Array:
        """Return the predictions of a model, shape (n_samples, n_problems)."""

    @abstractmethod
    def _Cs(self, rows: OutOfFold) -> Array:
        """Return the C to try, ascending."""

    @abstractmethod
    def _caps(self) -> Sequence[float]:
        """Return the caps on decision values to try, ascending."""

    @abstractmethod
    def _bounds(self) -> tuple[float, float]:
        """Return the limits of predictions without a correction."""

    @abstractmethod
    def _is_enough(self, rows: OutOfFold, split: Split) -> bool:
        """Say whether a correction can be fitted on one part and judged on the other."""


def _weights_for(model: BaseEstimator, sample_weight: Any) -> dict[str, Any]:
    """Return the weights as a parameter of the fit of a model, if it takes any; of a pipeline, of its last step."""
    if sample_weight is None:
        return {}
    if isinstance(model, Pipeline):
        name, last = model.steps[-1]
        return {f"{name}__{key}": value for key, value in _weights_for(last, sample_weight).items()}
    return {"sample_weight": sample_weight} if has_fit_parameter(model, "sample_weight") else {}


def _profile(search: Search, folds: Sequence[CorrectionFold], is_asked: bool) -> TailProfile:
    """Return the profile of the rows that folds judge on, every fold with what is chosen without it."""
    found: dict[str, list[Array]] = {"plain": [], "corrected": [], "average": []}
    for place, fold in enumerate(folds):
        selection = search.selection(without=place if len(folds) > 1 else None)
        is_ahead = is_asked or selection.is_ahead
        cells = {selection.average, *([selection.chosen] if is_ahead else [])}
        predicted = {cell: _predicted(fold, *cell) for cell in cells}
        found["plain"].append(fold.unseen.plain)
        found["corrected"].append(predicted[selection.chosen] if is_ahead else fold.unseen.plain)
        found["average"].append(predicted[selection.average])
    target, mass = folds[0].rows.target, folds[0].rows.mass
    judged = np.concatenate([fold.split[1] for fold in folds])
    together = {name: np.hstack(parts) for name, parts in found.items()}
    return TailProfile.of(target.take(judged), mass[judged], together, folds[0].tail)


def _predicted(fold: CorrectionFold, k: int, pair: int) -> Array:
    """Return what one cell predicts of the rows that a fold judges on."""
    return next(fold.over(np.array([k]), np.array([pair]), np.inf).predicted())[2]
