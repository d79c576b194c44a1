"""Several processes with unequal batches are one process with the whole batch."""

from __future__ import annotations

import pytest
import torch
from torch_workers import CASES, EXTRAS, run, train


@pytest.fixture(scope="module", params=[2, 4])
def found(request, tmp_path_factory):
    return run(request.param, tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("extra", EXTRAS)
def test_losses_and_gradients_are_those_of_one_process(found, name, extra):
    torch.testing.assert_close(found[name, extra], train(CASES[name], extra), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_resumed_in_the_middle_training_is_identical(found, name):
    # up to the order in which processes are added up, which is not always the same
    torch.testing.assert_close(found[name, "resumed"], found[name, "plain"][2:], rtol=1e-12, atol=1e-12)


def test_in_evaluation_nothing_is_exchanged(found):
    assert found["evaluated"] == 3.5
