"""The paper's stochastic algorithm: learning (w, lambda) one sample at a time (Eq. 2).

By Lemma 1 the objective is the minimum over lambda of a mean over the samples,

    F(w, b) = min over lambda of  mean_i( [l_i - lambda]_+ / q ) + lambda + |w|^2 / (2 C),      q = k / n,

so that a visit to one sample gives an unbiased subgradient. With the indicator a = 1[l_i > lambda],

    w       <-  w - eta_t (a / q * dl_i/dw + w / C)
    lambda  <-  lambda - eta_t (1 - a / q),      clipped to [0, l(0)] for margin losses, to [0, inf) otherwise.

Relation to the paper: Eq. 2 takes steps on q F, with the C of :func:`atklearn.theory.paper_C`, so a step of Eq. 2 is
q times as long as the same step here. The code that the authors published takes steps on C F, so its step
1e-3 / sqrt(t) is ``eta0 = 1e-3 * C`` here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state

from atklearn.core.problem import Certificate, InterceptKind, Problem, Progress, Solution, StopReason
from atklearn.losses.aggregate import AverageTopK
from atklearn.losses.compiled import compiled
from atklearn.losses.individual import Array, IndividualLoss
from atklearn.runtime.compiling import HAS_NUMBA
from atklearn.runtime.messages import shown
from atklearn.stochastic.visits import (
    ALL,
    B_SUM,
    CONSTANT,
    INVERSE_POWER,
    LAM,
    LAM_SUM,
    LAST,
    OPTIMAL,
    REACH,
    RECENT,
    SCALE,
    STATE_SIZE,
    TOTAL,
    B,
    Rows,
    StepRule,
    T,
    passes,
    walk,
)
from atklearn.stores.compiled import CompiledRows, Places
from atklearn.stores.passes import readable

__all__ = ["SGD", "Descent", "Plateau", "RandomState", "draw_seed", "solve_sgd", "solve_sgd_grid"]

RandomState: TypeAlias = np.random.RandomState | int | None
LearningRate: TypeAlias = Literal["invscaling", "optimal", "constant", "adaptive"]
Averaging: TypeAlias = Literal["recent", "all"] | None

LEARNING_RATES = ("invscaling", "optimal", "constant", "adaptive")
AVERAGINGS = ("recent", "all")

# Visits from which the first step is scaled, if it is not given.
HEAD = 1000
# A first step of the right size moves a prediction by its natural unit; it starts to fall after this many visits.
_DELAY = 100.0
# The threshold's first step, relative to the mean loss.
_LAM_STEP = 0.05
# Widths of the edge of the top k that are tried for the certificate, relative to the spread of the losses.
_EDGES = np.array([1e-3, 0.03, 0.2, 1.0])
# The adaptive schedule: what the step is divided by, where it ends, and when the solver takes the objective as level.
_ADAPTIVE_CUT = 5.0
_ADAPTIVE_END = 1e-6
_ADAPTIVE_TOL = 1e-3
_ADAPTIVE_PATIENCE = 5


@dataclass(frozen=True)
class SGD:
    """How the stochastic solver steps.

    Parameters
    ----------
    learning_rate : {"invscaling", "optimal", "constant", "adaptive"}, default="invscaling"
        The step of the t-th visit: ``eta0 / t**power_t``, ``1 / (1/eta0 + t/C)``, ``eta0``, or ``eta0`` divided by 5
        whenever the objective stops falling.
    eta0 : float or "auto", default="auto"
        The first step. A number is used for the weights and for lambda alike, as in the paper. "auto" finds one for
        each from the first 1000 visits, keeps it for about 100 visits before it falls, and keeps steps on losses of
        unbounded slope from overshooting their target.
    power_t : float, default=0.5
        The exponent of "invscaling"; the paper's is 0.5.
    shuffle : bool, default=True
        Whether each pass visits the samples in a new random order; otherwise passes are cyclic.
    average : {"recent", "all"} or None, default="recent"
        The mean of the iterates that is returned: with weights growing like t**2, with equal weights, or none of it,
        that is the last iterate.
    random_state : int, RandomState instance or None, default=0
        Of the order of the visits.

    See Also
    --------
    SGDATkClassifier, SGDATkRegressor : These steps as estimators, on arrays and streams, without a certificate.

    Examples
    --------
    The settings of the authors' published code, for C = 100:

    >>> SGD(eta0=1e-3 * 100, shuffle=False, average="all").learning_rate
    'invscaling'
    """

    learning_rate: LearningRate = "invscaling"
    eta0: float | Literal["auto"] = "auto"
    power_t: float = 0.5
    shuffle: bool = True
    average: Averaging = "recent"
    random_state: RandomState = 0

    def __post_init__(self) -> None:
        if self.learning_rate not in LEARNING_RATES:
            raise ValueError(f"learning_rate is expected to be one of {LEARNING_RATES}, got {self.learning_rate!r}.")
        if self.eta0 != "auto" and not (isinstance(self.eta0, Real) and 0.0 < self.eta0 < np.inf):
            raise ValueError(f'eta0 is expected to be a finite number > 0 or "auto", got {shown(self.eta0)}.')
        if not 0.0 <= self.power_t <= 1.0:
            raise ValueError(f"power_t is expected in [0, 1], got {shown(self.power_t)}; the paper's is 0.5.")
        if self.average is not None and self.average not in AVERAGINGS:
            raise ValueError(f"average is expected to be one of {AVERAGINGS} or None, got {self.average!r}.")


class Descent:
    """The iterate (w, b, lambda) of one problem, its average, and the rule of its steps.

    The first step, lambda and the intercept of a regression are set from ``head``: some visits that stand for the rest.
    """

    def __init__(
        self,
        head_X: Rows,
        head_y: Array,
        loss: IndividualLoss,
        fraction: float,
        C: float,
        intercept: InterceptKind,
        settings: SGD,
    ) -> None:
        self.loss = loss
        self.v, self.lag = np.zeros((2, head_X.shape[1]))
        self.state = np.zeros(STATE_SIZE)
        self.state[SCALE] = 1.0
        regression = loss.task == "regression"
        if regression and intercept != "none":
            self.state[B] = head_y.mean()
        start = np.full(head_y.size, self.state[B])
        losses = loss(start, head_y)
        if fraction < 1.0:
            self.state[LAM] = AverageTopK(fraction).threshold(losses)
        automatic = settings.eta0 == "auto"
        eta0, lam_rate = _first_steps(head_X, head_y, start, loss, fraction, intercept) if automatic else (0.0, 1.0)
        self.rule = StepRule(
            schedule={"invscaling": INVERSE_POWER, "optimal": OPTIMAL}.get(settings.learning_rate, CONSTANT),
            eta0=eta0 if automatic else float(settings.eta0),
            power=float(settings.power_t),
            delay=_DELAY if automatic else 1.0,
            lam_rate=lam_rate,
            lam_max=np.inf if regression else loss.at_zero,
            fraction=float(fraction),
            ridge=1.0 / C,
            has_intercept=intercept != "none",
            decays_intercept=intercept == "penalized",
            curvature=_overshoot(loss, start, head_y) if automatic else 0.0,
            averaging={None: LAST, "all": ALL, "recent": RECENT}[settings.average],
        )
        self.first_step = self.rule.eta0

    def walk(self, X: Rows, y: Array, visits: Places) -> float:
        """Visit the rows in turn; return the mean objective met on the way."""
        cost = walk(readable(X), y, visits, compiled(self.loss) or self.loss, self.v, self.lag, self.state, self.rule)
        # Weights may be finite while their square is not.
        with np.errstate(over="ignore", invalid="ignore"):
            w = self.state[SCALE] * self.v
            objective = cost / visits.size + 0.5 * self.rule.ridge * float(w @ w)
        if not np.isfinite(objective):
            raise ValueError(
                f"The stochastic steps overflowed after {self.state[T]:.0f} visits with a first step of "
                f'{self.rule.eta0:g}; lower eta0 or use eta0="auto", and standardise the features.'
            )
        return objective

    def shorten_step(self) -> bool:
        """Go on with a fifth of the step, as the adaptive schedule does; return False if it is too short to go on."""
        if self.rule.eta0 <= _ADAPTIVE_END * self.first_step:
            return False
        self.rule = self.rule._replace(eta0=self.rule.eta0 / _ADAPTIVE_CUT)
        return True

    def move_to(self, weights: Array, intercept: float, threshold: float) -> None:
        """Start from given weights, intercept and threshold, before any visit."""
        self.v[:] = weights
        if self.rule.has_intercept:
            self.state[B] = intercept
        if self.rule.fraction < 1.0:
            self.state[LAM] = min(threshold, self.rule.lam_max)

    @property
    def weights(self) -> Array:
        """The weights of the features."""
        state = self.state
        if state[TOTAL] > 0.0:
            return np.asarray((state[REACH] * self.v - self.lag) / state[TOTAL])
        return np.asarray(state[SCALE] * self.v)

    @property
    def intercept(self) -> float:
        """The intercept, 0 if there is none."""
        state = self.state
        return float(state[B_SUM] / state[TOTAL] if state[TOTAL] > 0.0 else state[B])

    @property
    def threshold(self) -> float:
        """The learned lambda."""
        state = self.state
        return float(state[LAM_SUM] / state[TOTAL] if state[TOTAL] > 0.0 else state[LAM])

    @property
    def n_visits(self) -> int:
        """How many samples were visited so far."""
        return int(self.state[T])


def _first_steps(
    X: Rows, y: Array, start: Array, loss: IndividualLoss, fraction: float, intercept: InterceptKind
) -> tuple[float, float]:
    """Return the first step of the weights and its ratio to the threshold's step.

    A visit in the top k with slope g moves its own prediction by ``eta / q * g * |x|^2``. The first step makes this
    one unit of margin, or one standard deviation of the targets.
    """
    _, slope, _ = loss.expand(start, y)
    square = float(sp.csr_array(X).power(2).sum() if sp.issparse(X) else np.einsum("ij,ij->", X, X, dtype=np.float64))
    square = square / y.size + (intercept != "none")
    move = 1.0 if loss.task == "classification" else float(np.sqrt(np.mean((y - start) ** 2)))
    steepness = float(np.sqrt(np.mean(slope**2)))
    unit = steepness * square
    eta0 = fraction * move / unit if move > 0.0 and unit > 0.0 else fraction
    size = float(loss(start, y).mean())
    return eta0, _LAM_STEP * fraction * (size if size > 0.0 else 1.0) / eta0


def _overshoot(loss: IndividualLoss, start: Array, y: Array) -> float:
    """Return the curvature that limits a step; 0 for losses whose bounded slope does."""
    return 0.0 if loss.bounded_slope else float(loss.expand(start, y)[2].max())


class Plateau:
    """Tells when a value has stopped falling: ``patience`` times in a row by less than ``tol``, relative to it."""

    def __init__(self, tol: float | None, patience: int) -> None:
        self.tol = tol
        self.patience = patience
        self.best = np.inf
        self.waited = 0

    def reached(self, value: float) -> bool:
        """Take the next value; without a tolerance it is never reached."""
        if self.tol is None:
            return False
        self.waited = 0 if value < self.best - self.tol * abs(value) else self.waited + 1
        self.best = min(self.best, value)
        return self.waited >= self.patience


def draw_seed(random_state: RandomState) -> int:
    """Draw a seed, the same for the same int."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def solve_sgd(
    problem: Problem,
    *,
    tol: float = 1e-2,
    max_iter: int = 20,
    settings: SGD | None = None,
    start: Solution | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Minimise ``AT_k + |w|^2 / (2 C)`` by the stochastic steps of Eq. 2, and certify how close it came.

    Parameters
    ----------
    problem : Problem
    tol : float
        The duality gap allowed, relative to the objective. A look at it costs about as much as a few passes, so it is
        taken after passes 1, 2, 3, 5, 8, ...: whenever their number has grown by half.
    max_iter : int
        The number of passes allowed.
    settings : SGD, default=None
    start : Solution, default=None
        A solution of a neighbouring problem to start from.
    progress : callable, default=None
        Called after each pass with the passes so far, the objective met on the way and the last certified gap; a true
        answer stops.

    Returns
    -------
    Solution
        With a certified duality gap, whatever made the solver stop.
    """
    if not HAS_NUMBA:
        raise ModuleNotFoundError("Stochastic steps are compiled, which needs numba: pip install numba", name="numba")
    settings = SGD() if settings is None else settings
    rows = problem.rows
    if not isinstance(rows, CompiledRows):
        raise ValueError(f"The stochastic solver visits rows in memory, got {type(rows).__name__}.")
    X, y = rows.X, rows.y
    orders = passes(X, y, rows.mass, settings.shuffle, draw_seed(settings.random_state))
    visits = next(orders)
    head = visits[:HEAD]
    descent = Descent(X[head], y[head], problem.loss, problem.k / rows.total, problem.C, problem.intercept, settings)
    if start is not None:
        descent.move_to(*rows.split(start.coef), start.threshold)
    plateau = Plateau(_ADAPTIVE_TOL, _ADAPTIVE_PATIENCE)
    gap, looked = np.inf, 0
    for n_iter in range(1, max_iter + 1):
        cost = descent.walk(X, y, visits)
        if settings.learning_rate == "adaptive" and plateau.reached(cost):
            plateau.waited = 0
            descent.shorten_step()
        stopped = progress is not None and bool(progress(n_iter, cost, gap))
        if stopped or n_iter == max_iter or 2 * n_iter >= 3 * looked:
            looked = n_iter
            certificate = _certify(problem, descent)
            gap = certificate.dual_gap
            if stopped or certificate.reaches(tol):
                break
        visits = next(orders)
    otherwise = StopReason.CALLBACK if stopped else StopReason.MAX_ITER
    return Solution.of(certificate, tol=tol, n_iter=n_iter, otherwise=otherwise)


def solve_sgd_grid(
    problem: Problem,
    ks: Sequence[float],
    Cs: Sequence[float],
    *,
    tol: float,
    max_iter: int,
    settings: SGD | None = None,
) -> Iterator[tuple[int, int, Solution]]:
    """Yield ``(i, j, solution at ks[i] and Cs[j])``, k in mass, each fit by stochastic steps from the start."""
    for (i, k), (j, C) in product(enumerate(ks), enumerate(Cs)):
        yield i, j, solve_sgd(problem.at(k, C), tol=tol, max_iter=max_iter, settings=settings)


def _certify(problem: Problem, descent: Descent) -> Certificate:
    """Evaluate the iterate on all rows, and take the best proof of several.

    Any sample weights of the dual prove a bound. The top k alone is a jumpy choice near the threshold; spreading its
    edge by some part of the losses' spread proves more, and how much to spread is cheaper to try than to know.
    """
    point = problem.rows.point(problem.rows.join(descent.weights, descent.intercept), problem.k)
    spread = point.smooth(1.0).deviation or 1.0
    certificates = []
    for mu in spread * _EDGES:
        point.smooth(float(mu))
        certificates.append(problem.certify_point(point))
    return min(certificates, key=lambda certificate: certificate.dual_gap)
