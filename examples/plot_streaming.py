"""
Learning from a stream
======================

Rows arrive in blocks and are not kept. The stochastic algorithm of the paper learns the weights and the threshold
lambda together, one row at a time. How close does it come to the exact solver, which has all rows before it?
"""

# %%
# One pass
# --------
#
# Deliveries come in blocks of 500: how far and how high they went, and how long it took. ``partial_fit`` sees each
# block once. Beside AT_k with k = 0.2 runs the average. The features are brought to similar size by what is known of
# the town, since nobody has seen all rows.

import matplotlib.pyplot as plt
import numpy as np

from atklearn import ATkClassifier, ATkRegressor, SGDATkClassifier, SGDATkRegressor, average_top_k
from atklearn.datasets import make_deliveries

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
AVERAGE, ATK = "#B5568F", "#009E73"


def block(number):
    """Return the features and minutes of the next deliveries."""
    table = make_deliveries(500, random_state=number)
    return np.column_stack([table["distance_km"] / 2 - 2, table["climb_m"] / 30 - 2]), table["minutes"]


C, k = 1000.0, 0.2
streams = {"average": SGDATkRegressor(k=1.0, C=C, random_state=0), "AT_k": SGDATkRegressor(k=k, C=C, random_state=0)}
states = {name: [] for name in streams}
for number in range(60):
    for name, model in streams.items():
        model.partial_fit(*block(number))
        states[name].append((model.coef_.copy(), model.intercept_, model.loss_threshold_))

# %%
# The reference
# -------------
#
# The exact solver on all 30,000 rows at once gives the smallest objective there is, within ``dual_gap_``. Every state
# of the streams is measured by it, on all rows: the mean of the largest fifth of the squared errors, and the penalty.

X, y = (np.concatenate(parts) for parts in zip(*map(block, range(60)), strict=True))
exact = ATkRegressor(k=k, C=C).fit(X, y)


def objective(coef, intercept):
    """Return the mean of the largest fifth of the squared errors, and the penalty."""
    losses = (y - X @ coef - intercept) ** 2
    return average_top_k(losses, k) + coef @ coef / (2 * C)


curves = {name: np.array([objective(w, b) for w, b, _ in path]) for name, path in states.items()}
above = {name: 100 * (curve / exact.objective_ - 1) for name, curve in curves.items()}
print(f"smallest objective {exact.objective_:.3f}, to within {exact.dual_gap_:.0e}")
print(f"{'above it, %':12}" + "".join(f"{f'{n} rows':>13}" for n in (500, 1000, 5000, 30_000)))
for name, excess in above.items():
    print(f"{name:12}" + "".join(f"{excess[n]:13.2f}" for n in (0, 1, 9, 59)))

# %%
# How close it comes
# ------------------
#
# After some thousand rows the stream is within a percent of the optimum; what is left goes slowly. Lambda, the k-th
# largest loss, is learned along with the weights. The average converges, too, to something else.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.9), layout="constrained")
seen = 0.5 * np.arange(1, 61)
left.plot(seen, curves["average"], "--", color=AVERAGE, linewidth=2, label="average, streaming")
left.plot(seen, curves["AT_k"], "-", color=ATK, linewidth=2, label="AT_k, streaming")
left.axhline(exact.objective_, color="black", linestyle=":", linewidth=1.5, label="AT_k, exact")
left.set(xlabel="thousand rows seen", ylabel="AT_k objective, all rows", ylim=(37, 54))
left.legend(loc="upper right", frameon=False)
right.plot(seen, [threshold for *_, threshold in states["AT_k"]], "-", color=ATK, linewidth=2, label="AT_k, streaming")
right.axhline(exact.loss_threshold_, color="black", linestyle=":", linewidth=1.5, label="AT_k, exact")
right.set(xlabel="thousand rows seen", ylabel="lambda")
right.legend(loc="upper right", frameon=False)
plt.show()

# %%
# When it is slow
# ---------------
#
# Classes that are almost separable, with a weak penalty: the weights have a long way to go, and few rows have a loss to
# learn from. Then a pass is not enough. ``fit_blocks`` goes over the blocks several times, and where the rows fit
# into memory the exact solver is the better choice.

rng = np.random.default_rng(0)
label = np.where(rng.random(20_000) < 0.5, 1, -1)
points = label[:, None] + 0.35 * rng.standard_normal((20_000, 2))
best = ATkClassifier(k=k, C=C).fit(points, label)
for passes in (1, 5, 20):
    model = SGDATkClassifier(k=k, C=C, max_iter=passes, tol=None, random_state=0).fit(points, label)
    losses = np.logaddexp(0.0, -label * model.decision_function(points))
    value = average_top_k(losses, k) + (model.coef_**2).sum() / (2 * C)
    print(f"passes: {passes:2}, {100 * (value / best.objective_ - 1):.2f} % above the smallest objective")
