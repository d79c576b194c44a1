"""Formulas as MathML: browsers draw them by themselves, so the pages need no script and no network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def draw_inline(writer: Any, node: Any) -> None:
    """Write a formula within a line."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode  # its text is not written again


def draw_block(writer: Any, node: Any) -> None:
    """Write a formula of its own, which may be scrolled on a narrow screen."""
    formula = convert(rf"\begin{{aligned}}{node.astext()}\end{{aligned}}" if "&" in node.astext() else node.astext())
    writer.body.append(f'<div class="formula">{formula.replace("inline", "block", 1)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(draw_inline, None), block_renderers=(draw_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
