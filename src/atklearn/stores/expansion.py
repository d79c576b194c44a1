"""What samples pay: their losses at given predictions, with slope and curvature, one number per sample each."""

from __future__ import annotations

import numpy as np

from atklearn.losses.compiled import compiled
from atklearn.losses.individual import Array, IndividualLoss, Kink
from atklearn.stores import passes, threads
from atklearn.stores.picking import Places

__all__ = ["Losses", "Paying"]

# Predictions whose losses a loss without compiled code expands at once, so that its temporaries stay in the cache.
_BLOCK = 8192


class Losses:
    """What is known at one z: predictions, smooth parts and their slopes, densities and pulls ``a = u r s'``."""

    __slots__ = ("a", "f", "r", "s", "slope")

    def __init__(self, n_rows: int, numbers: Array | None = None) -> None:
        numbers = np.empty((5, n_rows)) if numbers is None else numbers
        self.f: Array = numbers[0]
        self.s: Array = numbers[1]
        self.slope: Array = numbers[2]
        self.r: Array = numbers[3]
        self.a: Array = numbers[4]


class Paying:
    """Targets and the loss they pay, without the features.

    Parameters
    ----------
    loss : IndividualLoss
    y : ndarray of shape (n_rows,)
    """

    def __init__(self, loss: IndividualLoss, y: Array) -> None:
        self.loss, self.y = loss, y
        self.kink = Kink(loss.kink)
        self.compiled_loss = compiled(loss)

    def expand(self, start: Array, t: float, direction: Array, into: Losses) -> None:
        """Fill in predictions ``start + t * direction``, ``s`` and its slope."""
        if self.compiled_loss is not None:
            arguments = self.compiled_loss, start, t, direction, self.y, into.f, into.s, into.slope
            threads.over_rows(passes.expand_along, self.y.size, 3.0, *arguments)
            return
        into.f[:] = start + t * direction
        for begin in range(0, self.y.size, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            into.s[part], into.slope[part], _ = self.loss.expand(into.f[part], self.y[part])

    def curvatures(self, at: Losses, rows: Places, *, cautious: bool) -> Array:
        """Return the second derivatives of ``s`` for some rows: see :meth:`atklearn.core.point.Point.curvature`."""
        if self.compiled_loss is None:
            out = np.asarray(self.loss.expand(at.f[rows], self.y[rows])[2], dtype=np.float64)
        else:
            out = np.empty(rows.size)
            threads.over_rows(passes.curvatures, rows.size, 3.0, self.compiled_loss, at.f, self.y, rows, out)
        if cautious and self.kink is Kink.NONE:
            out = np.maximum(out, at.slope[rows] ** 2 / np.maximum(2.0 * at.s[rows], 1e-300))
        return out
