"""Formulas as MathML, which browsers draw themselves: no script and no request."""

from docutils import nodes
from latex2mathml.converter import convert


def visit_math(self, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_math_block(self, node: nodes.math_block) -> None:
    """A formula of its own, with its number."""
    number = node.get("number")
    self.body.append('<div class="formula">')
    if number:
        anchor = node.get("ids", [""])[0] or f"equation-{node.get('label', '')}"
        self.body.append(f'<span class="eqno" id="{anchor}">({number})</span>')
    self.body.append(convert(node.astext(), display="block"))
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app) -> None:
    """Registers the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
