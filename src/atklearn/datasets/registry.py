"""The twelve data sets of the paper: what each must look like, and where it can come from.

OpenML is read without pandas. It then gives a nominal feature as positions in its list of categories: they are turned
back into what the categories say.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from atklearn.datasets.generated import make_monk, make_sinc, make_titanic
from atklearn.losses.individual import Array

__all__ = ["DATASETS", "DatasetEntry", "OpenMLCopy"]

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
    convert: Callable[[Bunch], tuple[Array, Array]]
    note: str = ""

    def fetch(self) -> Bunch:
        """Return the data as OpenML has it, from scikit-learn's cache or the network."""
        with warnings.catch_warnings():
            # Said of every attempt; if all of them fail, the error says it.
            warnings.filterwarnings("ignore", message="A network error occurred")
            return fetch_openml(data_id=self.data_id, as_frame=False, parser="liac-arff")

    def __str__(self) -> str:
        return f"OpenML {self.data_id}" + (f" ({self.note})" if self.note else "")


def _features(copy: Bunch, codes: Mapping[str, float] | None = None) -> Array:
    """Return X; a category becomes its code, or without codes the number it spells, and NaN where it has no code."""
    X: Array = np.array(copy.data, dtype=np.float64)
    for column, name in enumerate(copy.feature_names):
        if name in copy.categories:
            spelled = [float(c) if codes is None else codes.get(c, np.nan) for c in copy.categories[name]]
            position = np.where(np.isfinite(X[:, column]), X[:, column], -1.0).astype(np.intp)
            X[:, column] = np.array([*spelled, np.nan])[position]  # a missing value takes the last, NaN
    return X


def _regression(copy: Bunch, codes: Mapping[str, float] | None = None) -> tuple[Array, Array]:
    return _features(copy, codes), np.asarray(copy.target).astype(np.float64)


def _binary(copy: Bunch, positive: str) -> tuple[Array, Array]:
    return _features(copy), np.where(np.asarray(copy.target).astype(str) == positive, 1.0, -1.0)


def _madelon(copy: Bunch) -> tuple[Array, Array]:
    """Return X and y, the class of the first row being -1: as many are labelled 1 as 2, so that counts cannot tell."""
    X = _features(copy)
    if tuple(X[0, :5]) != _MADELON_START:
        raise ValueError(f"the first row is expected to begin with {_MADELON_START}, found {tuple(X[0, :5].tolist())}")
    return X, np.where(np.asarray(copy.target) == copy.target[0], -1.0, 1.0)


def _splice(copy: Bunch) -> tuple[Array, Array]:
    """Return X and y with the bases as numbers, without the rows that have an ambiguous base; +1 is no junction."""
    bases = [column for column, name in enumerate(copy.feature_names) if name.lower() != "instance_name"]
    X = _features(copy, {"A": 1.0, "G": 2.0, "C": 3.0, "T": 4.0})[:, bases]
    y = np.where(np.char.strip(np.asarray(copy.target).astype(str)) == "N", 1.0, -1.0)
    known = np.isfinite(X).all(axis=1)
    return X[known], y[known]


_OPENML_COPIES: Mapping[str, OpenMLCopy] = {
    "australian": OpenMLCopy(40981, partial(_binary, positive="1")),
    "madelon": OpenMLCopy(1485, _madelon),
    "splice": OpenMLCopy(46, _splice),
    "spambase": OpenMLCopy(44, partial(_binary, positive="1")),
    "phoneme": OpenMLCopy(1489, partial(_binary, positive="2"), note="features standardised"),
    "housing": OpenMLCopy(531, _regression),
    "abalone": OpenMLCopy(183, partial(_regression, codes={"M": 1.0, "F": 2.0, "I": 3.0})),
    "cpusmall": OpenMLCopy(227, _regression),
}


