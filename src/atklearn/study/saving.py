"""Models in files: saved with skops, loaded only if nothing but our own kinds of objects is in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED

import numpy as np
import pandas as pd
import skops.io
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.losses.individual import INDIVIDUAL_LOSSES
from atklearn.study.files import write_whole
from atklearn.study.last_fit import fit_recommended
from atklearn.study.methods import COMPARED_LOSSES
from atklearn.study.outcome import Recommendation
from atklearn.study.reading import as_feature, check_file, is_svmlight, read_frame, read_svmlight
from atklearn.study.tabular import TabularData, make_features

__all__ = ["load_model", "predict_table", "save_model"]


def save_model(pipeline: Pipeline, path: str | Path) -> None:
    """Save a fitted pipeline, whole or not at all.

    Parameters
    ----------
    pipeline : Pipeline
        Its first step is made by :func:`atklearn.study.tabular.make_features`, its last one predicts.
    path : str or Path
        Conventionally with the suffix .skops.

    Examples
    --------
    >>> import tempfile
    >>> features = pd.DataFrame({"rain": np.linspace(0.0, 1.0, 40)})
    >>> data = TabularData("bikes", features, np.arange(40.0), "regression", "rides", None, None, np.arange(40), "")
    >>> model = Pipeline([("features", make_features(data)), ("model", ATkRegressor())]).fit(features, data.target)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, Path(folder) / "bikes.skops")
    ...     again = load_model(Path(folder) / "bikes.skops")
    >>> bool(np.array_equal(again.predict(features), model.predict(features)))
    True
    """
    path = Path(path)
    if not isinstance(pipeline, Pipeline):
        raise ValueError(f"A Pipeline is expected, got {type(pipeline).__name__}; put make_features in front of it.")
    check_is_fitted(pipeline)
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is expected to be a folder, and there is none; make it first.")
    content = skops.io.dumps(pipeline, compression=ZIP_DEFLATED)
    foreign = _foreign_types(content)
    if foreign:
        raise ValueError(f"The pipeline holds {', '.join(foreign)}, which would not be loaded again; leave that out.")
    write_whole(path, content)


def load_model(path: str | Path) -> Pipeline:
    """Load a pipeline, refusing any file with a kind of object that no pipeline of ours has.

    Parameters
    ----------
    path : str or Path
        Of a file that :func:`save_model` wrote.

    Returns
    -------
    pipeline : Pipeline

    Examples
    --------
    >>> load_model("absent.skops")
    Traceback (most recent call last):
        ...
    ValueError: absent.skops is expected to be a saved model, and there is no such file; check the path.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is expected to be a saved model, and there is no such file; check the path.")
    content = path.read_bytes()  # once, so that what is loaded is what was looked at
    try:
        foreign = _foreign_types(content)
        model = None if foreign else skops.io.loads(content, trusted=sorted(_trusted_types()))
    except Exception as error:  # whatever the parser raises, the file is what is wrong
        raise ValueError(
            f"{path} is expected to be a model saved by atklearn, and cannot be read as one; save it again."
        ) from error
    if foreign:
        raise ValueError(
            f"Refusing to load {path}, since no model saved by atklearn holds {', '.join(foreign)}; "
            "save it again from a source that you trust."
        )
    if not isinstance(model, Pipeline):
        raise ValueError(f"{path} is expected to hold a pipeline, and holds a {type(model).__name__}; save a model.")
    return model


def predict_table(model: Pipeline, path: str | Path) -> pd.DataFrame:
    r"""Return the predictions for the rows of a file.

    Parameters
    ----------
    model : Pipeline
        As :func:`save_model` takes it.
    path : str or Path
        A file of the kind that the model was fitted on, CSV and Parquet being alike. Columns that the model does not
        know, such as the target, are ignored.

    Returns
    -------
    predictions : DataFrame of shape (n_rows, n_outputs)
        The column ``prediction``; for a classifier also ``probability_CLASS`` of every class if it has probabilities,
        else ``score`` for two classes and ``score_CLASS`` for more.

    Examples
    --------
    >>> import tempfile
    >>> from atklearn.study.tabular import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     old, new = Path(folder) / "old.csv", Path(folder) / "new.csv"
    ...     _ = old.write_text("rain,rides\n" + "0.5,few\n0.1,many\n" * 20, encoding="utf-8")
    ...     _ = new.write_text("rain\n0.2\n0.6\n", encoding="utf-8")
    ...     data = read_table(old, "rides")
    ...     model = Pipeline([("features", make_features(data)), ("model", ATkClassifier())])
    ...     predictions = predict_table(model.fit(data.features, data.target), new)
    >>> predictions["prediction"].tolist()
    ['many', 'few']
    """
    path = check_file(path)
    first = model
    while isinstance(first, Pipeline):
        first = first[0]
    named = isinstance(first, ColumnTransformer)
    if named == is_svmlight(path):
        expected = "named columns, in CSV or Parquet" if named else "numbered features, in SVMlight"
        raise ValueError(f"{path} does not fit the model, which was fitted on {expected}; convert the file.")
    X = _known_columns(first, path) if named else read_svmlight(path, first.n_features_in_)[0]
    columns = {"prediction": model.predict(X)}
    if hasattr(model, "predict_proba"):
        for label, values in zip(model.classes_, model.predict_proba(X).T, strict=True):
            columns[f"probability_{label}"] = values
    elif hasattr(model, "classes_"):
        scores = model.decision_function(X)
        if scores.ndim == 1:
            columns["score"] = scores
        else:
            columns |= {f"score_{label}": values for label, values in zip(model.classes_, scores.T, strict=True)}
    return pd.DataFrame(columns)


