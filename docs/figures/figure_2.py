"""Figure 2 of the paper: AT_k shifts the loss of a sample down by lambda, and cuts it off at zero."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from toy_planes import ATK, AVERAGE

from atklearn import Hinge, LogLoss

margin = np.linspace(-1.5, 2.5, 400)
figure, both = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained", sharey=True)
for axes, loss, name in zip(both, (LogLoss(), Hinge()), ("log loss", "hinge"), strict=True):
    values = np.maximum(loss.expand(margin, np.ones_like(margin))[0], 0.0)
    axes.axvspan(0.0, 2.5, color="0.93", linewidth=0)
    axes.plot(margin, (margin <= 0).astype(float), color="0.45", linewidth=1.2, label="error: 1 or 0")
    axes.plot(margin, values, "--", color=AVERAGE, label="the loss")
    for lam, strength in ((0.25, 0.55), (0.5, 1.0)):
        label = rf"[loss $-\ \lambda$]$_+$, $\lambda$ = {lam}"
        axes.plot(margin, np.maximum(values - lam, 0.0), color=ATK, alpha=strength, label=label)
    axes.set(title=name, xlabel="y f(x): right of zero, the label is right", ylim=(-0.05, 2.3), xlim=(-1.5, 2.5))
both[0].legend(frameon=False)
