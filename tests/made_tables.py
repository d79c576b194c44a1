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


def messy_table(n=800, seed=0):
    """Return a table as people have them, all text as a German spreadsheet writes it, and its clean columns.

    The classes depend on price, share, weight and whether there is a club card.
    """
    rng = np.random.default_rng(seed)
    price, share = rng.gamma(2.0, 900.0, n).round(2), rng.uniform(0.0, 100.0, n).round(1)
    weight, card, age = rng.normal(70.0, 12.0, n).round(2), rng.random(n) < 0.4, rng.integers(18, 90, n)
    signal = (price - 1800.0) / 1270.0 + (share - 50.0) / 29.0 - (weight - 70.0) / 12.0 + 1.5 * card
    stays = signal + 1.2 * rng.logistic(size=n) > 0.5
    days = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    words = np.array(
        ["gut", "schlecht", "schnell", "Lieferung", "passt", "Farbe", "wieder", "gern", "nie", "Frage", "Anruf"]
    )
    clean = pd.DataFrame({"price": price, "share": share, "weight": weight, "card": card.astype(float), "age": age})
    messy = pd.DataFrame(
        {
            "": np.arange(n),
            "Kunden-Nr": rng.permutation(10 * n)[:n] + 100_000,
            "token": [f"{value:08x}" for value in rng.permutation(10**6)[:n]],
            "Größe €": [_german(value) + " €" for value in price],
            "Anteil": [f"{value:.1f} %".replace(".", ",") for value in share],
            "Gewicht": [_german(value) for value in weight],
            "Klubkarte": card,
            "Alter": age.astype(object),
            "Beginn": days.strftime("%Y-%m-%d"),
            "Anmerkung": [" ".join(rng.choice(words, rng.integers(4, 12))) for _ in range(n)],
            "PLZ": [f"{value:05d}" for value in rng.choice([1067, 20095, 50667, 80331, 4109], n)],
            "Land": "DE",
            "leer": "",
            "Gewicht (kg)": [_german(value) for value in weight],
            "gekündigt am": np.where(stays, "", (days + pd.Timedelta(days=400)).strftime("%Y-%m-%d")),
            "bleibt": np.where(stays, "ja", "nein"),
        }
    )
    messy.loc[rng.choice(n, 9, replace=False), "Alter"] = "inf"
    messy.loc[rng.choice(n, 25, replace=False), "Größe €"] = "-"
    messy.loc[rng.choice(n, 12, replace=False), "bleibt"] = ""
    clean["price"] = clean["price"].where(messy["Größe €"] != "-")
    clean["age"] = clean["age"].where(messy["Alter"] != "inf")
    return messy, clean


def _german(value):
    """Return 1234.5 as '1.234,50'."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))
