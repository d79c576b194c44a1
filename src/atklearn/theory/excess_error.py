"""Theorem 2: how far the error of the AT_k-SVM can be above the Bayes error.

The AT_k-SVM of the theorem has no intercept and lives in the Hilbert space of a kernel K with ``K(x, x) <= kappa^2``:

    minimise over f, 0 <= rho <= 1:   sum([rho - y_i f(x_i)]_+) / n - (k/n) rho + |f|^2 / (2 C),

with n independent samples. Its C divides the losses by n: see :attr:`ErrorBound.library_C`. With f_H the function of
smallest hinge risk in the space, A the excess of that risk over the smallest of all functions, and
``k = ceil(n (risk of f_H + mu))``, the *proof* of the theorem shows for every epsilon > 0

    P(excess error >= mu + 1/n + A + epsilon + 2 kappa R / sqrt(n))
        <= exp(-n mu^2 / (2 (1 + kappa |f_H|)^2)) + exp(-2 n epsilon^2 / (1 + kappa R)^2),

    R = (2 k/n) max(sqrt(2 C / mu), 2 |f_H| / mu),

R being the bound on ``|f| / rho``. This module computes that. The theorem as stated has ``(1 + c) / (sqrt(n) mu)``,
with ``c = kappa (2 sqrt(2 C) + 4 |f_H|) >= mu kappa R``, in the place of ``1/n + 2 kappa R / sqrt(n)``: a factor of 2
is lost on the way. Where the statement comes out smaller it is not what the proof gives; it is kept for comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.optimize import minimize_scalar

from atklearn.losses.aggregate import resolve_k
from atklearn.runtime.messages import shown
from atklearn.theory.checks import check_count, check_finite, check_share

__all__ = ["ErrorBound", "excess_error_bound", "paper_C", "required_samples"]

_MOST_SAMPLES = 2**1000


@dataclass(frozen=True, kw_only=True)
class ErrorBound:
    """The bound of Theorem 2 with all it depends on; refuses what is outside the theorem's conditions.

    It is what :func:`atklearn.theory.excess_error_bound` and :func:`atklearn.theory.required_samples` return;
    :func:`print` shows it in words.

    Attributes
    ----------
    n : int
        Number of samples.
    mu : float
        How far k/n is above the risk of f_H, in (0, 1 - risk).
    epsilon : float
        Deviation allowed, in (0, 1].
    C : float
        The paper's C.
    kappa : float
        Largest ``sqrt(K(x, x))``; for a linear kernel the largest ``|x|``.
    norm : float
        ``|f_H|`` in the Hilbert space; for a linear kernel ``|w|``.
    risk : float
        Hinge risk of f_H, in [0, 1).
    approximation : float, default=0.0
        Approximation error A, the risk minus the smallest hinge risk of all functions; 0 for a universal kernel.

    Examples
    --------
    >>> from atklearn.theory import excess_error_bound
    >>> bound = excess_error_bound(100_000, mu=0.2, epsilon=0.1, C=1.0, kappa=1.0, norm=2.0, risk=0.25)
    >>> bound.k, round(bound.value, 3), round(bound.probability, 4), bound.is_vacuous
    (45000, 0.414, 0.0039, False)
    >>> bound.library_C  # to train with: ATkSVC(k=bound.k, C=bound.library_C, fit_intercept=False)
    0.45
    """

    n: int
    mu: float
    epsilon: float
    C: float
    kappa: float
    norm: float
    risk: float
    approximation: float = 0.0

    def __post_init__(self) -> None:
        for name in ("C", "kappa", "norm"):
            check_finite(name, getattr(self, name), "see ErrorBound for its meaning")
        if not 0.0 <= self.risk < 1.0:
            raise ValueError(
                f"risk is expected in [0, 1), got {shown(self.risk)}; at 1 the best function of the space is no better "
                "than zero: take a richer kernel."
            )
        if not 0.0 <= self.approximation <= self.risk:
            raise ValueError(
                f"approximation is expected in [0, risk] = [0, {self.risk:g}], got {shown(self.approximation)}; it is "
                "the risk of f_H minus twice the Bayes error."
            )
        if self.kappa * self.norm < (1.0 - self.risk) * (1.0 - 1e-9):
            raise ValueError(
                f"kappa * norm is expected to be at least 1 - risk = {1.0 - self.risk:g}, since |f_H(x)| <= kappa * "
                f"norm, got {self.kappa * self.norm:g}; check the units of kappa and norm."
            )
        check_count("n", self.n, "pass the number of samples")
        if not 0.0 < self.mu < 1.0 - self.risk:
            raise ValueError(
                f"mu is expected in (0, 1 - risk) = (0, {1.0 - self.risk:g}), got {shown(self.mu)}; "
                "for a k at hand, mu is k/n minus the risk of f_H, and k has to be larger than n times that risk."
            )
        if not 0.0 < self.epsilon <= 1.0:
            raise ValueError(
                f"epsilon is expected in (0, 1], got {shown(self.epsilon)}; above 1 the bound says nothing: "
                "ask for less confidence or see required_samples for a sufficient n."
            )

    @property
    def k(self) -> int:
        """The k of the theorem, ``ceil(n (risk + mu))``."""
        return min(math.ceil(self.n * (self.risk + self.mu) * (1.0 - 1e-12)), self.n)

    @property
    def library_C(self) -> float:
        """The C to pass to an estimator of this library, which divides by k: ``C k / n``."""
        return self.C * (self.k / self.n)

    @property
    def radius(self) -> float:
        """The bound R on ``|f| / rho``."""
        share = min(1.0, self.risk + self.mu + 1.0 / self.n)  # at least k/n, and smooth in mu
        return 2.0 * share * max(math.sqrt(2.0 * self.C / self.mu), 2.0 * self.norm / self.mu)

    @property
    def radius_failure(self) -> float:
        """The probability bound that the radius fails, because f_H is unlucky on the sample (Hoeffding)."""
        return math.exp(-self.n * self.mu**2 / (2.0 * _square(1.0 + self.kappa * self.norm)))

    @property
    def value(self) -> float:
        """The bound on the excess error."""
        complexity = 2.0 * self.kappa * self.radius / math.sqrt(self.n)
        return self.mu + 1.0 / self.n + self.approximation + self.epsilon + complexity

    @property
    def probability(self) -> float:
        """The probability with which the excess error may reach the bound."""
        deviation = math.exp(-2.0 * self.n * self.epsilon**2 / _square(1.0 + self.kappa * self.radius))
        return self.radius_failure + deviation

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound says nothing: an excess error below 1, or a probability of at least 1."""
        return self.value >= 1.0 or self.probability >= 1.0

    @property
    def stated_value(self) -> float:
        """The bound as the paper states it, for comparison."""
        return self.mu + self.approximation + self.epsilon + (1.0 + self._c) / (math.sqrt(self.n) * self.mu)

    @property
    def stated_probability(self) -> float:
        """The probability as the paper states it, for comparison."""
        return 2.0 * math.exp(-self.n * _square(self.mu * self.epsilon / (1.0 + self._c)))

    @property
    def _c(self) -> float:
        """The constant of the statement."""
        return self.kappa * (2.0 * math.sqrt(2.0 * self.C) + 4.0 * self.norm)

    def __str__(self) -> str:
        text = (
            f"n = {self.n}, k = {self.k} (mu = {self.mu:.4g}): excess error below {self.value:.4g} "
            f"except with probability {min(self.probability, 1.0):.3g}"
        )
        return f"{text} -- vacuous, it says nothing" if self.is_vacuous else text


