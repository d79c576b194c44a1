"""The results file: the boundary between running and reporting.

JSON lines, one record a line. The first says what is run and with which versions of everything; the others are what was
found, appended task by task, each task closed by a line of its own. Whatever kills a run, the file holds whole tasks
and perhaps the beginning of one, which is cut off on resuming.

====================  ============================================================================================
``record``            fields
====================  ============================================================================================
``run``               ``schema``, ``kind`` ("compare" or "reproduce"), ``config``, ``versions``, ``started``
``data``              ``dataset``, ``task``, ``n``, ``d``, ``source`` and what else describes the data
``cell``              one per dataset, loss, class weights, split, k and C: see :func:`cell_record`
``point``             a fit in the plane: ``dataset``, ``loss``, ``k``, ``coef``, ``error``, ...
``plane``             two-dimensional data: ``dataset``, ``x``, ``y``, ``label``, ...
``curve``             a line of a figure: ``figure``, ``name``, ``x``, ``y``, ...
``model``             the recommended fit
``hard_row``          a row of the data with a large loss in that fit
``skipped``           what could not be run, and why
``done``              ``task``: everything above, since the last such line, belongs to it
====================  ============================================================================================
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, SupportsFloat, TypeAlias

__all__ = ["Record", "ResultsFile", "cell_record", "read_results", "short", "versions"]

SCHEMA = 1
Record: TypeAlias = dict[str, Any]

_PACKAGES = ("atklearn", "numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "skrub")


def versions() -> dict[str, str]:
    """Return the versions of everything that has a say in the results."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:  # an extra that is not installed
            continue
    return found


def cell_record(
    *,
    dataset: str,
    loss: str,
    weights: str,
    split: int | None,
    k: float,
    n: float,
    C: float,
    gap: float,
    validation: dict[str, list[float]],
    test: dict[str, float],
    groups: dict[str, float] | None = None,
) -> Record:
    """Return the record of one fit of a grid.

    Parameters
    ----------
    dataset, loss : str
    weights : {"plain", "balanced"}
        The class weights.
    split : int or None
        The number of the split into training and test part; None for all rows.
    k, n : float
        k in samples, and the number of samples of the training part.
    C : float
    gap : float
        The duality gap over the objective.
    validation : dict of lists
        Per measure, its value on each validation part.
    test : dict
        Per measure, its value on the test part; empty if there is none.
    groups : dict, default=None
        Per group of rows, its error on the test part.

    Examples
    --------
    >>> record = cell_record(dataset="monk", loss="hinge", weights="plain", split=0, k=216, n=216, C=1.0, gap=1e-4,
    ...                      validation={"error": [0.2]}, test={"error": 0.19})
    >>> record["aggregate"], record["share"]
    ('average', 1.0)
    """
    aggregate = "average" if k >= n else "maximum" if k <= 1 else "average_top_k"
    record = {
        "record": "cell", "dataset": dataset, "loss": loss, "weights": weights, "aggregate": aggregate, "split": split,
        "k": k, "share": short(k / n), "C": C, "gap": gap, "validation": validation, "test": test,
    }  # fmt: skip
    return record | {"groups": groups} if groups else record


def short(value: SupportsFloat) -> float:
    """Return a number to seven digits, as it is written."""
    return float(f"{float(value):.7g}")


class ResultsFile:
    """A results file that is being written, new or resumed.

    Parameters
    ----------
    path : Path
        Its folder is made if needed.
    kind : {"compare", "reproduce"}
    config : dict
        Everything that determines the results: a file of another configuration is not resumed.

    Attributes
    ----------
    finished : set of str
        The tasks the file holds.

    Raises
    ------
    ValueError
        If the file is of another run, or of other versions.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "results.jsonl"
    >>> with ResultsFile(path, "compare", {"seed": 0}) as results:
    ...     results.add("first task", [{"record": "curve", "x": [1.0]}])
    >>> with ResultsFile(path, "compare", {"seed": 0}) as results:
    ...     results.finished
    {'first task'}
    """

    def __init__(self, path: Path, kind: str, config: dict[str, Any]) -> None:
        self.path = path
        self.finished: set[str] = set()
        header = {
            "record": "run", "schema": SCHEMA, "kind": kind, "config": config, "versions": versions(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        whole = self._whole_tasks(header) if path.exists() else 0
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("r+b" if whole else "wb")
        self._file.seek(whole)
        self._file.truncate()  # the beginning of a task that was cut short
        if not whole:
            self._append([header])

    def _whole_tasks(self, header: Record) -> int:
        """Check that the file is ours to go on with; return the length up to the end of its last whole task."""
        whole, position = 0, 0
        with self.path.open("rb") as file:
            for line in file:
                position += len(line)
                record = _parse(line)
                if record is None:
                    break
                if record["record"] == "run":
                    self._check_same(record, header)
                    whole = position
                if record["record"] == "done":
                    self.finished.add(record["task"])
                    whole = position
        return whole

    def _check_same(self, found: Record, header: Record) -> None:
        """Raise if a found header is of another run than ours."""
        for field in ("schema", "kind", "config", "versions"):
            ours = json.loads(json.dumps(header[field]))
            if found.get(field) != ours:
                raise ValueError(
                    f"{self.path} is expected to hold this very run, but its {field} differ"
                    f"{_difference(found.get(field), ours)}; choose another folder with --out, or start anew with "
                    "--fresh."
                )

    def add(self, task: str, records: Iterable[Record]) -> None:
        """Append the records of a finished task and make them last."""
        self._append([*records, {"record": "done", "task": task}])
        self.finished.add(task)

    def _append(self, records: list[Record]) -> None:
        self._file.write(b"".join(_line(record) for record in records))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> ResultsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_results(path: Path) -> Iterator[Record]:
    """Yield the records of the whole tasks of a results file, without the lines that close them.

    Raises
    ------
    ValueError
        If it is not a results file of this schema.
    """
    pending: list[Record] = []
    with path.open("rb") as file:
        for number, line in enumerate(file):
            record = _parse(line)
            if number == 0 and (record is None or record.get("record") != "run" or record.get("schema") != SCHEMA):
                raise ValueError(f"{path} is expected to be a results file of schema {SCHEMA}, but is not.")
            if record is None:  # what a killed run left
                return
            if record["record"] in ("run", "done"):
                yield from pending
                pending = []
            if record["record"] == "run":
                yield record
            elif record["record"] != "done":
                pending.append(record)


def _line(record: Record) -> bytes:
    return (json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False) + "\n").encode()


def _parse(line: bytes) -> Record | None:
    """Return the record of a line, or None if it is not a whole one."""
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "record" in record else None


def _difference(found: Any, ours: Any) -> str:
    """Name the first entry in which two configurations differ."""
    if isinstance(found, dict) and isinstance(ours, dict):
        for key in [*ours, *found]:
            if found.get(key) != ours.get(key):
                return f" ({key}: {found.get(key)!r} there, {ours.get(key)!r} here)"
    return f" ({found!r} there, {ours!r} here)"
