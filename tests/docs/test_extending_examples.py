"""What the tutorials of docs/extending build is right: losses, a measure, an engine, against independent answers."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import cvxpy as cp
import numpy as np
import pytest
from joblib import parallel_config
from joblib.externals.loky import get_reusable_executor
from rows_cases import KINDS, SHARES
from sklearn.metrics import make_scorer, mean_pinball_loss
from sklearn.model_selection import GridSearchCV

import atklearn as memory
from atklearn import ATkRegressor, ATkRegressorCV, compare
from atklearn.chunked.engine import forget
from atklearn.core.problem import Problem
from atklearn.core.solve import solve_linear
from atklearn.losses.individual import Kink
from atklearn.measures import MEASURES, Answers, MeasureScorer
from atklearn.measures.catalogue import evaluate_measures

FOLDER = Path(__file__).parents[2] / "examples" / "extending"


def load(name):
    """Import an example by its path, under its own name, so that what it defines can be pickled."""
    spec = spec_from_file_location(name, FOLDER / f"{name}.py")
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


new_losses, new_engine = load("new_losses"), load("new_engine")
LOSSES = [new_losses.Expectile(0.9), new_losses.Expectile(0.3), new_losses.ToleratedError(0.7)]
PREDICTIONS = np.linspace(-6.0, 6.0, 241) + 0.013


@pytest.fixture
def new_measure():
    """The example of a measure; the catalogue is afterwards as it was."""
    before = dict(MEASURES)
    yield load("new_measure")
    MEASURES.clear()
    MEASURES.update(before)


@pytest.mark.parametrize("name", ["new_losses", "new_measure", "new_engine"])
def test_examples_run(name):
    done = subprocess.run(
        [sys.executable, "-W", "error", FOLDER / f"{name}.py"], capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "False" not in done.stdout


class TestLosses:
    """The optimum by an outside solver, on all kinds of rows; the laws of losses are in tests/losses."""

    def test_half_of_both_sides_is_half_the_squared_error(self):
        y = np.random.default_rng(0).standard_normal(PREDICTIONS.size)
        expected = 0.5 * memory.SquaredError()(PREDICTIONS, y)
        np.testing.assert_allclose(new_losses.Expectile(0.5)(PREDICTIONS, y), expected)

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    def test_the_optimum_is_that_of_a_convex_solver(self, loss, share, weighted):
        X, y, mass = drawn(weighted)
        model = ATkRegressor(loss, k=share, C=5.0, tol=1e-9).fit(X, y, mass)
        w, b, lam = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
        error = y - X @ w - b
        if isinstance(loss, new_losses.Expectile):
            paid = loss.share * cp.square(cp.pos(error)) + (1.0 - loss.share) * cp.square(cp.neg(error))
        else:
            paid = cp.pos(cp.square(error) - loss.tolerance**2)
        value = lam + mass @ cp.pos(paid - lam) / (share * mass.sum()) + cp.sum_squares(w) / 10.0
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            optimum = float(cp.Problem(cp.Minimize(value)).solve(solver=cp.CLARABEL))
        assert model.dual_gap_ <= 1e-9 * model.objective_
        assert model.objective_ == pytest.approx(optimum, rel=1e-6)

    @pytest.mark.parametrize("kind", sorted(set(KINDS) - {"plain"}))
    @pytest.mark.parametrize("loss", LOSSES, ids=repr)
    def test_every_kind_of_rows_takes_them(self, loss, kind):
        """Compiled, sparse, in chunks, tensors: each finds what the definition in plain NumPy finds."""
        X, y, mass = drawn(weighted=True)
        X = X.astype(np.float32)
        for share in SHARES:
            optima = []
            for make in (KINDS["plain"], KINDS[kind]):
                problem = Problem(make(X, y, mass, loss, True), share * mass.sum(), 5.0, "free")
                solution = solve_linear(problem, tol=1e-8)
                assert solution.dual_gap <= 1e-8 * solution.objective
                optima.append(solution.objective)
            assert optima[1] == pytest.approx(optima[0], rel=2e-8)

    def test_wrong_parameters_are_refused(self):
        with pytest.raises(ValueError, match="between 0 and 1"):
            new_losses.Expectile(1.0)
        with pytest.raises(ValueError, match="finite tolerance > 0"):
            new_losses.ToleratedError(0.0)

    def test_a_kink_is_declared_not_computed(self):
        assert Kink(new_losses.ToleratedError.kink) is Kink.POSITIVE_PART
        assert new_losses.ToleratedError(1.0).expand(np.zeros(1), np.zeros(1))[0] < 0.0


def drawn(weighted):
    """Return rows, targets with a long tail, and weights."""
    rng = np.random.default_rng(7)
    X = rng.standard_normal((80, 4))
    mass = rng.integers(1, 4, 80).astype(float) if weighted else np.ones(80)
    return X, X @ rng.standard_normal(4) + rng.gumbel(size=80), mass


class TestMeasure:
    """The example is the pinball loss, which scikit-learn has as a metric."""

    @pytest.mark.parametrize("weighted", [False, True])
    def test_it_is_the_pinball_loss(self, new_measure, weighted):
        rng = np.random.default_rng(0)
        y, predictions = rng.standard_normal(50), rng.standard_normal((3, 2, 50))  # of six fits
        weight = rng.uniform(0.0, 2.0, 50) if weighted else None
        found = evaluate_measures(Answers(y, predictions, sample_weight=weight), ["promise_cost"])["promise_cost"]
        assert found.shape == (3, 2)
        for place in np.ndindex(3, 2):
            expected = mean_pinball_loss(y, predictions[place], alpha=new_measure.LATE, sample_weight=weight)
            assert found[place] == pytest.approx(expected)

    def test_it_chooses_what_the_metric_of_scikit_learn_chooses(self, new_measure):
        X, y, _ = drawn(weighted=False)
        theirs = make_scorer(mean_pinball_loss, alpha=new_measure.LATE, greater_is_better=False)
        ours = ATkRegressorCV(scoring="promise_cost", cv=4).fit(X, y)
        other = ATkRegressorCV(scoring=theirs, cv=4).fit(X, y)
        assert (ours.k_share_, ours.C_) == (other.k_share_, other.C_)
        assert ours.best_score_ == pytest.approx(other.best_score_)
        auto = ATkRegressor("huber", scoring="promise_cost").fit(X, y)
        assert auto.k_share_ == ATkRegressor("huber", scoring=theirs).fit(X, y).k_share_
        search = GridSearchCV(ATkRegressor(C=10.0), {"k": [0.1, 0.5, 1.0]}, scoring=MeasureScorer("promise_cost"))
        other_search = GridSearchCV(ATkRegressor(C=10.0), {"k": [0.1, 0.5, 1.0]}, scoring=theirs)
        assert search.fit(X, y).best_params_ == other_search.fit(X, y).best_params_

    def test_a_comparison_in_one_process_takes_it(self, new_measure, tmp_path):
        X, y, _ = drawn(weighted=False)
        options = {"quick": True, "loss": "squared_error", "n_jobs": 1, "verbose": False, "out": tmp_path}
        result = compare(X, y, scoring="promise_cost", **options)
        assert result.verdicts.index[0] == "promise_cost"
        assert "promise cost" in str(result).lower()
        assert new_measure.PROMISE_COST.meaning in result.write().read_text(encoding="utf-8")

    def test_results_without_it_are_refused(self, request, tmp_path):
        X, y, _ = drawn(weighted=False)
        options = {"quick": True, "loss": "squared_error", "n_jobs": 1, "verbose": False, "out": tmp_path}
        compare(X, y, **options)
        request.getfixturevalue("new_measure")
        with pytest.raises(ValueError, match=r"known to this process alone.*fresh=True"):
            compare(X, y, scoring="promise_cost", **options)


class TestEngine:
    """The optimum on files is the optimum in memory, whoever reads them."""

    @pytest.fixture
    def data(self):
        rng = np.random.default_rng(3)
        X = rng.standard_normal((600, 4))
        return X, (X[:, :3] + 0.3 * rng.standard_normal((600, 3))).argmax(axis=1)

    @pytest.mark.parametrize(("k", "backend"), [(0.5, "sequential"), (0.5, "threading"), (1.0, "loky")])
    def test_files_or_memory(self, data, tmp_path, monkeypatch, k, backend):
        monkeypatch.syspath_prepend(FOLDER)  # for processes, which import the example by its name
        get_reusable_executor().shutdown(wait=True)  # those that another test has started know nothing of it
        X, y = data
        new_engine.write_parts(tmp_path, X, y, ends=[1, 300, 300, 600])  # one row, some, none, some
        expected = memory.ATkClassifier(k=k, C=50.0, tol=1e-9).fit(X, y)
        with parallel_config(backend=backend):
            chunks = new_engine.FileChunks(tmp_path, n_jobs=2)
            model = memory.ATkClassifier(k=k, C=50.0, tol=1e-9).fit(chunks, None)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.top_weights_, expected.top_weights_, atol=1e-6)
        assert (model.dual_gap_ <= 1e-9 * model.objective_).all()
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))
        np.testing.assert_array_equal(model.predict(chunks), expected.predict(X))

    def test_weights_are_in_the_files(self, data, tmp_path):
        X, y = data
        weight = np.random.default_rng(4).integers(0, 3, y.size).astype(float)
        for part, rows in enumerate(np.array_split(np.arange(y.size), 3)):
            np.savez(tmp_path / f"{part}.npz", X=X[rows], y=y[rows], weight=weight[rows])
        expected = memory.ATkClassifier(k=0.5, C=50.0, tol=1e-9).fit(X, y, weight)
        model = memory.ATkClassifier(k=0.5, C=50.0, tol=1e-9).fit(new_engine.FileChunks(tmp_path), None)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6, atol=1e-8)

    def test_a_worker_that_forgets_is_asked_again(self, data, tmp_path, monkeypatch):
        X, y = data
        new_engine.write_parts(tmp_path, X, y, ends=[200, 600])
        model, chunks = memory.ATkClassifier(k=0.5, C=50.0, tol=1e-9), new_engine.FileChunks(tmp_path)
        remembered = model.fit(chunks, None)
        passes, coef = remembered.n_passes_, remembered.coef_.copy()
        ask, asked = new_engine.JoblibEngine.ask, []

        def forgetful(engine, request, chunks, **options):
            asked.append(request.query.name)
            if len(asked) % 4 == 0:
                forget(request.fit)
            return ask(engine, request, chunks, **options)

        monkeypatch.setattr(new_engine.JoblibEngine, "ask", forgetful)
        model.fit(chunks, None)
        assert model.n_passes_ > passes
        np.testing.assert_allclose(model.coef_, coef, rtol=1e-6, atol=1e-9)

    def test_what_is_no_folder_of_files_is_refused(self, data, tmp_path):
        with pytest.raises(ValueError, match=r"without one"):
            new_engine.FileChunks(tmp_path)
        new_engine.write_parts(tmp_path, *data, ends=[600])
        with pytest.raises(ValueError, match=r"fit\(chunks, None\)"):
            memory.ATkClassifier(k=0.5).fit(new_engine.FileChunks(tmp_path), data[1])
