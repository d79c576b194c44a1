# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Losses at predictions that are tensors, and in kernels: formulas run where the tensors lie, others on the host.

What is written once in NumPy's words runs on tensors with other functions in their place, and is compiled by Triton:
passes as they stand (:func:`written_once`), formulas of losses, which may say more than Triton knows, printed anew.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable
from functools import cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from atklearn.losses.individual import Formula, IndividualLoss, Kink, formula_of
from atklearn.stores.tensors.triton_language import HAS_TRITON, jit, tl

__all__ = ["Expansion", "TensorLoss", "on_tensors", "written_once"]

Number: TypeAlias = "Tensor | float"
KernelLoss: TypeAlias = tuple[object, bool, bool, Tensor]


class Expansion(NamedTuple):
    """The smooth part of losses, its slope and its curvature in the prediction: a number per sample each."""

    s: Tensor
    slope: Tensor
    curvature: Tensor


class TensorLoss:
    """An individual loss that takes tensors.

    Parameters
    ----------
    loss : IndividualLoss
        A formula is computed on the device; for a loss that exists in Python only, predictions travel to the host and
        back.
    kernels_on : torch.device, default=None
        Where kernels compute it, if it can be printed for them; None if there are no kernels.

    Attributes
    ----------
    kernels : tuple or None
        What kernels take: a function of Triton, which takes parameters, predictions and targets and returns what
        :meth:`expand` does; whether the kink is that of an absolute value, whether there is none; the parameters.

    Examples
    --------
    >>> import torch
    >>> from atklearn.losses.individual import Hinge
    >>> TensorLoss(Hinge()).expand(torch.tensor([0.5, 2.0]), torch.tensor([1.0, 1.0])).s
    tensor([ 0.5000, -1.0000])
    """

    def __init__(self, loss: IndividualLoss, kernels_on: torch.device | None = None) -> None:
        self.loss = loss
        self.kink = Kink(loss.kink)
        self.two_sided, self.smooth = self.kink.is_two_sided, self.kink is Kink.NONE
        self.formula = formula_of(loss)
        self.kernels = None if kernels_on is None else self._for_kernels(kernels_on)

    def _for_kernels(self, device: torch.device) -> KernelLoss | None:
        """Return what kernels take, or None if the loss cannot be printed for Triton."""
        expand = None if self.formula is None or not HAS_TRITON else _printed(self.formula)
        if self.formula is None or expand is None:
            return None
        values = torch.tensor([*self.formula.values(self.loss), 0.0], dtype=torch.float64)  # a pointer there must be
        return expand, self.two_sided, self.smooth, values.to(device)

    def expand(self, f: Tensor, y: Tensor) -> Expansion:
        """Return smooth part, slope and curvature at predictions ``f``, shape (n,)."""
        if self.formula is None:
            found = self.loss.expand(f.cpu().numpy(), y.cpu().double().numpy())
            s, slope, curvature = (torch.as_tensor(part, dtype=torch.float64).to(f.device) for part in found)
            return Expansion(s, slope, curvature)
        return Expansion(*(_one_each(part, f) for part in _bound_to_tensors(self.formula)(self.loss, f, y)))


def _one_each(part: Number, f: Tensor) -> Tensor:
    """Return what a formula says as one number per prediction, of their type."""
    return part.to(f.dtype) if isinstance(part, Tensor) else torch.full_like(f, part)


# NumPy's words for tensors, and for numbers, which a loss may have


def _maximum(a: Number, b: Number) -> Number:
    if not isinstance(a, Tensor):
        a, b = b, a
    return a.clamp(min=b) if isinstance(a, Tensor) else max(a, b)


def _minimum(a: Number, b: Number) -> Number:
    if not isinstance(a, Tensor):
        a, b = b, a
    return a.clamp(max=b) if isinstance(a, Tensor) else min(a, b)


def _where(condition: Tensor, one: Number, other: Number) -> Tensor:
    if isinstance(one, Tensor) or isinstance(other, Tensor):
        return torch.where(condition, one, other)
    return torch.full_like(condition, other, dtype=torch.float64).masked_fill(condition, one)


def _of_one(name: str) -> Callable[[Number], Number]:
    return lambda x: getattr(torch if isinstance(x, Tensor) else np, name)(x)


_FUNCTIONS: dict[str, Callable[..., object]] = {
    "abs": abs,
    "clip": lambda x, low, high: _minimum(_maximum(x, low), high),
    "logaddexp": lambda a, b: _maximum(a, b) + torch.log1p(torch.exp(-abs(a - b))),
    "maximum": _maximum,
    "minimum": _minimum,
    "where": _where,
}
_FUNCTIONS |= {name: _of_one(name) for name in ("exp", "log", "log1p", "sign", "sqrt", "square", "tanh")}


@cache
def _bound_to_tensors(formula: Formula) -> FunctionType:
    return formula.bound_to(_FUNCTIONS)


# What is written once, and called by its name on tensors as ``on_tensors.name``.
on_tensors = SimpleNamespace()
_AS_NUMPY = ModuleType("numpy")
vars(_AS_NUMPY).update(_FUNCTIONS)
_ON_TENSORS = {"np": _AS_NUMPY, "__name__": __name__}
_IN_KERNELS = {"np": tl, "__name__": __name__}


