"""Data sets that need no download: the toy cases, Sinc, two real sets that follow from a rule or a table; deliveries.

But for the deliveries, each generator returns X and y in float64, the labels of classes being -1 and +1.
"""

from __future__ import annotations

import itertools
from numbers import Integral

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from sklearn.utils import check_random_state

from atklearn.losses.individual import Array
from atklearn.runtime.messages import shown

__all__ = ["bayes_boundary", "check_case", "make_deliveries", "make_monk", "make_sinc", "make_titanic", "make_toy"]

Seed = int | np.random.RandomState | None

_SPREAD = 0.22
_NOISE = 0.2

# Dawson (1995): class (crew is 4), child, male, how many died, how many survived. No child was among the crew.
_TITANIC_CELLS = (
    (1, 0, 0, 4, 140), (1, 0, 1, 118, 57), (1, 1, 0, 0, 1), (1, 1, 1, 0, 5),
    (2, 0, 0, 13, 80), (2, 0, 1, 154, 14), (2, 1, 0, 0, 13), (2, 1, 1, 0, 11),
    (3, 0, 0, 89, 76), (3, 0, 1, 387, 75), (3, 1, 0, 17, 14), (3, 1, 1, 35, 13),
    (4, 0, 0, 3, 20), (4, 0, 1, 670, 192),
)  # fmt: skip

_VEHICLES = {"van": 0.53, "scooter": 0.35, "bike": 0.12}
_DISTANCE = (1.0, 6.0)  # kilometres
_CLIMB = (0.0, 110.0)  # metres
_OLD_TOWN, _CASTLE = (0.0, 20.0), (80.0, 110.0)
_PER_KM = 4.0
_START, _BIKE_START = 15.0, 3.0  # an engine has to be loaded, and parked
_PER_M, _BIKE_PER_M = 0.01, 0.25
_MINUTES_OF_NOISE = 1.0


def check_case(case: int) -> None:
    """Raise if the paper has no such toy case."""
    if case not in range(1, 7):
        raise ValueError(f"case is expected to be one of the paper's toy cases 1 to 6, got {shown(case)}.")


def _check_size(n_samples: int) -> None:
    if not isinstance(n_samples, Integral) or n_samples < 1:
        raise ValueError(f"n_samples is expected to be a whole number of at least 1, got {shown(n_samples)}.")


def make_toy(case: int = 4, *, random_state: Seed = None) -> tuple[Array, Array]:
    """Generate one of the paper's six two-dimensional toy cases: 200 points in Gaussian clusters, labels -1 and +1.

    ====  ============================================================================
    case  points
    ====  ============================================================================
    1     100 positive around (0, 0), 100 negative around (2, 2)
    2     case 1, with the first positive moved to (2, 2.5): an outlier
    3     case 1, with 10 of the positive around (1, 1): a rare group
    4     case 3, with the outlier of case 2
    5     196 positive around (0, 0), 4 negative around (1, 1): imbalance
    6     case 5, with the first positive moved to (1, 1.15): an outlier
    ====  ============================================================================

    Parameters
    ----------
    case : int, default=4
        From 1 to 6.
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (200, 2)
    y : ndarray of shape (200,)

    Examples
    --------
    >>> from atklearn.datasets import make_toy
    >>> X, y = make_toy(6, random_state=0)
    >>> X[0].tolist(), int((y < 0).sum())
    ([1.0, 1.15], 4)
    """
    check_case(case)
    n_negative = 100 if case <= 4 else 4
    y = np.repeat([1.0, -1.0], [200 - n_negative, n_negative])
    centre = np.where(y[:, None] > 0, 0.0, 2.0 if case <= 4 else 1.0) * np.ones(2)
    if case in (3, 4):
        centre[90:100] = 1.0
    X: Array = centre + _SPREAD * check_random_state(random_state).standard_normal((200, 2))
    if case in (2, 4):
        X[0] = (2.0, 2.5)
    if case == 6:
        X[0] = (1.0, 1.15)
    return X, y


