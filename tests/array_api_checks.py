"""Scikit-learn's checks of the array API, in a process of their own: SciPy has to know of it when it is imported.

``python array_api_checks.py ESTIMATOR ...`` runs them and prints for each how many have passed; a check that fails, or
that is skipped although its library and its device are here, ends the process with an error.
"""

from __future__ import annotations

import os
import sys
from functools import partial


def device_of(check):
    """Return the namespaces and devices that a check asks for."""
    said = check.keywords
    pairs = [said[name] for name in ("X_ns_and_device", "other_ns_and_device") if name in said]
    return pairs or [(said["array_namespace"], said.get("device_name"))]


def is_here(namespace, device):
    import torch

    devices = {"numpy": {None}, "array_api_strict": {None, "CPU_DEVICE", "device1"}, "torch": {"cpu"}}
    if torch.cuda.is_available():
        devices["torch"].add("cuda")
    return device in devices.get(namespace, set())


def checks_of(estimator):
    """Return the checks that scikit-learn has for the tag, and those of the values, also under weights."""
    from sklearn.utils import estimator_checks

    name = type(estimator).__name__
    found = [
        check
        for _, check in estimator_checks.estimator_checks_generator(estimator)
        if check.func.__name__.startswith("check_array_api")
    ]
    values = [
        partial(
            estimator_checks.check_array_api_input_and_values, name, array_namespace=namespace, device_name=device,
            dtype_name=dtype, check_sample_weight=weighted,
        )
        for namespace, device in [("numpy", None), ("array_api_strict", None), ("torch", "cpu"), ("torch", "cuda")]
        for dtype in ("float64", "float32")
        for weighted in (False, True)
    ]  # fmt: skip
    return [check for check in found + values if all(is_here(*each) for each in device_of(check))]


def main(names):
    os.environ["SCIPY_ARRAY_API"] = "1"
    import warnings

    import atklearn

    warnings.simplefilter("error")
    # thirty samples of which one class has few are told apart by anything
    warnings.simplefilter("ignore", atklearn.CollapseWarning)
    for name in names:
        run_checks(name)


def run_checks(name):
    import atklearn
    from atklearn.encoding import encoded as encoding

    options = {"ks": 2, "Cs": 2, "cv": 2} if name.endswith("CV") else {}
    estimator = getattr(atklearn, name)(tol=1e-9, **options)
    checks = checks_of(estimator)
    by_default = encoding.is_quicker_on_host
    for encoding.is_quicker_on_host in (by_default, lambda *_: False):  # by compiled code, then as tensors
        for check in checks:
            try:
                check(estimator)
            except BaseException:  # SkipTest is an exception like any other
                print(f"failed for {name}: {check.func.__name__} {check.keywords}", file=sys.stderr)
                raise
    encoding.is_quicker_on_host = by_default
    print(name, len(checks), sorted({namespace for check in checks for namespace, _ in device_of(check)}))


if __name__ == "__main__":
    main(sys.argv[1:])
