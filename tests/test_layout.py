"""How the source is laid out: what a folder is for, and what is private stays in its module."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import atklearn

SOURCE = Path(atklearn.__file__).parent
TESTS = Path(__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
MOST_AT_THE_TOP = 10
# Names that others mean to be used, for all their underscore: of scikit-learn's estimators, of named tuples, of os.
OPEN_NAMES = {"_parameter_constraints", "_init_callback_context", "_replace", "_asdict", "_fields", "_exit"}


def name_of(path):
    return str(path.relative_to(SOURCE.parent if path.is_relative_to(SOURCE) else TESTS))


def is_private(name):
    return name.startswith("_") and not name.endswith("__")


def private_names_made_in(tree):
    """Return the private names that a module defines: functions, classes, variables, attributes, fields."""
    made = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and belongs_to_itself(node):
            made.add(node.attr)
    return {name for name in made if is_private(name)}


def belongs_to_itself(node):
    """Whether an attribute is one of ``self``, ``cls`` or ``super()``."""
    owner = node.value
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name):
        return owner.func.id == "super"
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def foreign_private_uses(source):
    """Return ``line: name`` of every private name that a module takes from another one of ours, or from an object."""
    tree = ast.parse(source)
    made = private_names_made_in(tree)
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "atklearn":
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            found += [f"{node.lineno}: {part}" for part in parts if is_private(part)]
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and not belongs_to_itself(node):
            found += [f"{node.lineno}: {ast.unparse(node)}"] if node.attr not in made | OPEN_NAMES else []
    return found


def test_no_folder_of_tests_can_be_taken_for_a_package_that_is_missing():
    """`tests` is on the path, and there Python finds a folder by the name of a package that nobody has installed."""
    extras = tomllib.loads((TESTS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = extras["optional-dependencies"]
    missing = {re.match(r"[\w-]+", each)[0] for extra in ("docs", "torch", "torch-dev") for each in extras[extra]}
    assert "torch" in missing
    assert missing.isdisjoint(path.name for path in TESTS.iterdir())


def test_few_modules_are_at_the_top():
    assert len(list(SOURCE.glob("*.py"))) <= MOST_AT_THE_TOP


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES}), ids=name_of)
def test_folders_say_what_they_are_for(folder):
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_is_private_stays_in_its_module(path):
    assert foreign_private_uses(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from atklearn.losses.individual import _SMALL", ["1: _SMALL"]),
        ("from atklearn.encoding import encoded\nencoded._T", ["2: encoded._T"]),
        ("def f(model):\n    return model._problems(1)", ["2: model._problems"]),
        ("from sklearn.base import _fit_context\nfrom sklearn.utils._param_validation import Interval", []),
        (
            "class A:\n    def f(self, other):\n        self._x = 1\n        return other._x + super()._y() + self._z",
            [],
        ),
        ("import os\nos._exit(1)", []),
    ],
)
def test_private_uses_are_seen(source, found):
    assert foreign_private_uses(source) == found
