"""What cannot be fitted on tensors is refused, in one sentence, and where arrays are refused in the same words."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest
import sklearn
import torch
from sklearn.exceptions import DataConversionWarning

from atklearn import ATkClassifier, ATkClassifierCV, ATkRegressor
from atklearn.encoding import tensors as tensor_checks
from atklearn.runtime.namespaces import home_of, kept_home, on_host

pytestmark = pytest.mark.usefixtures("as_tensors")

X = torch.tensor(np.random.default_rng(0).standard_normal((30, 3)))
Y = torch.arange(30) % 2
ONES = torch.ones(30, dtype=torch.float64)
NAN = torch.where(torch.arange(30) == 3, float("nan"), ONES)


def said_of(fit):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        fit()
    return str(caught.value)


@pytest.mark.parametrize(
    ("X", "y", "weight"),
    [
        (X[:0], Y[:0], None),
        (X[:, :0], Y, None),
        (X, Y[:7], None),
        (X, None, None),
        (X, torch.stack([Y, Y], dim=1), None),
        (X, Y * 0, None),
        (X, X[:, 0], None),
        (X, torch.where(Y == 0, NAN, 1.0), None),
        (X * NAN[:, None], Y, None),
        (torch.where(X.float() == X.float().max(), float("inf"), X.float()), Y, None),
        (X, Y, ONES[:4]),
        (X, Y, NAN),
        (X, Y, ONES * float("inf")),
        (X, Y, -ONES),
        (X, Y, ONES * 0.0),
        (X, Y * 0, Y.double()),
    ],
)
def test_same_words_as_of_arrays(X, y, weight):
    theirs, ours = (
        said_of(lambda: ATkClassifier(k=1.0).fit(*parts))  # noqa: B023
        for parts in ((X.numpy(), on_host(y), on_host(weight)), (X, y, weight))
    )
    assert ours == theirs


def test_same_words_of_targets_that_are_no_numbers():
    for y in (["a"] * 30, NAN):
        theirs = said_of(lambda: ATkRegressor(k=1.0).fit(X.numpy(), on_host(y)))  # noqa: B023
        assert said_of(lambda: ATkRegressor(k=1.0).fit(X, y)) == theirs  # noqa: B023


def test_complex_targets_are_refused():
    with pytest.raises(ValueError, match="Complex data not supported"):
        ATkRegressor(k=1.0).fit(X, Y * 1j)


def test_same_words_of_other_features():
    for train, test in ((X.numpy(), X[:, :2].numpy()), (X, X[:, :2])):
        model = ATkClassifier(k=1.0).fit(train, Y)
        assert said_of(lambda: model.predict(test)) == (  # noqa: B023
            "X has 2 features, but ATkClassifier is expecting 3 features as input."
        )
    assert "NaN" in said_of(lambda: model.predict(X * NAN[:, None]))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (X[:, 0], r"shape \(30,\); use X.reshape\(-1, 1\)"),
        (X[None], r"shape \(1, 30, 3\)"),
        (X * 1j, "complex128"),
        (X.to_sparse(), "to_dense"),
        (X.to("meta"), "no float64"),
    ],
)
def test_says_what_tensors_are_expected(X, words):
    for fit in (ATkClassifier(k=1.0).fit, ATkClassifierCV().fit):
        with pytest.raises(ValueError, match=f"X is expected to be a dense tensor of real numbers.*{words}"):
            fit(X, Y)


def test_a_device_without_float64_is_refused(monkeypatch):
    monkeypatch.setattr(tensor_checks, "_has_float64", lambda _: False)
    with pytest.raises(ValueError, match="on cpu, which has no float64; move it to the CPU or a CUDA device"):
        ATkClassifier(k=1.0).fit(X, Y)


def test_a_column_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        model = ATkClassifier(k=1.0).fit(X, Y[:, None])
    assert torch.equal(model.coef_, ATkClassifier(k=1.0).fit(X, Y).coef_)


def test_large_numbers_whose_sum_is_too_large_are_fine():
    large = torch.full((30, 3), 3e38) * torch.where(Y == 0, 1.0, -1.0)[:, None]
    assert torch.isinf(large.abs().sum())
    tensor_checks.check_tensor_features(ATkClassifier(k=1.0).fit(X, Y), home_of(X), large.abs())


class Elsewhere:
    """An array of a library that speaks the array API."""

    device = "cpu"

    def __dlpack__(self):
        raise NotImplementedError

    def __array_namespace__(self):
        return np


def test_without_pytorch_other_arrays_are_refused(monkeypatch):
    imported = builtins.__import__

    def without_torch(name, *arguments):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
        return imported(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    monkeypatch.setattr(sys, "modules", {name: module for name, module in sys.modules.items() if name != "torch"})
    with pytest.raises(ModuleNotFoundError, match=r"computed by torch, .*pip install 'atklearn\[torch\]'"):
        kept_home(Elsewhere())


def test_other_arrays_are_arrays_unless_scikit_learn_dispatches(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    import array_api_strict as xp

    foreign = xp.asarray(X.numpy())
    assert home_of(foreign) is None
    assert isinstance(ATkClassifier(k=1.0).fit(foreign, xp.asarray(Y.numpy())).coef_, np.ndarray)
    with sklearn.config_context(array_api_dispatch=True):
        assert str(home_of(foreign)).startswith("array_api_strict on ")
        model = ATkClassifier(k=1.0).fit(foreign, Y)
        assert isinstance(model.predict(foreign), type(foreign))
        here = model.to_numpy()
    assert here.predict(X.numpy()).tolist() == ATkClassifier(k=1.0).fit(X, Y).predict(X).tolist()
    with pytest.raises(ValueError, match="must use the same namespace"):
        model.predict(X)
