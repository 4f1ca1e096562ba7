"""What texts expressions of a study's source can give, read and not run.

Names are followed to what is assigned to them, parameters to the calls of their function, loops to
the rows that they run over, all expressions of a claim together. What only data tell is "…".
"""

import ast
import copy
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

UNKNOWN, MOST, DEEPEST = "…", 24, 8  # texts at most, and calls or names followed in a row

Scope = ast.FunctionDef | ast.Module
Row = Mapping[str, ast.expr]


class Sentences:
    """The texts of a study's modules.

    Args:
        trees: the modules.
    """

    def __init__(self, trees: Sequence[ast.Module]):
        self.calls = [found for tree in trees for found in _calls(tree, tree)]
        self._named: Row = {n: v for tree in trees for n, v in _assigned(tree.body).items()}

    def texts(self, nodes: Sequence[ast.expr], inside: Scope, depth: int = 0) -> list[list[str]]:
        """The texts of expressions in a function: a list for every case, in the source's order."""
        if depth > DEEPEST:
            return [[UNKNOWN] * len(nodes)]
        if isinstance(inside, ast.FunctionDef):
            last = max(node.lineno for node in nodes)
            own = _assigned(node for node in ast.walk(inside) if getattr(node, "lineno", 0) <= last)
            for _ in range(DEEPEST):
                nodes = [_put(node, own) for node in nodes]
        used = {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}
        cases = list(itertools.product(*self._groups(inside, used, depth)))
        bound = [{n: v for row in case for n, v in row.items()} for case in cases[: MOST + 1]]
        every = [[self._text(_put(node, row)) for node in nodes] for row in bound]
        found = [list(row) for row in dict.fromkeys(map(tuple, every))]
        return found if len(found) <= MOST else [[UNKNOWN] * len(nodes)]

    def _groups(self, inside: Scope, used: set[str], depth: int) -> Iterator[list[Row]]:
        """For every loop, and for the parameters, the rows that give values to used names."""
        if not isinstance(inside, ast.FunctionDef):
            return
        for loop in ast.walk(inside):
            if isinstance(loop, ast.For | ast.comprehension):
                names = _targets(loop.target)
                given = self._written(loop, names) if used & set(names) else []
                if given:
                    yield [dict(zip(names, row, strict=False)) for row in given]
        asked = [argument.arg for argument in inside.args.args if argument.arg in used]
        places = [argument.arg for argument in inside.args.args]
        rows: list[Row] = []
        for call, around in self.calls if asked else ():
            if ast.unparse(call.func) == inside.name and around is not inside:
                given = dict(zip(places, call.args, strict=False))
                given |= {word.arg: word.value for word in call.keywords if word.arg}
                known = [name for name in asked if name in given]
                for texts in self.texts([given[n] for n in known], around, depth + 1) * bool(known):
                    rows.append(dict(zip(known, map(ast.Constant, texts), strict=True)))
        if rows:
            yield rows

    def _written(self, loop: ast.For | ast.comprehension, names: list[str]) -> list[list[ast.expr]]:
        """The rows of a loop over a list, or over a dict, that is written out."""
        over, items = loop.iter, False
        if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute):
            over, items = over.func.value, over.func.attr == "items"
        over = self._named.get(over.id, over) if isinstance(over, ast.Name) else over
        if isinstance(over, ast.Dict):
            keys = [key or ast.Constant(UNKNOWN) for key in over.keys]
            both = zip(keys, over.values, strict=True)
            return [[key, value] if items else [key] for key, value in both]
        rows = over.elts if isinstance(over, ast.List | ast.Tuple) else []
        several = len(names) > 1
        return [r.elts if several and isinstance(r, ast.Tuple) else [r] for r in rows]

    def _text(self, node: ast.expr, depth: int = 0) -> str:
        deeper = lambda part: self._text(part, depth + 1)
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(map(deeper, node.values))
        if isinstance(node, ast.FormattedValue):
            return deeper(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return deeper(node.left) + deeper(node.right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            filled = node.func.attr == "format"
            return re.sub(r"\{[^}]*\}", UNKNOWN, deeper(node.func.value)) if filled else UNKNOWN
        if isinstance(node, ast.Name) and node.id in self._named and depth < DEEPEST:
            return deeper(self._named[node.id])
        return UNKNOWN


def _calls(node: ast.AST, inside: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, inside
        yield from _calls(child, child if isinstance(child, ast.FunctionDef) else inside)


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """Name → what was assigned to it last, with what was added to that."""
    found: dict[str, ast.expr] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            before = found.get(node.target.id, ast.Constant(UNKNOWN))
            found[node.target.id] = ast.BinOp(before, ast.Add(), node.value)
    return found


def _targets(target: ast.expr) -> list[str]:
    return [ast.unparse(t) for t in (target.elts if isinstance(target, ast.Tuple) else [target])]


class _Put(ast.NodeTransformer):
    def __init__(self, values: Row):
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._values.get(node.id, node))


def _put(node: ast.expr, values: Row) -> ast.expr:
    """The expression with values in place of names."""
    return _Put(values).visit(copy.deepcopy(node))
