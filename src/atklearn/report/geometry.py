"""The lines and half planes of a :class:`atklearn.report.content.Plane`, cut to the window that is shown."""

from __future__ import annotations

import math
from typing import NamedTuple

from atklearn.report.content import Line, Plane

__all__ = ["Outline", "Window", "half_plane", "segment", "window_of"]


class Outline(NamedTuple):
    """Corners, as coordinates."""

    x: list[float]
    y: list[float]


class Window(NamedTuple):
    """The part of the plane that is shown."""

    left: float
    right: float
    bottom: float
    top: float

    @property
    def equal(self) -> bool:
        """Whether both axes can have the same scale without one becoming a sliver."""
        return 0.25 <= (self.right - self.left) / (self.top - self.bottom) <= 4.0


def window_of(plane: Plane) -> Window:
    """Return the window around the points, with a margin."""
    left, right = _interval([value for points in plane.points for value in points.x])
    bottom, top = _interval([value for points in plane.points for value in points.y])
    return Window(left, right, bottom, top)


def _interval(values: list[float]) -> tuple[float, float]:
    finite = [float(value) for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    margin = 0.06 * (high - low) or 1.0
    return low - margin, high + margin


def segment(line: Line, window: Window) -> Outline | None:
    """Return the part of the boundary inside the window; None if there is none.

    Examples
    --------
    >>> segment(Line("diagonal", 1.0, -1.0, 0.0), Window(0.0, 2.0, 0.0, 1.0))
    Outline(x=[0.0, 1.0], y=[0.0, 1.0])
    >>> segment(Line("collapsed", 0.0, 0.0, 1.0), Window(0.0, 2.0, 0.0, 1.0)) is None
    True
    """
    corners = _corners(line, window)
    if corners is None:
        return None
    ends = _crossings(corners)
    return Outline([x for x, _, _ in ends], [y for _, y, _ in ends]) if len(ends) == 2 else None


def half_plane(line: Line, window: Window, side: float) -> Outline | None:
    """Return the polygon of the window where ``a x + b y + c`` has the sign of ``side``; None if it is empty.

    Examples
    --------
    >>> half_plane(Line("upright", 1.0, 0.0, -0.5), Window(0.0, 1.0, 0.0, 1.0), 1.0)
    Outline(x=[0.5, 1.0, 1.0, 0.5], y=[0.0, 0.0, 1.0, 1.0])
    """
    corners = _corners(line, window)
    if corners is None:
        return None
    polygon = []
    for corner, following in zip(corners, corners[1:] + corners[:1], strict=True):
        if corner[2] * side >= 0:
            polygon.append(corner)
        if corner[2] * following[2] < 0:
            polygon.append(_cross(corner, following))
    return Outline([x for x, _, _ in polygon], [y for _, y, _ in polygon]) if len(polygon) > 2 else None


def _corners(line: Line, window: Window) -> list[tuple[float, float, float]] | None:
    """Return the corners of the window with the value of the line there; None for a line that is none."""
    a, b, c = float(line.a), float(line.b), float(line.c)
    scale = max(abs(a), abs(b))
    if not scale > 0 or not math.isfinite(a + b + c):
        return None
    a, b, c = a / scale, b / scale, c / scale  # else tiny weights underflow below
    places = [(window.left, window.bottom), (window.right, window.bottom)]
    places += [(window.right, window.top), (window.left, window.top)]
    return [(x, y, a * x + b * y + c) for x, y in places]


def _crossings(corners: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return where the boundary meets the edges; a corner it goes through counts once."""
    crossings = []
    for corner, following in zip(corners, corners[1:] + corners[:1], strict=True):
        if corner[2] == 0:
            crossings.append(corner)
        elif corner[2] * following[2] < 0:
            crossings.append(_cross(corner, following))
    return crossings


def _cross(one: tuple[float, float, float], other: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the zero between two corners of opposite signs."""
    t = one[2] / (one[2] - other[2])
    return one[0] + t * (other[0] - one[0]), one[1] + t * (other[1] - one[1]), 0.0