def bayes_boundary(case: int) -> tuple[float, float, float]:
    """Return the Bayes classifier of a toy case, outliers apart: positive where ``a x + b y + c > 0``.

    All clusters have the same round shape and their centres lie on the diagonal, so the densities of the classes
    compare alike along every line across it: the best boundary is ``x + y = 2 t``, with the classes balanced at (t, t).

    Parameters
    ----------
    case : int
        From 1 to 6: see :func:`make_toy`.

    Returns
    -------
    a, b, c : float

    Examples
    --------
    >>> from atklearn.datasets import bayes_boundary
    >>> a, b, c = bayes_boundary(1)
    >>> round(a + b + c, 6)  # half way between (0, 0) and (2, 2)
    0.0
    """
    check_case(case)
    positive = {0.0: 90.0, 1.0: 10.0} if case in (3, 4) else {0.0: 100.0 if case <= 4 else 196.0}
    negative = {2.0: 100.0} if case <= 4 else {1.0: 4.0}

    def log_density(t: float, clusters: dict[float, float]) -> float:
        # the distance from (t, t) to the centre (m, m) is sqrt(2) |t - m|
        terms = [np.log(count) - ((t - centre) / _SPREAD) ** 2 for centre, count in clusters.items()]
        return float(np.logaddexp.reduce(terms))

    t = brentq(lambda t: log_density(t, positive) - log_density(t, negative), 0.0, max(negative))
    return -1.0, -1.0, 2.0 * float(t)


def make_sinc(n_samples: int = 1000, *, random_state: Seed = None) -> tuple[Array, Array]:
    r"""Generate the paper's Sinc regression: a noisy curve, seen through ten radial basis functions.

    .. math::

        y = \frac{\sin x}{x} + \varepsilon, \qquad X_j = \exp(-(x - c_j)^2), \quad j = 1, \dots, 10,

    with x uniform on [-10, 10], the centres c evenly spaced over it and eps normal with standard deviation 0.2.

    Parameters
    ----------
    n_samples : int, default=1000
    random_state : int, RandomState instance or None, default=None

    Returns
    -------
    X : ndarray of shape (n_samples, 10)
    y : ndarray of shape (n_samples,)

    Examples
    --------
    >>> from atklearn.datasets import make_sinc
    >>> X, y = make_sinc(random_state=0)
    >>> X.shape, y.shape
    ((1000, 10), (1000,))
    """
    _check_size(n_samples)
    rng = check_random_state(random_state)
    x = rng.uniform(-10.0, 10.0, size=n_samples)
    X: Array = np.exp(-((x[:, None] - np.linspace(-10.0, 10.0, 10)) ** 2))
    # NumPy's sinc is sin(pi t) / (pi t), and right at 0.
    y: Array = np.sinc(x / np.pi) + _NOISE * rng.standard_normal(n_samples)
    return X, y


def make_monk() -> tuple[Array, Array]:
    """Generate Monk: every combination of six attributes, labelled by a rule without noise.

    The label is +1 where (a5 = 3 and a4 = 1) or (a5 != 4 and a2 != 3). This is the third of the MONK's problems, though
    the collection that the paper cites files it under the name of the second: only the third rule has the paper's
    class ratio of 1.12.

    Returns
    -------
    X : ndarray of shape (432, 6)
        Values from 1 to 3, 3, 2, 3, 4 and 2, in lexicographic order.
    y : ndarray of shape (432,)

    Examples
    --------
    >>> from atklearn.datasets import make_monk
    >>> X, y = make_monk()
    >>> X[0].tolist(), int((y > 0).sum()), int((y < 0).sum())
    ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 228, 204)
    """
    X: Array = np.array(list(itertools.product(*(range(1, size + 1) for size in (3, 3, 2, 3, 4, 2)))), dtype=np.float64)
    a2, a4, a5 = X[:, 1], X[:, 3], X[:, 4]
    y: Array = np.where(((a5 == 3) & (a4 == 1)) | ((a5 != 4) & (a2 != 3)), 1.0, -1.0)
    return X, y


