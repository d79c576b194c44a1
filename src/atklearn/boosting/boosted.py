"""Boosted trees with the average top-k loss, as estimators on LightGBM."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import cleandoc
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, _fit_context, clone
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.sparsefuncs import min_max_axis
from sklearn.utils.validation import _check_y, check_consistent_length, check_is_fitted, validate_data

from atklearn.boosting.atk_objective import ATK, ATkMetric, check_sizes
from atklearn.boosting.trees import (
    BoostedTrees,
    EarlyStopping,
    Recipe,
    Rows,
    after,
    boost_problems,
    lightgbm_parameters,
    load_lightgbm,
    raw_predictions,
    rows_with_mass,
)
from atklearn.encoding.encoded import Encoded, ProblemEncoder, plain
from atklearn.encoding.frames import as_objects, column_names, has_categories, some_columns
from atklearn.estimators.shared import published_at_once
from atklearn.losses.aggregate import AverageTopK, resolve_k, warn_of_one_row
from atklearn.losses.individual import Array, IndividualLoss, LogLoss, Task, resolve_individual_loss
from atklearn.losses.labels import chosen_labels, class_probabilities
from atklearn.measures.catalogue import MEASURES, names_of_measures
from atklearn.selection.choosing import Criterion, Search, Selection
from atklearn.selection.distribution import Distribution
from atklearn.selection.folds import Judge, Places, Split, fill_cells

__all__ = ["ATkBoostingClassifier", "ATkBoostingRegressor"]

# Features as users pass them: arrays, data frames, sparse matrices.
Features: TypeAlias = npt.ArrayLike | sp.spmatrix | sp.sparray

# The grid: shares k/n, and numbers of rounds from a twentieth of the most on. There is no calibration bound for trees.
_SHARES = np.array([0.1, 0.2, 0.4, 0.7, 1.0])
_FOLDS = 5
_STAGES = 8
_LAST_TO_FIRST_STAGE = 20.0

_ZERO_OF_LIGHTGBM = 1e-35
_CHECKS: dict[str, object] = {"dtype": [np.float64, np.float32], "ensure_all_finite": "allow-nan"}


class Columns:
    """Which columns are categories, and the codes of theirs that were there when it was fitted.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> columns = Columns([1])
    >>> X = np.array([[0.5, 7.0], [0.1, 3.0]])
    >>> columns.fit_transform(BaseEstimator(), X, [1.0, 2.0])[0], columns.categorical
    (array([[0.5, 1. ],
           [0.1, 0. ]]), [1])
    """

    def __init__(self, categorical_features: Any) -> None:
        self.categorical_features = categorical_features
        self.categorical: list[int] = []
        self.encoder: OrdinalEncoder | None = None

    def fit_transform(self, estimator: Any, X: Any, y: Any, *, y_numeric: bool = False) -> tuple[Any, npt.NDArray[Any]]:
        """Return the columns as numbers, and y; the estimator gets ``n_features_in_`` and ``feature_names_in_``."""
        self.categorical = self._find(X)
        if not self.categorical:
            checked: tuple[Any, npt.NDArray[Any]] = validate_data(
                estimator, X, y, accept_sparse="csr", y_numeric=y_numeric, **_CHECKS
            )
            return checked
        validate_data(estimator, X, y, skip_check_array=True)
        y = _check_y(y, y_numeric=y_numeric, estimator=estimator)
        check_consistent_length(X, y)
        self.encoder = OrdinalEncoder(
            handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan
        ).fit(as_objects(X, self.categorical))
        return self._encode(X), y

    def transform(self, estimator: Any, X: Any) -> Any:
        """Return the columns of other rows as numbers; a category that was not there is missing."""
        if self.encoder is None:
            return validate_data(estimator, X, accept_sparse="csr", reset=False, **_CHECKS)
        validate_data(estimator, X, skip_check_array=True, reset=False)
        return self._encode(X)

    def _encode(self, X: Any) -> npt.NDArray[Any]:
        assert self.encoder is not None
        n_columns = np.shape(X)[1]
        out = np.empty((np.shape(X)[0], n_columns))
        numbers = [place for place in range(n_columns) if place not in self.categorical]
        if numbers:
            out[:, numbers] = check_array(some_columns(X, numbers), ensure_min_samples=0, **_CHECKS)
        out[:, self.categorical] = self.encoder.transform(as_objects(X, self.categorical))
        return out

    def _find(self, X: Any) -> list[int]:
        """Return the places of the columns that are categories."""
        wanted = self.categorical_features
        names = column_names(X)
        if wanted is None:
            return []
        if isinstance(wanted, str) and wanted == "from_dtype":
            if names is None:
                return []
            return [place for place, name in enumerate(names) if has_categories(X[name])]
        n_columns = np.shape(X)[1] if len(np.shape(X)) == 2 else 0
        places = [names.index(name) if names is not None and name in names else name for name in wanted]
        if not all(isinstance(place, int | np.integer) and 0 <= place < n_columns for place in places):
            raise ValueError(
                f'categorical_features is expected to be "from_dtype", None, or names or places of columns, '
                f"got {wanted!r} for {n_columns} columns."
            )
        return sorted({int(place) for place in places})


def _refuse_tiny(X: Rows) -> None:
    """Refuse columns all of whose entries LightGBM takes for zero, which some are not."""
    low, high = min_max_axis(X, 0, True) if sp.issparse(X) else (np.fmin.reduce(X), np.fmax.reduce(X))
    size = np.fmax(-low, high)
    tiny = np.flatnonzero((size > 0.0) & (size < _ZERO_OF_LIGHTGBM))
    if tiny.size:
        raise ValueError(
            f"The largest number in a column is expected to be 0 or at least {_ZERO_OF_LIGHTGBM:g}, since LightGBM "
            f"takes smaller ones for 0, got {size[tiny[0]]:g} in column {tiny[0]}; multiply that column."
        )


@dataclass(frozen=True)
class Boosted:
    """Trees of every problem, as a model to be judged."""

    trees: list[BoostedTrees]

    def decision(self, X: Rows) -> Array:
        """Return the raw predictions, shape (n_problems, n_rows)."""
        return raw_predictions(self.trees, X)


@dataclass(frozen=True)
class BoostedFold:
    """Boosting with every k on a part of the rows, to be judged on another part after several numbers of rounds.

    It is to boosted trees what :class:`atklearn.selection.folds.Fold` is to linear models.
    """

    data: Encoded
    split: Split
    recipe: Recipe
    ks: Array
    numbers: Array
    most_loss: float = np.inf

    def over(self, ks: Places, values: Places, most_loss: float) -> BoostedFold:
        """Return the fold with some k and numbers of rounds of its grid, by their places."""
        return replace(self, ks=self.ks[ks], numbers=self.numbers[values], most_loss=most_loss)

    def fill(self, out: Array, judge: Judge) -> Array:
        """Write score and mean loss of every cell into ``out``, as soon as it is known; return it."""
        return fill_cells(out, self._cells(), judge.on(self.data.take(self.split[1])).score, self.most_loss)

    def _cells(self) -> Iterator[tuple[int, int, Boosted]]:
        part, recipe = self.data.take(self.split[0]), replace(self.recipe, rounds=int(self.numbers[-1]))
        for i in range(self.ks.size)[::-1]:
            trees = boost_problems(part, float(self.ks[i]), recipe)
            for j, number in enumerate(self.numbers):
                yield i, j, Boosted(after(trees, int(number)))


class BoostedATk(BaseEstimator, ABC):
    """What both estimators are: parameters, k and rounds given or chosen, what is published of the trees."""

    _task: ClassVar[Task]
    classes_: npt.NDArray[np.generic]
    selection_: Selection
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        "loss": [str, IndividualLoss],
        "k": [Real, StrOptions({"auto", "max"})],
        "scoring": [str, callable, None],
        "tail": [Interval(Real, 0.0, 1.0, closed="right"), None],
        "at_most": [Interval(Real, 0.0, None, closed="both"), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0.0, None, closed="neither")],
        "num_leaves": [Interval(Integral, 2, None, closed="left")],
        "min_child_samples": [Interval(Integral, 0, None, closed="left")],
        "reg_lambda": [Interval(Real, 0.0, None, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0.0, 1.0, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "categorical_features": [StrOptions({"from_dtype"}), "array-like", None],
        "lightgbm_params": [dict, None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        loss: str | IndividualLoss = "squared_error",
        *,
        k: float | str = "auto",
        scoring: str | Callable[..., float] | None = None,
        tail: float | None = None,
        at_most: float | None = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        min_child_samples: int = 20,
        reg_lambda: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        categorical_features: str | Sequence[str | int] | None = "from_dtype",
        lightgbm_params: Mapping[str, object] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.scoring = scoring
        self.tail = tail
        self.at_most = at_most
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.min_child_samples = min_child_samples
        self.reg_lambda = reg_lambda
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.categorical_features = categorical_features
        self.lightgbm_params = lightgbm_params
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags

    @published_at_once
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Features, y: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Missing values are NaN; columns of categories are taken as such.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 counts in the loss as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : estimator
        """
        load_lightgbm()
        loss = resolve_individual_loss(self.loss, self._task)
        metric = self._metric() if self.early_stopping else None
        columns = Columns(self.categorical_features)
        X, y = columns.fit_transform(self, X, y, y_numeric=self._task == "regression")
        _refuse_tiny(X)
        encoder = ProblemEncoder(loss, "none", getattr(self, "class_weight", None), type(self).__name__)
        every = encoder.encode(X, y, sample_weight)
        data = rows_with_mass(every)
        check_sizes("Sample weights", data.mass)
        if data.classes is None:
            check_sizes("Targets", data.y)
        else:
            self.classes_ = data.classes
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        recipe = Recipe(self.n_estimators, self._lightgbm_parameters(seed), columns.categorical)
        if self.k == "auto":
            self.selection_ = self._choose(data, recipe)
            share, recipe = self.selection_.k, replace(recipe, rounds=int(self.selection_.value))
        else:
            warn_of_one_row(self.k)
            share = resolve_k(self.k, data.total) / data.total
        self._publish(every, data, share, self._boost(data, share, recipe, metric, seed))
        self.columns_ = columns
        return self

    def _raw(self, X: Features) -> Array:
        """Return the raw predictions, shape (n_problems, n_rows)."""
        check_is_fitted(self)
        return raw_predictions(self.trees_, self.columns_.transform(self, X))

    def _lightgbm_parameters(self, seed: int) -> dict[str, object]:
        return lightgbm_parameters(
            seed, learning_rate=self.learning_rate, num_leaves=self.num_leaves, reg_lambda=self.reg_lambda,
            min_child_samples=self.min_child_samples, num_threads=self.n_jobs, **(self.lightgbm_params or {}),
        )  # fmt: skip

    def _metric(self) -> ATkMetric:
        """Return what early stopping looks at, on rows that are held out."""
        measure = ATK if self.scoring is None else self.scoring
        if measure != ATK and measure not in MEASURES:
            raise ValueError(
                f"Early stopping expects scoring to be None, for the loss itself, or one of "
                f"{names_of_measures(self._task)}, got {self.scoring!r}; or pass early_stopping=False."
            )
        return ATkMetric(measure, self.loss, 1.0)

    def _boost(
        self, data: Encoded, share: float, recipe: Recipe, metric: ATkMetric | None, seed: int
    ) -> list[BoostedTrees]:
        """Boost all problems, on all rows or with some held out to stop early by."""
        on_round = _print_round if self.verbose else None
        if metric is None:
            return boost_problems(data, share, recipe, on_round=on_round)
        strata = None if data.classes is None else data.y
        train, test = train_test_split(
            np.arange(data.n_samples), test_size=self.validation_fraction, random_state=seed, stratify=strata
        )
        held = data.take(test)
        if metric.measure != ATK:
            held = replace(held, factors=None)  # measures know sample weights, and no class weights
        stopping = EarlyStopping(held, replace(metric, k=share), self.n_iter_no_change)
        return boost_problems(data.take(train), share, recipe, stopping, on_round)

    def _choose(self, data: Encoded, recipe: Recipe) -> Selection:
        """Choose the share k/n and the rounds by cross-validation.

        Each k has a number of rounds of its own that is best, so that both are chosen together. As for linear models,
        folds are cut from the samples as a distribution: neither their order nor repetition matters.
        """
        samples = Distribution.of(data.X, data.y, data.weight, classification=data.classes is not None)
        n_folds = min(_FOLDS, samples.rarest)
        rounds = np.geomspace(max(recipe.rounds / _LAST_TO_FIRST_STAGE, 1.0), recipe.rounds, _STAGES)
        numbers = np.unique(rounds.round()).astype(np.float64)
        folds = []
        if n_folds > 1:
            rows, weights, splits = samples.cut(n_folds, seed=0)
            pieces = replace(data.take(rows), weight=weights, is_weighted=True)
            folds = [BoostedFold(pieces, split, recipe, _SHARES, numbers) for split in splits]
        criterion = Criterion.asked(self._task, self.scoring, self.tail, self.at_most)
        lent = clone(self)
        lent.columns_ = Columns(None)  # a scorer gets columns that are numbers already
        judge = Judge.of(lent, criterion.scoring, data.n_features, data.classes, _lend_trees)
        search = Search(
            folds, judge, criterion, _SHARES, numbers, 1.0 / max(n_folds - 1, 1), "n_estimators",
            fallback=numbers.size - 1, narrows=True,
        )  # fmt: skip
        search.run()
        return search.selection()

    def _publish(self, every: Encoded, data: Encoded, share: float, trees: list[BoostedTrees]) -> None:
        """Set the fitted attributes, from all samples and from those with mass."""
        loss, top = data.encoder.loss, AverageTopK(share)
        losses = [loss(f, y) for f, y in zip(raw_predictions(trees, data.X), data.values, strict=True)]
        weights = every.spread([top.weights(each, data.mass) for each in losses])
        gains = np.sum([each.gains for each in trees], axis=0)
        self.trees_ = trees
        self.k_share_, self.k_ = float(share), float(share * data.total)
        self.feature_importances_ = gains / (gains.sum() or 1.0)
        self.top_weights_ = weights[:, 0] if len(trees) == 1 else weights
        self.loss_threshold_ = plain([top.threshold(each, data.mass) for each in losses])
        self.objective_ = plain([top.value(each, data.mass) for each in losses])
        self.n_iter_ = plain([each.rounds for each in trees])


