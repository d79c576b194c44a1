"""Setting the largest losses aside: outliers are found, nothing changes without it, and what it needs is said."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scikit_learn_checks import parametrized_with_checks
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, atk_path
from atklearn.core.solve import solve_linear
from atklearn.datasets import make_toy
from atklearn.encoding.encoded import ProblemEncoder
from atklearn.losses.aggregate import RankedRange
from atklearn.losses.individual import LogLoss
from atklearn.ondisk import ArrayChunks


@parametrized_with_checks([ATkClassifier(trim=0.1), ATkRegressor(trim=0.1)])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def flipped(y, share, seed=0):
    """Return labels of which a share is wrong, and which these are."""
    rng = np.random.default_rng(seed)
    bad = np.sort(rng.choice(y.size, int(share * y.size), replace=False))
    classes = np.unique(y)
    out = y.copy()
    places = np.searchsorted(classes, y[bad])
    out[bad] = classes[(places + rng.integers(1, classes.size, bad.size)) % classes.size]
    return out, bad


def error(model, X, y):
    return 1.0 - model.fit(X, y).score(X, y)


@pytest.mark.parametrize("trim", [0, 0.0])
@pytest.mark.parametrize("k", [1.0, 0.5, 150])
def test_to_trim_nothing_is_at_k_bit_for_bit(binary, trim, k):
    X, y = binary
    model = ATkClassifier(k=k, trim=trim).fit(X, y)
    problems = ProblemEncoder(LogLoss(), "free").on(X, y, k=k, C=float(len(y)))
    solution = solve_linear(problems.problems[0])
    assert_array_equal(np.append(model.coef_, model.intercept_), solution.coef)
    assert (model.objective_, model.dual_gap_) == (solution.objective, solution.dual_gap)
    assert model.set_aside_.size == model.trim_ == 0


# The paper's toy cases: the outlier is the first sample


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize(("case", "most"), [(2, 200), (4, 200), (6, 10)])
@pytest.mark.parametrize("trim", [1, 2])
@pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")
def test_the_outlier_of_a_toy_case_is_set_aside(case, most, loss, trim):
    """In case 6 a large k sets one of the four rare samples aside instead: rare, and not wrong."""
    X, y = make_toy(case, random_state=0)
    for k in (3, 5, 10, 20, 60, 200):
        if k <= most:
            model = ATkClassifier(loss, k=k, trim=trim, C=100.0, penalize_intercept=True).fit(X, y)
            assert 0 in model.set_aside_


@pytest.mark.parametrize("loss", ["log_loss", "hinge"])
@pytest.mark.parametrize("case", [2, 4, 6])
@pytest.mark.filterwarnings("ignore::atklearn.CollapseWarning")
def test_with_the_outlier_set_aside_more_k_are_good(case, loss):
    X, y = make_toy(case, random_state=0)

    def good(trim):
        options = {"trim": trim, "C": 100.0, "penalize_intercept": True}
        ks = (2, 3, 5, 7, 10, 15, 22, 31, 43)
        return sum(error(ATkClassifier(loss, k=k, **options), X, y) <= 0.006 for k in ks)  # the outlier alone

    assert good(1) > good(0)


def test_the_fit_is_that_without_the_rows_set_aside(diabetes):
    X, y = diabetes
    model = ATkRegressor(k=0.5, trim=20, C=100.0, tol=1e-10).fit(X, y)
    kept = np.setdiff1d(np.arange(y.size), model.set_aside_)
    without = ATkRegressor(k=int(model.k_) - 20, C=100.0, tol=1e-10).fit(X[kept], y[kept])
    assert_allclose(model.coef_, without.coef_, rtol=1e-6)
    assert model.objective_ == pytest.approx(without.objective_, rel=1e-9)
    assert_allclose(model.top_weights_[kept], without.top_weights_, atol=1e-6)
    assert not model.top_weights_[model.set_aside_].any()
    losses = (y - model.predict(X)) ** 2
    value = RankedRange(20, 0.5).value(losses) + model.coef_ @ model.coef_ / 200.0
    assert model.objective_ == pytest.approx(value, rel=1e-9)
    assert losses[model.set_aside_].min() >= losses[kept].max()
    assert (np.diff(losses[model.set_aside_]) <= 0.0).all()
    assert (model.k_, model.trim_) == (221.0, 20.0)


def test_wrong_targets_are_found_and_the_model_is_that_of_the_others():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    truth = np.array([1.0, -2.0, 0.0, 3.0])
    y = X @ truth + 0.1 * rng.standard_normal(300)
    bad = rng.choice(300, 45, replace=False)
    y[bad] += rng.choice([-1.0, 1.0], 45) * rng.uniform(3.0, 30.0, 45)
    model = ATkRegressor(trim=0.15).fit(X, y)
    assert sorted(model.set_aside_) == sorted(bad)
    assert_allclose(model.coef_, truth, atol=0.05)


def test_several_classes_set_the_same_rows_aside():
    X, y = load_digits(return_X_y=True)
    X, y = scale(X)[:800], y[:800]
    noisy, bad = flipped(y, 0.1)
    model = ATkClassifier(trim=0.1).fit(X, noisy)
    assert model.set_aside_.shape == bad.shape
    assert np.isin(model.set_aside_, bad).mean() > 0.9
    assert model.score(X[bad], y[bad]) > 0.9
    assert model.objective_.shape == (10,)
    assert (model.dual_gap_ <= 1e-6 * model.objective_).all()


def test_rows_are_counted_as_they_were_given():
    X, y = make_toy(2, random_state=0)
    weight = np.ones(200)
    weight[[1, 5]] = 0.0
    turned = np.roll(np.arange(200), 7)
    model = ATkClassifier(k=0.5, trim=1).fit(X[turned], y[turned], sample_weight=weight[turned])
    assert turned[model.set_aside_].tolist() == [0]
    assert model.top_weights_[model.set_aside_] == [0.0]


def test_sparse_features_find_the_same(binary):
    X, y = binary
    y, _ = flipped(y, 0.05)
    dense, sparse = (ATkClassifier(k=0.9, trim=0.05).fit(each, y) for each in (X, sp.csr_array(X)))
    assert sorted(dense.set_aside_) == sorted(sparse.set_aside_)
    assert_allclose(dense.coef_, sparse.coef_, atol=1e-4)


def test_tensors_are_computed_on_the_host(binary, as_tensors):  # noqa: ARG001
    torch = pytest.importorskip("torch")
    X, y = binary
    y, _ = flipped(y, 0.05)
    array = ATkClassifier(k=0.9, trim=0.05).fit(X, y)
    tensor = ATkClassifier(k=0.9, trim=0.05).fit(torch.as_tensor(X), torch.as_tensor(y))
    assert isinstance(tensor.coef_, torch.Tensor)
    assert_allclose(array.coef_, tensor.coef_, atol=1e-12)
    assert_array_equal(array.set_aside_, np.asarray(tensor.set_aside_))


def test_to_set_a_rare_class_aside_is_warned_of():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((3000, 3)), np.repeat(["rare", "usual"], [6, 2994])
    X[:6] += 1.0
    with pytest.warns(UserWarning, match=r'trim=0\.01 sets 90% of class .rare. aside.* class_weight="balanced"'):
        model = ATkClassifier(trim=0.01).fit(X, y)
    assert 0 < np.count_nonzero(model.set_aside_ < 6) < 6
    ATkClassifier(trim=0.01, class_weight="balanced").fit(X, y)


def test_a_range_of_few_ranks_among_many_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 3))
    y = X @ [1.0, 2.0, 3.0] + rng.uniform(-1.0, 1.0, 5000)
    y[7] += 30.0
    model = ATkRegressor("absolute_error", k=2, trim=1).fit(X, y)
    assert model.set_aside_.tolist() == [7]
    assert model.loss_threshold_ < 1.05


def test_auto_is_the_trimmed_mean(binary):
    assert ATkClassifier(trim=0.05).fit(*binary).k_share_ == 1.0


def test_every_fit_of_a_path_is_critical(binary):
    X, y = binary
    path = atk_path(X, y, ks=[0.5, 1.0], Cs=[1.0, 400.0], trim=20, tol=1e-8)
    signs = np.where(y == 1, 1.0, -1.0)
    for i, k in enumerate((180, 380)):
        for j, C in enumerate((1.0, 400.0)):
            losses = LogLoss()(path.decision(X)[i, j, 0], signs)
            kept = np.argsort(losses)[:-20]
            without = ATkClassifier(k=k, C=C, tol=1e-8).fit(X[kept], y[kept])
            assert path.objectives[i, j, 0] == pytest.approx(without.objective_, rel=1e-7)
    assert (path.dual_gaps <= 1e-8 * path.objectives).all()


def test_the_search_sets_rows_aside_on_every_fold(binary):
    X, y = binary
    noisy, bad = flipped(y, 0.1)
    search = ATkClassifierCV(ks=2, Cs=[1.0, 100.0], trim=0.1, cv=3).fit(X, noisy)
    assert search.ks_[0] > 0.1
    assert search.trim_share_ == pytest.approx(0.1)
    assert np.isin(search.best_estimator_.set_aside_, bad).mean() > 0.7
    with pytest.raises(ValueError, match="leave a range that ends at k"):
        ATkClassifierCV(ks=[0.05, 1.0], Cs=[1.0], trim=0.1, cv=3).fit(X, noisy)


def test_a_warm_start_goes_on_from_the_last_fit(binary):
    X, y = binary
    y, _ = flipped(y, 0.1)
    model = ATkClassifier(k=0.9, trim=0.1, warm_start=True).fit(X, y)
    first = model.objective_
    assert model.fit(X, y).objective_ <= first * (1.0 + 1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trim": -1}, r"int >= 0 .* or a float in \[0, 1\) .*, got -1"),
        ({"trim": 1.0}, r"in \[0, 1\), got 1.0; pass an int to count samples"),
        ({"trim": True}, "got True"),
        ({"trim": 400}, "below 400 of 400 samples, got trim=400"),
        ({"trim": 0.5, "k": 0.5}, "lower trim or raise k"),
        ({"trim": 3, "k": 3}, "lower trim or raise k"),
    ],
)
def test_what_is_expected_of_trim(binary, options, message):
    with pytest.raises(ValueError, match=message):
        ATkClassifier(**options).fit(*binary)


@pytest.mark.parametrize("estimator", [ATkClassifier(trim=0.1), ATkClassifierCV(trim=0.1)])
def test_chunks_refuse_to_set_rows_aside(estimator, binary):
    X, y = binary
    with pytest.raises(ValueError, match=r"On chunks of rows, trim is expected to be 0, got 0\.1"):
        estimator.fit(ArrayChunks(X), y)
