"""Small nasty problems, each a function of a seed and its index.

A plain problem is drawn first; then it gets none to three traits (and, apart from them, a way of storage, a k and an
intercept), at most one from each group, so that traits meet in all combinations but most problems stay explainable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fuzzing.definition import CLASSIFICATION, INTERCEPTS, LOSSES, Array, Definition


@dataclass(frozen=True)
class FuzzProblem:
    """What is handed to the estimator, and the names of what is nasty about it."""

    index: int
    loss: str
    intercept: str
    X: Any
    y: Array
    sample_weight: Array | None
    class_weight: dict[float, float] | str | None
    k: float
    C: float
    traits: tuple[str, ...]

    def definition(self) -> Definition:
        """Return the problem as mathematics: without rows of no mass, everything dense and in float64."""
        X = np.asarray(self.X.toarray() if sp.issparse(self.X) else self.X, dtype=np.float64)
        mass = self.masses()
        kept = mass > 0.0
        total = float(mass[kept].sum())
        amount = min(float(self.k), total) if isinstance(self.k, int) else self.k * total
        return Definition(X[kept], self.y[kept], mass[kept], amount, self.loss, self.C, self.intercept)

    def masses(self) -> Array:
        """Return the weight of every row, that of its class included."""
        return _total_mass(self.y, self.sample_weight, self.class_weight)

    def __str__(self) -> str:
        n, d = self.X.shape
        k = f"k={self.k}" if isinstance(self.k, int) else f"k={self.k:.3g}n"
        return (
            f"{self.index:>6}  {self.loss:14} {self.intercept:9} n={n:<2} d={d:<2} {k:8} C={self.C:<7.1e}  "
            f"{', '.join(self.traits)}"
        )


class Draft:
    """A problem in the making."""

    def __init__(self, rng: np.random.Generator, loss: str) -> None:
        self.rng = rng
        self.classes = loss in CLASSIFICATION
        self.n = int(rng.integers(4, 61))
        self.d = int(rng.choice([1, 2, 3, 5, 8, 15]))
        self.X: Array = np.empty((0, 0))
        self.y: Array = np.empty(0)
        self.line: Array = np.empty(0)
        self.noise = float(rng.choice([0.1, 0.5, 1.0]))
        self.sample_weight: Array | None = None
        self.class_weight: dict[float, float] | str | None = None
        self.C = float(10.0 ** rng.uniform(-2.0, 4.0))

    def draw_features(self) -> None:
        """Draw plain features."""
        self.X = self.rng.standard_normal((self.n, self.d))

    def draw_targets(self) -> None:
        """Draw targets that follow a noisy line."""
        self.line = self.rng.standard_normal(self.d)
        score = self.X @ self.line
        spread = max(float(score.std()), 1e-3)
        score = score + 0.3 * spread + self.noise * spread * self.rng.standard_normal(self.n)
        self.y = np.where(score > np.median(score), 1.0, -1.0) if self.classes else score

    def some(self, size: int, at_most: float = 0.4) -> Any:
        """Draw some indices below ``size``, at least one."""
        return self.rng.choice(size, max(1, int(self.rng.uniform(0.0, at_most) * size)), replace=False)

    def magnitude(self, low: float = -8.0, high: float = 8.0, size: int | None = None) -> Any:
        """Draw powers of ten."""
        return 10.0 ** self.rng.uniform(low, high, size)


def few_rows(p: Draft) -> None:
    p.n = int(p.rng.integers(2, 6))


def wide(p: Draft) -> None:
    p.n = int(p.rng.integers(2, 26))
    p.d = int(p.rng.integers(p.n + 1, 41))


def half_as_many_columns(p: Draft) -> None:
    p.n = int(p.rng.integers(10, 81))
    p.d = int(p.rng.integers(p.n // 2, p.n))


def integer_features(p: Draft) -> None:
    p.X = p.rng.integers(-2, 3, p.X.shape).astype(float)


def constant_column(p: Draft) -> None:
    p.X[:, p.some(p.d)] = p.rng.choice([1.0, -3.0, 0.1, 1e4])


def zero_column(p: Draft) -> None:
    p.X[:, p.some(p.d, 1.0)] = 0.0


def duplicated_column(p: Draft) -> None:
    copied = p.some(p.d)
    p.X = np.column_stack([p.X, p.X[:, copied] * p.rng.choice([1.0, -1.0, 2.0])])
    p.d = p.X.shape[1]


def outlying_rows(p: Draft) -> None:
    p.X[p.some(p.n, 0.1)] *= p.magnitude(1.0, 6.0)


def feature_scale(p: Draft) -> None:
    p.X *= p.magnitude()


def column_scales(p: Draft) -> None:
    p.X *= p.magnitude(-9.0, 9.0, size=p.d)


def one_column_scaled(p: Draft) -> None:
    p.X[:, p.rng.integers(p.d)] *= p.magnitude()


def feature_offset(p: Draft) -> None:
    p.X[:, p.some(p.d, 1.0)] += p.rng.choice([-1.0, 1.0]) * p.magnitude(0.0, 8.0)


def drawn_rows(p: Draft) -> None:
    """Draw rows with replacement, as a bootstrap does, but each with a target of its own."""
    p.X = p.X[p.rng.integers(max(2, int(p.n * p.rng.uniform(0.1, 0.7))), size=p.n)]


def repeated_rows(p: Draft) -> None:
    _repeat(p, p.y)


def contradicting_rows(p: Draft) -> None:
    _repeat(p, -p.y if p.classes else p.y + p.rng.standard_normal(p.n) * p.y.std())


def _repeat(p: Draft, y: Array) -> None:
    rows = p.rng.integers(p.n, size=max(1, min(int(p.rng.integers(1, p.n + 1)), 60 - p.n)))
    p.X, p.y = np.vstack([p.X, p.X[rows]]), np.append(p.y, y[rows])
    p.n = p.y.size


def separable(p: Draft) -> None:
    score = p.X @ p.line
    p.y = np.where(score > np.median(score), 1.0, -1.0)
    p.X += p.rng.choice([0.0, 0.5, 3.0]) * np.outer(p.y, p.line) / np.linalg.norm(p.line)


def pure_noise(p: Draft) -> None:
    p.y = p.rng.choice([-1.0, 1.0], p.n) if p.classes else p.rng.standard_normal(p.n)


def rare_class(p: Draft) -> None:
    p.y = np.full(p.n, p.rng.choice([-1.0, 1.0]))
    p.y[p.rng.integers(p.n)] *= -1.0


def nearly_interpolating(p: Draft) -> None:
    p.y = p.X @ p.line + 0.5 + p.magnitude(-9.0, -3.0) * p.rng.standard_normal(p.n)


def exactly_interpolating(p: Draft) -> None:
    """Interpolate by a line of small integers: exact in floating point where the features are integers too."""
    p.line = p.rng.integers(-3, 4, p.d).astype(float)
    if p.rng.random() < 0.5:
        p.X = np.round(4.0 * p.X)
    p.y = p.X @ p.line + p.rng.integers(-2, 3)


def target_scale(p: Draft) -> None:
    p.y = p.y * p.magnitude()


def target_offset(p: Draft) -> None:
    p.y = p.y + p.rng.choice([-1.0, 1.0]) * p.magnitude(0.0, 8.0)


def constant_target(p: Draft) -> None:
    p.y = np.full(p.n, p.rng.choice([0.0, 1.0, -0.1, 3e5]))


def outlying_targets(p: Draft) -> None:
    rows = p.some(p.n, 0.1)
    p.y[rows] = p.rng.standard_normal(rows.size) * p.magnitude(1.0, 6.0)


def integer_targets(p: Draft) -> None:
    p.y = np.round(p.y)


def tiny_C(p: Draft) -> None:
    p.C = p.magnitude(-8.0, -3.0)


def huge_C(p: Draft) -> None:
    p.C = p.magnitude(5.0, 8.0)


def zero_weights(p: Draft) -> None:
    p.sample_weight = p.rng.choice([0.0, 1.0], p.n, p=[0.3, 0.7])


def integer_weights(p: Draft) -> None:
    p.sample_weight = p.rng.integers(0, 5, p.n).astype(float)


def wild_weights(p: Draft) -> None:
    p.sample_weight = p.magnitude(-6.0, 6.0, p.n)


def class_weights(p: Draft) -> None:
    p.class_weight = "balanced" if p.rng.random() < 0.5 else {-1.0: p.magnitude(-2.0, 2.0), 1.0: p.magnitude(-2.0, 2.0)}


@dataclass(frozen=True)
class Trait:
    """A way of being nasty: when it is applied, what it excludes, and for which task."""

    apply: Callable[[Draft], None]
    stage: int  # 0 sizes, 1 features, 2 targets, 3 scales of features, 4 targets again, 5 rows, 6 weights and C
    group: str
    task: str = "any"

    @property
    def name(self) -> str:
        """What it is called in the tables."""
        return self.apply.__name__.replace("_", " ")


TRAITS = (
    Trait(few_rows, 0, "size"),
    Trait(wide, 0, "size"),
    Trait(half_as_many_columns, 0, "size"),
    Trait(integer_features, 1, "kind of features"),
    Trait(constant_column, 1, "constant"),
    Trait(zero_column, 1, "constant"),
    Trait(duplicated_column, 1, "duplicate"),
    Trait(outlying_rows, 1, "outliers"),
    Trait(separable, 2, "targets", "classification"),
    Trait(pure_noise, 2, "targets"),
    Trait(rare_class, 2, "targets", "classification"),
    Trait(nearly_interpolating, 2, "targets", "regression"),
    Trait(exactly_interpolating, 2, "targets", "regression"),
    Trait(constant_target, 2, "targets", "regression"),
    Trait(feature_scale, 3, "scale"),
    Trait(column_scales, 3, "scale"),
    Trait(one_column_scaled, 3, "scale"),
    Trait(feature_offset, 3, "offset"),
    Trait(outlying_targets, 4, "outliers", "regression"),
    Trait(integer_targets, 4, "kind of targets", "regression"),
    Trait(target_scale, 4, "target scale", "regression"),
    Trait(target_offset, 4, "target offset", "regression"),
    Trait(drawn_rows, 5, "rows"),
    Trait(repeated_rows, 5, "rows"),
    Trait(contradicting_rows, 5, "rows"),
    Trait(tiny_C, 6, "C"),
    Trait(huge_C, 6, "C"),
    Trait(zero_weights, 6, "weights"),
    Trait(integer_weights, 6, "weights"),
    Trait(wild_weights, 6, "weights"),
    Trait(class_weights, 6, "class weights", "classification"),
)


def fuzz_problem(seed: int, index: int) -> FuzzProblem:
    """Return problem ``index`` of a seed, always the same."""
    rng = np.random.default_rng([seed, index])
    loss = LOSSES[index % len(LOSSES)]
    draft = Draft(rng, loss)
    traits = _choose_traits(rng, draft.classes)
    for stage in range(7):
        if stage == 1:
            draft.draw_features()
        if stage == 2:
            draft.draw_targets()
        for trait in traits:
            if trait.stage == stage:
                trait.apply(draft)
    _keep_solvable(draft)
    total = float(_total_mass(draft.y, draft.sample_weight, draft.class_weight).sum())
    k, about_k = _choose_k(rng, draft.n, total)
    X, storage = _store(rng, draft.X)
    return FuzzProblem(
        index=index,
        loss=loss,
        intercept=str(rng.choice(INTERCEPTS, p=[0.5, 0.25, 0.25])),
        X=X,
        y=draft.y,
        sample_weight=draft.sample_weight,
        class_weight=draft.class_weight,
        k=k,
        C=draft.C,
        traits=(*(trait.name for trait in traits), *about_k, *storage),
    )


def _choose_traits(rng: np.random.Generator, classes: bool) -> list[Trait]:
    """Choose none to three, each from another group."""
    task = "classification" if classes else "regression"
    fitting = [trait for trait in TRAITS if trait.task in ("any", task)]
    wanted = int(rng.choice(4, p=[0.06, 0.34, 0.36, 0.24]))
    chosen: list[Trait] = []
    for place in rng.permutation(len(fitting)):
        trait = fitting[place]
        if len(chosen) < wanted and trait.group not in {other.group for other in chosen}:
            chosen.append(trait)
    return sorted(chosen, key=lambda trait: trait.stage)


def _keep_solvable(p: Draft) -> None:
    """Give mass to two rows, which for classification are of both classes."""
    if p.classes and abs(p.y.sum()) == p.n:
        p.y[p.rng.integers(p.n)] *= -1.0
    if p.sample_weight is None:
        return
    two = [int(np.argmax(p.y)), int(np.argmin(p.y))] if p.classes else [0, 1]
    p.sample_weight[two] = np.maximum(p.sample_weight[two], 1.0)


def _choose_k(rng: np.random.Generator, n: int, total: float) -> tuple[float, tuple[str, ...]]:
    """Choose a count of mass (an int) or a fraction of it (a float); both ends are common."""
    kind = rng.choice(["largest", "average", "count", "fraction", "small fraction"], p=[0.15, 0.2, 0.25, 0.3, 0.1])
    if kind == "average":
        return 1.0, ("k=n",)
    if total >= 1.0 and kind == "largest":
        return 1, ("k=1",)
    if total >= 1.0 and kind == "count":
        return int(rng.integers(1, min(int(total), 10**9) + 1)), ()
    return float(rng.uniform(0.05, 1.0) if kind == "fraction" else rng.uniform(0.5, 3.0) / max(n, 3)), ()


def _store(rng: np.random.Generator, X: Array) -> tuple[Any, tuple[str, ...]]:
    """Store densely or by rows without zeros, in double or in single precision."""
    names = []
    stored: Any = X
    if rng.random() < 0.15:
        stored, names = X.astype(np.float32), ["float32"]
    if rng.random() < 0.2:
        if rng.random() < 0.7:
            stored = stored * (rng.random(X.shape) < 0.5)
        stored, names = sp.csr_array(stored), [*names, "CSR"]
    return stored, tuple(names)


def _total_mass(y: Array, sample_weight: Array | None, class_weight: dict[float, float] | str | None) -> Array:
    """Return sample weights times class weights; balanced classes are given equal mass, the total unchanged."""
    mass = np.ones(y.size) if sample_weight is None else sample_weight
    if class_weight is None:
        return mass
    if class_weight == "balanced":
        per_class = {label: mass.sum() / 2.0 / mass[y == label].sum() for label in (-1.0, 1.0)}
    else:
        per_class = dict(class_weight)  # type: ignore[arg-type]
    return mass * np.where(y > 0.0, per_class[1.0], per_class[-1.0])
