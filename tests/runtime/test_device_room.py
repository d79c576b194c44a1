"""Where a device is full, one sentence says what would fit, and nothing stays behind."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from atklearn import ATkClassifier, ATkClassifierCV, atk_path
from atklearn.encoding import encoded as encoding
from atklearn.runtime import namespaces as device_room
from atklearn.stores.tensors import tensor_store

X = torch.randn((400, 3), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0.0).long()

FITS = {
    "plain": lambda: ATkClassifier(k=0.5).fit(X, Y),
    "searched": lambda: ATkClassifierCV(ks=2, Cs=2, cv=2).fit(X, y=Y),
    "path": lambda: atk_path(X=X, y=Y, ks=[0.5], Cs=[1.0]),
}


@pytest.fixture(autouse=True)
def as_tensors(monkeypatch):
    """Tensors are computed as such, as on a GPU."""
    monkeypatch.setattr(encoding, "is_quicker_on_host", lambda *_: False)


@pytest.fixture
def full_device(monkeypatch):
    """Let the device run full in the middle of a fit; return the tensors that were made until then."""
    made = []

    def sides(rows, state):
        made.extend(weakref.ref(each) for each in (state.f, rows.densities(state)))
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(tensor_store.TensorRows, "sides", sides)
    monkeypatch.setattr(device_room, "_free_bytes", lambda *_: 2.0**30 + 20_000.0)
    return made


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_full_device_is_one_sentence_with_the_rows_that_fit(fit, full_device):
    rows = int(20_000 / device_room.bytes_per_row(3, 8))
    assert 0 < rows < len(X)
    with pytest.raises(MemoryError, match=rf"enough for blocks of {rows} rows; fit X\[:{rows}\]") as caught:
        fit()
    assert str(caught.value).count("\n") == 0
    assert caught.value.__context__ is None
    assert full_device


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_nothing_stays_allocated_while_the_error_is_looked_at(fit, full_device):
    """The error holds frames, but none that hold tensors; also not until cycles are collected, which may take long."""
    gc.disable()
    try:
        with pytest.raises(MemoryError) as caught:
            fit()
        assert caught.tb is not None
        assert full_device
        assert all(each() is None for each in full_device)
    finally:
        gc.enable()


def test_a_model_keeps_what_it_was_fitted_to_before(monkeypatch):
    model = ATkClassifier(k=0.5).fit(X, Y)
    before = model.coef_.clone()

    def run_full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(tensor_store.TensorRows, "sides", run_full)
    monkeypatch.setattr(device_room, "_free_bytes", lambda *_: 0.0)
    with pytest.raises(MemoryError, match="blocks of 0 rows"):
        model.fit(X, Y)
    assert torch.equal(model.coef_, before)
