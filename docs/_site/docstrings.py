"""Docstrings as Sphinx reads them: public names become links, other code stays code."""

import re

from . import names

CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)(?!_)")
PAGE = re.compile(r"\bdocs/(\w+)\.md\b")


def process(app, what, name, each, options, lines: list[str]) -> None:
    """Rewrites a docstring in place: names in backticks, and signs that are mathematics here."""
    if what == "data":  # autodoc takes the docstring of its type, which says nothing about it
        lines[:] = [names.DATA.get(name, "")]
    lines[:] = "\n".join(lines).split("\n")  # what an error is raised for comes as one line
    quoted, literal = False, -1
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if literal >= 0 and (not line.strip() or indent > literal):
            continue  # a block after `::` stands as it is
        literal = indent if line.endswith("::") else -1
        quoted = line.lstrip().startswith(">>>") or (quoted and bool(line.strip()))
        if not quoted and not line.lstrip().startswith(":"):
            lines[number] = plain(line)
        elif not quoted:
            head, colon, rest = _field(line)
            lines[number] = head + colon + plain(rest)


def bases(app, name: str, each: type, options, found: list) -> None:
    """Of what a class is derived from, the nearest that the reference has."""
    found[:] = [names.base_of(each)]


def _field(line: str) -> tuple[str, str, str]:
    """A field such as `:param x: text`, split after its second colon."""
    match = re.match(r"(\s*:[^:]*:)(\s?)(.*)", line)
    return (match[1], match[2], match[3]) if match else ("", "", line)


def plain(line: str) -> str:
    """One line of text, with single backticks as code and no accidental markup."""
    parts = CODE.split(line)
    for index in range(0, len(parts), 2):
        text = parts[index]
        if "``" not in text:
            text = re.sub(r"(?<!\\)([*|])", r"\\\1", text)
        text = re.sub(r"(?<=\w)_(?=[^\w`]|$)", r"\\_", text)
        parts[index] = PAGE.sub(r":doc:`/\1`", text)
    for index in range(1, len(parts), 2):
        address = names.addresses().get(parts[index])
        code = f":py:obj:`{parts[index]} <{address}>`" if address else f"``{parts[index]}``"
        # Markup must not end at a letter: `System`s is a link and an s.
        parts[index] = code + "\\ " * bool(re.match(r"\w", parts[index + 1]))
    return "".join(parts)


def missing(app, env, node, contnode):
    """A type that is public under another address, or one of another library, as text."""
    target = node.get("reftarget", "")
    address = names.addresses().get(target)
    if address and address != target:
        domain = env.get_domain("py")
        maker = (env, node["refdoc"], app.builder, "obj", address, node, contnode)
        found = domain.resolve_xref(*maker)
        if found is not None:
            return found
    # Only annotations may name what the site does not document; texts may not.
    return contnode if node.get("reftype") in ("class", "exc") else None
