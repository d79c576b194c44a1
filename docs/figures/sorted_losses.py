"""Every aggregate is the mean of a slice of the sorted losses."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from toy_planes import ATK, AVERAGE, MAXIMUM

losses = np.sort(np.random.default_rng(3).gamma(0.9, 1.0, 40))[::-1]
k, m = 12, 3
slices = [
    ("maximum", 0, 1, MAXIMUM),
    ("average top-k", 0, k, ATK),
    ("average", 0, len(losses), AVERAGE),
    ("ranked range", m, k, "#8a5a44"),
]
figure, axes = plt.subplots(figsize=(8.4, 3.4), layout="constrained")
axes.bar(np.arange(len(losses)) + 0.5, losses, width=0.8, color=["#9bd0bb"] * k + ["0.85"] * (len(losses) - k))
for name, start, stop, colour in slices:
    mean = losses[start:stop].mean()
    axes.plot([start, stop], [mean, mean], color=colour, linewidth=2.4, solid_capstyle="butt")
    axes.annotate(f"{name} {mean:.2f}", (stop, mean), textcoords="offset points", xytext=(5, -3), color=colour)
axes.annotate(r"$\lambda$: the k-th largest", (k - 0.5, losses[k - 1]), textcoords="offset points", xytext=(120, 2),
              arrowprops={"arrowstyle": "-", "color": "0.5"})  # fmt: skip
axes.set(xlim=(0, len(losses)), xlabel="losses in descending order; k = 12, m = 3", ylabel="loss")
