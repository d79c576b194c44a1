"""The results file: the boundary between running and reporting.

JSON lines, one record a line. The first says what is run and with which versions of everything; the others are what was
found, appended task by task, each task closed by a line of its own. Whatever kills a run, the file holds whole tasks
and perhaps the beginning of one, which is cut off on resuming.

====================  ============================================================================================
``record``            fields
====================  ============================================================================================
``run``               ``schema``, ``kind`` ("compare" or "reproduce"), ``config``, ``versions``, ``started``
``data``              ``dataset``, ``task``, ``n``, ``d``, ``source`` and what else describes the data
``cell``              one per dataset, loss, class weights, split, k and strength: see :func:`cell_record`
``point``             a fit in the plane: ``dataset``, ``loss``, ``k``, ``coef`` or ``line``, ``error``, its
                      certificate, ...
``plane``             rows in the plane, of two features or of a feature and the target: ``dataset``, ``x``, ``y``,
                      ``label``, ...
``curve``             a line of a figure: ``figure``, ``name``, ``x``, ``y``, the certificate of its fits, ...
``map``               decision values of a cell mapped to suit a measure: ``dataset``, ``loss``, ``weights``, ``split``,
                      ``aggregate``, ``measure``, ``k``, ``strength``, ``map`` (slope, shift), ``validation``
``said``              decision values of a test part: ``dataset``, ``loss``, ``weights``, ``split``, ``rows``
                      (places in the ``truth`` of the data), ``cells`` (each ``k``, ``strength``, ``decisions``)
``yardstick``         what a model of the other family said of a test part: ``dataset``, ``split``, ``model``,
                      ``library``, ``rows``, ``decisions`` (log-odds, or predictions), ``prior`` of the classes,
                      ``n_train``, ``rounds`` (of trees)
``answer``            what was asked: ``score``, ``margin``, of how many splits, and the loss and class weights
                      whose k the pictures go along (``traced``); as all that follows, it has the name of its task
                      as ``question``
``model``             the recommended fit and its certificate
``other``             the same of the fit beside it: the best average, or the best k below all rows
``hard_row``          a row of the data with a large loss in that fit
``skipped``           what could not be run, and why
``done``              ``task``: everything above, since the last such line, belongs to it
====================  ============================================================================================

A certificate is what :func:`certificate` returns: how exact the fits are that a record is about, and how exact they
were meant to be.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, SupportsFloat, TypeAlias

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array
from atklearn.study.places import find_place

__all__ = [
    "Record",
    "ResultsFile",
    "cell_record",
    "certificate",
    "read_results",
    "relative_gaps",
    "short",
    "versions",
]

SCHEMA = 6
Record: TypeAlias = dict[str, Any]

# A gap that equals the tolerance may come out a little larger as a ratio.
_ROUNDING = 1e-9
_PACKAGES = ("atklearn", "numpy", "scipy", "scikit-learn", "numba", "pandas", "pyarrow", "skrub", "lightgbm")


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
    strength: float,
    tol: float | None,
    gaps: npt.ArrayLike | None,
    validation: dict[str, list[float]],
    test: dict[str, float],
    n_folds: int | None = None,
    fold_gaps: npt.ArrayLike | None = None,
    drop: float = 0.0,
) -> Record:
    """Return the record of one cell of a grid.

    Parameters
    ----------
    dataset, loss : str
    weights : {"plain", "balanced"}
        The class weights.
    split : int or None
        The number of the split into training and test part; None for all rows.
    k, n : float
        k in samples, and the number of samples of the training part.
    strength : float
        The C of a linear model, or the rounds of boosted trees.
    tol : float or None
        The duality gap over the objective that was asked for; None of fits that know none.
    gaps : array-like or None
        What was reached by the fits on the whole training part; None if there are none, or none that know it.
    validation : dict of lists
        Per measure, its value on each validation part.
    test : dict
        Per measure, its value on the test part; empty if there is none.
    n_folds : int, default=None
        Into how many folds the training part was divided, perhaps repeatedly; None if it was not.
    fold_gaps : array-like, default=None
        What was reached by the fits on the folds.
    drop : float, default=0.0
        The part of the samples with the largest losses that is set aside.

    Examples
    --------
    >>> record = cell_record(dataset="monk", loss="hinge", weights="plain", split=0, k=216, n=216, strength=1.0,
    ...                      tol=1e-3, gaps=[1e-4], validation={"error": [0.2]}, test={"error": 0.19})
    >>> record["aggregate"], record["share"], record["gap"], record["n_missed"]
    ('average', 1.0, 0.0001, 0)
    """
    if drop > 0.0:
        aggregate = "trimmed" if k >= n else "range"
    else:
        aggregate = "average" if k >= n else "maximum" if k <= 1 else "atk"
    whole, folds = certificate(gaps, tol), certificate(fold_gaps, tol)
    return {
        "record": "cell", "dataset": dataset, "loss": loss, "weights": weights, "aggregate": aggregate, "split": split,
        "k": k, "share": short(k / n), "drop": drop, "strength": strength, "tol": tol,
        "gap": whole["gap"], "fold_gap": folds["gap"],
        "n_fits": whole["n_fits"] + folds["n_fits"], "n_missed": whole["n_missed"] + folds["n_missed"],
        "n_folds": n_folds, "validation": validation, "test": test,
    }  # fmt: skip


def relative_gaps(dual_gaps: npt.ArrayLike, objectives: npt.ArrayLike) -> Array:
    """Return duality gaps over objectives; nothing is left to gain on an objective of zero."""
    values = np.asarray(objectives, dtype=np.float64)
    gaps = np.maximum(np.asarray(dual_gaps, dtype=np.float64), 0.0)  # rounding may leave less than nothing
    return np.asarray(np.divide(gaps, values, out=np.zeros_like(gaps), where=values > 0.0))


def certificate(gaps: npt.ArrayLike | None, tol: float | None) -> Record:
    """Return what a record says about how exact the fits are that it is about.

    Parameters
    ----------
    gaps : array-like or None
        The duality gap over the objective of every problem that was solved; None if there is none.
    tol : float or None
        What was asked for; None of fits that know no gap.

    Returns
    -------
    fields : dict
        ``tol``; ``gap``, the largest one, None if there is none; ``n_fits``; ``n_missed``, how many are above ``tol``.

    Examples
    --------
    >>> certificate([0.002, 0.0005], 1e-3)
    {'tol': 0.001, 'gap': 0.002, 'n_fits': 2, 'n_missed': 1}
    >>> certificate(None, 1e-3)
    {'tol': 0.001, 'gap': None, 'n_fits': 0, 'n_missed': 0}
    """
    if gaps is None or tol is None:
        return {"tol": tol, "gap": None, "n_fits": 0, "n_missed": 0}
    reached = np.asarray(gaps, dtype=np.float64)
    missed = int((reached > tol * (1.0 + _ROUNDING)).sum())
    return {"tol": tol, "gap": _rounded_up(float(reached.max())), "n_fits": int(reached.size), "n_missed": missed}


def _rounded_up(gap: float) -> float:
    """Return a relative gap as it is written: a bound stays one, and digits that are rounding errors do not appear."""
    return short(math.ceil(gap * 1e9 - 1e-3) / 1e9)


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
        Everything that determines the results. If the folder holds a run of another configuration or of other
        versions, this one is written beside it: see :func:`atklearn.study.places.find_place`.
    fresh : bool, default=False
        Whether to start anew what is there of this very run.

    Attributes
    ----------
    path : Path
        The file that is written.
    moved : str
        Why this is not the one asked for; empty if it is.
    finished : set of str
        The tasks the file holds.

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

    def __init__(self, path: Path, kind: str, config: dict[str, Any], *, fresh: bool = False) -> None:
        header = {
            "record": "run", "schema": SCHEMA, "kind": kind, "config": config, "versions": versions(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }  # fmt: skip
        self.path, self.moved = find_place(path, header)
        self.finished: set[str] = set()
        whole = self._whole_tasks() if self.path.exists() and not fresh else 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("r+b" if whole else "wb")
        self._file.seek(whole)
        self._file.truncate()  # the beginning of a task that was cut short
        if not whole:
            self._append([header])

    def _whole_tasks(self) -> int:
        """Take note of the tasks that are finished; return the length up to the end of the last."""
        whole, position = 0, 0
        with self.path.open("rb") as file:
            for line in file:
                position += len(line)
                record = _parse(line)
                if record is None:
                    break
                if record["record"] in ("run", "done"):
                    whole = position
                if record["record"] == "done":
                    self.finished.add(record["task"])
        return whole

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
