"""A table as people have them: all that is odd in it is named, and a model is as good as on columns cleaned by hand."""

from __future__ import annotations

import numpy as np
import pytest
from made_tables import messy_table
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atklearn.study.last_fit import fit_recommended
from atklearn.study.outcome import Recommendation
from atklearn.study.saving import load_model, save_model
from atklearn.tables.features import feature_names, make_features
from atklearn.tables.predicting import predict_table
from atklearn.tables.tabular import read_table

LEAK = "gekündigt am"


def write(frame, path):
    frame.to_csv(path, index=False, sep=";", encoding="cp1252")
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(messy_table()[0], tmp_path_factory.mktemp("messy") / "kunden.csv")


def test_all_that_is_odd_is_named(path):
    data = read_table(path, "bleibt")
    assert data.health["rows_left_out"] == [[12, "no target"]]
    assert {name: (use, how) for name, use, how in data.health["columns"]} == {
        "Unnamed: 0": ("left out", "counts the rows"),
        "Kunden-Nr": ("left out", "different in every row, and named like an identifier"),
        "token": ("left out", "different in every row, like an identifier"),
        "Größe €": ("number", "read from text such as '1.650,88 €', 25 values missing"),
        "Anteil": ("number", "read from text such as '22,3 %'"),
        "Gewicht": ("number", "read from text such as '60,61'"),
        "Klubkarte": ("number", ""),
        "Alter": ("number", "9 infinite values taken as missing"),
        "Beginn": ("date", ""),
        "Anmerkung": ("text", ""),
        "PLZ": ("category", ""),
        "Land": ("left out", "the same value in every row"),
        "leer": ("left out", "no values"),
        "Gewicht (kg)": ("left out", "the same as 'Gewicht'"),
        LEAK: ("date", "394 values missing"),
        "bleibt": ("target", ""),
    }
    (warning,) = data.health["warnings"]
    assert f"'{LEAK}' alone predicts 'bleibt' almost perfectly (balanced accuracy 100 %)" in warning
    (note,) = data.notes
    assert "Windows-1252" in note


def balanced_error(maker, features, target):
    model = make_pipeline(maker, LogisticRegression(max_iter=1000))
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    return 1.0 - cross_val_score(model, features, target, cv=folds, scoring="balanced_accuracy").mean()


def test_a_model_is_as_good_as_on_columns_cleaned_by_hand(tmp_path):
    """Within a point of balanced error, over three tables, since one has 800 rows."""
    as_they_are, by_hand = [], []
    for seed in range(3):
        messy, clean = messy_table(seed=seed)
        data = read_table(write(messy, tmp_path / "t.csv"), "bleibt", drop=[LEAK])
        as_they_are.append(balanced_error(make_features(data), data.features, data.target))
        cleaned = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
        by_hand.append(balanced_error(cleaned, clean.iloc[data.rows - 1], data.target))
    assert 0.2 < np.mean(by_hand) < 0.3, "there is something to learn, and not all of it"
    assert np.mean(as_they_are) - np.mean(by_hand) < 0.01


def test_the_components_of_a_text_weigh_as_much_as_a_number(path):
    data = read_table(path, "bleibt", drop=[LEAK])
    transformer = make_features(data)
    X = transformer.fit_transform(data.features)
    text = np.array([name.startswith("Anmerkung_") for name in feature_names(transformer)])
    assert text.sum() == 30
    np.testing.assert_allclose(X[:, text].var(axis=0).sum(), 1.0)
    np.testing.assert_allclose(X[:, ~text].var(axis=0), 1.0, rtol=1e-5)
    np.testing.assert_allclose(transformer.transform(data.features), X, atol=1e-5)


def test_new_rows_need_no_columns_that_were_left_out(path, tmp_path):
    data = read_table(path, "bleibt", drop=[LEAK])
    model = fit_recommended(data, Recommendation("log_loss", "balanced", 1.0, 0.1, None, ""))
    save_model(model, tmp_path / "kunden.skops")
    new = messy_table(n=400, seed=1)[0][["Kunden-Nr", *data.features, "bleibt"]]
    new.loc[0, "Alter"], new.loc[1, "Größe €"] = "1e200", ""
    predicted = predict_table(
        load_model(tmp_path / "kunden.skops"), write(new, tmp_path / "neu.csv"), ids=["Kunden-Nr"]
    )
    assert predicted.table["Kunden-Nr"].tolist() == new["Kunden-Nr"].astype(str).tolist()
    assert (predicted.target, predicted.n_scored) == ("bleibt", 388)
    assert predicted.scores["balanced_error"] < 0.35
