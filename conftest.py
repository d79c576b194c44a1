"""What holds wherever tests stand, in docstrings, too: the same draws in every run, and what is collected.

Without PyTorch, which is nobody's duty to install, its tests are named instead of run.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
IMPORTS_TORCH = re.compile(r"^(import|from) torch", re.MULTILINE)  # or a module of tests about it
NEEDS_TORCH = [
    "src/atklearn/torch",
    "src/atklearn/problems/tensors",
    "src/atklearn/selection/few_tensor_rows.py",
    "tests/pytorch",
    *(
        str(path.relative_to(HERE))
        for path in sorted((HERE / "tests").glob("*/*.py"))
        if path.parent.name != "pytorch" and IMPORTS_TORCH.search(path.read_text(encoding="utf-8"))
    ),
    "tests/torch_workers.py",
]
WITHOUT_TORCH = NEEDS_TORCH if find_spec("torch") is None else []

collect_ignore = WITHOUT_TORCH


def seed():
    """Seed NumPy's global generator, which is what `random_state=None` draws from."""
    np.random.seed(0)  # noqa: NPY002


seed()  # for what is drawn while tests are collected


def pytest_runtest_setup():
    """Let no test depend on luck, nor on which others ran before it."""
    seed()


def pytest_terminal_summary(terminalreporter):
    """Name what was not collected."""
    if WITHOUT_TORCH:
        named = [HERE / name for name in WITHOUT_TORCH]
        files = [path for each in named for path in ([each] if each.is_file() else sorted(each.rglob("*.py")))]
        terminalreporter.section("not run, for want of PyTorch: pip install 'atklearn[torch]'")
        for path in files:
            terminalreporter.line(str(path.relative_to(HERE)))
