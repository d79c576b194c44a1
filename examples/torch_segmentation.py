"""Segment generated images: the hardest quarter of the pixels (hard pixel mining) beside the mean of all.

The small class gains most while training is young: with more steps the mean comes closer.

Run: python examples/torch_segmentation.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from atklearn.torch import wrap

SIZE, N_STEPS, BATCH, UNKNOWN = 32, 150, 8, 255
NAMES = ("ground", "disc", "speck")


def images(n_images: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw a large bright disc and a small, less bright speck in noise; the outermost pixels have no known class."""
    place = torch.arange(SIZE)
    target = torch.zeros(n_images, SIZE, SIZE, dtype=torch.long)
    for label, radius in ((1, 7.0), (2, 1.5)):
        centre = 4.0 + (SIZE - 8.0) * torch.rand(n_images, 2, 1, 1, generator=generator)
        distance = torch.hypot(place[None, :, None] - centre[:, 0], place[None, None, :] - centre[:, 1])
        target[distance <= radius] = label
    brightness = torch.tensor([0.0, 1.0, 0.7])[target]
    noisy = brightness + 0.3 * torch.randn(target.shape, generator=generator)
    is_edge = (place == 0) | (place == SIZE - 1)
    target[:, is_edge[:, None] | is_edge[None, :]] = UNKNOWN
    return noisy[:, None], target


def train(criterion: nn.Module, X: Tensor, y: Tensor) -> nn.Module:
    """Train a small network of convolutions."""
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(1, 16, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 16, 5, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 3, 1),
    ]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(N_STEPS):
        batch = torch.randint(len(y), (BATCH,))
        optimizer.zero_grad()
        criterion(model(X[batch]), y[batch]).backward()
        optimizer.step()
    return model


def overlaps(model: nn.Module, X: Tensor, y: Tensor) -> list[float]:
    """Return intersection over union of every class, over the pixels of a known class."""
    with torch.no_grad():
        found = model(X).argmax(1)
    known = y != UNKNOWN
    masks = [((found == label) & known, y == label) for label in range(len(NAMES))]
    return [((ours & true).sum() / (ours | true).sum()).item() for ours, true in masks]


def main() -> None:
    """Compare the mean over pixels with the mean over the hardest quarter of them."""
    torch.set_num_threads(1)  # the model is tiny: threads would wait for each other
    generator = torch.Generator().manual_seed(0)
    train_images, new_images = images(256, generator), images(256, generator)
    known = new_images[1][new_images[1] != UNKNOWN]
    print(f"specks are {100 * (known == 2).double().mean():.1f} % of the pixels")
    criteria = {
        "mean of all pixels": nn.CrossEntropyLoss(ignore_index=UNKNOWN),
        "hardest quarter": wrap(nn.CrossEntropyLoss(), 0.25, ignore_index=UNKNOWN),
    }
    for name, criterion in criteria.items():
        shown = ", ".join(
            f"{label} {overlap:.2f}"
            for label, overlap in zip(NAMES, overlaps(train(criterion, *train_images), *new_images), strict=True)
        )
        print(f"{name:18}: overlap (IoU) of {shown}")


if __name__ == "__main__":
    main()
