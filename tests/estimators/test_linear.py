"""The linear estimators: agreement with scikit-learn, scikit-learn's own checks, and the habits its users expect."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose
from scikit_learn_checks import parametrized_with_checks
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, LinearSVC, NuSVR

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, Huber, IndividualLoss
from atklearn.datasets import make_toy
from atklearn.encoding import encoded as encoding


@parametrized_with_checks([ATkClassifier(), ATkRegressor()])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class TestAverageIsScikitLearn:
    """k = n gives the known estimators; scikit-learn's C, on the sum of losses, is ours divided by n."""

    def test_log_loss_is_logistic_regression(self, binary):
        X, y = binary
        ours = ATkClassifier("log_loss", k=1.0, C=50.0, tol=1e-12).fit(X, y)
        theirs = LogisticRegression(C=50.0 / len(y), tol=1e-10, max_iter=10_000).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5, atol=1e-7)
        assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-5, atol=1e-7)
        assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)

    def test_hinge_with_a_penalised_intercept_is_linear_svc(self, binary):
        X, y = binary
        ours = ATkClassifier("hinge", k=1.0, C=20.0, penalize_intercept=True, tol=1e-9).fit(X, y)
        theirs = LinearSVC(loss="hinge", C=20.0 / len(y), tol=1e-8, max_iter=1_000_000, random_state=0).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
        assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)

    def test_squared_hinge_is_linear_svc(self, binary):
        X, y = binary
        ours = ATkClassifier("squared_hinge", k=1.0, C=20.0, penalize_intercept=True, tol=1e-12).fit(X, y)
        theirs = LinearSVC(C=20.0 / len(y), tol=1e-10, max_iter=1_000_000, random_state=0).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)

    def test_hinge_is_svc(self, binary):
        X, y = binary
        ours = ATkClassifier("hinge", k=1.0, C=20.0, tol=1e-10).fit(X, y)
        theirs = SVC(kernel="linear", C=20.0 / len(y), tol=1e-8).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
        assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-3)

    def test_squared_error_is_ridge(self, diabetes):
        X, y = diabetes
        ours = ATkRegressor("squared_error", k=1.0, C=30.0, tol=1e-12).fit(X, y)
        theirs = Ridge(alpha=len(y) / (2 * 30.0)).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_, rtol=1e-8)
        assert ours.intercept_ == pytest.approx(theirs.intercept_)

    @pytest.mark.parametrize("nu", [0.2, 0.7, 1.0])
    def test_absolute_error_is_nu_svr_at_every_k(self, diabetes, nu):
        """The paper's Proposition 2; LIBSVM's box C per sample is our C / k."""
        X, y = diabetes[0], diabetes[1] / 100.0
        C = 40.0
        ours = ATkRegressor("absolute_error", k=nu, C=C, tol=1e-9).fit(X, y)
        theirs = NuSVR(kernel="linear", nu=nu, C=C / (nu * len(y)) / 1.0, tol=1e-9).fit(X, y)
        assert_allclose(ours.coef_, theirs.coef_.ravel(), atol=2e-3)
        assert_allclose(ours.predict(X), theirs.predict(X), atol=5e-3)

    def test_multiclass_is_one_versus_rest(self, flowers):
        X, y = flowers
        ours = ATkClassifier(k=1.0, C=50.0, tol=1e-10).fit(X, y)
        theirs = OneVsRestClassifier(LogisticRegression(C=50.0 / len(y), tol=1e-9, max_iter=10_000)).fit(X, y)
        assert (ours.predict(X) == theirs.predict(X)).all()
        assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


