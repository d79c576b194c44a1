"""The laws of aggregates of tensors: those of the NumPy core, with gradients, masks and dimensions."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from atklearn import aggregates
from atklearn import torch as tensors

AGGREGATES = {
    "average": (aggregates.Average(), tensors.average),
    "maximum": (aggregates.Maximum(), tensors.maximum),
    "top 3": (aggregates.TopK(3), lambda losses, **kw: tensors.top_k(losses, 3, **kw)),
    "range 2 to 5": (aggregates.RankedRange(2, 5), lambda losses, **kw: tensors.ranked_range(losses, 2, 5, **kw)),
    **{
        f"{aggregate.__name__} {k}": (
            aggregate(k),
            lambda losses, function=function, k=k, **kw: function(losses, k, **kw),
        )
        for aggregate, function in (
            (aggregates.AverageTopK, tensors.average_top_k),
            (aggregates.AverageBottomK, tensors.average_bottom_k),
        )
        for k in (1, 4, 0.31, 0.07, 1.0)
    },
}
KINDS = {
    "spread": lambda rng, n: rng.exponential(size=n),
    "tied": lambda rng, n: rng.integers(-1, 3, n).astype(float),
    "constant": lambda rng, n: np.full(n, 0.7),  # noqa: ARG005
}


def beside(rng, n, weighted, masked):
    """Return weights and mask for n losses, with at least 6 units of weight that count."""
    weight = rng.integers(0, 4, n) + rng.random(n) * (rng.random(n) < 0.5) if weighted else None
    mask = rng.random(n) < 0.7 if masked else None
    if masked:
        mask[:4] = True
    if weighted:
        weight[:4] = 1.5
    return weight, mask


def as_tensor(array):
    return None if array is None else torch.from_numpy(np.asarray(array))


@pytest.mark.parametrize("name", AGGREGATES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("masked", [False, True])
class TestAgainstTheCore:
    def test_values_and_gradients_are_those_of_the_core(self, name, kind, weighted, masked):
        core, aggregate = AGGREGATES[name]
        for seed in range(4):
            rng = np.random.default_rng(seed)
            n = int(rng.integers(8, 40))
            losses = KINDS[kind](rng, n)
            weight, mask = beside(rng, n, weighted, masked)
            keep = np.ones(n, bool) if mask is None else mask
            kept_weight = None if weight is None else weight[keep]
            leaf = torch.tensor(losses, requires_grad=True)
            value = aggregate(leaf, weight=as_tensor(weight), mask=as_tensor(mask))
            value.backward()
            assert value.item() == pytest.approx(core.value(losses[keep], kept_weight), abs=1e-12, rel=1e-12)
            np.testing.assert_allclose(leaf.grad.numpy()[keep], core.weights(losses[keep], kept_weight), atol=1e-12)
            assert (leaf.grad.numpy()[~keep] == 0).all()

    def test_dimensions_are_aggregated_each_by_itself(self, name, kind, weighted, masked):
        core, aggregate = AGGREGATES[name]
        rng = np.random.default_rng(7)
        losses = KINDS[kind](rng, 3 * 4 * 5).reshape(3, 4, 5)
        weights, masks = zip(*(beside(rng, 15, weighted, masked) for _ in range(4)), strict=True)

        def laid_out(parts):  # the rows along dimensions 0 and 2
            return None if parts[0] is None else np.stack([part.reshape(3, 5) for part in parts], axis=1)

        weight, mask = laid_out(weights), laid_out(masks)
        values = aggregate(torch.tensor(losses), weight=as_tensor(weight), mask=as_tensor(mask), dim=(0, 2))
        assert values.shape == (4,)
        for place in range(4):
            keep = np.ones((3, 5), bool) if mask is None else mask[:, place]
            kept_weight = None if weight is None else weight[:, place][keep]
            expected = core.value(losses[:, place][keep], kept_weight)
            assert values[place].item() == pytest.approx(expected, abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("k", [1, 3, 0.4, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_are_those_of_finite_differences_away_from_ties(k, weighted):
    losses = torch.randperm(9, generator=torch.Generator().manual_seed(0)).double().requires_grad_()
    weight = torch.linspace(0.5, 1.7, 9, dtype=torch.float64) if weighted else None
    mask = torch.arange(9) != 4
    assert torch.autograd.gradcheck(lambda x: tensors.average_top_k(x, k, weight, mask), losses)
    assert torch.autograd.gradcheck(lambda x: tensors.average_bottom_k(x, 0.5, weight, mask), losses)
    assert torch.autograd.gradgradcheck(lambda x: tensors.average_top_k(x**2, k, weight, mask), losses)


def test_threshold_is_that_of_the_core():
    rng = np.random.default_rng(0)
    for k in (1, 5, 0.33, 1.0):
        losses, weight = rng.integers(0, 6, 30).astype(float), rng.random(30)
        found = tensors.threshold(torch.tensor(losses), k, torch.tensor(weight)).item()
        assert found == aggregates.AverageTopK(k).threshold(losses, weight)


def test_a_tensor_is_a_share():
    losses = torch.rand(57, dtype=torch.float64)
    share = torch.tensor(0.37, dtype=torch.float64)
    for mask in (None, torch.rand(57) < 0.6):
        same = tensors.average_top_k(losses, 0.37, mask=mask)
        assert tensors.average_top_k(losses, share, mask=mask).item() == pytest.approx(same.item(), rel=1e-14)


class TestWhatOthersGetWrong:
    def test_ignored_elements_do_not_count_towards_k(self):
        losses = torch.tensor([9.0, 8.0, 1.0, 2.0, 3.0, 4.0])
        mask = torch.tensor([False, False, True, True, True, True])
        assert tensors.average_top_k(losses, 0.5, mask=mask).item() == 3.5

    @pytest.mark.parametrize("hidden", [torch.nan, torch.inf, -torch.inf])
    def test_what_is_ignored_may_be_anything(self, hidden):
        losses = torch.tensor([hidden, 1.0, 2.0], requires_grad=True)
        value = tensors.average_top_k(losses, 1, mask=torch.tensor([False, True, True]))
        value.backward()
        assert value.item() == 2.0
        assert losses.grad.tolist() == [0.0, 0.0, 1.0]

    def test_k_is_never_zero(self):
        assert tensors.average_top_k(torch.tensor([1.0, 5.0, 2.0]), 0.01).item() == 5.0

    @pytest.mark.parametrize("shape", [(4,), (0,)])
    def test_of_nothing_it_is_zero_with_a_zero_gradient_on_the_graph(self, shape):
        leaf = torch.ones(shape, requires_grad=True)
        for aggregate in (tensors.average, tensors.maximum, lambda x, **kw: tensors.average_top_k(x, 3, **kw)):
            value = aggregate(leaf * torch.inf, mask=torch.zeros(shape, dtype=torch.bool))
            (grad,) = torch.autograd.grad(value, leaf, materialize_grads=True)
            assert value.item() == 0.0
            assert value.requires_grad
            assert torch.nan_to_num(grad, nan=9.0).tolist() in ([], [9.0] * 4)  # inf times the zero gradient
        value = tensors.average_top_k(leaf, 0.1, mask=torch.zeros(shape, dtype=torch.bool))
        assert (torch.autograd.grad(value, leaf)[0] == 0).all()

    def test_a_reduced_loss_is_one_clear_error(self):
        with pytest.raises(ValueError, match="already reduced: pass reduction='none'"):
            tensors.average_top_k(torch.tensor(3.0), 0.1)

    def test_more_elements_than_a_quantile_takes(self):
        losses = torch.zeros(2**24 + 2)
        losses[[5, -1]] = 1.0
        assert tensors.average_top_k(losses, 4).item() == 0.5

    def test_a_count_beyond_what_there_is_means_all(self):
        losses = torch.tensor([1.0, 5.0, 3.0])
        assert tensors.average_top_k(losses, 100).item() == 3.0
        assert tensors.average_top_k(losses, 2, mask=torch.tensor([True, False, False])).item() == 1.0

    @pytest.mark.parametrize("masked", [False, True])
    def test_what_is_not_a_number_is_not_hidden(self, masked):
        mask = torch.tensor([True] * 4) if masked else None
        assert tensors.average_top_k(torch.tensor([torch.nan, 1.0, 2.0, 3.0]), 1, mask=mask).isnan()
        assert tensors.average_top_k(torch.tensor([torch.inf, 1.0, 2.0, 3.0]), 2, mask=mask).isinf()

    def test_equal_weights_are_no_weights_however_large(self):
        losses = torch.rand(100, dtype=torch.float64)
        for scale in (1e-9, 1e9):
            weight = torch.full((100,), scale, dtype=torch.float64)
            value = tensors.average_top_k(losses, 0.07, weight)
            assert value.item() == pytest.approx(tensors.average_top_k(losses, 0.07).item(), rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_reduced_in_float32(dtype):
    losses = torch.full((70_000,), 2.0, dtype=dtype, requires_grad=True)  # their sum is beyond float16
    value = tensors.average_top_k(losses, 0.9)
    value.backward()
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(2.0)
    assert losses.grad.dtype == dtype


HAS_COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler: g++")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("backend", "dynamic"),
    [("aot_eager", False), ("aot_eager", True), pytest.param("inductor", None, marks=HAS_COMPILER)],
)
def test_compiles_to_one_graph(backend, dynamic):
    torch.compiler.reset()

    def loss(losses, weight, mask):
        value = tensors.average_top_k(losses, 0.3) + tensors.average_top_k(losses, 4, weight, mask)
        if backend == "inductor":  # which takes its time
            return value
        return value + tensors.ranked_range(losses, 1, 0.5, mask=mask, dim=1).sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend=backend)
    for n in (24, 40) if dynamic else (24,):
        given = torch.rand(3, n, requires_grad=True), torch.rand(3, n), torch.rand(3, n) < 0.8
        plain, graph = loss(*given), compiled(*given)
        assert graph.item() == pytest.approx(plain.item(), rel=1e-5)
        (plain_grad,) = torch.autograd.grad(plain, given[0])
        torch.testing.assert_close(torch.autograd.grad(graph, given[0])[0], plain_grad)


def test_maps_over_batches_and_per_sample_gradients():
    losses, mask = torch.rand(5, 12, dtype=torch.float64), torch.rand(5, 12) < 0.7
    for k in (3, 0.4):
        mapped = torch.func.vmap(lambda row, keep, k=k: tensors.average_top_k(row, k, mask=keep))(losses, mask)
        torch.testing.assert_close(mapped, tensors.average_top_k(losses, k, mask=mask, dim=1))
        plain = torch.func.vmap(torch.func.grad(lambda row, k=k: tensors.average_top_k(row, k)))(losses)
        torch.testing.assert_close(plain.sum(1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "at least 1, got 0"),
        ({"k": 0.0}, r"\(0, 1\], got 0.0"),
        ({"k": "many"}, "k is expected to be an int"),
        ({"k": 1, "mask": torch.ones(3)}, "mask is expected as a bool tensor"),
        ({"k": 1, "weight": torch.ones(4)}, r"weight is expected to fit losses of shape \(3,\), got shape \(4,\)"),
        ({"k": 1, "dim": 1}, r"dim is expected to name dimensions of losses of shape \(3,\), got 1"),
        ({"k": 1, "dim": (0, -1)}, "dim is expected to name dimensions"),
    ],
)
def test_what_does_not_fit_is_said(arguments, message):
    with pytest.raises(ValueError, match=message):
        tensors.average_top_k(torch.rand(3), **arguments)


def test_whole_numbers_are_no_losses():
    with pytest.raises(ValueError, match=r"floating-point numbers, got torch.int64"):
        tensors.average_top_k(torch.arange(3), 1)
