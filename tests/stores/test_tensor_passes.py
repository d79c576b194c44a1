"""The passes over tensors: each says what NumPy says by definition, of every loss, on tensors and as a kernel.

Without a GPU, Triton's interpreter runs the kernels: see tests/pytorch/test_interpreted_kernels.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from rows_cases import LogCosh

from atklearn import Huber, IndividualLoss, elementwise
from atklearn.core.coordinates import Units
from atklearn.core.point import FOUND, LOOK, narrow
from atklearn.losses.individual import INDIVIDUAL_LOSSES, Kink
from atklearn.stores.tensors import tensor_matrix, tensor_state
from atklearn.stores.tensors.tensor_losses import TensorLoss
from atklearn.stores.tensors.tensor_matrix import TensorMatrix
from atklearn.stores.tensors.tensor_state import PickedRows, TensorState
from atklearn.stores.tensors.triton_language import HAS_TRITON, INTERPRETED, launch, serves

HAS_KERNELS = INTERPRETED or (torch.cuda.is_available() and HAS_TRITON)
DEVICE = torch.device("cuda" if HAS_KERNELS and not INTERPRETED else "cpu")
needs_kernels = pytest.mark.skipif(not HAS_KERNELS, reason="needs Triton, and a GPU or its interpreter")
OUTSIDE = 0.1  # a number that float32 does not hold
N = 700


class Uneven(IndividualLoss):
    """A loss of a user, with a parameter, a number from outside, and most functions there are."""

    task = "regression"

    def __init__(self, share):
        self.share = share

    @elementwise
    def expand(self, prediction, target):
        """Return the squared error, larger on one side, and a smooth part beside it."""
        error = prediction - target
        weight = np.where(error < 0.0, self.share, OUTSIDE) + 0.3
        soft = np.logaddexp(error, 0.0) + np.log1p(np.square(error)) + np.sqrt(np.clip(abs(error), 0.1, 1.0))
        away = np.exp(-np.maximum(error, -error)) + np.log(1.0 + np.minimum(abs(error), 0.7)) * np.sign(error)
        return weight * error**2 + soft, 2.0 * weight * error + away, 2.0 * weight


LOSSES = [*(cls() for cls in INDIVIDUAL_LOSSES.values()), Huber(0.3), Uneven(0.9)]


def on_device(values):
    return torch.from_numpy(np.ascontiguousarray(values)).to(DEVICE)


class Case:
    """Samples of one loss as a state, and as arrays."""

    def __init__(self, loss, kernels):
        rng = np.random.default_rng(0)
        self.loss, self.kernels, self.kink = loss, kernels, Kink(loss.kink)
        self.f, self.u = rng.standard_normal(N), rng.uniform(0.5, 2.0, N)
        self.y = np.where(rng.random(N) < 0.5, 1.0, -1.0) if loss.task == "classification" else rng.standard_normal(N)
        self.centre = rng.uniform(-0.3 if self.kink.is_two_sided else 0.0, 0.3, N)
        self.k = 0.3 * self.u.sum()
        self.u /= self.k

    def state(self, f=None, **known):
        y = on_device(self.y).to(torch.int8 if self.loss.task == "classification" else torch.float64)
        loss = TensorLoss(self.loss, DEVICE if self.kernels else None)
        assert self.kernels == (loss.kernels is not None)
        return TensorState(loss, y, on_device(self.u * self.k), self.k, on_device(self.f if f is None else f), **known)

    def settled(self, mu, lam):
        state = self.state()
        return state.settled(on_device(self.centre), mu, lam, np.zeros(20), state.start)

    def densities(self, s, mu, lam):
        """Return the clipped line, on the side that is the larger one for losses of two."""
        if not self.kink.is_two_sided:
            return np.clip(self.centre + (s - lam) / mu, 0.0, 1.0)
        sign = np.where(self.centre + s / mu < 0.0, -1.0, 1.0)
        return sign * np.clip(sign * self.centre + (sign * s - lam) / mu, 0.0, 1.0)

    def size(self, s):
        return abs(s) if self.kink.is_two_sided else s

    def enters(self, slope, bend):
        return (bend > 0.0) | ((slope != 0.0) & (self.kink is Kink.NONE))


@pytest.fixture(params=[False, pytest.param(True, marks=needs_kernels)], ids=["tensors", "kernels"])
def kernels(request):
    return request.param


@pytest.fixture(params=LOSSES, ids=repr)
def case(request, kernels, monkeypatch):
    monkeypatch.setattr(tensor_state, "_CPU_BLOCK", 300)  # more samples than one block
    return Case(request.param, kernels)


def test_numbers_of_every_sample(case):
    s, slope, bend = case.loss.expand(case.f, case.y)
    mu, lam = 0.4, 0.2
    at = case.settled(mu, lam)
    size = abs(case.densities(s, mu, lam))
    strata = np.where(size >= 1.0, 2 * case.enters(slope, bend), (size > 0.0).astype(int))
    close = {"rtol": 1e-12, "atol": 1e-13}
    assert_allclose(at.losses().cpu(), case.size(s), **close)
    assert_allclose(at.slopes().cpu(), slope, **close)
    assert_allclose(at.settled_densities().cpu(), case.densities(s, mu, lam), **close)
    assert_allclose(at.strata().cpu(), strata)
    assert at.top(on_device(case.centre), mu) == pytest.approx(max(case.size(s + mu * case.centre).max(), 0.0))


@pytest.mark.parametrize("t", [0.0, 0.7])
def test_the_sums_at_a_threshold(case, t):
    way, mu = np.random.default_rng(1).standard_normal(N), 0.3
    f, u, direction = case.f + t * way, case.u, on_device(way)
    s, slope, bend = case.loss.expand(f, case.y)
    state, lam = case.state(t=t, direction=direction), float(np.quantile(case.kink.loss(s), 0.6))
    if case.kernels:
        numbers, pulls, lam, is_found = state.search(on_device(case.centre), mu, lam, direction)
        assert is_found
    else:
        numbers, pulls = state.look(on_device(case.centre), mu, lam, direction)
    r = case.densities(s, mu, lam)
    size, over = abs(r), np.maximum(case.size(s) - lam, 0.0)
    assert not case.kernels or u @ size == pytest.approx(1.0, abs=1e-9) or (lam == 0.0 and u @ size < 1.0)
    a, tied, full = u * r * slope, (size > 0.0) & (size < 1.0), (size >= 1.0) & case.enters(slope, bend)
    h_tied, h_full = (u * (size * bend + slope**2 / mu))[tied], (u * bend)[full]
    expected = [
        u @ over, u @ (over - (r * s - lam * size)), u @ size, u @ tied, np.maximum(a, 0.0).sum(),
        np.maximum(-a, 0.0).sum(), (u * abs(r * s))[a > 0.0].sum(), (u * abs(r * s))[a < 0.0].sum(), a @ way,
        u @ (s - lam), u @ (s - lam) ** 2, u @ abs(s),
        tied.sum(), h_tied.sum(), h_tied @ h_tied, full.sum(), h_full.sum(), h_full @ h_full, -f.min(), f.max(),
    ]  # fmt: skip
    assert_allclose(numbers[[*range(18), -2, -1]], expected, rtol=1e-10, atol=1e-12)
    assert_allclose(pulls.cpu(), a, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("cautious", [False, True])
def test_weights_of_the_hessian(case, cautious):
    rng, mu, lam, scales = np.random.default_rng(2), 0.4, 0.2, (1.0, 2.0, 3.0, 4.0)
    rows, own, first, n_listed = rng.integers(0, N, 300), rng.uniform(1.0, 2.0, 300), 20, 90
    picked = PickedRows(on_device(rows), n_listed, scales, on_device(own))
    found = case.settled(mu, lam).weigh(mu, picked, first, 300, cautious=cautious)
    chosen, place = rows[first:], np.arange(first, 300)
    s, slope, bend = (part[chosen] for part in case.loss.expand(case.f, case.y))
    if cautious and case.kink is Kink.NONE:
        bend = np.maximum(bend, slope**2 / np.maximum(2.0 * s, 1e-300))
    r = case.densities(case.loss.expand(case.f, case.y)[0], mu, lam)[chosen]
    tied = (abs(r) > 0.0) & (abs(r) < 1.0)
    stands_for = np.where(tied, np.where(place < n_listed, 1.0, 3.0), np.where(place < n_listed, 2.0, 4.0))
    u = case.u[chosen] * stands_for * own[first:]
    root = np.sqrt(u * abs(r) * bend + tied * u * slope**2 / mu)
    ratio = np.divide(tied * u * slope * np.where(r < 0.0, -1.0, 1.0), root, out=np.zeros(280), where=root > 0.0)
    for one, expected in zip(found, (root, ratio, tied * u), strict=True):
        assert_allclose(one.cpu(), expected, rtol=1e-11, atol=1e-14)


def test_sides_of_a_proof_and_its_bound(case):
    rng = np.random.default_rng(3)
    s, slope, _ = case.loss.expand(case.f, case.y)
    r = np.clip(rng.uniform(-1.0 if case.kink.is_two_sided else -0.3, 1.2, N), -1.0, 1.0)
    r = r if case.kink.is_two_sided else np.maximum(r, 0.0)
    side, u, state = r * slope, case.u, case.state()
    sums = [(u * side)[side > 0.0].sum(), -(u * side)[side < 0.0].sum()]
    sums += [(u * abs(r))[chosen].sum() for chosen in (side > 0.0, side < 0.0, side == 0.0)]
    assert_allclose(state.sides(on_device(r)), sums, rtol=1e-11, atol=1e-13)
    feasible = state.scaled(on_device(r), 0.9, 0.8, 0.7)
    r = r * np.where(side > 0.0, 0.9, np.where(side < 0.0, 0.8, 0.7))
    assert_allclose(feasible.density.cpu(), r, rtol=1e-14)
    assert_allclose(feasible.pulls.cpu(), u * r * slope, rtol=1e-11, atol=1e-14)
    for f in (case.f, case.f + 1e-3 * rng.standard_normal(N)):
        there, lam = case.loss.expand(f, case.y)[0], 0.2
        over = np.maximum(case.size(there) - lam, 0.0)
        change = u * r * (there - s - slope * (f - case.f))
        sums = u @ over, u @ (over - (r * there - lam * abs(r))), u @ abs(r), change.sum()
        exact = state if f is case.f else case.state(f)
        bound = exact.bound(feasible, lam)
        assert_allclose(bound[:4], sums, rtol=1e-9, atol=1e-12)
        slopes = case.loss.expand(f, case.y)[1]
        assert_allclose(bound[4:], [u @ abs(slopes), u @ abs(r * slope)], rtol=1e-9)


@pytest.mark.parametrize("has_units", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 5, 40])
def test_passes_over_the_features(d, dtype, has_units, kernels, monkeypatch):
    monkeypatch.setattr(tensor_matrix, "_CPU_BLOCK", 400)
    rng = np.random.default_rng(4)
    X, w, a = rng.standard_normal((333, d)).astype(dtype), rng.standard_normal(d), rng.standard_normal(333)
    centre, scale = (rng.standard_normal(d), 2.0 ** rng.integers(-2, 2, d)) if has_units else (np.zeros(d), np.ones(d))
    units = Units(scale=scale, centre=centre, shift=0.0) if has_units else None
    plain, matrix = (TensorMatrix(on_device(X), ones, units) for ones in (False, True))
    plain.has_kernels = matrix.has_kernels = kernels
    Z = (X.astype(float) - centre) / scale
    Z1 = np.column_stack([Z, np.ones(333)])
    close = {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(matrix.predict(w, 0.5).cpu(), Z @ w + 0.5, **close)
    assert_allclose(plain.pull_back(on_device(a)), Z.T @ a, **close)
    assert_allclose(matrix.pull_back(on_device(a)), Z1.T @ a, **close)
    assert_allclose(matrix.column_squares(on_device(a**2)), (Z1**2).T @ a**2, **close)
    rows, roots = rng.integers(0, 333, 60), rng.random(50)
    assert_allclose(matrix.scaled(on_device(rows), 10, on_device(roots)).cpu(), Z1[rows[10:]] * roots[:, None], **close)
    assert_allclose(plain.scaled(None, 10, on_device(roots)).cpu(), Z[10:60] * roots[:, None], **close)


def test_large_margins_keep_their_digits(kernels):
    margins, one = np.array([30.0, 100.0, 700.0]), on_device(np.ones(3))
    loss = TensorLoss(INDIVIDUAL_LOSSES["log_loss"](), DEVICE if kernels else None)
    state = TensorState(loss, one, one, 1.0, on_device(margins))
    assert_allclose(state.losses().cpu(), np.log1p(np.exp(-margins)), rtol=1e-14)


@needs_kernels
def test_kernels_look_next_where_the_host_would():
    """From every state of a search, and whatever was seen; what the host would look at otherwise is left to it."""
    rng = np.random.default_rng(0)
    tasks = {FOUND: 0, LOOK: 0}
    for _ in range(300):
        low, high = sorted(rng.choice([0.0, 0.3, 1.0, 2.0, np.inf], 2, replace=False))
        lam = float(rng.choice([0.0, low, 0.5 * (low + min(high, 5.0))]))
        total, free = rng.choice([0.0, 0.4, 1.0, 1.0 + 1e-12, 1.7]), rng.choice([0.0, 0.1, 0.8])
        seen_zero, mu = bool(rng.random() < 0.5), float(rng.choice([0.1, 1.0]))
        expected = narrow(lam, low, high, seen_zero, total, free, mu, N)
        partial = torch.zeros((3, 32), dtype=torch.float64, device=DEVICE)
        partial[:, 2], partial[:, 3] = total / 3.0, free / 3.0
        partial[0, 2] += total - float(partial[:, 2].sum())
        known = torch.tensor([lam, low, high, seen_zero, 0.0, 1.0], dtype=torch.float64, device=DEVICE)
        out = torch.empty(32, dtype=torch.float64, device=DEVICE)
        launch(tensor_state._narrow, (1,), DEVICE, partial, 3, 0.0, mu, 1e-14, 1e-11, known, out, 32, 64)
        there, low, high, seen_zero, task, looks = known.tolist()
        assert looks == 2.0
        if task == 2.0:  # given up
            continue
        assert (task == 1.0) == (expected[4] == FOUND)
        assert there == pytest.approx(expected[0], rel=1e-14)
        tasks[expected[4]] += 1
        if expected[4] == LOOK:
            assert (low, high, bool(seen_zero)) == expected[1:4]
    assert min(tasks.values()) > 30


@needs_kernels
def test_what_cannot_be_printed_has_no_kernels():
    class Tangent(IndividualLoss):
        task = "regression"

        @elementwise
        def expand(self, prediction, target):
            return np.tanh(prediction - target), 1.0, 0.0

    class Cube(IndividualLoss):
        task = "regression"

        @elementwise
        def expand(self, prediction, target):
            return (prediction - target) ** 3, 1.0, 0.0

    for loss in (LogCosh(), Tangent(), Cube()):
        assert TensorLoss(loss, DEVICE).kernels is None


@needs_kernels
def test_what_kernels_serve():
    assert serves(torch.zeros(3, device=DEVICE))
