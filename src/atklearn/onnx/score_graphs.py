"""Decision values as ONNX graphs, and what follows from them, with the formulas and the precision of the estimators.

Sums over an axis are products with a vector of ones: these are the same in every version of the operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from onnx import TensorProto
from skl2onnx.algebra import onnx_ops as ops
from skl2onnx.algebra.onnx_operator import OnnxSubEstimator
from sklearn.base import BaseEstimator, is_classifier
from sklearn.frozen import FrozenEstimator

from atklearn.correction.classifier import CERTAIN
from atklearn.correction.corrected import TailCorrected
from atklearn.correction.rows import FARTHEST, RowEncoder, SeenColumns
from atklearn.estimators.svm import KernelATk
from atklearn.runtime.messages import shown

if TYPE_CHECKING:
    from skl2onnx.algebra.onnx_operator import OnnxOperator
    from skl2onnx.common._topology import Variable

    # A computed value of the graph, an input, or a constant.
    Node: TypeAlias = OnnxOperator | Variable | npt.NDArray[np.generic]

__all__ = ["Graph"]


class Graph:
    """Builds the nodes of one model.

    Parameters
    ----------
    dtype : numpy dtype
        Of the numbers that are computed with.
    opset : int
        Version of the operators.
    """

    def __init__(self, dtype: type[np.floating], opset: int) -> None:
        self.dtype, self.opset = dtype, opset

    def node(self, kind: type[OnnxOperator], *inputs: Node, **attributes: object) -> OnnxOperator:
        """Return a node of some kind."""
        return kind(*inputs, op_version=self.opset, **attributes)

    def number(self, value: npt.ArrayLike) -> npt.NDArray[np.floating]:
        """Return numbers as a constant of the graph, or say that they are too large for its precision."""
        largest = np.abs(value).max(initial=0.0)
        if largest > np.finfo(self.dtype).max:
            raise ValueError(
                f"The numbers of a model are expected to fit into {np.dtype(self.dtype)} to be exported for X of that "
                f"type, got {largest:g}; pass X as float64."
            )
        return np.asarray(value, dtype=self.dtype)

    def cast(self, node: Node, proto_type: int) -> OnnxOperator:
        """Return numbers, or truth values, in another type."""
        return self.node(ops.OnnxCast, node, to=proto_type)

    def scores(self, model: BaseEstimator, X: Node) -> OnnxOperator:
        """Return ``f(x) + b``, shape (n_samples, n_problems)."""
        if isinstance(model, TailCorrected):
            return self._corrected(model, X)
        if not isinstance(model, KernelATk) or model.kernel == "linear":
            return self._affine(X, model.coef_, model.intercept_)
        if len(model.support_) == 0:  # nothing but the intercept: a model that collapsed
            return self._affine(X, np.zeros((model.intercept_.size, model.n_features_in_)), model.intercept_)
        return self._affine(self._kernel(model, X), model.dual_coef_, model.intercept_)

    def _affine(
        self, X: Node, coef: npt.NDArray[np.floating] | sp.csr_matrix, intercept: npt.ArrayLike
    ) -> OnnxOperator:
        """Return ``X coef^T + intercept``."""
        products = self.node(ops.OnnxMatMul, X, self.number(np.atleast_2d(_dense(coef)).T))
        return self.node(ops.OnnxAdd, products, self.number(intercept).reshape(1, -1))

    def _kernel(self, model: KernelATk, X: Node) -> OnnxOperator:
        """Return the kernel values of rows and support vectors, as :class:`atklearn.kernel.problem.Kernel` does."""
        gamma, support = model.gamma_, _dense(model.support_vectors_)
        if model.kernel == "rbf":
            minus_gamma = self.number(np.full((support.shape[1], 1), -gamma))
            of_rows = self.node(ops.OnnxMatMul, self.node(ops.OnnxMul, X, X), minus_gamma)
            of_pairs = self._affine(X, 2.0 * gamma * support, -gamma * (support**2).sum(axis=1))
            exponents = self.node(ops.OnnxAdd, of_pairs, of_rows)
            return self.node(ops.OnnxExp, self.node(ops.OnnxMin, exponents, self.number([0.0])))
        products = self._affine(X, gamma * support, [model.coef0])
        if model.kernel == "sigmoid":
            return self.node(ops.OnnxTanh, products)
        return self.node(ops.OnnxPow, products, self.number([model.degree]))

    def imputed(self, encoder: RowEncoder, X: Node) -> Node:
        """Return numbers, medians in the place of those that are not finite."""
        if not encoder.medians_:  # of a sparse matrix
            return X
        is_finite = self.node(ops.OnnxEqual, self.node(ops.OnnxSub, X, X), self.number([0.0]))
        return self.node(ops.OnnxWhere, is_finite, X, self.number([list(encoder.medians_.values())]))

    def _corrected(self, model: TailCorrected, X: Node) -> OnnxOperator:
        """Return corrected predictions, as :class:`atklearn.correction.layer.Layer` does."""
        found = [self._predictions(each, model, X) for each in (model.estimator_, *model.experts_)]
        own, layer = found[0], model.layer_
        if layer is None:
            return self._within(own, *((-np.inf, np.inf) if is_classifier(model) else (model.least_, np.inf)))
        seen = self._standardised(layer.view, found, model, X)
        added = self._affine(seen, layer.model.weights, layer.model.intercepts)
        if not layer.adds:
            added = self.node(ops.OnnxSub, added, own)
        return self._within(
            self.node(ops.OnnxAdd, own, self._within(added, *(limit.T for limit in layer.limits))), *layer.bounds
        )

    def _predictions(self, each: BaseEstimator, model: TailCorrected, X: Node) -> OnnxOperator:
        """Return the predictions of a model beneath, shape (n_samples, n_problems): of a classifier, logits."""
        each = each.estimator if isinstance(each, FrozenEstimator) else each
        if not is_classifier(model):
            return self._cast(self._of(each, X))
        if not np.array_equal(each.classes_, model.classes_):
            raise ValueError(
                f"{type(model).__name__} is expected to have models of all its classes to be exported to ONNX, got "
                f"{type(each).__name__} of {shown(list(each.classes_))}; fit it on rows of all classes."
            )
        predicted = [1] if len(each.classes_) == 2 else range(len(each.classes_))
        given = self._columns(self._cast(self._of(each, X, zipmap=False)[1]), predicted)
        given = self._within(given, CERTAIN, 1.0 - CERTAIN)
        complement = self.node(ops.OnnxSub, self.number([1.0]), given)
        return self.node(ops.OnnxLog, self.node(ops.OnnxDiv, given, complement))

    def _standardised(self, view: SeenColumns, predictions: list[OnnxOperator], model: TailCorrected, X: Node) -> Node:
        """Return what the correction sees, shape (n_samples, n_predictions + n_columns)."""
        parts = [*predictions]
        if view.columns.size:
            given = X
            if isinstance(model.features, list):
                names = list(getattr(model, "feature_names_in_", []))
                given = self._columns(X, [names.index(each) if each in names else each for each in model.features])
            parts.append(self._columns(self._cast(self._of(model.encoder_, given)), view.columns))
        seen = self.node(ops.OnnxConcat, *parts, axis=1) if len(parts) > 1 else parts[0]
        centred = self.node(ops.OnnxSub, seen, self.number([view.centers]))
        farthest = np.where(np.arange(view.scales.size) < view.n_predictions, np.finfo(self.dtype).max, FARTHEST)
        return self._within(self.node(ops.OnnxDiv, centred, self.number([view.scales])), -farthest, farthest)

    def _of(self, model: BaseEstimator, X: Node, **options: object) -> OnnxOperator:
        """Return the outputs of another model."""
        return OnnxSubEstimator(model, X, op_version=self.opset, options=options or None)

    def _columns(self, X: Node, places: npt.ArrayLike) -> OnnxOperator:
        return self.node(ops.OnnxGather, X, np.asarray(places, dtype=np.int64), axis=1)

    def _cast(self, node: Node) -> OnnxOperator:
        """Return numbers in the type that is computed with."""
        return self.cast(node, TensorProto.FLOAT if self.dtype is np.float32 else TensorProto.DOUBLE)

    def _within(self, node: OnnxOperator, least: npt.ArrayLike, most: npt.ArrayLike) -> OnnxOperator:
        """Return numbers that are cut off at limits, where these are finite."""
        for limit, kind in ((least, ops.OnnxMax), (most, ops.OnnxMin)):
            if np.isfinite(limit).all():
                node = self.node(kind, node, self.number(limit).reshape(1, -1))
        return node

    def labels(self, scores: Node, classes: npt.NDArray[np.generic]) -> OnnxOperator:
        """Return the chosen labels: by the sign for two classes, else by the largest score."""
        if classes.size == 2:
            codes = self.cast(self.node(ops.OnnxGreater, scores, self.number([0.0])), TensorProto.INT64)
            codes = self.node(ops.OnnxReshape, codes, np.array([-1], dtype=np.int64))
        else:
            codes = self.node(ops.OnnxArgMax, scores, axis=1, keepdims=0)
        return self.node(ops.OnnxGather, classes, codes, axis=0)

    def both_sides(self, scores: Node, n_classes: int) -> Node:
        """Return a score per class: skl2onnx takes minus the score for the first of two."""
        if n_classes > 2:
            return scores
        return self.node(ops.OnnxConcat, self.node(ops.OnnxNeg, scores), scores, axis=1)

    def probabilities(self, scores: Node, n_classes: int) -> OnnxOperator:
        """Return the logistic function of the scores, scaled to sum to one over the classes."""
        positive = self._logistic(scores)
        if n_classes == 2:
            negative = self.node(ops.OnnxSub, self.number([1.0]), positive)
            return self.node(ops.OnnxConcat, negative, positive, axis=1)
        total = self.node(ops.OnnxMatMul, positive, self.number(np.ones((n_classes, 1))))
        # a sample that every class rejects without a trace left belongs to all alike
        is_left = self.node(ops.OnnxGreater, total, self.number([0.0]))
        divisor = self.node(ops.OnnxWhere, is_left, total, self.number([1.0]))
        shares = self.node(ops.OnnxDiv, positive, divisor)
        return self.node(ops.OnnxWhere, is_left, shares, self.number([1.0 / n_classes]))

    def _logistic(self, scores: Node) -> OnnxOperator:
        """Return ``exp(min(s, 0)) / (1 + exp(-|s|))``.

        ONNX has an operator for it, but runtimes cut it off far from zero, and there the shares of classes that all
        reject a sample are decided.
        """
        above = self.node(ops.OnnxExp, self.node(ops.OnnxMin, scores, self.number([0.0])))
        decay = self.node(ops.OnnxExp, self.node(ops.OnnxNeg, self.node(ops.OnnxAbs, scores)))
        return self.node(ops.OnnxDiv, above, self.node(ops.OnnxAdd, decay, self.number([1.0])))


def _dense(X: npt.NDArray[np.floating] | sp.csr_matrix) -> npt.NDArray[np.floating]:
    return X if isinstance(X, np.ndarray) else np.asarray(X.toarray())
