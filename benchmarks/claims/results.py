"""Results files: one for each kind of machine, with what was measured on it and when."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

FOLDER = Path(__file__).parents[1] / "results"
CORE = ("atklearn", "numpy", "scipy", "scikit-learn", "numba", "torch")
# By how much the ratio of a rerun may leave the range of the rounds: on one thread and, where a core that others share
# may be busy at any time, on several.
NOISE, NOISE_OF_THREADS = 0.25, 0.5


@dataclass(frozen=True)
class Result:
    """What a claim came to: a ratio per round, ours over theirs; medians of seconds; excesses over the bound.

    Rounds may be of several runs; seconds, excesses, versions and the date are the last one's.
    """

    id: str
    task: str
    sizes: str
    over: str
    threads: int
    versions: dict[str, str]
    date: str
    ratios: list[float]
    seconds: list[float] | None
    excess: list[float | None]

    @property
    def topic(self) -> str:
        """The section of the page."""
        return self.id.split("/")[0]

    @property
    def ratio(self) -> float:
        """The median over the rounds."""
        return median(self.ratios)

    def after(self, earlier: Result) -> Result:
        """Return this result with the rounds of an earlier one of the same claim."""
        same = (self.task, self.sizes, self.over, self.threads) == (
            earlier.task,
            earlier.sizes,
            earlier.over,
            earlier.threads,
        )
        return replace(self, ratios=[*earlier.ratios, *self.ratios]) if same else self

    def agrees_with(self, other: Result) -> bool:
        """Whether the ratio of another run is within the range of this one, widened by the noise."""
        slack = 0.1 if self.seconds is None else 0.0  # of memory, in units of X: pages that others leave behind
        wider = 1.0 + (NOISE if self.threads == 1 else NOISE_OF_THREADS)
        return min(self.ratios) / wider - slack <= other.ratio <= max(self.ratios) * wider + slack


@dataclass(frozen=True)
class Results:
    """A results file: the machine, and what was measured on it."""

    name: str
    machine: dict[str, Any]
    results: list[Result] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return FOLDER / f"{self.name}.json"

    def write(self, folder: Path = FOLDER) -> None:
        """Write the file whole, or not at all."""
        folder.mkdir(exist_ok=True)
        text = json.dumps({"machine": self.machine, "results": [asdict(one) for one in self.results]}, indent=1)
        partial = folder / f"{self.name}.json.partial"
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(folder / f"{self.name}.json")

    def merged(self, new: Result, order: Iterable[str]) -> Results:
        """Return the results with a new one, in the place of an old one of its claim, in the order of the suite."""
        by_id = {one.id: one for one in self.results} | {new.id: new}
        known = [name for name in order if name in by_id]
        return Results(self.name, self.machine, [by_id[name] for name in known])


def read(path: Path) -> Results:
    """Return what a results file holds."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Results(path.stem, content["machine"], [Result(**one) for one in content["results"]])


def read_all(folder: Path = FOLDER) -> list[Results]:
    """Return all results files, in the order of their names."""
    return [read(path) for path in sorted(folder.glob("*.json"))]


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name).split("+")[0]
        except PackageNotFoundError:
            if name == "atklearn":  # run from its source
                import atklearn

                found[name] = atklearn.__version__
    return found


def today() -> str:
    """Return the date, as the page writes it."""
    now = datetime.now(UTC)
    return f"{now.day} {now:%B %Y}"


def this_machine(name: str | None, cores: int) -> tuple[str, dict[str, Any]]:
    """Return what the machine is called, and what it is."""
    gpu = gpu_name()
    called = name or (gpu.split()[-1].lower() if gpu else f"{cores}-cores")
    return called, {
        "cpu": cpu_name(),
        "cores": cores,
        "gpu": gpu,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": versions_of(CORE),
        "date": today(),
    }


def gpu_name() -> str | None:
    """Return the name of the GPU, if there is one that PyTorch can use."""
    try:
        import torch
    except ImportError:
        return None
    return torch.cuda.get_device_name() if torch.cuda.is_available() else None


def cpu_name() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"
