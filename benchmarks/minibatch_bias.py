"""Minibatch training with the average top-k loss, next to the exact solver: whether it finds the same minimum.

A linear model (log loss, L2) on 20,000 generated rows of which 8 % are a hard group, k = 10 %. It is trained by SGD in
PyTorch from random weights: 4,000 steps whatever the size of the batches, a step that falls linearly to zero, the mean
of the iterates of the second half. Each figure is the exact AT_k objective of the trained model above the optimum of
the exact solver in %: mean over the seeds (smallest to largest). Every seed has data, weights and batches of its own.

"Its own minimum" is what the batch scope aims at: the exact minimiser of its objective, which is the mean over all
batches of the top k within a batch. Where training arrives there, the excess is the objective's doing, not SGD's.

Usage: ./run bench minibatch_bias [--picture] [--seeds 3] [--jobs 2]
    --picture  also write docs/images/minibatch-bias.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from joblib import Parallel, delayed
from scipy.optimize import minimize
from scipy.stats import binom
from torch.nn.functional import softplus

from atklearn import ATkClassifier, average_top_k
from atklearn.torch import AverageTopKLoss

Rows = tuple[np.ndarray, np.ndarray]
ROWS, COLUMNS, HARD_SHARE = 20_000, 10, 0.08
EASY_MEAN, HARD_MEAN, NOISE = (4.0, -2.0), (0.0, 1.0), 0.3  # of class 1 in the first two columns; class -1 mirrors it
K, C = 0.1, 3.0
BATCHES, JUDGED, MOST_EXCESS = (4, 16, 64, 256, 1024), (16, 64, 256), 1.0
STEPS, LEARNING_RATE = 4_000, 0.1
AVERAGE_BATCH = 64
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "minibatch-bias.png"
COLOURS = {"dataset": "#0072B2", "batch": "#D55E00"}  # told apart with any colour vision, and by their markers
MARKERS = {"dataset": "o", "batch": "s"}


def make_rows(seed: int) -> Rows:
    """Return features and labels -1 and 1: what tells the classes of most rows apart misleads on the hard ones."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], ROWS)
    is_hard = rng.random(ROWS) < HARD_SHARE
    X = NOISE * rng.standard_normal((ROWS, COLUMNS))
    X[:, :2] += y[:, None] * np.where(is_hard[:, None], HARD_MEAN, EASY_MEAN)
    return X, y


def objective(rows: Rows, coef: np.ndarray, intercept: float) -> float:
    X, y = rows
    return average_top_k(np.logaddexp(0.0, -y * (X @ coef + intercept)), K) + coef @ coef / (2.0 * C)


def optimum(rows: Rows) -> float:
    model = ATkClassifier("log_loss", k=K, C=C).fit(*rows)
    return objective(rows, model.coef_.ravel(), model.intercept_.item())


