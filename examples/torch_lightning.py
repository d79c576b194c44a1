"""Train with Lightning: the loss is an attribute of the module, so its threshold lambda is in the checkpoint.

Run: python examples/torch_lightning.py
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from atklearn.torch import AverageTopKLoss


class Classifier(pl.LightningModule):
    """A small network of two layers, and the loss that it is trained with."""

    def __init__(self, k: float, accumulation_steps: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
        self.loss = AverageTopKLoss(k, scope="dataset", accumulation_steps=accumulation_steps)

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:  # noqa: ARG002
        """Return the loss of a batch; Lightning divides it by the number of batches that it accumulates."""
        X, y = batch
        return self.loss(cross_entropy(self.network(X), y, reduction="none"))

    validation_step = training_step  # Lightning sets evaluation mode: lambda is held

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Train the network; lambda is a buffer and follows the losses by itself."""
        return torch.optim.Adam(self.network.parameters(), lr=0.01)


def fit(module: Classifier, batches: DataLoader, max_epochs: int, saved: Path, resume: Path | None = None) -> None:
    """Train up to an epoch, from the beginning or from a checkpoint, and save one."""
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=max_epochs,
        accumulate_grad_batches=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, batches, batches, ckpt_path=resume)
    trainer.save_checkpoint(saved)


def new_module() -> Classifier:
    """Return the same untrained module every time."""
    torch.manual_seed(0)
    return Classifier(k=0.2, accumulation_steps=2)


def main() -> None:
    """Train four epochs in one go, and again with a break after two: the result is the same."""
    torch.set_num_threads(1)  # the model is tiny: threads would wait for each other
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*LeafSpec", category=FutureWarning)  # Lightning 2.6 with PyTorch 2.13
    warnings.filterwarnings("ignore", message=".*does not have many workers")
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(2048, 2, generator=generator)
    y = (X[:, 0] * X[:, 1] + 0.3 * torch.randn(2048, generator=generator) > 0).long()
    batches = DataLoader(TensorDataset(X, y), batch_size=32)
    with tempfile.TemporaryDirectory() as folder:
        first, last = Path(folder) / "first.ckpt", Path(folder) / "last.ckpt"
        whole, half, resumed = new_module(), new_module(), new_module()
        fit(whole, batches, 4, last)
        fit(half, batches, 2, first)
        state = torch.load(first, weights_only=True)["state_dict"]
        print(f"in the checkpoint after two epochs: lambda {state['loss.tracked.threshold'].item():.4f}")
        fit(resumed, batches, 4, last, resume=first)
    print(f"four epochs in one go:   lambda {whole.loss.threshold:.4f}")
    print(f"resumed after two:       lambda {resumed.loss.threshold:.4f}")
    pairs = zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True)
    print(f"all parameters and buffers are the same: {all(torch.equal(a, b) for a, b in pairs)}")


if __name__ == "__main__":
    main()
