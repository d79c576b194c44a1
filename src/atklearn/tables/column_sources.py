"""Which column of a table every made feature comes from."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

__all__ = ["feature_sources"]


def feature_sources(transformer: Any) -> list[str]:
    """Return, for every feature that a fitted transformer puts out, the name of the column it is made of.

    Parameters
    ----------
    transformer : Pipeline or MaxAbsScaler
        From :func:`atklearn.tables.tabular.make_features`, fitted.

    Returns
    -------
    sources : list of str

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from atklearn.tables.tabular import TabularData, make_features
    >>> features = pd.DataFrame({"rain": [0.5, np.nan, 0.1], "town": ["Ulm", "Bonn", None]}).astype({"town": "string"})
    >>> data = TabularData("bikes", features, np.arange(3.0), "regression", "rides", None, None, np.arange(3), "")
    >>> feature_sources(make_features(data).fit(features))
    ['rain', 'town', 'town', 'town', 'rain']
    """
    if not isinstance(transformer, Pipeline):
        return [str(name) for name in transformer.get_feature_names_out()]
    columns = transformer["columns"]
    made: list[str] = []
    for name, maker, taken in columns.transformers_:
        place = columns.output_indices_[name]
        if place.stop > place.start:
            names = [taken] if isinstance(taken, str) else [str(column) for column in taken]
            made += _of_one(maker, names, place.stop - place.start)
    return made + [made[place] for place in transformer["impute"].indicator_.features_]


def _of_one(maker: Any, columns: list[str], n_made: int) -> list[str]:
    """Return the sources of what one maker makes: it says so, or makes one feature of each column, or has one."""
    if isinstance(maker, Pipeline):
        maker = maker[-1]
    if hasattr(maker, "input_to_outputs_"):
        source = {name: str(column) for column, made in maker.input_to_outputs_.items() for name in made}
        return [source[name] for name in maker.get_feature_names_out()]
    return columns if len(columns) == n_made else columns * n_made
