"""What the parameters and fitted attributes of the estimators mean, each written once.

In the docstring of an estimator a line of bare names, such as ``tol, max_iter``, stands for their texts; the decorator
:func:`documented` puts them in. What one estimator alone has is written out where it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from string import Template
from textwrap import wrap
from typing import TypeVar

__all__ = ["CLASSES", "NUMBERS", "documented"]

_Class = TypeVar("_Class", bound=type)

_COMMON = """
fit_intercept : bool, default=True
penalize_intercept : bool, default=False
    Whether the intercept is penalised like a weight, as in the paper's homogenised form.
class_weight : dict, "balanced" or None, default=None
    Weights of the classes, multiplied with ``sample_weight``.
verbose : int, default=0

coef_ : $coef
intercept_ : $intercept
classes_ : ndarray of shape (n_classes,)
loss_threshold_ : $number
    The k-th largest loss, the paper's lambda.
dual_gap_ : $number
    How far ``objective_`` can be from the optimum: the certificate.
objective_ : $number
    The value of the formula above.
k_ : float
    The k used, in units of sample weight.
k_share_ : float
    The same as part of the total weight: a value for the parameter ``k``.
n_features_in_ : int
feature_names_in_ : ndarray of shape (n_features,)
    Only if X had names.
"""

_LINEAR = """
k : int, float, "max" or "auto", default="auto"
    An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
    "auto" chooses k, and C unless that is given, by cross-validation: ``scoring``, ``tail`` and ``at_most`` say by
    what, ``selection_`` what it saw, and :doc:`/choosing-k` how. About 5,000 samples at most are looked at. Neither
    their order nor repetition in place of weights changes the choice.
    With ``trim`` there is none: it is 1.0, all samples that are left.
    With $weights, k counts weight. $collapse
trim : int or float, default=0
    How many, or what part, of the largest losses are set aside, for labels that are wrong or sensors that broke:
    an int counts samples, a float is the fraction of them, and with sample weights both count weight. ``k`` counts
    from the top as before, so that the mean is over the losses ranked ``trim`` to k; ``k=1.0`` is the trimmed
    mean. That is no longer convex: see the notes.
scoring : str, callable or None, default=None
    What ``k="auto"`` chooses by, higher being better; not looked at otherwise. The name of a measure
    ($measures: see :data:`atklearn.measures.MEASURES`), or what scikit-learn accepts. None is the tail: see the next.
tail : float or None, default=None
    The share of the worst $cases whose $size ``k="auto"`` lowers, in the place of ``scoring``; None is a tenth.
at_most : float or None, default=None
    What that may cost: by how much $price may rise, out of fold, against the best average's, relative to it.
    None is 0.02, and no limit with ``scoring``.
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

top_weights_ : $vector
    Worst-case weights of the samples; positive exactly for those in the top k that shape the solution. They sum
    to one, or to less where the threshold is zero.
n_iter_ : $integer
    Newton steps.
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
"""

_SEARCH = """
Cs : int or array-like, default=3
    A number of grid points: from a thousandth of the default C of :class:`atklearn.$plain` up to it,
    log-spaced, and ten times it, made for standardised features; or the grid itself.
trim : int or float, default=0
    How many, or what part, of the largest losses every fit sets aside: see :class:`atklearn.$plain`. It is
    not chosen: see :func:`atklearn.choose_trim`.
cv : int, splitter, iterable or None, default=None
    As in scikit-learn. None is the folds of ``$plain()``: five, or three from 1,500 samples on, of 5,000
    samples at most, and five twice without a budget. Cells that the first folds find far beyond the budget are left
    out of the others. A number or a splitter takes all samples and scores all cells.
scoring : str, callable or None, default=None
    The name of a measure ($measures: see :data:`atklearn.measures.MEASURES`), or what scikit-learn accepts; None is
    the tail: see the next. $rare Sample weights are passed on if it takes them.
tail : float or None, default=None
    The share of the worst $cases whose $size is lowered, in the place of ``scoring``; None is a tenth.
rule : {"one_standard_error", "best"}, default="one_standard_error"
    Among the cells within the budget, "best" takes the one with the best mean score. "one_standard_error" takes the
    largest k with a cell that is behind the best by no more than the standard error of their difference, and its
    best C.
refit : bool, default=True
    Whether to fit the choice on all samples.
tol : float, default=1e-6
    The relative duality gap of the final fit; the cells of the grid are certified to 1e-3.
max_iter : int, default=1000
    Newton steps per fit.
n_jobs : int or None, default=None
    Folds fitted at once, through joblib and its backends; those of tensors are fitted one after another.
