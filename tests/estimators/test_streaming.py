"""The streaming estimators: streams, blocks and passes, against each other and the exact solver."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from problems import draw
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from atklearn import (
    LogLoss,
    RowBlocks,
    SGDATkClassifier,
    SGDATkRegressor,
)


class TestStream:
    """Any cut of a stream into blocks gives the same model."""

    @pytest.mark.parametrize("cuts", [[1], [400, 999, 1000, 1001, 1400], list(range(50, 1500, 50)), [1499]])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_does_not_depend_on_its_blocks(self, cuts, sparse):
        X, y = draw("log_loss", n=1500)
        X = sp.csr_array(X) if sparse else X
        weight = np.random.default_rng(0).uniform(0.0, 2.0, 1500)
        for sample_weight in (None, weight):
            whole = SGDATkClassifier(k=0.3).partial_fit(X, y, classes=[-1, 1], sample_weight=sample_weight)
            parts = SGDATkClassifier(k=0.3)
            for begin, end in zip([0, *cuts], [*cuts, 1500], strict=True):
                part = None if sample_weight is None else sample_weight[begin:end]
                parts.partial_fit(X[begin:end], y[begin:end], classes=[-1, 1], sample_weight=part)
            assert_array_equal(parts.coef_, whole.coef_)
            assert_array_equal(parts.intercept_, whole.intercept_)
            assert parts.loss_threshold_ == whole.loss_threshold_
            assert parts.t_ == whole.t_

    def test_is_one_cyclic_pass_of_fit(self):
        X, y = draw("squared_error", n=1500)
        once = SGDATkRegressor(shuffle=False, max_iter=1).fit(X, y)
        assert_array_equal(
            once.coef_, SGDATkRegressor().partial_fit(X[:700], y[:700]).partial_fit(X[700:], y[700:]).coef_
        )

    def test_of_three_classes(self):
        X, y = load_iris(return_X_y=True)
        X, y = scale(X), np.array(["a", "b", "c"])[y]
        shuffled = np.random.default_rng(0).permutation(150)
        X, y = X[shuffled], y[shuffled]
        model = SGDATkClassifier(k=0.5)
        for begin in range(0, 150, 10):
            model.partial_fit(X[begin : begin + 10], y[begin : begin + 10], classes=["a", "b", "c"])
        assert model.coef_.shape == (3, 4)
        assert model.loss_threshold_.shape == (3,)
        assert_array_equal(model.coef_, SGDATkClassifier(k=0.5, shuffle=False, max_iter=1).fit(X, y).coef_)
        full = SGDATkClassifier(k=0.5, max_iter=100, random_state=0).fit(X, y)
        assert full.score(X, y) > 0.9
        assert_allclose(full.predict_proba(X).sum(axis=1), 1.0)

    def test_may_mix_dense_and_sparse_blocks(self):
        X, y = draw("squared_error", n=1500)
        mixed = SGDATkRegressor()
        for begin in range(0, 1500, 250):
            rows = X[begin : begin + 250]
            mixed.partial_fit(sp.csr_array(rows) if begin % 500 else rows, y[begin : begin + 250])
        assert_allclose(mixed.coef_, SGDATkRegressor().partial_fit(X, y).coef_, rtol=1e-9)

    def test_goes_on_after_fit(self):
        X, y = draw("hinge", n=300)
        model = SGDATkClassifier("hinge", random_state=0).fit(X, y)
        visits = model.t_
        assert model.partial_fit(X[:10], y[:10]).t_ == visits + 10

    def test_survives_a_bad_block(self):
        X, y = draw("hinge", n=300)
        model = SGDATkClassifier("hinge").partial_fit(X, y, classes=[-1, 1])
        before = model.coef_.copy()
        twin = pickle.loads(pickle.dumps(model))
        for bad_X, bad_y in ((X[:, :2], y), (X * np.nan, y), (X, y + 5)):
            with pytest.raises(ValueError):  # noqa: PT011 - the messages are scikit-learn's or tested below
                model.partial_fit(bad_X, bad_y)
        assert_array_equal(model.coef_, before)
        assert_array_equal(model.partial_fit(X, y).coef_, twin.partial_fit(X, y).coef_)

    def test_says_what_it_needs(self):
        X, y = draw("hinge")
        with pytest.raises(ValueError, match="stream does not say how many"):
            SGDATkClassifier(k=5).partial_fit(X, y, classes=[-1, 1])
        with pytest.raises(ValueError, match="classes is expected to list all"):
            SGDATkClassifier().partial_fit(X, y)
        with pytest.raises(ValueError, match='"balanced" is expected with fit'):
            SGDATkClassifier(class_weight="balanced").partial_fit(X, y, classes=[-1, 1])
        with pytest.raises(ValueError, match="at least 2 classes"):
            SGDATkClassifier().partial_fit(X, y, classes=[1])
        model = SGDATkClassifier().partial_fit(X, y, classes=[-1, 1])
        with pytest.raises(ValueError, match="classes is expected to stay"):
            model.partial_fit(X, y, classes=[-1, 1, 2])
        with pytest.raises(ValueError, match="got also"):
            model.partial_fit(X, np.full(60, 3.0))
        with pytest.raises(ValueError, match="half a sample"):
            SGDATkRegressor().partial_fit(X, y, sample_weight=np.full(60, 1e-4))

    def test_weighs_classes(self):
        X, y = draw("log_loss", n=500)
        weighted = SGDATkClassifier(class_weight={1.0: 3.0}).partial_fit(X, y, classes=[-1.0, 1.0])
        by_hand = SGDATkClassifier().partial_fit(X, y, [-1.0, 1.0], sample_weight=np.where(y > 0, 3.0, 1.0))
        assert_array_equal(weighted.coef_, by_hand.coef_)


class TestFit:
    @pytest.mark.parametrize("sparse", [False, True])
    def test_weight_is_repetition_whatever_the_order(self, sparse):
        X, y = draw("log_loss", n=200)
        rng = np.random.default_rng(0)
        weight, order = rng.integers(0, 4, 200), rng.permutation(200)
        repeated_X, repeated_y = np.repeat(X, weight, axis=0), np.repeat(y, weight)
        rows = sp.csr_array(X[order]) if sparse else X[order]
        for k in (0.3, 40):
            weighted = SGDATkClassifier(k=k, random_state=0).fit(rows, y[order], sample_weight=weight[order])
            repeated = SGDATkClassifier(k=k, random_state=0).fit(repeated_X, repeated_y)
            assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-9)
            assert_allclose(weighted.loss_threshold_, repeated.loss_threshold_, rtol=1e-9)

    def test_seed_decides(self):
        X, y = draw("log_loss", n=200)
        first, same, other = (SGDATkClassifier(random_state=seed).fit(X, y).coef_ for seed in (1, 1, 2))
        assert_array_equal(first, same)
        assert not np.array_equal(first, other)

    def test_stops_when_the_objective_is_level(self):
        X, y = draw("log_loss", n=1000)
        quick = SGDATkClassifier(max_iter=500, tol=1e-2, n_iter_no_change=2, random_state=0).fit(X, y)
        slow = SGDATkClassifier(max_iter=500, tol=1e-3, n_iter_no_change=5, random_state=0).fit(X, y)
        assert quick.n_iter_ < slow.n_iter_ < 500
        assert SGDATkClassifier(max_iter=30, tol=None).fit(X, y).n_iter_ == 30
        assert len(slow.objective_curve_) == slow.n_iter_

    def test_stops_early_on_held_out_rows(self):
        X, y = draw("squared_error", n=1000)
        model = SGDATkRegressor(max_iter=500, early_stopping=True, random_state=0).fit(X, y)
        assert model.n_iter_ < 500
        # the rows held out are not learned from: each pass makes nine tenths of the visits
        assert model.t_ == 900 * model.n_iter_

    def test_adaptive_steps_get_shorter(self):
        X, y = draw("hinge", n=500)
        short = SGDATkClassifier("hinge", learning_rate="adaptive", max_iter=1000, average=None, random_state=0).fit(
            X, y
        )
        long = SGDATkClassifier("hinge", learning_rate="constant", max_iter=1000, average=None, random_state=0).fit(
            X, y
        )
        assert short.objective_curve_[-1] < long.objective_curve_[-1]
        assert short.n_iter_ < 1000

    def test_warns_while_the_objective_still_falls(self):
        X, y = draw("squared_error", n=200)
        with pytest.warns(ConvergenceWarning, match="raise max_iter"):
            SGDATkRegressor(eta0=1e-3, learning_rate="constant", max_iter=3, random_state=0).fit(X, y)
        with pytest.warns(ConvergenceWarning, match="fell for 3 of 3 classes") as caught:
            SGDATkClassifier(eta0=0.01, learning_rate="constant", max_iter=2, random_state=0).fit(
                X, X[:, :3].argmax(axis=1)
            )
        assert [warning.filename for warning in caught] == [__file__]

    def test_takes_losses_float32_and_clones(self):
        X, y = draw("log_loss", n=300)
        model = SGDATkClassifier(LogLoss(), k=20, random_state=0)
        double, single = clone(model).fit(X, y), clone(model).fit(X.astype(np.float32), y)
        assert single.coef_.dtype == np.float32
        assert_allclose(single.coef_, double.coef_, atol=0.05)

    def test_prints_its_progress(self, capsys):
        SGDATkClassifier(verbose=1, max_iter=2, tol=None).fit(*draw("log_loss"))
        assert capsys.readouterr().out.startswith("pass 1: objective")


class TestBlocks:
    def test_of_a_generator_are_a_stream(self):
        X, y = draw("log_loss", n=1500)
        blocks = ((X[begin : begin + 200], y[begin : begin + 200]) for begin in range(0, 1500, 200))
        model = SGDATkClassifier(k=0.5, shuffle=False).fit_blocks(blocks, classes=[-1, 1])
        assert model.n_iter_ == 1
        assert_array_equal(model.coef_, SGDATkClassifier(k=0.5).partial_fit(X, y, classes=[-1, 1]).coef_)

    def test_that_can_be_read_again_are_passed_over(self):
        for n in (300, 1500):  # fewer and more rows than set the scale
            X, y = draw("squared_error", n=n)
            cyclic = SGDATkRegressor(shuffle=False, max_iter=4, tol=None)
            blocks = clone(cyclic).fit_blocks(RowBlocks(X, y, chunk_size=70))
            assert blocks.n_iter_ == 4
            assert blocks.t_ == 4 * n
            if n > 1000:
                assert_allclose(blocks.coef_, cyclic.fit(X, y).coef_, rtol=1e-12)
        shuffled = SGDATkRegressor(random_state=0).fit_blocks(RowBlocks(X, y, np.ones(1500), chunk_size=70))
        assert_allclose(shuffled.coef_, SGDATkRegressor(random_state=1).fit(X, y).coef_, atol=0.05)

    def test_of_a_file_are_copied_and_let_go(self, tmp_path):
        X, y = draw("log_loss", n=1500)
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        blocks = list(RowBlocks(mapped, y, chunk_size=400))
        assert not any(np.shares_memory(block, mapped) for block, _ in blocks)
        assert_array_equal(np.vstack([block for block, _ in blocks]), X)

    def test_of_parquet_batches(self, tmp_path):
        X, y = draw("log_loss", n=1200)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(5)]).assign(y=y)
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")

        def batches():
            for batch in pq.ParquetFile(tmp_path / "rows.parquet").iter_batches(batch_size=100):
                rows = batch.to_pandas()
                yield rows.drop(columns="y"), rows["y"]

        model = SGDATkClassifier(k=0.5, shuffle=False).fit_blocks(batches(), classes=[-1, 1])
        assert_array_equal(model.feature_names_in_, ["x0", "x1", "x2", "x3", "x4"])
        assert_array_equal(model.coef_, SGDATkClassifier(k=0.5, shuffle=False, max_iter=1).fit(X, y).coef_)

    def test_are_checked(self):
        X, y = draw("log_loss")
        with pytest.raises(ValueError, match="equal length"):
            RowBlocks(X, y[:-1])
        with pytest.raises(ValueError, match="at least one block"):
            SGDATkRegressor().fit_blocks([])
        with pytest.raises(ValueError, match="early_stopping=True is expected with fit"):
            SGDATkRegressor(early_stopping=True).fit_blocks([(X, y)])


@parametrize_with_checks(
    [
        SGDATkClassifier(),
        SGDATkRegressor(),
        SGDATkClassifier("hinge", learning_rate="adaptive", average=None, max_iter=100),
    ]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The samples of:UserWarning")
def test_scikit_learn_accepts(estimator, check, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    check(estimator)