class TestFittedState:
    def test_binary_shapes_and_meaning(self, binary):
        X, y = binary
        model = ATkClassifier(k=120, C=10.0).fit(X, y)
        assert model.coef_.shape == (1, 8)
        assert model.intercept_.shape == (1,)
        assert model.top_weights_.shape == (400,)
        assert model.top_weights_.sum() == pytest.approx(1.0, abs=1e-6)
        assert model.top_weights_.max() <= 1 / 120 + 1e-12
        assert model.k_ == 120.0
        assert isinstance(model.dual_gap_, float)
        assert model.dual_gap_ <= 1e-6 * model.objective_
        losses = np.logaddexp(0, -np.where(y == 1, 1, -1) * model.decision_function(X))
        assert model.loss_threshold_ == pytest.approx(np.sort(losses)[-120])
        assert losses[model.top_weights_ > 0].min() >= model.loss_threshold_ - 1e-3
        reference = np.sort(losses)[-120:].mean() + model.coef_[0] @ model.coef_[0] / 20
        assert model.objective_ == pytest.approx(reference)

    def test_multiclass_shapes(self, flowers):
        X, y = flowers
        model = ATkClassifier(k=0.8).fit(X, y)
        assert model.coef_.shape == (3, 4)
        assert model.top_weights_.shape == (150, 3)
        assert (
            model.loss_threshold_.shape
            == model.dual_gap_.shape
            == model.objective_.shape
            == model.n_iter_.shape
            == (3,)
        )
        assert set(model.predict(X)) <= set(y)
        assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert model.score(X, y) > 0.9

    def test_regression_shapes(self, diabetes):
        model = ATkRegressor(k=0.3).fit(*diabetes)
        assert model.coef_.shape == (10,)
        assert np.ndim(model.intercept_) == 0
        assert model.predict(diabetes[0]).shape == (442,)

    def test_no_intercept(self, binary):
        model = ATkClassifier(fit_intercept=False).fit(*binary)
        assert model.intercept_ == 0.0

    def test_float32_is_predicted_in_float32_from_coefficients_as_certified(self, binary, diabetes):
        model = ATkClassifier().fit(binary[0].astype(np.float32), binary[1])
        assert model.decision_function(binary[0].astype(np.float32)).dtype == np.float32
        assert model.predict_proba(binary[0].astype(np.float32)).dtype == np.float32
        for fitted in (model, ATkRegressor().fit(diabetes[0].astype(np.float32), diabetes[1])):
            assert fitted.coef_.dtype == np.float64  # rounding them would change the objective that is published

    def test_probabilities_only_with_log_loss(self, binary):
        assert not hasattr(ATkClassifier("hinge"), "predict_proba")
        assert_allclose(
            np.exp(ATkClassifier().fit(*binary).predict_log_proba(binary[0])),
            ATkClassifier().fit(*binary).predict_proba(binary[0]),
        )

    def test_unfitted(self, binary):
        with pytest.raises(NotFittedError):
            ATkClassifier().predict(binary[0])


