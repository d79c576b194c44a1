"""The examples of PyTorch run as they are, say little, and show what they say they show."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

EXAMPLES = Path(__file__).parents[2] / "examples"
LONGEST, WIDEST = 10, 80


@pytest.fixture(autouse=True)
def threads_as_before():
    """The examples set the number of threads."""
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture
def lines_of(capsys):
    """Return what runs an example, and returns the lines that it prints; nothing is said aside."""

    def run(name):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        said = capsys.readouterr()
        lines = said.out.splitlines()
        assert said.err == ""
        assert 0 < len(lines) <= LONGEST
        assert max(map(len, lines)) <= WIDEST
        return lines

    return run


def numbers(line):
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


def test_the_plain_loop_has_fewer_errors_among_the_rare_rows(lines_of):
    mean, top, tracked = lines_of("torch_loop")
    assert numbers(top)[-1] < numbers(mean)[-1] / 2
    assert numbers(top)[1] <= numbers(mean)[1]
    assert "lambda" in tracked


def test_hard_pixels_help_the_small_class(lines_of):
    _, mean, hardest = lines_of("torch_segmentation")
    assert numbers(hardest)[-1] > numbers(mean)[-1]


def test_lightning_resumes_as_if_nothing_had_been(lines_of):
    pytest.importorskip("lightning")
    lines = lines_of("torch_lightning")
    assert lines[-1].endswith("the same: True")


def test_the_trainer_learns_both_tasks(lines_of, monkeypatch):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    # our folder of tests of this name is on the path, and would be taken for the library of the same name
    monkeypatch.setattr("transformers.trainer.is_datasets_available", lambda: False)
    for line in lines_of("torch_trainer"):
        assert numbers(line)[-1] < 0.1  # by chance: more than 0.7, and 1.4