random_state : int, RandomState instance or None, default=0
    Shuffles the default folds.

k_ : float
    The chosen k, in units of sample weight.
k_share_ : float
    The same as part of the total weight: a value for the parameter ``k`` of the plain estimator.
C_ : float
    The chosen C.
selection_ : Selection
    What the choice saw, prices and all, and why it is as it is. Draw it with :class:`atklearn.KCurveDisplay`.
best_estimator_ : $plain
    The final fit; present if ``refit``.
cv_results_ : dict of ndarrays
    As in :class:`sklearn.model_selection.GridSearchCV`: ``params``, ``param_k``, ``param_C``,
    ``split0_test_score`` and so on, ``mean_test_score``, ``std_test_score``, ``rank_test_score``. Cells that were
    left out are NaN, or unfinished if a callback stopped the search.
best_index_ : int
    The cell of the choice, which need not be the one of rank 1.
best_params_ : dict
    Its ``k``, as a fraction, and ``C``.
best_score_ : float
    Its mean score over the folds.
trim_share_ : float
    The part set aside.
n_samples_ : int
    Of the fit.
"""

_KERNEL = """
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
tol : float, default=1e-3
    The duality gap allowed, relative to the objective. Small problems are solved to rounding error whatever tol.
cache_size : float, default=200
    LIBSVM's cache of kernel values in MB.
max_iter : int, default=-1
    The iterations allowed to each call of LIBSVM. At the limit the fit ends with the best solution so far, its gap
    and a warning. -1 is LIBSVM's own limit, ten million or 100 per sample, whichever is more; with the linear
    kernel, or up to 3,000 samples, the linear solver takes over long before.
verbose : int, default=0
    1 reports each call of LIBSVM with the gap reached, 2 adds LIBSVM's own output.

support_ : ndarray of shape (n_SV,)
    Indices of the support vectors.
support_vectors_ : {ndarray, sparse matrix} of shape (n_SV, n_features)
    Empty with ``kernel="precomputed"``.
coef_ : $row_of_features
    Weights of the features, only with ``kernel="linear"``.
intercept_ : $row
n_iter_ : $integer
    LIBSVM's iterations.
gamma_ : float
    The gamma used.
"""

_STREAM = """
k : int, float or "max", default=0.7
    An int counts samples, a float is the fraction of them: ``1.0`` is the average loss, "max" the largest alone.
    A stream does not know its length: ``partial_fit`` and ``fit_blocks`` need a fraction.
C : float, default=100.0
    Inverse regularisation strength, relative to the mean of the top k.
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

loss_threshold_ : $number
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
"""

_CORRECTION = """
at_most : float or None, default=0.02
    The budget: by how much the $budget may rise, out of fold, above the plain model's, relative to it. None is no
    limit: the best tail of all.
loss : str or IndividualLoss, default=$loss
    The individual loss of the correction.
k : int, float, "max" or "auto", default="auto"
    As in :class:`atklearn.$plain`. "auto" chooses among nine shares from a half per cent on. With k and C given, the
    correction is always applied.
C : float or None, default=None
    Inverse regularisation strength of the correction, on standardised features. None chooses among 1, 100 and 10,000.
features : "all", "prediction", list or transformer, default="all"
    What of X the correction sees: everything, nothing (predictions alone), columns by their names or places, or what
    a transformer makes of X. Numbers are imputed by their median, the eight most frequent values of other columns
    become columns; of more than 40, those that follow the residual best are taken.
cv : int, splitter, iterable or "prefit", default=5
    A number draws as many parts at random; anything else is as in scikit-learn. Rows that are never left out, the
    first ones of :class:`sklearn.model_selection.TimeSeriesSplit`, are left to the models. "prefit" takes the
    estimator as it is: X and y are rows that it has not seen, and it is never fitted.
n_jobs : int or None, default=None
random_state : int, RandomState or None, default=0
    Of the parts, of the rows to choose on, and of the automatic models.

estimator_ : estimator
    The model, fitted to all rows.
experts_ : list of estimators
    The experts, fitted to all rows; none if the model is kept as it is.
is_corrected_ : bool
    Whether the correction is applied.
tail_after_ : float
    The mean of the worst ``tail`` of the $cases of the plain and of the corrected model. All such values are of rows
    left out: models have not seen them, and k and C were chosen without them, part by part, on 10,000 rows at most.
tail_before_ : float
    See ``tail_after_``.
price_ : dict of dict
    By how much $prices are above those "plain", of the model as it was, and "average", of the same layer with k = n,
    which is stacking: relative to them.
profile_ : TailProfile
    The whole tail and the means, of all three: print it.
