"""Small tops on tables of every kind: certified, in how many steps, and in how much time beside Clarabel.

600 problems of 100 to 30,000 rows and 5 to 200 columns: normal features, rows drawn with replacement, one-hot and
integer ones; the largest 1 to 20 losses, or a hundredth; all losses. Those of up to 3,000 rows are solved by Clarabel,
too, to the same tolerance, in the same process; counted is the time of its solver alone, without that of stating the
problem, and of ours the whole fit.

Usage: ./run bench small_top [--problems 600] [--weighted] [--alone]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import cvxpy as cp
import numpy as np
from claims.convex import losses_in_cvxpy
from fuzzing.definition import CLASSIFICATION, LOSSES
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from atklearn import ATkClassifier, ATkRegressor, CollapseWarning, OneRowWarning

KINDS = ("normal", "drawn", "one-hot", "integer")
MOST_FOR_CLARABEL = 3000
MOST_STEPS = 100
TOL = 1e-6


@dataclass(frozen=True)
class SmallTop:
    """One problem: k rows, or as much weight, of many."""

    index: int
    loss: str
    kind: str
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    k: int
    C: float

    def __str__(self) -> str:
        n, d = self.X.shape
        return f"{self.index:>4}  {self.loss:14} {self.kind:8} n={n:<6} d={d:<4} k={self.k:<4} C={self.C:.1e}"

    def estimator(self) -> Any:
        """Return the estimator that is timed."""
        made = ATkClassifier if self.loss in CLASSIFICATION else ATkRegressor
        return made(self.loss, k=self.k, C=self.C, tol=TOL)

    def by_clarabel(self) -> tuple[float, float]:
        """Return the value that Clarabel finds, and its seconds."""
        w, b, lam = cp.Variable(self.X.shape[1]), cp.Variable(), cp.Variable()
        losses = losses_in_cvxpy(self.loss, self.X @ w + b, self.y)
        value = lam + self.weight @ cp.pos(losses - lam) / self.k + cp.sum_squares(w) / (2 * self.C)
        program = cp.Problem(cp.Minimize(value))
        program.solve(solver=cp.CLARABEL, tol_gap_abs=0.0, tol_gap_rel=TOL, tol_feas=TOL, max_threads=1)
        return float(program.value), float(program.solver_stats.solve_time)


def small_top(index: int, *, weighted: bool) -> SmallTop:
    """Return a problem, the same for an index every time."""
    rng = np.random.default_rng([2017, index])
    loss, kind = LOSSES[index % len(LOSSES)], KINDS[index // len(LOSSES) % len(KINDS)]
    n, d = (int(np.exp(rng.uniform(*np.log(ends)))) for ends in ((100, 30_000), (5, 200)))
    X = rng.standard_normal((n, d))
    if kind == "drawn":
        X = X[rng.integers(0, max(int(n * rng.choice([0.1, 0.3, 0.67])), 5), n)]
    elif kind == "one-hot":
        starts = np.linspace(0, d, max(d // 8, 1) + 1).astype(int)
        X = np.zeros((n, d))
        for begin, end in pairwise(starts):
            X[np.arange(n), rng.integers(begin, end, n)] = 1.0
    elif kind == "integer":
        X = rng.integers(-2, 3, (n, d)).astype(float)
    f = X @ rng.standard_normal(d)
    y = f / max(f.std(), 1e-12) + rng.choice([0.1, 0.5, 1.0]) * rng.standard_normal(n)
    if loss in CLASSIFICATION:
        y = np.where(y > np.median(y), 1.0, -1.0)
    k = int(rng.integers(1, 21)) if rng.random() < 0.7 else max(n // 100, 1)
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    return SmallTop(index, loss, kind, X, y, weight, k, 10.0 ** rng.uniform(-1.0, 4.0))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=600)
    parser.add_argument("--weighted", action="store_true", help="weights of 1 to 3 instead of all alike")
    parser.add_argument("--alone", action="store_true", help="without Clarabel")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    steps, ratios, failed, above = [], [], 0, 0
    with threadpool_limits(1):
        ATkClassifier(k=1.0).fit(np.eye(3), [0, 1, 1])  # compiled code is loaded
        for index in range(args.problems):
            problem = small_top(index, weighted=args.weighted)
            model = problem.estimator()
            weight = problem.weight if args.weighted else None
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", OneRowWarning)
                warnings.simplefilter("ignore", CollapseWarning)
                begin = time.perf_counter()
                model.fit(problem.X, problem.y, sample_weight=weight)
                seconds = time.perf_counter() - begin
            is_certified = model.dual_gap_ <= TOL * model.objective_
            failed += not is_certified
            steps.append(model.n_iter_)
            if not is_certified or model.n_iter_ > MOST_STEPS or any(w.category is ConvergenceWarning for w in caught):
                print(
                    f"{problem}: gap {model.dual_gap_ / model.objective_:.1e} after {model.n_iter_} steps", flush=True
                )
            if args.alone or problem.y.size > MOST_FOR_CLARABEL:
                continue
            try:
                value, theirs = problem.by_clarabel()
            except cp.SolverError:
                print(f"{problem}: Clarabel found nothing", flush=True)
                continue
            ratios.append(seconds / theirs)
            if model.objective_ > value * (1.0 + 2.0 * TOL):
                above += 1
                print(f"{problem}: objective {model.objective_:.9g}, Clarabel's {value:.9g}", flush=True)
            if seconds >= theirs:
                print(f"{problem}: {seconds:.3g} s, Clarabel {theirs:.3g} s", flush=True)
    print(f"{args.problems} problems, {failed} not certified to {TOL:g}, {above} above Clarabel's point")
    print("steps: median {:.0f}, 95 % {:.0f}, most {:.0f}".format(*np.percentile(steps, [50, 95, 100])))
    if ratios:
        low, middle, high = np.percentile(ratios, [0, 50, 100])
        print(f"time over Clarabel's, {len(ratios)} problems: median {middle:.3g}, {low:.3g} to {high:.3g}")
    return int(failed > 0 or max(steps) > MOST_STEPS or above > 0)


if __name__ == "__main__":
    sys.exit(main())
