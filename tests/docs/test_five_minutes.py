"""Who follows "five minutes" word for word gets what the page shows. (Its Python runs when the site is built.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "five-minutes.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands_and_shown():
    """Return the page's shell commands, each with the blocks of text that are shown after it."""
    followed = []
    for language, body in FENCE.findall(PAGE.read_text(encoding="utf-8")):
        if language == "sh":
            followed.append((body, []))
        elif language == "text":
            followed[-1][1].append(body)
    return followed


def words(text):
    """Return the words of a text, so that where lines break does not matter."""
    return " ".join(text.split())


def test_the_commands_print_what_the_page_shows(tmp_path):
    followed = [(command, shown) for command, shown in commands_and_shown() if shown]
    assert len(followed) == 2, "the table, and the comparison"
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for command, shown in followed:
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, text=True, capture_output=True, timeout=300,
            env={**os.environ, "PATH": paths, "COLUMNS": "80"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        for block in shown:
            assert words(block) in words(done.stdout)
    report = re.search(r"`(atklearn-out/[^`]*report\.html)`", PAGE.read_text(encoding="utf-8"))[1]
    assert (tmp_path / report).exists()


def test_what_is_installed_is_an_extra_that_there_is():
    import tomllib

    extras = tomllib.loads((PAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"pip install '(?:\.|atklearn)\[([\w,]+)\]'", PAGE.read_text(encoding="utf-8"))
    assert named
    assert {extra for each in named for extra in each.split(",")} <= set(extras["optional-dependencies"])
