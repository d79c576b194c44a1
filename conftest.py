"""What holds wherever tests stand, in docstrings, too: the same draws in every run, and what is collected.

Without PyTorch or Triton, which are nobody's duty to install, their tests are named instead of run.
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
    "src/atklearn/stores/tensors",
    "src/atklearn/encoding/tensors.py",
    "tests/pytorch",
    *(
        str(path.relative_to(HERE))
        for path in sorted((HERE / "tests").glob("*/*.py"))
        if path.parent.name != "pytorch" and IMPORTS_TORCH.search(path.read_text(encoding="utf-8"))
    ),
    "tests/torch_workers.py",
]
NEEDS_TRITON = ["tests/pytorch/test_interpreted_kernels.py"]
WITHOUT_TORCH = NEEDS_TORCH if find_spec("torch") is None else []
WITHOUT_TRITON = NEEDS_TRITON if find_spec("triton") is None and not WITHOUT_TORCH else []

collect_ignore = WITHOUT_TORCH + WITHOUT_TRITON

_TRITON = "Triton: pip install 'atklearn[torch-dev]'"


def seed():
    """Seed NumPy's global generator, which is what `random_state=None` draws from."""
    np.random.seed(0)  # noqa: NPY002


seed()  # for what is drawn while tests are collected


def pytest_runtest_setup():
    """Let no test depend on luck, nor on which others ran before it."""
    seed()


def pytest_terminal_summary(terminalreporter):
    """Name what was not collected."""
    for names, wanted in ((WITHOUT_TORCH, "PyTorch: pip install 'atklearn[torch]'"), (WITHOUT_TRITON, _TRITON)):
        named = [HERE / name for name in names]
        files = [path for each in named for path in ([each] if each.is_file() else sorted(each.rglob("*.py")))]
        if files:
            terminalreporter.section(f"not run, for want of {wanted}")
        for path in files:
            terminalreporter.line(str(path.relative_to(HERE)))