@dataclass(frozen=True)
class DatasetEntry:
    """One of the paper's data sets: a value of :data:`atklearn.datasets.DATASETS`.

    Attributes
    ----------
    name : str
        Also the name of its file, with the ending ``.csv.gz`` or ``.csv``.
    title : str
        As the paper writes it.
    task : {"classification", "regression"}
    n_samples, n_features : int
    class_counts : tuple of int, default=None
        How many labels are -1, and how many +1.
    generator : callable, default=None
        Returns X and y, for a set that needs no file.
    feature_names : tuple of str, default=()
        Of a generated set.
    sha256 : str, default=None
        Of the known copy of the ``.csv.gz`` file.
    origin : str, default=""
        What the file was made from, for those who have to make it again.

    Examples
    --------
    >>> from atklearn.datasets import DATASETS
    >>> spambase = DATASETS["spambase"]
    >>> spambase.n_samples, spambase.class_counts, spambase.file_names
    (4601, (2788, 1813), ('spambase.csv.gz', 'spambase.csv'))
    """

    name: str
    title: str
    task: str
    n_samples: int
    n_features: int
    class_counts: tuple[int, int] | None = None
    generator: Callable[[], tuple[Array, Array]] | None = None
    feature_names: tuple[str, ...] = ()
    sha256: str | None = None
    origin: str = ""

    @property
    def openml(self) -> OpenMLCopy | None:
        """The copy on OpenML, if there is one with the same rows."""
        return _OPENML_COPIES.get(self.name)

    @property
    def file_names(self) -> tuple[str, str]:
        """The files it may be read from, the preferred one first."""
        return f"{self.name}.csv.gz", f"{self.name}.csv"

    @property
    def imbalance_ratio(self) -> float | None:
        """The size of the larger class over that of the smaller; None for regression."""
        return max(self.class_counts) / min(self.class_counts) if self.class_counts else None


_ENTRIES = (
    DatasetEntry(
        "monk", "Monk", "classification", 432, 6, (204, 228),
        generator=make_monk,
        feature_names=("a1", "a2", "a3", "a4", "a5", "a6"),
    ),
    DatasetEntry(
        "australian", "Australian", "classification", 690, 14, (383, 307),
        sha256="6c0f7b30b81e7f25932b0c2ec2bd496fb8c3f2c8ebd745faeb174d30ddedfc37",
        origin="australian.dat of UCI's Statlog (Australian Credit Approval), class 1 as +1",
    ),
    DatasetEntry(
        "madelon", "Madelon", "classification", 2600, 500, (1300, 1300),
        sha256="ee227971eaebcacbc7d4813dfc832e7db605ab4089ec02840f55371fed5d38db",
        origin="the training rows, then the validation rows, of UCI's Madelon",
    ),
    DatasetEntry(
        "splice", "Splice", "classification", 3175, 60, (1527, 1648),
        sha256="45ed38bf1cc5c28fe60ccfd3c42f4823ef48ef888ed7cc7a2a26b374342a2240",
        origin="UCI's splice junctions, rows with ambiguous bases dropped, A, G, C, T as 1, 2, 3, 4, class N as +1",
    ),
    DatasetEntry(
        "spambase", "Spambase", "classification", 4601, 57, (2788, 1813),
        sha256="719e5661f4e98b2ee16cdf461268437cbf2e3232243b4181b5c8dd296678dc89",
        origin="UCI's Spambase, spam as +1",
    ),
    DatasetEntry(
        "german", "German", "classification", 1000, 24, (700, 300),
        sha256="571f83753d5edf0080b1aea75bf3f49c661a29e7a7fcca56332332496a9a2733",
        origin="german.data-numeric of UCI's Statlog (German Credit Data), class 2 as +1",
    ),
    DatasetEntry(
        "titanic", "Titanic", "classification", 2201, 3, (1490, 711),
        generator=make_titanic,
        feature_names=("class", "child", "male"),
    ),
    DatasetEntry(
        "phoneme", "Phoneme", "classification", 5404, 5, (3818, 1586),
        sha256="4fce6b95cb035191b85e87bb18f33e939f4b1b16e67f842c86554f2696f2aedf",
        origin="phoneme.dat of the ELENA project, class 1 (oral) as +1",
    ),
    DatasetEntry(
        "sinc", "Sinc", "regression", 1000, 10,
        generator=partial(make_sinc, random_state=0),
        feature_names=tuple(f"rbf{j}" for j in range(1, 11)),
    ),
    DatasetEntry(
        "housing", "Housing", "regression", 506, 13,
        sha256="0218e20386d17ffc4174e340bde679bb79b33da6bd1bb22bf3ad4f7d9b503730",
        origin="the Boston housing data, target MEDV",
    ),
    DatasetEntry(
        "abalone", "Abalone", "regression", 4177, 8,
        sha256="d524079bd77af988761123a5c94aea5faa99e468d1e862c508457bc85c456678",
        origin="UCI's Abalone, sex M, F, I as 1, 2, 3, target rings",
    ),
    DatasetEntry(
        "cpusmall", "Cpusmall", "regression", 8192, 12,
        sha256="74e960895f9b169e225e5e52019970ebfdc59254cacee83794b92f72e835f7e5",
        origin="the 12 columns of DELVE's comp-activ called cpusmall, target usr",
    ),
)  # fmt: skip

DATASETS: Mapping[str, DatasetEntry] = {entry.name: entry for entry in _ENTRIES}
"""Every data set of the paper by its name, in the paper's order."""
