"""Problems on a random part of many rows: statistically close to the whole, and cheap."""

from __future__ import annotations

from atklearn.problems.objective import Problem

__all__ = ["THINNING", "is_large", "thin"]

# From this many rows on, one in so many of them gives the start.
LARGE = 50_000
THINNING = 20


def is_large(problem: Problem) -> bool:
    """Say whether a part of the rows is so much quicker to solve that it is worth to start from."""
    return problem.rows.n_rows >= max(LARGE, problem.rows.min_efficient_rows)


def thin(problem: Problem, n_rows: int, least_k: float = 0.0) -> Problem:
    """Return the problem on a random part of the rows, with k in proportion, or ``least_k`` if that is more."""
    rows = problem.rows.sample(n_rows)
    return problem.on(rows, min(max(problem.k * rows.total / problem.rows.total, least_k), rows.total))
