"""
A rare group on the wrong side
==============================

One sample in fifty belongs to a small group that lies apart from the rest of its class. Nobody has marked the group,
and a linear classifier that gets everybody else right looks good without it. Who notices?
"""

# %%
# The data
# --------
#
# Two classes of the same size, 300 rows each or so. A few rows of the positive class lie below the negative one. Which
# they are is used for the pictures and the scores, and never for a fit.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import TunedThresholdClassifierCV

from atklearn import ATkClassifier

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
AVERAGE, ATK, OTHER, ANOTHER = "#B5568F", "#009E73", "#0072B2", "#C98A00"


def two_classes(n, spread, seed):
    """Return points, classes, and who is of the rare group."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    rare = (y > 0) & (rng.random(n) < 0.06)
    X = np.where(y[:, None] > 0, [-1.0, 0.0], [1.0, 0.0]) + spread * rng.standard_normal((n, 2))
    X[rare] = [0.8, -0.9] + 0.2 * rng.standard_normal((rare.sum(), 2))
    return X, y, rare


X, y, rare = two_classes(600, 0.25, seed=0)
X_new, y_new, rare_new = two_classes(20_000, 0.25, seed=1)
print(f"{rare.sum()} of {len(y)} rows are of the rare group, {np.mean(y > 0):.0%} are positive")

# %%
# What one would try
# ------------------
#
# Class weights, a decision threshold tuned by cross-validation, a weaker penalty; and AT_k, the mean of the largest
# tenth of the losses.

models = {
    "average": ATkClassifier(k=1.0),
    "class weights": ATkClassifier(k=1.0, class_weight="balanced"),
    "tuned threshold": TunedThresholdClassifierCV(ATkClassifier(k=1.0), scoring="accuracy", cv=5),
    "weaker penalty": ATkClassifier(k=1.0, C=10.0 * len(y)),
    "AT_k": ATkClassifier(k=0.1),
}

print(f"{'error on new rows, %':22}{'all':>6}{'rare group':>12}{'the others':>12}")
for name, model in models.items():
    wrong = model.fit(X, y).predict(X_new) != y_new
    print(
        f"{name:22}{100 * wrong.mean():6.2f}{100 * wrong[rare_new].mean():12.1f}{100 * wrong[~rare_new].mean():12.2f}"
    )

# %%
# The average gives most of the group up. Class weights change next to nothing: the classes are of equal size, it is
# within one of them that some are few. A threshold moves the boundary, and cannot turn it. AT_k turns it: once the
# many are classified well, they leave the top tenth, and the few that are left have a say.
#
# A tenfold C does as well here. The group is sacrificed to the penalty on the weights, and 13 rows weigh little
# against it. If you tune C by a score that sees the group you may not need AT_k; it gets there at the usual penalty.
# Left to itself, ``ATkClassifier()`` takes k = 0.46 n and the tenfold C: the group is in the worst tenth of the losses.

# %%
# The boundaries
# --------------
#
# On the right, the size of each point is its weight in the fit by AT_k, ``top_weights_``. Most rows weigh nothing.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), sharex=True, sharey=True, layout="constrained")
lines = {"average": (AVERAGE, "--"), "tuned threshold": (OTHER, "-."), "AT_k": (ATK, "-")}
across, up = np.meshgrid(np.linspace(-2, 2, 200), np.linspace(-1.7, 1.2, 200))
for name, (colour, line) in lines.items():
    said = models[name].predict(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
    for ax in axes:
        ax.contour(across, up, said, levels=[0], colors=colour, linestyles=line, linewidths=2)
weights = models["AT_k"].top_weights_
for ax, size in zip(axes, (np.full(len(y), 14.0), 1300.0 * weights), strict=True):
    for group, colour, marker in ((y < 0, "0.6", "o"), ((y > 0) & ~rare, "0.25", "+"), (rare, ANOTHER, "D")):
        ax.scatter(*X[group].T, s=size[group], color=colour, marker=marker, linewidth=1)
    ax.set(xticks=[], yticks=[], aspect="equal")
axes[0].set_title("the data")
axes[1].set_title("what AT_k looks at")
handles = [plt.Line2D([], [], color=c, linestyle=s, linewidth=2, label=name) for name, (c, s) in lines.items()]
handles.append(plt.Line2D([], [], color=ANOTHER, marker="D", linestyle="", label="rare group"))
figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
plt.show()

# %%
# When it does not help
# ---------------------
#
# With wider clusters the classes overlap. Then the largest losses are those of the overlap, and AT_k listens to them
# before it listens to the group.

X, y, rare = two_classes(600, 0.4, seed=0)
X_new, y_new, rare_new = two_classes(20_000, 0.4, seed=1)
print(f"{'wider clusters, %':22}{'all':>6}{'rare group':>12}")
for name in ("average", "weaker penalty", "AT_k"):
    wrong = models[name].set_params(**({"k": 0.3} if name == "AT_k" else {})).fit(X, y).predict(X_new) != y_new
    print(f"{name:22}{100 * wrong.mean():6.2f}{100 * wrong[rare_new].mean():12.1f}")
