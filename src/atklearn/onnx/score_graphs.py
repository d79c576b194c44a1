"""Decision values as ONNX graphs, and what follows from them, with the formulas and the precision of the estimators.

Sums over an axis are products with a vector of ones: these are the same in every version of the operators.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from skl2onnx.algebra.onnx_ops import (
    OnnxAbs,
    OnnxAdd,
    OnnxArgMax,
    OnnxCast,
    OnnxConcat,
    OnnxDiv,
    OnnxExp,
    OnnxGather,
    OnnxGreater,
    OnnxMatMul,
    OnnxMin,
    OnnxMul,
    OnnxNeg,
    OnnxPow,
    OnnxReshape,
    OnnxSub,
    OnnxTanh,
    OnnxWhere,
)

from atklearn.estimators.svm import KernelATk
from atklearn.onnx.exportable import dense

__all__ = ["Graph"]

_INT64 = 7  # as ONNX numbers its types: TensorProto.INT64


class Graph:
    """Builds the nodes of one model.

    Parameters
    ----------
    dtype : numpy dtype
        Of the numbers that are computed with.
    opset : int
        Version of the operators.
    """

    def __init__(self, dtype: Any, opset: int) -> None:
        self.dtype = dtype
        self.opset = {"op_version": opset}

    def number(self, value: Any) -> npt.NDArray[Any]:
        """Return numbers as a constant of the graph."""
        return np.asarray(value, dtype=self.dtype)

    def cast(self, node: Any, proto_type: int) -> Any:
        """Return the same numbers, or truth values, in another type."""
        return OnnxCast(node, to=proto_type, **self.opset)

    def scores(self, model: Any, X: Any) -> Any:
        """Return ``f(x) + b``, shape (n_samples, n_problems)."""
        intercept = self.number(model.intercept_).reshape(1, -1)
        if isinstance(model, KernelATk):
            if model.kernel == "linear":
                return self._affine(X, dense(model.coef_), intercept)
            if len(model.support_) == 0:  # nothing but the intercept: a model that collapsed
                return self._affine(X, np.zeros((intercept.size, model.n_features_in_)), intercept)
            return self._affine(self._kernel(model, X, dense(model.support_vectors_)), model.dual_coef_, intercept)
        return self._affine(X, np.atleast_2d(model.coef_), intercept)

    def _affine(self, X: Any, coef: Any, intercept: npt.NDArray[Any]) -> Any:
        """Return ``X coef^T + intercept``."""
        return OnnxAdd(OnnxMatMul(X, self.number(coef.T), **self.opset), intercept, **self.opset)

    def _kernel(self, model: Any, X: Any, support: npt.NDArray[Any]) -> Any:
        """Return the kernel values of rows and support vectors, as :class:`atklearn.kernel.problem.Kernel` does."""
        gamma = model.gamma_
        if model.kernel == "rbf":
            of_rows = OnnxMatMul(
                OnnxMul(X, X, **self.opset), self.number(np.full((support.shape[1], 1), -gamma)), **self.opset
            )
            of_pairs = self._affine(X, 2.0 * gamma * support, self.number(-gamma * (support**2).sum(axis=1)))
            exponents = OnnxMin(OnnxAdd(of_pairs, of_rows, **self.opset), self.number([0.0]), **self.opset)
            return OnnxExp(exponents, **self.opset)
        products = self._affine(X, gamma * support, self.number([model.coef0]))
        if model.kernel == "sigmoid":
            return OnnxTanh(products, **self.opset)
        return OnnxPow(products, self.number([model.degree]), **self.opset)

    def labels(self, scores: Any, classes: npt.NDArray[Any]) -> Any:
        """Return the chosen labels: by the sign for two classes, else by the largest score."""
        if classes.size == 2:
            codes = self.cast(OnnxGreater(scores, self.number([0.0]), **self.opset), _INT64)
            codes = OnnxReshape(codes, np.array([-1], dtype=np.int64), **self.opset)
        else:
            codes = OnnxArgMax(scores, axis=1, keepdims=0, **self.opset)
        return OnnxGather(classes, codes, axis=0, **self.opset)

    def both_sides(self, scores: Any, n_classes: int) -> Any:
        """Return a score per class: skl2onnx takes minus the score for the first of two."""
        if n_classes > 2:
            return scores
        return OnnxConcat(OnnxNeg(scores, **self.opset), scores, axis=1, **self.opset)

    def probabilities(self, scores: Any, n_classes: int) -> Any:
        """Return the logistic function of the scores, scaled to sum to one over the classes."""
        positive = self._logistic(scores)
        if n_classes == 2:
            negative = OnnxSub(self.number([1.0]), positive, **self.opset)
            return OnnxConcat(negative, positive, axis=1, **self.opset)
        total = OnnxMatMul(positive, self.number(np.ones((n_classes, 1))), **self.opset)
        # a sample that every class rejects without a trace left belongs to all alike
        is_left = OnnxGreater(total, self.number([0.0]), **self.opset)
        divisor = OnnxWhere(is_left, total, self.number([1.0]), **self.opset)
        return OnnxWhere(
            is_left, OnnxDiv(positive, divisor, **self.opset), self.number([1.0 / n_classes]), **self.opset
        )

    def _logistic(self, scores: Any) -> Any:
        """Return ``exp(min(s, 0)) / (1 + exp(-|s|))``.

        ONNX has an operator for it, but runtimes cut it off far from zero, and there the shares of classes that all
        reject a sample are decided.
        """
        above = OnnxExp(OnnxMin(scores, self.number([0.0]), **self.opset), **self.opset)
        decay = OnnxExp(OnnxNeg(OnnxAbs(scores, **self.opset), **self.opset), **self.opset)
        return OnnxDiv(above, OnnxAdd(decay, self.number([1.0]), **self.opset), **self.opset)
