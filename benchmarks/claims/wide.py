"""Wide data, and wide and tall: log loss, hinge and squared error over scikit-learn, both equally accurate."""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from atklearn import ATkClassifier, ATkRegressor
from claims.accuracy import TOLERANCES, yardstick
from claims.claim import Claim, Contest, Setting, shape, share
from claims.data import wide_data

SHAPES = ((2000, 2000), (500, 5000), (5000, 3000))
TALL = (30_000, 1000)
ACCURACY = 1e-6
KINDS = {"plain": "independent columns", "mixed": "mixtures of few columns"}


def is_long(n: int, d: int) -> bool:
    """Whether a fit takes seconds: then a round is dear, and a first fit costs no more than a later one."""
    return n * d > 10**7


def rounds_of(n: int, d: int) -> int:
    return 2 if is_long(n, d) else 3


def penalty(n: int, C: float | None) -> float:
    """Return C, which is n unless it is told: the default of both libraries."""
    return float(n) if C is None else C


_found: dict[tuple[int, int, str, float, bool], tuple[float, float]] = {}


def against_lbfgs(
    setting: Setting, *, n: int, d: int, kind: str, k: float, C: float | None = None, equal: bool = True
) -> Contest:
    """Return a contest at 1e-6, or at the accuracy that lbfgs has at its default tolerance."""
    n, d = setting.rows(n), setting.columns(d)
    X, y, _ = wide_data(n, d, kind)
    C = penalty(n, C)
    average = yardstick("log_loss", X, y, 1.0, C)
    own = average if k == 1.0 else yardstick("log_loss", X, y, k, C)

    def theirs(tol: float) -> Any:
        return LogisticRegression(C=C / n, tol=tol, max_iter=10_000).fit(X, y)

    case = (n, d, kind, C, equal)
    if case not in _found:  # the same for every k
        tol, reached = average.loosest(theirs, ACCURACY, TOLERANCES[1:] if equal else (1e-4,))
        _found[case] = tol, average.of(reached)
    tol, excess = _found[case]
    goal = ACCURACY if equal else max(excess, 1e-9)
    return Contest(
        lambda: ATkClassifier(k=k, C=C, tol=goal).fit(X, y),
        lambda: theirs(tol),
        lambda model, other: (own.of(model), average.of(other)),
        warm=is_long(n, d),  # yardsticks and tolerances have been found by the same fits
    )


def against_linear_svc(setting: Setting, *, n: int, d: int, kind: str, k: float) -> Contest:
    """Return a contest at the accuracy that LinearSVC has at its default tolerance."""
    n, d = setting.rows(n), setting.columns(d)
    X, y, _ = wide_data(n, d, kind)
    C = penalty(n, None)
    average = yardstick("hinge", X, y, 1.0, C, penalize_intercept=True)
    own = average if k == 1.0 else yardstick("hinge", X, y, k, C, penalize_intercept=True)

    def theirs() -> Any:
        return LinearSVC(C=C / n, loss="hinge").fit(X, y)

    goal = min(max(average.of(theirs()), 1e-9), 0.1)
    return Contest(
        lambda: ATkClassifier("hinge", k=k, C=C, tol=goal, penalize_intercept=True).fit(X, y),
        theirs,
        lambda model, other: (own.of(model), average.of(other)),
        warm=is_long(n, d),
    )


def against_ridge(setting: Setting, *, n: int, d: int) -> Contest:
    n, d = setting.rows(n), setting.columns(d)
    X, _, y = wide_data(n, d, "plain")
    exact = yardstick("squared_error", X, y, 1.0, float(n))
    return Contest(
        lambda: ATkRegressor("squared_error", k=1.0, C=float(n)).fit(X, y),
        lambda: Ridge(alpha=0.5).fit(X, y),
        lambda model, other: (exact.of(model), exact.of(other)),
    )


CLAIMS = [
    *(
        Claim(
            f"wide/lbfgs-{n}x{d}-{kind}-{k:g}",
            f"log loss, {share(k)}, C = n, {told}",
            shape(n, d),
            "`LogisticRegression` (lbfgs, k = n), at the loosest tolerance that reaches 1e-6",
            partial(against_lbfgs, n=n, d=d, kind=kind, k=k),
            rounds=rounds_of(n, d),
        )
        for n, d in SHAPES
        for kind, told in KINDS.items()
        for k in (1.0, 0.5)
    ),
    *(
        Claim(
            f"wide/lbfgs-2000x2000-plain-{k:g}-all",
            f"log loss, {share(k)}, C = n, independent columns",
            shape(2000, 2000),
            "`LogisticRegression` (lbfgs, k = n), at the loosest tolerance that reaches 1e-6",
            partial(against_lbfgs, n=2000, d=2000, kind="plain", k=k),
            threads="all",
        )
        for k in (1.0, 0.5)
    ),
    *(
        Claim(
            f"wide/lbfgs-2000x2000-plain-{k:g}-C100",
            f"log loss, {share(k)}, C = 100, independent columns",
            shape(2000, 2000),
            "`LogisticRegression` (lbfgs, k = n), at the loosest tolerance that reaches 1e-6",
            partial(against_lbfgs, n=2000, d=2000, kind="plain", k=k, C=100.0),
        )
        for k in (1.0, 0.5)
    ),
    *(
        Claim(
            f"wide/lbfgs-tall-{kind}-{k:g}",
            f"log loss, {share(k)}, C = n, {told}",
            shape(*TALL),
            "`LogisticRegression` (lbfgs, k = n), at its default tolerance",
            partial(against_lbfgs, n=TALL[0], d=TALL[1], kind=kind, k=k, equal=False),
            rounds=2,
        )
        for kind, told in KINDS.items()
        for k in (1.0, 0.5)
    ),
    *(
        Claim(
            f"wide/linear-svc-{n}x{d}-{k:g}",
            f"hinge, {share(k)}, C = n, independent columns, intercept penalised",
            shape(n, d),
            "`LinearSVC` (LIBLINEAR, k = n), at its default tolerance",
            partial(against_linear_svc, n=n, d=d, kind="plain", k=k),
            rounds=rounds_of(n, d),
        )
        for n, d in SHAPES
        for k in (1.0, 0.5)
    ),
    *(
        Claim(
            f"wide/ridge-{n}x{d}",
            "squared error, k = n, C = n",
            shape(n, d),
            "`Ridge`",
            partial(against_ridge, n=n, d=d),
        )
        for n, d in (*SHAPES, TALL)
    ),
]
