"""A fit publishes in one move: whatever stops it, wherever, and whoever looks meanwhile sees one whole fit."""

from __future__ import annotations

import pickle
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import GaussianNB

from atklearn import (
    ATkClassifier,
    ATkClassifierCV,
    ATkRegressor,
    ATkRegressorCV,
    ATkSVC,
    ATkSVR,
    SGDATkClassifier,
    SGDATkRegressor,
)
from atklearn.boosting import ATkBoostingClassifier, ATkBoostingRegressor
from atklearn.correction import TailCorrectedClassifier, TailCorrectedRegressor

GRID = {"ks": [0.5, 1.0], "Cs": [1.0], "cv": 2}
STEPS = {"random_state": 0, "max_iter": 2, "tol": None}
ESTIMATORS = [
    ATkClassifier(k=0.5),
    ATkClassifier(k=0.5, warm_start=True),
    ATkClassifier(k=0.9, trim=0.1, n_init=1),
    ATkRegressor("absolute_error", k=0.5),
    ATkClassifierCV(**GRID),
    ATkRegressorCV(**GRID),
    ATkSVC(k=0.5),
    ATkSVR(k=0.5),
    SGDATkClassifier(**STEPS),
    SGDATkRegressor(**STEPS),
    ATkBoostingClassifier(k=0.5, n_estimators=3, n_jobs=1),
    ATkBoostingRegressor(tail=0.2, n_estimators=3, n_jobs=1),
    TailCorrectedClassifier(GaussianNB(), k=0.9, C=1.0),
    TailCorrectedRegressor(Ridge(), k=0.5, C=1.0, experts=None),
]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")


def data(estimator, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3 + seed))
    score = X[:, 0] + 0.5 * rng.standard_normal(60)
    return X, score > 0.0 if is_classifier(estimator) else score


def state(model):
    """Return all that is fitted, what warm starts and streams go on from included, in a form that can be compared."""
    fitted = {}
    for name, value in vars(model).items():
        if name == "_solutions":
            fitted[name] = [solution.coef.tobytes() for solution in value]
        elif name == "_stream":
            fitted[name] = [(each.v.tobytes(), each.state.tobytes()) for each in value.descents]
        elif name == "best_estimator_":
            fitted[name] = state(value)
        elif name.endswith("_") or name.startswith("_"):
            fitted[name] = np.asarray(value).tobytes() if isinstance(value, float | int | np.ndarray) else type(value)
    return fitted


class StopAt:
    """Raise where the so-manieth function of ours begins or ends: as a signal would, or a lack of memory."""

    def __init__(self, place, error):
        self.place, self.error, self.seen = place, error, 0

    def __call__(self, frame, event, _):
        if event in ("call", "return") and frame.f_globals.get("__name__", "").startswith("atklearn"):
            self.seen += 1
            if self.seen == self.place:
                raise self.error

    def fit(self, model, X, y, how="fit"):
        sys.setprofile(self)
        try:
            getattr(model, how)(X, y)
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_fit_that_is_stopped_anywhere_leaves_the_former_one_or_the_new_one(estimator):
    former, other = data(estimator, 0), data(estimator, 1)
    start = clone(estimator).fit(*former)
    done, whole = pickle.loads(pickle.dumps(start)), StopAt(-1, None)
    whole.fit(done, *other)
    old, new = state(start), state(done)
    assert old != new
    places = [1, *np.random.default_rng(0).integers(2, whole.seen, 6), *range(whole.seen - 4, whole.seen)]
    for number, place in enumerate(places):
        model = pickle.loads(pickle.dumps(start))
        error = (KeyboardInterrupt, MemoryError)[number % 2]
        try:
            StopAt(place, error()).fit(model, *other)
        except (error, SystemError):  # the latter where compiled code was about to be called
            assert state(model) in (old, new)
        model.predict((former if state(model) == old else other)[0])


@pytest.mark.parametrize("estimator", [SGDATkClassifier(), SGDATkRegressor()], ids=str)
def test_a_block_is_learned_or_not(estimator):
    X, y = data(estimator, 0)
    start = clone(estimator).fit(X, y)
    done, whole = pickle.loads(pickle.dumps(start)), StopAt(-1, None)
    whole.fit(done, X, y, "partial_fit")
    for place in range(1, whole.seen, 7):
        model = pickle.loads(pickle.dumps(start))
        try:
            StopAt(place, KeyboardInterrupt()).fit(model, X, y, "partial_fit")
        except (KeyboardInterrupt, SystemError):
            assert state(model) in (state(start), state(done))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_bad_data_leave_the_former_fit(estimator):
    X, y = data(estimator, 0)
    model = clone(estimator).fit(X, y)
    before = state(model)
    for bad_X, bad_y in ((np.full_like(X, np.inf), y), (X, y[:-1]), (X[:0], y[:0])):
        with pytest.raises(ValueError):  # noqa: PT011 - the messages are scikit-learn's
            model.fit(bad_X, bad_y)
        assert state(model) == before


@pytest.mark.parametrize("estimator", [ATkClassifier(k=0.5), ATkRegressorCV(**GRID), SGDATkRegressor(**STEPS)], ids=str)
def test_a_copy_made_while_another_thread_fits_is_of_one_fit(estimator):
    parts = [data(estimator, seed) for seed in (0, 1)]
    wholes = [state(clone(estimator).fit(*part)) for part in parts]
    model = clone(estimator).fit(*parts[0])

    def fit():
        for step in range(20):
            model.fit(*parts[step % 2])

    thread = threading.Thread(target=fit)
    thread.start()
    while thread.is_alive():
        assert state(pickle.loads(pickle.dumps(model))) in wholes
