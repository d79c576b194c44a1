"""The laws of aggregates of tensors: those of the NumPy core, with gradients, masks and dimensions."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from exact_slices import HARD, exact_mean, largest_inside

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


@pytest.mark.parametrize("name", HARD)
def test_against_exact_rationals_whatever_is_outside_the_slice(name):
    losses, start, stop, weight = HARD[name]
    n = sum(weight or [1.0] * len(losses))
    first, last = (end if isinstance(end, int) else end / n for end in (start, stop))
    leaf = torch.tensor(losses, dtype=torch.float64, requires_grad=True)
    value = tensors.ranked_range(leaf, first, last, as_tensor(weight))
    error = value.item() - exact_mean(losses, start, stop, weight)
    assert abs(error) <= 1e-14 * largest_inside(losses, start, stop, weight)
    (grad,) = torch.autograd.grad(value, leaf)
    np.testing.assert_allclose(grad, aggregates.RankedRange(first, last).weights(losses, weight), atol=1e-15)


class TestWhatIsInfinite:
    """Outside of the slice it is nothing, inside it is everything."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize(
        ("name", "losses", "ends", "expected"),
        [
            ("ranked_range", [torch.inf, 3.0, 2.0, 0.0], (1, 3), 2.5),
            ("ranked_range", [torch.inf, 3.0, 2.0, -torch.inf], (0.25, 0.75), 2.5),
            ("ranked_range", [torch.inf, torch.inf, 2.0, 0.0], (1, 3), torch.inf),
            ("average_bottom_k", [torch.inf, 3.0, 2.0, 0.0], (3,), 5.0 / 3.0),
            ("average_bottom_k", [torch.inf, 3.0, 2.0, -torch.inf], (2,), -torch.inf),
            ("top_k", [torch.inf, 3.0, 2.0, 0.0], (2,), 3.0),
            ("top_k", [torch.inf, 3.0, 2.0, 0.0], (1,), torch.inf),
            ("average_top_k", [-torch.inf, 3.0, 2.0, 0.0], (2,), 2.5),
            ("average_top_k", [-torch.inf, 3.0, 2.0, 0.0], (1.0,), -torch.inf),
        ],
    )
    def test_of(self, name, losses, ends, expected, weighted):
        weight = torch.ones(4) if weighted else None
        leaf = torch.tensor(losses, requires_grad=True)
        value = getattr(tensors, name)(leaf, *ends, weight=weight)
        assert value.item() == pytest.approx(expected)
        (grad,) = torch.autograd.grad(value, leaf)
        assert grad.sum().item() == pytest.approx(1.0)

    @pytest.mark.parametrize("masked", [False, True])
    def test_what_is_not_a_number_is_not_hidden_by_being_outside(self, masked):
        losses, given = torch.tensor([3.0, torch.nan, 2.0, 0.0]), {"mask": torch.tensor([True] * 4) if masked else None}
        for value in (
            tensors.average_top_k(losses, 1, **given),
            tensors.ranked_range(losses, 1, 3, **given),
            tensors.average_bottom_k(losses, 2, **given),
            tensors.top_k(losses, 2, **given),
        ):
            assert value.isnan()


