"""A report in the terminal: its headline, its tables and what is said around them."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from atklearn.report.content import Cell, Page, Table
from atklearn.report.style import MARKED, STYLED, emphasis_key, numeric_columns, plain

__all__ = ["print_headline", "print_page", "print_table", "tell"]

STYLES = {"": "", "best": "bold", "close": "underline", "optimistic": "italic dim", "miss": ""}
COLOURS = {"helps": "bold green", "hurts": "bold red", "same": "bold", "undecided": "bold", "summary": "bold"}
LONGEST_WORD = 12  # of a header or a name that is not folded
GAP = 2  # between columns


def print_page(page: Page, console: Console) -> None:
    """Print the headline, the paragraphs and the tables of a page; charts are left to the other views.

    Parameters
    ----------
    page : Page
    console : rich.console.Console
    """
    console.print(Text(plain(page.title), style="bold"))
    print_headline(page, console)
    for section in page.sections:
        blocks = [block for block in section.blocks if isinstance(block, str | Table)]
        if blocks:
            console.print()
            console.rule(Text(plain(section.title), style="bold"), align="left", characters="-")
        for block in blocks:
            console.print()
            if isinstance(block, str):
                console.print(Text(plain(block)))
            else:
                print_table(block, console)


def print_headline(page: Page, console: Console) -> None:
    """Print the answer alone, and what to look at before it is believed.

    Parameters
    ----------
    page : Page
    console : rich.console.Console
    """
    verdict = Text(plain(page.verdict), style=COLOURS[page.outcome])
    console.print(Text.assemble(verdict, ". ", plain(page.headline)))
    for warning in page.warnings:
        console.print(Text.assemble(("Look at this first.", "bold"), " ", plain(warning)))


def tell(sentence: str) -> None:
    """Print a sentence to the standard error."""
    Console(stderr=True, force_jupyter=False).print(Text(" ".join(sentence.split())), soft_wrap=True)


def print_table(table: Table, console: Console) -> None:
    """Print a table, one that is too wide in parts that all begin with the names of the rows."""
    console.print(Text(plain(table.title), style="bold"))
    styled = console.color_system is not None  # else bold letters would be as all others, in a file or a pipe
    numeric, widths = numeric_columns(table), _widths(table, styled)
    for columns in _parts(widths, console.width):
        part = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
        whole = [_whole_width(table, i, styled) for i in columns]
        shown = _shown_widths(whole, [widths[i] - GAP for i in columns[1:]], console.width)
        for i, width in zip(columns, shown, strict=True):
            part.add_column(
                Text(plain(table.columns[i])),
                justify="right" if numeric[i] else "left",
                vertical="bottom" if i else "top",
                overflow="fold",
                width=width,
            )
        for row in table.rows:
            part.add_row(*(_text(row[i], styled) for i in columns))
        console.print(part)
        console.print()
    note = " ".join([plain(table.note), *emphasis_key(table, STYLED if styled else MARKED)]).strip()
    if note:
        console.print(Text(note, style="dim"))


def _text(cell: Cell, styled: bool) -> Text:
    mark = MARKED[cell.emphasis] if cell.text and (cell.emphasis == "miss" or not styled) else ""
    return Text(plain(cell.text) + mark, style=STYLES[cell.emphasis])


def _widths(table: Table, styled: bool) -> list[int]:
    """Return the room that each column asks for, the gap behind it included."""
    numeric = numeric_columns(table)
    widths = []
    for i, title in enumerate(table.columns):
        cells = [_text(row[i], styled).cell_len for row in table.rows]
        longest = max(cells, default=0) if numeric[i] else min(max(cells, default=0), 2 * LONGEST_WORD)
        head = min(max((Text(word).cell_len for word in plain(title).split()), default=0), LONGEST_WORD)
        widths.append(max(longest, head) + GAP)
    return widths


def _whole_width(table: Table, column: int, styled: bool) -> int:
    """Return the room that a column needs to fold nothing."""
    return max(
        [Text(plain(table.columns[column])).cell_len, *(_text(row[column], styled).cell_len for row in table.rows)]
    )


def _shown_widths(whole: list[int], others: list[int], width: int) -> list[int]:
    """Return the widths of the columns of a part: whole if there is room, else the names of the rows give way first."""
    if sum(GAP + one for one in whole) <= width + GAP:
        return whole
    room = width - sum(GAP + other for other in others)
    first = min(whole[0], max(room, LONGEST_WORD))
    return [first, *(min(other, max(1, width - first - GAP)) for other in others)]


def _parts(widths: list[int], width: int) -> list[list[int]]:
    """Return the columns of each part: as many as there is room for, the first one always."""
    parts = [[0]]
    used = widths[0]
    for i in range(1, len(widths)):
        if used + widths[i] > width + GAP and len(parts[-1]) > 1:
            parts.append([0])
            used = widths[0]
        parts[-1].append(i)
        used += widths[i]
    return parts
