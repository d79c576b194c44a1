"""What is wrong with data in chunks is said in a sentence; a fit that was interrupted goes on where it stopped."""

from __future__ import annotations

import numpy as np
import pytest
from chunk_cases import assert_same_fit

from atklearn.ondisk import ATkClassifier, ATkClassifierCV, ATkRegressor
from atklearn.ondisk.executor_engine import ExecutorEngine


def draw(n=3000, d=5):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, X @ rng.standard_normal(d) + 0.3 * rng.standard_normal(n) ** 3


def spoiled(array, place, value):
    out = array.copy()
    out[place] = value
    return out


X, F = draw()
Y = F > 0.0
ONES = np.ones(F.size)
BAD = {
    "NaN": (spoiled(X, (2500, 1), np.nan), Y, None, r"Chunk 2 of the data: Input X contains NaN"),
    "infinite target": (X, spoiled(F, 1500, np.inf), None, r"Chunk 1 of the data: Input y contains infinity"),
    "negative weight": (X, Y, spoiled(ONES, 10, -1.0), r"Chunk 0 of the data: sample_weight is expected.*-1"),
    "no weight": (X, Y, 0.0 * ONES, r"At least one row with positive weight is expected"),
    "one class": (X, np.zeros(F.size, int), None, r"at least 2 classes"),
    "numbers as labels": (X, F, None, r"Unknown label type: continuous"),
    "too few targets": (X, Y[:-1], None, r"y and sample_weight as long"),
    "no rows": (X[:0], Y[:0], None, r"expected to have rows and columns"),
    "a vector": (X[:, 0], Y, None, r"two dimensions"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_data_are_told_with_the_chunk_they_are_in(what):
    X, y, weight, told = BAD[what]
    cls = ATkRegressor if what == "infinite target" else ATkClassifier
    with pytest.raises(ValueError, match=told):
        cls(k=0.5, chunk_rows=1000).fit(X, y, weight)


def test_what_chunks_cannot_do_is_told():
    with pytest.raises(ValueError, match=r"solver is expected to be 'exact'.*SGDATkClassifier"):
        ATkClassifier(solver="sgd").fit(X, Y)
    with pytest.raises(ValueError, match=r"cv is expected to be a number of folds"):
        ATkClassifierCV(cv=[(np.arange(10), np.arange(10, 20))]).fit(X, Y)
    with pytest.raises(ValueError, match=r"between 2 and the number of samples"):
        ATkClassifierCV(cv=5000).fit(X, Y)


def interrupt_at(monkeypatch, number):
    """Raise what Ctrl-C raises at the question of a number, counted from 1."""
    ask, asked = ExecutorEngine.ask, []

    def ask_or_stop(engine, request, chunks, **options):
        asked.append(request.question.name)
        if len(asked) == number:
            raise KeyboardInterrupt
        return ask(engine, request, chunks, **options)

    monkeypatch.setattr(ExecutorEngine, "ask", ask_or_stop)
    return asked


def test_an_interrupted_fit_leaves_the_former_model_and_goes_on_where_it_stopped(monkeypatch, tmp_path):
    path = tmp_path / "folder" / "fit.checkpoint"
    options = {"k": 0.5, "tol": 1e-10, "chunk_rows": 700, "checkpoint": path}
    model = ATkClassifier(**options | {"k": 1.0, "checkpoint": None}).fit(X, Y)
    before = model.coef_.copy()
    with monkeypatch.context() as patched:
        whole = interrupt_at(patched, 0)
        expected = ATkClassifier(**options).fit(X, Y)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 3 * len(whole) // 4)
        with pytest.raises(KeyboardInterrupt):
            model.set_params(k=0.5, checkpoint=path).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, before)
    assert path.exists()
    with monkeypatch.context() as patched:
        rest = interrupt_at(patched, 0)
        resumed = ATkClassifier(**options | {"chunk_rows": 450}).fit(X, Y)
    assert len(rest) < len(whole)
    assert resumed.n_iter_ < expected.n_iter_
    assert_same_fit(resumed, expected)
    assert not path.exists()


def test_the_checkpoint_of_another_fit_is_refused(monkeypatch, tmp_path):
    path = tmp_path / "fit.checkpoint"
    options = {"chunk_rows": 700, "checkpoint": path}
    with monkeypatch.context() as patched:
        interrupt_at(patched, 30)
        with pytest.raises(KeyboardInterrupt):
            ATkClassifier(k=0.5, **options).fit(X, Y)
    with pytest.raises(ValueError, match=r"same fit, got one with another k"):
        ATkClassifier(k=0.6, **options).fit(X, Y)
    with pytest.raises(ValueError, match=r"same fit, got one with another .*rows"):
        ATkClassifier(k=0.5, **options).fit(X[:-1], Y[:-1])
    path.write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"cannot be read"):
        ATkClassifier(k=0.5, **options).fit(X, Y)


def test_scores_of_finished_folds_are_not_computed_again(monkeypatch, tmp_path):
    options = {"ks": [0.4, 1.0], "Cs": [1.0, 100.0], "cv": 3, "chunk_rows": 1500, "checkpoint": tmp_path / "search"}
    with monkeypatch.context() as patched:
        whole = interrupt_at(patched, 0)
        expected = ATkClassifierCV(**options).fit(X, Y)
    with monkeypatch.context() as patched:
        interrupt_at(patched, len(whole) // 2)
        with pytest.raises(KeyboardInterrupt):
            ATkClassifierCV(**options).fit(X, Y)
    with monkeypatch.context() as patched:
        rest = interrupt_at(patched, 0)
        resumed = ATkClassifierCV(**options).fit(X, Y)
    assert len(rest) < 0.8 * len(whole)
    np.testing.assert_allclose(resumed.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert list(tmp_path.iterdir()) == []
