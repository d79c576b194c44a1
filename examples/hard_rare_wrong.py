"""Draw the paper's toy cases with an outlier (2, 4 and 6), with and without the largest loss set aside.

Each has one sample of the positive class in the midst of the negative one. ``trim=1`` sets the largest loss aside: it
is the outlier's, and from then on a small k, which would have listened to nothing else, is as good as a larger one.

Prints which k classify all samples but the outlier, and saves a picture.
Usage: python examples/hard_rare_wrong.py [PICTURE]
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

CASES = {2: "2: an outlier", 4: "4: and a rare group", 6: "6: and a rare class"}
KS = np.unique(np.geomspace(2, 200, 40).astype(int))
SHOWN = 3  # the k whose boundaries are drawn
GOOD = 0.6  # percent: the outlier alone is half a percent
STYLES = {"AT_k": ("tab:orange", ":"), "AT_k, trim = 1": ("tab:green", "-"), "average": ("tab:purple", "--")}


def fit(X: np.ndarray, y: np.ndarray, k: float, trim: int = 0) -> ATkClassifier:
    """Fit as the paper does: log loss, C = 100, the intercept penalised like the weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapseWarning)  # the picture says so
        return ATkClassifier("log_loss", k=k, trim=trim, C=100.0, penalize_intercept=True).fit(X, y)


def error(model: ATkClassifier, X: np.ndarray, y: np.ndarray) -> float:
    """Return the misclassification rate in percent."""
    return 100.0 * (1.0 - model.score(X, y))


def draw_boundaries(axes: plt.Axes, X: np.ndarray, y: np.ndarray, aside: np.ndarray) -> None:
    """Draw the samples, the one set aside, and the boundaries of three fits."""
    axes.scatter(*X[y > 0].T, marker="+", color="tab:red", s=22, linewidth=0.9)
    axes.scatter(*X[y < 0].T, marker="o", facecolor="none", edgecolor="tab:blue", s=14, linewidth=0.8)
    axes.scatter(*X[aside].T, marker="o", facecolor="none", edgecolor="black", s=110, linewidth=1.2)
    fits = (fit(X, y, SHOWN), fit(X, y, SHOWN, trim=1), fit(X, y, 1.0))
    across = np.linspace(-1.0, 3.2, 2)
    for name, model in zip(STYLES, fits, strict=True):
        (a, b), c = model.coef_[0], model.intercept_[0]
        if b != 0.0:
            colour, line = STYLES[name]
            axes.plot(across, -(a * across + c) / b, line, color=colour, linewidth=1.8)
    axes.set(xlim=(-0.8, 2.9), ylim=(-0.8, 2.9), aspect="equal", xticks=[], yticks=[])


def main(path: Path) -> None:
    """Fit all k, print which are good, draw."""
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, rows = plt.subplots(2, 3, figsize=(8.4, 5.2), layout="constrained", height_ratios=[1.5, 1.0])
    for (case, title), above, below in zip(CASES.items(), *rows, strict=True):
        X, y = make_toy(case, random_state=0)
        draw_boundaries(above, X, y, fit(X, y, SHOWN, trim=1).set_aside_)
        above.set_title(f"Case {title}")
        for trim, name in ((0, "AT_k"), (1, "AT_k, trim = 1")):
            errors = np.array([error(fit(X, y, int(k), trim), X, y) for k in KS])
            below.plot(KS, errors, STYLES[name][1], color=STYLES[name][0], linewidth=1.8)
            good = KS[errors <= GOOD]
            said = f"{good.size} of {KS.size} k are good" + (f", {good.min()} to {good.max()}" if good.size else "")
            print(f"case {case}, trim {trim}: {said}")
        below.plot(len(y), error(fit(X, y, 1.0), X, y), "s", color="tab:purple")
        below.set(xscale="log", ylim=(0, 4), xlabel="k", ylabel="training error, %" if case == 2 else "")
    handles = [plt.Line2D([], [], color=colour, linestyle=line, label=name) for name, (colour, line) in STYLES.items()]
    handles.append(plt.Line2D([], [], color="black", marker="o", fillstyle="none", linestyle="", label="set aside"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    print(f"\nPicture saved to {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out/hard-rare-wrong.png"))
