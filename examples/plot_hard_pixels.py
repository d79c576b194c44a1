"""
Hard pixels: thin structures in noise
=====================================

A network that segments thin lines sees a background of easy pixels and few that matter. With the mean of all pixel
losses it learns the background first. Taking the mean of the hardest pixels of every batch is known as hard pixel
mining, and it is one line.
"""

# %%
# The data
# --------
#
# Images with three curves, one pixel wide, in noise. The two outermost pixels have no known class: their target is
# 255, which both losses leave out.

import math

import matplotlib.pyplot as plt
import torch
from torch import nn

from atklearn.torch import wrap

plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
AVERAGE, ATK, OTHER = "#B5568F", "#009E73", "#0072B2"
SIZE, UNKNOWN = 40, 255


def images(n, seed):
    """Return noisy images of three curves, and the class of every pixel."""
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(SIZE) / SIZE
    target = torch.zeros(n, SIZE, SIZE, dtype=torch.long)
    for down in (False, True, False):
        centre, swing, waves, start = torch.rand(4, n, 1, generator=generator)
        curve = 0.15 + 0.7 * centre + 0.3 * (swing - 0.5) * torch.sin(2 * math.pi * ((1 + waves) * place + start))
        at = (SIZE * curve).long().clamp(0, SIZE - 1)
        target.scatter_(2, at[:, :, None], 1) if down else target.scatter_(1, at[:, None, :], 1)
    image = 0.9 * target + 0.35 * torch.randn(target.shape, generator=generator)
    inside = torch.zeros(SIZE, SIZE, dtype=torch.bool)
    inside[2:-2, 2:-2] = True
    return image[:, None], target.where(inside, UNKNOWN)


X, y = images(200, seed=0)
X_new, y_new = images(40, seed=1)
known = y_new != UNKNOWN
print(f"{(y_new[known] == 1).float().mean():.1%} of the pixels are on a curve")

# %%
# Three losses
# ------------
#
# The mean; the mean with a class weight of five for the curves, which is what one would try first; and the mean of the
# hardest 15 % of the pixels of every batch.

losses = {
    "mean": nn.CrossEntropyLoss(ignore_index=UNKNOWN),
    "class weight": nn.CrossEntropyLoss(weight=torch.tensor([1.0, 5.0]), ignore_index=UNKNOWN),
    "AT_k": wrap(nn.CrossEntropyLoss(), 0.15, ignore_index=UNKNOWN),
}

# %%
# The same small network, the same batches, 200 steps for each. After every 25 steps we note the overlap of what is
# found with what is there (intersection over union) on new images.

torch.set_num_threads(1)  # the network is tiny: threads would wait for each other


def found_by(network):
    """Return the pixels of new images that a network takes for curves."""
    with torch.no_grad():
        return (network(X_new).argmax(1) == 1) & known


overlaps, early, found = {}, {}, {}
for name, loss in losses.items():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 8, 5, padding=2), nn.ReLU(), nn.Conv2d(8, 2, 1)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.005)
    overlaps[name] = []
    for step in range(1, 201):
        batch = torch.randint(len(y), (8,))
        optimizer.zero_grad()
        loss(network(X[batch]), y[batch]).backward()
        optimizer.step()
        if step % 25 == 0:
            ours, truth = found_by(network), y_new == 1
            overlaps[name].append(((ours & truth).sum() / (ours | truth).sum()).item())
        if step == 75:
            early[name] = found_by(network)
    found[name] = found_by(network)

print(f"{'':14}{'overlap, %':>12}{'of the curves found, %':>24}{'of the found right, %':>23}")
truth = y_new == 1
for name, ours in found.items():
    hit = (ours & truth).sum()
    print(f"{name:14}{100 * overlaps[name][-1]:12.0f}{100 * hit / truth.sum():24.0f}{100 * hit / ours.sum():23.0f}")

# %%
# What they find
# --------------
#
# Two new images, and what is found after 75 of the 200 steps, when the difference is easiest to see.

figure, axes = plt.subplots(2, 4, figsize=(8.4, 4.6), layout="constrained")
for row, number in enumerate((8, 12)):
    pictures = {"image": X_new[number, 0], "truth": truth[number]}
    pictures |= {name: early[name][number] for name in ("mean", "AT_k")}
    for ax, (name, picture) in zip(axes[row], pictures.items(), strict=True):
        ax.imshow(picture[2:-2, 2:-2].numpy(), cmap="gray_r", interpolation="nearest")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set(visible=True, color="0.8")
        if row == 0:
            ax.set_title(name, color={"mean": AVERAGE, "AT_k": ATK}.get(name, "black"))
plt.show()

# %%
# And when
# --------
#
# The mean first says background everywhere, then it catches up, most of the way. The class weight is quick as well, and
# stays behind because it paints the curves too thick: a quarter of what it finds is background.

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
steps = range(25, 201, 25)
for name, colour, line in (("AT_k", ATK, "-"), ("class weight", OTHER, "-."), ("mean", AVERAGE, "--")):
    ax.plot(steps, overlaps[name], line, color=colour, linewidth=2, label=name)
ax.set(xlabel="steps", ylabel="overlap on new images", ylim=(0, 1), xlim=(0, 200))
ax.legend(loc="upper left", frameon=False, ncols=3)
plt.show()

# %%
# With a k below the share of the curves training may fail altogether: the largest losses of an untrained network say
# little. :class:`atklearn.torch.KSchedule` starts from the mean and lowers k. And where pixels are labelled wrongly,
# the hardest are the wrong ones: then do not mine them.
