"""What a fit has reached, in a file: small, whatever the number of rows, and enough to go on from.

The file is data and nothing else: NumPy's npz format without pickles, with a header in JSON. It names its version and
the problem, which has a fingerprint of the data; its arrays are the coefficients, and those that recipes of densities
need. What is read is checked; and it is only where a solver starts, which certifies what it ends with.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from atklearn.chunked.chunk import (
    Combination,
    Constant,
    Ids,
    Prediction,
    Recipe,
    RowView,
    Scaled,
    Scattered,
    Smoothed,
    Vector,
    lineage,
)
from atklearn.chunked.chunk_store import ChunkedDensity, ChunkedRows, Counted, FetchedRows
from atklearn.core.coordinates import Units
from atklearn.core.point import Point
from atklearn.core.problem import Certificate, Solution, StopReason
from atklearn.encoding.encoded import Problems
from atklearn.losses.individual import Array

__all__ = ["Checkpoint", "described"]

_FORMAT, _VERSION = "atklearn checkpoint", 1
_RECIPES: dict[str, Any] = {
    kind.__name__: kind for kind in (Combination, Constant, Prediction, Scaled, Scattered, Smoothed)
}
# Parameters that say how far to go, or how to tell of it: a fit may be resumed with others.
_UNIMPORTANT = ("tol", "max_iter", "warm_start", "verbose", "solver", "refit", "n_jobs")

Json: TypeAlias = Any
"""What JSON holds: strings, numbers, None, lists and dicts of these."""
Arrays: TypeAlias = dict[str, Array | Ids]


def described(parameters: Mapping[str, object], counted: Counted, fingerprint: int, **more: float | Array) -> Json:
    """Return what is fitted on what: parameters that change the answer, and what is known of the data."""
    named = {name: repr(value) for name, value in parameters.items() if name not in _UNIMPORTANT}
    known = {"rows": counted.n_rows, "features": counted.n_features, "mass": counted.total}
    chosen = {name: np.asarray(value).tolist() for name, value in more.items()}
    return named | known | {"mean of |x|^2": counted.mean_square, "data": f"{fingerprint:016x}"} | chosen


class Checkpoint:
    """The state of a fit, written after every step, in a file that one fit has at a time.

    Parameters
    ----------
    path : path-like
        It is read if there is a file, which has to be of the same problem.
    problem : dict
        See :func:`described`.
    """

    def __init__(self, path: str | PathLike[str], problem: Json) -> None:
        self.path, self.problem = Path(path), problem
        self.entries: dict[str, tuple[Json, Arrays]] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._lock: int | None = _locked(_lock_of(self.path))
        except OSError as error:
            raise self._refused(f"one in a folder where files can be made, got {error}; name another file") from error
        if self._lock is None:
            raise self._refused(
                "one of a fit that has ended, got one that another fit is writing; name another file, or wait for it"
            )
        try:
            if self.path.exists():
                self._read()
        except BaseException:
            self.release()
            raise

    def _refused(self, expected: str) -> ValueError:
        return ValueError(f"checkpoint={str(self.path)!r} is expected to be {expected}.")

    @contextmanager
    def _refusing_damage(self) -> Iterator[None]:
        """Say that the file is no checkpoint, whatever goes wrong with what was read from it."""
        try:
            yield
        except Exception as error:
            self.entries = {}
            raise self._refused(
                "a file that an earlier fit wrote, or none yet, got one that cannot be read; name another file, or "
                "remove it"
            ) from error

    def _read(self) -> None:
        with self._refusing_damage():
            content = io.BytesIO(self.path.read_bytes())
            with zipfile.ZipFile(content) as parts:
                if any(part.compress_type != zipfile.ZIP_STORED for part in parts.infolist()):
                    raise ValueError("Parts are compressed, and could be of any size.")
            with np.load(content, allow_pickle=False) as found:
                arrays = {name: found[name] for name in found.files}
            header = json.loads(str(arrays.pop("header")))
            if (header["format"], header["version"]) != (_FORMAT, _VERSION):
                raise ValueError(f"It is of version {header['version']}.")
            known = dict(header["problem"])
            for name, entry in dict(header["entries"]).items():
                needed = {key: arrays[member] for key, member in dict(entry["arrays"]).items()}
                self.entries[name] = entry["value"], needed
        different = [name for name, value in self.problem.items() if not _equal(known.get(name), value)]
        if different:
            self.entries = {}
            raise self._refused(
                f"of the same fit, got one with another {', '.join(different)}; name another file, or remove it"
            )

    def _keep(self, name: str, value: Json, arrays: Arrays) -> None:
        """Write down something under a name: as a whole, or not at all, for nobody else to read."""
        self.entries[name] = value, arrays
        members: dict[str, Any] = {}
        entries = {}
        for each, (noted, mine) in self.entries.items():
            places = {key: f"array-{len(members) + place}" for place, key in enumerate(mine)}
            members |= {places[key]: array for key, array in mine.items()}
            entries[each] = {"value": noted, "arrays": places}
        header = {"format": _FORMAT, "version": _VERSION, "problem": self.problem, "entries": entries}
        handle, unfinished = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, header=np.array(json.dumps(header)), **members)
            Path(unfinished).replace(self.path)
        finally:
            Path(unfinished).unlink(missing_ok=True)

    # Problems

    def note(self, problem: str, point: Point) -> None:
        """Write down where a solver has got to: coefficients, the densities it is smoothed around, and how much."""
        rows, centre, z = point.store, point.centre, point.z
        if isinstance(rows, FetchedRows):
            subset = rows.subset()
            assert subset is not None
            rows, centre = subset.whole, subset.extend(centre)
        assert isinstance(rows, ChunkedRows)
        if rows.view.units is not None:
            z = rows.join(*rows.view.units.outward(*rows.split(z)))
        arrays: Arrays = {"coef": z}
        recipes = [_encoded(recipe, rows.view, arrays) for recipe in lineage([centre.vector])]
        self._keep(problem, {"smoothing": point.mu, "density": centre.vector.token, "recipes": recipes}, arrays)

    def starts(self, problems: Problems) -> list[Solution | None]:
        """Return where to go on with each problem, None if it was not begun."""
        return [
            self._start(name, problem.rows) if name in self.entries else None
            for name, problem in zip(problems.names, problems.problems, strict=True)
        ]

    def _start(self, name: str, rows: Any) -> Solution:
        (noted, arrays), vectors = self.entries[name], dict[int, Vector]()
        with self._refusing_damage():
            for each in noted["recipes"]:
                recipe = _decoded(each, rows.view, arrays, rows.n_columns)
                vectors[recipe.token] = Vector(recipe, tuple(vectors[parent] for parent in recipe.parents))
            smoothing, density = _number(noted["smoothing"]), vectors[_whole(noted["density"])]
            coef = _floats(arrays["coef"], rows.n_columns)
            if not smoothing > 0.0:
                raise ValueError("The smoothing is not positive.")
        begun = Certificate(coef, 0.0, ChunkedDensity(rows, density), 0.0, objective=np.inf, dual_gap=np.inf)
        return Solution.of(begun, tol=0.0, n_iter=0, otherwise=StopReason.MAX_ITER, smoothing=smoothing)

    # Scores

    def keep_scores(self, name: str, scores: Array) -> None:
        """Write down the scores of a fold."""
        self._keep(name, {}, {"scores": scores})

    def scores(self, name: str, shape: tuple[int, ...]) -> Array | None:
        """Return the scores of a fold, None if it is not finished."""
        if name not in self.entries:
            return None
        with self._refusing_damage():
            scores = self.entries[name][1]["scores"]
            if scores.shape != shape or scores.dtype != np.float64:
                raise ValueError("The scores are of another grid.")
        return np.asarray(scores, dtype=np.float64)

    # The end

    def done(self) -> None:
        """Remove the file of a fit that has ended."""
        self.entries = {}
        self.path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        """Let another fit have the file."""
        if self._lock is not None:
            with suppress(OSError):  # where a file that is open cannot be removed, it stays
                _lock_of(self.path).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None


def _equal(one: Json, other: Json) -> bool:
    """Say whether two entries are equal; sums, which depend on the order of chunks, to rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=0.0))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and bool(one == other)


