"""The line between the algorithm and the data.

Whatever has one entry per sample (X, targets, mass, predictions, losses, densities) lives behind these interfaces.
What crosses the line is small: scalars, and arrays with one entry per coefficient. So one algorithm runs on compiled
rows (:mod:`atklearn.problems.compiled_rows`), on the plain ones of the tests, which define what every other
implementation must do, and on whatever holds rows elsewhere.

Symbols: ``z`` holds the coefficients, that of a column of ones among them if there is one; ``f`` the predictions;
``s`` the smooth part of the losses (see :mod:`atklearn.losses.individual`); ``u = mass / k``; ``r`` the densities of
the sample weights ``q = u r``; ``mu`` the smoothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from atklearn.losses.individual import Array, IndividualLoss
from atklearn.problems.packed import PackedSymmetric

__all__ = ["Ascent", "Coordinates", "Curvature", "Density", "Form", "Part", "Point", "Proof", "Ray", "Reading", "Rows"]

Density: TypeAlias = Any
"""One number in [0, 1] per sample, in [-1, 1] for two-sided losses, held as the rows like it."""


Form: TypeAlias = Literal["matrix", "packed", "product"]


class Reading(NamedTuple):
    """What a point tells once it is smoothed."""

    threshold: float
    """``lam``: the densities are positive above it."""
    bound: float
    """``lam + sum(u [l - lam]_+)``, which is at least AT_k (Lemma 1)."""
    slack: float
    """``bound - sum(u r s)``: what the densities leave to gain."""
    push: float
    """Derivative along the column of ones."""
    imbalance: float
    """At most what it costs the lower bound to scale the heavier side down until ``push`` is zero."""
    steepness: float
    """Derivative along the ray; meaningless at a point that is on none."""
    moving: float
    """``sum(u)`` over the samples between the bounds of their density; 0 while the threshold is 0."""
    deviation: float
    size: float
    """Standard deviation of ``s``, and mean of ``|s|``."""


class Proof(NamedTuple):
    """What certifies a point: the exact aggregate, and a lower bound's ingredients."""

    value: float
    """AT_k, exactly: of predictions computed anew from z."""
    threshold: float
    """The k-th largest loss."""
    slack: float
    """``value - sum(u r (s + s' (x . z - f)))`` for the densities below.

    The tangents of convex losses bound them from below wherever they touch, so ``f`` may be predictions that rounding
    has moved from ``x . z``: they have served to find densities whose gradient vanishes, and fresh ones would not.
    """
    gradient: Array
    """``X^T (u r s')``."""
    density: Density
    """Feasible: ``sum(u |r|) <= 1``, and no derivative along the column of ones if that was asked for."""


class Curvature(NamedTuple):
    """The generalised Hessian of the smoothed loss, without the penalty.

    ``matrix`` or ``packed`` is set if it was asked for, else ``product`` (v -> H v) and ``diagonal``. ``is_sampled``
    says that only some rows went in, ``has_ties`` that there are samples between the bounds of their density.
    """

    matrix: Array | None
    packed: PackedSymmetric | None
    product: Callable[[Array], Array] | None
    diagonal: Array | None
    is_sampled: bool
    has_ties: bool


class Coordinates(Protocol):
    """Other coordinates of the weights than the user's; the penalty is ``sum((w / scale)^2) / (2 C)`` in them."""

    @property
    def scale(self) -> Array:
        """One number per column."""

    @property
    def is_exact(self) -> bool:
        """Whether what is certified in these coordinates holds in the user's to the last digits."""

    def inward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return weights and intercept in these coordinates, for given ones in the user's."""

    def outward(self, weights: Array, intercept: float) -> tuple[Array, float]:
        """Return weights and intercept in the user's coordinates, for given ones in these."""


class Ray(Protocol):
    """A half-line from a point; moving along it takes no pass over X."""

    def at(self, t: float, mu: float) -> Reading:
        """Smooth the losses at ``z + t * direction``."""

    def land(self) -> None:
        """Move the point to where the ray was last looked at."""