def _known_columns(fitted: ColumnTransformer, path: Path) -> pd.DataFrame:
    """Return the columns that the model was fitted on, each of the kind it had then."""
    kinds = dict.fromkeys(fitted.feature_names_in_, "long")
    kinds |= {name: kind for kind, _, names in fitted.transformers if isinstance(names, list) for name in names}
    texts = [name for name, kind in kinds.items() if kind in ("texts", "long")]
    frame = read_frame(path, texts)
    missing = [repr(name) for name in fitted.feature_names_in_ if name not in frame.columns]
    if missing:
        raise ValueError(f"{path} lacks columns that the model was fitted on, {', '.join(missing)}; add them.")
    parsed = fitted.named_transformers_["texts"].kind_to_columns_["datetime"] if "texts" in kinds.values() else []
    columns = {name: as_feature(frame[name]) for name in fitted.feature_names_in_}
    for name, column in columns.items():
        if name in texts:
            # text that was found to be dates may be dates already
            keep = name in parsed and column.dtype.kind == "M"
            columns[name] = column if keep else column.astype("string")
        else:
            columns[name] = _converted(column, kinds[name], path)
    return pd.DataFrame(columns, copy=False)


def _converted(column: pd.Series, kind: str, path: Path) -> pd.Series:
    """Return a column as numbers or dates, or say which value is neither."""
    converted = column
    if kind == "numbers":
        if column.dtype != np.float64:
            numbers = pd.to_numeric(column.astype("string"), errors="coerce")
            converted = pd.Series(numbers.to_numpy(dtype=np.float64, na_value=np.nan), index=column.index)
        wrong = column.notna() & ~np.isfinite(converted)
    else:
        if column.dtype.kind != "M":
            dates = pd.to_datetime(column.astype("string"), errors="coerce", format="ISO8601", utc=True)
            converted = dates.dt.tz_convert(None)
        wrong = column.notna() & converted.isna()
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"The column {column.name!r} is expected to hold {'finite ' * (kind == 'numbers')}{kind}, and holds "
            f"{str(column.iloc[row])!r} in row {row + 1} of {path}; correct it or leave it empty."
        )
    return converted


def _foreign_types(content: bytes) -> list[str]:
    """Return the kinds of objects in a saved model that are neither skops's nor ours."""
    return sorted(set(skops.io.get_untrusted_types(data=content)) - _trusted_types())


@cache
def _trusted_types() -> frozenset[str]:
    """Return the kinds of objects that pipelines of ours are made of, found by saving one of each sort."""
    n = 120
    count = np.arange(n)
    days = pd.date_range("2020-01-01", periods=n)
    frame = pd.DataFrame(
        {
            "number": np.where(count == 5, np.nan, count % 7),
            "category": np.where(count % 3, "a", "b"),
            "short": [f"a{i % 50}" for i in range(n)],
            "long": [f"a{i}" for i in range(n)],
            "written": days.strftime("%d/%m/%Y"),
            "date": days,
        }
    ).astype(dict.fromkeys(["category", "short", "long", "written"], "string"))
    sparse = csr_array((count[:, None] % np.arange(2, 5)).astype(np.float64))
    saved: list[Any] = [[loss() for loss in INDIVIDUAL_LOSSES.values()]]
    for features, estimator in ((frame, ATkClassifier), (sparse, ATkRegressor)):
        data = TabularData("", features, count, "regression", "", None, None, count, "")
        pipeline = Pipeline([("features", make_features(data)), ("model", estimator(k=np.float64(1.0)))])
        saved.append(pipeline.fit(features, count % 2))
    for task in ("classification", "regression"):  # with mapped decision values, as a comparison may recommend
        data = TabularData("", sparse, count % 2, task, "", None, None, count, "")
        loss = COMPARED_LOSSES[task][0]
        saved.append(fit_recommended(data, Recommendation(loss, "plain", 1.0, 1.0, (1.0, 0.5), "")))
    return frozenset(skops.io.get_untrusted_types(data=skops.io.dumps(saved)))
