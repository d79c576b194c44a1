"""Reports to look at: one of every kind of block, and one with hostile names."""

from __future__ import annotations

import math
from dataclasses import replace

from atklearn.report.content import (
    Cell,
    Chart,
    Explorer,
    Line,
    Page,
    Plane,
    Points,
    Section,
    Series,
    Step,
    Table,
)

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<img src=x onerror=alert(3)>",
    "\"quoted\" and 'single'\nnewline",
    '<a href="https://example.org">link</a> &amp; [bold]rich[/bold]',
    "$x$_ and $\\frac$",
    "%{x} <b>{{ 7 * 7 }}</b>",
)
PAPER_LOSSES = ("Maximum", "Average", "AT_k", "Balanced", "Log loss of scikit-learn", "Linear SVM", "k-nearest", "Tree")


def some_page(names=(), outcome="helps"):
    """Build a page with every kind of block; ``names`` replace its own, wherever a name can come from data."""
    names = list(names)

    def name(own: str) -> str:
        return names[len(own) % len(names)] if names else own

    sections = [
        Section("answer", "The answer", [name(PARAGRAPH), small_table(name), wide_table(name)]),
        Section("curve", name("Error against k"), [error_chart(name)]),
        Section("explore", "Move k yourself", ["The slider goes over k.", explorer(name)]),
        Section("time", "Time", [time_chart(name), lone_plane(name)]),
    ]
    provenance = [("Command", name("atk compare data.csv")), (name("Data"), "200 rows, 2 columns"), ("Seed", "0")]
    return Page(
        name("Does the average top-k loss help on Monk?"),
        name("AT_k helps on error"),
        name(
            "The error falls from 4.1 % to 2.4 % (95 % interval of the difference: 0.6 to 2.9), k = 10 chosen on "
            "validation data alone."
        ),
        outcome,
        sections,
        provenance,
    )


def paper(*blocks, outcome="same"):
    """Build a page with one section."""
    return Page("Title", "Verdict", "Headline.", outcome, [Section("only", "Only section", blocks)])


def curve(**changes):
    return replace(Chart("curve", "Curve", "k", "error", [Series("a", [1, 2], [3.0, 4.0])]), **changes)


PARAGRAPH = (
    "Every loss was fitted on the same twenty draws, with its parameters chosen on the validation part. The interval "
    "is that of the paired difference, corrected for the draws sharing samples."
)


def small_table(name):
    rows = [
        [Cell(name("Monk")), Cell("18.23", ""), Cell("20.21"), Cell("16.76", "best"), Cell("16.9", "miss")],
        [Cell(name("Phoneme")), Cell("24.88"), Cell("22.16", "close"), Cell("21.72", "best"), Cell("21.5")],
        [Cell(name("Spambase")), Cell("8.41"), Cell("8.36", "close"), Cell("8.3", "optimistic"), Cell("")],
    ]
    return Table(
        "errors",
        name("Error on the test part, %"),
        ["Data set", "Maximum", name("Average loss"), "AT_k", "Paper's AT_k"],
        rows,
        "Means of 20 draws.",
    )


def wide_table(name):
    rows = [
        [
            Cell(name(data)),
            *(Cell(f"{10 + 3 * i + 0.71 * j:.2f} ± 0.{3 + i}", "best" if i == 2 else "") for i in range(8)),
        ]
        for j, data in enumerate(("Australian", "German", "Madelon", "Diabetes of the Pima"))
    ]
    return Table("all-losses", "All losses, error in %", ["Data set", *map(name, PAPER_LOSSES)], rows)


def error_chart(name, own="error"):
    ks = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 200]
    atk = [2.0 + 1.5 * math.log10(k / 12.0) ** 2 for k in ks]
    return Chart(
        own,
        name("Error against k on the test part"),
        name("k"),
        name("error, %"),
        [
            Series(name("AT_k"), ks, atk, [v - 0.4 for v in atk], [v + 0.4 for v in atk], "atk"),
            Series(name("average"), [1, 200], [4.1, 4.1], role="average"),
            Series(name("maximum"), [1, 200], [5.2, 5.2], role="maximum"),
            Series(name("balanced"), [1, 200], [3.2, 3.2], role="balanced"),
        ],
        log_x=True,
        marks=[(4.0, name("calibration bound")), (10.0, name("chosen k")), (150.0, name("as good as the average"))],
        note=name(
            "The error is lowest near k = 10; the band is one standard error. Lines without markers do not use k."
        ),
    )


def time_chart(name):
    xs = list(range(100, 5100, 100))
    series = [Series(name(f"solver {i}"), xs, [x * (i + 1) / 1e4 for x in xs]) for i in range(3)]
    gap = Series(name("reference"), [100, 200, 300], [0.1, math.nan, 0.3], role="reference")
    return Chart("time", name("Time to fit"), "samples", "seconds", [*series, gap], note="Linear in the samples.")


def clouds(name):
    ring = [(math.cos(i * 2.4) * (0.1 + 0.006 * i), math.sin(i * 2.4) * (0.1 + 0.006 * i)) for i in range(90)]
    return [
        Points(name("positive"), [1.6 + x for x, _ in ring], [1.5 + y for _, y in ring], "positive"),
        Points(name("negative"), [0.4 + x for x, _ in ring], [0.3 + y for _, y in ring], "negative"),
        Points(name("outlier"), [-0.2], [-0.3], "outlier"),
    ]


def lone_plane(name):
    lines = [Line(name("average loss"), 1.0, 1.0, -2.3, "average"), Line(name("maximum"), 0.0, 0.0, 1.0, "maximum")]
    bayes = Line("Bayes", 1.0, 1.0, -1.9)
    return Plane(
        "plane", name("Boundaries"), name("first"), name("second"), clouds(name), lines, bayes, "Shaded: Bayes."
    )


def explorer(name):
    ks = [1, 2, 5, 10, 20, 50, 100, 200]
    lines = [Line(name(f"AT_k, k = {k}"), 1.0, 1.0 + math.log10(k), -1.5 - 0.4 * math.log10(k), "atk") for k in ks]
    lines[0] = Line(name("AT_k, k = 1"), 0.0, 0.0, 1.0, "atk")
    steps = [
        Step(k, name(f"k = {k} ({k / 2:g} % of the samples): error {4 - 2 * math.sin(k / 50):.1f} %"), line)
        for k, line in zip(ks, lines, strict=True)
    ]
    plane = Plane(
        "explored-plane",
        name("The boundary at this k"),
        name("first"),
        name("second"),
        clouds(name),
        [Line(name("average loss"), 1.0, 1.0, -2.3, "average")],
        Line("Bayes", 1.0, 1.0, -1.9),
        "Positive samples are red crosses, negative ones blue circles; the shades are the sides of the Bayes boundary.",
    )
    return Explorer(error_chart(name, "explored"), steps, 3, plane)
