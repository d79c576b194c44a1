"""The outcome of a comparison: a verdict about every measure, and what to use.

Three families of verdicts, each corrected for its many measures: all losses and class weights (the answer); the same
with mapped decision values allowed on both sides (the contest: what one would try instead); and within log loss, for
those who need probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_expit, logit

from atklearn.losses.individual import Array, Task
from atklearn.measures import MEASURES
from atklearn.measures.catalogue import DEFAULT_MEASURES, names_of_measures
from atklearn.study.evidence import Choice, Grid, best_choice, choose, collect_grids, method_choices
from atklearn.study.methods import Aggregate, Method
from atklearn.study.pooling import JudgedRows
from atklearn.study.recalibration import Map, MapKind, map_kind
from atklearn.study.results import Record
from atklearn.study.verdicts import Verdict, judge

__all__ = ["Outcome", "Question", "Recommendation", "YardstickPart"]

MARGIN = 0.01
PROBABILISTIC_LOSS = "log_loss"


@dataclass(frozen=True)
class Question:
    """What a user wants to know of a comparison: nothing that changes its fits.

    Attributes
    ----------
    score : str
        The measure that counts.
    margin : float
        Differences up to this part of a measure's own scale do not matter.
    """

    score: str
    margin: float = MARGIN

    @classmethod
    def about(cls, task: Task, *, has_groups: bool, score: str | None = None, margin: float | None = None) -> Question:
        """Return the question for a task, with its default measure and margin where none is given."""
        score = DEFAULT_MEASURES[task] if score is None else score
        known = [name for name in names_of_measures(task) if has_groups or not MEASURES[name].by_group]
        if score not in known:
            raise ValueError(
                f"scoring for {task}{'' if has_groups else ' without --group'} is expected to be one of {known}, "
                f"got {score!r}."
            )
        margin = MARGIN if margin is None else margin
        if not 0.0 <= margin < 1.0:
            raise ValueError(f"The margin is expected to be a part of the measure's scale, below 1, got {margin!r}.")
        return cls(score, margin)


@dataclass(frozen=True)
class Recommendation:
    """What to use on these data, chosen by validation on all rows.

    Attributes
    ----------
    loss, weights : str
    share, strength : float
    map : tuple of float or None
        Slope and shift of the decision values, if mapping them was seen to help.
    reason : str
    model : {"linear", "boosting"}
        The family of models: what the strength is of.
    """

    loss: str
    weights: str
    share: float
    strength: float
    map: Map | None
    reason: str
    model: str = "linear"


@dataclass(frozen=True)
class YardstickPart:
    """What a model of the other family said about the rows of a test part.

    Attributes
    ----------
    rows : ndarray of int of shape (n_rows,)
    said : ndarray of shape (n_problems, n_rows)
    """

    rows: npt.NDArray[np.intp]
    said: Array

    @classmethod
    def from_record(cls, record: Record, *, classes_alike: bool) -> YardstickPart:
        """Return what a record says; where all classes count alike, less the log-odds that each had to begin with."""
        said = np.array(record["decisions"])
        if classes_alike:
            prior = np.array(record["prior"])
            said = said - logit(prior[1]) if len(said) == 1 else log_expit(said) - np.log(prior)[:, None]
        return cls(np.array(record["rows"], dtype=np.intp), said)


class Outcome:
    """What the grids of all splits say.

    Parameters
    ----------
    grids : mapping
        Per split, and None for all rows, as :func:`atklearn.study.evidence.collect_grids` returns them.
    data : dict
        The record of the data.
    question : Question
    yardsticks : sequence of Record, default=()
        What a model of the other family said on the splits of the first repeat.
    """

    def __init__(
        self,
        grids: Mapping[int | None, Sequence[Grid]],
        data: Record,
        question: Question,
        yardsticks: Sequence[Record] = (),
    ) -> None:
        self.question, self.data = question, data
        self.yardsticks = sorted(yardsticks, key=lambda record: record["split"])  # tasks finish in any order
        self.all_rows, self.all_rows_aside = _by_drop(grids[None])
        parted = [_by_drop(grids[split]) for split in sorted(split for split in grids if split is not None)]
        self.splits = [plain for plain, _ in parted]
        self.splits_aside = [aside for _, aside in parted if aside]
        self.task: Task = data["task"]

    @classmethod
    def from_records(cls, records: Iterable[Record], question: Question, repeats: int) -> Outcome:
        """Return the outcome of so many repeats, from the records of a comparison."""
        kept = list(records)
        data = next(record for record in kept if record["record"] == "data")
        n_splits = repeats * data["n_folds"]
        grids = collect_grids(kept, data["dataset"])
        within = {split: of for split, of in grids.items() if split is None or split < n_splits}
        return cls(within, data, question, [record for record in kept if record["record"] == "yardstick"])

    @cached_property
    def measures(self) -> list[str]:
        """All measures, the one that counts first."""
        found = [name for name in MEASURES if any(name in grid.validation for grid in self.all_rows)]
        return [self.question.score, *(name for name in found if name != self.question.score)]

    def measures_of(self, loss: str) -> list[str]:
        """Return those of the measures that are known of fits with a loss: without probabilities there are fewer."""
        known = next(grid.validation for grid in self.all_rows if grid.loss == loss)
        return [name for name in self.measures if name in known]

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Per measure, what AT_k does against the average, loss and class weights chosen for both."""
        return self._judge(self.measures)

    @cached_property
    def contests(self) -> dict[str, Verdict]:
        """The same with mapped decision values allowed on both sides; empty where no map could help."""
        n_classes = len(self.data["classes"]) if self.task == "classification" else None
        return self._judge([name for name in self.measures if map_kind(name, n_classes)], contest=True)

    @cached_property
    def within_log_loss(self) -> dict[str, Verdict]:
        """The same within log loss; empty where it is not one of several losses."""
        losses = {grid.loss for grid in self.all_rows}
        if PROBABILISTIC_LOSS not in losses or len(losses) == 1:
            return {}
        return self._judge(self.measures, loss=PROBABILISTIC_LOSS)

    def sides(
        self, measure: str, *, contest: bool = False, loss: str | None = None
    ) -> tuple[list[Choice], list[Choice]]:
        """Return what average and AT_k chose on every split by a measure, with any loss or the one that is named."""
        chosen = [
            choose([grid for grid in grids if loss in (None, grid.loss)], measure, contest=contest)
            for grids in self.splits
        ]
        pairs = [(found[0], found[1]) for found in chosen if found is not None]
        return [average for average, _ in pairs], [atk for _, atk in pairs]

    @cached_property
    def contrast(self) -> tuple[list[Choice], list[Choice]] | None:
        """What average and AT_k chose by the measure that counts, so that they differ; None if there is no k < n.

        Where AT_k kept the average on all splits, the best k < n stands in its place.
        """
        score = self.question.score
        average, atk = self.sides(score)
        if any(one is not other for one, other in zip(average, atk, strict=True)):
            return average, atk
        below = [found[2] for found in (choose(grids, score) for grids in self.splits) if found is not None]
        found = [choice for choice in below if choice is not None]
        return (average, found) if len(found) == len(average) else None

    @cached_property
    def yardstick(self) -> dict[str, float]:
        """Per measure, what a model of the other family has in the first repeat; empty if it was not fitted."""
        if len(self.yardsticks) != self.data["n_folds"]:
            return {}
        return {
            name: self.rows.measure(
                name,
                [
                    YardstickPart.from_record(part, classes_alike=MEASURES[name].classes_alike)
                    for part in self.yardsticks
                ],
            )
            for name in self.measures
        }

    @cached_property
    def traced(self) -> Grid:
        """The grid on all rows whose k the pictures go along: the recommended one, or the next that has several k."""
        first = [self.recommendation, *([] if self.beside is None else [self.beside])]
        wanted = [(choice.loss, choice.weights) for choice in first]
        known = [grid for grid in self.all_rows if self.question.score in grid.validation]
        order = sorted(
            known,
            key=lambda grid: (
                len(grid.ks) == 1,
                [(grid.loss, grid.weights) != names for names in wanted],
            ),
        )
        return order[0]

    @cached_property
    def rows(self) -> JudgedRows:
        """The rows that are judged."""
        data = self.data
        classes = np.arange(len(data["classes"])) if self.task == "classification" else None
        groups = None if data["groups"] is None else np.array(data["groups"])
        clusters = None if data["clusters"] is None else np.array(data["clusters"])
        return JudgedRows(np.array(data["truth"]), classes, groups, data["tail"], data["n_folds"], clusters)

    def _judge(self, measures: Sequence[str], **which: Any) -> dict[str, Verdict]:
        return self.verdicts_on({name: self.sides(name, **which) for name in measures})

    def verdicts_on(
        self, sides: Mapping[str, tuple[list[Choice], list[Choice]]], n_splits: int | None = None
    ) -> dict[str, Verdict]:
        """Return verdicts about measures, from what two sides chose on each split, of all or of so many."""
        return judge(
            {name: self.rows.compare(name, average, atk) for name, (average, atk) in sides.items()},
            {name: [choice.share for choice in atk] for name, (_, atk) in sides.items()},
            margin=self.question.margin,
            n_rows=self.data["n_used"],
            n_splits=len(self.splits) if n_splits is None else n_splits,
            n_folds=self.data["n_folds"],
            repeatable=self.data["time"] is None,
        )

    @property
    def map_words(self) -> str:
        """What the maps of decision values are called: what one would try instead of another loss."""
        return _MAPS[self.task]

    @property
    def map_kind(self) -> MapKind:
        """What kind of map the contests allow."""
        return "threshold" if self.task == "classification" else "affine"

    def kept_average(self, measure: str) -> int:
        """Return on how many splits AT_k kept the average."""
        return sum(average is atk for average, atk in zip(*self.sides(measure), strict=True))

    def methods(self) -> dict[Method, list[Choice]]:
        """Return what every method chose on every split by the measure that counts."""
        per_split = [method_choices(grids, self.question.score) for grids in self.splits]
        return {method: [chosen[method] for chosen in per_split] for method in per_split[0]}

    @cached_property
    def map_verdicts(self) -> dict[Aggregate, Verdict]:
        """For each side, whether mapping its decision values helps on the measure that counts."""
        score = self.question.score
        found: dict[Aggregate, Verdict] = {}
        sides: tuple[Aggregate, ...] = ("average", "atk")
        for side in sides:
            plain, mapped = [], []
            for grids in self.splits:
                chosen = choose(grids, score)
                best = _best_mapped(grids, side, score)
                unmapped = None if chosen is None else chosen[0] if side == "average" else chosen[2]
                if unmapped is None or best is None:
                    break
                plain.append(unmapped)
                mapped.append(best)
            else:
                found[side] = self.verdicts_on({score: (plain, mapped)})[score]
        return found

    @cached_property
    def recommendation(self) -> Recommendation:
        """What to use: AT_k where it was seen to help, the average where not; where undecided, what validation says.

        Either way the average with mapped decision values, where that was seen to leave AT_k nothing to gain.
        """
        score = self.question.score
        chosen = choose(self.all_rows, score)
        if chosen is None:
            raise ValueError(
                f"The results are expected to hold {score}, which they do not: a measure that was added to MEASURES is "
                "known to this process alone; compare with n_jobs=1 and fresh=True."
            )
        average, atk, below = chosen
        answer = self.verdicts[score].answer
        leans = answer == "undecided" and atk.share < 1.0
        beaten = (answer == "helps" or leans) and self._mapped_average_is_enough
        if answer == "helps" and not beaten and below is not None:
            pick = below
        else:
            pick = atk if leans and not beaten else average
        side: Aggregate = "atk" if pick.share < 1.0 else "average"
        reason = self._reason(pick, beaten=beaten)
        if beaten:
            pick = _best_mapped(self.all_rows, side, score) or pick
        elif side in self.map_verdicts and self.map_verdicts[side].answer == "helps":
            pick = _best_mapped(self.all_rows, side, score) or pick
            reason += f"; {_MAPS[self.task]} was seen to help on the test parts, too"
        return Recommendation(pick.loss, pick.weights, pick.share, pick.strength, pick.map, reason, self.data["model"])

    @cached_property
    def beside(self) -> Recommendation | None:
        """What stands beside the recommendation: the best average, or the best k < n; None if there is none."""
        chosen = choose(self.all_rows, self.question.score)
        assert chosen is not None
        other = chosen[0] if self.recommendation.share < 1.0 else chosen[2]
        if other is None:
            return None
        return Recommendation(other.loss, other.weights, other.share, other.strength, None, "", self.data["model"])

    @cached_property
    def _mapped_average_is_enough(self) -> bool:
        """Whether the average with mapped decision values is better than AT_k, or was kept where AT_k might be it."""
        score = self.question.score
        contest = self.contests.get(score)
        if contest is None or contest.answer not in ("hurts", "same"):
            return False
        kept = contest.k_share == 1.0 and self.map_verdicts["average"].answer == "helps"
        return contest.answer == "hurts" or kept

    def _reason(self, pick: Choice, *, beaten: bool) -> str:
        """Say why, so that it follows from the answer."""
        answer, title = self.verdicts[self.question.score].answer, MEASURES[self.question.score].title
        if beaten:
            what = (
                "was better still" if self.contests[self.question.score].answer == "hurts" else "leaves nothing to gain"
            )
            plain = (
                "AT_k was better than the plain average, but"
                if answer == "helps"
                else "AT_k or the plain average is undecided on the test parts, but"
            )
            return f"{plain} with {_MAPS[self.task]} the average {what}"
        if answer == "helps":
            return (
                f"AT_k was better on the test parts; this is the largest k within half a standard error of the best "
                f"in cross-validation on all rows, by {title}"
            )
        if answer == "undecided":
            lean = (
                f"in cross-validation on all rows it leads the average by more than half a standard error of {title}"
                if pick.share < 1.0
                else f"in cross-validation on all rows no smaller k leads by more than half a standard error of {title}"
            )
            return f"undecided on the test parts, so this is a lean and no more: {lean}"
        seen = "worse" if answer == "hurts" else "no better by an amount that matters"
        return f"on the test parts AT_k was {seen}"


_MAPS: dict[Task, str] = {"classification": "a tuned threshold", "regression": "an affine map of the predictions"}


def _best_mapped(grids: Sequence[Grid], side: Aggregate, measure: str) -> Choice | None:
    """Return the choice with mapped decision values that is best in validation."""
    return best_choice(grid.mapped_choice(side, measure) for grid in grids)


def _by_drop(grids: Sequence[Grid]) -> tuple[list[Grid], list[Grid]]:
    """Return the grids that set no rows aside, and those that do."""
    return [grid for grid in grids if grid.drop == 0.0], [grid for grid in grids if grid.drop > 0.0]
