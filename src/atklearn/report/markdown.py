"""A report as Markdown, with its figures beside it: for documentation and code reviews."""

from __future__ import annotations

import html
import re
from pathlib import Path

from atklearn.report.content import Block, Cell, Chart, Explorer, Page, Plane, Table
from atklearn.report.pictures import write_figures
from atklearn.report.style import emphasis_key, numeric_columns, plain
from atklearn.runtime.files import write_whole

__all__ = ["render_markdown", "write_markdown"]

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$&])")
MARKS = {"": "{}", "best": "**{}**", "close": "<u>{}</u>", "optimistic": "*{}*", "miss": "{}†"}


def render_markdown(page: Page, figures: str) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    page : Page
    figures : str
        The folder of the pictures, as seen from the file.

    Returns
    -------
    text : str
    """
    parts = [f"# {escape(page.title)}", f"**{escape(page.verdict)}.** {escape(page.headline)}"]
    parts += [f"**Look at this first.** {escape(warning)}" for warning in page.warnings]
    for section in page.sections:
        parts.append(f"## {escape(section.title)}")
        parts += [_block(block, figures) for block in section.blocks]
    parts.append("## How it was run")
    parts.append("\n".join(f"- {escape(name)}: {escape(value)}" for name, value in page.provenance))
    return "\n\n".join(parts) + "\n"


def write_markdown(page: Page, path: Path) -> None:
    """Write the page to a file and its pictures to a folder of the same name, without the suffix.

    Parameters
    ----------
    page : Page
    path : Path
    """
    folder = path.with_suffix("")
    for picture in write_figures(page, folder):
        if picture.suffix != ".png":
            picture.unlink()
    write_whole(path, render_markdown(page, folder.name).encode("utf-8", errors="replace"))


def escape(text: str) -> str:
    r"""Return plain text such that Markdown shows it as it is.

    Examples
    --------
    >>> print(escape("AT_k <b>|"))
    AT\_k \<b\>\|
    """
    return SPECIAL.sub(r"\\\1", plain(text))


def _block(block: Block, figures: str) -> str:
    match block:
        case str():
            return escape(block)
        case Table():
            return _table(block)
        case Chart() | Plane():
            return f"![{escape(block.title)}]({figures}/{block.name}.png)"
        case Explorer():
            shown: list[Chart | Plane] = [block.chart] if block.plane is None else [block.plane, block.chart]
            # side by side: two to a line
            return " ".join(
                f'<img src="{figures}/{picture.name}.png" alt="{html.escape(plain(picture.title))}" width="48%">'
                for picture in shown
            )


def _table(table: Table) -> str:
    rules = ["---:" if numeric else "---" for numeric in numeric_columns(table)]
    rows = [[escape(title) for title in table.columns], rules, *([_cell(cell) for cell in row] for row in table.rows)]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    note = " ".join([escape(table.note), *emphasis_key(table)]).strip()
    return "\n".join([f"**{escape(table.title)}**", "", *lines, *(["", note] if note else [])])


def _cell(cell: Cell) -> str:
    return MARKS[cell.emphasis].format(escape(cell.text)) if cell.text else ""
