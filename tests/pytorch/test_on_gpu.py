"""The loss on a GPU: the same as on a CPU, in one graph, without waiting, in half precision."""

from __future__ import annotations

import pytest
import torch
from torch_workers import CASES

from atklearn.torch import AverageTopKLoss, KSchedule, average_top_k, threshold, wrap

if not torch.cuda.is_available():
    pytest.skip("needs a GPU, and a PyTorch built for it", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(
    "ignore:Synchronization debug mode",
    "ignore:.*torch.jit.*deprecated",
    "ignore:\\s*Online softmax is disabled",
    "ignore:.*should not be instantiated",
)


@pytest.fixture
def without_waiting():
    """Make every wait for the device an error."""

    def watched(function, *arguments, **given):
        torch.cuda.set_sync_debug_mode("error")
        try:
            return function(*arguments, **given)
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return watched


def batches(n_batches=4, shape=(3, 400), dtype=torch.float32):
    rng = torch.Generator().manual_seed(0)
    for _ in range(n_batches):
        losses, mask = torch.rand(shape, generator=rng).to(dtype), torch.rand(shape, generator=rng) < 0.8
        yield losses, mask, torch.rand(shape, generator=rng) + 0.1


def given_to(loss, mask, weight):
    group = {} if loss.n_groups is None else {"group": (torch.arange(mask.numel()) % 4).reshape(mask.shape).cuda()}
    return {"mask": mask.cuda(), "weight": None if weight is None else weight.cuda(), **group}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_values_gradients_and_states_are_those_of_a_cpu(name, is_weighted, is_compiled, without_waiting):
    torch.compiler.reset()
    here, there = AverageTopKLoss(**CASES[name]), AverageTopKLoss(**CASES[name]).cuda()
    called = torch.compile(there, fullgraph=True) if is_compiled else there
    for number, (losses, mask, weight) in enumerate(batches()):
        weight = weight if is_weighted else None
        one, two = losses.clone().requires_grad_(), losses.cuda().requires_grad_()
        expected = here(one, **{key: None if x is None else x.cpu() for key, x in given_to(here, mask, weight).items()})
        expected.backward()
        given = given_to(there, mask, weight)
        call = called if is_compiled and number == 0 else lambda *a, **k: without_waiting(called, *a, **k)
        value = call(two, **given)
        value.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-5)
        torch.testing.assert_close(two.grad.cpu(), one.grad, rtol=1e-4, atol=1e-7)
    for key, tensor in there.state_dict().items():
        torch.testing.assert_close(tensor.cpu(), here.state_dict()[key], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_masked", [False, True])
@pytest.mark.parametrize("k", [0.1, 3_000_000, torch.tensor(0.37)])
def test_large_rows_take_the_kernels_and_agree_with_the_plain_path(dtype, is_masked, k, without_waiting):
    (losses, mask, _), *_ = batches(1, (2, 2**21 + 3), dtype)
    mask = mask.cuda() if is_masked else None
    k = k.cuda() if isinstance(k, torch.Tensor) else k
    fast, plain = losses.cuda().requires_grad_(), losses.cuda().requires_grad_()
    ones = torch.ones_like(plain, dtype=torch.float32)
    for dim in (None, 1):
        value = without_waiting(average_top_k, fast, k, mask=mask, dim=dim)
        expected = average_top_k(plain, k, weight=ones, mask=mask, dim=dim)  # weights go the plain path
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=0.0)
        (grad,), (expected_grad,) = (
            torch.autograd.grad(x.sum(), leaf) for x, leaf in ((value, fast), (expected, plain))
        )
        torch.testing.assert_close(grad, expected_grad, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-12)
        assert torch.equal(threshold(fast, k, mask=mask, dim=dim), threshold(plain, k, ones, mask, dim))


def test_a_large_step_compiles_to_one_graph():
    torch.compiler.reset()
    criterion = wrap(torch.nn.CrossEntropyLoss(), 0.1, ignore_index=255)
    compiled = torch.compile(criterion, fullgraph=True)
    logits = torch.randn(2, 5, 1024, 1024, device="cuda", requires_grad=True)
    target = torch.randint(0, 5, (2, 1024, 1024), device="cuda").masked_fill(
        torch.rand(2, 1024, 1024).cuda() < 0.1, 255
    )
    (grad,) = torch.autograd.grad(compiled(logits, target), logits)
    torch.testing.assert_close(grad, torch.autograd.grad(criterion(logits, target), logits)[0], rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_bfloat16_autocast_trains_without_nan(name):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
    loss = AverageTopKLoss(**CASES[name]).cuda()
    schedule = KSchedule(loss, steps=20) if isinstance(loss.k, float) else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    X, y = torch.randn(400, 16, device="cuda"), torch.randn(400, 8, device="cuda")
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            group = {} if loss.n_groups is None else {"group": (torch.arange(400, device="cuda") % 4)[:, None]}
            value = loss(torch.nn.functional.mse_loss(model(X), y, reduction="none"), **group)
        value.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        values.append(value.item())
        assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())
    assert value.dtype == torch.float32
    assert values[-1] < values[30]
