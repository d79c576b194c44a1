"""
The same optimum on a cluster
=============================

The rows lie in blocks on several machines. A common shortcut is to fit every block by itself and to average the
models. That is not the model of all rows, least of all when the largest losses live in a few blocks. How far off is
it, and what do fits of Dask collections do instead?
"""

# %%
# The data
# --------
#
# Eight regions, a block of 5000 rows each. What is to be predicted depends on the features in another way in the last
# two, and nobody has told the model.

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from atklearn import ATkRegressor, average_top_k
from atklearn.dask import DaskChunks

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
AVERAGE, ATK, OTHER, ANOTHER = "#B5568F", "#009E73", "#0072B2", "#C98A00"

rng = np.random.default_rng(0)
n_blocks, n_rows = 8, 5000
blocks, targets = [], []
for region in range(n_blocks):
    coef = [1.0, 1.0, 1.0, -1.0, 0.5] if region < 6 else [3.0, -1.0, 1.0, -1.0, 2.5]
    blocks.append(rng.standard_normal((n_rows, 5)))
    targets.append(blocks[-1] @ coef + rng.standard_normal(n_rows))

# %%
# In memory, as the reference
# ---------------------------
#
# Here the rows fit into memory, so that the answer is known: the smallest mean of the largest tenth of the squared
# errors.

X, y, k, C = np.concatenate(blocks), np.concatenate(targets), 0.1, 1000.0
in_memory = ATkRegressor(k=k, C=C, tol=1e-10).fit(X, y)


def objective(coef, intercept):
    """Return the mean of the largest tenth of the squared errors, and the penalty."""
    return average_top_k((y - X @ coef - intercept) ** 2, k) + coef @ coef / (2 * C)


# %%
# Block by block
# --------------

parts = [ATkRegressor(k=k, C=C).fit(rows, target) for rows, target in zip(blocks, targets, strict=True)]
mean_coef = np.mean([part.coef_ for part in parts], axis=0)
mean_intercept = np.mean([part.intercept_ for part in parts])

# %%
# On a cluster
# ------------
#
# A small one, in this process; an address in the place of ``cluster`` is a large one. Rows stay where they are, and
# sums travel: the threshold that separates the largest tenth is that of all rows.

with (
    LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
    Client(cluster) as client,
):
    X_spread = da.from_array(X, chunks=(n_rows, 5)).persist()
    y_spread = da.from_array(y, chunks=n_rows).persist()
    model = ATkRegressor(k=k, C=C).fit(DaskChunks(X_spread, client=client), y_spread)
    weights = model.top_weights_.compute().reshape(n_blocks, n_rows).sum(axis=1)

ways = {
    "first block alone": (parts[0].coef_, parts[0].intercept_),
    "mean of the blocks' models": (mean_coef, mean_intercept),
    "cluster": (model.coef_, model.intercept_),
}
excess = {name: objective(*found) / in_memory.objective_ - 1 for name, found in ways.items()}
for name, part in excess.items():
    print(f"{name:28}{100 * part:12.6f} % above the optimum")
print(f"certificate of the cluster's fit: at most {100 * model.dual_gap_ / model.objective_:.6f} %")
print(f"coefficients: at most {abs(model.coef_ - in_memory.coef_).max():.0e} from those in memory")
print(f"passes over the rows: {model.n_passes_}")

# %%
# How far off, and why
# --------------------
#
# To the left, what each way is above the optimum, and the bound that the fit on the cluster has proved for itself. To
# the right, the weight of each block in the average top-k: two of eight have half of it. Fits of single blocks cannot
# know.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.9), layout="constrained", width_ratios=[1.25, 1])
names = ["first block\nalone", "mean of\nthe blocks'\nmodels", "cluster"]
values = [100 * max(part, 1e-12) for part in excess.values()]
left.hlines(range(3), 1e-8, values, color="0.8", linewidth=1.5)
left.scatter(values, range(3), s=90, color=[ANOTHER, OTHER, ATK], zorder=2)
left.scatter(100 * model.dual_gap_ / model.objective_, 2, marker="|", s=300, color="black", zorder=3)
left.annotate("certificate", (100 * model.dual_gap_ / model.objective_, 2), xytext=(0, 12), textcoords="offset points")
left.set(
    xscale="log", xlim=(1e-8, 1e3), yticks=range(3), yticklabels=names, xlabel="above the optimum (%)", ylim=(2.5, -0.5)
)
right.bar(range(1, n_blocks + 1), 100 * weights, color=ATK, label="AT_k")
right.axhline(100 / n_blocks, color=AVERAGE, linestyle="--", linewidth=2, label="average")
right.set(xlabel="block", ylabel="weight (%)", xticks=range(1, n_blocks + 1))
right.legend(loc="upper left", frameon=False)
plt.show()

# %%
# What it costs: on as many threads a fit in blocks takes two to three times as long as one in memory, and on data as
# small as these much longer, since every question to a cluster takes some milliseconds. Use it when the rows do not
# fit.
