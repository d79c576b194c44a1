"""Two classes with a rare group and an outlier: boundaries of average and AT_k, and the error against k."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from toy_planes import ATK, AVERAGE, draw_errors, draw_plane, fits_of_all_k

from atklearn.datasets import bayes_boundary, make_toy

SIZE = (4.4, 3.6)  # each a picture of its own, side by side where there is room

X, y = make_toy(4, random_state=0)
weights, intercepts, errors = fits_of_all_k(X, y, "log_loss")


def boundaries() -> None:
    """Draw the plane."""
    figure, plane = plt.subplots(figsize=SIZE, layout="constrained")
    draw_plane(plane, X, y, weights, intercepts, shown_k=10, bayes=bayes_boundary(4))
    plane.annotate("outlier", X[0], textcoords="offset points", xytext=(-10, 2), ha="right")
    plane.annotate("rare group", (0.62, 1.22), ha="right")
    plane.set_title("Where the boundary goes")
    lines = [Line2D([], [], color=AVERAGE, linestyle="--"), Line2D([], [], color=ATK)]
    figure.legend(lines, ["average", "AT_k, k = 10"], loc="outside lower center", ncols=2, frameon=False)


def errors_against_k() -> None:
    """Draw the error of every k."""
    _, curve = plt.subplots(figsize=SIZE, layout="constrained")
    draw_errors(curve, errors, shown_k=10)
    curve.text(2.1, 1.9, "k too small:\nw = 0", ha="center")
    curve.annotate("k = 10", (10, errors[9]), textcoords="offset points", xytext=(0, -14), ha="center")
    curve.annotate("average", (200, errors[-1]), textcoords="offset points", xytext=(4, 8), ha="right")
    curve.set(title="Error against k, %", ylim=(0, 4))