def excess_error_bound(
    n: int,
    *,
    C: float,
    kappa: float,
    norm: float,
    risk: float,
    approximation: float = 0.0,
    mu: float | None = None,
    epsilon: float | None = None,
    confidence: float | None = None,
) -> ErrorBound:
    """Bound the excess error of the AT_k-SVM over the Bayes error (Theorem 2).

    Give ``mu`` and ``epsilon`` to evaluate the bound; give ``confidence`` in the place of epsilon to solve for epsilon;
    leave out ``mu`` as well to have the mu (and so the k) with the smallest bound.

    Parameters
    ----------
    n : int
        Number of samples.
    C, kappa, norm, risk, approximation : float
        As in :class:`ErrorBound`; C is the paper's, :func:`atklearn.theory.paper_C` converts.
    mu : float, default=None
        ``k/n`` minus the risk of f_H, in (0, 1 - risk).
    epsilon : float, default=None
        In (0, 1].
    confidence : float, default=None
        One minus the probability to reach the bound, in (0, 1).

    Returns
    -------
    ErrorBound

    Examples
    --------
    >>> from atklearn.theory import excess_error_bound
    >>> known = dict(C=1.0, kappa=1.0, norm=2.0, risk=0.25, approximation=0.05)
    >>> print(excess_error_bound(100_000, mu=0.2, epsilon=0.1, **known))
    n = 100000, k = 45000 (mu = 0.2): excess error below 0.4639 except with probability 0.00393
    >>> best = excess_error_bound(100_000, confidence=0.95, **known)
    >>> round(best.mu, 3), round(best.value, 3)
    (0.143, 0.421)
    >>> excess_error_bound(1000, mu=0.2, epsilon=0.1, **known).is_vacuous
    True
    """
    if (epsilon is None) == (confidence is None):
        raise ValueError(
            f"Exactly one of epsilon and confidence is expected, got epsilon={shown(epsilon)}, "
            f"confidence={shown(confidence)}; the other one follows from it."
        )
    if mu is None and confidence is None:
        raise ValueError(
            f"mu is expected along with epsilon={shown(epsilon)}, got None; pass confidence instead to have mu chosen."
        )
    setting = {"C": C, "kappa": kappa, "norm": norm, "risk": risk, "approximation": approximation}
    any_mu = 0.5 * (1.0 - risk) if mu is None else mu
    given = ErrorBound(n=n, mu=any_mu, epsilon=1.0 if epsilon is None else epsilon, **setting)
    return given if confidence is None else _solved(given, mu, _failure(confidence))


