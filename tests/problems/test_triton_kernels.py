"""The kernels of the solver on tensors: each says what NumPy says by definition, of every loss that can be printed.

Without a GPU, Triton's interpreter runs them: see tests/pytorch/test_interpreted_kernels.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from rows_cases import LogCosh

from atklearn import Huber, IndividualLoss, elementwise
from atklearn.losses.individual import INDIVIDUAL_LOSSES, Kink
from atklearn.stores.tensors import triton_curvature, triton_matrix, triton_proof, triton_standing
from atklearn.stores.tensors.triton_language import HAS_TRITON, INTERPRETED, serves
from atklearn.stores.tensors.triton_losses import KernelLoss
from atklearn.stores.tensors.triton_standing import Asked, Operands, filled, search

if not (INTERPRETED or (torch.cuda.is_available() and HAS_TRITON)):
    pytest.skip("needs Triton, and a GPU or its interpreter", allow_module_level=True)

DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
OUTSIDE = 0.1  # a number that float32 does not hold


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


class Case:
    """Samples of one loss as kernels take them, and as arrays."""

    def __init__(self, loss, n=700, seed=0):
        rng = np.random.default_rng(seed)
        self.kink = Kink(loss.kink)
        self.f, self.u = rng.standard_normal(n), rng.uniform(0.5, 2.0, n)
        self.y = np.where(rng.random(n) < 0.5, 1.0, -1.0) if loss.task == "classification" else rng.standard_normal(n)
        self.centre = rng.uniform(-0.3 if self.kink.is_two_sided else 0.0, 0.3, n)
        self.k, self.loss = 0.3 * self.u.sum(), loss
        self.u /= self.k

    def operands(self):
        y = on_device(self.y)
        y = y.to(torch.int8) if self.loss.task == "classification" else y
        kernels = KernelLoss.of(self.loss, DEVICE)
        return Operands(kernels, on_device(self.f), y, on_device(self.centre), on_device(self.u * self.k), self.k)

    def densities(self, s, mu, lam):
        """Return the clipped line, on the side that is the larger one for losses of two."""
        if not self.kink.is_two_sided:
            return np.clip(self.centre + (s - lam) / mu, 0.0, 1.0)
        sign = np.where(self.centre + s / mu < 0.0, -1.0, 1.0)
        return sign * np.clip(sign * self.centre + (sign * s - lam) / mu, 0.0, 1.0)

    def enters(self, slope, bend):
        return (bend > 0.0) | ((slope != 0.0) & (self.kink is Kink.NONE))


def on_device(values):
    return torch.from_numpy(np.ascontiguousarray(values)).to(DEVICE)


@pytest.fixture(params=LOSSES, ids=repr)
def case(request):
    return Case(request.param)


def test_numbers_of_every_sample(case):
    s, slope, bend = case.loss.expand(case.f, case.y)
    at, mu, lam = case.operands(), 0.4, 0.2
    size = abs(case.densities(s, mu, lam))
    strata = np.where(size >= 1.0, 2 * case.enters(slope, bend), (size > 0.0).astype(int))
    close = {"rtol": 1e-12, "atol": 1e-13}
    assert_allclose(filled(at, Asked.LOSS).cpu(), abs(s) if case.kink.is_two_sided else s, **close)
    assert_allclose(filled(at, Asked.SLOPE).cpu(), slope, **close)
    assert_allclose(filled(at, Asked.DENSITY, mu, lam).cpu(), case.densities(s, mu, lam), **close)
    assert_allclose(filled(at, Asked.STRATUM, mu, lam).cpu(), strata)


@pytest.mark.parametrize("t", [0.0, 0.7])
def test_the_threshold_and_all_sums_there(case, t):
    way, mu = np.random.default_rng(1).standard_normal(case.f.size), 0.3
    f, u = case.f + t * way, case.u
    s, slope, bend = case.loss.expand(f, case.y)
    guess = float(np.quantile(case.kink.loss(s), 0.6))
    pulls = torch.empty(case.f.size, dtype=torch.float64, device=DEVICE)
    numbers, lam, is_found = search(case.operands(), mu, guess, t, on_device(way), pulls)
    assert is_found
    r = case.densities(s, mu, lam)
    size, over = abs(r), np.maximum((abs(s) if case.kink.is_two_sided else s) - lam, 0.0)
    assert u @ size == pytest.approx(1.0, abs=1e-9) or (lam == 0.0 and u @ size < 1.0)
    a, tied, full = u * r * slope, (size > 0.0) & (size < 1.0), (size >= 1.0) & case.enters(slope, bend)
    h_tied, h_full = (u * (size * bend + slope**2 / mu))[tied], (u * bend)[full]
    expected = [
        u @ over, u @ (over - (r * s - lam * size)), u @ size, u @ tied, np.maximum(a, 0.0).sum(),
        np.maximum(-a, 0.0).sum(), (u * abs(r * s))[a > 0.0].sum(), (u * abs(r * s))[a < 0.0].sum(), a @ way,
        u @ (s - lam), u @ (s - lam) ** 2, u @ abs(s),
        tied.sum(), h_tied.sum(), h_tied @ h_tied, full.sum(), h_full.sum(), h_full @ h_full, -f.min(), f.max(),
    ]  # fmt: skip
    assert_allclose(np.delete(numbers, 9)[[*range(18), -2, -1]], expected, rtol=1e-10, atol=1e-12)
    assert_allclose(pulls.cpu(), a, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("cautious", [False, True])
def test_weights_of_the_hessian(case, cautious):
    rng, mu, lam, scales = np.random.default_rng(2), 0.4, 0.2, (1.0, 2.0, 3.0, 4.0)
    rows, own, first, n_listed = rng.integers(0, case.f.size, 300), rng.uniform(1.0, 2.0, 300), 20, 90
    found = triton_curvature.weigh_rows(
        case.operands(), mu, lam, on_device(rows), on_device(own), first, 280, n_listed, scales, cautious=cautious
    )
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


def test_sides_of_a_proof_and_its_slack(case):
    rng = np.random.default_rng(3)
    s, slope, _ = case.loss.expand(case.f, case.y)
    r = np.clip(rng.uniform(-1.0 if case.kink.is_two_sided else -0.3, 1.2, case.f.size), -1.0, 1.0)
    r = r if case.kink.is_two_sided else np.maximum(r, 0.0)
    side, u, at = r * slope, case.u, case.operands()
    sums = [(u * side)[side > 0.0].sum(), -(u * side)[side < 0.0].sum()]
    sums += [(u * abs(r))[chosen].sum() for chosen in (side > 0.0, side < 0.0, side == 0.0)]
    assert_allclose(triton_proof.weigh_sides(at, on_device(r)).cpu(), sums, rtol=1e-11, atol=1e-13)
    scaled = r * np.where(side > 0.0, 0.9, np.where(side < 0.0, 0.8, 0.7))
    a = u * scaled * slope
    density, pulls, totals = triton_proof.scale_sides(at, on_device(r), 0.9, 0.8, 0.7, 0.25)
    assert_allclose(density.cpu(), scaled, rtol=1e-14)
    assert_allclose(pulls.cpu(), a, rtol=1e-11, atol=1e-14)
    assert_allclose(totals.cpu(), [a @ (case.f - 0.25), a.sum()], rtol=1e-9, atol=1e-11)
    exact, lam = case.f + 1e-3 * rng.standard_normal(case.f.size), 0.2
    there = case.loss.expand(exact, case.y)[0]
    over = np.maximum((abs(there) if case.kink.is_two_sided else there) - lam, 0.0)
    sums = [u @ over, u @ (over - (r * there - lam * abs(r))), u @ abs(r), u @ (r * (there - s))]
    assert_allclose(triton_proof.read_slack(at, on_device(exact), on_device(r), lam).cpu(), sums, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("has_units", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 5, 40])
def test_passes_over_the_features(d, dtype, has_units):
    rng = np.random.default_rng(4)
    X, w, a = rng.standard_normal((333, d)).astype(dtype), rng.standard_normal(d), rng.standard_normal(333)
    centre, factor = (rng.standard_normal(d), rng.uniform(0.5, 2.0, d)) if has_units else (np.zeros(d), np.ones(d))
    units = (on_device(centre), on_device(factor)) if has_units else (None, None)
    Z = (X.astype(float) - centre) * factor
    Z1 = np.column_stack([Z, np.ones(333)])
    close = {"rtol": 1e-12, "atol": 1e-12}
    assert_allclose(triton_matrix.predict(on_device(X), on_device(w), 0.5, *units).cpu(), Z @ w + 0.5, **close)
    assert_allclose(triton_matrix.pull_back(on_device(X), False, on_device(a), *units).cpu(), Z.T @ a, **close)
    assert_allclose(triton_matrix.pull_back(on_device(X), True, on_device(a), *units).cpu(), Z1.T @ a, **close)
    rows, roots = rng.integers(0, 333, 60), rng.random(50)
    scaled = triton_curvature.scaled_rows(on_device(X), True, on_device(rows), 10, on_device(roots), *units)
    assert_allclose(scaled.cpu(), Z1[rows[10:]] * roots[:, None], **close)


def test_large_margins_keep_their_digits():
    margins = np.array([30.0, 100.0, 700.0])
    one = on_device(np.ones(3))
    at = Operands(KernelLoss.of(INDIVIDUAL_LOSSES["log_loss"](), DEVICE), on_device(margins), one, one, one, 1.0)
    assert_allclose(filled(at, Asked.LOSS).cpu(), np.log1p(np.exp(-margins)), rtol=1e-14)


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
        assert KernelLoss.of(loss, DEVICE) is None


def test_what_kernels_serve():
    assert serves(torch.zeros(3, device=DEVICE))
    assert not INTERPRETED or triton_standing.shared(10, DEVICE) >= 1
