"""Where arrays live: on the host as NumPy arrays, or as tensors and arrays of other libraries on their devices.

Everything follows X. A tensor of PyTorch is computed where it lies, or by compiled code where that is quicker, and what
is fitted is a tensor beside it. Arrays of other libraries that speak the array API,
such as CuPy, are so where scikit-learn's ``array_api_dispatch`` is on: they enter as tensors, without a copy if the
library allows it, and what is computed leaves in their kind. All else becomes NumPy arrays, as in scikit-learn.
Where a device has no room left for a fit, it is said how much it takes, and how many rows would fit.

PyTorch is optional: nothing here imports it unless somebody has passed what only PyTorch can compute.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeGuard, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.utils import _safe_indexing

from atklearn.runtime.compiling import HAS_NUMBA

if TYPE_CHECKING:
    import torch

__all__ = [
    "Features",
    "Home",
    "Labels",
    "Tensor",
    "Vector",
    "as_tensor_if_dense",
    "bytes_per_row",
    "has_home",
    "home_of",
    "is_quicker_on_host",
    "is_tensor",
    "kept_home",
    "on_host",
    "same_home",
    "saying_what_fits",
    "take_rows",
]

# Neither SciPy nor PyTorch, which need not be installed, has types here.
Tensor: TypeAlias = Any
"""A tensor of PyTorch, or an array of another library that lies on a device."""
Features: TypeAlias = Any
"""X: an array, a sparse matrix or a tensor."""
Vector: TypeAlias = Any
"""Something of every sample, an array or a tensor."""
Labels: TypeAlias = npt.NDArray[Any]
"""Numbers or names of classes, on the host."""

# So few numbers are passed over by compiled code on the host before a device has been told to.
FEW_NUMBERS = 1 << 20
# What DLPack calls the GPUs that PyTorch calls cuda: those of NVIDIA and AMD.
_GPUS = (2, 10)
_NUMBERS = "biuf"


def is_tensor(values: object) -> TypeGuard[Tensor]:
    """Say whether this is a tensor of PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _is_foreign(values: object) -> TypeGuard[Tensor]:
    """Say whether this is an array of a library that speaks the array API, and neither NumPy nor PyTorch."""
    if isinstance(values, np.ndarray | np.generic) or is_tensor(values) or not hasattr(values, "__dlpack__"):
        return False
    return hasattr(values, "__array_namespace__") or _library_of(values) == "cupy"


def has_home(values: object) -> TypeGuard[Tensor]:
    """Say whether this is an array that is not NumPy's, whatever scikit-learn's configuration says."""
    return is_tensor(values) or _is_foreign(values)


def _library_of(values: object) -> str:
    return type(values).__module__.partition(".")[0]


@dataclass(frozen=True)
class Home:
    """Where arrays live that are not NumPy's.

    Attributes
    ----------
    library : str
        Whose arrays they are.
    device : object
        As the library calls it.
    tensor_device : torch.device
        Where tensors of them lie.
    namespace : module
        The functions of the library.
    """

    library: str
    device: object
    tensor_device: torch.device = field(compare=False)
    namespace: ModuleType = field(compare=False)

    def __str__(self) -> str:
        return f"{self.library} on {self.device}"

    def enter(self, values: object) -> Tensor:
        """Return numbers, of whatever library and device, as a tensor here; one that is here already as it is."""
        import torch

        if is_tensor(values):
            # what a view says of signs is written out: kernels and NumPy read the memory as it is
            return values.detach().to(self.tensor_device).resolve_conj().resolve_neg()
        if _is_foreign(values):
            try:
                return torch.from_dlpack(values).to(self.tensor_device)
            except (AttributeError, BufferError, NotImplementedError, RuntimeError, TypeError, ValueError):
                values = on_host(values)  # a library without DLPack, or a device of its own
        return torch.tensor(np.asarray(values), device=self.tensor_device)

    def leave(self, values: object) -> Tensor:
        """Return numbers, a tensor or a NumPy array, as an array of this home."""
        if self.library == "torch" or self.tensor_device.type != "cpu":
            tensor = self.enter(values)
            return tensor if self.library == "torch" else self.namespace.from_dlpack(tensor)
        return self.namespace.asarray(on_host(values), device=self.device)

    def publish(self, value: object) -> Tensor:
        """Return what is to be published: arrays of numbers as arrays of this home, all else as it is."""
        if isinstance(value, np.ndarray | np.generic):
            return self.leave(value) if value.dtype.kind in _NUMBERS else value
        return self.leave(value) if is_tensor(value) else value


def home_of(X: object) -> Home | None:
    """Return where X lies and is to be computed; None for the host, as a NumPy array or a sparse matrix.

    Examples
    --------
    >>> home_of(np.zeros((2, 3))) is None, home_of([[0.0]]) is None
    (True, True)
    """
    return kept_home(X) if is_tensor(X) or get_config()["array_api_dispatch"] else None


