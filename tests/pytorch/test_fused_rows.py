"""The kernels for large rows on a GPU: what they return is what sorting in float64 returns, whatever the losses.

Without a GPU, Triton's interpreter runs them: see test_interpreted_kernels.py.
"""

from __future__ import annotations

import math

import pytest
import torch

from atklearn.stores.tensors.triton_language import HAS_TRITON, INTERPRETED
from atklearn.torch import fused_kernels, fused_rows
from atklearn.torch.fused_rows import average_top_k_rows, pays, threshold_rows

if not (INTERPRETED or (torch.cuda.is_available() and HAS_TRITON)):
    pytest.skip("needs a GPU with Triton, and a PyTorch built for it", allow_module_level=True)

DEVICE = "cpu" if INTERPRETED else "cuda"
needs_gpu = pytest.mark.skipif(INTERPRETED, reason="is about a GPU")
if INTERPRETED:  # in a process of its own, and slowly
    fused_kernels.SAMPLE, fused_kernels.PIVOTS = 1024, 32

# PyTorch warns of itself: that it may overlook waiting, and of what its compiler still uses and does; NumPy, which the
# interpreter computes with, of numbers that are not finite
pytestmark = pytest.mark.filterwarnings(
    "ignore:Synchronization debug mode", "ignore:.*torch.jit.*deprecated", "ignore:.*should not be instantiated",
    *["ignore::RuntimeWarning"] * INTERPRETED,
)  # fmt: skip
N = (2**13 if INTERPRETED else 2**17) + 5  # no multiple of anything that the kernels take at a time


def made(kind, rows=1, n=N):
    """Return losses of that kind, the same at every call."""
    generator = torch.Generator(DEVICE).manual_seed(0)

    def uniform():
        return torch.rand(rows, n, generator=generator, device=DEVICE)

    exponential = -torch.log1p(-uniform())
    made_of = {
        "exponential": lambda: exponential,
        "normal": lambda: torch.randn(rows, n, generator=generator, device=DEVICE),
        "narrow": lambda: 100 + 1e-3 * torch.randn(rows, n, generator=generator, device=DEVICE),
        "heavy tails": lambda: torch.tan(math.pi * (uniform() - 0.5)),
        "tiny": lambda: exponential * 1e-42,
        "constant": lambda: torch.full((rows, n), 0.7, device=DEVICE),
        "two values": lambda: torch.where(uniform() < 0.1, 5.0, 0.1),
        "mostly zeros": lambda: torch.where(uniform() < 0.1, exponential, 0.0),
        "both zeros": lambda: torch.where(uniform() < 0.5, 0.0, -0.0) + torch.where(uniform() < 0.05, exponential, 0.0),
        "few values": lambda: (exponential * 20).round(),
        "sorted": lambda: exponential.sort(1).values,
        "sorted down": lambda: exponential.sort(1, descending=True).values,
        "striped": lambda: exponential * (torch.arange(n, device=DEVICE) % 64 == 0),
        "infinite": lambda: torch.where(uniform() < 0.05, torch.inf, exponential),
        "mostly infinite": lambda: torch.where(uniform() < 0.5, torch.inf, exponential),
        "minus infinite": lambda: torch.where(uniform() < 0.3, -torch.inf, exponential),
        "one NaN": lambda: torch.where(torch.arange(n, device=DEVICE) == 1234, torch.nan, exponential),
        "negative NaN": lambda: torch.where(torch.arange(n, device=DEVICE) == 99, -torch.nan, exponential),
        "many NaN": lambda: torch.where(uniform() < 0.2, torch.nan, exponential),
    }
    return made_of[kind]()


KINDS = (
    "exponential", "normal", "narrow", "heavy tails", "tiny", "constant", "two values", "mostly zeros", "both zeros",
    "few values", "sorted", "sorted down", "striped", "infinite", "mostly infinite", "minus infinite", "one NaN",
    "negative NaN", "many NaN",
)  # fmt: skip


