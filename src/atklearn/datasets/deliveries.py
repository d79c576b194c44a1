"""A generated table on which the average fits the many and the few come late."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from atklearn.runtime.messages import shown

__all__ = ["make_deliveries"]

_VEHICLES = {"van": 0.53, "scooter": 0.35, "bike": 0.12}
_DISTANCE = (1.0, 6.0)  # kilometres
_CLIMB = (0.0, 110.0)  # metres
_OLD_TOWN, _CASTLE = (0.0, 20.0), (80.0, 110.0)
_PER_KM = 4.0
_START, _BIKE_START = 15.0, 3.0  # an engine has to be loaded, and parked
_PER_M, _BIKE_PER_M = 0.01, 0.25
_NOISE = 1.0


def make_deliveries(n_samples: int = 800, *, random_state: Any = 0) -> dict[str, npt.NDArray[Any]]:
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
    if n_samples < 1:
        raise ValueError(f"n_samples is expected to be at least 1, got {shown(n_samples)}.")
    rng = check_random_state(random_state)
    distance = rng.uniform(*_DISTANCE, size=n_samples).round(1)
    place = (rng.permutation(n_samples) + 0.5) / n_samples
    vehicle = np.array(list(_VEHICLES))[np.searchsorted(np.cumsum(list(_VEHICLES.values()))[:-1], place)]
    by_bike = vehicle == "bike"
    ends = np.where(rng.uniform(size=n_samples) < 0.5, np.transpose([_OLD_TOWN]), np.transpose([_CASTLE]))
    climb = rng.uniform(*np.where(by_bike, ends, np.transpose([_CLIMB]))).round()
    start, per_m = np.where(by_bike, [[_BIKE_START], [_BIKE_PER_M]], [[_START], [_PER_M]])
    minutes = start + per_m * climb + _PER_KM * distance + _NOISE * rng.standard_normal(n_samples)
    return {"distance_km": distance, "climb_m": climb, "vehicle": vehicle, "minutes": minutes.round(1)}
