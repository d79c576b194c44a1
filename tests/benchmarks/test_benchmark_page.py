"""The page of the benchmarks says what was measured, and everything that is claimed was."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))  # as where the suite is run from
page = importlib.import_module("claims.page")
claim = importlib.import_module("claims.claim")
results = importlib.import_module("claims.results")
measuring = importlib.import_module("claims.measuring")
CLAIMS = importlib.import_module("claims.catalogue").CLAIMS

FILES = results.read_all()
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
MACHINE = {
    "cpu": "some processor", "cores": 2, "gpu": None, "system": "Linux", "python": "3.11", "versions": {"numpy": "2.0"},
    "date": "1 May 2026",
}  # fmt: skip


def result(**changed):
    made = results.Result(
        id="linear/one", task="log loss", sizes="10 x 2", over="somebody", threads=1, versions={"some": "1.2"},
        date="1 May 2026", ratios=[0.4, 0.5, 0.6], seconds=[1.0, 2.0], excess=[1e-7, None],
    )  # fmt: skip
    return replace(made, **changed)


def test_the_page_is_that_of_the_results():
    assert page.PAGE.read_text(encoding="utf-8") == page.page(FILES), "write it again: ./run bench suite --page"


def test_every_claim_was_measured_and_everything_measured_is_claimed():
    measured = {one.id for file in FILES for one in file.results}
    assert sorted(CLAIMS.keys() - measured) == [], "measure them: ./run bench suite --missing"
    assert sorted(measured - CLAIMS.keys()) == []


def test_results_are_of_the_claims_as_they_are_now():
    told = {name: (one.task, one.sizes, one.over) for name, one in CLAIMS.items()}
    stale = [one.id for file in FILES for one in file.results if (one.task, one.sizes, one.over) != told[one.id]]
    assert stale == []


def span(machine, pattern):
    """Return how the ratios of some claims on a machine are told."""
    found = [one for file in FILES if file.name == machine for one in file.results if fnmatch(one.id, pattern)]
    least, largest = min(found, key=lambda one: one.ratio), max(found, key=lambda one: one.ratio)
    ends = [
        f"**{page.number(one.ratio)}**" if page.is_loss(one) else page.number(one.ratio) for one in (least, largest)
    ]
    return " to ".join(dict.fromkeys(ends))


@pytest.mark.parametrize(
    ("row", "told"),
    {
        "cvxpy": ["2-cores convex/cvxpy-*"],
        "`dro`": ["2-cores convex/dro-*"],
        "ReHLine": ["2-cores convex/rehline-*", "2-cores convex/quantile-regressor"],
        "`LogisticRegression` (lbfgs)": ["2-cores linear/lbfgs-*-1-1", "2-cores linear/lbfgs-*-0.5-1"],
        "the same on two": ["2-cores linear/lbfgs-*-all", "h200 threads/lbfgs-1", "h200 threads/lbfgs-0.7"],
        "dask-ml": ["2-cores clusters/dask-ml-*"],
        "LightGBM": ["2-cores boosting/*"],
        "on a GPU": ["h200 gpu/cores-0.5-32", "h200 torch/gpu-losses-0.1-topk"],
    }.items(),
)
def test_the_readme_tells_these_ratios(row, told):
    line = next(line for line in README.splitlines() if line.startswith(f"| {row}"))
    assert line.split(" | ")[-1] == "; ".join(span(*each.split()) for each in told) + " |"


@pytest.mark.parametrize(
    ("machine", "pattern", "told"),
    [
        ("2-cores", "wide/lbfgs-*", "(up to {1} times lbfgs)"),
        ("2-cores", "sparse/text-hinge-*", "({0} to {1} times LIBLINEAR)"),
        ("2-cores", "linear/collapse-0.34", "({1} times our own k = n)"),
        ("2-cores", "clusters/in-memory-*", "({0} to {1} times)"),
    ],
)
def test_the_readme_tells_where_we_lose(machine, pattern, told):
    ends = [each.strip("*") for each in span(machine, pattern).split(" to ")]
    assert told.format(ends[0], ends[-1]) in README


def test_every_topic_has_a_section():
    assert {one.topic for one in CLAIMS.values()} == set(page.TOPICS)


def test_what_we_lose_is_bold_and_listed():
    lost = result(id="linear/two", ratios=[1.5, 1.6, 1.7], task="hard task")
    text = page.page([results.Results("small", MACHINE, [result(), lost])])
    assert "| **1.60** | 1.50 to 1.70 |" in text
    assert "| 0.50 | 0.40 to 0.60 |" in text
    assert "1 of 2 comparisons" in text
    assert "over somebody **1.60** (hard task, 10 x 2)" in text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.00176, "1/570"),
        (0.051, "0.051"),
        (0.46, "0.46"),
        (1.004, "1.00"),
        (1.04, "1.04"),
        (5.63, "5.6"),
        (9.97, "10"),
        (123.0, "120"),
    ],
)
def test_ratios_are_told_with_few_digits(ratio, text):
    assert page.number(ratio) == text


@pytest.mark.parametrize(("again", "agrees"), [(0.33, True), (0.74, True), (0.31, False), (0.76, False)])
def test_a_rerun_agrees_within_the_range_widened_by_the_noise(again, agrees):
    assert result().agrees_with(result(ratios=[again])) is agrees


def test_new_results_replace_old_ones_and_no_others(tmp_path):
    first, second = result(), result(id="linear/two")
    file = results.Results("small", MACHINE, [second]).merged(first, ["linear/one", "linear/two"])
    file = file.merged(replace(second, ratios=[9.0]), ["linear/one", "linear/two"])
    file.write(tmp_path)
    assert results.read_all(tmp_path) == [results.Results("small", MACHINE, [first, replace(second, ratios=[9.0])])]


def test_another_run_adds_its_rounds_unless_the_task_has_changed():
    first, second = result(), result(ratios=[0.8, 0.9], seconds=[3.0, 4.0])
    assert second.after(first) == result(ratios=[0.4, 0.5, 0.6, 0.8, 0.9], seconds=[3.0, 4.0])
    assert second.after(replace(first, sizes="20 x 2")) == second


def test_both_sides_of_a_contest_are_timed_in_turns():
    turns = []
    contest = claim.Contest(lambda: turns.append("ours"), lambda: turns.append("theirs"), lambda *_: (1e-7, 2e-7))
    measured = measuring.measure(claim.Claim("linear/one", "task", "sizes", "over", lambda _setting: contest))
    assert turns == ["ours", "theirs", "ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert (len(measured.ratios), measured.excess, measured.threads) == (3, [1e-7, 2e-7], 1)


@pytest.mark.parametrize(
    "name", ["linear/collapse-0.3", "wide/ridge-2000x2000", "sparse/one-hot-100", "kernel/nu-svr-0.3"]
)
def test_claims_run(name):
    measured = measuring.measure(CLAIMS[name], tiny=True)
    assert all(ratio > 0.0 for ratio in measured.ratios)
    assert all(-1e-9 <= excess < 0.1 for excess in measured.excess)