def expected(row, k, counts, mask=None):
    """Return the value, the threshold and the gradient of one row, by sorting."""
    row = torch.where(row.isnan(), torch.nan, row.double())  # else sorting minds the sign of a NaN
    mask = torch.ones_like(row, dtype=torch.bool) if mask is None else mask
    existing = row[mask]
    if len(existing) == 0:
        return 0.0, 0.0, torch.zeros_like(row)
    mass = min(k, len(existing)) if counts else k * len(existing)
    rank = max(1, math.ceil(mass * (1 - 1e-12)))
    threshold = existing.sort(descending=True).values[rank - 1].item()  # NaN comes first
    if math.isnan(threshold):
        above, tied = torch.zeros_like(mask), mask & row.isnan()
    else:
        above, tied = mask & (row.isnan() | (row > threshold)), mask & (row == threshold)
    left = (mass - above.sum().item()) / mass
    gradient = above.double() / mass + tied.double() * left / tied.sum().item()
    return (row[above].sum().item() / mass) + left * threshold, threshold, gradient


def assert_right(losses, k, counts=False, mask=None):
    losses = losses.detach().requires_grad_()
    device_k = torch.tensor(float(k), dtype=torch.float64, device=DEVICE)
    values = average_top_k_rows(losses, device_k, counts, mask)
    thresholds = threshold_rows(losses, device_k, counts, mask)
    steps = torch.arange(1.0, 1.0 + len(losses), device=DEVICE)
    (gradient,) = torch.autograd.grad(values, losses, steps)
    assert values.dtype == torch.float32
    assert gradient.dtype == losses.dtype
    for place, row in enumerate(losses.detach()):
        value, threshold, slope = expected(row, k, counts, None if mask is None else mask[place])
        like = {"rtol": 1.3e-7, "atol": 1e-45, "equal_nan": True}
        torch.testing.assert_close(values[place].double().cpu(), torch.tensor(value, dtype=torch.float64), **like)
        torch.testing.assert_close(
            thresholds[place].cpu(), torch.tensor(threshold, dtype=torch.float32), rtol=0, atol=0, equal_nan=True
        )
        precise = 1e-6 if losses.dtype == torch.float32 else 1e-2
        smallest = 1e-7 if losses.dtype == torch.float16 else 0.0  # where that type ends
        torch.testing.assert_close(gradient[place].double(), slope * steps[place], rtol=precise, atol=smallest)


@pytest.mark.parametrize("k", [1.0, 0.5, 0.1, 0.01, 1 / N, 0.3 / N])
@pytest.mark.parametrize("kind", KINDS)
def test_a_share_of_any_losses(kind, k):
    assert_right(made(kind), k)


@pytest.mark.parametrize("k", [1, 2, 1000, 33333.25, N - 1, N, 2 * N])
@pytest.mark.parametrize("kind", ["exponential", "mostly zeros", "one NaN"])
def test_a_number_of_losses(kind, k):
    assert_right(made(kind), k, counts=True)


@pytest.mark.parametrize("rows", [1, 3, 8])
@pytest.mark.parametrize("kind", ["exponential", "few values", "sorted", "mostly zeros", "many NaN"])
def test_every_row_has_its_own(kind, rows):
    losses = made(kind, rows) * torch.logspace(-3, 3, rows, device=DEVICE)[:, None]
    assert_right(losses, 0.1)
    assert_right(losses, 5000, counts=True)


