"""How values look in messages."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["shown"]


def shown(value: Any) -> str:
    """Return a value as one would type it: numbers and labels of NumPy plainly, also within a collection.

    Parameters
    ----------
    value : object

    Examples
    --------
    >>> import numpy as np
    >>> shown(np.float64(0.2)), shown("0.2"), shown({np.str_("yes"): np.int64(2)})
    ('0.2', "'0.2'", "{'yes': 2}")
    >>> shown([np.float64(0.5), 1]), shown(np.array([0.5, 1.0]))
    ('[0.5, 1]', '[0.5, 1.0]')
    """
    return repr(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(map(_plain, value))
    return value
