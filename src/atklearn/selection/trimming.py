"""How many samples to set aside: by cross-validation, or where the sorted losses jump."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter
from scipy.optimize import brentq
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.model_selection import (
    BaseCrossValidator,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    check_cv,
    cross_val_score,
)

from atklearn.losses.aggregate import check_losses, ranked_loss, resolve_trim
from atklearn.losses.individual import Array, Task
from atklearn.measures.scores import resolve_scoring
from atklearn.runtime.messages import shown
from atklearn.runtime.namespaces import Features, Vector
from atklearn.selection.choosing import corrected_standard_error
from atklearn.selection.folds import Split

__all__ = ["TrimAtJump", "TrimChoice", "choose_trim", "trim_at_jump"]

Splitter: TypeAlias = int | BaseCrossValidator | Iterable[Split] | None

# The default splitter: five folds, repeated the more the fewer samples there are to score.
_FOLDS = 5
_FEW_SAMPLES = 1500
_REPEATS = (5, 2)
_RULES = ("best", "one_standard_error")
# What no small part of wrong rows can move much.
_DEFAULT_SCORES: dict[Task, str] = {"classification": "accuracy", "regression": "neg_median_absolute_error"}
# Gaps below a jump that tell what is typical: enough for a steady median, few enough to be neighbours. Odd.
_NEIGHBOURS = 25
# How many gaps of a smooth tail may pass for a jump, in all the candidates of a data set together.
_FALSE_JUMPS = 1e-3
# Which part of the losses is small: gaps among these are compared as they are, others relative to the loss.
_SMALL_PART = 0.1
# Rows that are copies of each other have losses that differ by rounding.
_SAME_LEVEL = 1e-10


@dataclass(frozen=True)
class TrimChoice:
    """The share or count of samples to set aside: what :func:`atklearn.choose_trim` returns, described there."""

    trim: float
    trims: tuple[float, ...]
    scores: Array
    means: Array
    errors: Array

    def __str__(self) -> str:
        lines = [f"{'trim':>8}  {'score':>12}  {'behind the best':>15}  {'± error':>10}"]
        best = int(self.means.argmax())
        for place, (trim, mean, error) in enumerate(zip(self.trims, self.means, self.errors, strict=True)):
            notes = ["best"] * (place == best) + ["chosen"] * (trim == self.trim)
            behind = self.means[best] - mean
            line = f"{trim:>8g}  {mean:>12.5g}  {behind:>15.3g}  {error:>10.2g}  {', '.join(notes)}"
            lines.append(line.rstrip())
        return "\n".join(lines)


def choose_trim(
    estimator: BaseEstimator,
    X: Features,
    y: Vector,
    *,
    trims: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3),
    cv: Splitter = None,
    scoring: str | Callable[..., float] | None = None,
    parameter: str = "trim",
    rule: str = "one_standard_error",
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = 0,
) -> TrimChoice:
    """Choose how many samples to set aside by cross-validation.

    The rows that judge are as wrong as those that train, and this decides what can be chosen by:

    - **Classification.** Labels exchanged at random, each as likely as any other, raise the error rates of all models
      alike and keep their order; accuracy then chooses as clean labels would. Noise with a structure does not: where
      one class or one region is mislabelled more than others, the model that repeats the mistakes scores best.
    - **Regression.** A mean of errors is hostage to the outliers among the rows that judge: they make up most of it,
      whatever the model is. The median absolute error is not, as long as they are the minority, so it is the default.
      It looks at the middle of the errors only; whether the tail is served is not its question.

    Either way the differences are small next to their noise, and it takes many rows, a thousand rather than a hundred,
    to tell neighbours on the grid apart. Where the share of outliers is known, there is no need to choose:
    :func:`atklearn.theory.trim_for_outliers`.

    Parameters
    ----------
    estimator : estimator
        Anything with ``get_params``; it is cloned, not fitted. Give it a ``k`` of its own, such as 1.0: "auto" is a
        choice of k at ``trim=0`` and none above, so that two things would change at once.
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    trims : sequence of float or int, default=(0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
        The candidates: floats are shares, ints counts of the training part of a split, which is smaller than all of X.
    cv : int, splitter, iterable or None, default=None
        None is five folds, stratified for classes, repeated five times, or twice from 1,500 samples on. All candidates
        see the same splits.
    scoring : str, callable or None, default=None
        The name of a measure (:data:`atklearn.measures.MEASURES`) or what scikit-learn accepts. None is "accuracy"
        for classifiers and "neg_median_absolute_error" for regressors.
    parameter : str, default="trim"
        What the estimator calls it; in a pipeline, for example, "atkclassifier__trim".
    rule : {"one_standard_error", "best"}, default="one_standard_error"
        "best" takes the best mean, the smallest trim among equals. "one_standard_error" takes the smallest trim that
        is behind the best by no more than the standard error of the difference: nothing is set aside unless the scores
        ask for it.
    n_jobs : int, default=None
        Splits fitted at once.
    random_state : int, RandomState instance or None, default=0
        Of the splits with ``cv=None``; a splitter has its own.

    Returns
    -------
    choice : TrimChoice
        ``trim`` is the choice; ``trims`` are the candidates, ascending, with their ``scores`` on every split, shape
        (n_splits, n_trims), higher being better, the ``means`` of these, and the standard ``errors`` of how far each is
        behind the best mean, corrected for splits that overlap. :func:`print` shows a table.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import ATkRegressor, choose_trim
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> y = X @ [1.0, 2.0] + 0.1 * rng.standard_normal(200)
    >>> y[:16] += 50.0  # 8 % of the sensors broke
    >>> choice = choose_trim(ATkRegressor(k=1.0, n_init=0), X, y, trims=(0.0, 0.1, 0.2), cv=5)
    >>> print(choice)
        trim         score  behind the best     ± error
           0       -4.0782             3.99         1.5
         0.1     -0.085925          0.00231      0.0032  chosen
         0.2     -0.083619                0           0  best
    """
    if rule not in _RULES:
        raise ValueError(f"rule is expected to be one of {list(_RULES)}, got {shown(rule)}.")
    if parameter not in estimator.get_params():
        close = [name for name in estimator.get_params() if name.endswith("trim")]
        raise ValueError(
            f"parameter is expected to name a parameter of {type(estimator).__name__}, got {shown(parameter)}; "
            + (f"try {' or '.join(map(repr, close))}." if close else "none of its parameters ends with 'trim'.")
        )
    splits = _splits(cv, X, y, is_classifier(estimator), random_state)
    candidates = _ascending(trims, min(train.size for train, _ in splits))
    task: Task = "classification" if is_classifier(estimator) else "regression"
    judge = resolve_scoring(_DEFAULT_SCORES[task] if scoring is None else scoring, task)
    score = partial(cross_val_score, X=X, y=y, cv=splits, scoring=judge, n_jobs=n_jobs, error_score="raise")
    scores = np.column_stack([score(clone(estimator).set_params(**{parameter: trim})) for trim in candidates])
    if not np.isfinite(scores).all():
        raise ValueError(
            f"Scores are expected to be finite, got {int((~np.isfinite(scores)).sum())} of {scores.size} that are not; "
            "choose another scoring, or folds in which it is defined."
        )
    means = scores.mean(axis=0)
    best = int(means.argmax())  # the first of equals: the smallest trim
    behind = scores[:, [best]] - scores
    errors = corrected_standard_error(behind, float(np.mean([test.size / train.size for train, test in splits])))
    chosen = best if rule == "best" else int(np.argmax(behind.mean(axis=0) <= errors))
    return TrimChoice(candidates[chosen], candidates, scores, means, errors)


@dataclass(frozen=True)
class TrimAtJump:
    """Where sorted losses jump: what :func:`atklearn.trim_at_jump` returns, described there."""

    trim: float
    count: int | None
    threshold: float
    prominence: float
    needed: float

    @property
    def is_clear(self) -> bool:
        """Whether there is a jump that chance does not explain."""
        return self.prominence > self.needed

    def __str__(self) -> str:
        found = f"trim {self.trim:.3g}, above a loss of {self.threshold:.3g}" if self.is_clear else "no clear jump"
        return (
            f"{found}: the most prominent gap is {self.prominence:.3g} times its neighbours, {self.needed:.3g} needed"
        )


def trim_at_jump(losses: npt.ArrayLike, *, sample_weight: npt.ArrayLike | None = None, most: float = 0.5) -> TrimAtJump:
    r"""Find how many samples to set aside from a jump in the sorted losses.

    Gross outliers have losses of another size than the rest. With the losses in descending order, put

    .. math:: z_i = i \, \log \frac{\ell_{[i]} + c}{\ell_{[i+1]} + c},

    with the first decile of the losses for c, or the median of the positive ones if that is zero. Wherever the losses
    have a tail like a power, these are independent, exponential and of one size, however wide the gaps at the very top
    are (Rényi); with a lighter tail they shrink towards the top. The prominence of a gap is :math:`z_i` over the median
    of the 25 just below it (where there are not so many, of the nearest above as well). The most prominent gap is a
    jump if a smooth tail has as prominent a one among all candidates in at most one of a thousand data sets. If not,
    the answer is to set nothing aside. Equal losses are one, of their joint weight.

    What it needs:

    - Losses of a fit that the outliers do not pull: one with a generous ``trim``, or the average loss if the outliers
      are few. Those of a fit that was pulled hide the jump (masking).
    - Gross outliers in regression, or exchanged labels of classes that are separated by a margin. Where classes
      overlap, exchanged labels look like hard samples and there is no jump to find: of the labels exchanged in
      scikit-learn's breast cancer, wine, iris and digits data it found none.
    - Several outliers, and a hundred samples or so: a single large loss is what the end of a heavy tail looks like.

    A jump says that some losses are of another size, not that their labels are wrong: a small group that the model
    cannot fit looks the same. The squared hinge has so many losses next to zero that a jump may be seen there: in one
    simulation of classes that overlap, of 1,000 samples, 6 of 200 times.

    Parameters
    ----------
    losses : array-like of shape (n_samples,)
        Individual losses, none negative.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights count as repetitions do.
    most : float, default=0.5
        The largest share of the weight to set aside, in (0, 0.5]: outliers are a minority.

    Returns
    -------
    jump : TrimAtJump
        ``trim`` is the share of the weight above the jump, 0.0 if there is no clear one (``is_clear``); ``count`` the
        number of losses above it, None with sample weights; ``threshold`` the loss in the middle of it, or infinite;
        ``prominence`` how many times wider the most prominent gap is than its neighbours, clear or not, and ``needed``
        how many times makes it clear.

    References
    ----------
    Rényi. On the theory of order statistics. Acta Mathematica Hungarica, 1953.

    Examples
    --------
    >>> import numpy as np
    >>> from atklearn import ATkRegressor, trim_at_jump
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> y = X @ [1.0, 2.0] + 0.1 * rng.standard_normal(500)
    >>> y[:40] += rng.uniform(5.0, 10.0, 40)
    >>> generous = ATkRegressor(trim=0.3).fit(X, y)
    >>> jump = trim_at_jump((y - generous.predict(X)) ** 2)
    >>> jump.count, jump.is_clear
    (40, True)
    >>> print(trim_at_jump(rng.exponential(size=500)))
    no clear jump: the most prominent gap is 6.51 times its neighbours, 29.6 needed
    """
    loss, weight = check_losses(losses, sample_weight)
    if loss.min() < 0.0:
        raise ValueError(
            f"losses are expected to be at least 0, got {loss.min():g}; pass losses, not residuals or decision values."
        )
    if not 0.0 < most <= 0.5:
        raise ValueError(f"most is expected in (0, 0.5], got {shown(most)}: outliers are the smaller part.")
    counted = np.ones_like(loss) if weight is None else weight
    order = np.argsort(-loss, kind="stable")
    order = order[counted[order] > 0.0]
    ordered, above = loss[order], counted[order].cumsum()
    small = _small_loss(ordered, counted[order])
    gaps = -np.diff(np.log(ordered + small))
    ends = np.flatnonzero(gaps > _SAME_LEVEL)  # the last sample above each gap
    prominences = _prominences(above[ends] * gaps[ends])
    candidates = int(np.searchsorted(above[ends], most * above[-1] * (1.0 + _SAME_LEVEL), side="right"))
    none = 0 if weight is None else None
    if prominences.size == 0 or candidates == 0:  # too few different losses to know what is typical
        return TrimAtJump(0.0, none, np.inf, 0.0, np.inf)
    place = int(prominences[:candidates].argmax())
    prominence, needed = float(prominences[place]), _needed_prominence(candidates, _neighbours_of(ends.size))
    if prominence <= needed:
        return TrimAtJump(0.0, none, np.inf, prominence, needed)
    last = int(ends[place])
    return TrimAtJump(
        float(above[last] / above[-1]), last + 1 if weight is None else None,
        float(ordered[last : last + 2].mean()), prominence, needed,
    )  # fmt: skip


def _splits(
    cv: Splitter,
    X: Features,
    y: Vector,
    classification: bool,
    random_state: int | np.random.RandomState | None,
) -> list[Split]:
    """Return the parts to train and to judge on, once for all candidates."""
    splitter = check_cv(_FOLDS if cv is None else cv, y, classifier=classification)
    if cv is None:
        labels = np.asarray(y)
        repeats = _REPEATS[0] if labels.size < _FEW_SAMPLES else _REPEATS[1]
        if classification:
            rarest = int(np.unique(labels, return_counts=True)[1].min())
            folds = min(_FOLDS, max(rarest, 2))
            splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=random_state)
        else:
            folds = min(_FOLDS, labels.size)
            splitter = RepeatedKFold(n_splits=folds, n_repeats=repeats, random_state=random_state)
    return [(np.asarray(train), np.asarray(test)) for train, test in splitter.split(X, y)]


def _ascending(trims: Sequence[float], n_train: int) -> tuple[float, ...]:
    """Return the candidates in ascending order, each once, of one kind."""
    if len(trims) == 0:
        raise ValueError("trims are expected to be some shares or counts, got none; (0.0, 0.1) asks whether to trim.")
    kinds = {isinstance(trim, Integral) for trim in trims if trim != 0}  # zero is the same either way
    if len(kinds) > 1:
        raise ValueError(
            f"trims are expected to be all shares (floats) or all counts (ints), got {shown(list(trims))}; "
            "write counts as shares of the samples."
        )
    amounts = {resolve_trim(trim, n_train, n_train): trim for trim in trims}
    return tuple(amounts[amount] for amount in sorted(amounts))


def _small_loss(loss: Array, weight: Array) -> float:
    """Return a loss that is small but not zero, unless all are: the first decile, or the median of the positive."""
    decile = ranked_loss(loss, weight, (1.0 - _SMALL_PART) * float(weight.sum()))
    if decile > 0.0:
        return decile
    # few losses of a hinge may be all there is above zero, and the least of them too near to it to measure by
    positive = loss > 0.0
    return ranked_loss(loss[positive], weight[positive], 0.5 * float(weight[positive].sum())) if positive.any() else 1.0


def _neighbours_of(n_gaps: int) -> int:
    """Return how many other gaps tell what is typical: an odd number."""
    return min(_NEIGHBOURS, n_gaps - 1 - n_gaps % 2)


def _prominences(sizes: Array) -> Array:
    """Return every normalised gap over the median of its neighbours below; empty if there are no others."""
    wanted = _neighbours_of(sizes.size)
    if wanted < 1:
        return np.empty(0)
    inside = sizes.size - wanted  # those with as many below
    # the filter's window is centred: its answer for the gaps i + 1 to i + wanted is at their middle
    middles = np.arange(inside) + 1 + wanted // 2
    typical = np.empty_like(sizes)
    typical[:inside] = median_filter(sizes, size=wanted, mode="nearest")[middles]
    nearest = sizes[inside - 1 :]  # for each of the rest, the others of these
    typical[inside:] = [np.median(np.delete(nearest, place)) for place in range(1, nearest.size)]
    return sizes / typical


def _needed_prominence(candidates: int, neighbours: int) -> float:
    r"""Return the prominence that a smooth tail exceeds ``_FALSE_JUMPS`` times, in so many candidates.

    A unit exponential exceeds t times the median of w others with probability ``E exp(-t median)``. The median is a sum
    of independent exponentials of the rates w, w - 1, ... down to (w + 1) / 2 (Rényi), hence a product.
    """
    rates = neighbours - np.arange((neighbours + 1) // 2)

    def excess(prominence: float) -> float:
        return float(np.log(candidates / _FALSE_JUMPS) - np.log1p(prominence / rates).sum())

    # one factor alone brings it down to the level wanted at this prominence
    return float(brentq(excess, 0.0, neighbours * candidates / _FALSE_JUMPS))
