"""Copies of the paper's data sets on OpenML, and how each becomes X and y.

The copies are read without pandas. OpenML then gives a nominal feature as positions in its list of categories: they
are turned back into what the categories say.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml

from atklearn.losses.individual import Array

__all__ = ["OPENML_COPIES", "OpenMLCopy"]

Converter = Callable[[Any], tuple[Array, Array]]

_MADELON_START = (485.0, 477.0, 537.0, 479.0, 452.0)


@dataclass(frozen=True)
class OpenMLCopy:
    """A data set on OpenML.

    Parameters
    ----------
    data_id : int
    convert : callable
        Takes what ``fetch_openml`` returns, gives X and y.
    note : str, default=""
        In what the features differ from those of the files, if they do.
    """

    data_id: int
    convert: Converter
    note: str = ""

    def fetch(self) -> Any:
        """Return the data as OpenML has it, from scikit-learn's cache or the network."""
        with warnings.catch_warnings():
            # Said of every attempt; if all of them fail, the error says it.
            warnings.filterwarnings("ignore", message="A network error occurred")
            return fetch_openml(data_id=self.data_id, as_frame=False, parser="liac-arff")

    def __str__(self) -> str:
        return f"OpenML {self.data_id}" + (f" ({self.note})" if self.note else "")


def _features(copy: Any, codes: Mapping[str, float] | None = None) -> Array:
    """Return X; a category becomes its code, or without codes the number it spells, and NaN where it has no code."""
    X: Array = np.array(copy.data, dtype=np.float64)
    for column, name in enumerate(copy.feature_names):
        if name in copy.categories:
            spelled = [float(c) if codes is None else codes.get(c, np.nan) for c in copy.categories[name]]
            position = np.where(np.isfinite(X[:, column]), X[:, column], -1.0).astype(np.intp)
            X[:, column] = np.array([*spelled, np.nan])[position]  # a missing value takes the last, NaN
    return X


def _regression(copy: Any, codes: Mapping[str, float] | None = None) -> tuple[Array, Array]:
    return _features(copy, codes), np.asarray(copy.target).astype(np.float64)


def _binary(copy: Any, positive: str) -> tuple[Array, Array]:
    return _features(copy), np.where(np.asarray(copy.target).astype(str) == positive, 1.0, -1.0)


def _madelon(copy: Any) -> tuple[Array, Array]:
    """Return X and y, the class of the first row being -1: as many are labelled 1 as 2, so that counts cannot tell."""
    X = _features(copy)
    if tuple(X[0, :5]) != _MADELON_START:
        raise ValueError(f"the first row is expected to begin with {_MADELON_START}, found {tuple(X[0, :5].tolist())}")
    return X, np.where(np.asarray(copy.target) == copy.target[0], -1.0, 1.0)


def _splice(copy: Any) -> tuple[Array, Array]:
    """Return X and y with the bases as numbers, without the rows that have an ambiguous base; +1 is no junction."""
    bases = [column for column, name in enumerate(copy.feature_names) if name.lower() != "instance_name"]
    X = _features(copy, {"A": 1.0, "G": 2.0, "C": 3.0, "T": 4.0})[:, bases]
    y = np.where(np.char.strip(np.asarray(copy.target).astype(str)) == "N", 1.0, -1.0)
    known = np.isfinite(X).all(axis=1)
    return X[known], y[known]


OPENML_COPIES: Mapping[str, OpenMLCopy] = {
    "australian": OpenMLCopy(40981, partial(_binary, positive="1")),
    "madelon": OpenMLCopy(1485, _madelon),
    "splice": OpenMLCopy(46, _splice),
    "spambase": OpenMLCopy(44, partial(_binary, positive="1")),
    "phoneme": OpenMLCopy(1489, partial(_binary, positive="2"), note="features standardised"),
    "housing": OpenMLCopy(531, _regression),
    "abalone": OpenMLCopy(183, partial(_regression, codes={"M": 1.0, "F": 2.0, "I": 3.0})),
    "cpusmall": OpenMLCopy(227, _regression),
}
