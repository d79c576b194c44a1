"""What a claim is: a task that we and somebody else can do, and what it is called."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Machine = Literal["cpu", "gpu", "both"]


@dataclass(frozen=True)
class Setting:
    """How a claim is measured: on how many threads, and whether only to see that it runs."""

    threads: int
    tiny: bool = False

    def rows(self, n: int) -> int:
        """Return the number of rows: as many as claimed, or a few hundred."""
        return min(n, 400) if self.tiny else n

    def columns(self, d: int) -> int:
        """Return the number of columns: as many as claimed, or a few."""
        return min(d, 30) if self.tiny else d


def nothing() -> None:
    """Do nothing: where there is nothing to close."""


@dataclass(frozen=True)
class Contest:
    """Two ways to do the same.

    ``excess`` takes what both returned, and returns how far the objective of each is above a certified lower bound of
    the optimum, relative to it; None stands for what cannot be told. A round has several ``turns``, the quickest of
    which counts, where one is so short that it is disturbed easily. ``settle`` waits for what runs elsewhere. A first
    round does not count; ``warm`` says that ``prepare`` has seen to that, where a round is long.
    """

    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    excess: Callable[[Any, Any], tuple[float | None, float | None]] = lambda _ours, _theirs: (None, None)
    turns: int = 1
    warm: bool = False
    settle: Callable[[], None] = nothing
    close: Callable[[], None] = nothing


@dataclass(frozen=True)
class Gauge:
    """A quantity that is a ratio by itself, such as memory in units of the data."""

    read: Callable[[], float]
    excess: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Claim:
    """Our time over theirs for one task.

    ``id`` is TOPIC/NAME. ``packages`` are the competitor's, as their versions are told; ``needs`` the modules that must
    be there. ``machine`` says where it is measured: the ordinary one, the one with a GPU, or both.
    """

    id: str
    task: str
    sizes: str
    over: str
    prepare: Callable[[Setting], Contest | Gauge]
    packages: tuple[str, ...] = ("scikit-learn",)
    needs: tuple[str, ...] = ()
    threads: Literal[1, "all"] = 1
    rounds: int = 3
    machine: Machine = "cpu"

    @property
    def topic(self) -> str:
        """The section of the page."""
        return self.id.split("/")[0]

    def missing(self) -> list[str]:
        """Return the modules that are needed and not there."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


def shape(n: int, d: int) -> str:
    """Return rows and columns as the page writes them."""
    return f"{n:,} x {d:,}"


def share(k: float) -> str:
    """Return k as a share of n, as the page writes it."""
    return {1.0: "k = n", 0.5: "k = n/2"}.get(k, f"k = {k:g} n")


LOSS_NAMES = {
    "log_loss": "log loss",
    "hinge": "hinge",
    "squared_hinge": "squared hinge",
    "squared_error": "squared error",
    "absolute_error": "absolute error",
    "huber": "Huber",
}
