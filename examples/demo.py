"""Compare the maximum, the average and the average top-k loss on the paper's fourth toy case.

The positive class has a rare group (10 of 100 samples) near the boundary and one outlier. The average loss gives the
rare group up, the maximum loss is at the mercy of the outlier, the average top-k loss keeps the group.

Prints a table and saves a picture. Usage: python examples/demo.py [PICTURE]
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from atklearn import ATkClassifier, CollapseWarning
from atklearn.datasets import make_toy

AGGREGATES = {"maximum": "max", "average": 1.0, "AT_k, k = 10": 10}
STYLES = {"maximum": ("tab:orange", ":"), "average": ("tab:purple", "--"), "AT_k, k = 10": ("tab:green", "-")}


def fit(X: np.ndarray, y: np.ndarray, k: float | str) -> ATkClassifier:
    """Fit as the paper does: log loss, C = 100, the intercept penalised like the weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the table says so
        return ATkClassifier("log_loss", k=k, C=100.0, penalize_intercept=True).fit(X, y)


def error(model: ATkClassifier, X: np.ndarray, y: np.ndarray) -> float:
    """Return the misclassification rate in percent."""
    return 100.0 * (1.0 - model.score(X, y))


def print_table(models: dict[str, ATkClassifier], X: np.ndarray, y: np.ndarray) -> None:
    """Print the error of each model on all new data, on the common and on the rare group."""
    common, rare = np.r_[0:90, 100:200], np.r_[90:100]
    print(f"{'aggregate':<14}{'error %':>9}{'common':>9}{'rare':>9}{'objective':>12}{'gap':>9}  weights")
    for name, model in models.items():
        errors = [error(model, X[rows], y[rows]) for rows in (slice(None), common, rare)]
        weights = "w = 0: collapsed" if not model.coef_.any() else np.round(model.coef_[0], 2)
        print(
            f"{name:<14}{errors[0]:>9.1f}{errors[1]:>9.1f}{errors[2]:>9.1f}"
            f"{model.objective_:>12.4f}{model.dual_gap_:>9.0e}  {weights}"
        )


def draw(models: dict[str, ATkClassifier], X: np.ndarray, y: np.ndarray, path: Path) -> None:
    """Draw the boundaries and the training error against k."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
    left.scatter(*X[y > 0].T, marker="+", color="tab:red", s=22, linewidth=0.9)
    left.scatter(*X[y < 0].T, marker="o", facecolor="none", edgecolor="tab:blue", s=14, linewidth=0.8)
    left.scatter(*X[0], marker="x", color="tab:red", s=90, linewidth=2)
    left.annotate("outlier", X[0], textcoords="offset points", xytext=(8, 4))
    left.annotate("rare group", (0.66, 1.22), ha="right")
    across = np.linspace(-1.0, 3.0, 2)
    for name, model in models.items():
        (a, b), c = model.coef_[0], model.intercept_[0]
        colour, line = STYLES[name]
        if b == 0.0:
            left.plot([], [], line, color=colour, label=f"{name}: w = 0")
        else:
            left.plot(across, -(a * across + c) / b, line, color=colour, label=name, linewidth=1.8)
    left.set(xlim=(-0.8, 2.9), ylim=(-0.8, 2.9), aspect="equal", title="Decision boundaries")
    figure.legend(loc="outside lower center", ncols=3, frameon=False)

    ks = np.arange(1, len(y) + 1)
    fits = [fit(X, y, k / len(y)) for k in ks]
    errors = np.array([error(model, X, y) for model in fits])
    sound = np.array([model.coef_.any() for model in fits])
    right.axvspan(0.9, ks[sound][0] - 0.5, color="tab:orange", alpha=0.2, linewidth=0)
    right.text(2.0, 1.9, "k too small:\nw = 0", ha="center")
    right.plot(ks[sound], errors[sound], color="tab:green", drawstyle="steps-mid")
    right.plot(10, errors[9], "o", color="tab:green")
    right.annotate("k = 10", (10, errors[9]), textcoords="offset points", xytext=(0, -14), ha="center")
    right.plot(len(y), errors[-1], "s", color="tab:purple")
    right.annotate("average", (len(y), errors[-1]), textcoords="offset points", xytext=(4, 8), ha="right")
    right.set(xscale="log", xlim=(0.9, 260), ylim=(0, 4), xlabel="k", title="Training error against k, %")
    figure.savefig(path, dpi=160)


def main(path: Path) -> None:
    """Run the comparison."""
    X, y = make_toy(4, random_state=0)
    X_new, y_new = make_toy(3, random_state=1)  # the same groups, fresh, without the outlier
    models = {name: fit(X, y, k) for name, k in AGGREGATES.items()}
    print("Toy case 4: two classes, a rare group of 10 in 200, one outlier. Errors on fresh data:\n")
    print_table(models, X_new, y_new)
    path.parent.mkdir(parents=True, exist_ok=True)
    draw(models, X, y, path)
    print(f"\nPicture saved to {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/demo.png"))
