"""Generated tensors for fits on a GPU, and how such fits are timed; without one, smaller and on the CPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from claims.accuracy import is_of_classes

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
BLOCK = 10**7
NOISE = 0.5
PATIENCE = 60.0  # seconds for L-BFGS
SMOOTH: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "log_loss": lambda f, y: functional.softplus(-y * f),
    "squared_hinge": lambda f, y: functional.relu(1.0 - y * f) ** 2,
    "squared_error": lambda f, y: (f - y) ** 2,
    "huber": lambda f, y: functional.huber_loss(f, y, reduction="none"),
}


def wait() -> None:
    """Wait for the device."""
    if ON_GPU:
        torch.cuda.synchronize()


class Data:
    """Features, and targets that follow a line with more or less noise."""

    def __init__(self, n: int, d: int, dtype: torch.dtype = torch.float64) -> None:
        self.n, self.d = n, d
        generator = torch.Generator(DEVICE).manual_seed(0)
        self.X = torch.empty((n, d), dtype=dtype, device=DEVICE)
        for begin in range(0, n, BLOCK):
            self.X[begin : begin + BLOCK].normal_(generator=generator)
        weights = torch.randn(d, dtype=dtype, device=DEVICE, generator=generator) / d**0.5
        self.line = (self.X @ weights).double()
        self.noise = torch.randn(n, dtype=torch.float64, device=DEVICE, generator=generator)

    def targets(self, loss: str, noise: float = NOISE) -> Tensor:
        """Return labels or numbers, as a loss takes them."""
        y = self.line + noise * self.noise
        return (y > 0.0).to(torch.int8) * 2 - 1 if is_of_classes(loss) else y

    @property
    def name(self) -> str:
        """What it is, for a heading."""
        return f"{self.n:.0e} x {self.d}, {str(self.X.dtype).removeprefix('torch.')}".replace("e+0", "e")


@lru_cache(maxsize=1)
def made(n: int, d: int) -> Data:
    """Return the data last asked for again, if they are the same."""
    return Data(n, d)


class Arrived(Exception):  # noqa: N818 - no error
    """The goal is reached, or patience is at its end."""


def descend(data: Data, y: Tensor, loss: str, goal: float) -> float:
    """Minimise the average loss with L-BFGS down to a goal, C = n; return the least objective it found."""
    w, b = (torch.zeros(size, dtype=torch.float64, device=DEVICE, requires_grad=True) for size in (data.d, 1))
    steps = torch.optim.LBFGS(
        [w, b], max_iter=1000, max_eval=10**6, history_size=20, line_search_fn="strong_wolfe", tolerance_grad=0.0,
        tolerance_change=0.0,
    )  # fmt: skip
    best = float("inf")
    start = time.perf_counter()

    def closure() -> Tensor:
        nonlocal best
        steps.zero_grad()
        objective = SMOOTH[loss](data.X @ w + b, y).mean() + (w @ w) / (2.0 * data.n)
        objective.backward()
        best = min(best, objective.item())
        if best <= goal or time.perf_counter() - start > PATIENCE:
            raise Arrived
        return objective

    with contextlib.suppress(Arrived):
        steps.step(closure)
    return best
