"""Plain text of figures, such as "η_crit ∝ m^(−1/2)", set as mathematics."""

import re

_SYMBOL = r"(?<![\w\\{])([A-Za-zα-ωΑ-Ωℓ])"  # one letter that is no part of a word
_SCRIPT = r"(?:\(([\w\s−+*/.,=∞⋆-]*)\)|([−+-]?[\w∞⋆*]+))"  # in parentheses, or a word
_BELOW = re.compile(rf"{_SYMBOL}_{_SCRIPT}")
_POWER = re.compile(rf"{_SYMBOL}\^{_SCRIPT}")
_ABOVE = re.compile(rf"\^{_SCRIPT}")  # of a number, a parenthesis, or a symbol with an index


def mathematics(text: str) -> str:
    r"""The text with indices below and exponents above the line.

    Text that has mathematics of its own, between dollar signs, is as it was.

    Args:
        text: plain text.

    Returns:
        Text for matplotlib.

    Examples:
        >>> from learndyn.plotting.mathematics import mathematics
        >>> mathematics("η_crit, m^(−1/2), test_error")
        '$η_{\\mathrm{crit}}$, $m^{−1/2}$, test_error'
    """
    if "$" in text or not ("_" in text or "^" in text):
        return text
    text = _BELOW.sub(lambda m: _math(f"{m[1]}_", m[2] or m[3]), text)
    text = _POWER.sub(lambda m: _math(f"{m[1]}^", m[2] or m[3]), text)
    return _ABOVE.sub(lambda m: _math("^", m[1] or m[2]), text)


def _math(begin: str, script: str) -> str:
    """Words of a script are upright, as names are."""
    words = re.sub(r"[^\W\d_]{2,}", lambda m: rf"\mathrm{{{m[0]}}}", script)
    return f"${begin}{{{words}}}$"