class Point(Protocol):
    """The rows at one z and one k: predictions, losses, densities, and the centre of the proximal term."""

    z: Array

    def smooth(self, mu: float) -> Reading:
        """Find threshold and densities: the maximum over r of ``sum(u (r s - mu/2 (r - centre)^2))``."""

    def recentre(self) -> None:
        """Make the densities the centre."""

    def densities(self) -> Density:
        """Return the densities of the last smoothing, as they are now."""

    def refresh(self) -> None:
        """Compute predictions and losses anew from z: moves along rays add up rounding."""

    def reach(self) -> float:
        """Return the length of the interval that holds all predictions and targets."""

    def shift(self, amount: float) -> None:
        """Move along the column of ones, which takes no pass over X; to be smoothed again."""

    def towards(self, direction: Array) -> Ray:
        """Return the ray in a direction, in the place of earlier ones: one pass over X."""

    def gradient(self) -> Array:
        """Return ``X^T (u r s')``."""

    def curvature(
        self, mu: float, *, form: Form, cautious: bool = False, most: int | None = None, seed: int = 0
    ) -> Curvature:
        """Return ``X^T diag(h) X - g g^T / (mu m)``, as a matrix, packed into half of one, or as a product.

        ``h = u |r| s'' + [i in T] u s'^2 / mu``, ``g = sum over T of u sign(r) s' x``, ``m = sum over T of u``, where
        T are the samples strictly between the bounds of their density; the rank-one term, present while the threshold
        is positive, is the threshold following the step. Only up to ``most`` rows of T, and as many others, go in. A
        ``cautious`` one takes no ``s''`` below ``s'^2 / (2 s)``: a smaller one would promise negative losses.
        """

    def prove(self, *, balanced: bool) -> Proof:
        """Return the exact aggregate and a feasible density near r; ``balanced`` along the column of ones."""

    def largest(self, count: int, *, beside: Any = None, above: float = 0.0) -> Part:
        """Return the rows with the largest losses; ``beside`` those of a part, only such as are ``above`` a value."""


class Ascent(Protocol):
    """Coordinate ascent on the dual of a loss with a kink, whose smooth part is a line: ``s = s_0 + s' f``.

    The dual is ``sum(u r s_0) - sum(give (X^T (u r s'))^2) / 2``, ``give`` being one over the ridge, and
    ``z = -give X^T (u r s')`` all along; the bound on the sum of the densities is left out.
    """

    @property
    def z(self) -> Array:
        """The coefficients of these densities."""

    @property
    def density(self) -> Density:
        """Where it has got to."""

    def sweep(self) -> float:
        """Maximise over the density of each row once, in random order; return ``sum(u |r|)``."""


class Part(Protocol):
    """Some of the rows, in memory, that know their places among all."""

    @property
    def rows(self) -> Rows:
        """These rows."""

    def restrict(self, density: Density) -> Density:
        """Return the densities of these rows."""

    def extend(self, density: Density) -> Density:
        """Return densities of all rows, zero for those that are not here."""


class Rows(Protocol):
    """The samples: X, with a column of ones if there is an intercept, targets and mass, and the loss they pay."""

    loss: IndividualLoss
    is_dense: bool
    """Whether products of matrices are the quick way to compute with X."""
    n_rows: int
    n_columns: int
    total: float
    """The mass of all."""
    room: int
    """How many of them a part in memory may have."""
    is_far: bool
    """Whether every pass over X is dear, be it over few of the rows."""
    at_once: int
    """So many rows take no longer than fewer would."""
    ones: int | None
    """Which entry of z belongs to the column of ones."""

    @property
    def loss_at_zero(self) -> float:
        """What a classifier pays that says nothing."""

    def at(self, z: Array, k: float, density: Density | None = None) -> Point:
        """Return the point at z, its densities and their centre as given, or everyone alike."""

    def sample(self, count: int) -> Rows:
        """Return a random part of the rows, the same every time."""

    def conditioned(self, *, centred: bool) -> tuple[Rows, Coordinates] | None:
        """Return the same samples in coordinates that are quicker or harm less by rounding, or None."""

    def paying(self, loss: IndividualLoss) -> Rows:
        """Return the same samples with another loss."""

    def mean_square(self) -> float:
        """Return the mean of ``|x|^2`` over the mass, the column of ones included."""

    def ascent(self, k: float, C: float, density: Density | None = None, *, balanced: bool) -> Ascent | None:
        """Start a coordinate ascent on the dual, the ridge being 1 / C, where there are losses and rows for it.

        If ``balanced``, the column of ones has no ridge: its coefficient follows the derivative along it, which
        vanishes in the end.
        """

    def holds(self, density: Density) -> bool:
        """Say whether densities are of as many rows."""

    def blend(self, terms: Sequence[tuple[float, Density]], k: float) -> Density:
        """Return a linear combination of densities, made feasible for k."""

    def sample_weights(self, density: Density, k: float) -> Array:
        """Return ``q = u |r|`` as an array."""

    def split(self, z: Array) -> tuple[Array, float]:
        """Return the weights of the features and the intercept."""

    def join(self, weights: Array, intercept: float) -> Array:
        """Return z from the weights of the features and the intercept."""
