"""The loss as a module: what it does with batches, masks, weights, groups, states, half precision, processes."""

from __future__ import annotations

import copy
import io
from functools import partial

import numpy as np
import pytest
import torch
from torch_workers import CASES, EXTRAS, run, train

from atklearn import aggregates
from atklearn.torch import AverageTopKLoss, average_top_k

MODULES = CASES | {"learnt": {"k": 0.3, "scope": "dataset", "learn_threshold": True}}
del MODULES["dataset, accumulated"]  # of which a call is half a step
every_module = pytest.mark.parametrize(
    "make", [partial(AverageTopKLoss, **settings) for settings in MODULES.values()], ids=MODULES
)


def called(loss, losses, group=None, **given):
    """Call a loss, with a group for every element if it is one of groups."""
    if loss.n_groups is not None:
        given["group"] = torch.arange(losses.numel()).reshape(losses.shape) % 4 if group is None else group
    return loss(losses, **given)


def trained(loss, batches):
    for batch in batches:
        called(loss, batch)
    return loss


@every_module
class TestEveryScope:
    def test_weighting_is_repeating(self, make):
        losses = torch.rand(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        group = torch.arange(24).reshape(3, 8) % 4
        one, two = make(), make()
        for _ in range(3):
            once = called(one, losses, group, weight=torch.full((3, 8), 2.0))
            twice = called(two, losses.repeat_interleave(2, dim=1), group.repeat_interleave(2, dim=1))
        assert once.item() == pytest.approx(twice.item(), rel=1e-12)

    def test_masking_is_leaving_out(self, make):
        losses = torch.rand(3, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        hidden = torch.where(torch.arange(8) < 6, losses, torch.nan).requires_grad_()
        group = torch.arange(24).reshape(3, 8) % 4
        one, two = make(), make()
        for _ in range(3):
            masked = called(one, hidden, group, mask=torch.arange(8) < 6)
            short = called(two, losses[:, :6], group[:, :6])
        assert masked.shape == ()
        assert masked.item() == pytest.approx(short.item(), rel=1e-12)
        (grad,) = torch.autograd.grad(masked, hidden)
        assert (grad[:, 6:] == 0).all()
        assert torch.isfinite(grad).all()

    def test_a_batch_of_nothing_is_zero_on_the_graph_and_changes_nothing(self, make):
        loss = trained(make(), torch.rand(5, 3, 8))
        before = copy.deepcopy(loss.state_dict())
        losses = torch.rand(3, 8, requires_grad=True)
        value = called(loss, losses, mask=torch.zeros(3, 8, dtype=torch.bool))
        value.backward()
        assert value.item() == 0.0
        assert (losses.grad == 0).all()
        for name, tensor in loss.state_dict().items():
            torch.testing.assert_close(tensor, before[name])

    def test_training_may_begin_with_a_batch_of_nothing(self, make):
        loss, same = make(), make()
        assert called(loss, torch.rand(3, 8), mask=torch.zeros(3, 8, dtype=torch.bool)).item() == 0.0
        for batch in torch.rand(4, 3, 8):
            assert called(loss, batch).item() == called(same, batch).item()

    def test_training_goes_on_from_a_saved_state_as_if_nothing_had_happened(self, make):
        batches = torch.rand(8, 3, 8, generator=torch.Generator().manual_seed(2))
        whole = trained(make(), batches)
        first = trained(make(), batches[:4])
        file = io.BytesIO()
        torch.save(first.state_dict(), file)
        file.seek(0)
        second = make()
        second.load_state_dict(torch.load(file))
        trained(second, batches[4:])
        assert called(second, batches[0]).item() == called(whole, batches[0]).item()

    def test_evaluation_changes_nothing(self, make):
        loss = trained(make(), torch.rand(5, 3, 8))
        before = copy.deepcopy(loss.state_dict())
        loss.eval()
        for _ in range(3):
            called(loss, torch.rand(3, 8))
        for name, tensor in loss.state_dict().items():
            assert torch.equal(tensor, before[name])

    def test_an_overflow_does_not_spoil_what_is_tracked(self, make):
        loss = trained(make(), torch.rand(5, 3, 8))
        for bad in (torch.inf, torch.nan):
            batch = torch.rand(3, 8)
            batch[1, 2] = bad
            assert not torch.isfinite(called(loss, batch))
        assert torch.isfinite(called(loss, torch.rand(3, 8)))
        assert all(torch.isfinite(tensor).all() for name, tensor in loss.state_dict().items() if "least" not in name)

    def test_half_precision_of_the_model_is_not_that_of_the_state(self, make):
        loss = trained(make(), torch.rand(5, 3, 8))
        before = copy.deepcopy(loss.state_dict())
        for name, tensor in loss.half().state_dict().items():
            assert torch.equal(tensor, before[name])
        value = called(loss, torch.rand(3, 8, dtype=torch.bfloat16))
        assert value.dtype == torch.float32
        assert torch.isfinite(value)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    def test_compiles_to_one_graph_that_keeps_its_state(self, make):
        torch.compiler.reset()
        plain, graph = make(), make()
        compiled = torch.compile(lambda batch: called(graph, batch), fullgraph=True, backend="aot_eager")
        for batch in torch.rand(4, 3, 8, generator=torch.Generator().manual_seed(3)):
            one, two = batch.clone().requires_grad_(), batch.clone().requires_grad_()
            plain_value, graph_value = called(plain, one), compiled(two)
            plain_value.backward()
            graph_value.backward()
            assert graph_value.item() == pytest.approx(plain_value.item(), rel=1e-6)
            torch.testing.assert_close(two.grad, one.grad)
        for name, tensor in graph.state_dict().items():
            torch.testing.assert_close(tensor, plain.state_dict()[name])


class TestBatch:
    def test_it_is_the_average_top_k_of_the_batch(self):
        losses = torch.rand(4, 6)
        assert AverageTopKLoss(0.3)(losses).item() == average_top_k(losses, 0.3).item()
        assert AverageTopKLoss(5)(losses).item() == average_top_k(losses, 5).item()

    def test_along_dimensions_it_is_the_mean_over_those_rows_that_have_something(self):
        losses, mask = torch.rand(4, 6), torch.rand(4, 6) < 0.7
        mask[2] = False
        values = average_top_k(losses, 0.5, mask=mask, dim=1)
        assert AverageTopKLoss(0.5, dim=1)(losses, mask=mask).item() == pytest.approx(values.sum().item() / 3)

    def test_count_makes_parts_of_one_mean(self):
        losses = torch.rand(10)
        parts = [AverageTopKLoss(1.0)(part, count=10) for part in losses.split([1, 4, 5])]
        assert sum(parts).item() == pytest.approx(losses.mean().item())


class TestDataset:
    @pytest.mark.parametrize(
        ("batch_size", "share"), [(1, 0.8), (2, 0.3), (16, 0.05), (16, 0.5), (1000, 0.05), (1000, 0.8)]
    )
    def test_the_threshold_finds_its_share_of_the_losses(self, batch_size, share):
        rng = np.random.default_rng(0)
        loss = AverageTopKLoss(share, scope="dataset")
        for _ in range(max(80, int(1000 / share / batch_size))):
            loss(torch.from_numpy(rng.gamma(0.5, size=batch_size)))
        sample = rng.gamma(0.5, size=100_000)
        exact = aggregates.AverageTopK(share).value(sample)
        reached = loss.threshold.item() + np.maximum(sample - loss.threshold.item(), 0).mean() / share
        assert exact <= reached + 1e-9 <= 1.01 * exact

    def test_the_threshold_follows_falling_and_rising_losses(self):
        rng = np.random.default_rng(1)
        loss = AverageTopKLoss(0.1, scope="dataset")
        for scale in (1.0, 0.1, 10.0):
            for _ in range(600):
                loss(torch.from_numpy(scale * rng.exponential(size=16)))
            assert loss.threshold.item() == pytest.approx(scale * np.log(10), rel=0.25)

    def test_a_model_that_learns_fast_is_never_without_a_gradient(self):
        rng = np.random.default_rng(3)
        loss = AverageTopKLoss(0.3, scope="dataset")
        for step in range(100):
            losses = torch.from_numpy(0.8**step * rng.exponential(size=64)).requires_grad_()
            loss(losses).backward()
            assert losses.grad.any()

    def test_equal_losses_share_the_gradient(self):
        loss = AverageTopKLoss(0.2, scope="dataset")
        for _ in range(3):
            losses = torch.full((10,), 0.7, requires_grad=True)
            loss(losses).backward()
            np.testing.assert_allclose(losses.grad, 0.1, rtol=1e-6)

    def test_losses_that_are_mostly_zero_are_averaged_without_bias(self):
        rng = np.random.default_rng(2)
        loss = AverageTopKLoss(0.5, scope="dataset")
        for _ in range(300):
            loss(torch.from_numpy(np.maximum(rng.standard_normal(16) - 1.0, 0)))
        assert loss.threshold.item() == pytest.approx(0.0, abs=1e-9)

    def test_with_the_threshold_held_it_is_a_plain_mean(self):
        loss = trained(AverageTopKLoss(0.2, scope="dataset"), torch.rand(50, 16)).eval()
        losses = torch.rand(30, dtype=torch.float64)
        whole = loss(losses)
        assert torch.stack([loss(part) for part in losses.split(10)]).mean().item() == pytest.approx(whole.item())
        parts = [loss(part, count=30) for part in losses.split([3, 7, 20])]
        assert sum(parts).item() == pytest.approx(whole.item())
        lam = loss.threshold.item()
        assert loss(losses + 5.0).item() == pytest.approx(
            lam + (losses.mean().item() + 5.0 - lam) / 0.2
        )  # held for good
        assert whole.item() == pytest.approx(lam + np.maximum(losses.numpy() - lam, 0).mean() / 0.2)

    def test_accumulated_calls_are_one_large_batch(self):
        batches = torch.rand(40, 4, 8, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
        whole = AverageTopKLoss(0.2, scope="dataset")
        parts = AverageTopKLoss(0.2, scope="dataset", accumulation_steps=4)
        trained(whole, batches[:20])
        parts.load_state_dict(whole.state_dict())
        for batch in batches[20:]:
            mean = torch.stack([parts(part) for part in batch]).mean()
            assert mean.item() == pytest.approx(whole(batch).item(), rel=1e-12)
        assert parts.threshold.item() == pytest.approx(whole.threshold.item(), rel=1e-12)
        parts.load_state_dict(whole.state_dict())  # unequal ones, too, that know how many there are
        parted = [parts(part, count=32) for part in batches[0].flatten().split([1, 13, 3, 15])]
        assert sum(parted).item() == pytest.approx(whole(batches[0]).item(), rel=1e-12)
        assert parts.threshold.item() == pytest.approx(whole.threshold.item(), rel=1e-12)

    def test_the_share_of_all_is_the_average(self):
        loss = AverageTopKLoss(1.0, scope="dataset")
        for _ in range(20):
            losses = torch.rand(16)
            assert loss(losses).item() == pytest.approx(losses.mean().item())

    def test_a_learnt_threshold_is_a_parameter_with_the_gradient_of_the_paper(self):
        loss = AverageTopKLoss(0.25, scope="dataset", learn_threshold=True)
        (parameter,) = loss.parameters()
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        rng = torch.Generator().manual_seed(5)
        for step in range(2000):
            for group in optimizer.param_groups:
                group["lr"] = 0.1 / (1 + step / 100)
            optimizer.zero_grad()
            losses = torch.rand(32, generator=rng)
            loss(losses).backward()
            assert parameter.grad.item() == pytest.approx(1 - 4 * (losses > parameter).float().mean().item(), abs=1e-6)
            optimizer.step()
        assert loss.threshold.item() == pytest.approx(0.75, abs=0.03)


class TestGroups:
    def test_of_a_batch_it_is_the_average_top_k_of_the_group_means(self):
        losses, group = torch.rand(40, dtype=torch.float64), torch.randint(0, 5, (40,))
        means = np.array([losses[group == g].mean().item() for g in range(5)])
        for k in (1, 2, 0.5, 1.0):
            value = AverageTopKLoss(k, n_groups=5)(losses, group=group)
            assert value.item() == pytest.approx(aggregates.AverageTopK(k).value(means))

    def test_groups_that_do_not_occur_do_not_count(self):
        losses, group = torch.tensor([1.0, 3.0, 8.0]), torch.tensor([0, 0, 2])
        assert AverageTopKLoss(0.5, n_groups=100)(losses, group=group).item() == 8.0

    def test_a_group_that_a_large_batch_lacks_is_not_forgotten(self):
        loss = AverageTopKLoss(1, scope="dataset", n_groups=2, window=10)
        loss(torch.tensor([1.0, 9.0]), group=torch.tensor([0, 1]))
        loss(torch.ones(50), group=torch.zeros(50, dtype=torch.long))
        losses = torch.tensor([1.0, 9.0], requires_grad=True)
        loss(losses, group=torch.tensor([0, 1])).backward()
        assert losses.grad[0] == 0.0
        assert losses.grad[1] > 0.0

    def test_gradients_are_those_of_finite_differences(self):
        losses, group = torch.rand(12, dtype=torch.float64, requires_grad=True), torch.arange(12) % 4
        for scope in ("batch", "dataset"):
            loss = AverageTopKLoss(2, scope=scope, n_groups=4)
            loss(losses, group=group)
            loss.eval()
            assert torch.autograd.gradcheck(lambda x, loss=loss: loss(x, group=group), losses)

    def test_of_a_data_set_the_worst_group_counts_also_where_batches_rarely_show_it(self):
        rng = np.random.default_rng(3)
        loss = AverageTopKLoss(1, scope="dataset", n_groups=3)
        values = []
        for _ in range(1500):
            group = rng.choice(3, size=8, p=[0.6, 0.35, 0.05])
            losses = np.array([0.2, 0.5, 2.0])[group] * rng.exponential(size=8)
            values.append(loss(torch.from_numpy(losses), group=torch.from_numpy(group)).item())
        assert np.mean(values[500:]) == pytest.approx(2.0, rel=0.08)  # the mean over batches is unbiased


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "at least 1, got 0"),
        ({"k": 0.1, "scope": "epoch"}, "'batch' or 'dataset', got 'epoch'"),
        ({"k": 10, "scope": "dataset"}, "as a share in .* got the count 10; divide it by the number of losses"),
        ({"k": 0.1, "scope": "dataset", "dim": 1}, "dim is expected only with scope='batch'"),
        ({"k": 0.1, "accumulation_steps": 4}, "are for scope='dataset'"),
        ({"k": 0.1, "scope": "dataset", "accumulation_steps": 0}, "accumulation_steps >= 1 are expected"),
        ({"k": 0.1, "scope": "dataset", "window": -1.0}, "window > 0"),
        ({"k": 0.1, "scope": "dataset", "learn_threshold": True, "window": 9}, "learn_threshold is expected alone"),
        ({"k": 1, "n_groups": 0}, "n_groups is expected to be at least 1, got 0"),
    ],
)
def test_settings_that_do_not_fit_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        AverageTopKLoss(**settings)