def written_once(text):
    """Return a function as kernels call it; on tensors it is :data:`on_tensors`'s of its name.

    It may use arithmetic, ``np.abs, maximum, minimum, sqrt, where``, others that are written once, and the numbers 0, 1
    and 2, which have all their digits in a float32, too: numbers of kernels are that short unless they are arguments.
    """
    name = text.__name__
    _ON_TENSORS[name] = FunctionType(text.__code__, _ON_TENSORS, name)
    _IN_KERNELS[name] = jit(FunctionType(text.__code__, _IN_KERNELS, name))
    setattr(on_tensors, name, _ON_TENSORS[name])
    return _IN_KERNELS[name]


@cache
def _printed(formula: Formula) -> object | None:
    """Return a formula as a function of Triton; None if its source is not at hand, or says what Triton cannot."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(formula.text)))
        text = _Printer(formula).visit(tree)
    except (OSError, SyntaxError, _NotPrintableError):
        return None
    name = f"expand_{crc32(ast.unparse(text).encode()):08x}"  # kernels are cached by the names of what they are given
    text.body[0].name = name
    source = ast.unparse(ast.fix_missing_locations(text))
    file = f"<{formula.text.__qualname__} for Triton, {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names = {"tl": tl, "__name__": __name__} | {each.__name__: each for each in _HELPERS}
    exec(compile(source, file, "exec"), names)  # the text of the formula, and nothing but what the printer knows
    kernel: object = jit(names[name])
    return kernel


class _NotPrintableError(Exception):
    """Raised by what a formula says and Triton cannot."""


class _Printer(ast.NodeTransformer):
    """Rewrites a formula in the language of Triton."""

    def __init__(self, formula: Formula) -> None:
        self.formula = formula

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, _KNOWN):
            raise _NotPrintableError
        return super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.me, *others = [argument.arg for argument in node.args.args]
        last = node.body[-1]
        if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple) and len(others) == 2):
            raise _NotPrintableError
        first = [f"{_ZERO} = tl.zeros_like({others[0]})"]
        for place, name in enumerate(self.formula.parameters):
            first.append(f"{_PARAMETER}{name} = tl.load({_PARAMETER} + {place})")
        body = [self.visit(each) for each in node.body if not isinstance(each, ast.Expr)]  # which docstrings are
        arguments = ast.arguments([], [ast.arg(name) for name in (_PARAMETER, *others)], None, [], [], None, [])
        node.args, node.body = arguments, [*ast.parse("\n".join(first)).body, *body]
        node.decorator_list, node.returns = [], None
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        assert isinstance(node.value, ast.Tuple)  # of the last statement, and there is no other return
        node.value = ast.Tuple([self._number(part) for part in node.value.elts], ast.Load())
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.Name:
        if not (isinstance(node.value, ast.Name) and node.value.id == self.me):
            raise _NotPrintableError
        return ast.Name(_PARAMETER + node.attr, ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.AST:
        value = self.formula.outer.get(node.id)
        return ast.Constant(float(value)) if isinstance(value, float | int) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if isinstance(node.op, ast.Pow):
            if not (isinstance(node.right, ast.Constant) and node.right.value == 2):
                raise _NotPrintableError
            return ast.Call(ast.Name("_square", ast.Load()), [self.visit(node.left)], [])
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if called not in _PRINTED or node.keywords:
            raise _NotPrintableError
        arguments = [self._number(argument) for argument in node.args]
        if called == "where":
            arguments[0] = self.visit(node.args[0])
        return ast.Call(ast.parse(_PRINTED[called], mode="eval").body, arguments, [])

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self._number(node.value)
        return node

    def _number(self, node: ast.expr) -> Any:
        """Print a number as a float64 for each sample: Triton would take it for a float32."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if names - {self.me, *self.formula.outer}:
            return self.visit(node)
        return ast.BinOp(ast.Name(_ZERO, ast.Load()), ast.Add(), self.visit(node))


# The names that the printer adds to those of the formula.
_ZERO, _PARAMETER = "zero_of_all", "parameter_"
_KNOWN = (
    ast.Module, ast.FunctionDef, ast.Assign, ast.AugAssign, ast.Return, ast.Expr, ast.Tuple, ast.Name, ast.Constant,
    ast.Attribute, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.expr_context, ast.operator, ast.unaryop,
    ast.cmpop,
)  # fmt: skip
_PRINTED = {
    "abs": "tl.abs", "clip": "_clip", "exp": "tl.exp", "log": "tl.log", "log1p": "_log1p", "logaddexp": "_logaddexp",
    "maximum": "tl.maximum", "minimum": "tl.minimum", "sign": "_sign", "sqrt": "tl.sqrt", "square": "_square",
    "where": "tl.where",
}  # fmt: skip


@jit
def _log1p(x):
    # the logarithm of the rounded sum, and what rounding has left out of it
    whole = 1.0 + x
    return tl.log(whole) + (x - (whole - 1.0)) / whole


@jit
def _logaddexp(a, b):
    return tl.maximum(a, b) + _log1p(tl.exp(-tl.abs(a - b)))


@jit
def _square(x):
    return x * x


@jit
def _clip(x, low, high):
    return tl.minimum(tl.maximum(x, low), high)


@jit
def _sign(x):
    return tl.where(x > 0.0, 1.0, tl.where(x < 0.0, -1.0, 0.0)).to(tl.float64)


_HELPERS = (_log1p, _logaddexp, _square, _clip, _sign)