def kept_home(values: object) -> Home | None:
    """Return where a fitted array lies, whatever scikit-learn's configuration says now."""
    if is_tensor(values):
        return Home("torch", values.device, values.device, sys.modules["torch"])
    if not _is_foreign(values):
        return None
    library = _library_of(values)
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"Arrays of {library} are computed by {error.name}, which comes with: pip install 'atklearn[torch]'",
            name=error.name,
        ) from error
    try:
        kind, number = values.__dlpack_device__()
    except (BufferError, NotImplementedError, RuntimeError, ValueError):
        kind, number = 1, 0
    device = torch.device("cuda", number) if int(kind) in _GPUS else torch.device("cpu")
    namespace = values.__array_namespace__() if hasattr(values, "__array_namespace__") else sys.modules[library]
    return Home(library, values.device, device, namespace)


def same_home(fitted: object, X: object, caller: str) -> Home | None:
    """Return where X and fitted coefficients lie, or say, for the method that is the caller, that they are apart."""
    there, here = kept_home(fitted), home_of(X)
    if there == here:
        return here
    advice = "pass X as a NumPy array" if there is None else "move X there, or call to_numpy() to predict from arrays"
    raise ValueError(
        f"X of {caller} must use the same namespace and the same device as in the fit, "
        f"{there or 'numpy'}, got {here or 'numpy'}; {advice}."
    )


def on_host(values: Any) -> Any:
    """Return tensors and arrays of other libraries as NumPy arrays, single numbers as such; all else as it is.

    Examples
    --------
    >>> on_host([1, 2]), on_host(None)
    ([1, 2], None)
    """
    if is_tensor(values):
        values = values.detach().cpu().resolve_neg().resolve_conj()
        # NumPy has none of PyTorch's short floats but one
        is_short = values.is_floating_point() and values.element_size() <= 2
        return (values.float() if is_short else values).numpy()[()]
    if not _is_foreign(values):
        return values
    if _library_of(values) == "cupy":  # it refuses to be converted by the way
        return values.get()
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError, ValueError):
        default = values.__array_namespace__().__array_namespace_info__().default_device()
        return np.asarray(values.to_device(default))


def is_quicker_on_host(device: object, n_numbers: int) -> bool:
    """Say whether compiled code, if there is any, is the quicker one, as it always is for tensors of the host.

    Examples
    --------
    >>> is_quicker_on_host("cuda", 10**9)
    False
    """
    return HAS_NUMBA and (str(device) == "cpu" or n_numbers <= FEW_NUMBERS)


def as_tensor_if_dense(X: Features) -> Features:
    """Return a NumPy array as a tensor of the same memory, if there is PyTorch; all else as it is."""
    if not isinstance(X, np.ndarray):
        return X
    try:
        import torch
    except ModuleNotFoundError:
        return X
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)  # nor written to
        return torch.from_numpy(X)


def take_rows(values: Features, places: npt.ArrayLike) -> Features:
    """Return some of the rows, at places that are known to the host, where the values lie."""
    if not is_tensor(values):
        return _safe_indexing(values, places)
    import torch

    return values.index_select(0, torch.as_tensor(np.asarray(places, dtype=np.int64), device=values.device))


_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

# Numbers in float64 that a fit has for every row beside X: predictions, densities, pulls, losses, those of a direction.
_NUMBERS_PER_ROW = 18
# One row in so many is copied for the start.
_THINNED = 20
# What passes take whatever the number of rows.
_AT_LEAST = 1 << 30


def bytes_per_row(n_features: int, element_size: int) -> float:
    """Return about how many bytes a fit takes for every row, beside X.

    Examples
    --------
    >>> bytes_per_row(32, 8)
    156.8
    """
    return 8.0 * _NUMBERS_PER_ROW + n_features * element_size / _THINNED


def saying_what_fits(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Turn what a device says when its memory is full into a MemoryError of one sentence, and let all of it go.

    The function, a method or not, takes X as its first argument, or by that name.
    """

    @wraps(function)
    def call(*arguments: _Parameters.args, **named: _Parameters.kwargs) -> _Result:
        torch = sys.modules.get("torch")
        if torch is None:
            return function(*arguments, **named)
        try:
            return function(*arguments, **named)
        except torch.OutOfMemoryError as error:
            traceback.clear_frames(error.__traceback__)  # they would keep tensors as long as the error is known
        X = next(each for each in (*arguments, named.get("X")) if has_home(each))
        raise MemoryError(_sentence(torch, X))  # outside, so that it does not hold the other one

    return call


def _sentence(torch: ModuleType, X: Tensor) -> str:
    n, d = (int(size) for size in X.shape)
    tensor = torch.from_dlpack(X)
    each = bytes_per_row(d, tensor.element_size())
    free = _free_bytes(torch, tensor.device)
    rows = int(max(free - _AT_LEAST, 0) / each)
    needed = (n * each + _AT_LEAST) / 1e9
    return (
        f"A fit on X of shape ({n}, {d}) takes about {needed:.3g} GB beside X, and {tensor.device} "
        f"has {free / 1e9:.3g} GB left, enough for blocks of {min(rows, n)} rows; fit X[:{min(rows, n)}] or as many "
        "rows spread over X, or put X on disk and fit atklearn.ondisk.ArrayChunks of it, which are read in blocks."
    )


def _free_bytes(torch: ModuleType, device: torch.device) -> float:
    """Return what a device has left for this process, its own reserve included."""
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(device)
    share = getattr(torch.cuda, "get_per_process_memory_fraction", lambda _: 1.0)(device)
    return float(min(free, share * total - torch.cuda.memory_reserved(device)))
