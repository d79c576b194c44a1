"""The linear classifier that learns from a stream: the paper's stochastic algorithm, one pass or many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from atklearn.encoding.encoded import Targets, check_mass, class_targets
from atklearn.estimators.fitting import keeping_fitted_state
from atklearn.estimators.prediction import LinearClassifierMixin
from atklearn.estimators.streams import StreamingATk
from atklearn.losses.individual import IndividualLoss
from atklearn.stochastic.sgd import Averaging, LearningRate

__all__ = ["SGDATkClassifier"]


class SGDATkClassifier(LinearClassifierMixin, StreamingATk):
    r"""Linear classifier that minimises the average of the k largest losses by stochastic steps.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(y_i (x_i \cdot w + b))\big) + \frac{\lVert w \rVert^2}{2 C}

    It learns the weights and the threshold lambda together, one sample at a time (Eq. 2 of the paper), from arrays by
    :meth:`fit`, from blocks of any origin by :meth:`fit_blocks`, or from whatever comes next by :meth:`partial_fit`.
    With more than two classes, one classifier is fitted per class against the rest. Where the data fit into memory,
    :class:`atklearn.ATkClassifier` is exact and often as fast.

    Parameters
    ----------
    loss : {"log_loss", "hinge", "squared_hinge"} or IndividualLoss, default="log_loss"
        The individual loss. Only "log_loss" offers ``predict_proba``. A loss of your own runs interpreted: the same
        steps, some hundred times slower.
    k : int, float or "max", default=0.7
        An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
        A stream does not know its length: ``partial_fit`` and ``fit_blocks`` need a fraction.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept is penalised like a weight, as in the paper's homogenised form.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied with ``sample_weight``; "balanced" needs ``fit``, which sees all labels.
    max_iter : int, default=20
        The number of passes allowed; ``partial_fit`` makes one.
    tol : float or None, default=1e-3
        Stop when ``n_iter_no_change`` passes in a row lower the objective met on the way by less than ``tol``,
        relative to it; None never stops early.
    shuffle : bool, default=True
        Whether each pass of ``fit`` has a random order of its own, which then does not depend on the order of the rows.
        ``fit_blocks`` shuffles within blocks, ``partial_fit`` never.
    learning_rate : {"invscaling", "optimal", "constant", "adaptive"}, default="invscaling"
        The step of the t-th visit: ``eta0 / t**power_t``, ``1 / (1/eta0 + t/C)``, ``eta0``, or ``eta0`` divided by 5
        whenever the objective stops falling.
    eta0 : float or "auto", default="auto"
        The first step; "auto" scales it from the first 1000 visits.
    power_t : float, default=0.5
        The exponent of "invscaling".
    average : {"recent", "all"} or None, default="recent"
        Which mean of the iterates is the model: with weights growing like t**2, with equal weights, or none of it.
    early_stopping : bool, default=False
        Whether ``fit`` holds out a part of the rows and stops by their average top-k loss instead of the objective.
    validation_fraction : float, default=0.1
        The part of the rows to hold out.
    n_iter_no_change : int, default=5
    random_state : int, RandomState instance or None, default=None
    verbose : int, default=0

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    loss_threshold_ : float or ndarray of shape (n_classes,)
        The learned lambda.
    k_share_ : float
        The k used, as part of the total weight: a value for the parameter ``k``.
    k_ : float
        The same in units of sample weight (``fit`` only: a stream does not know its total).
    objective_curve_ : list of float, or of such lists per class
        The value that decided when to stop, pass by pass (``fit`` and ``fit_blocks``).
    n_iter_ : int
        Passes made.
    t_ : int
        Visits made.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if X had names.

    See Also
    --------
    RowBlocks : Blocks of arrays in memory or in files, for :meth:`fit_blocks`.
    ATkClassifier : The exact fit, of data in memory.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import SGDATkClassifier
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SGDATkClassifier(k=0.5, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.97
    True
    >>> stream = SGDATkClassifier(k=0.5)
    >>> for begin in range(0, len(X), 100):
    ...     stream = stream.partial_fit(scale(X)[begin : begin + 100], y[begin : begin + 100], classes=[0, 1])
    >>> stream.t_
    569
    """

    _task = "classification"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StreamingATk._parameter_constraints,
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        loss: str | IndividualLoss = "log_loss",
        *,
        k: float | str = 0.7,
        C: float = 100.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
        class_weight: dict[Any, float] | str | None = None,
        max_iter: int = 20,
        tol: float | None = 1e-3,
        shuffle: bool = True,
        learning_rate: LearningRate = "invscaling",
        eta0: float | Literal["auto"] = "auto",
        power_t: float = 0.5,
        average: Averaging = "recent",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 5,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.k = k
        self.C = C
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.shuffle = shuffle
        self.learning_rate = learning_rate
        self.eta0 = eta0
        self.power_t = power_t
        self.average = average
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SGDATkClassifier:
        """Fit the model to arrays, from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : SGDATkClassifier
        """
        with keeping_fitted_state(self):
            X, y = self._validate(X, y, first=True)
            targets = class_targets(y, sample_weight, self.class_weight, type(self).__name__)
            self.classes_ = np.asarray(targets.classes)
            self._fit_rows(X, targets, strata=y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> SGDATkClassifier:
        """Go on learning from the next block of a stream, visiting its rows once, in their order.

        Any cut of the same stream into blocks gives the same model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        classes : array-like of shape (n_classes,), default=None
            All classes that can occur; needed in the first call only.
        sample_weight : array-like of shape (n_samples,), default=None
            In units of one sample: weight 2 is the same as the sample twice.

        Returns
        -------
        self : SGDATkClassifier
        """
        with keeping_fitted_state(self):
            first = not hasattr(self, "_stream")
            if first or classes is not None:
                self._set_classes(classes, first)
            self._learn_block(*self._rows_of(X, y, sample_weight, first=first))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Iterable[Any], classes: Any = None) -> SGDATkClassifier:
        """Fit the model to data in blocks, from scratch.

        Parameters
        ----------
        blocks : iterable of (X, y) or (X, y, sample_weight)
            For example :class:`atklearn.RowBlocks`, or a generator over files. What can be iterated again is passed
            over up to ``max_iter`` times, a generator once. With ``shuffle``, the rows of each block are shuffled.
        classes : array-like of shape (n_classes,), default=None
            All classes that can occur.

        Returns
        -------
        self : SGDATkClassifier
        """
        with keeping_fitted_state(self):
            self._set_classes(classes, first=True)
            self._fit_blocks(blocks, self._rows_of)
        return self

    def _set_classes(self, classes: Any, first: bool) -> None:
        """Learn which classes there are, or check that they are still the same."""
        if classes is None:
            raise ValueError(
                "classes is expected to list all class labels before the first block of a stream, got None; pass, "
                "say, classes=np.unique(y)."
            )
        found = np.unique(classes)
        if not first and not np.array_equal(found, self.classes_):
            raise ValueError(f"classes is expected to stay {self.classes_} for the whole stream, got {found}.")
        if found.size < 2:
            raise ValueError(f"{type(self).__name__} expects at least 2 classes, got {found.size} class: {found}.")
        self.classes_ = found

    def _rows_of(self, X: Any, y: Any, sample_weight: Any = None, *, first: bool) -> tuple[Any, Targets]:
        """Return the rows of a block and what their labels and weights say."""
        if self.class_weight == "balanced":
            raise ValueError(
                'class_weight="balanced" is expected with fit, which sees all labels, got a stream; pass a dict of '
                "class weights instead."
            )
        X, y = self._validate(X, y, first=first)
        check_classification_targets(y)
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(f"y is expected to hold the classes {self.classes_} only, got also {unknown}.")
        codes = np.searchsorted(self.classes_, np.asarray(y))
        factors = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_)
        return X, Targets(codes, check_mass(sample_weight, y.size), self.classes_, factors)
