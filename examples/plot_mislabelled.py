"""
Labels that are wrong
=====================

A fifth of the labels in a training set are wrong, and nobody knows which. AT_k listens to the largest losses, and wrong
labels have large losses. What does that do, and can the wrong rows be found instead?
"""

# %%
# The data
# --------
#
# Handwritten digits, which come with scikit-learn. Of the training rows a fifth get another digit's label, drawn at
# random. The test labels are right.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from atklearn import ATkClassifier

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
AVERAGE, ATK, OTHER, ANOTHER = "#B5568F", "#009E73", "#0072B2", "#C98A00"

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16.0, y, train_size=900, stratify=y, random_state=0)
rng = np.random.default_rng(0)
is_wrong = rng.permutation(len(y)) < len(y) // 5
label = np.where(is_wrong, (y + rng.integers(1, 10, len(y))) % 10, y)

# %%
# Listening to them, or setting them aside
# ----------------------------------------
#
# ``k=0.2`` takes the mean of the largest fifth of the losses; ``trim=0.2`` sets the largest fifth aside, and takes the
# mean of the others. The first is convex. The second is not: it is solved by turns, from several starts, and ends in a
# local minimum.

models = {
    "average": ATkClassifier(k=1.0),
    "AT_k, k = 0.2": ATkClassifier(k=0.2),
    "trimmed, trim = 0.2": ATkClassifier(k=1.0, trim=0.2),
}
on_wrong = {}
print(f"{'':22}{'test error, %':>14}{'weight on wrong labels, %':>28}")
for name, model in models.items():
    model.fit(X, label)
    weights = model.top_weights_ / model.top_weights_.sum(axis=0)  # one column per class
    on_wrong[name] = 100 * weights[is_wrong].sum(axis=0).mean()
    print(f"{name:22}{100 * (1 - model.score(X_new, y_new)):14.1f}{on_wrong[name]:28.1f}")

aside = models["trimmed, trim = 0.2"].set_aside_
print(f"set aside: {len(aside)} rows; {is_wrong[aside].sum()} of them are wrong, of {is_wrong.sum()} that are")

# %%
# AT_k alone is the worst of the three: it gives the wrong labels more weight than their share. Trimming gives them
# next to none, and names them.
#
# What was found
# --------------
#
# Every seventh row of ``set_aside_``, the largest loss first, with the label it came with. A framed one has the right
# label, and was set aside by mistake. To the right, the share of the weight that wrong labels have in each fit.

figure = plt.figure(figsize=(8, 4.6), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=[2.3, 1])
shown = aside[::7][:24]
for ax, row in zip(left.subplots(4, 6).flat, shown, strict=True):
    ax.imshow(X[row].reshape(8, 8), cmap="gray_r")
    ax.set_title(f"“{label[row]}”", fontsize=11, pad=2, color="black" if is_wrong[row] else ANOTHER)
    ax.set(xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set(visible=not is_wrong[row], color=ANOTHER, linewidth=3)
ax = right.subplots()
bars = ax.barh(["average", "AT_k", "trimmed"], on_wrong.values(), color=[AVERAGE, ATK, OTHER])
ax.bar_label(bars, fmt="%.0f %%", padding=3)
ax.axvline(20, color="0.5", linestyle=":")
ax.invert_yaxis()
ax.set(title="weight on\nwrong labels", xlim=(0, 36), xticks=[])
ax.spines["bottom"].set_visible(False)
plt.show()

# %%
# What it takes
# -------------
#
# The share of wrong labels was known here. If it is not, :func:`atklearn.choose_trim` chooses it by cross-validation
# on the noisy labels themselves. What happens around the true share:

print("trim   test error, %   wrong labels found, %")
for trim in (0.0, 0.1, 0.15, 0.2, 0.25):
    model = ATkClassifier(k=1.0, trim=trim).fit(X, label)
    found = 100 * is_wrong[model.set_aside_].sum() / is_wrong.sum()
    print(f"{trim:4.2f}{100 * (1 - model.score(X_new, y_new)):16.1f}{found:24.0f}")

# %%
# Too little is better than too much. With a quarter set aside nearly all wrong labels are found and the model is worse
# than the average: what goes with them are hard rows, and they are missed. Beyond that a fit warns that most of a
# class is gone.
#
# Ten classes help: a wrong label lands where it is alone. With two classes flipped at random, a linear model is pulled
# from both sides alike and there is little to win.