@pytest.mark.parametrize(("k", "counts"), [(0.1, False), (1.0, False), (3000, True), (N // 2, True)])
@pytest.mark.parametrize("share", [0.0, 1e-4, 0.3, 0.95, 1.0])
@pytest.mark.parametrize("kind", ["exponential", "mostly zeros", "one NaN"])
def test_what_is_masked_does_not_exist(kind, share, k, counts):
    losses = made(kind, 3)
    mask = torch.rand(losses.shape, generator=torch.Generator(DEVICE).manual_seed(1), device=DEVICE) < share
    assert_right(losses, k, counts, mask)
    mask[1] = False
    assert_right(torch.where(mask, losses, torch.nan), k, counts, mask)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision(kind, dtype):
    assert_right(made(kind).to(dtype), 0.1)
    assert_right(made(kind, 2).to(dtype), 0.5, mask=made("normal", 2) > 0)


@needs_gpu
@pytest.mark.parametrize("n", [2**15, 2**16 - 1, 2**20, 3 * 10**6 + 7, 2**24])
def test_any_length(n):
    assert_right(made("exponential", n=n), 0.1)
    assert_right(made("normal", n=n), 0.5, mask=made("exponential", n=n) > 0.2)


@needs_gpu
def test_more_losses_than_32_bits_count():
    n = 2**31 + 2**16
    losses = torch.zeros(1, n, dtype=torch.bfloat16, device=DEVICE)
    places = torch.tensor([5, 2**30, 2**31 + 3, n - 1], device=DEVICE)
    losses[0, places] = 2.0
    losses.requires_grad_()
    values = average_top_k_rows(losses, torch.tensor(8.0, dtype=torch.float64, device=DEVICE), True)
    (gradient,) = torch.autograd.grad(values.sum(), losses)
    assert values.item() == 1.0
    assert gradient[0, places].tolist() == [0.125] * 4


@pytest.mark.parametrize("deviations", [-1.0, 0.0, 1e3], ids=["always misses", "often misses", "lists too many"])
@pytest.mark.parametrize("kind", ["exponential", "mostly zeros", "few values", "many NaN", "minus infinite"])
def test_it_is_exact_where_the_sample_misleads(monkeypatch, kind, deviations):
    monkeypatch.setattr(fused_rows, "DEVIATIONS", deviations)
    for k in (0.1, 0.5, 1.0):
        assert_right(made(kind, 2), k)
        assert_right(made(kind, 2).bfloat16(), k, mask=made("normal", 2) > 0)


def test_losses_need_not_be_contiguous():
    assert_right(made("exponential", N // 2**10, 2**15).t()[:3].repeat(1, 300), 0.1)
    assert_right(made("exponential", 3, 2 * N)[:, ::2], 0.1, mask=(made("normal", 3, 2 * N) > 0)[:, 1::2])


@needs_gpu
def test_what_pays():
    large = torch.empty(2**20, device=DEVICE)
    assert pays(large)
    assert pays(large.bfloat16().expand(2, 3, -1))
    assert not pays(large[:1000])
    assert not pays(large.view(2**10, 2**10))
    assert not pays(large.expand(100, -1))
    assert not pays(large.double())
    assert not pays(large.cpu())


def share(k):
    return torch.tensor(k, dtype=torch.float64, device=DEVICE)


def test_the_gradient_is_the_same_every_time():
    losses = made("few values").requires_grad_()
    first, *others = (
        torch.autograd.grad(average_top_k_rows(losses, share(0.1), False).sum(), losses)[0] for _ in range(5)
    )
    assert all(torch.equal(first, other) for other in others)


@needs_gpu
def test_nothing_waits_for_the_device():
    losses, k, mask = made("exponential").requires_grad_(), share(0.1), made("normal") > 0
    average_top_k_rows(losses, k, False, mask).sum().backward()  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        average_top_k_rows(losses, k, False, mask).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_gpu
def test_another_stream():
    losses, k = made("exponential").requires_grad_(), share(0.1)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        value = average_top_k_rows(losses, k, False)
        value.sum().backward()
    torch.cuda.synchronize()
    assert torch.equal(value, average_top_k_rows(losses, k, False))


@needs_gpu
def test_a_captured_graph_sees_new_losses():
    losses, k = made("exponential").requires_grad_(), share(0.1)

    def step():
        value = average_top_k_rows(losses, k, False)
        return value, torch.autograd.grad(value.sum(), losses)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        value, gradient = step()
    for kind in ("normal", "two values", "mostly zeros"):
        with torch.no_grad():
            losses.copy_(made(kind))
        graph.replay()
        right, _, slope = expected(losses.detach()[0], 0.1, False)
        assert value.item() == pytest.approx(right, rel=2e-7)
        torch.testing.assert_close(gradient[0].double(), slope, rtol=1e-6, atol=0)


@needs_gpu
@pytest.mark.parametrize("masked", [False, True])
def test_it_compiles_without_a_break(masked):
    def step(losses, k, mask):
        scaled = losses * 2
        return average_top_k_rows(scaled, k, False, mask) if pays(scaled) else scaled.mean(1)

    losses, k = made("exponential", 2, 2**20).requires_grad_(), share(0.1)
    mask = made("normal", 2, 2**20) > 0 if masked else None
    plain, compiled = step(losses, k, mask), torch.compile(step, fullgraph=True)(losses, k, mask)
    torch.testing.assert_close(compiled, plain)
    torch.testing.assert_close(
        torch.autograd.grad(compiled.sum(), losses)[0], torch.autograd.grad(plain.sum(), losses)[0]
    )


@needs_gpu
def test_what_pytorch_asks_of_an_operator():
    losses, k, operators = made("exponential", 2), share(0.1), torch.ops.atklearn
    torch.library.opcheck(operators.average_top_k_rows.default, (losses, k, False, None))
    torch.library.opcheck(operators.average_top_k_rows.default, (losses, k, False, losses > 1))
    _, weights = operators.average_top_k_rows(losses, k, False, None)
    torch.library.opcheck(operators.average_top_k_rows_backward.default, (weights[:, 0], losses, weights, None))


def test_it_maps_over_losses_masks_and_k():
    losses, masks, ks = made("exponential", 4).view(2, 2, N), made("normal", 4).view(2, 2, N) > 0, share([0.1, 0.4])

    def one(losses, k, mask):
        return average_top_k_rows(losses, k, False, mask)

    for dims in [(0, None, None), (0, 0, None), (None, None, 0), (0, None, 0), (None, 0, None), (0, 0, 0)]:
        arguments = [x if dim == 0 else x[0] for x, dim in zip((losses, ks, masks), dims, strict=True)]
        mapped = torch.func.vmap(one, dims)(*arguments)
        looped = torch.stack(
            [one(*(x if dim is None else x[i] for x, dim in zip(arguments, dims, strict=True))) for i in range(2)]
        )
        assert torch.equal(mapped, looped)
    nested = torch.func.vmap(torch.func.vmap(one, (None, 0, None)), (0, None, 0))(losses, ks, masks)
    assert torch.equal(nested[1, 0], one(losses[1], ks[0], masks[1]))


def test_gradients_of_mapped_members():
    losses = made("exponential", 4).view(2, 2, N)

    def total(losses):
        return (average_top_k_rows(losses, share(0.1), False) ** 2).sum()

    mapped = torch.func.vmap(torch.func.grad(total))(losses)
    torch.testing.assert_close(mapped, torch.stack([torch.func.grad(total)(member) for member in losses]))


def test_a_second_derivative():
    losses = made("exponential").requires_grad_()
    (slope,) = torch.autograd.grad(average_top_k_rows(losses, share(0.1), False) ** 2, losses, create_graph=True)
    (second,) = torch.autograd.grad(slope.square().sum() / 2, losses)
    plain = made("exponential").double().requires_grad_()
    top = plain.topk(math.ceil(0.1 * N)).values
    mean = (top[:, :-1].sum() + (0.1 * N - top.shape[1] + 1) * top[0, -1]) / (0.1 * N)
    (slope,) = torch.autograd.grad(mean**2, plain, create_graph=True)
    torch.testing.assert_close(second.double(), torch.autograd.grad(slope.square().sum() / 2, plain)[0])
