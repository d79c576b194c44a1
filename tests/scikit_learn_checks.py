"""Scikit-learn's checks of an estimator as tests, without those of the array API: see :mod:`array_api_checks`."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator


def parametrized_with_checks(estimators):
    """Parametrize a test of ``estimator`` and ``check``, which are to be skipped nowhere."""
    cases = [
        pytest.param(each, check, id=f"{type(each).__name__}-{check.func.__name__}-{place}")
        for estimator in estimators
        for place, (each, check) in enumerate(estimator_checks_generator(estimator))
        if not check.func.__name__.startswith("check_array_api")
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases)