def make_titanic() -> tuple[Array, Array]:
    """Generate Titanic: the people aboard by class, age and sex, and who survived.

    The rows follow from the counts of Dawson, "The 'unusual episode' data revisited", Journal of Statistics Education 3
    (1995). People who differ in none of the three features appear as equal rows, often with both labels.

    Returns
    -------
    X : ndarray of shape (2201, 3)
        The class (first, second, third as 1, 2, 3 and the crew as 4), 1 for a child, 1 for a male.
    y : ndarray of shape (2201,)
        +1 for those who survived.

    Examples
    --------
    >>> from atklearn.datasets import make_titanic
    >>> X, y = make_titanic()
    >>> X.shape, int((y > 0).sum())
    ((2201, 3), 711)
    """
    cells = np.array(_TITANIC_CELLS)
    counts = cells[:, 3:].ravel()
    X: Array = np.repeat(np.repeat(cells[:, :3], 2, axis=0), counts, axis=0).astype(np.float64)
    y: Array = np.repeat(np.tile([-1.0, 1.0], len(cells)), counts)
    return X, y


def make_deliveries(n_samples: int = 800, *, random_state: Seed = 0) -> dict[str, npt.NDArray[np.generic]]:
    r"""Generate deliveries in a town on a hill: how long each took, how far and how high it went, and by what.

    .. math::

        \text{minutes} = 4\,\text{distance_km} + \varepsilon + \begin{cases}
            15 + 0.01\,\text{climb_m} & \text{by van (53 \%) or scooter (35 \%)} \\
            3 + 0.25\,\text{climb_m} & \text{by bike (12 \%)}
        \end{cases}

    with eps normal with standard deviation 1 and the distance uniform between 1 and 6 km. Vans and scooters go
    everywhere, with a climb uniform between 0 and 110 m. Bikes go where these cannot: half of them within the old town
    (0 to 20 m), half of them up to the castle (80 to 110 m).

    The vehicle is to report by, and no feature, so that a linear model has one slope for the climb. The average takes
    it from the many, and bikes to the castle come nine minutes later than said. With k = 0.2 it is steeper, and they
    come seven minutes late. Adding minutes to what the average says would not do: bikes in the old town come early.

    Parameters
    ----------
    n_samples : int, default=800
    random_state : int, RandomState instance or None, default=0

    Returns
    -------
    table : dict of ndarrays of shape (n_samples,)
        The columns "distance_km", "climb_m", "vehicle" (text) and "minutes".

    Examples
    --------
    >>> from atklearn.datasets import make_deliveries
    >>> table = make_deliveries()
    >>> list(table), table["minutes"].shape
    (['distance_km', 'climb_m', 'vehicle', 'minutes'], (800,))
    >>> {str(name): int((table["vehicle"] == name).sum()) for name in ("van", "scooter", "bike")}
    {'van': 424, 'scooter': 280, 'bike': 96}
    """
    _check_size(n_samples)
    rng = check_random_state(random_state)
    distance = rng.uniform(*_DISTANCE, size=n_samples).round(1)
    place = (rng.permutation(n_samples) + 0.5) / n_samples
    vehicle = np.array(list(_VEHICLES))[np.searchsorted(np.cumsum(list(_VEHICLES.values()))[:-1], place)]
    by_bike = vehicle == "bike"
    ends = np.where(rng.uniform(size=n_samples) < 0.5, np.transpose([_OLD_TOWN]), np.transpose([_CASTLE]))
    climb = rng.uniform(*np.where(by_bike, ends, np.transpose([_CLIMB]))).round()
    start, per_m = np.where(by_bike, [[_BIKE_START], [_BIKE_PER_M]], [[_START], [_PER_M]])
    minutes = start + per_m * climb + _PER_KM * distance + _MINUTES_OF_NOISE * rng.standard_normal(n_samples)
    return {"distance_km": distance, "climb_m": climb, "vehicle": vehicle, "minutes": minutes.round(1)}
