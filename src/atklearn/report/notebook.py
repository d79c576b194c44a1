"""A report in a notebook: its answer, its first tables and its pictures, as a piece of HTML without scripts."""

from __future__ import annotations

import base64
from collections.abc import Collection

from jinja2 import Environment, PackageLoader, StrictUndefined

from atklearn.report.content import Page, Table
from atklearn.report.pictures import pictures_of, png_of
from atklearn.report.style import OUTCOMES, emphasis_key, numeric_columns

__all__ = ["render_fragment"]


def render_fragment(page: Page, sections: Collection[str] = ("data", "answer")) -> str:
    """Return a page as HTML that stands in another page.

    Parameters
    ----------
    page : Page
    sections : collection of str, default=("data", "answer")
        The names of those whose paragraphs and tables are shown.

    Returns
    -------
    html : str
        Pictures are part of it; it runs nothing and asks the network for nothing.
    """
    templates = Environment(
        loader=PackageLoader("atklearn.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    templates.globals.update(numeric_columns=numeric_columns, emphasis_key=emphasis_key)
    shown = [
        (section.title, [block for block in section.blocks if isinstance(block, str | Table)])
        for section in page.sections
        if section.name in sections
    ]
    pictures = [(block, base64.b64encode(png_of(block)).decode()) for block in pictures_of(page)]
    html = templates.get_template("notebook.html").render(
        page=page, symbol=OUTCOMES[page.outcome], sections=shown, pictures=pictures
    )
    return html.encode("utf-8", errors="replace").decode()
