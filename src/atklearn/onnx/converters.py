"""Export to ONNX: what skl2onnx has to know of our estimators, which of them have a graph, and both in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto
from skl2onnx import to_onnx as skl2onnx_to_onnx
from skl2onnx import update_registered_converter
from skl2onnx._parse import _parse_sklearn_classifier
from skl2onnx.algebra.onnx_ops import OnnxIdentity
from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType
from skl2onnx.common.utils_classifier import get_label_classes
from sklearn.base import BaseEstimator, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from atklearn.correction.classifier import TailCorrectedClassifier
from atklearn.correction.corrected import TailCorrected
from atklearn.correction.regressor import TailCorrectedRegressor
from atklearn.correction.rows import RowEncoder
from atklearn.estimators.linear import ATkClassifier, ATkRegressor
from atklearn.estimators.search import ATkClassifierCV, ATkRegressorCV
from atklearn.estimators.streaming import SGDATkClassifier, SGDATkRegressor
from atklearn.estimators.svm import ATkSVC, ATkSVR, KernelATk
from atklearn.onnx.score_graphs import Graph
from atklearn.runtime.namespaces import kept_home

if TYPE_CHECKING:
    from skl2onnx.common._container import ModelComponentContainer
    from skl2onnx.common._topology import Operator, Scope, Variable

    from atklearn.onnx.score_graphs import Node

__all__ = ["CLASSIFIERS", "REGRESSORS", "register_converters", "to_onnx"]

CLASSIFIERS = (ATkClassifier, ATkClassifierCV, SGDATkClassifier, ATkSVC, TailCorrectedClassifier)
REGRESSORS = (ATkRegressor, ATkRegressorCV, SGDATkRegressor, ATkSVR, TailCorrectedRegressor)
_KERNELS = ("linear", "poly", "rbf", "sigmoid")
_OPTIONS = {
    "zipmap": [True, False, "columns"],
    "raw_scores": [True, False],
    "output_class_labels": [False, True],
    "nocl": [True, False],
}


def to_onnx(model: BaseEstimator, X: npt.ArrayLike, *, raw_scores: bool = False, **options: Any) -> ModelProto:
    """Return a fitted model as an ONNX graph.

    This is :func:`skl2onnx.to_onnx` with arrays in the place of dictionaries: scores leave as an array of shape
    (n_samples, n_classes), in the order of ``classes_``.

    Parameters
    ----------
    model : estimator
        Linear or kernel machine, alone, or inside what skl2onnx converts: pipelines, searches, ensembles. Or a tail
        correction, of numbers, on models that skl2onnx converts.
    X : {array, DataFrame} of shape (n_samples, n_features)
        Some rows of what the graph will be given: only their types count. Of float32, predictions are float32.
    raw_scores : bool, default=False
        Whether a classifier gives decision values rather than probabilities. Losses other than the log loss have no
        probabilities and give decision values always. Of two classes, the first gets minus the score of the second.
    **options
        What else :func:`skl2onnx.to_onnx` takes, such as ``target_opset``.

    Returns
    -------
    graph : onnx.ModelProto
        A classifier has two outputs, labels and scores of shape (n_samples, n_classes); a regressor has one, of shape
        (n_samples, 1).

    Examples
    --------
    >>> from atklearn import ATkClassifier
    >>> from atklearn.onnx import to_onnx
    >>> from onnxruntime import InferenceSession
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), ATkClassifier(k=0.2)).fit(X, y)
    >>> graph = to_onnx(model, X)
    >>> session = InferenceSession(graph.SerializeToString())
    >>> labels, probabilities = session.run(None, {"X": X})
    >>> bool((labels == model.predict(X)).all()), bool(abs(probabilities - model.predict_proba(X)).max() < 1e-12)
    (True, True)
    """
    if is_classifier(model):
        last = model
        while isinstance(last, Pipeline):
            last = last.steps[-1][1]
        chosen = {"zipmap": False} | ({"raw_scores": True} if raw_scores else {})
        options["options"] = {id(last): chosen} | options.get("options", {})
    graph: ModelProto = skl2onnx_to_onnx(model, X, **options)
    return graph


def register_converters() -> None:
    """Tell skl2onnx about our estimators; again is no harm."""
    for classifier in CLASSIFIERS:
        update_registered_converter(
            classifier, "ATkLearnClassifier", _classifier_outputs, _convert_classifier, parser=_parse, options=_OPTIONS
        )
    for regressor in REGRESSORS:
        update_registered_converter(regressor, "ATkLearnRegressor", _regressor_outputs, _convert_regressor)
    update_registered_converter(RowEncoder, "ATkLearnRowEncoder", _encoder_outputs, _convert_encoder)


def _check_exportable(model: BaseEstimator) -> None:
    """Refuse what has no graph: models that are not fitted, live on tensors, or have a kernel of their own."""
    name = type(model).__name__
    is_kernel = isinstance(model, KernelATk)
    is_corrected = isinstance(model, TailCorrected)
    check_is_fitted(model, "estimator_" if is_corrected else "dual_coef_" if is_kernel else "coef_")
    if is_corrected and getattr(model.encoder_, "encoder_", None) is not None:
        raise ValueError(
            f"{name} is expected to see nothing but numbers of X to be exported to ONNX, got categories or text; "
            'name the columns of numbers in features, or use features="prediction".'
        )
    if is_kernel and model.kernel not in _KERNELS:
        kind = "a function" if callable(model.kernel) else repr(model.kernel)
        raise ValueError(
            f"{name} is expected to have one of the kernels {', '.join(_KERNELS)} to be exported to ONNX, got {kind}; "
            "fit one of these."
        )
    home = None if is_kernel or is_corrected else kept_home(model.coef_)
    if home is not None:
        raise ValueError(
            f"{name} is expected to be fitted on arrays to be exported to ONNX, got one that lives on {home}; "
            "export what its to_numpy() returns."
        )


def exported_classes(classes: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Return the labels as ONNX has them, as 64-bit whole numbers or text.

    Examples
    --------
    >>> exported_classes(np.array([False, True])), exported_classes(np.array(["a", "b"]))
    (array([0, 1]), array(['a', 'b'], dtype='<U1'))
    """
    labels = np.asarray(classes).tolist()
    if all(isinstance(label, str) for label in labels):
        return np.asarray(classes).astype(str)
    largest = np.iinfo(np.int64).max
    whole = all(isinstance(label, int | float) and abs(label) <= largest for label in labels)
    if not whole:  # floats that are classes are whole, as scikit-learn sees to
        raise ValueError(
            f"Labels are expected to be whole numbers of 64 bits or text to be exported to ONNX, got {labels}; "
            "encode them before the fit."
        )
    return np.array([int(label) for label in labels])


