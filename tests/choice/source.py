"""What a file of Python defines at its top level, and which names each definition uses. Read from the text: nothing is imported.

A **symbol** is a function, a class, a constant or an imported name at a module's top level; `BODY` is what the module executes when it is
imported: loose statements, and definitions under a decorator that can register them (typer's commands). The text of a symbol is its syntax
tree: comments and layout do not count. Docstrings count as `__doc__` of their module, and within a file of commands, whose help they are.

An annotation of a function is not executed (`from __future__ import annotations`), so its names are no use of them, but in a file of
commands, whose options they are; those of a class's fields are read by dataclasses and msgspec, and count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

BODY, DOC, ALL = "", "__doc__", "*"

TOPS = {"sidecar": "", "spark_merge": "", "tests": "", "ticdc_dump": "proto", "deploy": ""}
"""The packages of this repository, and the folder of each."""


@dataclass(slots=True)
class Uses:
    """Of one symbol. `names`: local names, each with the attributes behind it. `imported`: names of modules that it imports itself.
    `texts`: its string constants, and the constant parts of its f-strings. `arguments`: of its functions, which pytest fills by name.
    `attributes`: the last names of what it takes of objects."""

    names: set[tuple[str, ...]] = field(default_factory=set)
    imported: set[tuple[str, str]] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    prefixes: set[str] = field(default_factory=set)
    arguments: set[str] = field(default_factory=set)
    attributes: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Source:
    """`uses`: of each symbol. `imports`: local names to the module and the name in it (ALL: the module itself). `fixtures`: symbols that
    pytest gives to arguments of that name, and whether to every test."""

    uses: dict[str, Uses]
    imports: dict[str, tuple[str, str]]
    fixtures: dict[str, bool]

    @classmethod
    def of(cls, text: str) -> Source:
        """Raises SyntaxError."""
        return _Reader(ast.parse(text)).source()


def texts_of(text: str) -> dict[str, str]:
    """What each symbol is. Raises SyntaxError."""
    return _Reader(ast.parse(text)).texts()


class _Reader:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._parts: dict[str, list[ast.AST]] = {BODY: []}
        self._imports: dict[str, tuple[str, str]] = {}
        self._fixtures: dict[str, bool] = {}
        self._help = any(name.split(".")[0] == "typer" for name, _ in imports_of(tree))

    def source(self) -> Source:
        for node in self._tree.body:
            self._add(node)
        uses = {name: _uses(parts, annotations=self._help) for name, parts in self._parts.items()} | {DOC: Uses()}
        for name, place in self._imports.items():
            uses.setdefault(name, Uses()).imported.add(place)
        uses[BODY].imported |= set(imports_of(self._tree))
        return Source(uses, self._imports, self._fixtures)

    def texts(self) -> dict[str, str]:
        source = self.source()
        bodies = {name: "\n".join(map(self._text, parts)) for name, parts in self._parts.items()}
        imports = {name: repr(place) for name, place in source.imports.items()}
        loaded = [module for module, name in imports_of(self._tree) if name == ALL and (module in TOPS or "." in module)]
        texts = {name: bodies.get(name, "") + imports.get(name, "") for name in source.uses}
        return texts | {BODY: texts[BODY] + repr(loaded), DOC: ast.get_docstring(self._tree) or ""}

    def _text(self, part: ast.AST) -> str:
        return ast.dump(part if self._help else _Undocumented().visit(part))

    def _add(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
                decorators = [ast.unparse(one.func if isinstance(one, ast.Call) else one) for one in node.decorator_list]
                if "pytest.fixture" in decorators:
                    self._fixtures[node.name] = any("autouse=True" in ast.unparse(one) for one in node.decorator_list)
                if any(self._registers(one) for one in decorators):
                    self._parts[BODY] += [node, ast.Name(node.name, ast.Load())]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
                if any(isinstance(one, ast.Subscript | ast.Attribute) and isinstance(one.ctx, ast.Store) for one in ast.walk(node)):
                    self._parts[BODY].append(node)  # it changes an object of another name
            case ast.Import() | ast.ImportFrom():
                self._imports |= _bound(node)
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.Expr(value=ast.Constant()):
                return
            case _:
                names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
                names += [one.name for one in ast.walk(node) if isinstance(one, ast.FunctionDef | ast.ClassDef)]
                for one in ast.walk(node):
                    if isinstance(one, ast.Import | ast.ImportFrom):
                        self._imports |= _bound(one)
                self._parts[BODY].append(node)
        for name in names:
            self._parts.setdefault(name, []).append(node)

    def _registers(self, decorator: str) -> bool:
        """A method of an object of ours, as `app.command`, can keep what it decorates; a function, or a library's, returns it."""
        root, _, method = decorator.partition(".")
        return bool(method) and (root in self._parts or self._imports.get(root, ("", ALL))[1] != ALL)


def _bound(node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str]]:
    if isinstance(node, ast.ImportFrom):
        return {one.asname or one.name: (node.module or "", one.name) for one in node.names}
    return {one.asname or one.name.partition(".")[0]: (one.name if one.asname else one.name.partition(".")[0], ALL) for one in node.names}


def imports_of(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Modules and names of all imports that are executed when the module is."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        match node:
            case ast.Import():
                yield from ((one.name, ALL) for one in node.names)
            case ast.ImportFrom():
                yield from ((node.module or "", one.name) for one in node.names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case _:
                todo += ast.iter_child_nodes(node)


def _uses(parts: list[ast.AST], *, annotations: bool) -> Uses:
    uses = Uses()
    todo: list[ast.AST] = list(parts)
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                uses.arguments |= {one.arg for one in arguments}
                todo += [*node.body, *node.decorator_list, *node.args.defaults, *(one for one in node.args.kw_defaults if one)]
                if annotations:
                    todo += [one.annotation for one in arguments if one.annotation]
                continue
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr="modules"))):
                continue  # it looks for a module that others have loaded
            case ast.Attribute():
                uses.attributes.add(node.attr)
                if chain := _chain(node):
                    uses.names.add(chain)
                    continue
            case ast.Name():
                uses.names.add((node.id,))
            case ast.ImportFrom():
                uses.imported |= {(node.module or "", one.name) for one in node.names}
            case ast.Import():
                uses.imported |= {(one.name, ALL) for one in node.names}
            case ast.JoinedStr():
                if node.values and isinstance(first := node.values[0], ast.Constant):
                    uses.prefixes.add(str(first.value))
            case ast.Expr(value=ast.Constant()):
                continue
            case ast.Constant(value=str() as text):
                uses.texts.add(text)
            case _:
                pass
        todo += ast.iter_child_nodes(node)
    return uses


def _chain(node: ast.Attribute) -> tuple[str, ...] | None:
    """`a.b.c`; None where it does not begin with a name."""
    attributes = [node.attr]
    while isinstance(node.value, ast.Attribute):
        node = node.value
        attributes.append(node.attr)
    return (node.value.id, *reversed(attributes)) if isinstance(node.value, ast.Name) else None


class _Undocumented(ast.NodeTransformer):
    """Without the docstrings of functions and classes, and the texts beneath fields."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:  # ast's name
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node
