"""Kernel machines with the average top-k loss."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import StrOptions

from atklearn.core.collapse import warn_of_collapse
from atklearn.core.problem import Solution
from atklearn.encoding.encoded import Targets, class_targets
from atklearn.estimators.svm_base import KernelATk
from atklearn.kernel.problem import KernelName, KernelProblem
from atklearn.kernel.solve import kernel_collapse_limit
from atklearn.losses.labels import chosen_labels

__all__ = ["ATkSVC", "ATkSVR"]


class ATkSVC(ClassifierMixin, KernelATk):
    r"""Support vector classifier that minimises the average of the k largest hinge losses.

    .. math:: \min_{f, b} \; \mathrm{AT}_k\big([1 - y_i (f(x_i) + b)]_+\big) + \frac{\lVert f \rVert_K^2}{2 C}

    This is the AT_k-SVM of the paper (Eqs. 5 and 6) with a bias. ``k`` spans the maximum loss (k = 1), nu-support
    vector classification (nu = k / n, with a scale that is set by C) and the plain support vector machine (k = 1.0,
    that is k = n, and every k above the number that is shown by ``loss_threshold_ = 0``). Every k is feasible.
    ``dual_gap_`` certifies how far ``objective_`` can be from the optimum. With more than two classes, one classifier
    is fitted per class against the rest.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable gets two sets of samples and returns the matrix of their kernel values. With "precomputed", X is
        the kernel matrix. "sigmoid" is no positive semidefinite kernel: ``dual_gap_`` then measures the optimality
        conditions and is no bound.
    degree : int, default=3
        Degree of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Factor in the "rbf", "poly" and "sigmoid" kernels: "scale" is 1 / (n_features * variance of X), with the
        variance taken under the sample weights, "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Constant in the "poly" and "sigmoid" kernels.
    k : int, float or "max", default=1.0
        An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
        With sample or class weights, k counts weight. With the hinge, k is a second name for C (:doc:`/theory`): choose
        C first. Too small a k on noisy data collapses to f = 0: see :class:`atklearn.CollapseWarning`.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k. Scikit-learn's C, relative to the sum of
        losses, equals ours divided by n at k = n, and by k in general.
    fit_intercept : bool, default=True
        Whether there is a bias b, which is not penalised. Without one, the kernel matrix is formed whole.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``.
    tol : float, default=1e-3
        The duality gap allowed, relative to the objective. Small problems are solved to rounding error whatever tol.
    cache_size : float, default=200
        LIBSVM's cache of kernel values in MB.
    max_iter : int, default=-1
        The iterations allowed to each call of LIBSVM, -1 for no limit. At the limit the fit ends with the best
        solution so far, its gap and a warning.
    verbose : int, default=0
        1 reports each call of LIBSVM with the gap reached, 2 adds LIBSVM's own output.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_SV, n_features)
        Empty with ``kernel="precomputed"``.
    dual_coef_ : ndarray of shape (1, n_SV) or (n_classes, n_SV)
        Coefficients of the support vectors: label times alpha.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights of the features, only with ``kernel="linear"``.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    loss_threshold_ : float or ndarray of shape (n_classes,)
        The k-th largest loss, the paper's lambda; rho = 1 - lambda.
    top_weights_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Worst-case weights of the samples, ``alpha / C``. They sum to one, or to less where the threshold is zero.
    dual_gap_ : float or ndarray of shape (n_classes,)
        How far ``objective_`` can be from the optimum: the certificate.
    objective_ : float or ndarray of shape (n_classes,)
        The value of the formula above.
    n_iter_ : int or ndarray of shape (n_classes,)
        LIBSVM's iterations.
    k_ : float
        The k used, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k``.
    gamma_ : float
        The gamma used.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

    See Also
    --------
    ATkClassifier : The linear model; with ``loss="hinge"`` on :class:`sklearn.kernel_approximation.Nystroem` features
        it approximates this one on data too large for it.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import ATkSVC
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ATkSVC(k=0.2).fit(scale(X), y)
    >>> round(model.score(scale(X), y), 2), bool(model.dual_gap_ <= 1e-3 * model.objective_)
    (0.99, True)
    """

    _two_sided = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelATk._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        kernel: KernelName = "rbf",
        *,
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        k: float | str = 1.0,
        C: float = 100.0,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        cache_size: float = 200,
        max_iter: int = -1,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.k = k
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.verbose = verbose

    def _targets(self, y: Any, sample_weight: Any) -> Targets:
        return class_targets(y, sample_weight, self.class_weight, type(self).__name__)

    def _publish(self, X: Any, targets: Targets, problems: list[KernelProblem], solutions: list[Solution]) -> None:
        self.classes_ = np.asarray(targets.classes)
        super()._publish(X, targets, problems, solutions)
        limits = [
            kernel_collapse_limit(problem)
            for problem, solution in zip(problems, solutions, strict=True)
            if not solution.coef.any() and solution.intercept == 0.0
        ]
        warn_of_collapse(self.k, problems[0].k, limits, targets.total, len(solutions), "function of this kernel")

    def decision_function(self, X: Any) -> npt.NDArray[Any]:
        """Return the scores ``f(x) + b``; of two classes, those of the second.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            With ``kernel="precomputed"`` the kernel values between these samples and those of the fit.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            One column per class, if there are more than two.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predicted class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        return chosen_labels(self._scores(X).T, self.classes_)


