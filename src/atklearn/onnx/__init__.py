"""Fitted models as ONNX graphs: importing this registers converters for them with skl2onnx."""

try:
    import skl2onnx  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"Export to ONNX needs {error.name}, which comes with: pip install 'atklearn[onnx]'", name=error.name
    ) from error

from atklearn.onnx.converters import register_converters, to_onnx

__all__ = ["to_onnx"]

register_converters()