def required_samples(
    bound: float,
    *,
    confidence: float,
    C: float,
    kappa: float,
    norm: float,
    risk: float,
    approximation: float = 0.0,
    mu: float | None = None,
) -> ErrorBound:
    """Return Theorem 2 at the smallest n for which the excess error stays below a bound.

    Parameters
    ----------
    bound : float
        Above the approximation error (plus ``mu`` if given), below 1.
    confidence : float
        One minus the probability to reach the bound, in (0, 1).
    C, kappa, norm, risk, approximation : float
        As in :class:`ErrorBound`.
    mu : float, default=None
        By default the best one for each n.

    Returns
    -------
    ErrorBound
        Its ``n`` is the answer, its ``k`` and ``library_C`` are what to train with.

    Examples
    --------
    >>> from atklearn.theory import required_samples
    >>> answer = required_samples(0.5, confidence=0.95, C=1.0, kappa=1.0, norm=2.0, risk=0.25, approximation=0.05)
    >>> round(answer.n, -3), round(answer.value, 4)
    (54000, 0.5)
    """
    failure = _failure(confidence)
    floor = approximation + (mu or 0.0)
    if not floor < bound < 1.0:
        raise ValueError(
            f"bound is expected above {floor:g}, the approximation error plus mu, which no n overcomes, and below 1, "
            f"where it says nothing; got {bound!r}."
        )
    setting = {"C": C, "kappa": kappa, "norm": norm, "risk": risk, "approximation": approximation}
    start = ErrorBound(n=1, mu=0.5 * (1.0 - risk) if mu is None else mu, epsilon=1.0, **setting)

    def is_enough(n: int) -> bool:
        at_n = replace(start, n=n)
        return _value(replace(at_n, mu=_best_mu(at_n, failure)) if mu is None else at_n, failure) <= bound

    # Every term falls as n grows, and so does the smallest bound over mu: doubling and halving find the first n.
    enough = 1
    while not is_enough(enough):
        enough *= 2
        if enough > _MOST_SAMPLES:
            raise ValueError(
                f"bound is expected to be reached by a number of samples that a float holds, got {bound!r} for "
                f"C={C:g}, kappa={kappa:g} and norm={norm:g}; raise the bound or lower these."
            )
    short = enough // 2
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if is_enough(middle) else (middle, enough)
    return _solved(replace(start, n=enough), mu, failure)


def paper_C(C: float, k: float, n_samples: int) -> float:
    """Convert a C of this library to the C of the paper's Eq. 3, which divides the top-k sum by n.

    Parameters
    ----------
    C : float
        Regularisation strength of ``AT_k + |w|^2 / (2 C)``.
    k : int or float
        An int counts samples, a float is the fraction of them.
    n_samples : int

    Returns
    -------
    paper_C : float
        ``C n / k``.

    Examples
    --------
    >>> from atklearn.theory import paper_C
    >>> paper_C(1.0, k=50, n_samples=200)
    4.0
    """
    check_finite("C", C, "pass the C of the fit")
    check_count("n_samples", n_samples, "pass the size of the training set")
    return check_finite("C n / k", C * (n_samples / resolve_k(k, n_samples)), "lower C or raise k")


def _square(x: float) -> float:
    """Return the square, infinite where ``**`` raises OverflowError."""
    return x * x


def _failure(confidence: float) -> float:
    check_share("confidence", confidence, "0.95 is usual")
    return 1.0 - confidence


def _epsilon(bound: ErrorBound, failure: float) -> float:
    """Return the epsilon at which the probability equals ``failure``, infinite if no epsilon is large enough."""
    left = failure - bound.radius_failure
    if left <= 0.0:
        return math.inf
    return (1.0 + bound.kappa * bound.radius) * math.sqrt(-math.log(left) / (2.0 * bound.n))


def _value(bound: ErrorBound, failure: float) -> float:
    """Return the bound's value at the epsilon for ``failure``, also where that is above 1."""
    return bound.value - bound.epsilon + _epsilon(bound, failure)


def _best_mu(bound: ErrorBound, failure: float) -> float:
    """Return the mu with the smallest value at the given probability."""
    top = 1.0 - bound.risk
    # At this mu the first probability alone is ``failure``.
    least = (1.0 + bound.kappa * bound.norm) * math.sqrt(-2.0 * math.log(failure) / bound.n)
    if least >= top:
        return 0.5 * top  # no mu will do: the value is infinite at this one too
    found = minimize_scalar(
        lambda log_mu: _value(replace(bound, mu=math.exp(log_mu)), failure),
        bounds=(math.log(least), math.log(top)),
        method="bounded",
        options={"xatol": 1e-6},
    )
    return math.exp(found.x)


def _solved(bound: ErrorBound, mu: float | None, failure: float) -> ErrorBound:
    """Return the bound at the epsilon for ``failure``, and at its best mu unless one is given."""
    best = replace(bound, mu=_best_mu(bound, failure)) if mu is None else bound
    return replace(best, epsilon=_epsilon(best, failure))
