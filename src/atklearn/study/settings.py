"""How the fits of a comparison are made, for a task and a number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from atklearn.losses.individual import Task
from atklearn.measures.answers import TAIL_SHARE
from atklearn.study.families import Family, LinearModels, family_named
from atklearn.study.methods import CLASS_WEIGHTS

__all__ = ["Settings"]

# The rows up to which the folds are repeated so many times: the fewer there are, the wider the intervals.
_REPEATS = ((2_000, 5), (20_000, 2))
_QUICK = {"repeats": 1, "n_inner_folds": 3, "last_repeats": 1, "max_rows": 20_000, "boosting_rounds": 40}


@dataclass(frozen=True)
class Settings:
    """How the fits of a comparison are made: all that determines a cell, and how many splits there are.

    Attributes
    ----------
    losses : tuple of str
    family : Family
        The models, and the grid that is tried of them.
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
    tail : float
        The part of the rows that is the tail of the errors.
    max_rows : int or None
        Compare on no more rows than these, drawn at random.
    boosting_rounds : int
        Trees of the gradient boosting that stands beside linear models, at most; per class for more than two.
    drops : tuple of float
        The parts of the largest losses that are set aside, with the first of the losses, on the splits of one repeat.
    left_out : str
        What a full comparison would have done, for those who read the report of a quick one.
    random_state : int
    """

    losses: tuple[str, ...]
    family: Family = field(default_factory=LinearModels)
    weights: tuple[str, ...] = ("plain",)
    repeats: int = 5
    n_folds: int = 10
    n_inner_folds: int = 5
    last_repeats: int = 5
    tail: float = TAIL_SHARE
    max_rows: int | None = None
    boosting_rounds: int = 100
    drops: tuple[float, ...] = ()
    left_out: str = ""
    random_state: int = 0

    @classmethod
    def for_task(
        cls,
        task: Task,
        n_rows: int,
        *,
        model: str = "linear",
        quick: bool = False,
        losses: Sequence[str] = (),
        family: Family | None = None,
        robust: bool | None = None,
        **changes: Any,
    ) -> Settings:
        """Return the settings for a task and so many rows.

        Parameters
        ----------
        task : {"classification", "regression"}
        n_rows : int
        model : {"linear", "boosting"}, default="linear"
        quick : bool, default=False
            Whether this is a first look.
        losses : sequence of str, default=()
            By default those that the models are usually compared with.
        family : Family, default=None
            The models with another grid than their usual one.
        robust : bool, default=None
            Whether fits that set the largest losses aside are compared, too; by default unless this is a first look.
        **changes
            Other attributes.

        Examples
        --------
        >>> Settings.for_task("regression", 1000).repeats, Settings.for_task("regression", 1000, quick=True).repeats
        (5, 1)
        """
        if family is None:
            family = family_named(model).coarse() if quick else family_named(model)
        if robust and not family.drops:
            raise ValueError(
                f"--robust is about linear models, got {family.name}; leave it out, or take --model linear."
            )
        repeats = family.repeats(next((repeats for most, repeats in _REPEATS if n_rows < most), 1))
        settings: dict[str, Any] = {
            "losses": family.losses(task, losses),
            "family": family,
            "weights": tuple(CLASS_WEIGHTS) if task == "classification" else ("plain",),
            "repeats": repeats,
            "last_repeats": repeats,
            "drops": family.drops if robust or (robust is None and not quick) else (),
        }
        if quick:
            left_out = (
                "a quick look: without --quick there are more repeats (below 20,000 rows), finer grids of k and "
                f"{family.axis}, five folds to choose by, no limit of 20,000 rows, and fits that set rows aside"
            )
            settings |= {**_QUICK, "left_out": left_out}
        settings |= changes
        if not 0.0 < settings.get("tail", TAIL_SHARE) < 1.0:
            raise ValueError(f"tail is expected to be a part of the rows, between 0 and 1, got {settings['tail']!r}.")
        return cls(**settings)
