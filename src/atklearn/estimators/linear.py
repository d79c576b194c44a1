"""Linear estimators with the average top-k loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sklearn.utils._param_validation import StrOptions

from atklearn.core.collapse import collapse_limit, warn_of_collapse
from atklearn.core.problem import Solution
from atklearn.encoding.encoded import Problems
from atklearn.estimators.following import ScoredRegressorMixin, each_chunk
from atklearn.estimators.linear_base import LinearATk
from atklearn.estimators.prediction import LinearClassifierMixin, linear_decisions
from atklearn.losses.individual import IndividualLoss

__all__ = ["ATkClassifier", "ATkRegressor"]


class ATkClassifier(LinearClassifierMixin, LinearATk):
    r"""Linear classifier that minimises the average of the k largest losses.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(y_i (x_i \cdot w + b))\big) + \frac{\lVert w \rVert^2}{2 C}

    ``k`` spans the maximum loss (k = 1) and the average loss (k = 1.0, that is k = n). In between, samples that are
    classified well enough to leave the top k no longer count, and rare, hard groups are not sacrificed to easy ones.
    The solver is exact: ``dual_gap_`` certifies how far ``objective_`` can be from the optimum. With more than
    two classes, one classifier is fitted per class against the rest.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``; with "hinge", k acts as another C would.
    k : int, float, "max" or "auto", default="auto"
        An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
        "auto" chooses k, and C unless that is given, by cross-validation: ``scoring``, ``tail`` and ``at_most`` say by
        what, ``selection_`` what it saw, and :doc:`/choosing-k` how. About 5,000 samples at most are looked at. Neither
        their order nor repetition in place of weights changes the choice.
        With ``trim`` there is none: it is 1.0, all samples that are left.
        With sample or class weights, k counts weight. Too small a k on noisy data collapses to w = 0: see
        :class:`atklearn.CollapseWarning`.
    trim : int or float, default=0
        How many, or what part, of the largest losses are set aside, for labels that are wrong or sensors that broke:
        an int counts samples, a float is the fraction of them, and with sample weights both count weight. ``k`` counts
        from the top as before, so that the mean is over the losses ranked ``trim`` to k; ``k=1.0`` is the trimmed
        mean. That is no longer convex: see the notes.
    C : float or None, default=None
        Inverse regularisation strength, relative to the mean of the top k (scikit-learn's C, relative to the sum of
        losses, equals ours divided by n). None is n, the weight of all samples: the penalty of
        :class:`sklearn.linear_model.LogisticRegression` as it comes, which k = 1.0 then is. ``k="auto"`` chooses among
        a thousandth of that, that, and ten times that.
    scoring : str, callable or None, default=None
        What ``k="auto"`` chooses by, higher being better; not looked at otherwise. The name of a measure ("error",
        "balanced_error", "worst_class_error", "g_mean", "roc_auc", "average_precision", "log_loss", "brier": see
        :data:`atklearn.measures.MEASURES`), or what scikit-learn accepts. None is the tail: see the next.
    tail : float or None, default=None
        The share of the worst losses whose mean ``k="auto"`` lowers, in the place of ``scoring``; None is a tenth.
    at_most : float or None, default=None
        What that may cost: by how much the mean loss may rise, out of fold, against the best average's, relative to it.
        None is 0.02, and no limit with ``scoring``.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept is penalised like a weight, as in the paper's homogenised form.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``.
    tol : float, default=1e-6
        The duality gap allowed, relative to the objective.
    max_iter : int, default=1000
        The number of Newton steps allowed.
    n_init : int, default=50
        With ``trim``, random starts beside the solution of AT_k: models of a few samples each, improved by one
        regression on what they leave, of which the best two are gone on from. They find outliers that are alike and
        far out.
    warm_start : bool, default=False
        Whether to start from the previous solution.
    verbose : int, default=0

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    loss_threshold_ : float or ndarray of shape (n_classes,)
        The k-th largest loss, the paper's lambda.
    top_weights_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Worst-case weights of the samples; positive exactly for those in the top k that shape the solution. They sum
        to one, or to less where the threshold is zero.
    dual_gap_ : float or ndarray of shape (n_classes,)
        How far ``objective_`` can be from the optimum: the certificate.
    objective_ : float or ndarray of shape (n_classes,)
        The value of the formula above.
    n_iter_ : int or ndarray of shape (n_classes,)
        Newton steps.
    k_ : float
        The k used, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k``.
    C_ : float
        The C used.
    n_passes_ : int
        How often X was read, if it was read in chunks; ``top_weights_`` of a Dask collection are computed when they
        are wanted.
    selection_ : Selection
        What the choice of k and C saw, and why it is as it is; only if there was one. Draw it with
        :class:`atklearn.KCurveDisplay`.
    set_aside_ : ndarray of int
        The samples set aside, those with the largest losses first; one that is set aside in part is among them if it
        is by half at least. Empty without ``trim``.
    trim_ : float
        The weight set aside.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

    See Also
    --------
    ATkClassifierCV : Chooses k and C by cross-validation.
    ATkSVC : The same with a kernel.
    SGDATkClassifier : Learns from a stream.

    Notes
    -----
    Training on the tail is not probability calibration: for k < n, ``predict_proba`` is the logistic function of a
    score that was fitted to the hardest samples only. Use :class:`sklearn.calibration.CalibratedClassifierCV` where
    probabilities matter.

    With ``trim``, an exact fit on the samples that are left takes turns with setting the largest losses aside, until
    these no longer change. The objective falls all the way, to a local minimum: ``objective_`` is its true value, but
    ``dual_gap_`` is that of the last convex problem, on the samples that are left.
    With several classes the same samples are set aside for all, those with the largest sum of losses above the
    thresholds; at least a tenth of every class stays.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Hu, Ying, Wang, Lyu. Learning by Minimizing the Sum of Ranked Range. NeurIPS 2020.

    Examples
    --------
    >>> from atklearn import ATkClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ATkClassifier(k=0.2).fit(scale(X), y)
    >>> round(model.score(scale(X), y), 2), bool(model.dual_gap_ <= 1e-6 * model.objective_)
    (0.99, True)
    """

    _task = "classification"
    _C_per_sample = 1.0
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LinearATk._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        loss: str | IndividualLoss = "log_loss",
        *,
        k: float | str = "auto",
        trim: float = 0,
        C: float | None = None,
        scoring: str | Callable[..., float] | None = None,
        tail: float | None = None,
        at_most: float | None = None,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_init: int = 50,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.trim = trim
        self.C = C
        self.scoring = scoring
        self.tail = tail
        self.at_most = at_most
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.warm_start = warm_start
        self.verbose = verbose

    def _publish(self, problems: Problems, solutions: list[Solution]) -> None:
        self.classes_ = problems.classes
        super()._publish(problems, solutions)
        limits = [
            self.trim_ + collapse_limit(problem)
            for problem, solution in zip(problems.problems, solutions, strict=True)
            if not solution.beats(problem.rows.loss_at_zero)
        ]
        warn_of_collapse(self.k, self.k_, limits, problems.total, len(solutions), "linear model")


class ATkRegressor(ScoredRegressorMixin, LinearATk):
    r"""Linear regressor that minimises the average of the k largest losses.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(x_i \cdot w + b, y_i)\big) + \frac{\lVert w \rVert^2}{2 C}

    ``k`` spans the maximum loss (k = 1, Chebyshev regression) and the average loss (k = 1.0: ridge regression for the
    squared error). With the absolute error it is nu-support vector regression. The solver is exact: ``dual_gap_``
    certifies how far ``objective_`` can be from the optimum.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
        The individual loss; ``atklearn.Huber(delta)`` sets the size of error where Huber turns linear.
    k : int, float, "max" or "auto", default="auto"
        An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
        "auto" chooses k, and C unless that is given, by cross-validation: ``scoring``, ``tail`` and ``at_most`` say by
        what, ``selection_`` what it saw, and :doc:`/choosing-k` how. About 5,000 samples at most are looked at. Neither
        their order nor repetition in place of weights changes the choice.
        With ``trim`` there is none: it is 1.0, all samples that are left.
        With sample weights, k counts weight.
    trim : int or float, default=0
        How many, or what part, of the largest losses are set aside, for labels that are wrong or sensors that broke:
        an int counts samples, a float is the fraction of them, and with sample weights both count weight. ``k`` counts
        from the top as before, so that the mean is over the losses ranked ``trim`` to k; ``k=1.0`` is the trimmed
        mean. That is no longer convex: see the notes.
    C : float or None, default=None
        Inverse regularisation strength, relative to the mean of the top k. None is n / 2, n being the weight of all
        samples: the penalty of :class:`sklearn.linear_model.Ridge` as it comes, which k = 1.0 then is. ``k="auto"``
        chooses among a thousandth of that, that, and ten times that.
    scoring : str, callable or None, default=None
        What ``k="auto"`` chooses by, higher being better; not looked at otherwise. The name of a measure ("rmse",
        "mae", "tail_error", "p95_error", "max_error", "r2": see :data:`atklearn.measures.MEASURES`), or what
        scikit-learn accepts. None is the tail: see the next.
    tail : float or None, default=None
        The share of the worst errors whose mean size ``k="auto"`` lowers, in the place of ``scoring``; None is a tenth.
    at_most : float or None, default=None
        What that may cost: by how much the mean of the loss (the RMSE for the squared error, the mean loss for others)
        may rise, out of fold, against the best average's, relative to it. None is 0.02, and no limit with ``scoring``.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept is penalised like a weight, as in the paper's homogenised form.
    tol : float, default=1e-6
        The duality gap allowed, relative to the objective.
    max_iter : int, default=1000
        The number of Newton steps allowed.
    n_init : int, default=50
        With ``trim``, random starts beside the solution of AT_k: models of a few samples each, improved by one
        regression on what they leave, of which the best two are gone on from. They find outliers that are alike and
        far out.
    warm_start : bool, default=False
        Whether to start from the previous solution.
    verbose : int, default=0

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    loss_threshold_ : float
        The k-th largest loss, the paper's lambda: half the width of the tube for the absolute error.
    top_weights_ : ndarray of shape (n_samples,)
        Worst-case weights of the samples; positive exactly for those in the top k that shape the solution. They sum
        to one, or to less where the threshold is zero.
    dual_gap_ : float
        How far ``objective_`` can be from the optimum: the certificate.
    objective_ : float
        The value of the formula above.
    n_iter_ : int
        Newton steps.
    k_ : float
        The k used, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k``.
    C_ : float
        The C used.
    n_passes_ : int
        How often X was read, if it was read in chunks; ``top_weights_`` of a Dask collection are computed when they
        are wanted.
    selection_ : Selection
        What the choice of k and C saw, and why it is as it is; only if there was one. Draw it with
        :class:`atklearn.KCurveDisplay`.
    set_aside_ : ndarray of int
        The samples set aside, those with the largest losses first; one that is set aside in part is among them if it
        is by half at least. Empty without ``trim``.
    trim_ : float
        The weight set aside.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

    See Also
    --------
    ATkRegressorCV : Chooses k and C by cross-validation.
    ATkSVR : The same with a kernel.
    SGDATkRegressor : Learns from a stream.

    Notes
    -----
    With ``trim``, an exact fit on the samples that are left takes turns with setting the largest losses aside, until
    these no longer change. The objective falls all the way, to a local minimum: ``objective_`` is its true value, but
    ``dual_gap_`` is that of the last convex problem, on the samples that are left.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Hu, Ying, Wang, Lyu. Learning by Minimizing the Sum of Ranked Range. NeurIPS 2020.

    Examples
    --------
    >>> from atklearn import ATkRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ATkRegressor("absolute_error", k=0.2).fit(scale(X), y)
    >>> bool(abs(y - model.predict(scale(X))).max() > model.loss_threshold_ > 0)
    True
    """

    _task = "regression"
    _C_per_sample = 0.5

    def __init__(
        self,
        loss: str | IndividualLoss = "squared_error",
        *,
        k: float | str = "auto",
        trim: float = 0,
        C: float | None = None,
        scoring: str | Callable[..., float] | None = None,
        tail: float | None = None,
        at_most: float | None = None,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        tol: float = 1e-6,
        max_iter: int = 1000,
        n_init: int = 50,
        warm_start: bool = False,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.trim = trim
        self.C = C
        self.scoring = scoring
        self.tail = tail
        self.at_most = at_most
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.tol = tol
        self.max_iter = max_iter
        self.n_init = n_init
        self.warm_start = warm_start
        self.verbose = verbose

    def _publish(self, problems: Problems, solutions: list[Solution]) -> None:
        super()._publish(problems, solutions)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]

    @each_chunk
    def predict(self, X: Any) -> Any:
        """Return the predictions ``x . w + b``.

        Parameters
        ----------
        X : {array-like, sparse matrix, tensor, Dask collection, Chunks} of shape (n_samples, n_features)
            Of a Dask collection, predictions are computed when they are wanted.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return linear_decisions(self, X, "predict").values()
