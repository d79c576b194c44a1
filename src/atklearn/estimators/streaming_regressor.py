"""The linear regressor that learns from a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from sklearn.base import RegressorMixin, _fit_context

from atklearn.encoding.encoded import Targets, regression_targets
from atklearn.estimators.fitting import keeping_fitted_state
from atklearn.estimators.prediction import linear_decisions
from atklearn.estimators.streams import Stream, StreamingATk
from atklearn.losses.individual import IndividualLoss
from atklearn.stochastic.sgd import Averaging, LearningRate

__all__ = ["SGDATkRegressor"]


class SGDATkRegressor(RegressorMixin, StreamingATk):
    r"""Linear regressor that minimises the average of the k largest losses by stochastic steps.

    .. math:: \min_{w, b} \; \mathrm{AT}_k\big(\ell(x_i \cdot w + b, y_i)\big) + \frac{\lVert w \rVert^2}{2 C}

    It learns the weights and the threshold lambda together, one sample at a time (Eq. 2 of the paper), from arrays by
    :meth:`fit`, from blocks of any origin by :meth:`fit_blocks`, or from whatever comes next by :meth:`partial_fit`.
    Where the data fit into memory, :class:`atklearn.ATkRegressor` is exact and often as fast.

    Parameters
    ----------
    loss : {"squared_error", "absolute_error", "huber"} or IndividualLoss, default="squared_error"
        The individual loss. A loss of your own runs interpreted: the same steps, some hundred times slower.
    k : int, float or "max", default=0.7
        An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
        A stream does not know its length: ``partial_fit`` and ``fit_blocks`` need a fraction.
    C : float, default=100.0
        Inverse regularisation strength, relative to the mean of the top k.
    fit_intercept : bool, default=True
    penalize_intercept : bool, default=False
        Whether the intercept is penalised like a weight, as in the paper's homogenised form.
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
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    loss_threshold_ : float
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
    ATkRegressor : The exact fit, of data in memory.

    References
    ----------
    Fan, Lyu, Ying, Hu. Learning with Average Top-k Loss. NeurIPS 2017.

    Examples
    --------
    >>> from atklearn import SGDATkRegressor
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = SGDATkRegressor("absolute_error", k=0.5, random_state=0).fit(scale(X), y)
    >>> model.score(scale(X), y) > 0.45
    True
    >>> stream = SGDATkRegressor("absolute_error", k=0.5)
    >>> for begin in range(0, len(X), 100):
    ...     stream = stream.partial_fit(scale(X)[begin : begin + 100], y[begin : begin + 100])
    >>> stream.t_
    442
    """

    _task = "regression"

    def __init__(
        self,
        loss: str | IndividualLoss = "squared_error",
        *,
        k: float | str = 0.7,
        C: float = 100.0,
        fit_intercept: bool = True,
        penalize_intercept: bool = False,
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
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SGDATkRegressor:
        """Fit the model to arrays, from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Weight 2 is the same as the sample twice; weight 0 is the same as without it.

        Returns
        -------
        self : SGDATkRegressor
        """
        with keeping_fitted_state(self):
            self._fit_rows(*self._rows_of(X, y, sample_weight, first=True), strata=None)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> SGDATkRegressor:
        """Go on learning from the next block of a stream, visiting its rows once, in their order.

        Any cut of the same stream into blocks gives the same model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            In units of one sample: weight 2 is the same as the sample twice.

        Returns
        -------
        self : SGDATkRegressor
        """
        with keeping_fitted_state(self):
            self._learn_block(*self._rows_of(X, y, sample_weight, first=not hasattr(self, "_stream")))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_blocks(self, blocks: Iterable[Any]) -> SGDATkRegressor:
        """Fit the model to data in blocks, from scratch.

        Parameters
        ----------
        blocks : iterable of (X, y) or (X, y, sample_weight)
            For example :class:`atklearn.RowBlocks`, or a generator over files. What can be iterated again is passed
            over up to ``max_iter`` times, a generator once. With ``shuffle``, the rows of each block are shuffled.

        Returns
        -------
        self : SGDATkRegressor
        """
        with keeping_fitted_state(self):
            self._fit_blocks(blocks, self._rows_of)
        return self

    def predict(self, X: Any) -> Any:
        """Return the predictions ``x . w + b``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
        """
        return linear_decisions(self, X, "predict").values()

    def _rows_of(self, X: Any, y: Any, sample_weight: Any = None, *, first: bool) -> tuple[Any, Targets]:
        """Return the rows of a block and what their targets and weights say."""
        X, y = self._validate(X, y, first=first)
        return X, regression_targets(y, sample_weight)

    def _publish(self, stream: Stream, n_iter: int, dtype: Any, total: float | None = None) -> None:
        super()._publish(stream, n_iter, dtype, total)
        self.coef_, self.intercept_ = self.coef_[0], self.intercept_[0]