def _lend_trees(template: BoostedATk, model: Boosted) -> None:
    template.trees_ = model.trees


def _print_round(problem: str, done: int, most: int) -> None:
    if done % max(most // 10, 1) == 0 or done == most:
        print(f"{problem}: round {done} of {most}", flush=True)


_SHARED_DOCUMENTATION = {
    "<choosing>": """
    k : int, float, "max" or "auto", default="auto"
        An int counts samples, a float is the fraction of them; "max" is one, ``1.0`` all: LightGBM boosts that.
        "auto" chooses k among 0.1, 0.2, 0.4, 0.7 and 1.0 of the samples, and the number of rounds up to
        ``n_estimators`` along with it, by 5-fold cross-validation: 26 fits at most, and the last one. It lowers the
        worst tenth for at most 2 % of the mean unless ``scoring``, ``tail`` or ``at_most`` say otherwise:
        :doc:`/choosing-k`. With sample weights, k counts weight.
    scoring : str, callable or None, default=None
        What ``k="auto"`` chooses by, higher being better, and what early stopping looks at: the name of a measure
        (<measures>: see :data:`atklearn.measures.MEASURES`), or, for ``k="auto"`` alone, what scikit-learn accepts.
        None is the tail for the one, and the loss for the other.
    tail : float or None, default=None
        In the place of ``scoring``, the share of the worst <worst> ``k="auto"`` lowers; None is a tenth.
    at_most : float or None, default=None
        What that may cost: by how much the mean of the loss (the RMSE for the squared error, the mean loss for others)
        may rise, out of fold, against the best average's, relative to it. None is 0.02, and no limit with ``scoring``.
    n_estimators : int, default=100
        Rounds, at most.
    learning_rate : float, default=0.1
    num_leaves : int, default=31
        Of a tree, at most.
    min_child_samples : int, default=20
        In a leaf, at least.
    reg_lambda : float, default=0.0
        Penalty on the squares of the leaves' values.
    early_stopping : bool, default=False
        Whether to hold out a part of the samples and stop when it gets no better.
    validation_fraction : float, default=0.1
        That part.
    n_iter_no_change : int, default=10
        The rounds to wait for something better.
    categorical_features : "from_dtype", sequence of str or int, or None, default="from_dtype"
        Columns that are categories: those of that type in a DataFrame, or by name or place. A category that was not
        there in the fit is as a missing value.
    """,
    "<running>": """
    lightgbm_params : dict or None, default=None
        Anything else that LightGBM takes, such as ``{"subsample": 0.8, "subsample_freq": 1}``.
    random_state : int, RandomState instance or None, default=None
        Of the rows held out, and of LightGBM. The folds that k is chosen on are the same in every fit.
    n_jobs : int or None, default=None
        Threads of LightGBM; None is as many as there are, and one for small tables. The trees do not depend on it.
    verbose : int, default=0
    """,
    "<fitted>": """
    loss_threshold_ : float or ndarray of shape (n_classes,)
        The k-th largest loss, the paper's lambda. Of more than two classes, this and others have an entry for each.
    top_weights_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Weights of the samples in the average of the k largest losses; positive for those in the top k.
    objective_ : float or ndarray of shape (n_classes,)
        The average of the k largest losses on the training samples. There is no certificate: boosting does not solve
        a problem to its end.
    feature_importances_ : ndarray of shape (n_features,)
        What the splits on every feature gained, as parts of one.
    trees_ : list of BoostedTrees
        Constant and trees of every problem.
    columns_ : Columns
        Which features are categories, and the codes of these.
    n_iter_ : int or ndarray of shape (n_classes,)
        The rounds that count.
    k_ : float
        The k used, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k``.
    selection_ : Selection
        What the choice of k and of the rounds saw, and why it is as it is; only with ``k="auto"``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.
    """,
}
_Estimator = TypeVar("_Estimator", bound=type[BoostedATk])


def _documented(**words: str) -> Callable[[_Estimator], _Estimator]:
    """Return a decorator that writes what both estimators have in common into the documentation of one."""

    def write(estimator: _Estimator) -> _Estimator:
        text = cleandoc(estimator.__doc__ or "")
        for mark, shared in _SHARED_DOCUMENTATION.items():
            text = text.replace(mark, cleandoc(shared))
        for name, word in words.items():
            text = text.replace(f"<{name}>", word)
        estimator.__doc__ = text
        return estimator

    return write


@_documented(measures='"rmse", "mae", "tail_error", "p95_error", "max_error", "r2"', worst="errors whose mean size")
class ATkBoostingRegressor(RegressorMixin, BoostedATk):
    r"""Boosted trees that minimise the average of the k largest losses.

    .. math:: \min_f \; \mathrm{AT}_k\big(\ell(f(x_i), y_i)\big), \qquad f = c + \text{a sum of trees}

    Every round grows a tree on the gradients of the samples in the (smoothed) top k: see
    :class:`atklearn.boosting.ATkObjective`. Where predictions that miss by far are what costs, a smaller k takes from
    the largest errors; the average keeps the smallest mean. LightGBM grows the trees.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
        The individual loss; ``atklearn.Huber(delta)`` sets the size of error where Huber turns linear.
    <choosing>
    <running>

    Attributes
    ----------
    <fitted>

    Examples
    --------
    >>> from atklearn.boosting import ATkBoostingRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> average = ATkBoostingRegressor(k=1.0, n_estimators=30).fit(X, y)
    >>> top = ATkBoostingRegressor(k=0.1, n_estimators=30).fit(X, y)
    >>> bool(abs(y - top.predict(X)).max() < abs(y - average.predict(X)).max())
    True
    """

    _task = "regression"

    def predict(self, X: Features) -> Array:
        """Return the predictions: the constant and what all trees say.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return np.asarray(self._raw(X)[0])


def _offers_probabilities(estimator: BoostedATk) -> bool:
    return estimator.loss == "log_loss" or isinstance(estimator.loss, LogLoss)


@_documented(
    measures='"error", "balanced_error", "worst_class_error", "log_loss" and others', worst="losses whose mean"
)
class ATkBoostingClassifier(ClassifierMixin, BoostedATk):
    r"""Boosted trees that minimise the average of the k largest losses, for classes.

    .. math:: \min_f \; \mathrm{AT}_k\big(\ell(y_i f(x_i))\big), \qquad f = c + \text{a sum of trees}

    With more than two classes, one model is boosted per class against the rest. LightGBM grows the trees.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``.
    <choosing>
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``.
    <running>

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    <fitted>

    Notes
    -----
    Training on the tail is not probability calibration: for k < n, ``predict_proba`` is the logistic function of a
    score that was fitted to the hardest samples first. Use :class:`sklearn.calibration.CalibratedClassifierCV` where
    probabilities matter.

    Examples
    --------
    >>> from atklearn.boosting import ATkBoostingClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ATkBoostingClassifier(k=0.5, n_estimators=30).fit(X, y)
    >>> round(model.score(X, y), 2), model.predict_proba(X[:2]).shape
    (1.0, (2, 2))
    """

    _task = "classification"
    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **BoostedATk._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        loss: str | IndividualLoss = "log_loss",
        *,
        k: float | str = "auto",
        scoring: str | Callable[..., float] | None = None,
        tail: float | None = None,
        at_most: float | None = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        num_leaves: int = 31,
        min_child_samples: int = 20,
        reg_lambda: float = 0.0,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        categorical_features: str | Sequence[str | int] | None = "from_dtype",
        class_weight: Mapping[Any, float] | str | None = None,
        lightgbm_params: Mapping[str, object] | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            loss, k=k, scoring=scoring, tail=tail, at_most=at_most, n_estimators=n_estimators,
            learning_rate=learning_rate, num_leaves=num_leaves, min_child_samples=min_child_samples,
            reg_lambda=reg_lambda, early_stopping=early_stopping, validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change, categorical_features=categorical_features,
            lightgbm_params=lightgbm_params, random_state=random_state, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip
        self.class_weight = class_weight

    def decision_function(self, X: Features) -> Array:
        """Return the raw scores; of two classes, those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class, if there are more than two.
        """
        scores = self._raw(X)
        return scores[0] if len(scores) == 1 else scores.T

    def predict(self, X: Features) -> npt.NDArray[np.generic]:
        """Return the predicted class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return chosen_labels(self._raw(X), self.classes_)

    @available_if(_offers_probabilities)
    def predict_proba(self, X: Features) -> Array:
        """Return the logistic function of the scores, scaled to sum to one over the classes.

        These are no calibrated probabilities for k < n: see the notes of the class. Only with ``loss="log_loss"``.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        return class_probabilities(self._raw(X)).T

    @available_if(_offers_probabilities)
    def predict_log_proba(self, X: Features) -> Array:
        """Return the logarithm of :meth:`predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        logarithms : ndarray of shape (n_samples, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))
