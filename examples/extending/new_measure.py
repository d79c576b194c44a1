"""A measure that the library does not have, as docs/extending/measure.md builds it: what promised times cost."""

import numpy as np

from atklearn import ATkRegressorCV
from atklearn.measures import MEASURES, Measure, MeasureScorer

LATE, EARLY = 0.9, 0.1  # what a unit of time costs that a delivery comes after, or before, it was promised


def promise_cost(answers):
    """Return the mean cost of promises, shape (...), of answers with any leading axes."""
    late, early = np.maximum(-answers.residuals, 0.0), np.maximum(answers.residuals, 0.0)
    return answers.mean(LATE * late + EARLY * early)


PROMISE_COST = Measure(
    name="promise_cost",
    title="promise cost",
    tasks=("regression",),
    evaluate=promise_cost,
    relative=True,
    sees="numbers",
    meaning="the mean cost of missing the promised time, being late costing nine times as much as being early",
)

MEASURES[PROMISE_COST.name] = PROMISE_COST


def main():
    """Choose k and C by the new measure, and by an old one."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1000, 3))
    y = 3.0 + X @ [1.0, 0.5, 0.0] + rng.exponential(size=1000)
    for scoring in ("rmse", "promise_cost"):
        model = ATkRegressorCV(scoring=scoring, cv=5).fit(X, y)
        cost = -MeasureScorer("promise_cost")(model, X, y)  # scores are higher where models are better
        print(f"chosen by {scoring}: k/n = {model.k_share_:.2f}, promise cost {cost:.3f}")


if __name__ == "__main__":
    main()
