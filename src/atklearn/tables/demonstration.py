"""What is compared on if no table is named: a generated one, on which one can see what AT_k is for."""

from __future__ import annotations

from dataclasses import replace

from atklearn.datasets import make_deliveries
from atklearn.tables.tabular import TabularData, make_table

__all__ = ["DEMONSTRATED_SCORE", "demonstration_table"]

DEMONSTRATED_SCORE = "tail_error"


def demonstration_table() -> TabularData:
    """Return delivery times as a table: how late the latest are is what counts, and vehicles are what to report by.

    Examples
    --------
    >>> demonstration_table().features.columns.tolist()
    ['distance_km', 'climb_m']
    """
    made = make_table(make_deliveries(), "minutes", name="deliveries", group="vehicle")
    note = (
        "generated: most deliveries are by van or scooter, for which the climb hardly matters; some are by bike, for "
        "which it does, and the vehicle is not known when the time is to be said"
    )
    return replace(made, notes=[note])
