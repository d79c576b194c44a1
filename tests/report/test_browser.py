"""The page in a real browser, opened as a file."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest
from pages import HOSTILE, some_page

from atklearn.datasets import make_toy
from atklearn.report.comparison_findings import Findings
from atklearn.report.comparison_page import comparison_page
from atklearn.report.page import write_page
from atklearn.study.comparison import run_comparison
from atklearn.study.outcome import Question
from atklearn.study.results import read_results
from atklearn.study.settings import Settings
from atklearn.tables.tabular import read_table

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
DESKTOP = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}

CURSOR = "document.getElementById('plot-explored').layout.shapes.at(-1).x0"
CURSOR_LINE = "document.querySelector('#plot-explored .shape-group:last-of-type path')"
BOUNDARY = "document.getElementById('plot-explored-plane').data.at(-1)"
BOUNDARY_PATH = (  # the widest line of the plane
    "[...document.querySelectorAll('#plot-explored-plane .scatterlayer .js-line')]"
    ".find(line => line.style.strokeWidth === '3.5px')?.getAttribute('d') ?? ''"
)
MARK = (
    "[...document.querySelectorAll('#plot-explored .annotation')].find(mark => mark.textContent === 'chosen k')"
    ".querySelector('.annotation-arrow-g path').getBoundingClientRect().x"
)


@pytest.fixture(scope="module")
def chromium():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no Chromium found: install chromium or google-chrome (Debian: apt install chromium)")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET, headless=True)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    write_page(some_page(), folder / "tame.html")
    write_page(some_page(HOSTILE), folder / "hostile.html")
    write_page(compared(folder), folder / "compared.html")
    return {name: (folder / f"{name}.html").as_uri() for name in ("tame", "hostile", "compared")}


def compared(folder):
    """Return the report of a comparison on a toy case with hostile columns."""
    X, y = make_toy(4, random_state=0)
    pd.DataFrame(X, columns=HOSTILE[:2]).assign(y=y).to_csv(folder / "toy.csv", index=False)
    data = read_table(folder / "toy.csv", "y")
    settings = Settings.for_task("classification", len(y), quick=True, n_folds=3)
    run_comparison(data, settings, Question.about("classification", has_groups=False), folder / "results.jsonl")
    return comparison_page(Findings(read_results(folder / "results.jsonl")))


class Visit:
    """An open page and what went on while it was."""

    def __init__(self, context, address):
        self.complaints, self.requests, self.dialogs = [], [], []
        self.page = context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dismiss)
        self.address = address
        self.page.goto(address)
        self.page.wait_for_selector("body[data-drawn]", timeout=30_000)

    def _dismiss(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def do(self, script):
        return self.page.evaluate(script)


@pytest.fixture
def visit(chromium, files):
    """Open pages; at the end none may have complained, asked the network for anything or opened a dialog."""
    contexts, visits = [], []

    def open_page(name="tame", **options):
        contexts.append(chromium.new_context(**DESKTOP | options))
        visits.append(Visit(contexts[-1], files[name]))
        return visits[-1]

    yield open_page
    seen = [(visit.complaints, visit.requests, visit.dialogs) for visit in visits]
    expected = [([], [visit.address], []) for visit in visits]
    for context in contexts:
        context.close()
    assert seen == expected


@pytest.mark.parametrize("name", ["tame", "hostile"])
def test_opens_from_a_file_and_draws_every_chart(visit, name):
    page = visit(name)
    assert page.do("document.querySelectorAll('.plot .main-svg').length") == 3 * 5
    assert page.do("[...document.querySelectorAll('.plot')].every(plot => plot.querySelector('.trace path'))")


def test_arrow_keys_move_cursor_boundary_and_words(visit):
    opened = visit()
    page, slider = opened.page, opened.page.locator("#slider-explored")

    def state():
        return {
            "step": page.locator(".explorer").get_attribute("data-step"),
            "words": page.locator(".explorer output").inner_text(),
            "cursor": opened.do(CURSOR),
            "cursor path": opened.do(f"{CURSOR_LINE}.getAttribute('d')"),
            "boundary": opened.do(f"[{BOUNDARY}.x, {BOUNDARY}.y]"),
            "boundary path": opened.do(BOUNDARY_PATH),
        }

    before = state()
    assert (before["step"], before["cursor"]) == ("3", 10)
    slider.focus()
    page.keyboard.press("ArrowRight")
    after = state()
    assert not [key for key in before if before[key] == after[key]]
    assert (after["step"], after["cursor"]) == ("4", 20)
    assert after["words"].startswith("k = 20 ")
    assert slider.get_attribute("aria-valuetext") == after["words"]
    assert opened.do(f"{BOUNDARY}.name") == "AT_k, k = 20"
    page.keyboard.press("ArrowLeft")
    assert state() == before


def test_the_report_of_a_comparison_moves_its_boundary(visit):
    opened = visit("compared")
    boundary = "JSON.stringify(document.getElementById('plot-boundary').data.at(-1))"
    slider = opened.page.locator("#slider-score-against-k")
    seen = set()
    slider.press("Home")
    for _ in range(5):
        seen.add((opened.do(boundary), opened.page.locator(".explorer output").inner_text()))
        slider.press("ArrowRight")
    assert len(seen) == 3  # values of k of a quick look
    assert len({line for line, _ in seen}) >= 2  # a collapsed fit draws none
    axis = opened.do("document.querySelector('#plot-boundary .xtitle').textContent")
    assert axis == HOSTILE[0]
    assert HOSTILE[0] in opened.do("document.querySelector('#hardest-rows, main').innerText")


def test_a_collapsed_model_has_no_boundary(visit):
    opened = visit()
    opened.page.locator("#slider-explored").press("Home")
    assert "no boundary: collapsed" in opened.page.locator(".explorer output").inner_text()
    assert not opened.do(BOUNDARY_PATH)
    opened.page.locator("#slider-explored").press("End")
    assert opened.do(BOUNDARY_PATH)


def test_the_cursor_stands_where_its_k_is(visit):
    """Shapes and labels of logarithmic axes count differently in Plotly: look at pixels."""
    opened = visit()
    ticks = opened.do(
        "Object.fromEntries([...document.querySelectorAll('#plot-explored .xtick text')]"
        ".map(tick => [tick.textContent, tick.getBoundingClientRect()]).map(([k, box]) => [k, box.x + box.width / 2]))"
    )
    box = f"{CURSOR_LINE}.getBoundingClientRect()"
    assert abs(opened.do(f"{box}.x + {box}.width / 2") - ticks["10"]) < 1.5
    assert abs(opened.do(MARK) - ticks["10"]) < 1.5


def test_hostile_names_are_text_and_run_nothing(visit):
    opened = visit("hostile")
    tame = visit("tame")
    scripts = "document.querySelectorAll('script').length"
    assert opened.do(scripts) == tame.do(scripts)
    assert opened.do("document.querySelectorAll('main img, main a:not(.modebar-btn), main b, .plot svg a').length") == 0
    svg = opened.do("[...document.querySelectorAll('.plot svg text')].map(text => text.textContent)")
    assert {HOSTILE[0], HOSTILE[1], HOSTILE[2], HOSTILE[5]} <= set(svg)
    slider = opened.page.locator("#slider-explored")
    for _ in range(4):
        slider.press("ArrowLeft")
    opened.page.hover("#plot-error .nsewdrag")
    opened.page.wait_for_selector("#plot-error .hoverlayer .legendtext")
    hover = opened.do("document.querySelector('#plot-error .hoverlayer').textContent")
    assert "<a href=" in hover
    assert opened.do("document.querySelectorAll('.hoverlayer a').length") == 0


@pytest.mark.parametrize("name", ["tame", "hostile"])
def test_fits_on_a_phone(visit, name):
    opened = visit(name, **PHONE)
    assert opened.do("document.scrollingElement.scrollWidth") <= 391
    opened.do("document.querySelectorAll('details').forEach(details => { details.open = true; })")
    assert opened.do("document.scrollingElement.scrollWidth") <= 391
    assert (
        opened.do("Math.max(...[...document.querySelectorAll('.plot .main-svg')].map(svg => svg.clientWidth))") <= 390
    )


@pytest.mark.parametrize(
    ("name", "width"),
    [("tame", 320), ("compared", 360), ("tame", 390), ("compared", 768), ("tame", 960), ("compared", 1920)],
)
def test_tables_begin_where_the_text_does_and_end_on_the_screen(visit, name, width):
    """And charts come to rest: nothing is said on the console, not even by Plotly on margins that it does not find."""
    opened = visit(name, viewport={"width": width, "height": 900})
    assert opened.do("document.querySelectorAll('.plot .main-svg').length") > 0
    edges = opened.do(
        "[...document.querySelectorAll('section > .block, section > .explorer, section > figure')]"
        ".map(block => block.getBoundingClientRect()).map(box => [box.left, box.right])"
    )
    left = opened.do("document.querySelector('main h2').getBoundingClientRect().left")
    assert {round(begin - left) for begin, _ in edges} == {0}
    assert max(end for _, end in edges) <= width
    inside = opened.do(  # what is wider is scrolled
        "[...document.querySelectorAll('.block .scroll')].every(box => box.scrollWidth <= box.clientWidth ||"
        " getComputedStyle(box).overflowX === 'auto')"
    )
    assert inside


def test_charts_follow_the_window(visit):
    opened = visit()
    opened.page.set_viewport_size({"width": 500, "height": 900})
    width = "document.querySelector('#plot-error .main-svg').clientWidth"
    for _ in range(100):  # wait_for_function would evaluate a string, which the page's policy forbids
        if opened.do(width) < 500:
            break
        opened.page.wait_for_timeout(50)
    assert opened.do(width) < 500
    assert opened.do("document.scrollingElement.scrollWidth") <= 500


def test_print_has_no_controls(visit):
    opened = visit()
    controls = ["nav", "#slider-explored", "details >> nth=0", ".modebar >> nth=0"]
    opened.page.emulate_media(media="print")
    assert not [control for control in controls if opened.page.locator(control).is_visible()]
    assert opened.page.locator(".explorer output").is_visible()
    assert opened.page.locator("#plot-error").is_visible()
    assert opened.do("getComputedStyle(document.querySelector('figure')).breakInside") == "avoid"


def test_dark_scheme_turns_charts_too(visit):
    def brightness(scheme):
        opened = visit(color_scheme=scheme)
        fill = opened.do("getComputedStyle(document.querySelector('#plot-error .xtick text')).fill")
        return sum(map(int, fill.removeprefix("rgb(").removesuffix(")").split(",")))

    assert brightness("light") < 200 < 600 < brightness("dark")


def test_tab_reaches_everything_in_order(visit):
    opened = visit()
    reached = []
    for _ in range(30):
        opened.page.keyboard.press("Tab")
        reached.append(
            opened.do("document.activeElement.className || document.activeElement.id || document.activeElement.tagName")
        )
        if reached[-1] == "slider-explored":
            break
    assert reached[0] == "skip"
    assert reached[1:6] == ["A"] * 5
    assert reached.count("scroll") == 2
    assert reached[-1] == "slider-explored"
    outline = opened.do("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_the_numbers_open_by_keyboard(visit):
    opened = visit()
    opened.page.locator("#figure-error summary").focus()
    opened.page.keyboard.press("Enter")
    assert opened.page.locator("#table-error-numbers").is_visible()
