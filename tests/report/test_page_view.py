"""The page shows a report, whatever the names in it."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import plotly.graph_objects as go
import pytest
from numpy.testing import assert_allclose
from pages import HOSTILE, curve, explorer, lone_plane, paper, some_page

from atklearn.report.content import Cell, Explorer, Line, Plane, Points, Series, Step, Table
from atklearn.report.geometry import Window, half_plane, segment, window_of
from atklearn.report.numbers import chart_numbers, plane_numbers
from atklearn.report.page import render_page, write_page
from atklearn.report.plotting import chart_figure, explorer_figures, label, plane_figure
from atklearn.report.style import line_styles, numeric_columns, place_marks

VOID = {"meta", "link", "input", "br", "img", "hr"}


class Reader(HTMLParser):
    """Reads a page as a browser would: elements with their attributes, and text by the element it is in."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def data(self):
        """Return what the page embeds as JSON."""
        return [json.loads(text) for tag, text in self.texts if tag == "script" and text.startswith("{")]


def every_text(thing):
    """Yield every string in a structure."""
    if isinstance(thing, str):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from every_text(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from every_text(value)


@pytest.fixture(scope="module")
def hostile():
    return Reader(render_page(some_page(HOSTILE)))


def test_hostile_names_open_no_element(hostile):
    """The elements are those of the same page with tame names."""
    tame = Reader(render_page(some_page([f"name {i}" for i in range(len(HOSTILE))])))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in tame.elements]
    assert not hostile.open
    assert not [name for _, attributes in hostile.elements for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_they_are(name):
    reader = Reader(render_page(some_page([name])))
    shown = {text.strip() for _, text in reader.texts}
    places = [tag for tag, text in reader.texts if text.strip() == name]
    assert {"title", "h1", "p", "span", "th", "h2", "h3", "label", "output", "dd", "dt"} <= set(places), shown


def test_charts_get_names_without_markup(hostile):
    """Plotly reads <b>, <a> and the like in its texts."""
    figures = [figure for figure in hostile.data() if "layout" in figure]
    assert len(figures) == 5
    assert not [text for figure in figures for text in every_text(figure) if "<" in text or ">" in text]
    assert figures[0]["layout"]["xaxis"]["title"]["text"] == label(HOSTILE[1])


def test_embedded_data_cannot_end_its_script():
    html = render_page(some_page(["</script>\u2028<!--&"]))
    for source in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, flags=re.DOTALL):
        assert not re.search("[<>&\u2028\u2029]", source)
        json.loads(source)


