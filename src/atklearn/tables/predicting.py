"""Predictions for new rows: read as the rows were that the model was fitted on, and scored where the truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from atklearn.losses.individual import Array
from atklearn.measures.answers import Answers
from atklearn.measures.catalogue import MEASURES, evaluate_measures
from atklearn.measures.scores import answers_of
from atklearn.runtime.messages import most_alike
from atklearn.tables.columns import ISO, as_dates, as_numbers, as_text
from atklearn.tables.features import known_categories
from atklearn.tables.reading import RawTable, check_file, is_svmlight, numbered_frame, read_raw, read_svmlight
from atklearn.tables.tabular import Table, as_raw_table, listed

__all__ = ["Predicted", "predict_table"]

_MOST_NAMED = 5


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
    notes : list of str
        Sentences on columns that the model does not use, and on categories that it has not seen.
    """

    table: pd.DataFrame
    scores: dict[str, float] = field(default_factory=dict)
    n_scored: int = 0
    target: str | None = None
    notes: list[str] = field(default_factory=list)

    def scores_in_words(self) -> str:
        """Return the scores as a sentence."""
        shown = [
            f"{measure.title} {measure.factor * value:.{measure.digits}f}{measure.unit}"
            for measure, value in ((MEASURES[name], value) for name, value in self.scores.items())
        ]
        return f"On the {self.n_scored} rows with a value of {self.target!r}: {', '.join(shown)}."


def predict_table(
    model: Pipeline,
    table: str | Path | Table,
    *,
    ids: Sequence[str] = (),
    threshold: float | None = None,
    target: str | None = None,
    encoding: str | None = None,
    max_memory: float | None = None,
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
    encoding, max_memory
        As :func:`atklearn.tables.tabular.read_table` takes them.

    Returns
    -------
    predicted : Predicted

    Examples
    --------
    >>> import tempfile
    >>> from atklearn.estimators.linear import ATkClassifier
    >>> from atklearn.tables.features import make_features
    >>> from atklearn.tables.tabular import read_table
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
    source = _Source(
        check_file(table) if isinstance(table, str | Path) else table, tuple(ids), target, encoding, max_memory
    )
    first = model
    while isinstance(first, Pipeline):
        if not first.steps:
            raise ValueError("The model is a pipeline without steps, which predicts nothing; save a fitted model.")
        first = first[0]
    classes = np.asarray(model.classes_) if hasattr(model, "classes_") else None
    if isinstance(first, ColumnTransformer):
        fitted_to = getattr(model, "target_name_", None)
        taken = _take_named(first, source, fitted_to, text=classes is not None and classes.dtype.kind == "U")
    else:
        taken = _take_svmlight(first, source)
    answers = _answers(model, taken.X, threshold)
    columns = {"prediction": answers.predictions, **_columns_of(answers)}
    twice = [name for name in taken.carried if name in columns]
    if twice:
        raise ValueError(f"The column {twice[0]!r} has the name of one that is predicted; rename it.")
    predicted = Predicted(pd.DataFrame({**taken.carried, **columns}), notes=taken.notes)
    if taken.truth is None:
        return predicted
    values, known = _truth(taken.truth, classes, taken.comma)
    if not known.any():
        return predicted
    found = evaluate_measures(replace(answers, y=values).about(known))
    scores = {name: float(value) for name, value in found.items() if np.isfinite(value)}
    return replace(predicted, scores=scores, n_scored=int(known.sum()), target=str(taken.truth.name))


@dataclass(frozen=True)
class _Source:
    """A table to predict, and what is asked of it."""

    table: Path | Table
    ids: tuple[str, ...]
    target: str | None
    encoding: str | None
    max_memory: float | None

    @property
    def place(self) -> str:
        """What to call it at the beginning of a sentence."""
        return str(self.table) if isinstance(self.table, Path) else "The table"

    def svmlight(self, n_features: int | None = None) -> tuple[csr_array, Array] | None:
        """Return features and labels if it is an SVMlight file, of which no columns can be asked for by name."""
        if not (isinstance(self.table, Path) and is_svmlight(self.table)):
            return None
        if self.ids or self.target is not None or self.encoding is not None:
            raise ValueError(f"{self.place} has no named columns; give no id, no target and no encoding.")
        return read_svmlight(self.table, n_features, self.max_memory)

    def raw(self, text: Sequence[str]) -> RawTable:
        """Return the named columns, of which some stay text."""
        if isinstance(self.table, Path):
            return read_raw(self.table, text, self.encoding, self.max_memory)
        return RawTable(as_raw_table(self.table, None)[0])


@dataclass(frozen=True)
class _Taken:
    """Rows as a model takes them, the truth about them if it is there, and the columns to carry through."""

    X: pd.DataFrame | csr_array
    truth: pd.Series | None
    carried: dict[str, pd.Series] = field(default_factory=dict)
    comma: bool = False
    notes: list[str] = field(default_factory=list)


def _take_named(fitted: ColumnTransformer, source: _Source, fitted_to: str | None, text: bool) -> _Taken:
    """Return the rows of a table with the columns that a model was fitted on; labels may have to stay text."""
    kinds = dict.fromkeys(fitted.feature_names_in_, "long")
    kinds |= {name: kind for kind, _, names in fitted.transformers if isinstance(names, list) for name in names}
    numbered = all(name.isdecimal() for name in kinds)
    if isinstance(source.table, Path) and is_svmlight(source.table) and not numbered:
        raise ValueError(
            f"{source.place} does not fit the model, which was fitted on named columns, in CSV, Excel, JSON lines or "
            "Parquet; convert it."
        )
    read = source.svmlight()
    if read is not None:
        # what does not occur in a file is zero, and no column
        frame = numbered_frame(*read).reindex(columns=list(kinds), fill_value=0.0)
        return _Taken(_known_columns(kinds, RawTable(frame)), _told_by(read[1]))
    wanted = source.target if source.target is not None else fitted_to
    texts = [name for name, kind in kinds.items() if kind not in ("numbers", "commas")]
    raw = source.raw([*texts, *source.ids, *([wanted] if wanted is not None and text else [])])
    asked = [*source.ids, *([] if source.target is None else [source.target])]
    _require(raw, asked, "are asked for", source.place)
    _require(raw, list(kinds), "the model was fitted on", source.place)
    X = _known_columns(kinds, raw)
    unused = [name for name in raw.frame.columns if name not in {*kinds, *asked, wanted}]
    notes = [f"Not used by the model: {listed(unused, _MOST_NAMED)}."] if unused else []
    for name, known in known_categories(fitted).items():
        new = ~X[name].isin(known) & X[name].notna()
        if new.any():
            values = listed(list(X[name][new].unique()), _MOST_NAMED)
            notes.append(f"{name!r} holds what the model has not seen, in {int(new.sum())} of {len(X)} rows: {values}.")
    truth = raw.frame[wanted] if wanted in raw.frame.columns else None
    return _Taken(X, truth, {name: as_text(raw.frame[name]) for name in source.ids}, raw.comma, notes)


def _take_svmlight(fitted: BaseEstimator, source: _Source) -> _Taken:
    """Return the rows of an SVMlight file for a model that was fitted on one."""
    read = source.svmlight(fitted.n_features_in_)
    if read is None:
        raise ValueError(
            f"{source.place} does not fit the model, which was fitted on numbered features, in SVMlight; convert it."
        )
    return _Taken(read[0], _told_by(read[1]))


def _told_by(labels: Array) -> pd.Series | None:
    """Return the labels of an SVMlight file: every row has one, the same in all rows if it stands for nothing."""
    return pd.Series(labels, name="target") if np.unique(labels).size > 1 else None


def _answers(model: Pipeline, X: pd.DataFrame | csr_array, threshold: float | None) -> Answers:
    """Return what a model says of rows whose truth is not yet known."""
    answers = answers_of(model, X, np.zeros(X.shape[0]))
    if threshold is None:
        return answers
    classes = answers.classes
    if classes is None or classes.size != 2:
        kind = "predicts numbers" if classes is None else f"has {classes.size} classes"
        raise ValueError(f"A threshold is expected for a model of two classes, and this one {kind}; leave it out.")
    if answers.probabilities is not None and not 0.0 <= threshold <= 1.0:
        raise ValueError(f"A threshold of probabilities is expected from 0 to 1, got {threshold:g}.")
    assert answers.decisions is not None
    value = answers.decisions[0] if answers.probabilities is None else answers.probabilities[1]
    return replace(answers, predictions=classes[(value >= threshold).astype(np.intp)])


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
    column: pd.Series, classes: npt.NDArray[np.generic] | None, comma: bool
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.bool_]]:
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


