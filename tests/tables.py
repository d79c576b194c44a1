"""A table of all kinds of columns, for the tests of reading and saving."""

from __future__ import annotations

import numpy as np
import pandas as pd


def mixed_table(n=240, seed=0):
    """Return a table of all kinds of columns, with missing values and a target that they tell."""
    rng = np.random.default_rng(seed)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D")
    frame = pd.DataFrame(
        {
            "number": rng.standard_normal(n).round(3),
            "whole": rng.integers(0, 50, n),
            "flag": rng.random(n) < 0.5,
            "town": rng.choice(["Ulm", "Bonn", "Köln"], n),
            "comment": [f"case {i} of {rng.choice(['wheat', 'rye', 'oats'])}" for i in rng.permutation(n)],
            "written": days.strftime("%d/%m/%Y"),
            "day": days,
        }
    )
    frame["rides"] = np.where(frame["number"] + 0.5 * rng.standard_normal(n) > 0.0, "many", "few")
    for column, row in [("number", 3), ("town", 5), ("comment", 7), ("written", 8), ("day", 9)]:
        frame.loc[row, column] = None
    return frame
