"""
Boosted trees that mind the tail
================================

A bike-share station forecasts demand. A storm warning or a concert nearby sometimes changes everything, and mostly
nothing. The mean of the two is a forecast that is far off whenever it happens. How much of that can boosted trees
with AT_k take away, and at which price?
"""

# %%
# The data
# --------
#
# Demand is a smooth function of four features. On a fifth of the days there is a storm warning, on a fifth a concert;
# in one case out of five it comes to something, and demand falls or rises by 12. Nothing tells which days these are.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import cross_val_predict

from atklearn import ATkRegressor
from atklearn.boosting import ATkBoostingRegressor

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
AVERAGE, ATK, OTHER = "#B5568F", "#009E73", "#0072B2"


def days(n, seed):
    """Return features, demand, and whether something happened."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 4))
    sign = rng.choice([0, -1, 1], size=n, p=[0.6, 0.2, 0.2])  # nothing, storm warning, concert
    happens = (sign != 0) & (rng.random(n) < 0.2)
    usual = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    demand = 20 + usual + rng.standard_normal(n) + 12 * sign * happens
    return np.column_stack([X, sign == -1, sign == 1]), demand, happens


X, y, _ = days(2000, seed=0)
X_new, y_new, happens = days(10_000, seed=1)


def scores(predicted):
    """Return the RMSE and the mean of the worst tenth of the errors."""
    errors = np.sort(abs(y_new - predicted))
    return np.sqrt(np.mean(errors**2)), errors[-len(errors) // 10 :].mean()


# %%
# Along k
# -------
#
# The same trees, from the average (k = 1.0) down to the twentieth of the losses that are largest.

settings = {"n_estimators": 100, "num_leaves": 8, "random_state": 0}
ks = (1.0, 0.7, 0.4, 0.2, 0.1, 0.05)
models = {k: ATkBoostingRegressor(k=k, **settings).fit(X, y) for k in ks}
along_k = np.array([scores(models[k].predict(X_new)) for k in ks])

# %%
# What one would try first is to keep the average and to map its predictions f to a f + b for the sake of the tail, with
# what it says out of sample:

said = cross_val_predict(ATkBoostingRegressor(k=1.0, **settings), X, y, cv=5)
calibration = ATkRegressor(k=0.1).fit(said[:, None], y)
recalibrated = scores(calibration.predict(models[1.0].predict(X_new)[:, None]))

# %%
# And k with the number of rounds chosen by 5-fold cross-validation of the tail error, within the training rows:

chosen = ATkBoostingRegressor(scoring="tail_error", **settings).fit(X, y)
at_choice = scores(chosen.predict(X_new))

print(f"{'':24}{'RMSE':>6}{'worst tenth':>13}")
for k, (rmse, tail) in zip(ks, along_k, strict=True):
    print(f"{f'k = {k} n':24}{rmse:6.2f}{tail:13.2f}")
print(f"{'average, recalibrated':24}{recalibrated[0]:6.2f}{recalibrated[1]:13.2f}")
print(f"{f'chosen: {chosen.k_share_:g} n, {chosen.n_iter_} rounds':24}{at_choice[0]:6.2f}{at_choice[1]:13.2f}")

# %%
# A price list
# ------------
#
# To the left, every k buys tail with RMSE. To the right, what happened: the average stays close to the usual days;
# AT_k goes towards the middle of what may come, so that no day is far off, and many are a little.

figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 4), layout="constrained")
left.plot(*along_k.T, "-", color=ATK, linewidth=2, zorder=1)
left.scatter(*along_k[1:].T, color=ATK, s=40, label="AT_k")
left.scatter(*along_k[0], color=AVERAGE, marker="s", s=60, label="average")
left.scatter(*recalibrated, color=OTHER, marker="D", s=50, label="average, recalibrated")
left.scatter(*at_choice, facecolor="none", edgecolor="black", s=130, label="chosen by the tail")
for k, (rmse, tail) in zip(ks[1:], along_k[1:], strict=True):
    left.annotate(f"{k:g} n", (rmse, tail), xytext=(6, 4), textcoords="offset points")
left.set(xlabel="RMSE", ylabel="mean of the worst tenth", xlim=(3.3, 4.25), ylim=(7.5, 9.1))
left.legend(loc="lower left", frameon=False)

bins = np.linspace(-16, 16, 65)
for model, colour, name in ((models[1.0], AVERAGE, "average"), (models[0.1], ATK, "AT_k, k = 0.1 n")):
    off = y_new - model.predict(X_new)
    right.hist(off, bins, histtype="step", linewidth=2, color=colour, label=name)
right.set(yscale="log", xlabel="demand minus forecast", ylabel="days", ylim=(1, 6000))
right.legend(loc="upper center", frameon=False, ncols=2, handlelength=1.2, columnspacing=1)
plt.show()

# %%
# When it does not help
# ---------------------
#
# Had the surprises all gone one way, adding a constant to the average would have done as well. And where the largest
# errors are plain noise, there is nothing to take away: without warnings and concerts the average is best by both
# measures.

calm, calm_new = X[:, 4:].sum(axis=1) == 0, X_new[:, 4:].sum(axis=1) == 0
for k in (1.0, 0.1):
    model = ATkBoostingRegressor(k=k, **settings).fit(X[calm], y[calm])
    errors = np.sort(abs(y_new - model.predict(X_new))[calm_new])
    rmse, tail = np.sqrt(np.mean(errors**2)), errors[-len(errors) // 10 :].mean()
    print(f"calm days, k = {k} n: RMSE {rmse:.2f}, worst tenth {tail:.2f}")
