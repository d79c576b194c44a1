"""The kernel machines' problem, stated once, with its value and its certificate; and the kernel matrix, as products.

    minimise over f, b:   AT_k(l_1, ..., l_n) + |f|^2 / (2 C),      l_i = l(f(x_i) + b, y_i)

with the hinge loss (labels -1 and +1) or the absolute error. Both have the same dual in ``beta``, the coefficients of
``f = sum(beta_i K(x_i, .))``, with ``cap_i = mass_i C / k``:

    maximise   sum(beta_i y_i) - beta' K beta / 2
    subject to   |beta_i| <= cap_i,   sum(|beta_i|) <= C,   sum(beta_i) = 0 (only with a bias b),
                 and for the hinge loss   y_i beta_i >= 0.

Divided by C this bounds the primal value from below. At the primal point that beta itself defines, the difference is

    gap = AT_k(l) - sum(q_i s_i),      q = |beta| / C,   s_i = 1 - y_i (f(x_i) + b)   or   |y_i - f(x_i) - b|,

a sum of terms that are each >= 0, so the certificate holds however beta was found, as long as the kernel is positive
semidefinite. (For an indefinite one, such as "sigmoid", it measures how far the optimality conditions are from true.)
The full kernel matrix is never formed, except where the kernel comes as one ("precomputed") or a reduction asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from atklearn.core.problem import Certificate
from atklearn.losses.aggregate import ranked_loss
from atklearn.losses.individual import Array, Hinge, Kink
from atklearn.runtime.compiling import njit
from atklearn.stores.compiled import Places

__all__ = ["Kernel", "KernelMatrix", "KernelName", "KernelProblem"]

Rows: TypeAlias = Array | sp.csr_array | sp.csr_matrix
KernelName: TypeAlias = str | Callable[..., Any]

# Kernel values held at once while a product is formed: few enough for the cache.
_BLOCK = 1 << 19
# Rows up to which a kernel matrix is factored; its eigenvalues up to this much of the largest are rounding.
_FEW = 3000
_RANK = 1e-14


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters.

    ``name`` is "linear", "poly", "rbf", "sigmoid", "precomputed" or a function of two sets of samples; ``parameters``
    holds ``gamma``, ``degree`` and ``coef0``, of which each kernel takes what it knows.
    """

    name: KernelName
    parameters: dict[str, float] = field(default_factory=dict)

    def __call__(self, X: Rows, Y: Rows) -> Array:
        """Return the kernel values between the rows of X and those of Y, shape (n_X, n_Y)."""
        if callable(self.name):
            values = self.name(X, Y)
            values = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)
            if values.shape != (X.shape[0], Y.shape[0]):
                raise ValueError(
                    f"A kernel function is expected to return an array of shape {(X.shape[0], Y.shape[0])} for that "
                    f"many samples, got {values.shape}; it receives both sets of samples at once."
                )
            return values
        if self.name == "rbf":
            exponents = _negative_squares(X, Y, self.parameters["gamma"])
            return np.exp(np.minimum(exponents, 0.0, out=exponents), out=exponents)
        products = np.ascontiguousarray(safe_sparse_dot(X, Y.T, dense_output=True), dtype=np.float64)
        if self.name == "linear":
            return products
        products *= self.parameters["gamma"]
        products += self.parameters["coef0"]
        if self.name == "sigmoid":
            return np.tanh(products, out=products)
        return np.power(products, self.parameters["degree"], out=products)

    def product(self, X: Rows, Y: Rows, weights: Array) -> Array:
        """Return ``K(X, Y) weights`` without holding the whole matrix; weights of shape (n_Y,) or (n_Y, m)."""
        out = np.zeros((X.shape[0], *weights.shape[1:]))
        if Y.shape[0] > 0:
            for batch in gen_batches(X.shape[0], max(1, _BLOCK // Y.shape[0])):
                out[batch] = self(X[batch], Y) @ weights
        return out


class KernelMatrix:
    """The kernel matrix of a set of samples, or of the given rows of it, computed as needed.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_rows, n_features)
        The samples; for "precomputed" and for functions, the kernel matrix itself.
    kernel : Kernel
    """

    def __init__(self, X: Rows, kernel: Kernel) -> None:
        self.X = X
        self.kernel = kernel
        self.n_rows = int(X.shape[0])

    @property
    def is_stored(self) -> bool:
        """Whether the matrix exists already."""
        return self.kernel.name == "precomputed"

    @property
    def has_factor(self) -> bool:
        """Whether it is known to be a matrix of products, and cheap to see of what."""
        return self.kernel.name == "linear" or (self.kernel.name != "sigmoid" and self.n_rows <= _FEW)

    def factor(self) -> Rows:
        """Return Z with ``K = Z Z'``, of as many columns as K has rank."""
        if self.kernel.name == "linear":
            return self.X
        values, vectors = np.linalg.eigh(self.fill(np.empty((self.n_rows, self.n_rows))))
        counts = values > _RANK * values[-1]
        return np.ascontiguousarray(vectors[:, counts] * np.sqrt(values[counts]))

    @cached_property
    def _sizes(self) -> tuple[float, float]:
        """The largest kernel value, at most, and by how much rounding may move one, in units of ``2^-53``."""
        name, n_features = self.kernel.name, self.X.shape[1]
        if self.is_stored:
            return float(abs(self.X).max()), 0.0
        if callable(name):
            rows = np.arange(0, self.n_rows, max(1, self.n_rows // 100))
            return float(np.abs(self.kernel(self.X[rows], self.X[rows])).max()), 0.0
        square = float(row_norms(self.X, squared=True).max())
        if name == "linear":
            return square, (n_features + 2) * square
        gamma, shift = self.kernel.parameters["gamma"], abs(self.kernel.parameters.get("coef0", 0.0))
        product = gamma * square + shift
        if name == "poly":
            degree = self.kernel.parameters["degree"]
            largest = float(product**degree)
            return largest, (n_features + 4) * degree * largest
        return 1.0, (n_features + 6) * (4.0 * gamma * square + shift)

    def rounding(self, beta: Array) -> float:
        """Return by how much an entry of ``K beta`` may be off.

        Errors of sums of n terms are as good as never above ``4 sqrt(n)`` of one (Higham and Mary, 2019).
        """
        largest, moved = self._sizes
        n_terms = np.count_nonzero(beta)
        return float(2.0**-53 * (4.0 * (np.sqrt(n_terms) + 1.0) * largest + moved) * np.abs(beta).sum())

    def take(self, rows: Places) -> KernelMatrix:
        """Return the kernel matrix of some of the samples."""
        return KernelMatrix(self.X[np.ix_(rows, rows)] if self.is_stored else self.X[rows], self.kernel)

    def block(self, rows: Places) -> Array:
        """Return the kernel values among the given rows."""
        part = self.take(rows).X
        return part if self.is_stored else self.kernel(part, part)

    def fill(self, out: Array) -> Array:
        """Write the whole matrix into ``out`` and return it."""
        if self.is_stored:
            out[...] = self.X
            return out
        for batch in gen_batches(self.n_rows, max(1, _BLOCK // self.n_rows)):
            out[batch] = self.kernel(self.X[batch], self.X)
        return out

    def diagonal_mean(self) -> float:
        """Return the mean of K(x, x) over (at most a thousand of) the rows: the scale of the kernel."""
        rows = np.arange(0, self.n_rows, max(1, self.n_rows // 1000))
        if self.is_stored:
            return float(self.X[rows, rows].mean())
        return float(np.mean([self.kernel(self.X[i : i + 1], self.X[i : i + 1])[0, 0] for i in rows[:1000]]))

    def times(self, beta: Array) -> Array:
        """Return K beta, shape (n_rows,), at the cost of the columns where beta is not zero."""
        rows = np.flatnonzero(beta)
        if not self.is_stored:
            return self.kernel.product(self.X, self.X[rows], beta[rows])
        products: Array = self.X @ beta if 2 * rows.size > self.n_rows else self.X[:, rows] @ beta[rows]
        return products


def _negative_squares(X: Rows, Y: Rows, gamma: float) -> Array:
    """Return ``-gamma |x - y|^2 = 2 gamma x.y - gamma |x|^2 - gamma |y|^2`` for all pairs."""
    of_x, of_y = -gamma * row_norms(X, squared=True), -gamma * row_norms(Y, squared=True)
    if sp.issparse(X) or sp.issparse(Y):
        exponents = np.asarray(safe_sparse_dot(X, (2.0 * gamma) * Y.T, dense_output=True))
        exponents += of_x[:, None]
        exponents += of_y
    else:  # all three terms in one product: passes over the result are what predictions wait for
        left = np.column_stack([X, of_x, np.ones_like(of_x)])
        exponents = left @ np.column_stack([(2.0 * gamma) * Y, np.ones_like(of_y), of_y]).T
    return np.ascontiguousarray(exponents, dtype=np.float64)


# Slopes are sums of sample weights over k: what is below this is rounding.
_FLAT = 1e-12


class KernelProblem:
    """The AT_k objective of a kernel machine on given data.

    Parameters
    ----------
    gram : KernelMatrix
    y : ndarray of shape (n_rows,)
        Targets; -1 and +1 for the hinge loss.
    mass : ndarray of shape (n_rows,)
        Sample weights > 0.
    k : float
        Amount of mass in the top, ``0 < k <= mass.sum()``.
    C : float
    two_sided : bool
        Whether the loss is the absolute error; else it is the hinge loss.
    intercept : bool
        Whether there is a bias, which is never penalised.
    """

    def __init__(
        self, gram: KernelMatrix, y: Array, mass: Array, k: float, C: float, *, two_sided: bool, intercept: bool
    ) -> None:
        self.gram = gram
        self.y = y
        self.mass = mass
        self.k = k
        self.C = C
        self.two_sided = two_sided
        self.intercept = intercept
        self.c = C / k
        self.cap = mass * self.c

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return self.gram.n_rows

    @property
    def loss_at_zero(self) -> float:
        """What a classifier pays that says nothing."""
        return Hinge().at_zero

    def take(self, rows: Places) -> KernelProblem:
        """Return the problem on some of the rows, with k in proportion to their mass."""
        mass = self.mass[rows]
        k = self.k * float(mass.sum() / self.mass.sum())
        return KernelProblem(
            self.gram.take(rows), self.y[rows], mass, k, self.C, two_sided=self.two_sided, intercept=self.intercept
        )

    def margin(self, residual: Array) -> Array:
        """Return ``s``, whose positive part or absolute value is the loss, from ``y - f - b``."""
        return residual if self.two_sided else self.y * residual

    def losses(self, residual: Array) -> Array:
        """Return the losses from ``y - f - b``."""
        return (Kink.ABSOLUTE if self.two_sided else Kink.POSITIVE_PART).loss(self.margin(residual))

    def feasible(self, beta: Array) -> Array:
        """Return ``beta`` if it satisfies the constraints up to rounding, else a point near it that does."""
        rounding = 1e-13 * self.C
        beta = np.clip(beta, -self.cap, self.cap)
        if not self.two_sided:
            beta = np.where(beta * self.y > 0.0, beta, 0.0)
        up, down = float(beta[beta > 0.0].sum()), -float(beta[beta < 0.0].sum())
        if self.intercept and abs(up - down) > rounding:
            beta = np.where(beta > 0.0, beta * (min(up, down) / max(up, rounding)), beta)
            beta = np.where(beta < 0.0, beta * (min(up, down) / max(down, rounding)), beta)
        total = float(np.abs(beta).sum())
        return beta * (self.C / total) if total > self.C + rounding else beta

    def certify(self, beta: Array, residual: Array | None = None) -> Certificate:
        """Evaluate the objective at a feasible ``beta`` and bound its distance from the optimum.

        ``residual`` is ``y - K beta`` where it is known already.
        """
        if residual is None:
            residual = self.y - self.gram.times(beta)
        b = self.best_intercept(residual) if self.intercept else 0.0
        shifted = residual - b
        threshold = ranked_loss(self.losses(shifted), self.mass, self.k)
        density = beta / self.cap if self.two_sided else np.abs(beta) / self.cap
        u, s, size = self.mass / self.k, self.margin(shifted), np.abs(density)
        over = np.maximum((np.abs(s) if self.two_sided else s) - threshold, 0.0)
        value = threshold + float(u @ over)
        gap = float(u @ (over - (density * s - threshold * size))) + threshold * max(1.0 - float(u @ size), 0.0)
        objective = value + float(beta @ (self.y - residual)) / (2.0 * self.C)
        # of predictions: once in the losses, once in what the densities weigh, and sum(|beta|) / C <= 1 in the penalty
        rounding = 3.0 * self.gram.rounding(beta) + abs(b * float(beta.sum())) / self.C
        rounding += (self.n_rows + 64) * 2.0**-53 * abs(objective)
        return Certificate(beta, b, density, threshold, objective, max(gap, 0.0) + rounding)

    def zero(self, certificate: Certificate) -> Certificate:
        """Return the zero classifier with what a certificate proves about the optimum, whatever its coefficients."""
        loss = self.loss_at_zero
        gap = max(loss - certificate.lower_bound, 0.0)
        return Certificate(np.zeros(self.n_rows), 0.0, certificate.density, loss, loss, gap)

    def sample_weights(self, certificate: Certificate) -> Array:
        """Return the worst-case weights of the samples, shape (n_rows,)."""
        return np.asarray(self.mass / self.k * np.abs(certificate.density))

    def best_intercept(self, residual: Array) -> float:
        """Return the b that minimises AT_k for given ``y - f``, the middle where a whole interval does.

        AT_k is convex in b, so both ends of that interval follow by bisection on the sign of the slope. The middle
        depends on the data alone, not on their order or on how weights are spread over repeated samples.
        """
        low, high = float(residual.min()), float(residual.max())
        left = _bisect(lambda b: self._slope(residual - b) >= -_FLAT, low, high)
        right = _bisect(lambda b: self._slope(residual - b) > _FLAT, left, high)
        return 0.5 * (left + right)

    def _slope(self, residual: Array) -> float:
        """Return a slope of AT_k in b, from the sign of each loss's change and its share of the top k."""
        losses = self.losses(residual)
        few = float(self.mass[losses > 0.0].sum()) < self.k  # fewer losses than k: no need to select
        threshold = 0.0 if few else ranked_loss(losses, self.mass, self.k)
        return float(_top_slope(residual, losses, self.mass, threshold, self.k))


@njit(cache=True)
def _top_slope(residual, losses, mass, threshold, k):  # type: ignore[no-untyped-def]
    """Return the slope in b of the mean of the top k; losses tied at the threshold share what is left of it."""
    mass_above = mass_tied = slope_above = slope_tied = 0.0
    for i in range(losses.size):
        if losses[i] < threshold:
            continue
        slope = -mass[i] * np.sign(residual[i]) if losses[i] > 0.0 else 0.0
        if losses[i] > threshold:
            mass_above += mass[i]
            slope_above += slope
        else:
            mass_tied += mass[i]
            slope_tied += slope
    return (slope_above + slope_tied * (k - mass_above) / mass_tied) / k


def _bisect(is_right: Callable[[float], bool], low: float, high: float) -> float:
    """Return where a monotone condition turns true in [low, high], to floating-point accuracy of the interval."""
    if is_right(low):
        return low
    width = 2.0**-52 * (high - low)
    while high - low > width:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if is_right(middle):
            high = middle
        else:
            low = middle
    return high
