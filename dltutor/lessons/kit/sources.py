"""Whether two classes or functions are the same code: their sources, compared as syntax trees.

Comments, layout, docstrings and type hints do not count. Python's own `inspect.getsource` does not
find a class that was typed into a cell, but each of its functions knows its file and line.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any


def same_class(one: type, other: type) -> bool:
    """Whether two classes have the same body."""
    return one is other or _same(_definition(one), _definition(other))


def same_function(one: object, other: object) -> bool:
    """Whether two things are functions with the same parameters and body."""
    return one is other or _same(_definition(one), _definition(other))


def only_holds(source: str, other: type) -> bool:
    """Whether a file's text holds this class, with the same body, and nothing else that does
    anything: imports, numbers and texts do not.

    Args:
        source: The text of the file, which is not run.
        other: The class, whose name counts too.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    rest = [node for node in tree.body if not _does_nothing(node)]
    return (
        len(rest) == 1
        and getattr(rest[0], "name", "") == other.__name__
        and _same(rest[0], _definition(other))
    )


def _does_nothing(node: Any) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom)) or (
        isinstance(node, (ast.Expr, ast.Assign)) and isinstance(node.value, ast.Constant)
    )


def _same(one: Any, other: Any) -> bool:
    if one is None or other is None or type(one) is not type(other):
        return False
    return ast.dump(_bare(one)) == ast.dump(_bare(other))


def _definition(thing: object) -> Any:
    codes = list(_codes(thing))
    if not codes:
        return None
    file = codes[0].co_filename
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
    name = getattr(thing, "__name__", "")
    lines = {code.co_firstlineno for code in codes if code.co_filename == file}
    kind = ast.ClassDef if isinstance(thing, type) else (ast.FunctionDef, ast.Lambda)
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, kind)
        and getattr(node, "name", name) == name
        and lines & set(range(_first_line(node), (node.end_lineno or 0) + 1))
    ]
    return found[-1] if found else None


def _first_line(node: Any) -> int:
    # Python counts a function's code from its first decorator.
    first: int = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
    return first


def _codes(thing: object) -> Iterator[CodeType]:
    values = vars(thing).values() if isinstance(thing, type) else [thing]
    for value in values:
        # A static or class method, a property, a cached property, a function with a cache.
        for attribute in ("__func__", "fget", "func", "__wrapped__"):
            value = getattr(value, attribute, value)
        if isinstance(value, FunctionType):
            yield value.__code__


class _Bare(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._without_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        if node.value is None:
            return None
        self.generic_visit(node)
        return ast.Assign(targets=[node.target], value=node.value, type_comment=None, lineno=0)

    def _without_docstring(self, node: Any) -> ast.AST:
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        stripped: ast.AST = node
        return stripped


def _bare(node: Any) -> Any:
    bare: Any = _Bare().visit(node)
    # Bases and names do not run differently: only what the class holds counts.
    if isinstance(bare, ast.ClassDef):
        return ast.Module(body=bare.body, type_ignores=[])
    if isinstance(bare, ast.Lambda):
        return bare
    header = ast.Lambda(args=bare.args, body=ast.Tuple(bare.decorator_list, ast.Load()))
    return ast.Module(body=[ast.Expr(header), *bare.body], type_ignores=[])
