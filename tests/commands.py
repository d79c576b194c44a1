"""Calling the command line in this process, and a table for it."""

from __future__ import annotations

from made_tables import mixed_table
from typer.testing import CliRunner

from atklearn.cli import app

QUICK = ["--quick", "--jobs", "1"]


def call(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def rides(folder, n=200, **columns):
    frame = mixed_table(n).drop(columns=["comment"]).assign(**columns)
    frame.to_csv(folder / "rides.csv", index=False)
    return frame


def few_columns(folder, n=200, name="number"):
    """Write a table of two numbers and the target, quick to compare on."""
    frame = mixed_table(n)[["number", "whole", "rides"]].rename(columns={"number": name})
    frame.to_csv(folder / "rides.csv", index=False)
