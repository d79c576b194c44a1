"""What is collected: without PyTorch, which is nobody's duty to install, its tests are named instead of run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
WITHOUT_TORCH = [] if find_spec("torch") else ["tests/torch", "src/atklearn/torch"]

collect_ignore = WITHOUT_TORCH


def pytest_terminal_summary(terminalreporter):
    """Name what was not collected."""
    if WITHOUT_TORCH:
        files = [path for folder in WITHOUT_TORCH for path in sorted((HERE / folder).rglob("*.py"))]
        terminalreporter.section("not run, for want of PyTorch: pip install 'atklearn[torch]'")
        for path in files:
            terminalreporter.line(str(path.relative_to(HERE)))