def test_nothing_is_fetched(hostile):
    for tag, attributes in hostile.elements:
        assert not {"src", "srcset", "action", "data", "poster"} & set(attributes), tag
        assert (attributes.get("href") or "#").startswith(("#", "data:"))
    style = next(text for tag, text in hostile.texts if tag == "style")
    assert "url(" not in style
    assert "@import" not in style
    policy = hostile.of("meta")[1]["content"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.split(";")[1]


def test_plotly_comes_once_and_only_with_charts():
    mark = "plotly.js v"
    assert render_page(some_page()).count(mark) == 1
    page = paper("A paragraph.", outcome="hurts")
    html = render_page(page)
    assert len(html) < 20_000
    assert not Reader(html).of("script")


@pytest.mark.parametrize("outcome", ["helps", "hurts", "same", "undecided", "summary"])
def test_the_outcome_is_said_in_words(outcome):
    html = render_page(some_page(outcome=outcome))
    assert "AT_k helps on error</p>" in html
    assert f'class="banner {outcome}"' in html


def test_contents_only_where_they_help():
    assert len(Reader(render_page(some_page())).of("nav")) == 1
    assert not Reader(render_page(paper("Short."))).of("nav")


def test_ids_are_unique_and_references_exist(hostile):
    ids = [attributes["id"] for _, attributes in hostile.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in hostile.elements:
        for reference in ("aria-labelledby", "for", "data-figure", "data-explorer", "data-chart", "data-plane"):
            assert attributes.get(reference, ids[0]) in ids
        if (attributes.get("href") or "").startswith("#"):
            assert attributes["href"][1:] in ids


def test_headings_skip_no_level(hostile):
    levels = [int(tag[1]) for tag, _ in hostile.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_table_has_caption_scopes_and_a_legend_of_what_occurs():
    table = Table("t", "Errors", ["name", "a", "b"], [[Cell("x"), Cell("1.5", "best"), Cell("2", "miss")]])
    reader = Reader(render_page(paper(table)))
    assert len(reader.of("caption")) == 1
    assert ("span", "Errors") in reader.texts
    assert [th["scope"] for th in reader.of("th")] == ["col", "col", "col", "row"]
    region = next(div for div in reader.of("div") if div.get("role") == "region")
    assert region["tabindex"] == "0"
    assert region["aria-label"] == "Table: Errors"
    keys = [text for tag, text in reader.texts if tag == "span" and text.endswith(".")]
    assert keys == ["Bold: the best.", "†: away from the reference value."]
    assert ("sup", "†") in reader.texts


def test_numbers_are_told_from_words():
    row = ["Monk", "1.5 ± 0.2", "1e-3", "a1", "", "−3 %"]  # noqa: RUF001
    rows = [[Cell(text) for text in row], [Cell("2"), Cell("n/a"), Cell(""), Cell("2"), Cell(""), Cell("7")]]
    assert numeric_columns(Table("t", "T", row, rows)) == [False, True, True, False, False, True]


def test_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "new" / "report.html"
    write_page(some_page(), path)
    before = path.read_text(encoding="utf-8")
    assert before == render_page(some_page())
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_page(some_page(outcome="hurts"), path)
    assert path.read_text(encoding="utf-8") == before
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]


def test_text_that_is_no_unicode_is_still_written(tmp_path):
    write_page(some_page(["caf\udce9"]), tmp_path / "report.html")
    assert "caf?" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("names", [(), HOSTILE], ids=["tame", "hostile"])
def test_figures_are_what_plotly_expects(names):
    """Plotly's own validation of every property."""
    for figure in Reader(render_page(some_page(names))).data():
        if "layout" in figure:
            go.Figure(figure)


def test_missing_values_are_gaps():
    figure = chart_figure(curve(series=[Series("a", [1, 2, 3], [0.5, math.nan, math.inf])]))
    assert figure["data"][0]["y"] == [0.5, None, None]


def test_a_band_goes_there_and_back():
    series = Series("a", [1, 2, 3], [5.0, 6.0, 7.0], [4.0, math.nan, 6.0], [6.0, 7.0, 8.0])
    band, line = chart_figure(curve(series=[series]))["data"]
    assert band["x"] == [1, 3, 3, 1]
    assert band["y"] == [4, 6, 8, 6]
    assert band["legendgroup"] == line["legendgroup"]


def test_a_role_has_one_style_everywhere():
    atk, first, second, again = line_styles(["atk", "other", "unheard of", "atk"])
    assert atk == again
    assert len({atk.color, first.color, second.color}) == 3
    assert len({(style.dash, style.symbol) for style in (atk, first, second)}) == 3


def test_marks_do_not_cross_each_other():
    chart = curve(
        series=[Series("a", [1, 1000], [0, 1])], log_x=True, marks=[(0.0, "no"), (2, "a"), (9, "b"), (700, "c")]
    )
    marks = place_marks(chart)
    assert [(mark.text, mark.row, mark.to_the_right) for mark in marks] == [
        ("c", 0, False),
        ("b", 1, True),
        ("a", 2, True),
    ]


def test_long_labels_of_marks_do_not_stretch_the_axis():
    axis = chart_figure(curve(series=[Series("a", [1, 100], [0, 1])], log_x=True, marks=[(100, "m" * 99)]))["layout"][
        "xaxis"
    ]
    assert_allclose(axis["range"], [-0.08, 2.08])
    assert axis["ticktext"] == ["1", "2", "5", "10", "20", "50", "100"]


def test_arrays_and_tuples_will_do():
    rows = (tuple(map(Cell, ("x", "1"))), tuple(map(Cell, ("y", "2"))))
    series = Series("a", np.array([1, 2]), np.float32([3, np.nan]), np.zeros(2), np.ones(2))
    line = Line("line", np.float32(1.0), np.float32(2.0), np.float32(-0.1))
    plane = Plane("plane", "P", "x", "y", (Points("a", np.arange(3), np.arange(3.0), "negative"),), (line,), line)
    chart = curve(series=(series,), marks=((np.float32(2), "mark"),))
    steps = (Step(np.int64(1), "one", line),)
    render_page(paper(Table("t", "T", ("a", "b"), rows), Explorer(chart, steps, np.int64(0), plane)))


def test_explorer_moves_cursor_and_boundary():
    chart, plane, motion = explorer_figures(explorer(str))
    assert chart["layout"]["shapes"][motion["cursor"]]["x0"] == 10
    assert plane["data"][motion["boundary"]]["name"] == "AT_k, k = 10"
    steps = motion["steps"]
    assert [step["x"] for step in steps] == [1, 2, 5, 10, 20, 50, 100, 200]
    assert steps[0]["line"] == {"x": [None, None], "y": [None, None]}
    assert steps[0]["label"].endswith("; no boundary: collapsed")
    for step, given in list(zip(steps, explorer(str).steps, strict=True))[1:]:
        line = given.line
        for x, y in zip(step["line"]["x"], step["line"]["y"], strict=True):
            assert_allclose(line.a * x + line.b * y + line.c, 0.0, atol=1e-12)


def test_a_boundary_out_of_sight_is_said():
    far = Explorer(curve(), [Step(1, "k = 1", Line("far", 1.0, 0.0, -1e6))], 0, lone_plane(str))
    assert explorer_figures(far)[2]["steps"][0]["label"] == "k = 1; the boundary is outside the picture"


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi / 4, math.pi / 2, 2.0, 3.0])
def test_lines_are_cut_to_the_window(angle, scale):
    window = Window(-1.0, 3.0, 10.0, 11.0)
    a, b = math.cos(angle), math.sin(angle)
    line = Line("line", a * scale, b * scale, -(a * 1.0 + b * 10.5) * scale)
    ends = segment(line, window)
    for x, y in zip(ends.x, ends.y, strict=True):
        assert_allclose(a * (x - 1.0) + b * (y - 10.5), 0.0, atol=1e-12)
        assert min(abs(x + 1), abs(x - 3), abs(y - 10), abs(y - 11)) < 1e-12
    areas = [shoelace(half_plane(line, window, side)) for side in (1.0, -1.0)]
    assert_allclose(areas, [2.0, 2.0])  # the line goes through the centre


