"""A fitted model, or a pipeline that ends in one, as an ONNX graph in one call."""

from __future__ import annotations

from typing import Any

from skl2onnx import to_onnx as skl2onnx_to_onnx
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline

__all__ = ["to_onnx"]


def to_onnx(model: Any, X: Any, *, raw_scores: bool = False, **options: Any) -> Any:
    """Return a fitted model as an ONNX graph.

    This is :func:`skl2onnx.to_onnx` with arrays in the place of dictionaries: scores leave as an array of shape
    (n_samples, n_classes), in the order of ``classes_``.

    Parameters
    ----------
    model : estimator
        Linear or kernel machine, alone, or inside what skl2onnx converts: pipelines, searches, ensembles.
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
    return skl2onnx_to_onnx(model, X, **options)
