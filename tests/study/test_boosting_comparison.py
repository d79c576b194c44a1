"""A comparison of boosted trees: the same laws as of linear models, with rounds in the place of C."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from compared_pages import of_kind, page_of, summary_of, tables_of
from comparisons import in_any_order, made, made_numbers, run, small, table
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from atklearn import compare
from atklearn.boosting import ATkBoostingClassifier, ATkBoostingRegressor
from atklearn.report.markdown import render_markdown, write_markdown
from atklearn.study.comparison import run_comparison
from atklearn.study.evidence import choose, collect_grids
from atklearn.study.families import BoostedModels, LinearModels
from atklearn.study.last_fit import fit_recommended
from atklearn.study.methods import CLASS_WEIGHTS
from atklearn.study.outcome import Outcome, Question
from atklearn.study.saving import load_model, save_model
from atklearn.study.settings import Settings
from atklearn.study.split_grids import SplitGrids

SHARES, ROUNDS = (0.3, 0.6, 1.0), (4, 8)
KINDS = ["two", "three", "numbers", "sparse"]
DEFAULT = {"classification": "balanced_error", "regression": "rmse"}


def trees(task, **changes):
    return small(task, **{"family": BoostedModels(SHARES, ROUNDS), "last_repeats": 1, **changes})


def table_of(kind):
    X, y = {"three": made(n_classes=3), "numbers": made_numbers()}.get(kind, made())
    if kind == "sparse":
        X = csr_array(np.where(X > 0.0, X, 0.0))
    groups = np.where(np.arange(len(y)) % 3 == 0, "north", "south") if kind == "two" else None
    return table(X, y, "regression" if kind == "numbers" else "classification", groups)


@pytest.fixture(scope="module", params=KINDS)
def compared(request, tmp_path_factory):
    data = table_of(request.param)
    return data, run(data, tmp_path_factory.mktemp(request.param) / "results.jsonl", trees(data.task))


def test_average_and_atk_choose_among_the_same_cells(compared):
    """Every k has every number of rounds, and both sides take what is best of them in validation."""
    data, records = compared
    for grids in collect_grids(records, data.name).values():
        for grid in grids:
            assert grid.strengths.tolist() == list(ROUNDS)
            assert_allclose(grid.shares, SHARES, rtol=1e-6)
            average, _, below = choose([grid], DEFAULT[data.task])
            assert average.score == grid.scores(DEFAULT[data.task]).mean(axis=0)[-1].max()
            assert average.share == 1.0 > below.share
            assert {average.strength, below.strength} <= set(ROUNDS)


def test_a_cell_is_the_estimator_fitted_to_the_training_part(compared):
    """With as many rounds as the cell has, though its trees are the first of more."""
    data, records = compared
    settings = trees(data.task)
    grids = SplitGrids(data, settings)
    taken = grids.take(1)
    y, (train, test) = grids.y[taken.rows], taken.places
    for record in of_kind(records, "said"):
        if record["split"] != 1:
            continue
        for cell in record["cells"]:
            options = {"k": cell["k"] / train.size, "n_estimators": cell["strength"], "random_state": 0}
            options |= {"num_leaves": 15, "lightgbm_params": {"max_bin": 127}}
            if data.task == "classification":
                own = ATkBoostingClassifier(**options, class_weight=CLASS_WEIGHTS[record["weights"]]).fit(
                    taken.X[train], y[train]
                )
                said = np.atleast_2d(own.decision_function(taken.X[test]).T)
            else:
                own = ATkBoostingRegressor(**options).fit(taken.X[train], (y[train] - y[train].mean()) / y[train].std())
                said = y[train].mean() + y[train].std() * own.predict(taken.X[test])[None]
            assert_allclose(cell["decisions"], said, rtol=1e-5, atol=1e-6)


def test_nothing_speaks_of_what_trees_do_not_have(compared, tmp_path):
    """No certificate, no C, no line in a plane, no maximum; of each feature the share that it gains."""
    _, records = compared
    assert {cell["n_fits"] for cell in of_kind(records, "cell")} == {0}
    assert {cell["gap"] for cell in of_kind(records, "cell")} == {None}
    assert {cell["aggregate"] for cell in of_kind(records, "cell")} == {"average", "atk"}
    assert of_kind(records, "plane") == of_kind(records, "point") == []
    page = page_of(records)
    write_markdown(page, tmp_path / "page.md")
    said = (tmp_path / "page.md").read_text(encoding="utf-8")
    for word in ("duality", "certified", "C =", "and C ", "best C", "coefficient"):
        assert word not in said, word
    assert "boosted trees" in page.title
    assert "number of rounds" in said
    assert "A linear model, for comparison" in said
    for model in (*of_kind(records, "model"), *of_kind(records, "other")):
        assert sum(gain for _, gain in model["feature_weights"]) == pytest.approx(1.0, rel=1e-5)
    assert tables_of(page)["weights"].columns == ["feature", "average", "AT_k"]
    recommendation = summary_of(records)["recommendation"]
    assert recommendation["model"] == "boosting"
    assert recommendation["rounds"] in ROUNDS
    assert isinstance(recommendation["rounds"], int)


def test_an_average_that_asks_for_more_rounds_is_told(compared):
    data, records = compared
    outcome = Outcome.from_records(records, Question(DEFAULT[data.task]), 1)
    average, atk = outcome.sides(DEFAULT[data.task])
    at_end = sum(choice.strength == ROUNDS[-1] for choice in average)
    expected = 2 * at_end > len(average) and any(one is not other for one, other in zip(average, atk, strict=True))
    said = render_markdown(page_of(records), "figures")
    assert (f"On {at_end} of {len(average)} splits the average chose 8 rounds" in said) == expected


def test_what_is_recommended_is_saved_and_loaded(compared, tmp_path):
    data, records = compared
    chosen = Outcome.from_records(records, Question(DEFAULT[data.task]), 1).recommendation
    model = fit_recommended(data, chosen)
    save_model(model, tmp_path / "model.skops")
    again = load_model(tmp_path / "model.skops")
    assert np.array_equal(again.predict(data.features), model.predict(data.features))


def test_a_run_that_is_extended_is_the_longer_run(tmp_path):
    data = table_of("numbers")
    at_once = run(data, tmp_path / "once" / "results.jsonl", trees("regression", repeats=2))
    path = tmp_path / "twice" / "results.jsonl"
    run(data, path, trees("regression"))
    with path.open("r+b") as file:  # the last task was cut short
        file.truncate(path.stat().st_size - 10)
    longer = run(data, path, trees("regression", repeats=2))
    asked = of_kind(at_once, "answer")[0]["question"]
    assert in_any_order(longer, asked) == in_any_order(at_once, asked)


def test_linear_models_and_trees_are_different_runs(tmp_path):
    data, question = table_of("numbers"), Question("rmse")
    first = run_comparison(data, small("regression"), question, tmp_path / "run" / "results.jsonl")
    second = run_comparison(data, trees("regression"), question, tmp_path / "run" / "results.jsonl")
    assert not first.moved
    assert "(with other --model)" in second.moved
    assert second.path.parent.name == "run-2"


def test_the_usual_settings():
    full, quick = (Settings.for_task("classification", 1000, model="boosting", quick=quick) for quick in (False, True))
    linear = Settings.for_task("classification", 1000)
    assert full.losses == quick.losses == ("log_loss",)
    assert full.weights == linear.weights == ("plain", "balanced")
    assert (full.repeats, linear.repeats, quick.repeats) == (2, 5, 1)
    assert full.family == BoostedModels()
    assert quick.family == BoostedModels().coarse() != BoostedModels()
    assert linear.family == LinearModels()
    assert "k and rounds" in quick.left_out
    assert [Settings.for_task("regression", n, model="boosting").repeats for n in (5000, 10**6)] == [1, 1]
    asked = Settings.for_task("regression", 1000, model="boosting", losses=["absolute_error"])
    assert asked.losses == ("absolute_error",)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "forest"}, "--model is expected to be linear or boosting, got 'forest'"),
        ({"model": "rides.skops"}, "--save-model"),
        ({"model": "boosting", "loss": "hinge"}, "--loss to be log_loss, got 'hinge'"),
        ({"model": "boosting", "loss": "squared_error"}, "--loss to be log_loss, got 'squared_error'"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(options, sentence):
    X, y = made(60)
    with pytest.raises(ValueError, match=r"got '.*'; ") as error:
        compare(X, y, verbose=False, **options)
    assert sentence in str(error.value)


def test_without_lightgbm_it_is_said_how_to_install_it_before_anything_is_read(tmp_path, monkeypatch):
    data = table_of("numbers")
    settings = trees("regression", n_folds=2)
    finished = run_comparison(data, settings, Question("rmse"), tmp_path / "run" / "results.jsonl")
    save_model(fit_recommended(data, finished.recommendation), tmp_path / "model.skops")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'atklearn\[boosting\]'"):
        compare(tmp_path / "absent.csv", "y", model="boosting")
    monkeypatch.setattr("atklearn.study.saving._trusted_types", frozenset)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'atklearn\[boosting\]'"):
        load_model(tmp_path / "model.skops")
