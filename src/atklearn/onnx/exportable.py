"""Which fitted models can be exported; all others are refused here, with what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from atklearn.estimators.svm import KernelATk
from atklearn.runtime.namespaces import kept_home

__all__ = ["check_exportable", "dense", "exported_classes"]

_KERNELS = ("linear", "poly", "rbf", "sigmoid")


def check_exportable(model: Any) -> None:
    """Refuse what has no graph: models that are not fitted, live on tensors, or have a kernel of their own."""
    name = type(model).__name__
    is_kernel = isinstance(model, KernelATk)
    check_is_fitted(model, "dual_coef_" if is_kernel else "coef_")
    if is_kernel and model.kernel not in _KERNELS:
        kind = "a function" if callable(model.kernel) else repr(model.kernel)
        raise ValueError(
            f"{name} is expected to have one of the kernels {', '.join(_KERNELS)} to be exported to ONNX, got {kind}; "
            "fit one of these."
        )
    home = None if is_kernel else kept_home(model.coef_)
    if home is not None:
        raise ValueError(
            f"{name} is expected to be fitted on arrays to be exported to ONNX, got one that lives on {home}; "
            "export what its to_numpy() returns."
        )
    if hasattr(model, "classes_"):
        exported_classes(model.classes_)


def exported_classes(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the labels as ONNX has them, as 64-bit whole numbers or text.

    Examples
    --------
    >>> exported_classes(np.array([False, True])), exported_classes(np.array(["a", "b"]))
    (array([0, 1]), array(['a', 'b'], dtype='<U1'))
    """
    classes = np.asarray(classes)
    if all(isinstance(label, str) for label in classes.tolist()):
        return classes.astype(str)
    if classes.dtype.kind not in "biuf":  # floats that are classes are whole, as scikit-learn sees to
        raise ValueError(
            f"Labels are expected to be whole numbers or text to be exported to ONNX, got {classes.tolist()}; "
            "encode them before the fit."
        )
    return classes.astype(np.int64)


def dense(X: Any) -> npt.NDArray[Any]:
    """Return a matrix, sparse or not, as an array."""
    return np.asarray(X.toarray() if sp.issparse(X) else X)
