"""Every public name is documented: what goes in, what comes out, what a fit leaves, and an example that runs.

Public is what ``__all__`` of a package lists. The examples run as doctests, with all others.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpydoc.docscrape import NumpyDocString

import atklearn
import atklearn.boosting
import atklearn.dask
import atklearn.ondisk

SOURCE = Path(atklearn.__file__).parent
PAGES = Path(__file__).parents[2] / "docs" / "api"
# What is not everybody's to install, with what it needs.
OPTIONAL = {"atklearn.torch": "torch", "atklearn.onnx": "skl2onnx"}


def public_packages():
    """Return the names of the packages that list what is public."""
    files = [path for path in sorted(SOURCE.rglob("__init__.py")) if "\n__all__ = " in path.read_text()]
    names = [".".join(path.parent.relative_to(SOURCE.parent).parts) for path in files]
    return [name for name in names if name not in OPTIONAL or find_spec(OPTIONAL[name])]


PUBLIC = {f"{package}.{name}": getattr(import_module(package), name)
          for package in public_packages() for name in import_module(package).__all__}  # fmt: skip
DOCUMENTED = {name: each for name, each in PUBLIC.items() if inspect.isclass(each) or inspect.isfunction(each)}
# Dictionaries and scorers: objects without a docstring of their own.
CONSTANTS = sorted(set(PUBLIC) - set(DOCUMENTED))


def is_ours(member):
    return (inspect.unwrap(member).__module__ or "").startswith("atklearn")


def public_members(cls):
    """Yield the methods and properties of a class that this library defines, by name."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        if name.startswith("_") or name in getattr(cls, "__annotations__", {}):
            continue
        if isinstance(member, property) or hasattr(member, "attrname"):  # the latter is a cached property
            function = member.fget if isinstance(member, property) else member.func
            if is_ours(function):
                yield name, function, True
        elif callable(getattr(cls, name, None)) or hasattr(member, "check"):  # the latter is available for some losses
            function = getattr(member, "fn", getattr(member, "__func__", member))
            if inspect.isfunction(function) and is_ours(function):
                yield name, function, False


METHODS, PROPERTIES = {}, {}
for owner, each in DOCUMENTED.items():
    if inspect.isclass(each):
        for member_name, function, is_property in public_members(each):
            (PROPERTIES if is_property else METHODS)[f"{owner}.{member_name}"] = (each, member_name, function)


def test_there_is_something_to_test():
    assert len(DOCUMENTED) > 80
    assert len(METHODS) > 90
    assert len(PROPERTIES) > 30
    assert {"atklearn.ATkClassifier.fit", "atklearn.ATkClassifier.predict_proba"} <= set(METHODS)
    assert {"atklearn.ATkSVC.coef_", "atklearn.aggregates.AverageTopK.is_convex"} <= set(PROPERTIES)


def docstring(text):
    assert text, "there is no docstring"
    return NumpyDocString(inspect.cleandoc(text))


