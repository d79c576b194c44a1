"""A report as one HTML file that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from atklearn.report.content import Block, Chart, Explorer, Page, Plane, Section, Table
from atklearn.report.numbers import chart_numbers, explorer_numbers, plane_numbers
from atklearn.report.plotting import chart_figure, explorer_figures, plane_figure
from atklearn.report.style import OUTCOMES, column_classes, emphasis_key
from atklearn.runtime.files import write_whole

__all__ = ["render_page", "write_page"]


@dataclass(frozen=True)
class _Picture:
    """A chart or a plane, ready for the template."""

    block: Chart | Plane
    figure: dict[str, Any]
    numbers: list[Table]


@dataclass(frozen=True)
class _Part:
    """A block, ready for the template, which asks for its kind."""

    kind: str
    block: Any
    pictures: list[_Picture] = field(default_factory=list)
    motion: dict[str, Any] | None = None


def render_page(page: Page) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    page : Page

    Returns
    -------
    html : str
        Style, scripts, data and, if there is a chart, plotly.js are part of it. Its policy forbids the browser to load
        anything else and to run any script but these.
    """
    loader = PackageLoader("atklearn.report")
    templates = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False}
    templates.globals.update(column_classes=column_classes, emphasis_key=emphasis_key)
    sections = [(section, _parts(section)) for section in page.sections]
    drawn = any(part.pictures for _, parts in sections for part in parts)
    scripts = [get_plotlyjs(), _source(templates, "page.js")] if drawn else []
    return templates.get_template("page.html").render(
        page=page,
        symbol=OUTCOMES[page.outcome],
        sections=sections,
        style=Markup(_source(templates, "page.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=" ".join(f"'{_digest(script)}'" for script in scripts) or "'none'",
    )


def write_page(page: Page, path: str | os.PathLike[str]) -> None:
    """Write the page to a file, all of it or nothing.

    Parameters
    ----------
    page : Page
    path : path
        Its folder is made if it does not exist.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name read from a file in the wrong encoding may hold what UTF-8 cannot.
    write_whole(path, render_page(page).encode("utf-8", errors="replace"))


def _parts(section: Section) -> list[_Part]:
    return [_part(block) for block in section.blocks]


def _part(block: Block) -> _Part:
    match block:
        case str():
            return _Part("paragraph", block)
        case Table():
            return _Part("table", block)
        case Chart():
            return _Part("picture", block, [_Picture(block, chart_figure(block), chart_numbers(block))])
        case Plane():
            return _Part("picture", block, [_Picture(block, plane_figure(block), plane_numbers(block))])
        case Explorer():
            chart, plane, motion = explorer_figures(block)
            pictures = [_Picture(block.chart, chart, chart_numbers(block.chart) + explorer_numbers(block))]
            if block.plane is not None and plane is not None:
                pictures.append(_Picture(block.plane, plane, plane_numbers(block.plane)))
            return _Part("explorer", block, pictures, motion)


def _source(templates: Environment, name: str) -> str:
    """Return a file that is shipped with the templates but is not one."""
    assert templates.loader is not None
    return templates.loader.get_source(templates, name)[0]


def _digest(script: str) -> str:
    """Return the name under which the policy allows a script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
