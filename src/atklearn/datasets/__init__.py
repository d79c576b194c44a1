"""The paper's data sets, generated where a rule or a table gives them, else from files or OpenML; and deliveries."""

from atklearn.datasets.generated import (
    bayes_boundary,
    make_deliveries,
    make_monk,
    make_sinc,
    make_titanic,
    make_toy,
)
from atklearn.datasets.loading import (
    Dataset,
    DatasetSummary,
    DatasetUnavailable,
    describe_datasets,
    load_dataset,
    load_toy,
)
from atklearn.datasets.registry import DATASETS, DatasetEntry

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "DatasetSummary",
    "DatasetUnavailable",
    "bayes_boundary",
    "describe_datasets",
    "load_dataset",
    "load_toy",
    "make_deliveries",
    "make_monk",
    "make_sinc",
    "make_titanic",
    "make_toy",
]
