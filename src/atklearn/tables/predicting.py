"""Predictions for new rows: read as the rows were that the model was fitted on, and scored where the truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from atklearn.losses.individual import Array
from atklearn.measures.answers import Answers
from atklearn.measures.catalogue import MEASURES, evaluate_measures
from atklearn.tables.kinds import as_dates, as_numbers, as_text, read_column
from atklearn.tables.reading import (
    RawTable,
    check_file,
    is_svmlight,
    numbered_frame,
    read_raw,
    read_svmlight,
)
from atklearn.tables.roles import as_raw_table

__all__ = ["Predicted", "predict_table"]


@dataclass(frozen=True)
class Predicted:
    """What a model says of the rows of a table, and how right it is.

    Attributes
    ----------
    table : DataFrame of shape (n_rows, n_outputs)
        The columns that were to be carried through; ``prediction``; for a classifier also ``probability_CLASS`` of
        every class if it has probabilities, else ``score`` for two classes and ``score_CLASS`` for more.
    scores : dict of str to float
        Every measure that applies, over the rows whose target is known; empty if there are none.
    n_scored : int
    target : str or None
        The column that holds the truth.
    """

    table: pd.DataFrame
    scores: dict[str, float] = field(default_factory=dict)
    n_scored: int = 0
    target: str | None = None

    def scores_in_words(self) -> str:
        """Return the scores as a sentence."""
        shown = [
            f"{measure.title} {measure.factor * value:.{measure.digits}f}{measure.unit}"
            for measure, value in ((MEASURES[name], value) for name, value in self.scores.items())
        ]
        return f"On the {self.n_scored} rows with a value of {self.target!r}: {', '.join(shown)}."


def predict_table(
    model: Pipeline,
    table: Any,
    *,
    ids: Sequence[str] = (),
    threshold: float | None = None,
    target: str | None = None,
    encoding: str | None = None,
) -> Predicted:
    r"""Predict the rows of a table, and score the predictions where it has the target.

    Parameters
    ----------
    model : Pipeline
        As :func:`atklearn.study.saving.save_model` takes it.
    table : str, Path, DataFrame, dict or array of shape (n_rows, n_columns)
        A file or a table in memory with the columns that the model was fitted on. Others are not needed, and ignored.
    ids : sequence of str, default=()
        Columns to carry through.
    threshold : float, default=None
        For two classes: from which probability of the second class on it is predicted, or from which decision value on
        if the model has no probabilities.
    target : str, default=None
        The column that holds the truth. By default the one that the model was fitted to, if the table has it.
    encoding : str, default=None
        As :func:`atklearn.tables.tabular.read_table` takes it.

    Returns
    -------
    predicted : Predicted

    Examples
    --------
    >>> import tempfile
    >>> from atklearn.estimators.linear import ATkClassifier
    >>> from atklearn.tables.tabular import make_features, read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     old, new = Path(folder) / "old.csv", Path(folder) / "new.csv"
    ...     _ = old.write_text("rain,rides\n" + "0.5,few\n0.1,many\n" * 20, encoding="utf-8")
    ...     _ = new.write_text("rain,seen\n0.2,many\n0.6,many\n", encoding="utf-8")
    ...     data = read_table(old, "rides")
    ...     model = Pipeline([("features", make_features(data)), ("model", ATkClassifier())])
    ...     predicted = predict_table(model.fit(data.features, data.target), new, target="seen")
    >>> predicted.table["prediction"].tolist(), float(predicted.scores["error"])
    (['many', 'few'], 0.5)
    """
    source = _Source(check_file(table) if isinstance(table, str | Path) else table, tuple(ids), target, encoding)
    first = model
    while isinstance(first, Pipeline):
        first = first[0]
    classes = np.asarray(model.classes_) if hasattr(model, "classes_") else None
    if isinstance(first, ColumnTransformer):
        fitted_to = getattr(model, "target_name_", None)
        taken = _take_named(first, source, fitted_to, text=classes is not None and classes.dtype.kind == "U")
    else:
        taken = _take_numbered(first, source)
    answers = _answers(model, taken.X, classes, threshold)
    said = {"prediction": answers.predictions, **_columns_of(answers)}
    twice = [name for name in taken.carried if name in said]
    if twice:
        raise ValueError(f"The column {twice[0]!r} has the name of one that is predicted; rename it.")
    answered = pd.DataFrame({**taken.carried, **said})
    if taken.truth is None:
        return Predicted(answered)
    values, known = _truth(taken.truth, classes, taken.comma)
    if not known.any():
        return Predicted(answered)
    found = evaluate_measures(replace(answers, y=values).about(known))
    scores = {name: float(value) for name, value in found.items() if np.isfinite(value)}
    return Predicted(answered, scores, int(known.sum()), str(taken.truth.name))


@dataclass(frozen=True)
class _Source:
    """A table to predict, and what is asked of it."""

    table: Any
    ids: tuple[str, ...]
    target: str | None
    encoding: str | None

    @property
    def is_numbered(self) -> bool:
        """Whether it is an SVMlight file."""
        return isinstance(self.table, Path) and is_svmlight(self.table)

    @property
    def place(self) -> str:
        """What to call it at the beginning of a sentence."""
        return str(self.table) if isinstance(self.table, Path) else "The table"

    def refuse_names(self) -> None:
        """Raise if columns are asked for by name."""
        if self.ids or self.target is not None or self.encoding is not None:
            raise ValueError(f"{self.place} has no named columns; give no id, no target and no encoding.")


@dataclass(frozen=True)
class _Taken:
    """Rows as a model takes them, the truth about them if it is there, and the columns to carry through."""

    X: Any
    truth: pd.Series | None
    carried: dict[str, pd.Series] = field(default_factory=dict)
    comma: bool = False


def _take_named(fitted: ColumnTransformer, source: _Source, fitted_to: str | None, text: bool) -> _Taken:
    """Return the rows of a table with the columns that a model was fitted on; labels may have to stay text."""
    kinds = _kinds(fitted)
    if source.is_numbered:
        if not all(name.isdecimal() for name in kinds):
            raise ValueError(
                f"{source.place} does not fit the model, which was fitted on named columns, in CSV, Excel, JSON lines "
                "or Parquet; convert it."
            )
        source.refuse_names()
        X, labels = read_svmlight(source.table)
        # what does not occur in a file is zero, and no column
        frame = numbered_frame(X, labels).reindex(columns=list(kinds), fill_value=0.0)
        return _Taken(_known_columns(fitted, kinds, RawTable(frame)), _told_by(labels))
    wanted = source.target if source.target is not None else fitted_to
    if isinstance(source.table, Path):
        texts = [name for name, kind in kinds.items() if kind in ("written", "texts", "long")]
        as_they_are = [*texts, *source.ids, *([wanted] if wanted is not None and text else [])]
        raw = read_raw(source.table, as_they_are, source.encoding)
    else:
        raw = RawTable(as_raw_table(source.table, None)[0])
    asked = [*source.ids, *([] if source.target is None else [source.target])]
    _require(raw, asked, "are asked for", source.place)
    _require(raw, list(kinds), "the model was fitted on", source.place)
    truth = raw.frame[wanted] if wanted in raw.frame.columns else None
    carried = {name: as_text(raw.frame[name]) for name in source.ids}
    return _Taken(_known_columns(fitted, kinds, raw), truth, carried, raw.comma)


def _take_numbered(fitted: Any, source: _Source) -> _Taken:
    """Return the rows of a sparse matrix for a model that was fitted on one."""
    if not source.is_numbered:
        raise ValueError(
            f"{source.place} does not fit the model, which was fitted on numbered features, in SVMlight; convert it."
        )
    source.refuse_names()
    X, labels = read_svmlight(source.table, fitted.n_features_in_)
    return _Taken(X, _told_by(labels))


def _told_by(labels: Array) -> pd.Series | None:
    """Return the labels of an SVMlight file: every row has one, the same in all rows if it stands for nothing."""
    return pd.Series(labels, name="target") if np.unique(labels).size > 1 else None


def _answers(model: Pipeline, X: Any, classes: npt.NDArray[Any] | None, threshold: float | None) -> Answers:
    """Return what a model says of rows whose truth is not yet known."""
    nothing = np.zeros(X.shape[0])
    predictions = np.asarray(model.predict(X))
    if threshold is not None and (classes is None or classes.size != 2):
        kind = "predicts numbers" if classes is None else f"has {classes.size} classes"
        raise ValueError(f"A threshold is expected for a model of two classes, and this one {kind}; leave it out.")
    if classes is None:
        return Answers(nothing, predictions, None, predictions[None])
    decisions = np.atleast_2d(np.asarray(model.decision_function(X)).T)
    probabilities = model.predict_proba(X).T if hasattr(model, "predict_proba") else None
    if threshold is not None:
        if probabilities is not None and not 0.0 <= threshold <= 1.0:
            raise ValueError(f"A threshold of probabilities is expected from 0 to 1, got {threshold:g}.")
        value = decisions[0] if probabilities is None else probabilities[1]
        predictions = classes[(value >= threshold).astype(np.intp)]
    return Answers(nothing, predictions, classes, decisions, probabilities=probabilities)


def _columns_of(answers: Answers) -> dict[str, Array]:
    """Return the columns of probabilities or decision values."""
    if answers.classes is None or answers.decisions is None:
        return {}
    if answers.probabilities is not None:
        values = answers.probabilities
        return {f"probability_{label}": value for label, value in zip(answers.classes, values, strict=True)}
    if len(answers.decisions) == 1:
        return {"score": answers.decisions[0]}
    return {f"score_{label}": value for label, value in zip(answers.classes, answers.decisions, strict=True)}


def _truth(
    column: pd.Series, classes: npt.NDArray[Any] | None, comma: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the truth in the type of the predictions, and which rows have it."""
    if classes is not None and classes.dtype.kind == "U":
        labels = as_text(column)
        # fractions are classes by their text, of which there are several
        numbers = pd.to_numeric(pd.Series(classes), errors="coerce")
        if numbers.notna().all():
            labels = labels.replace(dict(zip(as_text(numbers), classes, strict=True)))
        return labels.fillna("").to_numpy(dtype=str), labels.notna().to_numpy()
    values, wrong = as_numbers(column, comma)
    _refuse(column, wrong, "numbers")
    known = values.notna().to_numpy()
    filled = values.fillna(0.0).to_numpy()
    return filled if classes is None else filled.astype(classes.dtype), known


