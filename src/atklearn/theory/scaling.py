"""The C of this library and the C of the paper."""

from __future__ import annotations

from atklearn.losses.aggregate import resolve_k

__all__ = ["paper_C"]


def paper_C(C: float, k: float, n_samples: int) -> float:
    """Convert a C of this library to the C of the paper's Eq. 3, which divides the top-k sum by n.

    Parameters
    ----------
    C : float
        Regularisation strength of ``AT_k + |w|^2 / (2 C)``.
    k : int or float
        An int counts samples, a float is the fraction of them.
    n_samples : int

    Returns
    -------
    paper_C : float
        ``C n / k``.

    Examples
    --------
    >>> from atklearn.theory import paper_C
    >>> paper_C(1.0, k=50, n_samples=200)
    4.0
    """
    return C * n_samples / resolve_k(k, n_samples)