def inherited(cls, name):
    """Return the docstring of a member, that of a base class where it has none of its own."""
    documented = (vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return next((member.__doc__ for member in documented if member.__doc__), None)


def names_in(section):
    """Return the names that a section of a docstring is about; one entry may be about several."""
    return [name.strip() for entry in section for name in entry.name.split(",")]


def parameters_of(function):
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    listed = inspect.signature(function).parameters.values()
    return [stars.get(each.kind, "") + each.name for each in listed if each.name not in ("self", "cls")]


def check_summary(doc):
    summary = doc["Summary"]
    assert len(summary) == 1, f"the summary is expected on one line, got {summary}"
    assert re.match(r"[A-Z`]", summary[0]), f"a sentence is expected to begin with a capital, got {summary[0]!r}"
    assert summary[0].endswith("."), f"a sentence is expected to end with a full stop, got {summary[0]!r}"


def returns_nothing(function):
    return inspect.signature(function).return_annotation in ("None", None)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_name_has_a_summary_and_an_example(name):
    doc = docstring(DOCUMENTED[name].__doc__)
    check_summary(doc)
    example = "\n".join(doc["Examples"])
    assert ">>>" in example
    assert name.rpartition(".")[2] in example or inspect.isclass(DOCUMENTED[name]), (
        "the example is about something else"
    )


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_parameters_of_a_name_are_those_of_its_signature(name):
    public = DOCUMENTED[name]
    doc = docstring(public.__doc__)
    if not inspect.isclass(public):
        assert names_in(doc["Parameters"]) == parameters_of(public)
    elif public.__init__ is not object.__init__ and not issubclass(public, Exception):
        # what users are handed, and do not make, says what it holds
        documented = names_in(doc["Parameters"]) or names_in(doc["Attributes"])
        assert documented == parameters_of(public)


@pytest.mark.parametrize("name", [name for name, each in DOCUMENTED.items() if inspect.isfunction(each)])
def test_a_function_says_what_it_returns(name):
    assert docstring(DOCUMENTED[name].__doc__)["Returns"] or returns_nothing(DOCUMENTED[name])


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_what_it_takes_and_returns(name):
    cls, member, function = METHODS[name]
    doc = docstring(inherited(cls, member))
    check_summary(doc)
    assert names_in(doc["Parameters"]) == parameters_of(function)
    assert doc["Returns"] or returns_nothing(function)


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_says_what_it_is(name):
    _, _, function = PROPERTIES[name]
    check_summary(docstring(function.__doc__))


def doctests_of_pages():
    """Return the examples that the pages of the API show, as the text within their fences."""
    fence = re.compile(r"^(`{3,}|:{3,})\{?(?:doctest|testcode|pycon)\}?[^\n]*\n(.*?)^\1\s*$", re.MULTILINE | re.DOTALL)
    return "\n".join(
        found.group(2) for page in sorted(PAGES.glob("*.md")) for found in fence.finditer(page.read_text())
    )


@pytest.mark.parametrize("name", CONSTANTS)
def test_a_constant_is_shown_in_an_example_of_the_api_pages(name):
    lines = [line for line in doctests_of_pages().splitlines() if line.startswith((">>>", "..."))]
    used = [line for line in lines if re.search(rf"\b{name.rpartition('.')[2]}\b", line) and " import " not in line]
    assert used, f"{name} has no docstring: show it in a doctest of docs/api"


# --- what fits leave


def rows(n=120):
    """Return a table with names, and a target that follows from it, with some noise."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((n, 2)), columns=["first", "second"])
    return X, X["first"] + 0.5 * rng.standard_normal(n)


SMALL = {"ks": [0.5, 1.0], "Cs": [1.0], "cv": 2}
FITTED = {
    "atklearn.ATkClassifier": {},
    "atklearn.ATkRegressor": {},
    "atklearn.ATkClassifierCV": SMALL,
    "atklearn.ATkRegressorCV": SMALL,
    "atklearn.ATkSVC": {"kernel": "linear"},
    "atklearn.ATkSVR": {"kernel": "linear"},
    "atklearn.SGDATkClassifier": {"tol": None},
    "atklearn.SGDATkRegressor": {"tol": None},
    "atklearn.boosting.ATkBoostingClassifier": {"tail": 0.2, "n_estimators": 2},
    "atklearn.boosting.ATkBoostingRegressor": {"tail": 0.2, "n_estimators": 2},
    "atklearn.correction.TailCorrectedClassifier": {},
    "atklearn.correction.TailCorrectedRegressor": {},
}


def fitted(name):
    X, y = rows()
    y = y > 0.0 if "Classifier" in name or name.endswith("SVC") else y
    if PUBLIC[name].__module__ in ("atklearn.estimators.linear", "atklearn.estimators.search"):  # n_passes_ as well
        X, y = dd.from_pandas(X, npartitions=2), dd.from_pandas(y, npartitions=2)
    return PUBLIC[name](**FITTED[name]).fit(X, y)


def test_every_estimator_is_fitted():
    estimators = {name for name, each in DOCUMENTED.items() if inspect.isclass(each) and hasattr(each, "get_params")}
    assert estimators == set(FITTED)


@pytest.mark.parametrize("name", FITTED)
def test_what_a_fit_leaves_is_documented_and_what_is_documented_is_there(name):
    model = fitted(name)
    left = {each for each in vars(model) if each.endswith("_") and not each.startswith("_")}
    properties = {each for each in dir(type(model)) if each.endswith("_") and not each.startswith("_")}
    documented = names_in(docstring(type(model).__doc__)["Attributes"])
    assert len(documented) == len(set(documented)), "an attribute is documented twice"
    assert left | properties == set(documented)


# --- modules


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_says_in_its_first_line_what_it_is(path):
    text = ast.get_docstring(ast.parse(path.read_text()))
    first, *rest = (text or "").splitlines()
    assert re.fullmatch(r"[A-Z`].*[.?]", first), f"a sentence is expected, got {first!r}"
    assert not rest or not rest[0], "the first sentence is expected to end with its line"


@pytest.mark.parametrize("name", ["ATkClassifier", "ATkRegressorCV", "ATkSVC", "SGDATkRegressor"])
def test_texts_of_several_estimators_are_set_like_their_own(name):
    lines = [line for line in getattr(atklearn, name).__doc__.splitlines() if not line.startswith((">>>", "..."))]
    assert all(len(line) <= 120 and not re.search(r"\S {3,}\S", line) for line in lines)
    assert not any(line.startswith(" " * 5) for line in lines)
