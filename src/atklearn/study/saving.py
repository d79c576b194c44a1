"""Models in files: saved with skops, loaded only if nothing but our own kinds of objects is in them."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any, get_args
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd
import skops.io
from scipy.sparse import csr_array
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from atklearn.correction.classifier import TailCorrectedClassifier
from atklearn.correction.regressor import TailCorrectedRegressor
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.losses.individual import INDIVIDUAL_LOSSES, Task
from atklearn.runtime.files import write_whole
from atklearn.study.families import FAMILIES, BoostedModels, has_boosting
from atklearn.study.last_fit import fit_recommended
from atklearn.study.outcome import Recommendation
from atklearn.tables.features import make_features
from atklearn.tables.reading import check_memory
from atklearn.tables.tabular import TabularData

__all__ = ["check_model_path", "load_model", "save_model"]

_SUFFIX = ".skops"
# Of LightGBM, what a correction may be put on; what they hold, boosted models of ours hold, too.
_BOOSTERS = frozenset({"lightgbm.sklearn.LGBMClassifier", "lightgbm.sklearn.LGBMRegressor"})
_PER_BYTE = 3  # bytes of memory that a byte of an expanded model takes while it is loaded


def check_model_path(path: str | Path) -> Path:
    """Return the path of a model if its suffix says that it is safe to load, and its folder is there.

    Examples
    --------
    >>> check_model_path("bikes.pkl")
    Traceback (most recent call last):
        ...
    ValueError: A model is expected in a file that ends in .skops, got 'bikes.pkl'; name it so.
    """
    path = Path(path)
    if path.suffix.lower() != _SUFFIX:
        raise ValueError(f"A model is expected in a file that ends in {_SUFFIX}, got {str(path)!r}; name it so.")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"A model is expected in a folder that exists, got {str(path)!r}; make the folder first.")
    return path


def save_model(pipeline: Pipeline, path: str | Path) -> None:
    """Save a fitted pipeline, whole or not at all.

    Parameters
    ----------
    pipeline : Pipeline
        Its first step is made by :func:`atklearn.tables.features.make_features`, its last one predicts.
    path : str or Path
        With the suffix .skops.

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
    path = check_model_path(path)
    if not isinstance(pipeline, Pipeline):
        raise ValueError(f"A Pipeline is expected, got {type(pipeline).__name__}; put make_features in front of it.")
    check_is_fitted(pipeline)
    content = skops.io.dumps(pipeline, compression=ZIP_DEFLATED)
    foreign = _foreign_types(content)
    if foreign:
        raise ValueError(f"The pipeline holds {', '.join(foreign)}, which would not be loaded again; leave that out.")
    write_whole(path, content)


def load_model(path: str | Path, max_memory: float | None = None) -> Pipeline:
    """Load a pipeline, refusing any file with a kind of object that no pipeline of ours has.

    Parameters
    ----------
    path : str or Path
        Of a file that :func:`save_model` wrote.
    max_memory : float, default=None
        What loading may take of memory, in gigabytes; by default half of what the machine has.

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
    path = check_model_path(path)
    if not path.is_file():
        raise ValueError(f"{path} is expected to be a saved model, and there is no such file; check the path.")
    content = path.read_bytes()  # once, so that what is loaded is what was looked at
    try:
        with ZipFile(BytesIO(content)) as file:
            needed = _PER_BYTE * sum(part.file_size for part in file.infolist())
    except Exception:  # the next to read it says so
        needed = 0
    check_memory(path, needed, max_memory)
    try:
        foreign = _foreign_types(content)
        model = None if foreign else skops.io.loads(content, trusted=sorted(_trusted_types()))
    except Exception as error:  # whatever the parser raises, the file is what is wrong
        raise ValueError(
            f"{path} is expected to be a model saved by atklearn, and cannot be read as one; save it again."
        ) from error
    if any(name.startswith("lightgbm.") for name in foreign) and not has_boosting():
        BoostedModels.check_installed()
    if foreign:
        raise ValueError(
            f"Refusing to load {path}, since no model saved by atklearn holds {', '.join(foreign)}; "
            "save it again from a source that you trust."
        )
    if not isinstance(model, Pipeline):
        raise ValueError(f"{path} is expected to hold a pipeline, and holds a {type(model).__name__}; save a model.")
    return model


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
    saved.append(ATkRegressor().fit(sparse, count % 7))  # with what its choice of k saw
    families = [name for name in FAMILIES if name != "boosting" or has_boosting()]
    for model, task in product(families, get_args(Task)):  # with mapped decision values, as a comparison may recommend
        data = TabularData("", sparse, count % 2, task, "", None, None, count, "")
        loss = FAMILIES[model]().losses(task)[0]
        saved.append(fit_recommended(data, Recommendation(loss, "plain", 1.0, 1.0, (1.0, 0.5), "", model)))
    trees = HistGradientBoostingRegressor(max_iter=1), ExtraTreesRegressor(1)  # what corrections have by default
    saved.append(TailCorrectedRegressor(trees[0], k=1.0, C=1.0, experts=[trees[1]]).fit(count[:, None], count % 7))
    saved.append(TailCorrectedClassifier(LogisticRegression(), k=1.0, C=1.0).fit(count[:, None], count % 2))
    boosters = _BOOSTERS if has_boosting() else frozenset()
    return boosters.union(skops.io.get_untrusted_types(data=skops.io.dumps(saved)))
