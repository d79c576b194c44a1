"""What the theorems may be asked about: counts, shares and sizes, or one sentence that says what was expected."""

from __future__ import annotations

from numbers import Integral

from atklearn.runtime.messages import shown

__all__ = ["check_count", "check_finite", "check_share"]


def check_count(name: str, value: int, remedy: str, most: float = 1e302) -> None:
    """Raise ValueError unless there is at least one sample, and no more than floats count."""
    if not isinstance(value, Integral) or not 1 <= value <= most:
        raise ValueError(
            f"{name} is expected to be an int of at least 1 and at most {most:g}, got {shown(value)}; {remedy}."
        )


def check_share(name: str, value: float, remedy: str) -> None:
    """Raise ValueError unless a number is between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} is expected in (0, 1), got {shown(value)}; {remedy}.")


def check_finite(name: str, value: float, remedy: str) -> float:
    """Return a number, or raise ValueError unless it is positive and finite."""
    if not 0.0 < value < float("inf"):
        raise ValueError(f"{name} is expected to be finite and > 0, got {shown(value)}; {remedy}.")
    return value
