"""Features made of the columns of a table: numbers on one scale, by skrub and scikit-learn."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler
from skrub import ApplyToCols, StringEncoder, TableVectorizer, ToCategorical

from atklearn.losses.individual import Array
from atklearn.tables.columns import ISO, as_dates
from atklearn.tables.health import CATEGORIES
from atklearn.tables.tabular import TabularData

__all__ = ["feature_names", "feature_sources", "features_in_words", "known_categories", "make_features", "take_rows"]

_LONG = 100  # distinct values of a text, enough for 30 components in any part of the rows


def take_rows(features: pd.DataFrame | csr_array, rows: npt.NDArray[np.intp]) -> pd.DataFrame | csr_array:
    """Return some rows of the features of a table."""
    return features.iloc[rows] if isinstance(features, pd.DataFrame) else features[rows]


class FeatureMaker(Pipeline):
    """A pipeline that standardises columns, but the components of one text together, as if they were one column.

    Each on the scale of a number, the thirty components of a text that tells nothing would cost a table of some hundred
    rows a point of error. Together they keep their sizes, and so does what they tell: the penalty holds the small ones.
    """

    def fit(self, X: pd.DataFrame, y: object = None, **parameters: object) -> FeatureMaker:
        """Fit all steps."""
        self.fit_transform(X, y, **parameters)
        return self

    def fit_transform(self, X: pd.DataFrame, y: object = None, **parameters: object) -> Array:
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


def make_features(data: TabularData) -> TransformerMixin:
    """Return an unfitted transformer from the columns of a table to numbers on one scale.

    Numbers stay numbers, times become years to seconds, text of fewer than 40 distinct values one column per value,
    other text 30 components of its character n-grams. Then missing values become the mean, with a column that says
    where, and all columns are standardised, the components of a text together. The mean serves a linear model as well
    as the median would, since the column of indicators takes up any constant, at a hundredth of the time.

    The output is a C-ordered float64 ndarray; or CSR for CSR, its columns divided by their largest absolute value.

    Examples
    --------
    >>> features = pd.DataFrame({"rain": [0.5, np.nan, 0.1], "town": ["Ulm", "Bonn", None]}).astype({"town": "string"})
    >>> data = TabularData("bikes", features, np.arange(3.0), "regression", "rides", None, None, np.arange(3), "")
    >>> transformer = make_features(data).fit(features)
    >>> feature_names(transformer)
    ['rain', 'town_Bonn', 'town_Ulm', 'town_nan', 'rain is missing']
    >>> feature_sources(transformer)
    ['rain', 'town', 'town', 'town', 'rain']
    """
    if isinstance(data.features, csr_array):
        return MaxAbsScaler()
    kinds: dict[str, list[str]] = {"numbers": [], "commas": []}
    texts: list[str] = []
    long: list[str] = []
    for name, dtype in data.features.dtypes.items():
        # the name of a kind is how a saved model remembers to read new rows
        if dtype == np.float64:
            kinds["commas" if name in data.decimal_commas else "numbers"].append(name)
        elif dtype.kind == "M":
            kinds.setdefault(f"dates {data.date_formats.get(name, ISO)}", []).append(name)
        else:  # a vectorizer would have five copies of a long one
            (long if data.features[name].nunique() >= _LONG else texts).append(name)
    columns: list[tuple[str, TransformerMixin | str, list[str] | str]] = [
        # a vectorizer would round numbers to float32
        (kind, _dates_in(kind.removeprefix("dates ")) if kind.startswith("dates") else "passthrough", names)
        for kind, names in kinds.items()
        if names
    ]
    if texts:  # as categories, since the vectorizer would make a number of '01234'
        steps = [("categories", ApplyToCols(ToCategorical())), ("columns", _vectorizer())]
        columns.append(("texts", Pipeline(steps), texts))
    columns += [(f"long{index}", StringEncoder(random_state=0), name) for index, name in enumerate(long)]
    return FeatureMaker(
        [
            ("columns", ColumnTransformer(columns)),
            ("impute", SimpleImputer(add_indicator=True, keep_empty_features=True, copy=False)),
            ("scale", StandardScaler(copy=False)),
            ("order", FunctionTransformer(np.ascontiguousarray, kw_args={"dtype": "float64"})),
        ]
    )


def _dates_in(date_format: str) -> Pipeline:
    """Return what makes features of dates, which may be in a table as they were read or as text."""
    read = FunctionTransformer(read_dates, kw_args={"date_format": date_format}, feature_names_out="one-to-one")
    return Pipeline([("read", read), ("columns", _vectorizer())])


def read_dates(columns: pd.DataFrame, date_format: str) -> pd.DataFrame:
    """Return columns as dates, missing where they hold anything else."""
    return columns.apply(lambda column: as_dates(column, date_format)[0])


def _vectorizer() -> TableVectorizer:
    return TableVectorizer(
        # without drop="if_binary", which warns of values that are new
        low_cardinality=OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype="float32"),
        high_cardinality=StringEncoder(random_state=0),
        cardinality_threshold=CATEGORIES,
        drop_null_fraction=None,  # a column may be empty in one fold and not in another
    )


def features_in_words(data: TabularData) -> str:
    """Say what :func:`make_features` does with a table, for those who read results on it."""
    if isinstance(data.features, csr_array):
        return "the columns, each divided by its largest absolute value"
    return "categories, dates, text and missing values to numbers, then standardised"


def feature_names(transformer: TransformerMixin) -> list[str]:
    """Return the names of the columns that a transformer of :func:`make_features`, fitted, puts out.

    They are a column's name, followed by the value, the part of a date or the number of the component where one column
    became many, or by "is missing".
    """
    if not isinstance(transformer, Pipeline):
        return [str(name) for name in transformer.get_feature_names_out()]
    names = transformer["impute"].get_feature_names_out(transformer["columns"].get_feature_names_out())
    marked = [re.fullmatch(r"(missingindicator_)?.*?__(.*)", name, re.DOTALL) for name in names]
    # the vectorizer makes names that occur twice differ, by chance and differently at every fit
    plain = [(re.sub(r"__skrub_[0-9a-f]+__$", "", match[2]), match[1]) for match in marked if match]
    return [name + (" is missing" if indicator else "") for name, indicator in plain]


def feature_sources(transformer: TransformerMixin) -> list[str]:
    """Return, for every name of :func:`feature_names`, the column of the table that the feature is made of."""
    if not isinstance(transformer, Pipeline):
        return [str(name) for name in transformer.get_feature_names_out()]
    columns = transformer["columns"]
    made: list[str] = []
    for name, maker, taken in columns.transformers_:
        place = columns.output_indices_[name]
        if place.stop > place.start:
            names = [taken] if isinstance(taken, str) else [str(column) for column in taken]
            made += _sources_of_one(maker, names, place.stop - place.start)
    return made + [made[place] for place in transformer["impute"].indicator_.features_]


def _sources_of_one(maker: TransformerMixin, columns: list[str], n_made: int) -> list[str]:
    """Return the sources of what one maker makes: it says so, or makes one feature of each column, or has one."""
    if isinstance(maker, Pipeline):
        maker = maker[-1]
    if hasattr(maker, "input_to_outputs_"):
        source = {name: str(column) for column, made in maker.input_to_outputs_.items() for name in made}
        return [source[name] for name in maker.get_feature_names_out()]
    return columns if len(columns) == n_made else columns * n_made


def known_categories(columns: ColumnTransformer) -> dict[str, set[str]]:
    """Return the values of every column of categories that a fitted transformer has seen."""
    if "texts" not in columns.named_transformers_:
        return {}
    encoders = columns.named_transformers_["texts"]["columns"].transformers_
    return {
        str(name): {str(value) for value in encoder.categories_[0]}
        for name, encoder in encoders.items()
        if isinstance(encoder, OneHotEncoder)
    }
