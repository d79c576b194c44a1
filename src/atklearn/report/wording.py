"""How names and numbers of the results are written for people."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["AGGREGATES", "LOSSES", "MEASURES", "WEIGHTS", "mean_and_spread", "number", "p_value"]

LOSSES = {
    "log_loss": "log loss",
    "hinge": "hinge",
    "squared_hinge": "squared hinge",
    "squared_error": "squared error",
    "absolute_error": "absolute error",
    "huber": "Huber",
    "chosen": "loss chosen",
}
AGGREGATES = {"maximum": "maximum", "average": "average", "atk": "AT_k"}
WEIGHTS = {"plain": "", "balanced": "balanced", "chosen": "weights chosen"}

# Name, factor for showing, digits.
MEASURES = {
    "error": ("error %", 100.0, 1),
    "balanced_error": ("balanced error %", 100.0, 1),
    "g_mean": ("G-mean %", 100.0, 1),
    "worst_class_error": ("worst class error %", 100.0, 1),
    "worst_group_error": ("worst group error %", 100.0, 1),
    "worst_group_rmse": ("worst group RMSE", 1.0, 4),
    "tail_loss": ("tail loss", 1.0, 2),
    "rmse": ("RMSE", 1.0, 4),
    "mae": ("MAE", 1.0, 4),
}


def number(value: float, measure: str, *, signed: bool = False) -> str:
    """Return a value of a measure as text.

    Examples
    --------
    >>> number(0.12345, "error"), number(-0.02, "error", signed=True), number(12345.678, "rmse")
    ('12.3', '-2.0', '12346')
    """
    _, factor, digits = MEASURES[measure]
    value = factor * value
    sign = "+" if signed else ""
    if factor == 1.0 and abs(value) >= 10.0:  # in units of the target: as many figures as matter
        digits = max(0, 5 - len(str(int(abs(value)))))
    return f"{value:{sign}.{digits}f}"


def mean_and_spread(values: Sequence[float], measure: str) -> str:
    """Return mean and standard deviation of a measure over splits, as ``20.1±2.3``."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return f"{number(float(np.mean(values)), measure)}±{number(spread, measure)}"


def p_value(value: float) -> str:
    """Return a p-value as text.

    Examples
    --------
    >>> p_value(0.0421), p_value(1e-9)
    ('p = 0.04', 'p < 0.001')
    """
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}" if value < 0.01 else f"p = {value:.2f}"