layer_ : object
    What is done to predictions; None if the model is kept as it is.
encoder_ : transformer or None
    What makes numbers of X for the correction.
"""

# What the texts say of classifiers and of regressors.
CLASSES = {
    "number": "float or ndarray of shape (n_classes,)",
    "integer": "int or ndarray of shape (n_classes,)",
    "vector": "ndarray of shape (n_samples,) or (n_samples, n_classes)",
    "coef": "ndarray of shape (1, n_features) or (n_classes, n_features)",
    "intercept": "ndarray of shape (1,) or (n_classes,)",
    "row_of_features": "ndarray of shape (1, n_features) or (n_classes, n_features)",
    "row": "ndarray of shape (1,) or (n_classes,)",
    "plain": "ATkClassifier",
    "weights": "sample or class weights",
    "collapse": "Too small a k on noisy data collapses to w = 0: see :class:`atklearn.CollapseWarning`.",
    "measures": '"error", "balanced_error", "worst_class_error", "g_mean", "roc_auc", "average_precision", "log_loss", '
    '"brier"',
    "cases": "losses",
    "size": "mean",
    "price": "the mean loss",
    "budget": "mean log loss",
    "loss": '"log_loss"',
    "prices": '"log_loss" and "error", the mean log loss and the error rate,',
    "rare": 'Where a class is rare, use a score that sees it, such as "balanced_error" or "g_mean".',
}
NUMBERS = {
    "number": "float",
    "integer": "int",
    "vector": "ndarray of shape (n_samples,)",
    "coef": "ndarray of shape (n_features,)",
    "intercept": "float",
    "row_of_features": "ndarray of shape (1, n_features)",
    "row": "ndarray of shape (1,)",
    "plain": "ATkRegressor",
    "weights": "sample weights",
    "collapse": "",
    "measures": '"rmse", "mae", "tail_error", "p95_error", "max_error", "r2"',
    "cases": "errors",
    "size": "mean size",
    "price": "the mean of the loss (the RMSE for the squared error, the mean loss for others)",
    "budget": "RMSE",
    "loss": '"squared_error"',
    "prices": '"rmse" and "mae"',
    "rare": "",
}


def _paragraphs(text: str) -> dict[str, str]:
    """Return the paragraphs of a text, with their headings, by the name that each begins with."""
    return {each.split(" ", 1)[0]: each.rstrip() for each in re.split(r"\n+(?=\S)", text.strip())}


def _written(paragraph: str, words: Mapping[str, str]) -> str:
    """Return a paragraph with the words put in, in lines as long as those of a docstring."""
    heading, _, text = Template(paragraph).substitute(words).partition("\n")
    lines = wrap(" ".join(text.split()), 108, break_long_words=False, break_on_hyphens=False)
    return "\n".join([heading, *(f"    {line}" for line in lines)])


_FAMILIES = {
    "linear": _paragraphs(_COMMON) | _paragraphs(_LINEAR),
    "search": _paragraphs(_COMMON) | _paragraphs(_LINEAR) | _paragraphs(_SEARCH),
    "kernel": _paragraphs(_COMMON) | _paragraphs(_LINEAR) | _paragraphs(_KERNEL),
    "stream": _paragraphs(_COMMON) | _paragraphs(_STREAM),
    "correction": _paragraphs(_COMMON) | _paragraphs(_LINEAR) | _paragraphs(_CORRECTION),
}


def documented(family: str, words: Mapping[str, str]) -> Callable[[_Class], _Class]:
    """Return a decorator that puts texts in the place of the lines of bare names in the docstring of a class.

    Parameters
    ----------
    family : {"linear", "search", "kernel", "stream", "correction"}
        Whose texts.
    words : dict
        What stands where the texts have ``$word``: :data:`CLASSES` or :data:`NUMBERS`.

    Examples
    --------
    >>> @documented("linear", NUMBERS)
    ... class Model:
    ...     '''A model.
    ...
    ...     Parameters
    ...     ----------
    ...     tol, max_iter
    ...     '''
    >>> print(Model.__doc__.splitlines()[-1].strip())
    The number of Newton steps allowed.
    """
    texts = _FAMILIES[family]

    def filled(line: str) -> str:
        names = line.split(", ")
        return "\n".join(_written(texts[name], words) for name in names) if texts.keys() >= {*names} else line

    def fill(cls: _Class) -> _Class:
        if cls.__doc__ is not None:  # as under python -OO
            lines = inspect.cleandoc(cls.__doc__).splitlines()
            cls.__doc__ = "\n".join(map(filled, lines))
        return cls

    return fill
