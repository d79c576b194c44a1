"""From arrays to problems and back: what labels, weights and matrices become, and what is said of wrong ones."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

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


def test_two_classes_are_one_problem_the_second_against_the_first():
    targets = class_targets(np.array(["no", "yes", "no"]))
    np.testing.assert_array_equal(targets.values, [[-1.0, 1.0, -1.0]])
    np.testing.assert_array_equal(targets.classes, ["no", "yes"])
    assert targets.names == ["class yes"]
    assert targets.total == 3.0


def test_more_classes_are_a_problem_each_against_the_rest():
    targets = class_targets(np.array([7, 3, 5, 3]))
    np.testing.assert_array_equal(targets.classes, [3, 5, 7])
    np.testing.assert_array_equal(targets.values, [[-1, 1, -1, 1], [-1, -1, 1, -1], [1, -1, -1, -1]])
    assert targets.names == ["class 3", "class 5", "class 7"]
    np.testing.assert_array_equal((one_versus_rest([0, 1, 2, 3], range(4)) > 0).sum(axis=0), 1)


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
        ([0, 1, 1], None, {0: -1.0}, r"class_weight is expected to give weights >= 0 .* got \{0: -1.0\}"),
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