def _parse(
    scope: Scope, model: BaseEstimator, inputs: list[Variable], custom_parsers: dict[type, Any] | None = None
) -> list[Variable]:
    """Declare the outputs of a classifier; its classes are looked at here already, so it has to be exportable."""
    _check_exportable(model)
    exported_classes(model.classes_)
    outputs: list[Variable] = _parse_sklearn_classifier(scope, model, inputs, custom_parsers)
    return outputs


def _classifier_outputs(operator: Operator) -> None:
    """Set the types of the labels, shape (n_samples,), and of the scores, shape (n_samples, n_classes)."""
    n_samples = _checked_input(operator)
    classes = exported_classes(get_label_classes(operator.scope_inst, operator.raw_operator))
    labels = StringTensorType if classes.dtype.kind == "U" else Int64TensorType
    operator.outputs[0].set_type(labels([n_samples]))
    _set_scores(operator, 1, [n_samples, classes.size])


def _regressor_outputs(operator: Operator) -> None:
    """Set the type of the predictions, shape (n_samples, 1) as skl2onnx has them."""
    _set_scores(operator, 0, [_checked_input(operator), 1])


def _checked_input(operator: Operator) -> int | None:
    """Return the number of samples, if it is known, of an input that the model can take."""
    model = operator.raw_operator
    _check_exportable(model)
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
    known: int | None = n_samples
    return known


def _set_scores(operator: Operator, place: int, shape: list[int | None]) -> None:
    """Set the type of an output with scores: of the precision of X."""
    kind = DoubleTensorType if isinstance(operator.inputs[0].type, DoubleTensorType) else FloatTensorType
    operator.outputs[place].set_type(kind(shape))


def _scores_of(operator: Operator, container: ModelComponentContainer) -> tuple[Graph, Node, int]:
    """Return the builder, the decision values, and the type they are to leave in."""
    model, given = operator.raw_operator, operator.inputs[0]
    # As the estimators do: linear models predict in the precision of X, kernel machines in double, since they add up
    # large terms of both signs, which take digits from each other.
    in_float = isinstance(given.type, FloatTensorType) and not isinstance(model, KernelATk)
    graph = Graph(np.float32 if in_float else np.float64, container.target_opset)
    is_double = isinstance(given.type, DoubleTensorType)
    # Models beneath a correction are told of the type of X themselves.
    is_number = in_float or is_double or isinstance(model, TailCorrected)
    X = given if is_number else graph.cast(given, TensorProto.DOUBLE)
    return graph, graph.scores(model, X), TensorProto.DOUBLE if is_double else TensorProto.FLOAT


def _convert_classifier(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    """Add the nodes of labels, and of probabilities where the model has them, else of scores."""
    model = operator.raw_operator
    graph, scores, leaving = _scores_of(operator, container)
    classes = exported_classes(get_label_classes(scope, model))
    raw = container.get_options(model, {"raw_scores": False})["raw_scores"] or not hasattr(model, "predict_proba")
    per_class = (graph.both_sides if raw else graph.probabilities)(scores, classes.size)
    for node, output in zip(
        (graph.labels(scores, classes), graph.cast(per_class, leaving)), operator.outputs, strict=True
    ):
        graph.node(OnnxIdentity, node, output_names=[output.full_name]).add_to(scope, container)


def _convert_regressor(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    """Add the nodes of predictions."""
    graph, scores, leaving = _scores_of(operator, container)
    names = [operator.outputs[0].full_name]
    graph.node(OnnxIdentity, graph.cast(scores, leaving), output_names=names).add_to(scope, container)


def _encoder_outputs(operator: Operator) -> None:
    """Set the type of the numbers."""
    _set_scores(operator, 0, list(operator.inputs[0].type.shape))


def _convert_encoder(scope: Scope, operator: Operator, container: ModelComponentContainer) -> None:
    """Add the nodes of numbers without missing ones."""
    given, output = operator.inputs[0], operator.outputs[0]
    is_double = isinstance(output.type, DoubleTensorType)
    graph = Graph(np.float64 if is_double else np.float32, container.target_opset)
    X = graph.cast(given, TensorProto.DOUBLE if is_double else TensorProto.FLOAT)
    imputed = graph.imputed(operator.raw_operator, X)
    graph.node(OnnxIdentity, imputed, output_names=[output.full_name]).add_to(scope, container)
