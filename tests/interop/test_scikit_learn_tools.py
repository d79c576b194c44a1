"""scikit-learn's tools around our estimators: each gives what doing its work by hand gives."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import StackingClassifier, VotingRegressor
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_predict
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from atklearn import ATkClassifier, ATkRegressor, ATkSVC, ATkSVR, SGDATkClassifier
from atklearn.boosting import ATkBoostingRegressor

FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
CLASSIFIERS = [ATkClassifier(k=0.8), ATkClassifier("hinge", k=0.8), SGDATkClassifier(random_state=0), ATkSVC()]
REGRESSORS = [ATkRegressor(k=0.5), ATkSVR(), ATkBoostingRegressor(n_estimators=5, n_jobs=1)]


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_a_pipeline_is_its_steps_one_after_another(flowers, estimator):
    X, y = flowers
    X = 10.0 * X + 3.0
    scaler = StandardScaler().fit(X)
    by_hand = clone(estimator).fit(scaler.transform(X), y)
    model = make_pipeline(StandardScaler(), estimator).fit(X, y)
    assert_array_equal(model.decision_function(X), by_hand.decision_function(scaler.transform(X)))
    assert model.score(X, y) == by_hand.score(scaler.transform(X), y)


@pytest.mark.parametrize(
    ("estimator", "grid"),
    [
        (ATkClassifier(), {"k": [0.7, 1.0], "C": [0.1, 10.0]}),
        (ATkClassifier(k=0.8), {"loss": ["log_loss", "hinge", "squared_hinge"]}),
        (ATkSVC(), {"k": [0.5, 1.0], "C": [1.0, 100.0]}),
    ],
    ids=repr,
)
def test_a_grid_search_takes_the_best_mean_of_the_folds(flowers, estimator, grid):
    X, y = flowers
    search = GridSearchCV(estimator, grid, cv=FOLDS).fit(X, y)
    means = [
        np.mean([clone(estimator).set_params(**cell).fit(X[a], y[a]).score(X[b], y[b]) for a, b in FOLDS.split(X, y)])
        for cell in search.cv_results_["params"]
    ]
    assert len(means) == np.prod([len(values) for values in grid.values()])
    assert_allclose(search.cv_results_["mean_test_score"], means)
    best = clone(estimator).set_params(**search.cv_results_["params"][int(np.argmax(means))]).fit(X, y)
    assert_array_equal(search.decision_function(X), best.decision_function(X))


def test_a_grid_search_over_losses_of_a_regression(diabetes):
    grid = {"loss": ["squared_error", "absolute_error", "huber"], "k": [0.3, 1.0]}
    search = GridSearchCV(ATkRegressor(), grid, cv=3, scoring="neg_max_error", error_score="raise").fit(*diabetes)
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0.0


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_calibration_maps_the_scores_of_rows_unseen_to_frequencies(two_flowers, estimator):
    X, y = two_flowers
    model = CalibratedClassifierCV(estimator, method="isotonic", ensemble=False, cv=FOLDS).fit(X, y)
    unseen = cross_val_predict(estimator, X, y, cv=FOLDS, method="decision_function")
    by_hand = IsotonicRegression(out_of_bounds="clip").fit(unseen, y)
    scores = clone(estimator).fit(X, y).decision_function(X)
    assert_allclose(model.predict_proba(X)[:, 1], by_hand.predict(scores))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_cross_val_predict_predicts_every_row_without_it(flowers, estimator):
    X, y = flowers
    by_hand = np.empty_like(y)
    for train, test in FOLDS.split(X, y):
        by_hand[test] = clone(estimator).fit(X[train], y[train]).predict(X[test])
    assert_array_equal(cross_val_predict(estimator, X, y, cv=FOLDS), by_hand)


@pytest.mark.parametrize("estimator", REGRESSORS, ids=repr)
def test_permuting_a_column_of_noise_costs_nothing(diabetes, estimator):
    X, y = diabetes
    informative = X[:, 2]
    made = np.column_stack([informative, np.zeros(len(y))])
    model = estimator.fit(made, y)
    found = permutation_importance(model, made, y, n_repeats=3, random_state=0).importances_mean
    assert found[0] > 0.05
    assert found[1] == 0.0


def test_a_stack_fits_on_predictions_of_rows_unseen(two_flowers):
    X, y = two_flowers
    members = [("linear", ATkClassifier(k=0.8)), ("kernel", ATkSVC())]
    stack = StackingClassifier(members, final_estimator=ATkClassifier(k=1.0), cv=FOLDS).fit(X, y)
    columns = [
        cross_val_predict(ATkClassifier(k=0.8), X, y, cv=FOLDS, method="predict_proba")[:, 1],
        cross_val_predict(ATkSVC(), X, y, cv=FOLDS, method="decision_function"),
    ]
    by_hand = ATkClassifier(k=1.0).fit(np.column_stack(columns), y)
    assert_allclose(stack.final_estimator_.coef_, by_hand.coef_)


def test_a_vote_is_the_mean(diabetes):
    X, y = diabetes
    members = [ATkRegressor(k=0.5), ATkSVR(), Ridge()]
    vote = VotingRegressor([(str(i), member) for i, member in enumerate(members)]).fit(X, y)
    assert_allclose(vote.predict(X), np.mean([clone(member).fit(X, y).predict(X) for member in members], axis=0))


@pytest.mark.parametrize("estimator", [ATkClassifier("hinge", k=0.8), ATkSVC()], ids=repr)
def test_one_against_the_rest_is_what_we_do_ourselves(flowers, estimator):
    X, y = flowers
    ours = clone(estimator).fit(X, y)
    theirs = OneVsRestClassifier(estimator).fit(X, y)
    assert_allclose(theirs.decision_function(X), ours.decision_function(X), atol=1e-3)
    assert accuracy_score(ours.predict(X), theirs.predict(X)) > 0.99


def test_a_transformed_target_comes_back_in_its_units(diabetes):
    X, y = diabetes
    model = TransformedTargetRegressor(ATkRegressor("absolute_error", k=0.5), func=np.log, inverse_func=np.exp)
    by_hand = ATkRegressor("absolute_error", k=0.5).fit(X, np.log(y))
    assert_allclose(model.fit(X, y).predict(X), np.exp(by_hand.predict(X)))


@pytest.mark.parametrize("estimator", [ATkClassifier(k=0.8), ATkSVC("linear"), ATkRegressor(k=0.8)], ids=repr)
def test_features_are_selected_by_their_coefficients(two_flowers, estimator):
    X, y = two_flowers
    chosen = SelectFromModel(estimator, max_features=2, threshold=-np.inf).fit(X, y)
    size = np.abs(clone(estimator).fit(X, y).coef_).ravel()
    assert set(chosen.get_support(indices=True)) == set(np.argsort(size)[-2:])


def test_trees_select_by_their_gains(diabetes):
    y = diabetes[1]
    chosen = SelectFromModel(ATkBoostingRegressor(n_estimators=5, n_jobs=1), max_features=1, threshold=-np.inf)
    noise = np.random.default_rng(0).standard_normal((len(y), 2))
    assert chosen.fit(np.column_stack([noise, y]), y).get_support().tolist() == [False, False, True]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_set_output_hands_named_columns_to_the_model(diabetes, kind):
    X, y = diabetes
    frame = pytest.importorskip(kind).DataFrame({f"x{i}": X[:, i] for i in range(X.shape[1])})
    selector = SelectFromModel(ATkRegressor(k=0.5), max_features=3, threshold=-np.inf)
    model = make_pipeline(StandardScaler(), selector, ATkRegressor(k=0.5)).set_output(transform=kind).fit(frame, y)
    names = model[:-1].get_feature_names_out()
    assert_array_equal(model[-1].feature_names_in_, names)
    assert type(model[:-1].transform(frame)) is type(frame)
    assert_array_equal(names, np.array(list(frame.columns))[model[1].get_support()])


def test_the_average_in_a_search_is_logistic_regression(two_flowers):
    X, y = two_flowers
    ours = GridSearchCV(ATkClassifier(k=1.0), {"C": [0.1 * 100, 1.0 * 100]}, cv=KFold(3, shuffle=True, random_state=0))
    theirs = GridSearchCV(LogisticRegression(tol=1e-8), {"C": [0.1, 1.0]}, cv=KFold(3, shuffle=True, random_state=0))
    assert_allclose(
        ours.fit(X, y).cv_results_["mean_test_score"], theirs.fit(X, y).cv_results_["mean_test_score"], atol=1e-12
    )
