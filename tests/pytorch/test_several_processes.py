"""Several processes with unequal batches are one process with the whole batch."""

from __future__ import annotations

import torch
from torch_workers import CASES, EXTRAS, run, train


# one test for all cases: starting processes takes longest, and a fixture may be made more than once
def test_losses_gradients_and_resumed_training_are_those_of_one_process(tmp_path):
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
