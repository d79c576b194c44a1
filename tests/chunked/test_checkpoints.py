"""A checkpoint is data that a fit goes on from: written at every step, for its owner, and refused in a sentence."""

from __future__ import annotations

import json
import os
import pickle
import stat
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
from chunk_cases import assert_same_fit, before_queries, draw

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor
from atklearn.chunked.checkpoint import Checkpoint
from atklearn.ondisk import ArrayChunks
from atklearn.ondisk.array_chunks import ExecutorEngine

X, F = draw()
Y = F > 0.0


def interrupt():
    raise KeyboardInterrupt


def interrupt_at(monkeypatch, number):
    """Raise what Ctrl-C raises at the query of a number, counted from 1; return the names of all."""
    return before_queries(monkeypatch, ExecutorEngine, [number], interrupt)


@pytest.fixture
def stopped(monkeypatch, tmp_path):
    """The checkpoint of a fit that was stopped, the chunks that it is of, and its model."""
    chunks, model = ArrayChunks(X, chunk_size=700, checkpoint=tmp_path / "fit"), ATkClassifier(k=0.5)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 60)
        with pytest.raises(KeyboardInterrupt):
            model.fit(chunks, Y)
    return tmp_path / "fit", chunks, model


def test_an_interrupted_fit_leaves_the_former_model_and_goes_on_where_it_stopped(monkeypatch, tmp_path):
    path = tmp_path / "folder" / "fit.checkpoint"
    options = {"k": 0.5, "tol": 1e-10}
    model = ATkClassifier(**options | {"k": 1.0}).fit(X, Y)
    before = model.coef_.copy()
    with monkeypatch.context() as patched:
        whole = interrupt_at(patched, 0)
        expected = ATkClassifier(**options).fit(ArrayChunks(X, chunk_size=700), Y)
    with monkeypatch.context() as patched:
        interrupt_at(patched, 3 * len(whole) // 4)
        with pytest.raises(KeyboardInterrupt) as stopped:
            model.set_params(k=0.5).fit(ArrayChunks(X, chunk_size=700, checkpoint=path), Y)
    assert "goes on from there" in stopped.value.__notes__[0]
    np.testing.assert_array_equal(model.coef_, before)
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    with monkeypatch.context() as patched:
        rest = interrupt_at(patched, 0)
        resumed = ATkClassifier(**options).fit(ArrayChunks(X, chunk_size=450, checkpoint=path), Y)
    assert len(rest) < len(whole)
    assert resumed.n_iter_ < expected.n_iter_
    assert_same_fit(resumed, expected)
    assert list(path.parent.iterdir()) == []


CASES = {
    "squared error": (ATkRegressor("squared_error", k=0.5), F),
    "squared error, few": (ATkRegressor("squared_error", k=0.1), F),
    "absolute error": (ATkRegressor("absolute_error", k=0.5), F),
    "absolute error, few": (ATkRegressor("absolute_error", k=0.02), F),
    "hinge": (ATkClassifier("hinge", k=0.6), Y),
    "three classes": (ATkClassifier(k=0.95), np.digitize(F, [-1.0, 1.0])),
}


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("uneven", [False, True])
def test_every_step_is_written_down_and_gone_on_from(monkeypatch, tmp_path, what, uneven):
    """Few rows in the top are solved in memory, uneven columns in other units; what is written is of all rows."""
    model, y = CASES[what]
    rows, y = np.tile(X, (2, 1)) + 0.1 * np.random.default_rng(1).standard_normal((6000, 5)), np.tile(y, 2)
    rows *= [1e-4, 1.0, 1.0, 1.0, 1e4] if uneven else 1.0
    path, notes = tmp_path / "fit", []
    note = Checkpoint.note

    def count(checkpoint, problem, point):
        note(checkpoint, problem, point)
        notes.append(problem)
        if len(notes) == stop_at:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "note", count)
    stop_at = 0
    chunks = ArrayChunks(rows, chunk_size=1500, checkpoint=path)
    whole = model.fit(chunks, y)
    steps, coef = np.sum(whole.n_iter_), whole.coef_.copy()
    assert len(notes) >= steps - 1
    stop_at = 3 * len(notes) // 4
    notes.clear()
    with pytest.raises(KeyboardInterrupt):
        model.fit(chunks, y)
    assert path.exists()
    stop_at = 0
    resumed = model.fit(chunks, y)
    assert np.sum(resumed.n_iter_) < steps
    scale = np.linalg.norm(coef * rows.std(axis=0))
    assert np.linalg.norm((resumed.coef_ - coef) * rows.std(axis=0)) <= 3e-3 * scale
    assert np.all(resumed.dual_gap_ <= 1e-6 * resumed.objective_)


