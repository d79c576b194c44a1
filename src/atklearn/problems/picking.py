"""Which rows: samples of them, and those with the largest losses."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from atklearn.losses.individual import Array

__all__ = ["PickedRows", "Places", "largest_places", "sample_runs"]

Places: TypeAlias = npt.NDArray[np.intp]

# Neighbouring rows drawn together.
_RUN = 8


def sample_runs(parts: tuple[Places, Places], most: int, seed: int) -> tuple[Places, Array]:
    """Draw up to ``most`` rows from each part; return them and how many rows each stands for."""
    rng = np.random.default_rng(seed)
    picked, scales = [], []
    for part in parts:
        sample = part
        if part.size > most:  # short runs, one from each of as many equal parts: random, yet quick to read
            runs = most // _RUN
            starts = ((np.arange(runs) + rng.random(runs)) * ((part.size - _RUN) / runs)).astype(np.intp)
            sample = part[(starts[:, None] + np.arange(_RUN)).ravel()]
        picked.append(sample)
        scales.append(np.full(sample.size, part.size / max(sample.size, 1)))
    return np.concatenate(picked), np.concatenate(scales)


def largest_places(losses: Array, count: int) -> Places:
    """Return the sorted places of the largest losses."""
    count = min(max(count, 1), losses.size)
    return np.sort(np.argpartition(losses, losses.size - count)[losses.size - count :])


class PickedRows:
    """Some of the rows, and their places."""

    def __init__(self, whole: Any, places: Places) -> None:
        self.whole, self.places = whole, places
        self.rows = whole.take(places)

    def restrict(self, density: Array) -> Array:
        """Return the densities of these rows."""
        return density[self.places]

    def extend(self, density: Array) -> Array:
        """Return densities of all rows."""
        out = np.zeros(self.whole.n_rows)
        out[self.places] = density
        return out
