"""Boosted trees with the average top-k loss, as estimators on LightGBM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from atklearn.boosting.boosted_base import BoostedATk
from atklearn.encoding.encoded import Targets, class_targets, regression_targets
from atklearn.losses.individual import Array, IndividualLoss, LogLoss
from atklearn.losses.labels import chosen_labels, class_probabilities

__all__ = ["ATkBoostingClassifier", "ATkBoostingRegressor"]


def _offers_probabilities(estimator: Any) -> bool:
    return estimator.loss == "log_loss" or isinstance(estimator.loss, LogLoss)


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
    k : int, float, "max" or "auto", default="auto"
        An int counts samples, a float is the fraction of them; "max" is one, ``1.0`` all: LightGBM boosts that.
        "auto" chooses k among 0.1, 0.2, 0.4, 0.7 and 1.0 of the samples, and the number of rounds up to
        ``n_estimators`` along with it, by 5-fold cross-validation: 25 fits at most, and the last one. ``scoring``,
        ``tail`` and ``at_most`` say by what, :doc:`/choosing-k` how; with none of them it is the average without a
        trial. With sample weights, k counts weight.
    scoring : str, callable or None, default=None
        What ``k="auto"`` chooses by, higher being better, and what early stopping looks at: the name of a measure
        ("rmse", "mae", "tail_error", "p95_error", "max_error", "r2": see :data:`atklearn.measures.MEASURES`), or, for
        ``k="auto"`` alone, what scikit-learn accepts. None is the tail for the one, and the loss for the other.
    tail : float or None, default=None
        The share of the worst errors whose mean size ``k="auto"`` lowers, in the place of ``scoring``; None is a tenth.
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
    lightgbm_params : dict or None, default=None
        Anything else that LightGBM takes, such as ``{"subsample": 0.8, "subsample_freq": 1}``.
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None
        Threads of LightGBM; None is as many as there are, and one for small tables. The trees do not depend on it.
    verbose : int, default=0

    Attributes
    ----------
    loss_threshold_ : float
        The k-th largest loss, the paper's lambda.
    top_weights_ : ndarray of shape (n_samples,)
        Weights of the samples in the average of the k largest losses; positive for those in the top k.
    objective_ : float
        The average of the k largest losses on the training samples. There is no certificate: boosting does not solve
        a problem to its end.
    feature_importances_ : ndarray of shape (n_features,)
        What the splits on every feature gained, as parts of one.
    trees_ : list of BoostedTrees
        Constant and trees of every problem.
    columns_ : Columns
        Which features are categories, and the codes of these.
    n_iter_ : int
        The rounds that count.
    k_ : float
        The k used, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k``.
    selection_ : Selection
        What the choice of k and of the rounds saw, and why it is as it is; only if there was one.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

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
        lightgbm_params: dict[str, Any] | None = None,
        random_state: Any = None,
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

    def _targets(self, y: npt.NDArray[Any], sample_weight: Any) -> Targets:
        return regression_targets(y, sample_weight)

    def predict(self, X: Any) -> Array:
        """Return the predictions: the constant and what all trees say.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return np.asarray(self._raw(X)[0])


class ATkBoostingClassifier(ClassifierMixin, BoostedATk):
    r"""Boosted trees that minimise the average of the k largest losses, for classes.

    .. math:: \min_f \; \mathrm{AT}_k\big(\ell(y_i f(x_i))\big), \qquad f = c + \text{a sum of trees}

    With more than two classes, one model is boosted per class against the rest. LightGBM grows the trees.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``.
    k : int, float, "max" or "auto", default="auto"
        An int counts samples, a float is the fraction of them; "max" is one, ``1.0`` all: LightGBM boosts that.
        "auto" chooses k among 0.1, 0.2, 0.4, 0.7 and 1.0 of the samples, and the number of rounds up to
        ``n_estimators`` along with it, by 5-fold cross-validation: 25 fits at most, and the last one. ``scoring``,
        ``tail`` and ``at_most`` say by what, :doc:`/choosing-k` how; with none of them it is the average without a
        trial. With sample weights, k counts weight.
    scoring : str, callable or None, default=None
        What ``k="auto"`` chooses by, higher being better, and what early stopping looks at: the name of a measure
        ("error", "balanced_error", "worst_class_error", "log_loss" and others: see
        :data:`atklearn.measures.MEASURES`), or, for ``k="auto"`` alone, what scikit-learn accepts. None is the tail
        for the one, and the loss for the other.
    tail : float or None, default=None
        The share of the worst losses whose mean ``k="auto"`` lowers, in the place of ``scoring``; None is a tenth.
    at_most : float or None, default=None
        What that may cost: by how much the mean loss may rise, out of fold, against the best average's, relative to it.
        None is 0.02, and no limit with ``scoring``.
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``.
    lightgbm_params : dict or None, default=None
        Anything else that LightGBM takes, such as ``{"subsample": 0.8, "subsample_freq": 1}``.
    random_state : int, RandomState instance or None, default=None
    n_jobs : int or None, default=None
        Threads of LightGBM; None is as many as there are, and one for small tables. The trees do not depend on it.
    verbose : int, default=0

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    loss_threshold_ : float or ndarray of shape (n_classes,)
        The k-th largest loss, the paper's lambda.
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
        What the choice of k and of the rounds saw, and why it is as it is; only if there was one.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
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
        class_weight: dict[Any, float] | str | None = None,
        lightgbm_params: dict[str, Any] | None = None,
        random_state: Any = None,
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
        self.class_weight = class_weight
        self.lightgbm_params = lightgbm_params
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _targets(self, y: npt.NDArray[Any], sample_weight: Any) -> Targets:
        targets = class_targets(y, sample_weight, self.class_weight, type(self).__name__)
        self.classes_: npt.NDArray[Any] = np.asarray(targets.classes)
        return targets

    def decision_function(self, X: Any) -> Array:
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

    def predict(self, X: Any) -> npt.NDArray[Any]:
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
    def predict_proba(self, X: Any) -> Array:
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
    def predict_log_proba(self, X: Any) -> Array:
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