def shoelace(outline):
    x, y = outline
    return 0.5 * abs(sum(x[i - 1] * y[i] - x[i] * y[i - 1] for i in range(len(x))))


@pytest.mark.parametrize("line", [Line("w = 0", 0.0, 0.0, 1.0), Line("nan", math.nan, 1.0, 0.0), Line("far", 1, 0, 99)])
def test_no_line_is_no_segment(line):
    assert segment(line, Window(0.0, 1.0, 0.0, 1.0)) is None


def test_window_of_odd_data():
    def window(x, y):
        return window_of(Plane("p", "P", "x", "y", [Points("a", x, y, "positive")]))

    assert window([], []) == (-1, 1, -1, 1)
    assert window([5], [math.nan]) == (4, 6, -1, 1)
    assert not window([0, 100], [0, 1]).equal
    assert (
        "scaleanchor"
        not in plane_figure(Plane("p", "P", "x", "y", [Points("a", [0, 100], [0, 1], "outlier")]))["layout"]
    )


def test_the_numbers_of_a_chart():
    series = [Series("a", [1, 2], [0.5, 0.25], [0.4, 0.2], [0.6, 0.3]), Series("b", [2], [math.nan])]
    (table,) = chart_numbers(curve(series=series))
    assert [[cell.text for cell in row] for row in table.rows] == [
        ["1", "0.5 (0.4 to 0.6)", ""],
        ["2", "0.25 (0.2 to 0.3)", "n/a"],
    ]
    (long,) = chart_numbers(curve(series=[Series("a", range(999), range(999))]))
    assert len(long.rows) == 200
    assert long.note == "The first 200 of 999 rows."


def test_the_numbers_of_a_plane():
    plane = Plane(
        "p", "P", "u", "v", [Points("a", [0.0] * 250, [1.0] * 250, "positive")], [Line("w = 0", 0.0, 0.0, 1.0)]
    )
    samples, lines = plane_numbers(plane)
    assert len(samples.rows) == 200
    assert samples.note == "50 more samples are left out."
    assert [cell.text for cell in lines.rows[0]] == ["w = 0", "none: collapsed"]
