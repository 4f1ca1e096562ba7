"""Formulas as MathML, which browsers draw themselves: no script and no request."""

import re

from docutils import nodes
from latex2mathml.converter import convert

# After these a minus is a sign. Stars and transposes belong to a name, and a slash stands close.
BEFORE_A_SIGN = r"(<mo[^>]*>(?:&#x00028;|&#x0005B;|&#x0007B;|&#x0002C;|&#x0003D;|\(|\[|,|=)</mo>)"
SPACES = {
    BEFORE_A_SIGN + "<mo>(&#x02212;|−|-)</mo>": r'\1<mo form="prefix">\2</mo>',
    "<mo>(&#x0002A;|&#x022A4;)</mo>": r"<mi>\1</mi>",
    "<mo>(&#x0002F;|/)</mo>": r'<mo lspace="0" rspace="0">\1</mo>',
}


def formula(latex: str, display: str = "inline") -> str:
    """MathML of a formula, spaced as TeX does; a single letter that is set in roman is upright."""
    text = convert(re.sub(r"\\mathrm\{(\w)\}", r"\\text{\1}", latex), display=display)
    for pattern, better in SPACES.items():
        text = re.sub(pattern, better, text)
    return text


def visit_math(self, node: nodes.math) -> None:
    """A formula in a line of text."""
    self.body.append(formula(node.astext()))
    raise nodes.SkipNode


def visit_math_block(self, node: nodes.math_block) -> None:
    """A formula of its own, with its number."""
    number = node.get("number")
    self.body.append('<div class="formula">')
    if number:
        anchor = node.get("ids", [""])[0] or f"equation-{node.get('label', '')}"
        self.body.append(f'<span class="eqno" id="{anchor}">({number})</span>')
    self.body.append(formula(node.astext(), "block"))
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app) -> None:
    """Registers the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
