"""Train in a plain PyTorch loop with one threshold lambda for the whole data set, beside the mean of all losses.

The mean needs more steps to get the rare rows right: with four times as many it is nearly as good.

Run: python examples/torch_loop.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from atklearn.torch import AverageTopKLoss, KSchedule

N_STEPS, BATCH = 1000, 32


def rows(n_rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Make two classes around (0, 0) and (2, 2), one in twenty rows of the first, the rare ones, around (1, 1)."""
    y = torch.randint(2, (n_rows,), generator=generator)
    rare = (y == 0) & (torch.rand(n_rows, generator=generator) < 0.05)
    X = (2.0 * y + rare)[:, None] + 0.22 * torch.randn(n_rows, 2, generator=generator)
    return X, y, rare


def train(k: float, X: Tensor, y: Tensor) -> tuple[nn.Module, AverageTopKLoss]:
    """Go from the mean of all losses to that of a share k of them in the first half of the steps, and stay there."""
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    loss = AverageTopKLoss(k, scope="dataset")
    schedule = KSchedule(loss, steps=N_STEPS // 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(N_STEPS):
        batch = torch.randint(len(y), (BATCH,))
        losses = cross_entropy(model(X[batch]), y[batch], reduction="none")
        optimizer.zero_grad()
        loss(losses).backward()
        optimizer.step()
        schedule.step()
    return model, loss


def main() -> None:
    """Compare the mean with AT_k, on all rows and on the rare ones."""
    torch.set_num_threads(1)  # the model is tiny: threads would wait for each other
    generator = torch.Generator().manual_seed(0)
    X, y, _ = rows(20_000, generator)
    X_test, y_test, rare = rows(20_000, generator)
    for k in (1.0, 0.1):
        model, loss = train(k, X, y)
        with torch.no_grad():
            logits = model(X_test)
        wrong = 100.0 * (logits.argmax(1) != y_test).double()
        above = (cross_entropy(logits, y_test, reduction="none") > loss.threshold).double().mean()
        print(f"k = {k:3.1f} n: error {wrong.mean():5.2f} %, of the rare rows {wrong[rare].mean():5.2f} %")
    print(f"lambda is {loss.threshold:.3f}: {100 * above:.0f} % of the losses on new rows are above it")


if __name__ == "__main__":
    main()