# Recipes as JSON: every field by what its annotation says; views are those of the problem, but for their units


def _encoded(recipe: Recipe, view: RowView, arrays: Arrays) -> Json:
    """Return a recipe in JSON, its arrays beside it."""

    def stored(array: Array | Ids) -> str:
        name = str(len(arrays))
        arrays[name] = array
        return name

    out: dict[str, Json] = {"kind": type(recipe).__name__}
    for field in fields(recipe):
        value = getattr(recipe, field.name)
        if isinstance(value, RowView):
            assert value.token == view.token
            units = value.units
            value = units and {"scale": stored(units.scale), "centre": stored(units.centre), "shift": units.shift}
        elif isinstance(value, np.ndarray):
            value = stored(value)
        out[field.name] = value
    return out


def _decoded(value: Json, view: RowView, arrays: Arrays, n_columns: int) -> Recipe:
    """Return a recipe from JSON, or raise an exception of any kind if it is none."""
    given = dict(value)
    kind = _RECIPES[given.pop("kind")]
    if set(given) != {field.name for field in fields(kind)}:
        raise ValueError("A recipe has other fields.")

    def read(name: str, annotation: str) -> object:
        found = given[name]
        match annotation:
            case "RowView":
                return replace(view, units=None if found is None else units(found))
            case "Array":
                return _floats(arrays[found], n_columns if name == "z" else None)
            case "Ids":
                ids = arrays[found]
                if ids.dtype != np.int64 or ids.ndim != 1 or (np.diff(ids) <= 0).any():
                    raise ValueError("Ids are expected to ascend.")
                return ids
            case "float":
                return _number(found)
            case "tuple[tuple[float, int], ...]":
                return tuple((_number(factor), _whole(token)) for factor, token in found)
            case "int | None" if found is None:
                return None
            case _:
                return _whole(found)

    def units(found: Json) -> Units:
        size = n_columns - view.ones
        scale, centre = (_floats(arrays[found[name]], size) for name in ("scale", "centre"))
        return Units(scale, centre, _number(found["shift"]))

    recipe: Recipe = kind(**{field.name: read(field.name, str(field.type)) for field in fields(kind)})
    if isinstance(recipe, Scattered) and recipe.ids.shape != recipe.values.shape:
        raise ValueError("A number is expected for every id.")
    return recipe


def _floats(array: Array | Ids, size: int | None) -> Array:
    if array.dtype != np.float64 or array.ndim != 1 or (size is not None and array.size != size):
        raise ValueError("A vector of another size is expected.")
    if not np.isfinite(array).all():
        raise ValueError("Numbers are expected to be finite.")
    return array  # type: ignore[return-value]


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise ValueError("A finite number is expected.")
    return float(value)


def _whole(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("A whole number is expected.")
    return value


# Locks: of a file beside the checkpoint, which is written under another name each time; the system drops them with
# the process


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _locked(path: Path) -> int | None:
    """Return a file that is open, and locked; None if somebody else has it."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(handle)
            return None
        except BaseException:
            os.close(handle)
            raise
        if path.exists() and os.path.samestat(path.stat(), os.fstat(handle)):
            return handle
        os.close(handle)  # whoever had it has just removed it
