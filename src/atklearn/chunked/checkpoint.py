"""What a fit has reached, in a file: small, whatever the number of rows, and enough to go on from."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from atklearn.chunked.chunk import Step, Vector, history
from atklearn.chunked.chunk_store import ChunkedDensity, ChunkedRows, ChunkState
from atklearn.chunked.survey import Counted
from atklearn.core.problem import Solution, StopReason
from atklearn.losses.individual import Array
from atklearn.runtime.files import write_whole

__all__ = ["Checkpoint", "subject_of"]

# Parameters that say how far to go, or how to tell of it: a fit may be resumed with others.
_UNIMPORTANT = ("tol", "max_iter", "warm_start", "verbose", "solver", "refit", "n_jobs")


def subject_of(parameters: dict[str, Any], counted: Counted, **more: Any) -> dict[str, Any]:
    """Return what is fitted on what: parameters that change the answer, and what is known of the data."""
    named = {name: repr(value) for name, value in parameters.items() if name not in _UNIMPORTANT}
    known = {"rows": counted.n_rows, "features": counted.n_features, "mass": counted.total}
    return named | known | {"mean of |x|^2": counted.mean_square} | more


@dataclass(frozen=True)
class _Reached:
    """Where a problem has got to: coefficients, the densities around which it was smoothed, and how much."""

    coef: Array
    smoothing: float
    token: int
    steps: tuple[Step, ...]


@dataclass
class Checkpoint:
    """The state of a fit, written after every step.

    Parameters
    ----------
    path : path-like
    subject : dict
        What is fitted on what: a checkpoint of something else is refused.
    """

    path: Path
    subject: dict[str, Any]
    reached: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def at(cls, path: Any, subject: dict[str, Any]) -> Checkpoint:
        """Open a checkpoint, or begin one if there is no file."""
        path = Path(path)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return cls(path, subject)
        try:
            found = pickle.loads(path.read_bytes())
            known, reached = found["subject"], found["reached"]
        except Exception as error:
            raise ValueError(
                f"checkpoint={str(path)!r} is expected to be a file that an earlier fit wrote, or none yet, got one "
                "that cannot be read; name another file, or remove it."
            ) from error
        different = [name for name in subject if not _equal(known.get(name), subject[name])]
        if different:
            raise ValueError(
                f"checkpoint={str(path)!r} is expected to be of the same fit, got one with another "
                f"{', '.join(different)}; name another file, or remove it."
            )
        return cls(path, subject, reached)

    def note(self, problem: str, state: ChunkState) -> None:
        """Write down where a problem has got to."""
        rows, centre, coef = state.rows, state.centre, state.z
        if centre is None:
            return
        if rows.view.units is not None:
            coef = rows.join(*rows.view.units.outward(*rows.split(coef)))
        self.keep(problem, _Reached(coef, state.mu, centre.token, history([centre])))

    def keep(self, name: str, value: Any) -> None:
        """Write down a value under a name."""
        self.reached[name] = value
        write_whole(self.path, pickle.dumps({"subject": self.subject, "reached": self.reached}))

    def start(self, problem: str, rows: ChunkedRows) -> Solution | None:
        """Return where to go on with a problem, or None if it was not begun."""
        found = self.reached.get(problem)
        if found is None:
            return None
        vectors: dict[int, Vector] = {}
        for step in found.steps:
            vectors[step.token] = Vector(step, tuple(vectors[parent] for parent in step.parents))
        return Solution(
            coef=found.coef,
            intercept=0.0,
            density=ChunkedDensity(rows, vectors[found.token]),
            threshold=0.0,
            objective=np.inf,
            dual_gap=np.inf,
            n_iter=0,
            stop_reason=StopReason.MAX_ITER,
            smoothing=found.smoothing,
        )

    def done(self) -> None:
        """Remove the file of a fit that has ended."""
        self.path.unlink(missing_ok=True)


def _equal(one: Any, other: Any) -> bool:
    """Say whether two entries are the same; sums, which depend on the order of chunks, to rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=1e-9, atol=0.0))
    return bool(np.all(one == other)) if type(one) is type(other) and np.shape(one) == np.shape(other) else False