def _kinds(fitted: ColumnTransformer) -> dict[str, str]:
    """Return the columns that a model was fitted on, each with the kind it had then."""
    kinds = dict.fromkeys(fitted.feature_names_in_, "long")
    return kinds | {name: kind for kind, _, names in fitted.transformers if isinstance(names, list) for name in names}


def _require(raw: RawTable, names: Sequence[str], why: str, place: str) -> None:
    missing = [repr(name) for name in names if name not in raw.frame.columns]
    if missing:
        raise ValueError(f"{place} lacks columns that {why}, {', '.join(missing)}; add them.")


def _known_columns(fitted: ColumnTransformer, kinds: dict[str, str], raw: RawTable) -> pd.DataFrame:
    """Return the columns that the model was fitted on, each of the kind it had then."""
    parsed = fitted.named_transformers_["written"].kind_to_columns_["datetime"] if "written" in kinds.values() else []
    columns = {}
    for name, kind in kinds.items():
        column = raw.frame[name]
        if kind in ("numbers", "commas"):
            columns[name], wrong = as_numbers(column, raw.comma or kind == "commas")
            _refuse(column, wrong, "numbers")
        elif kind == "dates":
            columns[name], wrong = as_dates(column)
            _refuse(column, wrong, "dates")
        else:
            # text that was found to be dates may be dates already
            read = read_column(column) if name in parsed else None
            columns[name] = read.values if read is not None and read.kind == "date" else as_text(column)
    return pd.DataFrame(columns, copy=False)


def _refuse(column: pd.Series, wrong: pd.Series, expected: str) -> None:
    """Say which value is not what its column is expected to hold, if one is not."""
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"The column {column.name!r} is expected to hold {expected}, and holds {str(column.iloc[row])!r} in row "
            f"{row + 1}; correct it or leave it empty."
        )
