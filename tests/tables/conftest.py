"""A model of a table, fitted as a comparison recommends it."""

from __future__ import annotations

import pytest

from atklearn.study.last_fit import fit_recommended
from atklearn.study.outcome import Recommendation
from atklearn.study.saving import load_model, save_model
from atklearn.tables.tabular import make_table


@pytest.fixture
def fitted():
    """Return a function that fits a model to a table, and saves and loads it if it is given a folder."""

    def fit(table, target="y", loss="log_loss", tmp_path=None, **options):
        recommended = Recommendation(loss, "plain", 1.0, 1.0, None, "")
        model = fit_recommended(make_table(table, target, name="t", **options), recommended)
        if tmp_path is None:
            return model
        save_model(model, tmp_path / "model.skops")
        return load_model(tmp_path / "model.skops")

    return fit
