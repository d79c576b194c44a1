"""What the site promises of the API: every public name has an entry, and every other module is named as internal.

Public is what the packages in `PUBLIC_PACKAGES` list in ``__all__``. The build warns of a name without an entry, and
warnings are errors. All other modules are listed on one page by the directive ``internal-modules``, with the first
sentence of each.
"""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import atklearn

PUBLIC_PACKAGES = (
    "atklearn",
    "atklearn.aggregates",
    "atklearn.boosting",
    "atklearn.dask",
    "atklearn.datasets",
    "atklearn.measures",
    "atklearn.ondisk",
    "atklearn.onnx",
    "atklearn.theory",
    "atklearn.torch",
)
SOURCE = Path(atklearn.__file__).parent
logger = logging.getLogger(__name__)


def public_names() -> list[str]:
    """Return the full names of all that is public."""
    return [f"{package}.{name}" for package in PUBLIC_PACKAGES for name in importlib.import_module(package).__all__]


def warn_of_missing(app: Any, env: Any) -> None:
    """Warn of public names without an entry."""
    described = set(env.get_domain("py").objects)
    for name in public_names():
        if name not in described:
            logger.warning("%s is public and has no entry: add it to a page in docs/api", name, type="public_names")


def leave_out_what_is_not_ours(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool | None:
    """Skip what a class has from other libraries, such as ``set_fit_request``: their documentation has it."""
    if what != "class":
        return None
    function = getattr(member, "fget", member)
    module = getattr(function, "__module__", None) or "atklearn"
    is_made_by_others = name.startswith("set_") and name.endswith("_request")
    return True if is_made_by_others or not str(module).startswith("atklearn") else None


def first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{path.name} has no docstring; its first line is what the page of internals shows")
    return docstring.splitlines()[0]


def plain(text: str) -> str:
    """Return a sentence without roles and backticks, which are for docstrings."""
    return re.sub(r"(?::\w+:)?`+~?([^`]*)`+", r"\1", text)


class InternalModules(SphinxDirective):
    """List the modules that are not public, by folder."""

    def run(self) -> list[nodes.Node]:
        """Make a section's worth of lists."""
        made: list[nodes.Node] = []
        for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
            package = ".".join(("atklearn", *folder.relative_to(SOURCE).parts))
            made.append(nodes.rubric(text=package))
            made.append(nodes.paragraph(text=plain(first_sentence(folder / "__init__.py"))))
            listed = nodes.bullet_list()
            for path in sorted(folder.glob("[!_]*.py")):
                entry = nodes.paragraph()
                entry += nodes.literal(text=path.stem)
                entry += nodes.Text(": " + plain(first_sentence(path)))
                listed += nodes.list_item("", entry)
            made += [listed] if listed.children else []
        return made


def listed_order(name: str) -> int:
    """Sort the gallery as ``GALLERY`` in ``conf.py`` has it, other files of the folder, which are left out, last."""
    conf = ast.parse((Path(__file__).parent.parent / "conf.py").read_text(encoding="utf-8"))
    named = {ast.unparse(node.targets[0]): node.value for node in conf.body if isinstance(node, ast.Assign)}
    listed = ast.literal_eval(named["GALLERY"])
    return listed.index(name) if name in listed else len(listed)


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_directive("internal-modules", InternalModules)
    app.connect("env-check-consistency", warn_of_missing)
    app.connect("autodoc-skip-member", leave_out_what_is_not_ours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
