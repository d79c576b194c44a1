"""Fits in chunks are the fits in memory: same coefficients, same certificate, however the rows are cut."""

from __future__ import annotations

import pickle
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from chunk_cases import CUTS, N_PROBLEMS, assert_same_fit, before_queries, cuts, draw, draw_case
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor, ATkRegressorCV, CollapseWarning
from atklearn.chunked import chunk_store, engine
from atklearn.chunked.chunk import Block, Constant, FoldPart, RowView
from atklearn.chunked.engine import Request, answer
from atklearn.chunked.queries import FetchVector
from atklearn.losses.individual import SquaredError
from atklearn.ondisk import ArrayChunks
from atklearn.ondisk.array_chunks import ExecutorEngine


class Cut(ArrayChunks):
    """Chunks that end at given rows."""

    def __init__(self, X, ends):
        super().__init__(X)
        self.given = ends

    def ends(self):
        return self.given


def fit_in_chunks(case, ends, **options):
    cls = ATkClassifier if case.is_classification else ATkRegressor
    return cls(**case.options | options).fit(Cut(case.X, ends), case.y, case.weight)


@pytest.mark.parametrize("seed", range(N_PROBLEMS))
def test_coefficients_do_not_depend_on_how_rows_are_cut(seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # both go as far as floats allow
        warnings.simplefilter("ignore", CollapseWarning)
        expected = draw_case(seed).in_memory()
        for how in CUTS:
            assert_same_fit(fit_in_chunks(*cuts(draw_case(seed), how)), expected)


def test_a_chunk_that_has_forgotten_everything_answers_as_before(monkeypatch):
    """What happens when a worker dies: its chunks are read anew elsewhere, and know only what they are told."""
    X, f = draw()
    chunks = ArrayChunks(X, chunk_size=500)
    remembered = ATkClassifier(k=0.4, tol=1e-10).fit(chunks, f > 0.0)
    before_queries(monkeypatch, ExecutorEngine, range(5, 1000, 5), engine._memories.clear)
    forgetting = ATkClassifier(k=0.4, tol=1e-10).fit(chunks, f > 0.0)
    assert forgetting.n_passes_ > remembered.n_passes_
    assert_same_fit(forgetting, remembered, rtol=1e-8)


@pytest.mark.parametrize("loss", ["log_loss", "hinge", "absolute_error"])
def test_a_newton_step_reads_the_data_twice(loss):
    X, f = draw()
    cls, y = (ATkRegressor, f) if loss == "absolute_error" else (ATkClassifier, np.where(f > 0.0, "yes", "no"))
    model = cls(loss, k=0.6).fit(ArrayChunks(X, chunk_size=1000), y)
    fixed = 7  # survey; first point, its gradient, its curvature; another first smoothing; proof; top_weights_
    assert model.n_iter_ >= 5
    assert model.n_passes_ <= 2 * model.n_iter_ + fixed


@pytest.mark.parametrize("room", [None, 1 << 14])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error"])
def test_a_small_top_is_solved_on_the_rows_that_are_in_it(loss, room, monkeypatch):
    """The largest losses are fetched, as many as there is room for; the certificate is that of all rows."""
    X, f = draw(8000)
    if room is not None:
        monkeypatch.setattr(chunk_store, "FETCHED_BYTES", room)
    options = {"loss": loss, "k": 0.03, "tol": 1e-9}
    model = ATkRegressor(**options).fit(ArrayChunks(X, chunk_size=1700), f)
    assert_same_fit(model, ATkRegressor(**options).fit(X, f))
    assert room is not None or model.n_passes_ <= 15
    assert model.dual_gap_ <= 1e-9 * model.objective_


def test_what_travels_does_not_grow_with_the_rows(monkeypatch):
    sizes = {}

    def weigh(self, request, chunks, **options):
        reply = ask(self, request, chunks, **options)
        if request.query.name != "summary":
            size = len(pickle.dumps(request)) + len(pickle.dumps(reply))
            sizes[n] = max(sizes.get(n, 0), size)
        return reply

    ask = ExecutorEngine.ask
    monkeypatch.setattr(ExecutorEngine, "ask", weigh)
    for n in (20_000, 200_000):
        X, f = draw(n)
        ATkClassifier(k=0.4, tol=1e-4).fit(ArrayChunks(X, chunk_size=n // 4), f > 0.0)
    assert sizes[200_000] < 1.2 * sizes[20_000]


def test_k_is_chosen_as_in_memory():
    X, f = draw(12_000)
    options = {"scoring": "worst_class_error"}
    weight = np.random.default_rng(1).integers(1, 3, f.size).astype(float)
    model = ATkClassifier(**options).fit(ArrayChunks(X, chunk_size=5000), f > 1.0, weight)
    assert model.k_share_ == pytest.approx(ATkClassifier(**options).fit(X, f > 1.0, weight).k_share_, rel=1e-9)


def test_weights_of_samples_are_those_in_memory():
    X, f = draw(500)
    weight = np.random.default_rng(1).integers(0, 3, f.size).astype(float)
    options = {"k": 0.3, "tol": 1e-12}
    model = ATkRegressor(**options).fit(ArrayChunks(X, chunk_size=111), f, weight)
    expected = ATkRegressor(**options).fit(X, f, weight).top_weights_
    np.testing.assert_allclose(model.top_weights_, expected, atol=1e-6)


def test_processes_map_files_by_themselves(tmp_path):
    X, f = draw(2000)
    files = []
    for name, array in (("X", X), ("f", f)):
        np.save(tmp_path / f"{name}.npy", array)
        files.append(np.load(tmp_path / f"{name}.npy", mmap_mode="r"))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        chunks = ArrayChunks(files[0][500:], chunk_size=300, executor=executor)
        model = ATkRegressor(k=0.3, tol=1e-9).fit(chunks, files[1][500:])
    assert_same_fit(model, ATkRegressor(k=0.3, tol=1e-9).fit(X[500:], f[500:]))
    by_name = ATkRegressor(k=0.3, tol=1e-9).fit(ArrayChunks(tmp_path / "X.npy"), tmp_path / "f.npy")
    assert_same_fit(by_name, ATkRegressor(k=0.3, tol=1e-9).fit(X, f))


def test_what_is_fitted_on_chunks_predicts_from_arrays_and_from_chunks():
    X, f = draw(600, 6)
    y = np.where(f > 1.0, "high", np.where(f > -1.0, "middle", "low"))
    chunks = ArrayChunks(X, chunk_size=100)
    model = clone(ATkClassifier(k=0.8)).fit(chunks, y)
    np.testing.assert_array_equal(model.predict(chunks), pickle.loads(pickle.dumps(model)).predict(X))
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        np.testing.assert_allclose(getattr(model, method)(chunks), getattr(model, method)(X), rtol=1e-12)
    assert model.score(chunks, y) == model.score(X, y) > 0.6
    assert not hasattr(model.fit(X, y), "n_passes_")


@pytest.mark.parametrize("is_weighted", [False, True])
def test_grids_are_scored_as_in_memory_on_the_same_folds(is_weighted):
    X, f = draw(400)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, f.size) if is_weighted else None
    grid = {"ks": [0.3, 1.0], "Cs": [1.0, 100.0]}
    model = ATkRegressorCV(cv=3, **grid).fit(ArrayChunks(X, chunk_size=91), f, weight)
    seed = int(np.random.RandomState(0).randint(1, 2**31 - 1, size=1)[0])
    splits = []
    for fold in range(3):
        inside = FoldPart(3, fold, seed, is_held_out=True).of(X)
        splits.append((np.flatnonzero(~inside), np.flatnonzero(inside)))
    assert min(test.size for _, test in splits) > 80
    expected = ATkRegressorCV(cv=splits, **grid).fit(X, f, weight)
    for fold in range(3):
        name = f"split{fold}_test_score"
        np.testing.assert_allclose(model.cv_results_[name], expected.cv_results_[name], atol=2e-3)
    assert model.best_params_ == expected.best_params_
    assert_same_fit(model, model.best_estimator_)


@pytest.mark.parametrize("task", ["classes", "numbers"])
def test_by_default_k_and_C_are_those_chosen_in_memory(task):
    X, f = draw(700)
    y = f > np.median(f) if task == "classes" else f
    kinds = (ATkClassifier, ATkClassifierCV) if task == "classes" else (ATkRegressor, ATkRegressorCV)
    here = kinds[0]().fit(X, y)
    for kind in kinds:
        model = kind().fit(ArrayChunks(X, chunk_size=190), y)
        np.testing.assert_allclose([model.k_share_, model.C_], [here.k_share_, here.C_])
        np.testing.assert_allclose(model.selection_.means, here.selection_.means)
        assert model.selection_.chosen == here.selection_.chosen


def test_the_fit_that_goes_on_is_remembered_and_the_idle_one_is_not(monkeypatch):
    """A process remembers the chunks of a few fits; the one that has not been asked for longest is forgotten first."""
    view, block = RowView(0, SquaredError()), Block(np.ones((3, 1)), np.zeros(3))
    monkeypatch.setattr(engine, "_memories", {})

    def ask(fit, block=None):
        """Ask for a vector: whoever remembers it needs neither data nor how to make it; return who does not."""
        recipes = () if block is None else (Constant(1, view, 0.5),)
        return answer(Request(fit, FetchVector(view, 1), recipes, frozenset({0, 1})), [(0, block)]).missing

    ask("running", block)
    for other in range(3 * engine._MOST_FITS):
        ask(f"idle {other}", block)
        assert ask("running") == ()
    assert ask("idle 0") == (0,)