def _require(raw: RawTable, names: Sequence[str], why: str, place: str) -> None:
    there = list(raw.frame.columns)
    missing = [name for name in names if name not in there]
    if not missing:
        return
    close = most_alike(missing[0], [name for name in there if name not in names])
    remedy = "add them." if close is None else f"did you mean {close!r}, which is there?"
    raise ValueError(f"{place} lacks columns that {why}, {', '.join(map(repr, missing))}; {remedy}")


def _known_columns(kinds: dict[str, str], raw: RawTable) -> pd.DataFrame:
    """Return the columns that the model was fitted on, each of the kind it had then."""
    columns = {}
    for name, kind in kinds.items():
        column = raw.frame[name]
        if kind in ("numbers", "commas"):
            columns[name], wrong = as_numbers(column, raw.comma or kind == "commas")
            _refuse(column, wrong, "numbers")
        elif kind.startswith("dates"):
            date_format = kind.removeprefix("dates ")
            columns[name], wrong = as_dates(column, date_format)
            _refuse(column, wrong, "dates" if date_format == ISO else f"dates such as {date_format}")
        else:
            columns[name] = as_text(column)
    return pd.DataFrame(columns, copy=False)


def _refuse(column: pd.Series, wrong: pd.Series, expected: str) -> None:
    """Say which value is not what its column is expected to hold, if one is not."""
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"The column {column.name!r} is expected to hold {expected}, and holds {str(column.iloc[row])!r} in row "
            f"{row + 1}; correct it or leave it empty."
        )
