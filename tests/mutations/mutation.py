"""One change of the source that breaks a promise, and the test that must fail by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """In the symbol `place` ("sidecar/core/plan.py::Plan.begin"), `old` becomes `new`. `old` is as short as is unique there: an edit of the
    text around it leaves the mutation as it is."""

    name: str
    place: str
    old: str
    new: str
    caught_by: str

    @property
    def file(self) -> str:
        return self.place.partition("::")[0]


def mutated(text: str, place: str, old: str, new: str) -> str:
    """The file's `text` with the edit made. Raises ValueError where the symbol is not there, or does not have `old` exactly once."""
    _, _, symbol = place.partition("::")
    spans = [(start, end) for start, end, name in _symbols(text) if name == symbol]
    if len(spans) != 1:
        raise ValueError(f"{place} is there {len(spans)} times")
    start, end = spans[0]
    if (times := text[start:end].count(old)) != 1:
        raise ValueError(f"{place} has this text {times} times: {old}")
    return text[:start] + text[start:end].replace(old, new) + text[end:]


def symbol_text(text: str, symbol: str) -> str:
    """Of a function, a class or a constant; the whole file for no symbol, or for one that is not there."""
    return next((text[start:end] for start, end, name in _symbols(text) if name == symbol.replace("::", ".")), text)


def _symbols(text: str) -> Iterator[tuple[int, int, str]]:
    """Where functions, classes and constants begin and end; of a class its own, too. Whole lines."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    todo: list[tuple[str, ast.stmt]] = [("", node) for node in ast.parse(text).body]
    while todo:
        prefix, node = todo.pop()
        names = _names(node)
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        for name in names:
            yield starts[first - 1], starts[node.end_lineno or first], prefix + name
        if isinstance(node, ast.ClassDef):
            todo += [(f"{prefix}{node.name}.", part) for part in node.body]


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


SIMULATION = "tests/simulation/test_simulation.py::test_every_life_ends_with_the_output_equal_to_the_source[0]"
SINKS = "tests/contract/test_sink_port.py"