def train(rows: Rows, scope: str, batch: int, seed: int) -> float:
    """Return the objective of the model that SGD ends with."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    X, y = (torch.tensor(part, dtype=torch.float32) for part in rows)
    model = torch.nn.Linear(COLUMNS, 1)
    loss = torch.mean if scope == "average" else AverageTopKLoss(K, scope=scope)
    penalised = {"params": [model.weight], "weight_decay": 1.0 / C}
    optimizer = torch.optim.SGD([penalised, {"params": [model.bias]}], lr=LEARNING_RATE)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / STEPS)
    total = torch.zeros(COLUMNS + 1, dtype=torch.float64)
    for step, drawn in zip(range(STEPS), batches(batch), strict=False):
        optimizer.zero_grad()
        loss(softplus(-y[drawn] * model(X[drawn]).squeeze(1))).backward()
        optimizer.step()
        falling.step()
        if step >= STEPS // 2:
            total += torch.cat([model.weight.detach()[0], model.bias.detach()])
    weights = (total / (STEPS - STEPS // 2)).numpy()
    return objective(rows, weights[:-1], weights[-1])


def batches(size: int):
    """Yield full batches of row numbers without end, from one permutation of the rows after the other."""
    while True:
        yield from torch.randperm(ROWS)[: ROWS - ROWS % size].split(size)


def own_minimum(rows: Rows, batch: int) -> float:
    """Return the objective at the minimum of the batch scope's mean over batches.

    A loss of rank u from the top is among the k largest of its batch if fewer than k of the others are larger.
    """
    ranks = (np.arange(ROWS) + 0.5) / ROWS
    kept, part = divmod(K * batch, 1.0)
    shares = (binom.cdf(kept - 1, batch - 1, ranks) + part * binom.pmf(kept, batch - 1, ranks)) / (K * ROWS)
    X, y = rows
    design, penalty = np.column_stack([X, np.ones(ROWS)]), np.append(np.full(COLUMNS, 1.0 / C), 0.0)

    def value_and_gradient(weights: np.ndarray) -> tuple[float, np.ndarray]:
        losses = np.logaddexp(0.0, -y * (design @ weights))
        weight_of = np.empty(ROWS)
        weight_of[np.argsort(-losses)] = shares
        slopes = weight_of * -y * -np.expm1(-losses)
        return weight_of @ losses + 0.5 * penalty @ weights**2, design.T @ slopes + penalty * weights

    found = minimize(value_and_gradient, np.zeros(COLUMNS + 1), jac=True, method="L-BFGS-B").x
    return objective(rows, found[:-1], found[-1])


def run_seed(seed: int, scope: str, batch: int) -> float:
    """Return the excess over the optimum in %."""
    rows = make_rows(seed)
    reached = own_minimum(rows, batch) if scope == "own" else train(rows, scope, batch, seed)
    return 100.0 * (reached / optimum(rows) - 1.0)


def draw(found: dict[tuple[str, int], np.ndarray]) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xscale="log", yscale="log", xlabel="batch size")
    for scope, colour in COLOURS.items():
        excess = np.array([found[scope, batch] for batch in BATCHES])
        axes.fill_between(BATCHES, excess.min(1), excess.max(1), color=colour, alpha=0.2, linewidth=0)
        axes.plot(BATCHES, excess.mean(1), color=colour, marker=MARKERS[scope])
        axes.annotate(
            f'scope="{scope}"', (BATCHES[1], excess.mean(1)[1]), (10, 6), textcoords="offset points", color=colour
        )
    average = found["average", AVERAGE_BATCH].mean()
    for level, text, style in ((MOST_EXCESS, "1 %", "--"), (average, "trained by the average", ":")):
        axes.axhline(level, color="0.35", linestyle=style, linewidth=1)
        axes.annotate(text, (BATCHES[-1], level), (0, 4), textcoords="offset points", ha="right", color="0.35")
    axes.set_title("AT$_k$ of the data set above its minimum, in %", loc="left", fontsize="medium")
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, dpi=150)
    print(f"\nWritten: {PICTURE}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cells = [(scope, batch) for batch in BATCHES for scope in ("dataset", "batch", "own")]
    cells.append(("average", AVERAGE_BATCH))
    runs = [(seed, *cell) for cell in cells for seed in range(options.seeds)]
    figures = Parallel(options.jobs)(delayed(run_seed)(*run) for run in runs)
    found = dict(zip(cells, np.reshape(figures, (len(cells), options.seeds)), strict=True))

    def shown(scope: str, batch: int) -> str:
        excess = found[scope, batch]
        return f"{excess.mean():.3f} ({excess.min():.3f} to {excess.max():.3f})"

    print(f"AT_k objective above the optimum in %, k = {K:g} n, {options.seeds} seeds: mean (smallest to largest)\n")
    print(f"{'batch':>5}  {'scope=dataset':>26}  {'scope=batch':>26}  {'its own minimum':>26}")
    for batch in BATCHES:
        print(f"{batch:>5}  " + "  ".join(f"{shown(scope, batch):>26}" for scope in ("dataset", "batch", "own")))
    print(f"\nTrained by the average, batches of {AVERAGE_BATCH}: {shown('average', AVERAGE_BATCH)}")
    for scope in ("dataset", "batch"):
        within = [str(batch) for batch in JUDGED if found[scope, batch].max() <= MOST_EXCESS]
        print(f"scope={scope}: within {MOST_EXCESS:g} % with every seed at batches of {', '.join(within) or 'no size'}")
    if options.picture:
        draw(found)


if __name__ == "__main__":
    main()
