"""What a comparison says about setting rows aside: whether it helps, and on which choice all rows are judged.

Fits that leave the largest losses out stand beside average and AT_k on the splits of the first repeat. Each side keeps
the best average unless it leads in validation by more than half a standard error, as AT_k does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from atklearn.study.evidence import Choice, Grid, best_below_all, best_choice, best_of_all, choose, leads
from atklearn.study.methods import ROBUST, Aggregate
from atklearn.study.outcome import Outcome
from atklearn.study.verdicts import Verdict

__all__ = ["SettingAside"]


class SettingAside:
    """The sides that set rows aside, judged by the measure that counts.

    Parameters
    ----------
    outcome : Outcome
    """

    def __init__(self, outcome: Outcome) -> None:
        self.outcome, self.score = outcome, outcome.question.score
        self.was_tried = len(outcome.splits_aside) == outcome.data["n_folds"]

    @cached_property
    def sides(self) -> dict[Aggregate, list[Choice]]:
        """What average, AT_k, trimmed mean and ranged mean chose on the splits of the first repeat."""
        if not self.was_tried:
            return {}
        splits = list(zip(self.outcome.splits, self.outcome.splits_aside, strict=False))  # of the first repeat
        average, atk = (side[: len(splits)] for side in self.outcome.sides(self.score))
        found: dict[Aggregate, list[Choice]] = {"average": average, "atk": atk}
        for aggregate in ROBUST:
            best = [_best(aside, self.score, aggregate) for _, aside in splits]
            found[aggregate] = [
                kept if choice is None or not leads(choice, kept) else choice
                for choice, kept in zip(best, average, strict=True)
            ]
        return found

    @cached_property
    def verdicts(self) -> dict[Aggregate, Verdict]:
        """What each side does against the average, each by itself."""
        against = {name: {self.score: (self.sides["average"], side)} for name, side in self.sides.items()}
        n_splits = len(self.outcome.splits_aside)
        return {
            name: self.outcome.verdicts_on(pair, n_splits)[self.score]
            for name, pair in against.items()
            if name != "average"
        }

    @cached_property
    def on_all_rows(self) -> Choice | None:
        """The best trimmed mean on all rows; None if there is none."""
        return _best(self.outcome.all_rows_aside, self.score, "trimmed")

    @property
    def is_asked_for(self) -> bool:
        """Whether validation on all rows finds it better than the average."""
        chosen = choose(self.outcome.all_rows, self.score)
        return self.on_all_rows is not None and chosen is not None and leads(self.on_all_rows, chosen[0])


def _best(grids: Sequence[Grid], measure: str, aggregate: Aggregate) -> Choice | None:
    """Return the best fit that sets rows aside: the mean of all others, or also of those up to some k."""
    found: list[Choice | None] = []
    for grid in grids:
        if measure not in grid.validation:
            continue
        scores = grid.scores(measure)
        found.append(grid.choice(measure, *best_of_all(scores)))
        if aggregate == "range":
            below = best_below_all(scores, grid.below_all, grid.fold_to_rest)
            found.append(None if below is None else grid.choice(measure, *below))
    return best_choice(found)