def test_a_count_of_the_whole_data_set_is_refused_when_it_is_set_later_too():
    loss = AverageTopKLoss(0.1, scope="dataset")
    with pytest.raises(ValueError, match=r"as a share in .* got the count 10"):
        loss.k = 10
    assert loss.k == 0.1


def test_groups_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="group is expected only with n_groups"):
        AverageTopKLoss(1)(torch.rand(3), group=torch.arange(3))
    with pytest.raises(ValueError, match="integer tensor, a number from 0 for each loss, got none"):
        AverageTopKLoss(1, n_groups=3)(torch.rand(3))
    with pytest.raises(ValueError, match="group is expected to fit losses"):
        AverageTopKLoss(1, n_groups=3)(torch.rand(3), group=torch.arange(4))


# one test for all cases: starting processes takes longest, and a fixture may be made more than once
def test_several_processes_with_unequal_batches_are_one_process_with_the_whole_batch(tmp_path):
    found = run(3, tmp_path)
    for name, settings in CASES.items():
        for extra in EXTRAS:
            expected = train(settings, extra)
            torch.testing.assert_close(
                found[name, extra], expected, rtol=1e-6, atol=1e-9, msg=lambda text, at=(name, extra): f"{at}: {text}"
            )
        # up to the order in which processes are added up, which is not always the same
        torch.testing.assert_close(found[name, "resumed"], found[name, "plain"][2:], rtol=1e-12, atol=1e-12)
    assert found["evaluated"] == 3.5  # by one process, without the others
