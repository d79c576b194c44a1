"""What the figures of toy cases share: fits as the paper makes them, and how they are drawn."""

from __future__ import annotations

import numpy as np

from atklearn import atk_path

AVERAGE, MAXIMUM, ATK = "#6b4fa0", "#c8781e", "#1b7f5c"
POSITIVE, NEGATIVE = "#b2322f", "#2f6fb2"


def fits_of_all_k(X, y, loss):
    """Return the path over k = 1 ... n at C = 100, the intercept penalised like the weights, and its errors in %."""
    path = atk_path(X, y, ks=list(range(1, len(y) + 1)), Cs=[100.0], loss=loss, penalize_intercept=True, tol=1e-6)
    weights, intercepts = path.coefs.reshape(len(y), -1), path.intercepts.ravel()
    decisions = X @ weights.T + intercepts
    is_zero = ~weights.any(axis=1)
    errors = 100.0 * np.mean(np.where(decisions >= 0, 1.0, -1.0) != y[:, None], axis=0)
    return weights, intercepts, np.where(is_zero, np.nan, errors)


def draw_plane(axes, X, y, weights, intercepts, *, shown_k, bayes):
    """Draw the samples, the half-plane that Bayes would call negative, the boundaries of average, maximum and AT_k."""
    axes.scatter(*X[y > 0].T, marker="+", color=POSITIVE, s=22, linewidth=0.9)
    axes.scatter(*X[y < 0].T, marker="o", facecolor="none", edgecolor=NEGATIVE, s=14, linewidth=0.8)
    axes.scatter(*X[0], marker="x", color=POSITIVE, s=90, linewidth=2.2)  # the outlier
    low, high = X.min() - 0.35, X.max() + 0.35
    across = np.linspace(low, high, 2)
    a, b, c = bayes
    axes.fill_between(across, -(a * across + c) / b, high, color=NEGATIVE, alpha=0.08, linewidth=0)
    for k, colour, line in ((1, MAXIMUM, ":"), (len(y), AVERAGE, "--"), (shown_k, ATK, "-")):
        (a, b), c = weights[k - 1], intercepts[k - 1]
        if b:
            axes.plot(across, -(a * across + c) / b, line, color=colour, linewidth=1.8)
    axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")


def draw_errors(axes, errors, *, shown_k):
    """Draw the error against k, with the k that is shown in the plane and the average marked."""
    ks = np.arange(1, len(errors) + 1)
    collapsed = ks[np.isnan(errors)]
    if collapsed.size:
        axes.axvspan(0.9, collapsed.max() + 0.5, color=MAXIMUM, alpha=0.2, linewidth=0)
    axes.plot(ks, errors, color=ATK, drawstyle="steps-mid")
    axes.plot(shown_k, errors[shown_k - 1], "o", color=ATK)
    axes.plot(ks[-1], errors[-1], "s", color=AVERAGE)
    axes.set(xscale="log", xlim=(0.9, 260), ylim=(0, None), xlabel="k")
