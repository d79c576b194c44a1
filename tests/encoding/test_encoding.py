"""From arrays to problems and back: what labels, weights and matrices become, and what is said of wrong ones."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_regressor

from atklearn import (
    ATkClassifier,
    ATkRegressor,
    ATkRegressorCV,
    ATkSVC,
    ATkSVR,
    SGDATkClassifier,
    SGDATkRegressor,
    atk_path,
)
from atklearn.core.solve import solve_linear
from atklearn.encoding import encoded as arrays
from atklearn.encoding.encoded import (
    ProblemEncoder,
    check_mass,
    check_training,
    class_targets,
    intercept_kind,
    plain,
    regression_targets,
)
from atklearn.losses.individual import Hinge, LogLoss, SquaredError
from atklearn.losses.labels import one_versus_rest


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# Targets


MANY = np.arange(20_000) % 3  # of which two numbers are told apart without sorting


@pytest.mark.parametrize(
    ("y", "classes", "values", "names"),
    [
        (["no", "yes", "no"], ["no", "yes"], [[-1, 1, -1]], ["class yes"]),
        ([7, 3, 3], [3, 7], [[1, -1, -1]], ["class 7"]),
        ([1, 0, 2], [0, 1, 2], [[-1, 1, -1], [1, -1, -1], [-1, -1, 1]], ["class 0", "class 1", "class 2"]),
        (1.0 * (MANY == 2), [0.0, 1.0], [2 * (MANY == 2) - 1], ["class 1.0"]),
        (MANY, [0, 1, 2], one_versus_rest(MANY, range(3)), ["class 0", "class 1", "class 2"]),
    ],
)
def test_two_classes_are_one_problem_and_more_are_one_each_against_the_rest(y, classes, values, names):
    targets = class_targets(np.array(y))
    np.testing.assert_array_equal(targets.values, values)
    np.testing.assert_array_equal(targets.classes, classes)
    assert targets.names == names
    assert targets.total == len(y)


def test_a_regression_is_one_problem_without_classes():
    targets = regression_targets([1, 2, 3], [1.0, 0.0, 2.0])
    assert targets.values.shape == (1, 3)
    assert targets.values.dtype == np.float64
    assert targets.classes is None
    assert targets.names == ["fit"]
    np.testing.assert_array_equal(targets.kept, [True, False, True])


def test_balancing_gives_every_class_the_same_mass_and_keeps_the_total(rng):
    y, weight = rng.integers(0, 3, 40), rng.uniform(0.1, 3.0, 40)
    targets = class_targets(y, weight, "balanced")
    masses = [targets.mass[y == label].sum() for label in range(3)]
    np.testing.assert_allclose(masses, weight.sum() / 3)


def test_balancing_by_weight_is_balancing_of_repeated_samples(rng):
    y, counts = rng.integers(0, 3, 40), rng.integers(1, 5, 40)
    repeated = np.repeat(np.arange(40), counts)
    weighted, counted = class_targets(y, counts, "balanced").mass, class_targets(y[repeated], None, "balanced").mass
    np.testing.assert_allclose(np.bincount(repeated, weights=counted), weighted)


def test_balancing_leaves_classes_without_weight_out():
    with pytest.warns(UserWarning, match=r"The samples of \[2\] have no weight: .* left out"):
        targets = class_targets(np.array([0, 1, 2, 2]), [1.0, 3.0, 0.0, 0.0], "balanced")
    np.testing.assert_allclose(targets.mass, [2.0, 2.0, 0.0, 0.0])
    assert len(targets.values) == 3  # the class is known, all the same


def test_class_weights_multiply_sample_weights():
    targets = class_targets(np.array(["a", "b", "b"]), [1.0, 2.0, 3.0], {"a": 10.0, "b": 0.5})
    np.testing.assert_allclose(targets.mass, [10.0, 1.0, 1.5])


@pytest.mark.parametrize(
    ("y", "sample_weight", "class_weight", "message"),
    [
        ([1, 1, 1], None, None, r"Mine expects samples of at least 2 classes, got 1 class\(es\) in y"),
        ([0, 1, 1], None, {0: -1.0}, r"class_weight is expected to give finite weights >= 0 .* got \{0: -1.0\}"),
        ([0, 1, 1], None, {0: 1e308, 1: 1e308}, r"give finite weights .* got \{0: 1e\+308, 1: 1e\+308\}"),
        ([0, 1, 1], None, {0: 0.0}, r"a positive one to at least 2 classes, got \{0: 0.0\}"),
        ([0.5, 1.7, 2.2], None, None, "continuous"),
    ],
)
def test_labels_without_two_classes_are_refused(y, sample_weight, class_weight, message):
    with pytest.raises(ValueError, match=message):
        class_targets(np.array(y), sample_weight, class_weight, owner="Mine")


def test_the_intercept_is_free_penalised_or_not_there():
    assert [intercept_kind(*flags) for flags in ((True, False), (True, True), (False, False), (False, True))] == [
        "free",
        "penalized",
        "none",
        "none",
    ]


# Problems


def test_samples_without_mass_are_left_out_of_the_problem(rng):
    X, y = rng.standard_normal((20, 3)), rng.integers(0, 2, 20)
    weight = np.where(np.arange(20) % 4 == 0, 0.0, rng.uniform(1.0, 2.0, 20))
    kept = weight > 0.0
    for matrix in (X, sp.csr_array(X)):
        problems, fewer = (
            ProblemEncoder(LogLoss(), "free").on(*data, k=0.5, C=2.0)
            for data in ((matrix, y, weight), (matrix[kept], y[kept], weight[kept]))
        )
        assert problems.problems[0].rows.n_rows == kept.sum()
        assert problems.k == fewer.k == pytest.approx(0.5 * weight.sum())
        np.testing.assert_array_equal(*(solve_linear(each.problems[0]).coef for each in (problems, fewer)))


def test_k_is_a_count_or_a_share_of_the_mass(rng):
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    encoder = ProblemEncoder(SquaredError(), "none")
    assert encoder.on(X, y, k=3).k == 3.0
    assert encoder.on(X, y, np.full(20, 2.0), k=0.25).k == 10.0
    problems = encoder.on(X, y, k=1.0).at(4.0, 7.0)
    assert (problems.k, problems.problems[0].C) == (4.0, 7.0)
    with pytest.raises(ValueError, match="k as an int counts samples"):
        encoder.on(X, y, k=21)


@pytest.mark.parametrize("intercept", ["free", "penalized", "none"])
def test_problems_have_a_column_of_ones_unless_there_is_no_intercept(rng, intercept):
    problems = ProblemEncoder(Hinge(), intercept).on(rng.standard_normal((20, 3)), rng.integers(0, 3, 20))
    assert len(problems.problems) == 3
    assert {problem.rows.n_columns for problem in problems.problems} == {3 if intercept == "none" else 4}
    assert {problem.free for problem in problems.problems} == {3 if intercept == "free" else None}


def test_the_class_weights_of_problems_are_those_of_their_targets(rng):
    X, y = rng.standard_normal((20, 3)), np.arange(20) % 5 == 0
    problems = ProblemEncoder(Hinge(), "free", class_weight="balanced").on(X, y)
    np.testing.assert_array_equal(problems.problems[0].rows.mass, class_targets(y, None, "balanced").mass)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_published_has_an_entry_per_sample_and_problem(rng, n_classes):
    X, y = rng.standard_normal((30, 3)), np.arange(30) % n_classes
    weight = np.where(np.arange(30) < 6, 0.0, 2.0)
    problems = ProblemEncoder(LogLoss(), "free").on(X, y, weight, k=0.5)
    solutions = [solve_linear(problem) for problem in problems.problems]
    per_problem = () if n_classes == 2 else (3,)
    weights = problems.sample_weights(solutions)
    assert weights.shape == (30, len(solutions))
    assert not weights[:6].any()
    np.testing.assert_allclose(weights.sum(axis=0), 1.0, atol=1e-3)
    assert weights.max() <= 2.0 / problems.k * (1 + 1e-12)
    assert np.shape(plain([solution.threshold for solution in solutions])) == per_problem
    assert (problems.k, problems.total) == (24.0, 48.0)

    models = problems.coefficients(solutions)
    assert models.weights.shape == (len(solutions), 3)
    assert models.intercepts.shape == (len(solutions),)
    expected = [X @ solution.coef[:3] + solution.coef[3] for solution in solutions]
    for matrix in (X, sp.csr_array(X)):
        np.testing.assert_allclose(models.decision(matrix), expected)


# Arrays


@pytest.mark.parametrize(
    ("sample_weight", "message"),
    [
        ([1.0, 2.0], r"3 finite numbers >= 0, got an array of shape \(2,\); pass one weight per sample"),
        ([[1.0, 2.0, 3.0]], r"got an array of shape \(1, 3\)"),
        ([1.0, np.nan, 1.0], "got NaN or infinity; replace or drop"),
        ([1.0, np.inf, 1.0], "got NaN or infinity"),
        ([1.0, -2.0, 1.0], "got a weight of -2; use 0 to leave a sample out"),
        ([0.0, 0.0, 0.0], "got all-zero weights; at least one sample needs a positive weight"),
        ([1e308, 1e308, 1.0], r"got weights of up to 1e\+308, which float64 cannot add up; divide them by the largest"),
        ([5e-324, 0.0, 0.0], "got weights of up to 4.94066e-324"),
        ([1, 2, 10**400], r"numbers of at most 1.8e\+308, got an integer that is larger"),
    ],
)
def test_wrong_sample_weights_are_refused_with_a_reason(sample_weight, message):
    with pytest.raises(ValueError, match=message):
        check_mass(sample_weight, 3)


def test_sample_weights_may_be_missing_or_one_number():
    np.testing.assert_array_equal(check_mass(None, 3), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(check_mass(2, 3), [2.0, 2.0, 2.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_features_become_contiguous_arrays_and_keep_single_precision(rng, dtype):
    X, y = check_training(None, np.asfortranarray(rng.integers(0, 5, (6, 3)).astype(dtype)), np.arange(6.0))
    assert X.flags.c_contiguous
    assert X.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert y.shape == (6,)


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix])
def test_long_indices_are_shortened(rng, container):
    X = container(rng.standard_normal((6, 3)))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    short, _ = check_training(None, X, np.arange(6.0), accept_large_sparse=True)
    assert short.indices.dtype == short.indptr.dtype == np.int32
    assert type(short) is container
    np.testing.assert_array_equal(short.toarray(), X.toarray())


def test_short_indices_are_left_where_they_are(rng):
    X = sp.csr_array(rng.standard_normal((6, 3)))
    assert arrays._with_small_indices(X) is X


@pytest.mark.parametrize("too_many", [{"nnz": 2**31}, {"shape": (2**31, 3)}, {"shape": (6, 2**31)}])
def test_more_entries_than_indices_can_count_are_refused_before_anything_is_copied(monkeypatch, too_many):
    size = {"nnz": 5, "shape": (6, 3)} | too_many
    long = np.zeros(1, dtype=np.int64)
    monkeypatch.setattr(arrays.sp, "issparse", lambda _: True)
    with pytest.raises(
        ValueError, match=r"at most 2147483647 rows, columns and stored entries, got shape .* stream them"
    ):
        arrays._with_small_indices(SimpleNamespace(indices=long, indptr=long, **size))


def test_other_sparse_formats_become_rows(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X, _ = check_training(None, sp.csc_array(rng.standard_normal((6, 3))), np.arange(6.0))
    assert X.format == "csr"


def told_apart(rng):
    """Return features that tell two classes apart, as far as k = n/2 asks for."""
    y = np.arange(30) % 2
    return rng.standard_normal((30, 3)) + 4.0 * y[:, None], y


FAULTS = {
    "indices too high": lambda X: X.indices.__setitem__(0, 10**6),
    "indices below zero": lambda X: X.indices.__setitem__(0, -(10**6)),
    "falling indptr": lambda X: X.indptr.__setitem__(1, 10**6),
    "indptr that ends beyond the data": lambda X: X.indptr.__setitem__(-1, 10**6),
    "indptr that begins late": lambda X: X.indptr.__setitem__(0, 1),
    "short indptr": lambda X: setattr(X, "indptr", X.indptr[:-2]),
    "short indices": lambda X: setattr(X, "indices", X.indices[:-2]),
    "short data": lambda X: setattr(X, "data", X.data[:-2]),
}


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.bsr_array])
@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_matrices_are_refused_before_compiled_code_reads_them(rng, container, fault):
    X = container(rng.standard_normal((6, 3)))
    FAULTS[fault](X)
    with pytest.raises(ValueError, match=rf"arrays that fit together, got a {X.format.upper()} .*; build it anew"):
        check_training(None, X, np.arange(6.0))


@pytest.mark.parametrize(("axis", "place"), [(0, 6), (0, -1), (1, 3), (1, -7)])
def test_entries_outside_of_a_matrix_are_refused(rng, axis, place):
    X = sp.coo_array(rng.standard_normal((6, 3)))
    X.coords[axis][0] = place
    with pytest.raises(ValueError, match=rf"{('row', 'col')[axis]} outside of 0 to {(5, 2)[axis]}"):
        check_training(None, X, np.arange(6.0))


def test_room_that_a_matrix_does_not_use_is_not_looked_at(rng):
    dense = rng.standard_normal((6, 3))
    X = sp.csr_array(dense)
    X.data, X.indices = np.append(X.data, 1.0), np.append(X.indices, 99)
    np.testing.assert_array_equal(check_training(None, X, np.arange(6.0))[0].toarray(), dense)


ESTIMATORS = [
    ATkClassifier(k=0.5), ATkRegressor(k=0.5), ATkRegressorCV(ks=2, Cs=2, cv=2), ATkSVC(k=0.5), ATkSVR(k=0.5),
    SGDATkClassifier(k=0.5, max_iter=200), SGDATkRegressor(k=0.5),
]  # fmt: skip


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_all_refuse_malformed_matrices_in_fits_and_predictions(rng, estimator):
    X, y = told_apart(rng)
    X = sp.csr_array(X)
    wrong = X.copy()
    wrong.indices[0] = 10**6
    for call in (lambda: clone(estimator).fit(wrong, y), lambda: clone(estimator).fit(X, y).predict(wrong)):
        with pytest.raises(ValueError, match="indices outside of 0 to 2"):
            call()


def test_a_path_refuses_malformed_matrices(rng):
    X, y = told_apart(rng)
    X = sp.csr_array(X)
    path = atk_path(X, y, ks=[0.5], Cs=[1.0])
    X.indices[0] = 10**6
    with pytest.raises(ValueError, match="indices outside of 0 to 2"):
        path.decision(X)


# Extremes


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("size", [1e155, 1e300])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_features_that_cannot_be_squared_are_refused(rng, estimator, size, container):
    X = container(size * rng.standard_normal((30, 3)))
    with pytest.raises(ValueError, match=r"X .* squares float64 can add up, got some of about 1e\+150 or more; divide"):
        clone(estimator).fit(X, np.arange(30) % 2)


@pytest.mark.parametrize(
    "estimator", [each for each in ESTIMATORS if is_regressor(each)], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize(("size", "said"), [(1e300, r"1e\+150 or more"), (1e-170, "1e-145 or less")])
def test_targets_that_cannot_be_squared_are_refused(rng, estimator, size, said):
    X, y = rng.standard_normal((30, 3)), size * rng.standard_normal(30)
    with pytest.raises(ValueError, match=rf"y .* squares float64 can add up, got some of about {said}; divide y"):
        clone(estimator).fit(X, y)


@pytest.mark.parametrize(("of_X", "of_y", "name"), [(1e155, 1.0, "X"), (1.0, 1e300, "y"), (1.0, 1e-170, "y")])
def test_tensors_that_cannot_be_squared_are_refused(rng, of_X, of_y, name):
    torch = pytest.importorskip("torch")
    X, y = (torch.as_tensor(rng.standard_normal(shape)) for shape in ((30, 3), 30))
    with pytest.raises(ValueError, match=rf"{name} .* squares float64 can add up"):
        ATkRegressor(k=0.5).fit(of_X * X, of_y * y)


def test_targets_that_are_all_zero_are_none_too_small(rng):
    assert not ATkRegressor(k=0.5).fit(rng.standard_normal((30, 3)), np.zeros(30)).coef_.any()


def test_short_floats_have_squares_whatever_they_are(rng):
    y = rng.standard_normal(30)
    X = y[:, None].astype(np.float32)
    found = [ATkRegressor(k=0.5, C=10.0 * unit**-2).fit(unit * X, y).objective_ for unit in (1.0, 2.0**100)]
    assert found[0] == pytest.approx(found[1], rel=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_integers_that_no_float_holds_are_refused(rng, estimator):
    X, y = told_apart(rng)
    wrong = X.astype(object)
    wrong[3, 1] = 10**400
    fits = [lambda: clone(estimator).fit(wrong, y), lambda: clone(estimator).fit(X, y).predict(wrong)]
    if is_regressor(estimator):
        fits.append(lambda: clone(estimator).fit(X, wrong[:, 1]))
    for fit in fits:
        with pytest.raises(ValueError, match="got an integer that is larger; rescale"):
            fit()


@pytest.mark.parametrize("weight", [1e-300, 1e-100, 1e100, 1e300])
@pytest.mark.parametrize("estimator", [ATkClassifier(k=0.5, C=1.0), ATkSVC(k=0.5), ATkRegressor(k=0.5, C=1.0)])
def test_the_unit_of_weights_does_not_matter_where_C_is_given(rng, estimator, weight):
    X, y = told_apart(rng)
    plain, weighted = (clone(estimator).fit(X, y, sample_weight=np.full(30, each)) for each in (1.0, weight))
    assert weighted.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert weighted.k_ == pytest.approx(15.0 * weight)
    assert weighted.k_share_ == pytest.approx(0.5)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("weight", [1e308, 5e-324])
def test_weights_that_cannot_be_added_up_are_refused(rng, estimator, weight):
    X, y = told_apart(rng)
    with pytest.raises(ValueError, match="which float64 cannot add up; divide them by the largest"):
        clone(estimator).fit(X, y, sample_weight=np.full(30, weight))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_a_k_that_is_lost_in_rounding_is_refused(rng, estimator):
    name, k = ("ks", [1e-300, 1.0]) if "ks" in estimator.get_params() else ("k", 1e-300)
    with pytest.raises(ValueError, match=r'at least 1e-12, .* got 1e-300; pass k="max" for the largest loss alone'):
        clone(estimator).set_params(**{name: k}).fit(rng.standard_normal((30, 3)), np.arange(30) % 2)
