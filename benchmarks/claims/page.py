"""The page of the benchmarks, written from the results files alone."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from claims.results import NOISE, NOISE_OF_THREADS, Result, Results

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

# The sections, in their order, each with what its tables do not say.
TOPICS = {
    "convex": (
        "The same objective in other solvers",
        "cvxpy is given AT_k as its users would write it, with `sum_largest`, and Clarabel a tolerance of "
        "1e-6. `dro` minimises the conditional value at risk, which is AT_k with k = alpha n, without a "
        "penalty; ours has C = 1e8 there. ReHLine solves k = n with a ridge penalty to its default tolerance, "
        "and ours is asked for the same 1e-4. `QuantileRegressor` solves a linear program, exactly.",
    ),
    "linear": (
        "Many rows, few columns",
        "Ours certifies a gap of 1e-6; `LogisticRegression` is at its default tolerance and minimises the "
        "average, the only aggregate it has. C = 100. The collapse is where a small k makes w = 0 the "
        "optimum; just above it a fit takes longest.",
    ),
    "wide": (
        "Wide data",
        "Of lbfgs the loosest tolerance counts that reaches 1e-6, as measured; where it is at its default, "
        "ours is asked for the accuracy it reaches. `LinearSVC` is at its default tolerance as well; with the "
        "hinge ours is asked for no more than that.",
    ),
    "sparse": (
        "Sparse data",
        "Both at the loosest tolerance that comes within 1e-4 of the optimum, as measured. No intercept.",
    ),
    "small": (
        "Small data, and fits as they come",
        "Times are the least of many turns in each round. Default fits choose k by cross-validation, which "
        "`LogisticRegression()` does not do: what it costs, not who is quicker at the same. They were measured before "
        "the present default (see [decision 26](decisions/0026-one-chooser.md), which has its rough cost): "
        "`ATkRegressor()` kept the average then, and chooses k now.",
    ),
    "kernel": (
        "Kernel machines",
        "Over the one call of LIBSVM that each fit reduces to, at the same tolerance of LIBSVM's: what "
        "exactness and the certificate cost. The answer of `NuSVC` is given the best length of w, which "
        "nu-SVM leaves open.",
    ),
    "path": (
        "Grids of k and C",
        "Every cell certified to a gap of 1e-3. scikit-learn knows C alone: it makes as many fits, those of "
        "each C once per k. Excesses are the largest of those at k = n, or of all gaps where both are ours.",
    ),
    "stochastic": (
        "The stochastic solver",
        "As many passes over the data, in random order; no accuracy is promised by either.",
    ),
    "threads": (
        "Threads",
        "On the same data as one thread, C = 100.",
    ),
    "memory": (
        "Memory",
        "The ratio is the peak of resident memory during a fit beyond what was there before it, over the size of X.",
    ),
    "boosting": (
        "Boosted trees",
        "The average is a custom objective, too, so that both cross from LightGBM to Python in every round.",
    ),
    "clusters": (
        "Clusters",
        "A local cluster of two processes with one thread each, data in their memory; C = n; dask-ml with a "
        "tolerance of 1e-8.",
    ),
    "torch": (
        "The loss for PyTorch",
        "The mean does less, and is what the loss replaces: a ratio below 1 is not to be had. On a GPU 1e8 "
        "losses are timed as CUDA graphs and steps in bursts of twenty, so that the time is the device's.",
    ),
    "gpu": (
        "Fits on a GPU",
        "Checks of X and all. float64, independent columns of one size, which L-BFGS likes; labels wrong for 15 %.",
    ),
}

HEAD = """# Benchmarks

Every claim of speed that this project makes, with its competitor. `./run bench` measures all of them anew and
writes this page; `./run bench suite CLAIM ...` measures some, and `./run bench suite --check` says which left the
range below.

