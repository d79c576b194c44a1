"""Figure 1 of the paper: outliers with a rare group above, with a rare class below; log loss left, hinge right."""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from toy_planes import ATK, AVERAGE, MAXIMUM, NEGATIVE, draw_errors, draw_plane, fits_of_all_k

from atklearn.datasets import bayes_boundary, make_toy

figure, axes = plt.subplots(2, 4, figsize=(10.5, 5.4), layout="constrained")
for row, case in zip(axes, (4, 6), strict=True):
    X, y = make_toy(case, random_state=3)
    for (plane, curve), loss in zip((row[:2], row[2:]), ("log_loss", "hinge"), strict=True):
        weights, intercepts, errors = fits_of_all_k(X, y, loss)
        draw_plane(plane, X, y, weights, intercepts, shown_k=10, bayes=bayes_boundary(case))
        draw_errors(curve, errors, shown_k=10)
        plane.set_title(f"case {case}, {loss.replace('_', ' ')}")
        curve.set_title("error against k, %")
handles = [
    Line2D([], [], color=AVERAGE, linestyle="--", label="average"),
    Line2D([], [], color=ATK, label="AT_k, k = 10"),
    Patch(color=MAXIMUM, alpha=0.2, label="k too small: w = 0, the maximum (k = 1) too"),
    Patch(color=NEGATIVE, alpha=0.08, label="negative by Bayes"),
]
figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
