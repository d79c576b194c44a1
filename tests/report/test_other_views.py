"""The pictures, the terminal and Markdown show a report, whatever the names in it."""

from __future__ import annotations

import re
from io import StringIO
from xml.etree import ElementTree

import pytest
from pages import HOSTILE, curve, paper, some_page
from PIL import Image
from rich.console import Console

from atklearn.report.content import Cell, Table
from atklearn.report.markdown import escape, render_markdown, write_markdown
from atklearn.report.pictures import write_figures
from atklearn.report.style import plain
from atklearn.report.terminal import print_page


@pytest.mark.parametrize("names", [(), HOSTILE, ("日本\x00語", "caf\udce9")], ids=["tame", "hostile", "odd letters"])
def test_picture_files(names, tmp_path):
    paths = write_figures(some_page(names), tmp_path / "pictures")
    stems = ["error", "explored", "explored-plane", "time", "plane"]
    assert [path.name for path in paths] == [f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")]
    for path in paths:
        if path.suffix == ".svg":
            root = ElementTree.parse(path).getroot()
            assert root.tag.endswith("svg")
            assert not [element for element in root.iter() if element.tag.endswith(("script", "}a"))]
        else:
            with Image.open(path) as image:
                assert image.width > 700


def test_picture_files_stay_in_their_folder(tmp_path):
    with pytest.raises(ValueError, match="letters, digits and hyphens"):
        write_figures(paper(curve(name="../elsewhere")), tmp_path)


def printed(page, width=80, **options):
    console = Console(file=StringIO(), width=width, **options)
    print_page(page, console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("names", [(), HOSTILE, ("x" * 500,)], ids=["tame", "hostile", "endless"])
def test_terminal_keeps_to_its_width(names, width):
    assert max(map(len, printed(some_page(names), width).splitlines())) <= width


def test_terminal_shows_hostile_names_as_text():
    text = printed(some_page(HOSTILE), width=600)
    assert not [name for name in HOSTILE[:6] if " ".join(name.split()) not in text]
    assert "\x1b" not in printed(some_page(["\x1b[2Jgone"]), force_terminal=False)


def test_terminal_folds_no_number():
    rows = [line for line in printed(some_page()).splitlines() if line.startswith("German")]
    assert len(rows) == 2  # the table is printed in two parts
    assert sum(len(re.findall(r"\d+\.\d\d ± 0\.\d+", row)) for row in rows) == 8


def test_terminal_leaves_out_what_it_cannot_show():
    text = printed(some_page())
    assert "AT_k helps on error. The error falls" in text
    assert "16.9†" in text
    assert "Error against k" not in text
    assert "Move k yourself" in text


def test_terminal_emphasis():
    rows = [[Cell("x"), Cell("1", "best"), Cell("2", "close"), Cell("3", "optimistic"), Cell("4", "miss")]]
    text = printed(paper(Table("t", "T", list("abcde"), rows)), force_terminal=True, color_system="standard")
    assert "\x1b[1m1\x1b[0m" in text
    assert "\x1b[4m2\x1b[0m" in text
    assert "\x1b[2;3m3\x1b[0m" in text
    assert "4†" in text


@pytest.mark.parametrize("styled", [True, False])
def test_terminal_names_no_style_that_is_not_there(styled):
    """Letters in a file or a pipe cannot be bold: a mark stands behind the best, and the key says so."""
    rows = [[Cell("x"), Cell("1", "best"), Cell("", "close"), Cell("3", "optimistic")]]
    page = paper(Table("t", "T", list("abcd"), rows, "A note."))
    text = printed(page, force_terminal=styled, color_system="standard" if styled else None)
    assert ("Bold: the best." in text) == styled
    assert ("1*" in text and "*: the best." in text) != styled
    assert "not significantly different" not in text, "an empty cell shows nothing"
    none = printed(paper(Table("t", "T", ["a"], [[Cell("x")]], "A note.")), force_terminal=styled)
    assert "the best" not in none


def test_terminal_cuts_no_number_off():
    """Headers of several words may not crowd the last column out."""
    columns = ["method", "balanced error %", "error %", "worst-class error %", "G-mean %", "ROC AUC %",
               "average precision %", "log loss"]  # fmt: skip
    rows = [[Cell("average, squared hinge, balanced"), *(Cell(f"{i}7.{i}8{i}") for i in range(1, 8))]] * 2
    for width in (50, 64, 72, 80, 81, 90, 120):
        text = printed(paper(Table("t", "T", columns, rows)), width)
        assert max(map(len, text.splitlines())) <= width
        assert all(text.count(f"{i}7.{i}8{i}") == 2 for i in range(1, 8))


def test_plain_text_steers_no_display():
    assert plain("a\x1b[2J\u202eb\r\nc") == "a�[2J�b c"


def test_markdown_has_every_block_and_its_pictures(tmp_path):
    page = some_page()
    write_markdown(page, tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    for section in page.sections:
        assert f"## {escape(section.title)}" in text
    pictures = re.findall(r"(?:\]\(|src=\")(report/[^)\"]+)", text)
    assert len(pictures) == 5
    assert all((tmp_path / picture).is_file() for picture in pictures)
    assert {path.suffix for path in (tmp_path / "report").iterdir()} == {".png"}


def test_markdown_shows_hostile_names_as_text():
    text = render_markdown(some_page(HOSTILE), "pictures")
    own = re.compile(r'</?u>|<img src="pictures/[a-z0-9-]+\.png" alt="[^"<>]*" width="48%">')
    assert not re.search(r"(?<!\\)[<>]", own.sub("", text)), "every other bracket is escaped"
    widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| ")}
    assert all(width >= 3 for width in widths)
