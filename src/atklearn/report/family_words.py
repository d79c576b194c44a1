"""How the families of models are spoken of: what they are, what their strength is called, what their features weigh."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILY_WORDS", "FamilyWords", "YardstickWords"]


@dataclass(frozen=True)
class YardstickWords:
    """The words for the model that a family is measured by.

    Attributes
    ----------
    name, title : str
        Of its column, and of the table.
    with_it, with_ours : str
        Either, after "with".
    better, worse, same : str
        What follows where it is better than these models, worse, or neither, with a place for the numbers.
    as_it_comes : str
        What it is, with places for fields of its record.
    """

    name: str
    title: str
    with_it: str
    with_ours: str
    better: str
    worse: str
    same: str
    as_it_comes: str


@dataclass(frozen=True)
class FamilyWords:
    """The words for a family of models.

    Attributes
    ----------
    title : str
        Of the page: what is compared.
    models : str
        What the models are, in a sentence.
    axis : str
        What the strength is called, in a sentence; among the fields of a JSON object, ``field``.
    field : str
    value : str
        A strength, with a place for its number.
    at_largest, at_smallest : str
        What it means to be at an end of what was tried.
    weights : str
        What is shown of the features.
    is_linear : bool
        Whether features weigh in units, for or against.
    yardstick : YardstickWords
    """

    title: str
    models: str
    axis: str
    field: str
    value: str
    at_largest: str
    at_smallest: str
    weights: str
    is_linear: bool
    yardstick: YardstickWords

    def valued(self, strength: float) -> str:
        """Return a strength in words.

        Examples
        --------
        >>> FAMILY_WORDS["linear"].valued(0.1), FAMILY_WORDS["boosting"].valued(80.0)
        ('C = 0.1', '80 rounds')
        """
        return self.value.format(f"{strength:g}")


FAMILY_WORDS = {
    "linear": FamilyWords(
        title="Maximum, average and AT_k",
        models="The models are linear: each feature has one weight, for all rows alike.",
        axis="C",
        field="C",
        value="C = {}",
        at_largest="is the largest that was tried: hardly any regularisation. More would change little.",
        at_smallest="is the smallest that was tried: the features hardly help, and the model is nearly constant.",
        weights="weights",
        is_linear=True,
        yardstick=YardstickWords(
            name="gradient boosting",
            title="A model that is not linear, for comparison",
            with_it="gradient boosting",
            with_ours="the best linear model",
            better="A non-linear model is better here: {}. Consider one before you tune k, with --model boosting.",
            worse="A linear model is sensible here, and better than a non-linear one that nobody tuned: {}.",
            same="A linear model is sensible here, and a non-linear one no better by an amount that matters: {}.",
            as_it_comes="Gradient boosting of {library} as it comes, at most {rounds} rounds of trees",
        ),
    ),
    "boosting": FamilyWords(
        title="Average and AT_k of boosted trees",
        models="The models are boosted trees: small decision trees, grown one after the other, each to mend what those "
        "before it leave. The number of rounds says how many; more follow the rows more closely.",
        axis="number of rounds",
        field="rounds",
        value="{} rounds",
        at_largest="are the most that were tried: more might be better still.",
        at_smallest="are the fewest that were tried: the features hardly help, or there are few rows to learn from.",
        weights="shares of the gain",
        is_linear=False,
        yardstick=YardstickWords(
            name="linear model",
            title="A linear model, for comparison",
            with_it="a linear model",
            with_ours="the best boosted trees",
            better="Trees are not worth it here, a linear model is better: {}. Compare with --model linear.",
            worse="Trees are worth it here, and better than a linear model that nobody tuned: {}.",
            same="Trees are no better here than a linear model by an amount that matters: {}. The simpler one may do.",
            as_it_comes="The average of a linear model of {library} as it comes",
        ),
    ),
}
"""Per value of ``--model``, the words."""
