# mypy: disable-error-code="no-untyped-def, attr-defined"
"""Losses and the densities of samples inside kernels, in float64: formulas are printed as functions of Triton."""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from atklearn.losses.individual import Formula, IndividualLoss, Kink, formula_of
from atklearn.stores.tensors.triton_language import HAS_TRITON, jit, tl

__all__ = ["KernelLoss", "density_of", "enters", "losses_of"]


class KernelLoss(NamedTuple):
    """A loss as kernels take it.

    Attributes
    ----------
    expand : function of Triton
        Of parameters, predictions and targets: returns smooth parts, slopes and curvatures.
    parameters : Tensor of shape (n_parameters,)
    two_sided, smooth : bool
        Whether its kink is that of an absolute value, and whether it has none.
    """

    expand: Any
    parameters: Tensor
    two_sided: bool
    smooth: bool

    @classmethod
    def of(cls, loss: IndividualLoss, device: torch.device) -> KernelLoss | None:
        """Return a loss with its parameters on a device, or None if it cannot be printed for Triton."""
        formula = formula_of(loss)
        expand = None if formula is None or not HAS_TRITON else _printed(formula)
        if formula is None or expand is None:
            return None
        values = torch.tensor([*formula.values(loss), 0.0], dtype=torch.float64)  # a pointer is needed in any case
        kink = Kink(loss.kink)
        return cls(expand, values.to(device), kink.is_two_sided, kink is Kink.NONE)


@cache
def _printed(formula: Formula) -> Any:
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
    return jit(names[name])


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


@jit
def losses_of(two_sided: tl.constexpr, s):
    """Return the losses, but for the positive part of those that have one."""
    return tl.abs(s) if two_sided else s


@jit
def enters(smooth: tl.constexpr, slope, bend):
    """Say which samples, their density being at its upper bound, go into the Hessian, be it a cautious one."""
    if smooth:
        return (bend > 0.0) | (slope != 0.0)
    else:
        return bend > 0.0


@jit
def density_of(two_sided: tl.constexpr, s, centre, inverse_mu, lam):
    """Return the densities at a smoothing and a threshold."""
    if two_sided:
        sign = tl.where(centre + s * inverse_mu < 0.0, -1.0, 1.0).to(tl.float64)
        r = sign * tl.minimum(tl.maximum(sign * centre + (sign * s - lam) * inverse_mu, 0.0), 1.0)
    else:
        # (s - lam) / mu, not s / mu - lam / mu: for small mu the latter cancels
        r = tl.minimum(tl.maximum(centre + (s - lam) * inverse_mu, 0.0), 1.0)
    return r
