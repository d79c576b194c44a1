"""Lowering k while training, and criteria wrapped in one line."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.nn import functional

from atklearn.torch import AverageTopKLoss, KSchedule, average_top_k, wrap


class TestSchedule:
    @pytest.mark.parametrize("shape", ["linear", "cosine"])
    def test_it_goes_down_from_all_to_k_and_stays(self, shape):
        loss = AverageTopKLoss(0.2, scope="dataset")
        schedule = KSchedule(loss, steps=10, shape=shape)
        shares = [loss.k]
        for _ in range(15):
            schedule.step()
            shares.append(loss.k)
        assert shares[0] == 1.0
        assert all(later < earlier for earlier, later in pairwise(shares[:11]))
        assert shares[10:] == pytest.approx([0.2] * 6)
        assert shares[5] == pytest.approx(0.6)  # both shapes are half-way at half-time

    def test_by_accuracy_it_halves_and_never_rises(self):
        loss = AverageTopKLoss(1 / 32)
        schedule = KSchedule(loss, shape="accuracy")
        for accuracy, share in [(0.5, 1), (0.7, 1 / 2), (0.6, 1 / 2), (0.93, 1 / 8), (0.999, 1 / 32)]:
            schedule.step(accuracy)
            assert loss.k == pytest.approx(share)

    def test_it_goes_on_from_its_state(self):
        losses = [AverageTopKLoss(0.1) for _ in range(2)]
        first, second = (KSchedule(loss, steps=10, start=0.9) for loss in losses)
        for _ in range(4):
            first.step()
        second.load_state_dict(first.state_dict())
        assert losses[1].k == losses[0].k == first.get_last_k()
        resumed = AverageTopKLoss(0.1)
        resumed.load_state_dict(losses[0].state_dict())
        assert resumed.k == losses[0].k  # the share of the moment is part of the loss's own state

    @pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
    def test_a_compiled_loss_follows_without_being_compiled_again(self):
        torch.compiler.reset()
        loss, n_compiled = AverageTopKLoss(0.1), []

        def backend(graph, _):
            n_compiled.append(1)
            return graph

        compiled = torch.compile(loss, fullgraph=True, backend=backend)
        schedule = KSchedule(loss, steps=20)
        for _ in range(20):
            losses = torch.rand(50)
            assert compiled(losses).item() == pytest.approx(average_top_k(losses, schedule.get_last_k()).item())
            schedule.step()
        assert len(n_compiled) == 1

    @pytest.mark.parametrize(
        ("k", "settings", "message"),
        [
            (0.1, {}, "steps is expected to be at least 1 for shape='linear', got None"),
            (0.1, {"steps": 5, "shape": "quadratic"}, "shape is expected to be"),
            (0.5, {"steps": 5, "start": 0.2}, "start is expected between the loss's k = 0.5 and 1, got 0.2"),
            (5, {"steps": 5}, "whose k is a share"),
        ],
    )
    def test_what_does_not_fit_is_named(self, k, settings, message):
        with pytest.raises(ValueError, match=message):
            KSchedule(AverageTopKLoss(k), **settings)

    def test_accuracy_belongs_to_its_own_shape(self):
        with pytest.raises(ValueError, match="accuracy is expected with shape='accuracy' alone"):
            KSchedule(AverageTopKLoss(0.1), steps=5).step(0.9)
        with pytest.raises(ValueError, match="accuracy is expected with shape='accuracy' alone"):
            KSchedule(AverageTopKLoss(0.1), shape="accuracy").step()


def classified(n_classes=4):
    rng = torch.Generator().manual_seed(0)
    return torch.randn(6, n_classes, 5, generator=rng), torch.randint(0, n_classes, (6, 5), generator=rng)


class TestWrapping:
    @pytest.mark.parametrize(
        "criterion",
        [
            nn.CrossEntropyLoss(),
            nn.CrossEntropyLoss(weight=torch.tensor([1.0, 0.2, 3.0, 0.0])),
            nn.CrossEntropyLoss(weight=torch.tensor([1.0, 0.2, 3.0, 0.5]), label_smoothing=0.1),
            nn.CrossEntropyLoss(ignore_index=2),
            nn.CrossEntropyLoss(ignore_index=0, weight=torch.tensor([1.0, 0.2, 3.0, 0.5])),
        ],
        ids=["plain", "weighted", "smoothed", "ignoring", "ignoring, weighted"],
    )
    def test_all_of_a_criterion_is_the_criterion(self, criterion):
        scores, target = classified()
        for scope in ("batch", "dataset"):
            value = wrap(criterion, 1.0, scope=scope)(scores, target)
            assert value.item() == pytest.approx(criterion(scores, target).item(), rel=1e-6)

    @pytest.mark.parametrize(
        "criterion", [nn.MSELoss(), nn.L1Loss(reduction="sum"), nn.HuberLoss(), functional.mse_loss]
    )
    def test_any_criterion_with_a_reduction_will_do(self, criterion):
        predicted, target = torch.rand(20), torch.rand(20)
        losses = wrap(criterion, 0.25).criterion(predicted, target)
        assert losses.shape == (20,)
        assert wrap(criterion, 0.25)(predicted, target).item() == average_top_k(losses, 0.25).item()

    @pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss(), functional.cross_entropy])
    def test_ignored_targets_do_not_count_whatever_stands_there(self, criterion):
        scores, target = classified()
        target[target == 1] = 255
        value = wrap(criterion, 0.3, ignore_index=255)(scores, target)
        losses = functional.cross_entropy(scores, target, ignore_index=255, reduction="none")
        assert value.item() == pytest.approx(average_top_k(losses[target != 255], 0.3).item())
        everything = wrap(criterion, 0.3, ignore_index=255)(scores, torch.full_like(target, 255))
        assert everything.item() == 0.0

    def test_probabilities_as_targets(self):
        scores, _ = classified()
        target = torch.softmax(torch.randn_like(scores), 1)
        value = wrap(nn.CrossEntropyLoss(), 1.0)(scores, target)
        assert value.item() == pytest.approx(nn.CrossEntropyLoss()(scores, target).item(), rel=1e-6)

    def test_the_criterion_given_stays_as_it_was(self):
        criterion = nn.CrossEntropyLoss()
        wrap(criterion, 0.5, ignore_index=7)
        assert (criterion.reduction, criterion.ignore_index) == ("mean", -100)

    def test_settings_and_state_pass_through(self):
        wrapped = wrap(nn.MSELoss(), 0.3, scope="dataset")
        for _ in range(10):
            wrapped(torch.rand(8), torch.rand(8))
        assert any(name.endswith("threshold") for name in wrapped.state_dict())
        schedule = KSchedule(wrapped, steps=3)
        assert schedule.loss is wrapped.average_top_k

    def test_what_cannot_be_wrapped_is_said(self):
        for criterion in (nn.Linear(2, 2), lambda a, b: a - b, 3):
            with pytest.raises(ValueError, match="criterion is expected to have a setting `reduction`"):
                wrap(criterion, 0.5)
