"""Small networks trained by the mean, by the average top-k loss and by what else is at hand: which errors they make.

generated  10 columns, two classes of the same size. In 4 % of the rows, which lie apart, the boundary is turned by a
           right angle. 4,000 rows to train on, 2,000 to choose k, 10,000 to test. The groups are the 4 % and the rest.
noisy      the same with 5 % of all labels wrong, in all parts.
digits     scikit-learn's digits: half to train on, where 30 % of the eights are kept, a fifth to choose k, the others
           to test. The groups are the ten classes.

All methods begin with the same weights and see the same batches, for the same number of steps; none stops early. The
share k of each AT_k method is chosen on the part for that by the measure of the column itself, from .1 to .7: the
mean, k = 1, is not among them, so that every method shows its own face. Every seed has data (digits: parts), weights
and batches of its own. Printed as Markdown, in %: mean +- standard error over the seeds, then the paired difference to
the mean with its standard error, bold beyond two of them. The worst tenth is a mean of cross entropies, not in %, and
the last column the error of the model whose k is chosen by it.

Usage: ./run bench deep_study [--quick] [--seeds 10] [--jobs 2] [--sets generated noisy digits]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from atklearn import average_top_k
from atklearn.torch import AverageTopKLoss, KSchedule

SHARES, QUICK_SHARES = (0.1, 0.2, 0.35, 0.5, 0.7), (0.2, 0.5)
PLAIN = ("mean", "mean, balanced class weights", "focal loss, gamma 2")
TOP = ("AT_k of each batch", "AT_k of the data set", "AT_k of the data set, KSchedule")
COLUMNS = ("error", "error of the worst group", "worst tenth of the losses", "error, k by the worst tenth")
IN_PERCENT = (True, True, False, True)
CHOOSES, JUDGES = [0, 1, 2, 2], [0, 1, 2, 0]  # the measure that each column's k is chosen by, and the one it shows
N_STEPS, QUICK_STEPS, BATCH, WIDTH = 2_000, 200, 64, 64
HARD_SHARE, SHIFT, FLIPPED = 0.04, 2.0, 0.05
RARE_DIGIT, RARE_KEPT = 8, 0.3
FOCUS = 2.0
WORST = 0.1


@dataclass(frozen=True)
class Part:
    """Rows with their classes and groups."""

    X: np.ndarray
    y: np.ndarray
    group: np.ndarray

    def of(self, places: np.ndarray) -> Part:
        """Return some of the rows."""
        return Part(self.X[places], self.y[places], self.group[places])


def generated(seed: int, flipped: float = 0.0) -> list[Part]:
    rng = np.random.default_rng(seed)
    parts = []
    for n in (4_000, 2_000, 10_000):
        X = rng.standard_normal((n, 10))
        is_hard = rng.random(n) < HARD_SHARE
        X[is_hard, 2:4] += SHIFT
        scores = np.where(is_hard, X[:, 1] - 0.5 * X[:, 0], X[:, 0] + 0.5 * X[:, 1])
        y = (scores > 0) ^ (rng.random(n) < flipped)
        parts.append(Part(X, y.astype(int), is_hard.astype(int)))
    return parts


def digits(seed: int) -> list[Part]:
    X, y = load_digits(return_X_y=True)
    everything = Part(X, y, y)
    train, others = train_test_split(np.arange(y.size), train_size=0.5, stratify=y, random_state=seed)
    choice, test = train_test_split(others, train_size=0.4, stratify=y[others], random_state=seed)
    rare = train[y[train] == RARE_DIGIT]
    left_out = np.random.default_rng(seed).permutation(rare)[round(RARE_KEPT * rare.size) :]
    return [everything.of(places) for places in (np.setdiff1d(train, left_out), choice, test)]


SETS: dict[str, Callable[[int], list[Part]]] = {
    "generated": generated,
    "noisy": partial(generated, flipped=FLIPPED),
    "digits": digits,
}


def batches(n: int, seed: int):
    """Yield batches of row numbers without end, from one permutation of the rows after the other."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(n, generator=generator)[: n - n % BATCH].split(BATCH)


def focal(losses: Tensor) -> Tensor:
    return ((1.0 - torch.exp(-losses)) ** FOCUS * losses).mean()