class ATkSVR(RegressorMixin, KernelATk):
    r"""Support vector regressor that minimises the average of the k largest absolute errors.

    .. math:: \min_{f, b} \; \mathrm{AT}_k\big(|y_i - f(x_i) - b|\big) + \frac{\lVert f \rVert_K^2}{2 C}

    This is nu-support vector regression with nu = k / n: ``k`` spans the maximum error (k = 1) and the average error
    (k = 1.0, that is k = n, epsilon-support vector regression with epsilon = 0). ``dual_gap_`` certifies how far
    ``objective_`` can be from the optimum.

    Parameters
    ----------
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable gets two sets of samples and returns the matrix of their kernel values. With "precomputed", X is
        the kernel matrix. "sigmoid" is no positive semidefinite kernel: ``dual_gap_`` then measures the optimality
        conditions and is no bound.
    degree : int, default=3
        Degree of the "poly" kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Factor in the "rbf", "poly" and "sigmoid" kernels: "scale" is 1 / (n_features * variance of X), with the
        variance taken under the sample weights, "auto" is 1 / n_features.
    coef0 : float, default=0.0
        Constant in the "poly" and "sigmoid" kernels.
    k : int, float or "max", default=0.7
        An int counts samples, a float is the fraction of them; ``1.0`` is the average error, "max" the largest.
        With sample weights, k counts weight.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k; ``NuSVR``'s C equals ours divided by k.
    fit_intercept : bool, default=True
        Whether there is a bias b, which is not penalised. Without one, twice the kernel matrix is formed both ways.
    tol : float, default=1e-3
        The duality gap allowed, relative to the objective. Small problems are solved to rounding error whatever tol.
    cache_size : float, default=200
        LIBSVM's cache of kernel values in MB.
    max_iter : int, default=-1
        The iterations allowed to each call of LIBSVM, -1 for no limit. At the limit the fit ends with the best
        solution so far, its gap and a warning.
    verbose : int, default=0
        1 reports each call of LIBSVM with the gap reached, 2 adds LIBSVM's own output.

    Attributes
    ----------
    support_ : ndarray of shape (n_SV,)
        Indices of the support vectors.
    support_vectors_ : {ndarray, sparse matrix} of shape (n_SV, n_features)
        Empty with ``kernel="precomputed"``.
    dual_coef_ : ndarray of shape (1, n_SV)
        Coefficients of the support vectors.
    coef_ : ndarray of shape (1, n_features)
        Weights of the features, only with ``kernel="linear"``.
    intercept_ : ndarray of shape (1,)
    loss_threshold_ : float
        The k-th largest error, the paper's lambda: half the width of the tube.
    top_weights_ : ndarray of shape (n_samples,)
        Worst-case weights of the samples, ``|dual_coef_| / C``. They sum to one, or to less where the threshold is
        zero.
    dual_gap_ : float
        How far ``objective_`` can be from the optimum: the certificate.
    objective_ : float
        The value of the formula above.
    n_iter_ : int
        LIBSVM's iterations.
    k_ : float
        The k used, in units of sample weight.
    k_share_ : float
        The same as part of the total weight: a value for the parameter ``k``.
    gamma_ : float
        The gamma used.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

    See Also
    --------
    ATkRegressor : The linear model, also for other losses.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import ATkSVR
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = ATkSVR(k=0.3, C=1e5).fit(X, y)
    >>> bool(abs(y - model.predict(X)).max() > model.loss_threshold_ > 0)
    True
    """

    _two_sided = True

    def __init__(
        self,
        kernel: KernelName = "rbf",
        *,
        degree: int = 3,
        gamma: str | float = "scale",
        coef0: float = 0.0,
        k: float | str = 0.7,
        C: float = 100.0,
        fit_intercept: bool = True,
        tol: float = 1e-3,
        cache_size: float = 200,
        max_iter: int = -1,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.k = k
        self.C = C
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.verbose = verbose

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the predictions ``f(x) + b``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return self._scores(X)[:, 0]