def test_only_its_owner_may_read_it(stopped):
    path, _, _ = stopped
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def save(path, write=np.savez, **arrays):
    with path.open("wb") as file:
        write(file, **arrays)


class Harm:
    """What runs code where it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("harmed",)


def changed(path, change=lambda *_: None, coef=None):
    """Write a checkpoint once more, its header or coefficients changed."""
    with np.load(path, allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    header = json.loads(str(arrays["header"]))
    entry = header["entries"]["class True"]
    change(header, entry["value"])
    if coef is not None:
        name = entry["arrays"]["coef"]
        arrays[name] = coef(arrays[name])
    save(path, **arrays | {"header": np.array(json.dumps(header))})


def as_pickle(path):
    path.write_bytes(pickle.dumps({"subject": {}, "reached": Harm()}))


def as_pickled_arrays(path):
    save(path, header=np.array([Harm()], dtype=object))


def as_compressed(path):
    with np.load(path) as found:
        arrays = {name: found[name] for name in found.files}
    save(path, np.savez_compressed, **arrays)


DAMAGE = {
    "a pickle": as_pickle,
    "arrays of objects": as_pickled_arrays,
    "compressed, of any size": as_compressed,
    "nothing": lambda path: path.write_bytes(b""),
    "a part": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "a bit": lambda path: path.write_bytes(path.read_bytes()[:300] + b"\xff" + path.read_bytes()[301:]),
    "arrays of another program": lambda path: save(path, X=X),
}
CHANGES = {
    "another version": lambda header, _: header.update(version=2),
    "entries of another kind": lambda header, _: header.update(entries=[1]),
    "a problem of another kind": lambda header, _: header.update(problem=3),
    "smoothing in text": lambda _, entry: entry.update(smoothing="1"),
    "no smoothing": lambda _, entry: entry.update(smoothing=-1.0),
    "an unknown recipe": lambda _, entry: entry["recipes"][0].update(kind="Chunk"),
    "an unknown field": lambda _, entry: entry["recipes"][0].update(loss=1),
    "a missing parent": lambda _, entry: entry["recipes"].pop(0),
    "a missing density": lambda _, entry: entry.update(density=5),
    "very deep": lambda _, entry: entry.update(recipes=json.loads("[" * 900 + "]" * 900)),
}
COEFFICIENTS = {
    "NaN": lambda coef: coef * np.nan,
    "too short": lambda coef: coef[:-1],
    "text": lambda coef: coef.astype(str),
}
DAMAGE |= {name: partial(changed, change=change) for name, change in CHANGES.items()}
DAMAGE |= {name: partial(changed, coef=change) for name, change in COEFFICIENTS.items()}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_is_no_checkpoint_is_refused_in_a_sentence(monkeypatch, stopped, what):
    path, chunks, model = stopped
    monkeypatch.chdir(path.parent)
    DAMAGE[what](path)
    with pytest.raises(
        ValueError, match=r"an earlier fit wrote, .*cannot be read; name another file, or remove"
    ) as error:
        model.fit(chunks, Y)
    assert not (path.parent / "harmed").exists()
    assert not hasattr(error.value, "__notes__")
    path.unlink()
    model.fit(chunks, Y)


def test_the_checkpoint_of_another_fit_is_refused(stopped):
    path, chunks, model = stopped
    with pytest.raises(ValueError, match=r"same fit, got one with another k, k_used; name another file"):
        ATkClassifier(k=0.6).fit(chunks, Y)
    with pytest.raises(ValueError, match=r"same fit, got one with another .*rows"):
        model.fit(ArrayChunks(X[:-1], chunk_size=700, checkpoint=path), Y[:-1])


@pytest.mark.parametrize("weight", [None, np.roll(np.repeat([1.0, 2.0], 1500), 7)])
def test_data_are_known_by_a_fingerprint(monkeypatch, tmp_path, weight):
    """Rows in another order, cut elsewhere, are the same data; with two targets or weights exchanged not."""
    path = tmp_path / "fit"

    def fit(rows, y, weight, stop, size=700):
        with monkeypatch.context() as patched:
            asked = interrupt_at(patched, 40 if stop else 0)
            ATkRegressor("huber", k=0.5).fit(ArrayChunks(rows, chunk_size=size, checkpoint=path), y, weight)
        return asked

    with pytest.raises(KeyboardInterrupt):
        fit(X, F, weight, stop=True)
    exchanged = F.copy()
    exchanged[[0, 1]] = exchanged[[1, 0]]
    with pytest.raises(ValueError, match=r"got one with another data; name"):
        fit(X, exchanged, weight, stop=False)
    if weight is not None:
        with pytest.raises(ValueError, match=r"got one with another .*data; name"):
            fit(X, F, np.roll(weight, 1), stop=False)
    order = np.random.default_rng(0).permutation(F.size)
    fit(X[order], F[order], None if weight is None else weight[order], stop=False, size=1100)
    assert not path.exists()


def test_a_second_fit_on_a_checkpoint_is_refused_while_the_first_goes_on(monkeypatch, stopped):
    path, chunks, model = stopped
    refusals = []

    def fit_twice():
        here = threading.Thread(target=fit_beside)
        here.start()
        here.join()
        refusals.append(in_another_process())

    def fit_beside():
        with pytest.raises(ValueError, match=r"another fit is writing; name another file, or wait for it") as error:
            ATkClassifier(k=0.5).fit(ArrayChunks(X, chunk_size=700, checkpoint=path), Y)
        refusals.append(error.value)

    def in_another_process():
        code = f"from atklearn.chunked.checkpoint import Checkpoint; Checkpoint({str(path)!r}, {{}})"
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr

    before_queries(monkeypatch, ExecutorEngine, [20], fit_twice)
    fitted = model.fit(chunks, Y)
    assert "another fit is writing" in str(refusals[0])
    assert "another fit is writing" in refusals[1]
    assert_same_fit(fitted, ATkClassifier(k=0.5).fit(X, Y), rtol=1e-3)
    assert list(path.parent.iterdir()) == []
    ATkClassifier(k=0.5).fit(chunks, Y)  # the name is free again


def test_a_folder_where_nothing_can_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ValueError, match=r"expected to be one in a folder where files can be made, got .*name another"):
        ATkClassifier(k=0.5).fit(ArrayChunks(X, checkpoint=tmp_path / "file" / "fit"), Y)


def test_scores_of_finished_folds_are_not_computed_again(monkeypatch, tmp_path):
    options = {"ks": [0.4, 1.0], "Cs": [1.0, 100.0], "cv": 3}
    chunks = ArrayChunks(X, chunk_size=1500, checkpoint=tmp_path / "search")
    with monkeypatch.context() as patched:
        whole = interrupt_at(patched, 0)
        expected = ATkClassifierCV(**options).fit(chunks, Y)
    with monkeypatch.context() as patched:
        interrupt_at(patched, len(whole) // 2)
        with pytest.raises(KeyboardInterrupt):
            ATkClassifierCV(**options).fit(chunks, Y)
    with monkeypatch.context() as patched:
        rest = interrupt_at(patched, 0)
        resumed = ATkClassifierCV(**options).fit(chunks, Y)
    assert len(rest) < 0.8 * len(whole)
    np.testing.assert_allclose(resumed.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    assert list(tmp_path.iterdir()) == []