**Ratios are our time over theirs: below 1 we are faster, and where we are slower the figure is bold.** Both run in
the same process and take turns, after a round that does not count; every round has a ratio, and the tables show
the median and the range over the rounds, which may be of several hosts of a kind (`--add`); seconds are the last
run's. A rerun on such a machine should fall into that range widened by {noise:.0%}, on several threads by
{threads:.0%}, since a shared machine's second core is not always free; on another kind ratios differ more.
*Accuracy* is measured, not asked for: the excess of the objective over a certified lower bound of its optimum,
ours / theirs, relative. It is the objective of each: where ours has k < n
and theirs is the average, these are two problems. Data are generated, and chosen by us: run it on yours.
"""


def page(files: Iterable[Results]) -> str:
    """Return the page, as Markdown."""
    files = list(files)
    parts = [HEAD.format(noise=NOISE, threads=NOISE_OF_THREADS), machines(files), losses(files)]
    for topic, (title, note) in TOPICS.items():
        rows = [(file, result) for file in files for result in file.results if result.topic == topic]
        if rows:
            parts.append(f"## {title}\n\n{note}\n\n{table(rows, several=len(files) > 1)}")
    return "\n".join(parts)


def machines(files: list[Results]) -> str:
    """Return what was measured where, when and with which versions."""
    lines = []
    for file in files:
        machine = file.machine
        where = f"{machine['cores']} cores of {machine['cpu']}"
        if machine["gpu"]:
            where += f", one {machine['gpu']}"
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        told = f"{where}; {machine['system']}; Python {machine['python']}, {versions}"
        lines.append(f"- **{file.name}**, {machine['date']}: {told}.")
    return "\n".join(lines) + "\n"


def is_loss(result: Result) -> bool:
    """Whether we are slower, as far as the page shows."""
    return round(result.ratio, 2) > 1.0


def losses(files: list[Results]) -> str:
    """Return the section of what we are slower at."""
    lost = [result for file in files for result in file.results if is_loss(result) and result.topic != "memory"]
    total = sum(result.topic != "memory" for file in files for result in file.results)
    lines = [
        f"- {TOPICS[topic][0]}: " + "; ".join(told_loss(over, found) for over, found in grouped(lost, topic)) + "."
        for topic in TOPICS
        if any(result.topic == topic for result in lost)
    ]
    listed = "\n".join(lines) if lines else "Nowhere in these tables."
    return f"## Where we lose\n\n{len(lost)} of {total} comparisons, by what we are compared with:\n\n{listed}\n"


def grouped(lost: list[Result], topic: str) -> list[tuple[str, list[Result]]]:
    """Return the losses of a topic by competitor."""
    found: dict[str, list[Result]] = {}
    for result in lost:
        if result.topic == topic:
            found.setdefault(result.over, []).append(result)
    return list(found.items())


def told_loss(over: str, found: list[Result]) -> str:
    """Return one competitor's lead over us."""
    ratios = sorted(result.ratio for result in found)
    span = number(ratios[0]) if len(ratios) == 1 else f"{number(ratios[0])} to {number(ratios[-1])}"
    what = f"{found[0].task}, {found[0].sizes}" if len(found) == 1 else f"{len(found)} tasks"
    return f"over {over} **{span}** ({what})"


def table(rows: list[tuple[Results, Result]], *, several: bool) -> str:
    """Return the rows of a topic."""
    columns = [
        "task",
        "sizes",
        "accuracy, ours / theirs",
        "over",
        "threads",
        "seconds, ours / theirs",
        "ratio",
        "range",
    ]
    if several:
        columns.insert(4, "machine")
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for file, result in rows:
        cells = [
            result.task,
            result.sizes,
            accuracy(result),
            competitor(file, result),
            str(result.threads),
            "-" if result.seconds is None else " / ".join(f"{each:.2g}" for each in result.seconds),
            f"**{number(result.ratio)}**" if is_loss(result) else number(result.ratio),
            f"{number(min(result.ratios))} to {number(max(result.ratios))}",
        ]
        if several:
            cells.insert(4, file.name)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def competitor(file: Results, result: Result) -> str:
    """Return what we are compared with, its versions, and the date where it is not that of the file."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    told = f"{result.over}; {versions}" if versions else result.over
    return told if result.date == file.machine["date"] else f"{told}; {result.date}"


def accuracy(result: Result) -> str:
    """Return both excesses; what is below 1e-9 is not told apart by the certificate."""
    if all(each is None for each in result.excess):
        return "-"
    return " / ".join(
        "-" if each is None else "below 1e-9" if each < 1e-9 else f"{each:.0e}".replace("e-0", "e-")
        for each in result.excess
    )


def number(ratio: float) -> str:
    """Return a ratio with two digits, three around 1, and as a fraction where it is small."""
    if 0.0 < ratio < 0.05:
        return f"1/{float(f'{1.0 / ratio:.2g}'):.0f}"
    if ratio < 0.095:
        return f"{ratio:.3f}"
    if ratio < 9.95:
        return f"{ratio:.2f}" if ratio < 1.995 else f"{ratio:.1f}"
    return f"{float(f'{ratio:.2g}'):.0f}"


def write(files: Iterable[Results]) -> None:
    """Write the page where it belongs."""
    PAGE.write_text(page(files), encoding="utf-8")
