"""The twelve data sets of the paper: what each must look like, and where it can come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from atklearn.datasets.generated import make_monk, make_sinc, make_titanic
from atklearn.datasets.openml import OPENML_COPIES, OpenMLCopy
from atklearn.losses.individual import Array

__all__ = ["DATASETS", "DatasetEntry"]


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
        return OPENML_COPIES.get(self.name)

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
        "monk",
        "Monk",
        "classification",
        432,
        6,
        (204, 228),
        generator=make_monk,
        feature_names=("a1", "a2", "a3", "a4", "a5", "a6"),
    ),
    DatasetEntry(
        "australian",
        "Australian",
        "classification",
        690,
        14,
        (383, 307),
        sha256="6c0f7b30b81e7f25932b0c2ec2bd496fb8c3f2c8ebd745faeb174d30ddedfc37",
        origin="australian.dat of UCI's Statlog (Australian Credit Approval), class 1 as +1",
    ),
    DatasetEntry(
        "madelon",
        "Madelon",
        "classification",
        2600,
        500,
        (1300, 1300),
        sha256="ee227971eaebcacbc7d4813dfc832e7db605ab4089ec02840f55371fed5d38db",
        origin="the training rows, then the validation rows, of UCI's Madelon",
    ),
    DatasetEntry(
        "splice",
        "Splice",
        "classification",
        3175,
        60,
        (1527, 1648),
        sha256="45ed38bf1cc5c28fe60ccfd3c42f4823ef48ef888ed7cc7a2a26b374342a2240",
        origin="UCI's splice junctions, rows with ambiguous bases dropped, A, G, C, T as 1, 2, 3, 4, class N as +1",
    ),
    DatasetEntry(
        "spambase",
        "Spambase",
        "classification",
        4601,
        57,
        (2788, 1813),
        sha256="719e5661f4e98b2ee16cdf461268437cbf2e3232243b4181b5c8dd296678dc89",
        origin="UCI's Spambase, spam as +1",
    ),
    DatasetEntry(
        "german",
        "German",
        "classification",
        1000,
        24,
        (700, 300),
        sha256="571f83753d5edf0080b1aea75bf3f49c661a29e7a7fcca56332332496a9a2733",
        origin="german.data-numeric of UCI's Statlog (German Credit Data), class 2 as +1",
    ),
    DatasetEntry(
        "titanic",
        "Titanic",
        "classification",
        2201,
        3,
        (1490, 711),
        generator=make_titanic,
        feature_names=("class", "child", "male"),
    ),
    DatasetEntry(
        "phoneme",
        "Phoneme",
        "classification",
        5404,
        5,
        (3818, 1586),
        sha256="4fce6b95cb035191b85e87bb18f33e939f4b1b16e67f842c86554f2696f2aedf",
        origin="phoneme.dat of the ELENA project, class 1 (oral) as +1",
    ),
    DatasetEntry(
        "sinc",
        "Sinc",
        "regression",
        1000,
        10,
        generator=partial(make_sinc, random_state=0),
        feature_names=tuple(f"rbf{j}" for j in range(1, 11)),
    ),
    DatasetEntry(
        "housing",
        "Housing",
        "regression",
        506,
        13,
        sha256="0218e20386d17ffc4174e340bde679bb79b33da6bd1bb22bf3ad4f7d9b503730",
        origin="the Boston housing data, target MEDV",
    ),
    DatasetEntry(
        "abalone",
        "Abalone",
        "regression",
        4177,
        8,
        sha256="d524079bd77af988761123a5c94aea5faa99e468d1e862c508457bc85c456678",
        origin="UCI's Abalone, sex M, F, I as 1, 2, 3, target rings",
    ),
    DatasetEntry(
        "cpusmall",
        "Cpusmall",
        "regression",
        8192,
        12,
        sha256="74e960895f9b169e225e5e52019970ebfdc59254cacee83794b92f72e835f7e5",
        origin="the 12 columns of DELVE's comp-activ called cpusmall, target usr",
    ),
)

DATASETS: Mapping[str, DatasetEntry] = {entry.name: entry for entry in _ENTRIES}
"""Every data set of the paper by its name, in the paper's order."""
