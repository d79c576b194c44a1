"""What a choice of k saw: the worst tenth of the errors against the price in RMSE."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from atklearn import ATkRegressorCV, KCurveDisplay
from atklearn.datasets import make_deliveries

table = make_deliveries(random_state=0)
bike = table["vehicle"] == "bike"
X = np.column_stack([table["distance_km"], table["climb_m"], bike])
model = ATkRegressorCV(ks=12, tail=0.1, at_most=0.05).fit((X - X.mean(axis=0)) / X.std(axis=0), table["minutes"])

_, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
KCurveDisplay.from_estimator(model, ax=axes)
