"""An outside solver: the conic program of the lambda form (Lemma 1), handed to Clarabel as it is.

    minimise  lam + sum(u_i t_i) + |w|^2 / (2 C)      t_i >= l_i - lam,  t_i >= 0,  lam >= 0

with ``u_i = min(mass_i / k, 1)`` (no row can have more weight than all of them). Only the point it ends at is used, and
the value of that point is an upper bound of the optimum whatever the solver thought of it. So everything that helps is
allowed: columns are centred and scaled, targets and objective are scaled, and further passes solve for the correction
of the answer so far in other units, chosen from it, until two agree, which gives small optima their digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import clarabel
import numpy as np
import scipy.sparse as sp
import scs

from fuzzing.definition import Array, Definition, Point

# How the passes choose their units, in turn: columns by their largest entry (else by a typical one), the objective by
# its present value (else by the largest residual). What one finds hard is easy in the other's.
_STYLES = ((True, False), (False, True), (True, True), (False, False))
_AGREEMENT = 1e-9
# An optimum of a classification problem below this is of nearly separable classes.
_TINY = 1e-2


@dataclass(frozen=True)
class _Units:
    """Where the pass starts, and the sizes by which its variables, residuals and objective are divided."""

    start: Point
    centre: Array  # subtracted from the rows, with a free intercept
    columns: Array  # a weight is start + columns * its variable
    intercept: float
    residual: float
    objective: float


@dataclass(frozen=True)
class _Program:
    """min 1/2 x.P x + q.x subject to rhs - A x in the nonnegative orthant x cones of order 3 x exponential cones."""

    P: sp.csc_matrix
    q: Array
    A: sp.csc_matrix
    rhs: Array
    n_nonnegative: int
    n_second_order: int
    n_exponential: int


def outside_point(problem: Definition) -> Point | None:
    """Return the best point the outside solvers find, or None if they find none."""
    point = _origin(problem)
    value = problem.value(point)
    confirmed = value == 0.0  # no loss is negative
    for by_largest, by_value in _STYLES:
        if value == 0.0:
            break
        units = _units(problem, point, value, by_largest, by_value)
        found = _solve(_program(problem, units))
        if found is None:
            continue
        new, new_value = _best_multiple(problem, _point(problem, units, found))
        agree = abs(new_value - value) <= _AGREEMENT * value
        confirmed = confirmed or new_value <= value * (1.0 + 1e-6)
        if new_value < value:
            point, value = new, new_value
        if agree:
            break
    return point if confirmed else None


def _best_multiple(problem: Definition, point: Point) -> tuple[Point, float]:
    """Return the best multiple of a point close to it: stretched a little, it meets margins it has just missed."""
    best, best_value = point, problem.value(point)
    if problem.is_classification and best_value < _TINY:
        for factor in 1.0 + 10.0 ** -np.arange(2.0, 15.0):
            longer = Point(factor * point.w, factor * point.b)
            value = problem.value(longer)
            if value < best_value:
                best, best_value = longer, value
    return best, best_value


def _origin(problem: Definition) -> Point:
    """Return w = 0 with an intercept in the middle of the targets, where there is a free one."""
    centred = problem.intercept == "free" and not problem.is_classification
    return Point(np.zeros(problem.X.shape[1]), _middle(problem.y[:, None])[0] if centred else 0.0)


def _middle(columns: Array) -> Array:
    """Return an element near the median of each column: subtracting it leaves constant columns exactly zero."""
    return np.sort(columns, axis=0)[len(columns) // 2]


def _power_of_two(size: Any) -> Any:
    """Round to a power of two, by which scaling is exact; zero becomes one."""
    size = np.asarray(size, dtype=np.float64)
    return np.exp2(np.round(np.log2(np.where(size > 0.0, size, 1.0))))


def _units(problem: Definition, start: Point, value: float, by_largest: bool, by_value: bool) -> _Units:
    """Choose units in which everything is of order one, from a point and its objective."""
    centre = _middle(problem.X) if problem.intercept == "free" else np.zeros(problem.X.shape[1])
    entries = np.abs(problem.X - centre)
    size = np.max if by_largest else np.median
    widths = _power_of_two([size(column[column > 0.0]) if column.any() else 0.0 for column in entries.T])
    if problem.is_classification:
        residual = 1.0
        objective = float(_power_of_two(value if by_value else min(1.0, 10.0 * value)))
    else:
        residual = float(np.abs(problem.residuals(start)).max())
        if by_value or residual == 0.0:  # the residual whose loss is about the objective
            is_linear = problem.loss == "absolute_error" or (problem.loss == "huber" and value > 1.0)
            residual = value if is_linear else math.sqrt(value)
        residual = float(_power_of_two(residual))
        objective = {
            "squared_error": residual**2,
            "absolute_error": residual,
            "huber": residual * min(residual, 1.0),
        }[problem.loss]
    # no better point is farther away than its penalty allows
    reach = float(_power_of_two(math.sqrt(2.0 * problem.C * max(value, 1e-300))))
    intercept = residual if problem.intercept == "free" else min(residual, reach)
    return _Units(start, centre, np.minimum(residual / widths, reach), intercept, residual, objective)


def _program(problem: Definition, units: _Units) -> _Program:
    """Write the cones of the loss; see the module for the rest."""
    n = problem.X.shape[0]
    rest = problem.residuals(units.start)
    rest = rest / units.residual if problem.is_classification else -rest / units.residual
    moves = (problem.X - units.centre) * (units.columns / units.residual)
    if problem.intercept != "none":
        moves = np.column_stack([moves, np.full(n, units.intercept / units.residual)])
    if problem.is_classification:
        moves = moves * problem.y[:, None]
    # in these units a row's residual is rest - moves @ v: y - f, or the violation of the margin
    p = moves.shape[1]
    unit = units.residual / units.objective  # of a loss that is linear in the residual
    root = units.residual / math.sqrt(units.objective)  # of one that is square
    each, nothing = sp.identity(n, format="csr"), sp.csr_matrix((n, n))
    lam = sp.csr_matrix(np.ones((n, 1)))
    level = sp.hstack([sp.csr_matrix((n, p)), lam, each])  # lam + t, as a row acting on (v, lam, t)
    error = sp.hstack([-sp.csr_matrix(moves), sp.csr_matrix((n, 1)), nothing])  # residual less rest
    positive = [
        (sp.identity(p + 1 + n, format="csr")[p : p + 1], np.zeros(1)),
        (sp.hstack([sp.csr_matrix((n, p + 1)), each]), np.zeros(n)),
    ]
    second, exponential = [], []
    extra = 0
    if problem.loss == "hinge":
        positive.append((level - unit * error, -unit * rest))
    elif problem.loss == "absolute_error":
        positive += [(level - unit * error, -unit * rest), (level + unit * error, unit * rest)]
    elif problem.loss == "squared_error":
        second = _square_below(root * error, root * rest, level)
    elif problem.loss == "squared_hinge":  # e >= the violation, e >= 0, level >= e^2
        extra = n
        level, error = _widen(level, n), _widen(error, n)
        e = sp.hstack([sp.csr_matrix((n, p + 1 + n)), each])
        positive += [(e, np.zeros(n)), (e - root * error, -root * rest)]
        second = _square_below(e, np.zeros(n), level)
    elif problem.loss == "huber":  # level >= a^2 + weight * g,  g >= |residual - sqrt(2) a / root|
        extra = 2 * n
        weight = min(unit, 1e3)  # beyond that no residual can reach the linear part
        level, error = _widen(level, extra), _widen(error, extra)
        a = sp.hstack([sp.csr_matrix((n, p + 1 + n)), each, nothing])
        g = sp.hstack([sp.csr_matrix((n, p + 1 + n)), nothing, each])
        beyond = error - (math.sqrt(2.0) / root) * a
        positive += [(g - beyond, -rest), (g + beyond, rest)]
        second = _square_below(a, np.zeros(n), level - weight * g)
    else:  # exp(m - level) + exp(-level) <= 1
        extra = 2 * n
        level, error = units.objective * _widen(level, extra), _widen(error, extra)
        parts = [
            sp.hstack([sp.csr_matrix((n, p + 1 + n)), each, nothing]),
            sp.hstack([sp.csr_matrix((n, p + 1 + n)), nothing, each]),
        ]
        positive.append((-parts[0] - parts[1], np.ones(n)))
        for exponent, constant, part in ((error - level, rest, parts[0]), (-level, np.zeros(n), parts[1])):
            exponential += [(exponent, constant), (0.0 * part, np.ones(n)), (part, np.zeros(n))]
    m = p + 1 + n + extra
    positive = [(_widen(rows, m - rows.shape[1]), constant) for rows, constant in positive]
    blocks = [*positive, *_interleave(second, n), *_interleave(exponential, n)]
    sizes = np.append(units.columns, [units.intercept] * (problem.intercept != "none"))
    begin = np.append(units.start.w, [units.start.b] * (problem.intercept != "none"))
    ridge = np.full(p, 1.0 / problem.C)
    if problem.intercept == "free":
        ridge[-1] = 0.0
    diagonal = np.append(ridge * sizes**2 / units.objective, np.zeros(m - p))
    u = np.minimum(problem.mass / problem.k, 1.0)
    return _Program(
        P=sp.diags(diagonal, format="csc"),
        q=np.concatenate([ridge * begin * sizes / units.objective, [1.0], u, np.zeros(extra)]),
        A=sp.csc_matrix(-sp.vstack([rows for rows, _ in blocks])),
        rhs=np.concatenate([constant for _, constant in blocks]),
        n_nonnegative=sum(len(constant) for _, constant in positive),
        n_second_order=n if second else 0,
        n_exponential=2 * n if exponential else 0,
    )


def _widen(rows: Any, columns: int) -> Any:
    """Append zero columns."""
    return rows if columns == 0 else sp.hstack([rows, sp.csr_matrix((rows.shape[0], columns))])


def _square_below(e: Any, constant: Array, level: Any) -> list[tuple[Any, Array]]:
    """Return the rows of ``(e + constant)^2 <= level`` as the cones ``|(2 e, level - 1)| <= level + 1``."""
    ones = np.ones(len(constant))
    return [(level, ones), (2.0 * e, 2.0 * constant), (level, -ones)]


def _interleave(triples: list[tuple[Any, Array]], n: int) -> list[tuple[Any, Array]]:
    """Order the rows of cones given part by part: cone by cone, three rows each."""
    out = []
    for begin in range(0, len(triples), 3):
        rows = sp.vstack([part for part, _ in triples[begin : begin + 3]], format="csr")
        constant = np.concatenate([part for _, part in triples[begin : begin + 3]])
        order = np.arange(3 * n).reshape(3, n).T.ravel()
        out.append((rows[order], constant[order]))
    return out


def _solve(program: _Program) -> Array | None:
    """Return the variables where a solver says that it succeeded, the tightest tolerances first."""
    cones = [
        clarabel.NonnegativeConeT(program.n_nonnegative),
        *[clarabel.SecondOrderConeT(3)] * program.n_second_order,
        *[clarabel.ExponentialConeT()] * program.n_exponential,
    ]
    for tolerance in (1e-11, 1e-8):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = 1e3 * tolerance
        solution = clarabel.DefaultSolver(program.P, program.q, program.A, program.rhs, cones, settings).solve()
        x = np.array(solution.x)
        if str(solution.status) in ("Solved", "AlmostSolved") and np.isfinite(x).all():
            return x
    return _solve_by_scs(program)


def _solve_by_scs(program: _Program) -> Array | None:
    data = {"P": program.P, "c": program.q, "A": program.A, "b": program.rhs}
    cone = {"l": program.n_nonnegative, "q": [3] * program.n_second_order, "ep": program.n_exponential}
    settings = {"verbose": False, "eps_abs": 1e-8, "eps_rel": 1e-8, "max_iters": 10_000}
    solution = scs.SCS(data, cone, **settings).solve()
    x = np.asarray(solution["x"])
    return x if solution["info"]["status"] == "solved" and np.isfinite(x).all() else None


def _point(problem: Definition, units: _Units, found: Array) -> Point:
    """Map the variables back; the intercept makes up for the centring of the weights as they were rounded."""
    d = problem.X.shape[1]
    w = units.start.w + units.columns * found[:d]
    if problem.intercept == "none":
        return Point(w, 0.0)
    shifts = (-(units.centre * (w - units.start.w))).tolist()
    return Point(w, math.fsum([units.start.b, units.intercept * float(found[d]), *shifts]))
