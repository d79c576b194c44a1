"""Samples as a distribution: what is chosen on it depends on neither their order nor how repetition is written down.

A sample of weight 2 is the sample twice. A splitter of rows does not know: it sends the one row to one fold and the two
rows to two. Here equal samples are first made one, with the mass of all; they are put in an order that is drawn from
their values; and it is mass that is cut into folds, so that a sample on a cut lies on both of its sides, in part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from atklearn.encoding.encoded import Encoded
from atklearn.losses.individual import Array
from atklearn.runtime.namespaces import Features, Labels, Vector, is_tensor, on_host
from atklearn.selection.folds import Split

__all__ = ["Distribution", "Marked", "few_marked", "few_tensor_rows", "merged", "row_marks"]

Marks = npt.NDArray[np.uint64]
# Distinct samples: marks, features, targets (those of classes as 0, 1, ...) and the mass of all that are equal.
Marked: TypeAlias = tuple[Marks, Features, Array, Array]

# Entries that are looked at at a time.
_BLOCK = 1_000_000
# How many more marks are asked for than are wanted, at first and again if they are too few.
_MORE = 1.5
_AGAIN = 8.0
# A part of a sample that is smaller, relative to it, is rounding.
_NO_PART = 1e-9


@dataclass(frozen=True)
class Distribution:
    """Distinct samples and their mass, in an order drawn from their values.

    Attributes
    ----------
    rows : ndarray of shape (n_distinct,)
        Where each of them stands first.
    mass : ndarray of shape (n_distinct,)
        Of all rows that are equal to it.
    codes : ndarray of shape (n_distinct,)
        Its class as 0, 1, ...; 0 for all of a regression.
    marks : ndarray of shape (n_distinct,)
        A number drawn from its values.

    Examples
    --------
    >>> X, y = np.array([[3.0], [1.0], [3.0], [2.0]]), np.zeros(4)
    >>> repeated = Distribution.of(X, y, np.ones(4))
    >>> weighted = Distribution.of(X[1:], y[1:], np.array([1.0, 2.0, 1.0]))
    >>> bool((X[repeated.rows] == X[1:][weighted.rows]).all() and (repeated.mass == weighted.mass).all())
    True
    """

    rows: npt.NDArray[np.intp]
    mass: Array
    codes: npt.NDArray[np.intp]
    marks: Marks

    @classmethod
    def of(cls, X: Features, y: Labels, mass: Array, *, classification: bool = False) -> Distribution:
        """Return the distribution of samples; those without mass have no part in it."""
        kept = np.flatnonzero(mass > 0.0)
        if kept.size < mass.size:
            X, y, mass = X[kept], y[kept], mass[kept]
        codes = np.unique(y, return_inverse=True)[1] if classification else np.zeros(y.size, dtype=np.intp)
        target = codes if classification else y
        marks, first, which = np.unique(row_marks(X, np.asarray(target)), return_index=True, return_inverse=True)
        together = np.asarray(np.bincount(which, weights=mass), dtype=np.float64)
        return cls(kept[first], together, codes[first], marks)

    @property
    def rarest(self) -> int:
        """How many distinct samples the class has that has fewest."""
        return int(np.bincount(self.codes).min())

    def thinned(self, at_most: int) -> Distribution:
        """Return about that many of the samples at most, as many of each class as there are, up to an equal number.

        The classes keep their shares of the mass, and the samples their mean mass.
        """
        if self.rows.size <= at_most:
            return self
        each = max(at_most // (int(self.codes.max()) + 1), 1)
        masses = np.asarray(np.bincount(self.codes, weights=self.mass), dtype=np.float64)
        kept, mass = _first_of_classes(each, self.codes, self.mass, masses, self.rows.size)
        return Distribution(self.rows[kept], mass, self.codes[kept], self.marks[kept])

    def cut(self, n_folds: int, seed: int) -> tuple[npt.NDArray[np.intp], Array, list[Split]]:
        """Cut the mass of every class into equal parts, in an order drawn from the values and the seed.

        Returns
        -------
        rows : ndarray of shape (n_pieces,)
            Whose piece it is, as a place in the data; more than one where a sample lies on a cut.
        mass : ndarray of shape (n_pieces,)
        splits : list of tuples of ndarrays
            Which pieces to fit and which to judge on, a tuple per fold.

        Examples
        --------
        >>> X = np.arange(5.0)[:, None]
        >>> rows, mass, splits = Distribution.of(X, X[:, 0], np.ones(5)).cut(2, seed=0)
        >>> np.sort(mass), [float(mass[judged].sum()) for _, judged in splits]
        (array([0.5, 0.5, 1. , 1. , 1. , 1. ]), [2.5, 2.5])
        """
        order = np.argsort(_mixed(self.marks.view(np.int64) + seed).view(np.uint64))
        parts = np.empty((order.size, n_folds))
        for code in np.unique(self.codes):
            own = order[self.codes[order] == code]
            ends = self.mass[own].cumsum()
            whole = ends[-1] / n_folds
            cuts = whole * np.arange(n_folds)
            reached = np.clip(ends[:, None] - cuts, 0.0, whole)
            parts[own] = np.diff(reached, axis=0, prepend=0.0)
        places, fold = np.nonzero(parts > _NO_PART * self.mass[:, None])
        splits = [(np.flatnonzero(fold != each), np.flatnonzero(fold == each)) for each in range(n_folds)]
        return self.rows[places], parts[places, fold], splits


def row_marks(X: Features, target: Vector, seed: int = 0) -> Vector:
    """Return a number for every sample, the same for equal ones and as good as random for others.

    Of tensors it has a sign, which those of PyTorch all have, and the same bits.
    """
    rng = np.random.default_rng(0)  # an odd number for the bits of each feature, and for those of the target
    factors = 2 * rng.integers(1, 2**63, X.shape[1] + 1, dtype=np.uint64).view(np.int64) + 1
    marks = _mixed_bits(target)
    if is_tensor(X):
        factors = marks.new_tensor(factors)
    marks = marks * factors[-1]
    if sp.issparse(X):
        bits = sp.csr_array((_mixed_bits(X.data).view(np.uint64), X.indices, X.indptr), X.shape)
        marks += (bits @ factors[:-1].view(np.uint64)).view(np.int64)
    else:
        step = max(_BLOCK // X.shape[1], 1)
        for start in range(0, len(X), step):
            marks[start : start + step] += (_mixed_bits(X[start : start + step]) * factors[:-1]).sum(axis=1)
    marks = _mixed(marks + seed)
    return marks if is_tensor(X) else marks.view(np.uint64)


def merged(marks: Marks, X: Features, y: Array, mass: Array) -> Marked:
    """Return distinct samples in the order of their marks."""
    distinct, first, which = np.unique(marks, return_index=True, return_inverse=True)
    return distinct, X[first], y[first], np.asarray(np.bincount(which, weights=mass), np.float64)


def few_marked(
    ask: Callable[[Array], Marked],
    codes_of: Callable[[Array], npt.NDArray[np.intp]],
    sizes: Labels,
    masses: Array,
    at_most: int,
) -> tuple[Features, Array, Array]:
    """Return features, targets and mass of about that many samples at most, as :meth:`Distribution.thinned` does.

    Parameters
    ----------
    ask : callable
        Takes limits of the marks of each class, as parts of the largest; returns the distinct samples below them.
    codes_of : callable
        Takes targets, returns the class of each.
    sizes, masses : ndarray of shape (n_classes,)
        How many samples of each class have mass, and how much.
    at_most : int
    """
    n_rows = int(sizes.sum())
    each = max(at_most // sizes.size, 1)
    factor = _MORE
    while True:
        limits = np.minimum(factor * each / np.maximum(sizes, 1), 1.0)
        if n_rows <= at_most:
            limits = np.ones(sizes.size)
        marks, X, y, mass = ask(limits)
        codes = codes_of(y)
        found = np.bincount(codes, minlength=sizes.size)
        if ((found >= each) | (limits == 1.0)).all():
            break
        factor *= _AGAIN
    if marks.size > at_most or (limits < 1.0).any():
        kept, mass = _first_of_classes(each, codes, mass, masses, n_rows)
        X, y = X[kept], y[kept]
    return X, y, mass


def _first_of_classes(
    count: int, codes: npt.NDArray[np.intp], mass: Array, masses: Array, n_rows: int
) -> tuple[npt.NDArray[np.intp], Array]:
    """Return the places of the first samples of each class, and their mass: its share of all, and the mean of rows."""
    kept = np.sort(np.concatenate([np.flatnonzero(codes == code)[:count] for code in np.unique(codes)]))
    share = masses / np.maximum(np.bincount(codes[kept], weights=mass[kept], minlength=masses.size), 1e-300)
    return kept, mass[kept] * share[codes[kept]] * (kept.size / n_rows)


def few_tensor_rows(data: Encoded, at_most: int) -> Encoded:
    """Return about that many samples of tensors at most, on the host, as :meth:`Distribution.thinned` does."""
    if data.n_samples <= at_most:
        return data.on_host()
    from atklearn.encoding.tensors import class_masses

    X, mass = data.X, data.weight
    has_labels = data.classes is not None
    n_classes = 1 if data.classes is None else data.classes.size
    codes, target = data.y.long() if has_labels else data.y.new_zeros(len(X)).long(), data.y.double()
    parts = row_marks(X, target).double()
    parts = parts.where(parts >= 0.0, parts + 2.0**64) / 2.0**64  # as numbers without a sign
    present = mass > 0.0
    sizes = class_masses(codes, present.double(), n_classes)

    def below(limits: Array) -> Marked:
        places = ((parts <= parts.new_tensor(limits)[codes]) & present).nonzero()[:, 0]
        rows, targets = X[places], target[places]
        marks = on_host(row_marks(rows, targets)).view(np.uint64)
        return merged(marks, on_host(rows), on_host(targets), on_host(mass[places]))

    def codes_of(targets: Array) -> npt.NDArray[np.intp]:
        return targets.astype(np.intp) if has_labels else np.zeros(targets.size, dtype=np.intp)

    few, targets, few_mass = few_marked(below, codes_of, sizes, class_masses(codes, mass, n_classes), at_most)
    y = codes_of(targets) if has_labels else targets
    return Encoded(y, few_mass, data.classes, X=few, encoder=data.encoder, is_weighted=True)


def _mixed_bits(values: Vector) -> Features:
    """Return the bits of numbers, mixed; zero for zero, be it stored or not."""
    if is_tensor(values):
        import torch

        return _mixed((values.double() + 0.0).view(torch.int64))
    return _mixed((np.asarray(values, dtype=np.float64) + 0.0).view(np.int64))


def _mixed(bits: Features) -> Features:
    """Return integers of 64 bits, every one of which depends on every bit of these: the last steps of SplitMix64."""
    bits = (bits ^ _shifted(bits, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    bits = (bits ^ _shifted(bits, 27)) * (0x94D049BB133111EB - (1 << 64))
    return bits ^ _shifted(bits, 31)


def _shifted(bits: Features, by: int) -> Features:
    """Shift to the right, zeros from the left."""
    return (bits >> by) & ((1 << (64 - by)) - 1)
