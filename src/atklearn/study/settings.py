"""How the fits of a comparison are made, for a task and a number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from atklearn.losses.individual import Task, resolve_individual_loss
from atklearn.measures.answers import TAIL_SHARE
from atklearn.study.methods import CLASS_WEIGHTS, COMPARED_LOSSES

__all__ = ["Settings"]

# The rows up to which the folds are repeated so many times: the fewer there are, the wider the intervals.
_REPEATS = ((2_000, 5), (20_000, 2))
_QUICK = {
    "repeats": 1, "n_ks": 3, "n_Cs": 6, "n_inner_folds": 3, "last_repeats": 1, "max_rows": 20_000,
    "boosting_rounds": 40,
    "left_out": "a quick look: without --quick there are more repeats (below 20,000 rows), finer grids of k and C, "
    "five folds to choose by, and no limit of 20,000 rows",
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """How the fits of a comparison are made: all that determines a cell, and how many splits there are.

    Attributes
    ----------
    losses : tuple of str
    weights : tuple of {"plain", "balanced"}
        Class weights.
    repeats : int
        Of the cross-validation that tests.
    n_folds : int
        Of each repeat; fewer if a class has fewer rows.
    n_inner_folds : int
        Of each training part, for validation.
    last_repeats : int
        Of the validation on all rows, which nothing tests.
    n_ks, n_Cs : int
        Sizes of the grids. A smaller k regularises, too: with few C to try, it would gain what another C has.
    tail : float
        The part of the rows that is the tail of the errors.
    max_rows : int or None
        Compare on no more rows than these, drawn at random.
    boosting_rounds : int
        Trees of the gradient boosting that stands beside the comparison, at most; per class for more than two.
    left_out : str
        What a full comparison would have done, for those who read the report of a quick one.
    tol : float
        The duality gap allowed in every fit of the grids, relative to its objective.
    random_state : int
    """

    losses: tuple[str, ...]
    weights: tuple[str, ...] = ("plain",)
    repeats: int = 5
    n_folds: int = 10
    n_inner_folds: int = 5
    last_repeats: int = 5
    n_ks: int = 6
    n_Cs: int = 11
    tail: float = TAIL_SHARE
    max_rows: int | None = None
    boosting_rounds: int = 100
    left_out: str = ""
    tol: float = 1e-3
    random_state: int = 0

    @classmethod
    def for_task(cls, task: Task, n_rows: int, *, quick: bool = False, **changes: Any) -> Settings:
        """Return the settings for a task and so many rows, full or for a quick first look, with changes."""
        repeats = next((repeats for most, repeats in _REPEATS if n_rows < most), 1)
        settings: dict[str, Any] = {
            "losses": COMPARED_LOSSES[task],
            "weights": tuple(CLASS_WEIGHTS) if task == "classification" else ("plain",),
            "repeats": repeats,
            "last_repeats": repeats,
        }
        settings |= (_QUICK if quick else {}) | changes
        for loss in settings["losses"]:
            resolve_individual_loss(loss, task)
        if not 0.0 < settings.get("tail", TAIL_SHARE) < 1.0:
            raise ValueError(f"tail is expected to be a part of the rows, between 0 and 1, got {settings['tail']!r}.")
        return cls(**settings)
