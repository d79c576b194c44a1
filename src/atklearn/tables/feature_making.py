"""A table to learn from, and features made of its columns: numbers on one scale."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler
from skrub import ApplyToCols, StringEncoder, TableVectorizer, ToCategorical

from atklearn.losses.individual import Array, Task
from atklearn.tables.health import CATEGORIES
from atklearn.tables.kinds import written_dates

__all__ = ["TabularData", "feature_names", "features_in_words", "make_features", "take_rows"]

LONG = 100  # distinct values of a text, enough for 30 components in any part of the rows


@dataclass(frozen=True)
class TabularData:
    """A table and what is to be learned from it.

    Attributes
    ----------
    name : str
        The name of the file, without folder and suffix.
    features : DataFrame or CSR array of shape (n_rows, n_columns)
        Columns of float64, datetime64 or string; CSR for an SVMlight file.
    target : ndarray of shape (n_rows,)
        Labels as the file has them, or float64 for regression.
    task : {"classification", "regression"}
    target_name : str
    groups : ndarray of str of shape (n_rows,) or None
    group_name : str or None
    rows : ndarray of int of shape (n_rows,)
        The numbers of the rows in the file, from one, not counting its header.
    fingerprint : str
        The SHA-256 of the file and of the encoding that was named, or of the frame, in hexadecimal.
    notes : list of str
        What a reader of results should know about how the table was read as a whole.
    split_by : ndarray of str of shape (n_rows,) or None
        Rows that share a value belong together and are not to be split.
    split_by_name : str or None
    time : ndarray of shape (n_rows,) or None
        The order of the rows in time: numbers as they are, dates in nanoseconds.
    time_name : str or None
    health : dict
        ``rows_read`` and ``rows_used``, counts; ``rows_left_out``, pairs of a count and why; ``columns``, a triple of
        name, use and how it was read for every column of the file; ``warnings``, sentences on what its owner should
        look at. A use is one of "target", "number", "date", "category", "text", "group", "split by", "time" and
        "left out".
    decimal_commas : tuple of str
        The columns of numbers that were read from text with a decimal comma.
    """

    name: str
    features: Any
    target: npt.NDArray[Any]
    task: Task
    target_name: str
    groups: npt.NDArray[np.str_] | None
    group_name: str | None
    rows: npt.NDArray[np.intp]
    fingerprint: str
    notes: list[str] = field(default_factory=list)
    split_by: npt.NDArray[np.str_] | None = None
    split_by_name: str | None = None
    time: Array | None = None
    time_name: str | None = None
    health: dict[str, Any] = field(default_factory=dict)
    decimal_commas: tuple[str, ...] = ()


def take_rows(features: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Return some rows of the features of a table."""
    return features.iloc[rows] if isinstance(features, pd.DataFrame) else features[rows]


class FeatureMaker(Pipeline):
    """A pipeline that standardises columns, but the components of one text together, as if they were one column.

    Each on the scale of a number, the thirty components of a text that tells nothing would cost a table of some hundred
    rows a point of error. Together they keep their sizes, and so does what they tell: the penalty holds the small ones.
    """

    def fit(self, X: Any, y: Any = None, **parameters: Any) -> FeatureMaker:
        """Fit all steps."""
        self.fit_transform(X, y, **parameters)
        return self

    def fit_transform(self, X: Any, y: Any = None, **parameters: Any) -> Array:
        """Fit all steps and return the features."""
        made: Array = super().fit_transform(X, y, **parameters)
        scaler = self["scale"]
        for block in self._texts():
            together = np.sqrt(scaler.var_[block].sum()) or 1.0
            made[:, block] *= scaler.scale_[block] / together
            scaler.scale_[block] = together
        return made

    def _texts(self) -> list[slice]:
        """Return where the components of each text are."""
        columns = self["columns"]
        blocks = [place for name, place in columns.output_indices_.items() if name.startswith("long")]
        if "texts" in columns.named_transformers_:
            vectorizer = columns.named_transformers_["texts"]["columns"]
            outputs, first = list(vectorizer.get_feature_names_out()), columns.output_indices_["texts"].start
            for name in vectorizer.kind_to_columns_["high_cardinality"]:
                start = first + outputs.index(vectorizer.input_to_outputs_[name][0])
                blocks.append(slice(start, start + len(vectorizer.input_to_outputs_[name])))
        return blocks


