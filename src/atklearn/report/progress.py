"""How far a long run is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from atklearn.report.terminal import tell

__all__ = ["progress"]


class Task(Protocol):
    """A piece of work."""

    @property
    def cost(self) -> float:
        """How long it takes, in any unit."""


Told: TypeAlias = tuple[Callable[[Sequence[Task]], None], Callable[[Task], None]]


@contextmanager
def progress(title: str, *, silent: bool = False) -> Iterator[Told]:
    """Show how far a run is and how long it will take.

    Parameters
    ----------
    title : str
    silent : bool, default=False

    Yields
    ------
    on_start, on_task : callable
        To be told of all tasks at first, and of every task as it is finished.
    """
    console = Console(stderr=True)
    screen = console.is_terminal and not console.is_jupyter
    columns = [TextColumn("{task.description}"), BarColumn(None), TaskProgressColumn(), TimeElapsedColumn(),
               TextColumn("left"), TimeRemainingColumn()]  # fmt: skip
    bar = Progress(*columns, console=console, speed_estimate_period=120.0)
    shown = bar.add_task(title, total=None)
    state = {"done": 0.0, "total": 0.0, "tenths": 0.0}

    def on_start(tasks: Sequence[Task]) -> None:
        state["total"] = sum(task.cost for task in tasks)
        bar.update(shown, total=state["total"])

    def on_task(task: Task) -> None:
        state["done"] += task.cost
        bar.advance(shown, task.cost)
        tenths = int(10.0 * state["done"] / state["total"])
        if not silent and not screen and tenths > state["tenths"]:  # a log, not a screen
            state["tenths"] = tenths
            tell(f"{title}: {10 * tenths} %")

    with bar if screen and not silent else nullcontext():
        yield on_start, on_task