class TestKAsATensor:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
    @pytest.mark.parametrize("masked", [False, True])
    def test_of_floats_it_is_a_share(self, dtype, masked):
        losses, share = torch.rand(57, dtype=torch.float64), torch.tensor(0.375, dtype=dtype)
        mask = torch.rand(57) < 0.6 if masked else None
        same = tensors.average_top_k(losses, 0.375, mask=mask)
        assert tensors.average_top_k(losses, share, mask=mask).item() == pytest.approx(same.item(), rel=1e-14)

    @pytest.mark.parametrize("masked", [False, True])
    def test_of_ints_it_counts(self, masked):
        losses = torch.rand(57, dtype=torch.float64)
        mask = torch.rand(57) < 0.6 if masked else None
        for count in (1, 2, 20, 100):
            same = tensors.average_top_k(losses, count, mask=mask)
            found = tensors.average_top_k(losses, torch.tensor(count), mask=mask)
            assert found.item() == pytest.approx(same.item(), rel=1e-14)
            assert tensors.threshold(losses, torch.tensor(count), mask=mask) == tensors.threshold(
                losses, count, mask=mask
            )

    @pytest.mark.parametrize(
        ("k", "nearest"), [(torch.tensor(1.5), 1.0), (torch.tensor(0.0), 1), (torch.tensor(-1.0), 1),
                           (torch.tensor(0), 1), (torch.tensor(-3), 1)],
    )  # fmt: skip
    def test_beyond_the_bounds_it_is_taken_as_the_nearest(self, k, nearest):
        for losses in (torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.rand(9, dtype=torch.float64)):
            for mask in (None, torch.ones_like(losses, dtype=torch.bool)):
                expected = tensors.average_top_k(losses, nearest, mask=mask).item()
                assert tensors.average_top_k(losses, k, mask=mask).item() == pytest.approx(expected)

    @pytest.mark.parametrize("k", [torch.tensor([0.5]), torch.tensor(True), torch.tensor(0.5j)])
    def test_of_another_kind_it_is_refused(self, k):
        with pytest.raises(ValueError, match="one number of no dimension, an int to count or a float for a share"):
            tensors.average_top_k(torch.rand(3), k)


class TestEmptySlices:
    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize(("start", "stop"), [(3, 2), (2, 2), (0.5, 0.25), (0.5, 0.5)])
    def test_reversed_ones_are_refused(self, start, stop, masked):
        mask = torch.ones(4, dtype=torch.bool) if masked else None
        with pytest.raises(
            ValueError, match=rf"RankedRange\(start={start}, stop={stop}\) is expected .* begins before it ends"
        ):
            tensors.ranked_range(torch.rand(4), start, stop, mask=mask)

    @pytest.mark.parametrize(("start", "stop"), [(5, 6), (4, 5), (3, 0.5), (0.5, 2)])
    def test_those_beyond_the_losses_are_refused_where_their_number_is_known(self, start, stop):
        losses = torch.rand(4)
        with pytest.raises(ValueError, match="got an empty one of 4 losses"):
            tensors.ranked_range(losses, start, stop)
        assert tensors.ranked_range(losses, start, stop, mask=torch.ones(4, dtype=torch.bool)).item() == 0.0
        assert tensors.ranked_range(losses[:0], start, stop).item() == 0.0

    def test_ranks_are_named_as_they_were_given(self):
        with pytest.raises(
            ValueError, match=r"TopK\(k=6\) is expected .* got an empty one of 4 losses; let it begin earlier"
        ):
            tensors.top_k(torch.rand(4), 6)
        with pytest.raises(ValueError, match="at least 1, got 0"):
            tensors.top_k(torch.rand(4), 0)
        with pytest.raises(ValueError, match=r"an int, the rank of a loss from 1 on, got 1\.0"):
            tensors.top_k(torch.rand(4), 1.0)


@pytest.mark.parametrize("scale", [1e-30, 1e38])
def test_float32_weights_may_add_up_to_more_than_float32_holds(scale):
    losses, weight = torch.tensor([5.0, 3.0, 2.0, 0.0] * 3), torch.tensor([1.0, 2.0, 3.0, 3.0] * 3)
    for aggregate in (
        tensors.average,
        lambda x, w: tensors.average_top_k(x, 0.4, w),
        lambda x, w: tensors.average_bottom_k(x, 0.7, w),
        lambda x, w: tensors.ranked_range(x, 0.2, 0.6, w),
    ):
        assert aggregate(losses, scale * weight).item() == pytest.approx(aggregate(losses, weight).item(), rel=1e-6)


def test_ties_in_float32_share_a_small_slice_of_many_losses():
    value = tensors.ranked_range(torch.full((3_000_000,), 0.7, requires_grad=True), 1_500_000, 1_500_001)
    assert value.item() == pytest.approx(0.7, rel=1e-6)


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