def make_features(data: TabularData) -> Any:
    """Return an unfitted transformer from the columns of a table to numbers on one scale.

    Numbers stay numbers, times become years to seconds, text of fewer than 40 distinct values one column per value,
    other text 30 components of its character n-grams. Then missing values become the mean, with a column that says
    where, and all columns are standardised, the components of a text together. The mean serves a linear model as well
    as the median would, since the column of indicators takes up any constant, at a hundredth of the time.

    Columns of a sparse matrix are divided by their largest absolute value: that keeps zeros, and does not blow up the
    rare ones as dividing by the standard deviation would.

    Parameters
    ----------
    data : TabularData

    Returns
    -------
    transformer : FeatureMaker or MaxAbsScaler
        Its output is a C-ordered float64 ndarray, or CSR for CSR.

    Examples
    --------
    >>> features = pd.DataFrame({"rain": [0.5, np.nan, 0.1], "town": ["Ulm", "Bonn", None]}).astype({"town": "string"})
    >>> data = TabularData("bikes", features, np.arange(3.0), "regression", "rides", None, None, np.arange(3), "")
    >>> transformer = make_features(data).fit(features)
    >>> feature_names(transformer)
    ['rain', 'town_Bonn', 'town_Ulm', 'town_nan', 'rain is missing']
    """
    if isinstance(data.features, csr_array):
        return MaxAbsScaler()
    kinds: dict[str, list[str]] = {"numbers": [], "commas": [], "dates": [], "written": [], "texts": []}
    for name, dtype in data.features.dtypes.items():
        kind = "numbers" if dtype == np.float64 else "dates" if dtype.kind == "M" else "texts"
        # the name of a kind is how a saved model remembers to read new rows
        kinds["commas" if name in data.decimal_commas else kind].append(name)
    found = _kinds_of_text(data.features[kinds["texts"]]) if kinds["texts"] else {}
    kinds["written"] = [name for name, kind in found.items() if kind == "written"]
    kinds["texts"] = [name for name, kind in found.items() if kind == "texts"]
    makers = {
        "numbers": "passthrough",  # past the vectorizer, which would round them to float32
        "commas": "passthrough",
        "dates": _vectorizer(),
        "written": _vectorizer(),
        # as categories, since the vectorizer would make a number of '01234'
        "texts": Pipeline([("categories", ApplyToCols(ToCategorical())), ("columns", _vectorizer())]),
    }
    columns: list[Any] = [(kind, makers[kind], names) for kind, names in kinds.items() if names]
    long = [name for name, kind in found.items() if kind == "long"]
    columns += [(f"long{index}", StringEncoder(random_state=0), name) for index, name in enumerate(long)]
    return FeatureMaker(
        [
            ("columns", ColumnTransformer(columns)),
            ("impute", SimpleImputer(add_indicator=True, keep_empty_features=True, copy=False)),
            ("scale", StandardScaler(copy=False)),
            ("order", FunctionTransformer(np.ascontiguousarray, kw_args={"dtype": "float64"})),
        ]
    )


def features_in_words(data: TabularData) -> str:
    """Say what :func:`make_features` does with a table, for those who read results on it."""
    if isinstance(data.features, csr_array):
        return "the columns, each divided by its largest absolute value"
    return "categories, dates, text and missing values to numbers, then standardised"


def _vectorizer() -> TableVectorizer:
    return TableVectorizer(
        # without drop="if_binary", which warns of values that are new
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype="float32"),
        high_cardinality=StringEncoder(random_state=0),
        cardinality_threshold=CATEGORIES,
        drop_null_fraction=None,  # a column may be empty in one fold and not in another
    )


def _kinds_of_text(texts: pd.DataFrame) -> dict[str, str]:
    """Return which columns are dates in disguise, and which are so long that a vectorizer had five copies of them."""
    kinds = {}
    for name in texts.columns:
        distinct = texts[name].nunique()
        written = distinct > 0 and written_dates(texts[name].dropna().head(1000)) is not None
        kinds[str(name)] = "written" if written else "long" if distinct >= LONG else "texts"
    return kinds


def feature_names(transformer: Any) -> list[str]:
    """Return the names of the columns that a fitted transformer puts out.

    Parameters
    ----------
    transformer : Pipeline or MaxAbsScaler
        From :func:`make_features`, fitted.

    Returns
    -------
    names : list of str
        The column's name, followed by the value, the part of a date or the number of the component where one column
        became many, or by "is missing".
    """
    if not isinstance(transformer, Pipeline):
        return [str(name) for name in transformer.get_feature_names_out()]
    names = transformer["impute"].get_feature_names_out(transformer["columns"].get_feature_names_out())
    marked = [re.fullmatch(r"(missingindicator_)?[a-z]+[0-9]*__(.*)", name, re.DOTALL) for name in names]
    # the vectorizer makes names that occur twice differ, by chance and differently at every fit
    plain = [(re.sub(r"__skrub_[0-9a-f]+__$", "", match[2]), match[1]) for match in marked if match]
    return [name + (" is missing" if indicator else "") for name, indicator in plain]
