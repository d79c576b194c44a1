"""Where the laws of rows are tried: small data with ties and zeros on every kind of rows, paying every loss."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp

from atklearn.chunked.chunk import RowView
from atklearn.chunked.chunk_store import ChunkedRows
from atklearn.chunked.chunks import summarize
from atklearn.chunked.engine import Coordinator
from atklearn.core.store import PlainStore
from atklearn.losses.individual import INDIVIDUAL_LOSSES, IndividualLoss, Kink
from atklearn.ondisk.array_chunks import ArrayBlocks, ExecutorEngine
from atklearn.stores.compiled import CompiledRows

HAS_TORCH = find_spec("torch") is not None


class LogCosh(IndividualLoss):
    """A loss of a user, which exists in Python only."""

    task = "regression"

    def expand(self, prediction, target):
        error = prediction - target
        slope = np.tanh(error)
        return np.logaddexp(error, -error) - np.log(2.0), slope, 1.0 - slope**2


class InLine(Executor):
    """An executor that works where it is called: so few rows are done before a thread has heard of them."""

    def map(self, function, *items):
        return map(function, *items)


def in_chunks(X, y, mass, loss, ones):
    """Return rows in chunks: one of a single row, an empty one, one with most of the rows."""
    ends = [1, 1, 4, 5, y.size - 2, y.size]
    engine = ExecutorEngine(ArrayBlocks(X, y, mass, ends=ends), InLine())
    coordinator = Coordinator(engine)
    counted = summarize(coordinator, X.shape[1], has_labels=False).counted()
    return ChunkedRows(coordinator, RowView(0, loss, ones), counted)


KINDS = {
    "plain": lambda X, *others: PlainStore(X.astype(np.float64), *others),
    "dense64": lambda X, *others: CompiledRows(X.astype(np.float64), *others),
    "dense32": CompiledRows,
    "csr": lambda X, *others: CompiledRows(sp.csr_array(X.astype(np.float64)), *others),
    "chunked": lambda X, *others: in_chunks(X.astype(np.float64), *others),
}
if HAS_TORCH:
    import torch

    from atklearn.stores.tensors.tensor_store import TensorRows

    def as_tensors(X, y, mass, loss, ones):
        return TensorRows(torch.from_numpy(X), torch.from_numpy(y), torch.from_numpy(mass), loss, ones)

    def on_gpu(X, y, mass, loss, ones):
        y = torch.from_numpy(y).to(torch.int8 if loss.task == "classification" else torch.float64)
        return TensorRows(torch.from_numpy(X).cuda(), y.cuda(), torch.from_numpy(mass).cuda(), loss, ones)

    KINDS |= {"tensor64": lambda X, *others: as_tensors(X.astype(np.float64), *others), "tensor32": as_tensors}
    if torch.cuda.is_available():
        KINDS |= {"cuda64": lambda X, *others: on_gpu(X.astype(np.float64), *others), "cuda32": on_gpu}
LOSSES = {name: cls() for name, cls in INDIVIDUAL_LOSSES.items()} | {"log_cosh": LogCosh()}
SHARES = (0.02, 0.3, 0.75, 1.0)  # of the mass that is in the top: less than one sample, some, most, all


@dataclass(frozen=True)
class Stand:
    """Rows of some kind, and what they are made of, to compute by definition."""

    rows: Any
    design: np.ndarray
    y: np.ndarray
    mass: np.ndarray
    loss: IndividualLoss
    rng: np.random.Generator

    @property
    def kink(self) -> Kink:
        return Kink(self.loss.kink)

    def coefficients(self) -> np.ndarray:
        return self.rng.standard_normal(self.rows.n_columns)

    def density(self, k: float) -> np.ndarray:
        """Draw densities within their bounds, some of them at a bound, of sum 1 at most."""
        low = -1.5 if self.kink.is_two_sided else -0.5
        r = np.clip(self.rng.uniform(low, 1.5, self.y.size), 0.0 if low > -1.0 else -1.0, 1.0)
        return r / max(1.0, self.mass / k @ np.abs(r))

    def expand(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.loss.expand(self.design @ z, self.y)

    def losses(self, z: np.ndarray) -> np.ndarray:
        return self.kink.loss(self.expand(z)[0])

    def points(self, shares: tuple[float, ...] = SHARES):
        """Yield smoothed points at several k and mu: z, k, mu, centre, point, reading."""
        for share in shares:
            for mu in (0.05, 1.0):
                z, k = self.coefficients(), share * self.rows.total
                centre = self.density(k)
                point = self.rows.point(z, k, centre)
                yield z, k, mu, centre, point, point.smooth(mu)


def make_stand(kind: str, loss: str, ones: bool, seed: int = 0, n: int = 30, d: int = 3) -> Stand:
    """Draw rows of unequal mass; every third row occurs twice, so that losses tie."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)).astype(np.float32)
    f = X @ rng.standard_normal(d) + 0.3 + rng.standard_normal(n)
    y = np.where(f > 0.0, 1.0, -1.0) if LOSSES[loss].task == "classification" else f
    twice = np.sort(np.append(np.arange(n), np.arange(0, n, 3)))
    X, y, mass = X[twice], y[twice], rng.uniform(0.5, 2.0, twice.size)
    design = np.column_stack([X, np.ones(y.size)]) if ones else X
    rows = KINDS[kind](X, y, mass, LOSSES[loss], ones)
    return Stand(rows, design.astype(np.float64), y, mass, LOSSES[loss], rng)


def as_array(numbers: Any) -> np.ndarray:
    """Return numbers, one per row, wherever they lie."""
    return np.asarray(numbers.cpu() if hasattr(numbers, "cpu") else numbers)


def read_density(point: Any) -> np.ndarray:
    """Return the densities of a point that is smoothed: a proof hands them out, feasible beyond rounding."""
    r = as_array(point.prove(balanced=False).density)
    return np.where(np.abs(r) > 1.0 - 1e-12, np.sign(r), r)


def average_of_top(losses: np.ndarray, mass: np.ndarray, k: float) -> float:
    """Return AT_k by its definition: from the largest loss down until the mass is k."""
    order = np.argsort(-losses)
    before = np.cumsum(mass[order]) - mass[order]
    return float(np.clip(k - before, 0.0, mass[order]) @ losses[order]) / k
