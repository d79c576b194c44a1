"""The examples of the gallery are stories in reStructuredText that use public names, fixed seeds and a picture.

Whether they run is for the build of the docs to say, which stops at the first one that does not.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import atklearn

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("plot_*.py"))
SOURCE = Path(atklearn.__file__).parent
SEEDED_BY_NAME = {"train_test_split", "make_deliveries", "SGDATkClassifier", "SGDATkRegressor"}  # take random_state


def name_of(path):
    return path.stem


def problems_of(source):
    """Return what an example lacks, in words."""
    tree = ast.parse(source)
    found = []
    title, line, empty, *text = (ast.get_docstring(tree) or "").splitlines() + [""] * 4
    if not (title and set(line) == {"="} and len(line) == len(title) and not empty and any(text)):
        found.append("a title, underlined at its length, and a text below it")
    found += [f"public names only: {name}" for name in foreign_names(tree)]
    found += ["blocks of prose"] if len(re.findall(r"^# %%\n# \S", source, re.MULTILINE)) < 3 else []
    found += ["a picture"] if "plt.show()" not in source else []
    found += [f"a seed for {name}" for name in unseeded_calls(tree)]
    return found


def unseeded_calls(tree):
    """Return the calls that would come out otherwise the next time."""
    calls = [(ast.unparse(node.func), node) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    has_manual_seed = any(name == "torch.manual_seed" for name, _ in calls)
    for name, call in calls:
        given = {keyword.arg for keyword in call.keywords}
        if name.endswith("default_rng"):
            seeded = bool(call.args)
        elif name.startswith("torch.rand"):
            seeded = has_manual_seed or "generator" in given
        else:
            seeded = name not in SEEDED_BY_NAME or "random_state" in given
        if not seeded:
            yield name


def foreign_names(tree):
    """Return what an example takes from the library that neither it nor one of its folders publishes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "atklearn":
            published = published_by(node.module)
            yield from (f"{node.module}.{alias.name}" for alias in node.names if alias.name not in published)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("atklearn."))


def published_by(module):
    """Return ``__all__`` of a folder, read and not imported: PyTorch may be missing; none of a module's."""
    path = SOURCE.joinpath(*module.split(".")[1:], "__init__.py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_examples_lack_nothing(path):
    assert problems_of(path.read_text(encoding="utf-8")) == []


def test_the_gallery_has_its_examples_and_an_introduction():
    assert len(EXAMPLES) == 9
    title, line, *_ = (FOLDER / "GALLERY_HEADER.rst").read_text(encoding="utf-8").splitlines()
    assert line == "=" * len(title)


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_colours_mean_the_same_everywhere(path):
    source = path.read_text(encoding="utf-8")
    names, values = re.search(r"^(AVERAGE, .*) = (\"#.*)$", source, re.MULTILINE).groups()
    expected = {"AVERAGE": "#B5568F", "ATK": "#009E73", "OTHER": "#0072B2", "ANOTHER": "#C98A00"}
    colours = dict(zip(names.split(", "), re.findall(r"#\w+", values), strict=True))
    assert len(re.findall(r"#[0-9A-F]{6}", source)) == len(colours)  # no others
    assert colours.items() <= expected.items()


GOOD = '"""\nTitle\n=====\n\nText.\n"""\n' + "# %%\n# Prose.\n" * 3 + "plt.show()\n"


@pytest.mark.parametrize(
    ("source", "lacking"),
    [
        (GOOD, []),
        (GOOD.replace("=====", "==="), ["a title, underlined at its length, and a text below it"]),
        (GOOD.replace("Text.", ""), ["a title, underlined at its length, and a text below it"]),
        (GOOD.replace("plt.show()", ""), ["a picture"]),
        (GOOD.replace("# %%\n# Prose.\n", "", 1), ["blocks of prose"]),
        (GOOD + "from atklearn import ATkClassifier\nfrom atklearn.measures import MEASURES\n", []),
        (
            GOOD + "from atklearn.estimators.linear import ATkClassifier\n",
            ["public names only: atklearn.estimators.linear.ATkClassifier"],
        ),
        (GOOD + "from atklearn import comparing\n", ["public names only: atklearn.comparing"]),
        (GOOD + "import atklearn.losses.aggregate\n", ["public names only: atklearn.losses.aggregate"]),
        (GOOD + "rng = np.random.default_rng()\n", ["a seed for np.random.default_rng"]),
        (GOOD + "torch.randn(3)\n", ["a seed for torch.randn"]),
        (GOOD + "torch.manual_seed(0)\ntorch.randn(3)\ntorch.rand(3)\n", []),
        (GOOD + "table = make_deliveries(800)\n", ["a seed for make_deliveries"]),
        (GOOD + "model = SGDATkClassifier(k=0.2)\n", ["a seed for SGDATkClassifier"]),
    ],
)
def test_what_is_lacking_is_seen(source, lacking):
    assert problems_of(source) == lacking
