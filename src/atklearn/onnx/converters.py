"""What skl2onnx has to know of our estimators: the types of their outputs and the nodes that compute them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto
from skl2onnx import update_registered_converter
from skl2onnx._parse import _parse_sklearn_classifier
from skl2onnx.algebra.onnx_ops import OnnxIdentity
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from skl2onnx.common.utils_classifier import get_label_classes

from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.estimators.search import ATkClassifierCV, ATkRegressorCV
from atklearn.estimators.streaming import SGDATkClassifier, SGDATkRegressor
from atklearn.estimators.svm import ATkSVC, ATkSVR, KernelATk
from atklearn.onnx.exportable import check_exportable, exported_classes
from atklearn.onnx.score_graphs import Graph

__all__ = ["CLASSIFIERS", "REGRESSORS", "register_converters"]

CLASSIFIERS = (ATkClassifier, ATkClassifierCV, SGDATkClassifier, ATkSVC)
REGRESSORS = (ATkRegressor, ATkRegressorCV, SGDATkRegressor, ATkSVR)
_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "raw_scores": [True, False],
    "output_class_labels": [False, True],
    "nocl": [True, False],
}


def register_converters() -> None:
    """Tell skl2onnx about our estimators; again is no harm."""
    for classifier in CLASSIFIERS:
        update_registered_converter(
            classifier, "ATkLearnClassifier", _classifier_outputs, _convert_classifier, parser=_parse, options=_OPTIONS
        )
    for regressor in REGRESSORS:
        update_registered_converter(regressor, "ATkLearnRegressor", _regressor_outputs, _convert_regressor)


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of a classifier; its classes are looked at here already, so it has to be exportable."""
    check_exportable(model)
    return _parse_sklearn_classifier(scope, model, inputs, custom_parsers)


def _classifier_outputs(operator: Any) -> None:
    """Set the types of the labels, shape (n_samples,), and of the scores, shape (n_samples, n_classes)."""
    n_samples = _checked_input(operator)
    classes = exported_classes(get_label_classes(operator.scope_inst, operator.raw_operator))
    labels = StringTensorType if classes.dtype.kind == "U" else Int64TensorType
    operator.outputs[0].set_type(labels([n_samples]))
    operator.outputs[1].set_type(_type_of_scores(operator)([n_samples, classes.size]))


def _regressor_outputs(operator: Any) -> None:
    """Set the type of the predictions, shape (n_samples, 1) as skl2onnx has them."""
    n_samples = _checked_input(operator)
    operator.outputs[0].set_type(_type_of_scores(operator)([n_samples, 1]))


def _checked_input(operator: Any) -> Any:
    """Return the number of samples, if it is known, of an input that the model can take."""
    model = operator.raw_operator
    check_exportable(model)
    if len(operator.inputs) > 1:
        raise ValueError(
            f"{type(model).__name__} is expected to be given its features as one array, got {len(operator.inputs)} "
            "inputs, such as the columns of a DataFrame; pass X as an array, or begin with a ColumnTransformer."
        )
    n_samples, n_features = operator.inputs[0].type.shape
    if n_features not in (None, model.n_features_in_):
        raise ValueError(
            f"{type(model).__name__} is expected to be given the {model.n_features_in_} features that it was fitted "
            f"on, got an input of {n_features}; pass rows of the same columns."
        )
    return n_samples


def _type_of_scores(operator: Any) -> Any:
    return DoubleTensorType if isinstance(operator.inputs[0].type, DoubleTensorType) else FloatTensorType


def _scores_of(operator: Any, container: Any) -> tuple[Graph, Any, int]:
    """Return the builder, the decision values, and the type they are to leave in."""
    model = operator.raw_operator
    # As the estimators do: linear models predict in the precision of X, kernel machines in double, since they add up
    # large terms of both signs, which take digits from each other.
    in_float = isinstance(operator.inputs[0].type, FloatTensorType) and not isinstance(model, KernelATk)
    graph = Graph(np.float32 if in_float else np.float64, container.target_opset)
    X: Any = operator.inputs[0]
    if not in_float and not isinstance(operator.inputs[0].type, DoubleTensorType):
        X = graph.cast(X, TensorProto.DOUBLE)
    is_double = _type_of_scores(operator) is DoubleTensorType
    return graph, graph.scores(model, X), TensorProto.DOUBLE if is_double else TensorProto.FLOAT


def _convert_classifier(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of labels, and of probabilities where the model has them, else of scores."""
    model = operator.raw_operator
    graph, scores, leaving = _scores_of(operator, container)
    classes = exported_classes(get_label_classes(scope, model))
    raw = container.get_options(model, {"raw_scores": False})["raw_scores"] or not hasattr(model, "predict_proba")
    per_class = graph.both_sides if raw else graph.probabilities
    _leave(scope, container, graph, graph.labels(scores, classes), operator.outputs[0])
    _leave(scope, container, graph, graph.cast(per_class(scores, classes.size), leaving), operator.outputs[1])


def _convert_regressor(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of predictions."""
    graph, scores, leaving = _scores_of(operator, container)
    _leave(scope, container, graph, graph.cast(scores, leaving), operator.outputs[0])


def _leave(scope: Any, container: Any, graph: Graph, node: Any, output: Any) -> None:
    """Add nodes to the graph, the last of them under the name of an output."""
    OnnxIdentity(node, output_names=[output.full_name], **graph.opset).add_to(scope, container)
