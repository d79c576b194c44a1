"""
Heavy tails: which loss, which k
================================

AT_k looks at the largest errors. Whether that is wise depends on what makes them large. Three kinds of noise, three
losses, every k: where small k wins, where the average does, and where neither of them should be used with squared
errors.
"""

# %%
# The experiment
# --------------
#
# A linear model with five coefficients and 200 rows, drawn 20 times. The noise is bounded (uniform), normal, or
# heavy-tailed (Student's t with two degrees of freedom, whose variance is infinite). What counts is how far the
# estimated coefficients are from the true ones.

import matplotlib.pyplot as plt
import numpy as np

from atklearn import ATkRegressor

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
AVERAGE, ATK, OTHER, ANOTHER = "#B5568F", "#009E73", "#0072B2", "#C98A00"

noises = {
    "bounded (uniform)": lambda rng: rng.uniform(-1.7, 1.7, 200),
    "normal": lambda rng: rng.standard_normal(200),
    "heavy-tailed (t, 2 d.f.)": lambda rng: rng.standard_t(2, 200),
}
losses = ("squared_error", "huber", "absolute_error")
ks = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
true_coef = np.ones(5)


def distances(noise, **parameters):
    """Return how far the coefficients are off, one number for each of 20 draws."""
    found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((200, 5))
        y = X @ true_coef + noise(rng)
        found.append(np.linalg.norm(ATkRegressor(C=1e4, **parameters).fit(X, y).coef_ - true_coef))
    return np.array(found)


curves = {
    (name, loss): [distances(noise, loss=loss, k=k).mean() for k in ks]
    for name, noise in noises.items()
    for loss in losses
}
trimmed = {name: distances(noise, k=1.0, trim=0.1).mean() for name, noise in noises.items()}

# %%
# The answer
# ----------

figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.9), sharey=True, layout="constrained")
styles = {
    "squared_error": (ATK, "-", "o", "squared error"),
    "huber": (OTHER, "-.", "D", "Huber"),
    "absolute_error": (ANOTHER, ":", "v", "absolute error"),
}
for ax, name in zip(axes, noises, strict=True):
    for loss, (colour, line, marker, label) in styles.items():
        ax.plot(ks, curves[name, loss], line, marker=marker, markersize=5, color=colour, linewidth=2, label=label)
    ax.plot(1.0, trimmed[name], "X", color="black", markersize=9, label="squared error, trimmed")
    ax.plot(1.0, curves[name, "squared_error"][-1], "s", color=AVERAGE, markersize=9, label="its average")
    ax.set(
        title=name, xscale="log", yscale="log", xlabel="k / n", xticks=[0.02, 0.1, 1], xticklabels=["0.02", "0.1", "1"]
    )
    ax.set(yticks=[0.1, 0.3, 1, 3], yticklabels=["0.1", "0.3", "1", "3"])
    ax.minorticks_off()
axes[0].set_ylabel("distance to the true coefficients")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# **Bounded noise.** The largest errors say most: they lie at the edge, and the edge is sharp. The smaller k the
# better, for every loss, down to Chebyshev regression.
#
# **Normal noise.** The average is best, of squared errors or of Huber's. A smaller k throws rows away and pays for it.
#
# **Heavy tails.** A small k with squared errors is the worst that can be done: it fits the accidents. The average is
# bad enough. A loss that grows more slowly helps, and then k near n; so does trimming, ``trim=0.1``.

print(f"{'':26}{'average':>9}{'AT_k, k = 0.1':>15}{'Huber':>8}{'absolute':>10}{'trimmed':>9}")
for name in noises:
    of = {loss: dict(zip(ks, curves[name, loss], strict=True)) for loss in losses}
    squared = of["squared_error"]
    print(f"{name:26}{squared[1.0]:9.2f}{squared[0.1]:15.2f}", end="")
    print(f"{of['huber'][1.0]:8.2f}{of['absolute_error'][1.0]:10.2f}{trimmed[name]:9.2f}")

# %%
# Nothing was wrong with any row here: no label was flipped, no sensor broke. Ask first what the large errors of your
# data are, then choose the loss, and k last.