def train(part: Part, n_classes: int, method: str, share: float | None, seed: int, n_steps: int) -> nn.Module:
    torch.manual_seed(seed)
    X, y = torch.tensor(part.X, dtype=torch.float32), torch.tensor(part.y)
    sizes = (X.shape[1], WIDTH, WIDTH)
    hidden = [layer for pair in pairwise(sizes) for layer in (nn.Linear(*pair), nn.ReLU())]
    model = nn.Sequential(*hidden, nn.Linear(WIDTH, n_classes))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, fused=True)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 - step / n_steps)
    weight = schedule = None
    aggregate: Callable[[Tensor], Tensor] = torch.mean
    if method in TOP:
        aggregate = AverageTopKLoss(share, scope="batch" if method == TOP[0] else "dataset")
        schedule = KSchedule(aggregate, steps=n_steps // 2) if method == TOP[2] else None
    elif method == PLAIN[1]:
        weight = y.numel() / (n_classes * torch.bincount(y, minlength=n_classes))
    elif method == PLAIN[2]:
        aggregate = focal
    for drawn in islice(batches(y.numel(), seed), n_steps):
        optimizer.zero_grad()
        aggregate(cross_entropy(model(X[drawn]), y[drawn], weight, reduction="none")).backward()
        optimizer.step()
        falling.step()
        if schedule is not None:
            schedule.step()
    return model


@torch.no_grad()
def measured(model: nn.Module, part: Part) -> np.ndarray:
    scores, y = model(torch.tensor(part.X, dtype=torch.float32)), torch.tensor(part.y)
    wrong = (scores.argmax(1) != y).numpy()
    of_groups = [wrong[part.group == group].mean() for group in np.unique(part.group)]
    losses = cross_entropy(scores, y, reduction="none").double().numpy()
    return np.array([wrong.mean(), max(of_groups), average_top_k(losses, WORST)])


def one_seed(name: str, seed: int, shares: tuple[float, ...], n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of the table on the test part for each method, and the shares chosen, of those in TOP."""
    torch.set_num_threads(1)
    parts = SETS[name](seed)
    scaler = StandardScaler().fit(parts[0].X)
    part, choice, test = (Part(scaler.transform(some.X), some.y, some.group) for some in parts)
    n_classes = int(part.y.max()) + 1

    def judged(method: str, share: float | None = None) -> tuple[np.ndarray, np.ndarray]:
        model = train(part, n_classes, method, share, seed, n_steps)
        return measured(model, choice), measured(model, test)

    rows = [judged(method)[1][JUDGES] for method in PLAIN]
    chosen = []
    from_the_mean = shares[::-1]  # among equals, the one next to the mean
    for method in TOP:
        on_choice, on_test = np.array([judged(method, share) for share in from_the_mean]).swapaxes(0, 1)
        best = on_choice.argmin(0)[CHOOSES]
        rows.append(on_test[best, JUDGES])
        chosen.append(np.array(from_the_mean)[best])
    return np.array(rows), np.array(chosen)


def standard_error(values: np.ndarray) -> np.ndarray:
    return values.std(0, ddof=1) / np.sqrt(len(values))


def table(name: str, found: np.ndarray, chosen: np.ndarray) -> None:
    """Print the table of what was found, of shape (n_seeds, n_methods, n_columns), and the shares that were chosen."""
    found = found * np.where(IN_PERCENT, 100.0, 1.0)
    leads = found - found[:, :1]
    print(f"\n| {name} | " + " | ".join(COLUMNS) + " |\n" + "|---" * (1 + len(COLUMNS)) + "|")
    for row, method in enumerate(PLAIN + TOP):
        cells = []
        for column, percent in enumerate(IN_PERCENT):
            places = 2 if percent else 3
            values, lead = found[:, row, column], leads[:, row, column]
            cell = f"{values.mean():.{places}f} ± {standard_error(values):.{places}f}"
            if row > 0:
                difference = f"{lead.mean():+.{places}f} ± {standard_error(lead):.{places}f}"
                is_clear = abs(lead.mean()) > 2.0 * standard_error(lead)
                cell += f", **{difference}**" if is_clear else f", {difference}"
            cells.append(cell)
        print(f"| {method} | " + " | ".join(cells) + " |")
    shares = ["; ".join(f"{share:.2f}" for share in row) for row in chosen.mean(0)]
    print("\nShares chosen, mean by column: " + ", ".join(f"{m} {s}" for m, s in zip(TOP, shares, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seeds, two shares, few steps")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    options = parser.parse_args()
    n_seeds = 2 if options.quick else options.seeds
    setting = (QUICK_SHARES, QUICK_STEPS) if options.quick else (SHARES, N_STEPS)
    for name in options.sets:
        begin = time.perf_counter()
        runs = Parallel(options.jobs)(delayed(one_seed)(name, seed, *setting) for seed in range(n_seeds))
        found, chosen = (np.array(part) for part in zip(*runs, strict=True))
        table(name, found, chosen)
        print(f"({n_seeds} seeds, {setting[1]} steps, {time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
