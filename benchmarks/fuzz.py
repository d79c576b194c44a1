"""Thousands of small nasty problems, each fit checked against the definition and an outside solver.

Every problem is a function of the seed and its index, so a failure can be run again alone. Failures, which make the
exit code 1 (as do warnings at more than 1.5 % of the problems, and better points found outside at more than 0.1 %):

    nan              a published number is not finite
    wrong bound      objective_ - dual_gap_ lies above the value of a known point, and so above the optimum
    missed           dual_gap_ > tol * objective_ without a ConvergenceWarning
    inconsistent     objective_, loss_threshold_ or k_ is not that of the published coef_ and intercept_
    above            the objective is more than 1e-6 (relative) above the outside solver's point, without a warning
    worse than zero  the objective is above that of w = 0
    infeasible       top_weights_ leave 0 <= q <= mass / k, sum(q) <= 1
    error            the fit raised

Counted besides: warned (ConvergenceWarning), collapsed (CollapseWarning), other warning (any other one); no answer (the
outside solver failed), loose answer (its point is worse than the fit's by 1e-6), beaten (as above, with a warning).

With --kernels small kernel machines are fitted, in all numbers of LIBSVM's iterations; "stopped early" are those that a
limit has stopped, and that say so.

Usage: ./run bench fuzz [--problems 20000] [--seed 0] [--jobs 2] [--tol 1e-6] [--only INDEX] [--kernels]
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial

from fuzzing.definition import INTERCEPTS, LOSSES
from fuzzing.kernels import examine_kernel
from fuzzing.problems import fuzz_problem
from fuzzing.verdict import FAILURES, NOTES, Verdict, examine
from threadpoolctl import threadpool_limits

SHOWN = 30
MAX_WARNED = 0.015
MAX_BEATEN = 0.001


def examine_index(index: int, seed: int, tol: float) -> Verdict:
    """Make and examine one problem, on one thread: the problems are too small for more."""
    with threadpool_limits(1):
        return examine(fuzz_problem(seed, index), tol)


def examine_kernel_index(index: int, seed: int, tol: float) -> Verdict:
    """Make and examine one kernel machine."""
    with threadpool_limits(1):
        return examine_kernel(index, seed, tol)


def examine_all(indices: range, seed: int, tol: float, jobs: int, *, kernels: bool = False) -> Iterator[Verdict]:
    """Yield the verdicts in the order of the indices."""
    work = partial(examine_kernel_index if kernels else examine_index, seed=seed, tol=tol)
    if jobs == 1:
        yield from map(work, indices)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(work, indices, chunksize=20)


def is_acceptable(verdicts: list[Verdict]) -> bool:
    """Return whether nothing failed, few were warned about and fewer of these could be bettered."""
    warned, beaten = (sum(note in verdict.notes for verdict in verdicts) for note in ("warned", "beaten"))
    few = warned <= MAX_WARNED * len(verdicts) and beaten <= MAX_BEATEN * len(verdicts)
    return few and not any(verdict.failures for verdict in verdicts)


def summary(verdicts: list[Verdict]) -> str:
    """Return the tables per loss and per trait, and the failures one by one."""
    groups = {loss: [v for v in verdicts if v.problem.loss == loss] for loss in LOSSES}
    parts = [_table("loss", {**groups, "total": verdicts}, (*FAILURES, *NOTES))]
    traits = sorted({trait for verdict in verdicts for trait in verdict.problem.traits})
    by_trait = {trait: [v for v in verdicts if trait in v.problem.traits] for trait in traits}
    by_trait |= {f"intercept {kind}": [v for v in verdicts if v.problem.intercept == kind] for kind in INTERCEPTS}
    parts.append(_table("trait", by_trait, ("failed", "warned", "warned %", "no answer", "loose answer")))
    failed = [verdict for verdict in verdicts if verdict.failures]
    lines = [_line(verdict) for verdict in failed[:SHOWN]]
    if len(failed) > SHOWN:
        lines.append(f"... and {len(failed) - SHOWN} more")
    return "\n".join([*parts, *lines])


def _table(title: str, groups: dict[str, list[Verdict]], columns: Iterable[str]) -> str:
    heads = [title, "problems", *columns]
    rows = []
    for name, verdicts in groups.items():
        counts = Counter(kind for verdict in verdicts for kind in (*verdict.failures, *verdict.notes))
        counts["failed"] = sum(bool(verdict.failures) for verdict in verdicts)
        share = {"warned %": f"{100.0 * counts['warned'] / max(len(verdicts), 1):.1f}"}
        rows.append([name, str(len(verdicts)), *(share.get(column, str(counts[column])) for column in columns)])
    widths = [max(len(row[place]) for row in [heads, *rows]) for place in range(len(heads))]
    return (
        "\n".join(
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in [heads, *rows]
        )
        + "\n"
    )


def _line(verdict: Verdict) -> str:
    return f"{verdict.problem}\n        " + "; ".join(f"{kind}: {why}" for kind, why in verdict.failures.items())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--only", type=int, help="run this problem alone")
    parser.add_argument("--kernels", action="store_true", help="kernel machines, most of them stopped early")
    args = parser.parse_args()
    if args.only is not None:
        verdict = (examine_kernel_index if args.kernels else examine_index)(args.only, args.seed, args.tol)
        print(_line(verdict), f"notes: {', '.join(sorted(verdict.notes)) or 'none'}", sep="\n        ")
        return int(bool(verdict.failures))
    begin = time.perf_counter()
    verdicts = []
    for verdict in examine_all(range(args.problems), args.seed, args.tol, args.jobs, kernels=args.kernels):
        verdicts.append(verdict)
        if len(verdicts) % 1000 == 0:
            print(f"{len(verdicts)} problems, {time.perf_counter() - begin:.0f} s", file=sys.stderr, flush=True)
    print(summary(verdicts))
    print(f"{args.problems} problems of seed {args.seed} in {time.perf_counter() - begin:.0f} s")
    return int(not is_acceptable(verdicts))


if __name__ == "__main__":
    sys.exit(main())