class TestHabits:
    def test_pandas_and_polars_name_the_features(self, binary):
        X, y = binary
        names = [f"feature {i}" for i in range(8)]
        for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
            model = ATkClassifier().fit(frame, y)
            assert list(model.feature_names_in_) == names
            assert_allclose(model.coef_, ATkClassifier().fit(X, y).coef_)

    def test_sparse_input(self, binary):
        X, y = binary
        thin = np.where(np.abs(X) > 1.0, X, 0.0)
        dense = ATkClassifier(tol=1e-9).fit(thin, y)
        for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix):
            model = ATkClassifier(tol=1e-9).fit(kind(thin), y)
            assert_allclose(model.coef_, dense.coef_, atol=1e-5)
            assert_allclose(model.predict(kind(thin)), dense.predict(thin))

    def test_metadata_routing_passes_sample_weight(self, binary):
        X, y = binary
        with sklearn.config_context(enable_metadata_routing=True):
            model = ATkClassifier().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
            weights = np.where(y == 1, 5.0, 1.0)
            routed = cross_validate(model, X, y, params={"sample_weight": weights}, return_estimator=True, cv=2)
            assert all(fitted.k_ > 0.7 * 200 for fitted in routed["estimator"])  # k counts weight

    def test_grid_search_in_a_pipeline(self, binary):
        X, y = binary
        search = GridSearchCV(
            make_pipeline(StandardScaler(), ATkClassifier()), {"atkclassifier__k": [0.5, 1.0]}, cv=3, n_jobs=2
        )
        assert search.fit(X, y).best_score_ > 0.7

    def test_calibration_on_top(self, binary):
        X, y = binary
        model = CalibratedClassifierCV(ATkClassifier("hinge", k=0.4), cv=3).fit(X, y)
        assert model.predict_proba(X).shape == (400, 2)

    def test_clone_and_params(self):
        model = clone(ATkRegressor(Huber(delta=2.0), k=3))
        assert model.get_params()["loss"].delta == 2.0

    def test_class_weights_act_and_balance_by_weight(self):
        X, y = make_toy(5, random_state=0)
        plain = ATkClassifier(k=1.0, C=1.0).fit(X, y)
        balanced = ATkClassifier(k=1.0, C=1.0, class_weight="balanced").fit(X, y)
        by_hand = ATkClassifier(k=1.0, C=1.0).fit(X, y, sample_weight=np.where(y > 0, 200 / (2 * 196), 200 / 8))
        as_dict = ATkClassifier(k=1.0, C=1.0, class_weight={1: 200 / (2 * 196), -1: 200 / 8}).fit(X, y)
        assert (plain.predict(X) > 0).all()
        assert (balanced.predict(X)[y < 0] < 0).all()
        assert_allclose(balanced.coef_, by_hand.coef_)
        assert_allclose(balanced.coef_, as_dict.coef_)

    def test_balanced_weights_respect_sample_weight(self):
        X, y = make_toy(5, random_state=0)
        counts = np.random.default_rng(0).integers(1, 4, y.size)
        weighted = ATkClassifier(class_weight="balanced").fit(X, y, sample_weight=counts)
        repeated = ATkClassifier(class_weight="balanced").fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
        assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6)

    def test_zero_weight_is_absence(self, binary):
        X, y = binary
        weights = np.where(np.arange(400) % 3 == 0, 0.0, 1.0)
        weighted = ATkClassifier(k=100).fit(X, y, sample_weight=weights)
        absent = ATkClassifier(k=100).fit(X[weights > 0], y[weights > 0])
        assert_allclose(weighted.coef_, absent.coef_)
        assert (weighted.top_weights_[weights == 0] == 0).all()
        assert weighted.top_weights_.shape == (400,)

    def test_warm_start_saves_steps(self, binary):
        X, y = binary
        model = ATkClassifier(warm_start=True, C=10.0).fit(X, y)
        cold = ATkClassifier(C=11.0).fit(X, y)
        warm = model.set_params(C=11.0).fit(X, y)
        assert warm.n_iter_ <= cold.n_iter_
        assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
        model.fit(X[:, :3], y)  # another shape starts cold instead of failing
        assert model.coef_.shape == (1, 3)

    def test_verbose_prints_objective_and_gap(self, binary, capsys):
        ATkClassifier(verbose=1).fit(*binary)
        assert "duality gap" in capsys.readouterr().out

    def test_verbose_names_the_classes_as_the_user_does(self, flowers, capsys):
        X, y = flowers
        for labels in (y, np.unique(y, return_inverse=True)[1]):
            ATkClassifier(k=0.9, verbose=1).fit(X, labels)
            names = {line.split(" step")[0] for line in capsys.readouterr().out.splitlines()}
            assert names == {f"class {label}" for label in labels.tolist()}

    def test_own_loss_is_one_small_class(self, diabetes):
        """Defined by `expand` alone; for k = n it equals minimising by hand."""

        class LogCosh(IndividualLoss):
            task = "regression"

            def expand(self, prediction, target):
                error = prediction - target
                slope = np.tanh(error)
                return np.logaddexp(error, -error) - np.log(2.0), slope, 1.0 - slope**2

        X, y = diabetes[0], diabetes[1] / 50.0
        for k in (1.0, 0.2):
            model = ATkRegressor(LogCosh(), k=k, C=10.0, tol=1e-8).fit(X, y)
            losses = np.sort(LogCosh()(model.predict(X), y))[::-1]
            assert model.objective_ - model.coef_ @ model.coef_ / 20 == pytest.approx(
                np.concatenate([losses[:88], [0.4 * losses[88]]]).sum() / 88.4 if k == 0.2 else losses.mean()
            )
            rng = np.random.default_rng(0)
            for _ in range(20):
                w = model.coef_ + 1e-2 * rng.standard_normal(10)
                shifted = np.sort(LogCosh()(X @ w + model.intercept_, y))[::-1]
                top = shifted.mean() if k == 1.0 else np.concatenate([shifted[:88], [0.4 * shifted[88]]]).sum() / 88.4
                assert top + w @ w / 20 > model.objective_

    def test_own_kinked_loss(self, binary):
        """A hinge of margin 2 is the hinge, rescaled."""

        class WideHinge(IndividualLoss):
            task = "classification"
            kink = "positive_part"

            def expand(self, prediction, target):
                return 2.0 - target * prediction, -target, np.zeros_like(target)

        X, y = binary
        wide = ATkClassifier(WideHinge(), k=0.5, C=2.0, tol=1e-9).fit(X, y)
        plain = ATkClassifier("hinge", k=0.5, C=1.0, tol=1e-9).fit(X, y)
        assert_allclose(wide.coef_, 2 * plain.coef_, atol=1e-3)


@pytest.mark.parametrize("model", [ATkClassifier(), ATkClassifierCV(ks=3, Cs=2, cv=3)], ids=["default", "search"])
def test_data_are_encoded_once(monkeypatch, model):
    X, y = load_breast_cancer(return_X_y=True)
    calls = Counter()

    def counting(name, function):
        def counted(*arguments, **named):
            calls[name] += 1
            return function(*arguments, **named)

        monkeypatch.setattr(encoding, name, counted)

    for name in ("_classes_and_codes", "check_mass", "check_training"):
        counting(name, getattr(encoding, name))
    model.fit(scale(X), y, np.ones(y.size))
    assert calls == {"_classes_and_codes": 1, "check_mass": 1, "check_training": 1}
