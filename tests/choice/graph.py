"""Which symbols a symbol reaches, over all files of the product and of the tests. An edge is a use of a name.

What names do not show follows these rules:

- a symbol reaches the body of its module, a module's body the bodies of the modules that it imports and of the packages around them;
- a module that is passed on as a whole, or of which a name is used that its text does not define, is reached with all its symbols, and so
  is one that is gone;
- a text that is a module's dotted name, alone or with `:name` or `.name` behind it, is a use; one that begins an f-string and ends with
  a dot is a use of the whole package (`import_module(f"spark_merge.codecs.decode.{protocol}")`);
- a function's arguments are pytest's fixtures, where the file, or a conftest.py above it, has one of that name; and so is a text;
- a test reaches the hooks and the body of each conftest.py above it, and the fixtures there that every test gets;
- **sinks** are loaded by the scheme of a URI: a test that reaches the registry reaches the sinks whose scheme is in a text of the tests
  that it reaches, and the sink of plain folders always; one that reaches the registry in a process reaches them by `starts`;
- the name of a file of deploy/ that is Python, in a text or an import, is a use of it;
- **processes**: a text with `-m` before a module, or a program in a text, starts another process. What that runs is reached by `starts`
  alone where it is the whole product (PROGRAMS), else as any name.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.choice.source import ALL, BODY, DOC, TOPS, Source, Uses, imports_of

PROGRAMS = {"sidecar", "sidecar.__main__", "sidecar.cli", "sidecar.cli.main", "sidecar.cli.cdc"}
"""Each is the whole product, as a process."""
SCRIPTS = {"ticdc-dump", "cdc"}
"""Its commands, which tests start."""
REGISTRY = "spark_merge.sinks.registry"
SINKS = "spark_merge.sinks"
FOLDERS = "file"
"""The scheme of a sink that is named without one."""


class Symbol(NamedTuple):
    module: str
    name: str


class Graph:
    """`users`: of a symbol, those that name it. `starters`: of a symbol, those that start a process which runs it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files = {module_of(path): path for top, folder in TOPS.items() for path in sorted((root / folder / top).rglob("*.py"))
                      for path in [path.relative_to(root)]}  # fmt: skip
        self.sources = {name: Source.of((root / path).read_text()) for name, path in self.files.items()}
        self.users: defaultdict[Symbol, set[Symbol]] = defaultdict(set)
        self.starters: defaultdict[Symbol, set[Symbol]] = defaultdict(set)
        self._scripts = {path.name: module for module, path in self.files.items() if path.parts[0] == "deploy"}
        for module, source in self.sources.items():
            self._load(Symbol(module, BODY), module)
            for name, uses in source.uses.items():
                self._link(Symbol(module, name), uses)
        self._link_sinks()

    def tests(self) -> list[Symbol]:
        """What pytest collects."""
        return [
            Symbol(module, name)
            for module, source in self.sources.items()
            if module.rpartition(".")[2].startswith("test_")
            for name in source.uses
            if name.startswith(("test_", "Test")) and name not in source.imports
        ]

    def reaching(self, symbols: Iterable[Symbol], *, starts: bool = False) -> set[Symbol]:
        """These, and whatever reaches one of them. `starts`: through processes too."""
        seen = set(symbols)
        todo = list(seen)
        while todo:
            symbol = todo.pop()
            for user in self.users[symbol] | (self.starters[symbol] if starts else set()):
                if user not in seen:
                    seen.add(user)
                    todo.append(user)
        return seen

    def _link(self, symbol: Symbol, uses: Uses) -> None:
        source = self.sources[symbol.module]
        if symbol.name not in (BODY, DOC):
            self._use(symbol, Symbol(symbol.module, BODY))
        self._use(Symbol(symbol.module, ALL), symbol)
        for chain in uses.names:
            self._name(symbol, source, chain)
        for module, name in ((self._known(module), name) for module, name in uses.imported):
            if symbol.name != BODY or self._is_lost(module, name):
                self._import(symbol, module, name)
            else:
                self._load(symbol, self._submodule(module, name) or module)
        for text in uses.texts:
            self._text(symbol, text)
        for prefix in uses.prefixes:
            if prefix.endswith(".") and prefix != f"{SINKS}.":
                self._package(symbol, prefix)
        if symbol.module.startswith(("tests", "spark_merge.testing")):
            self._fixtures(symbol, source, uses)

    def _use(self, user: Symbol, used: Symbol) -> None:
        if user != used:
            self.users[used].add(user)

    def _name(self, symbol: Symbol, source: Source, chain: tuple[str, ...]) -> None:
        first = chain[0]
        if first in source.imports:
            module, name = self._known(source.imports[first][0]), source.imports[first][1]
            self._use(symbol, Symbol(symbol.module, first))
            self._member(symbol, module if name == ALL else self._submodule(module, name), chain[1:])
        elif first in source.uses:
            self._use(symbol, Symbol(symbol.module, first))

    def _submodule(self, module: str, name: str) -> str:
        """The module that `from module import name` binds; empty where it binds something in it."""
        whole = f"{module}.{name}"
        return whole if whole in self.files and name not in self.sources.get(module, _NOTHING).uses else ""

    def _member(self, symbol: Symbol, module: str, chain: tuple[str, ...]) -> None:
        """What of a module these attributes name; as far as they are modules themselves they are followed."""
        while chain and f"{module}.{chain[0]}" in self.files and chain[0] not in self.sources.get(module, _NOTHING).uses:
            module, chain = f"{module}.{chain[0]}", chain[1:]
        if module in self.files:
            self._import(symbol, module, chain[0] if chain else ALL)

    def _load(self, symbol: Symbol, module: str) -> None:
        """The module's body, and those of the packages around it."""
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            if (package := ".".join(parts[:end])) in self.files:
                self._use(symbol, Symbol(package, BODY))

    def _known(self, module: str) -> str:
        """A script of deploy/ is imported by its bare name, from its own folder."""
        return module if module in self.files else self._scripts.get(f"{module}.py", module)

    def _is_lost(self, module: str, name: str) -> bool:
        """Whether an import asks for what is not there."""
        if module not in self.files:
            return module.partition(".")[0] in TOPS
        return name not in (ALL, *self.sources[module].uses) and not self._submodule(module, name)

    def _import(self, symbol: Symbol, module: str, name: str) -> None:
        module = self._known(module)
        self._load(symbol, module)
        if self._is_lost(module, name):
            self._use(symbol, Symbol(module, ALL))
        elif whole := self._submodule(module, name):
            self._use(symbol, Symbol(whole, BODY))
        elif module in self.files and not (name == ALL and symbol.name in self.sources[symbol.module].imports):
            self._use(symbol, Symbol(module, name))

    def _text(self, symbol: Symbol, text: str) -> None:
        if text.strip() in SCRIPTS and symbol.module.startswith("tests."):
            self.starters[Symbol("sidecar.cli.main", ALL)].add(symbol)
        elif re.fullmatch(r"[a-z_0-9]+(\.\w+)+(:\w+)?", text) and text.partition(".")[0] in TOPS:
            module, _, name = text.partition(":")
            while module and module not in self.files:
                module, _, name = module.rpartition(".")
            if module in PROGRAMS:
                self.starters[Symbol(module, ALL)].add(symbol)
            elif "." in module:
                self._import(symbol, module, name or ALL)
        elif (script := text.rpartition("/")[2]) in self._scripts:
            self._use(symbol, Symbol(self._scripts[script], ALL))
        elif text == "-m":
            self.starters[Symbol("sidecar.__main__", ALL)].add(symbol)
        elif "import " in text:
            self._program(symbol, text)

    def _program(self, symbol: Symbol, text: str) -> None:
        """A program in a text: with `{…}` for what its test fills in. Of what is no Python the imports count that look so."""
        try:
            imported = list(imports_of(ast.parse(re.sub(r"\{[^{}]*\}", "x", text))))
        except SyntaxError:
            imported = [(module, ALL) for module in re.findall(r"(?:from|import)\s+([a-z_]+[\w.]*)", text)]
        for module, name in imported:
            whole = self._submodule(module, name) or module
            if whole in PROGRAMS:
                self.starters[Symbol(whole, ALL)].add(symbol)
            elif module.partition(".")[0] in TOPS:
                self._import(symbol, module, name)
                self._use(symbol, Symbol(whole, ALL))

    def _package(self, symbol: Symbol, prefix: str) -> None:
        for module in self.files:
            if module.startswith(prefix):
                self._use(symbol, Symbol(module, ALL))

    def _fixtures(self, symbol: Symbol, source: Source, uses: Uses) -> None:
        names = uses.arguments | uses.texts
        is_test = symbol.module.rpartition(".")[2].startswith("test_") and symbol.name.startswith(("test_", "Test"))
        for module in (symbol.module, *self._conftests(symbol.module)):
            its = self.sources[module]
            for name in its.fixtures:
                if name in names or (is_test and its.fixtures[name]):
                    self._use(symbol, Symbol(module, name))
            for name in its.imports.keys() & names if module == symbol.module else ():
                self._use(symbol, Symbol(module, name))
            if is_test:
                for name in its.uses:
                    if name == "pytestmark" or (module != symbol.module and (name.startswith("pytest_") or name == BODY)):
                        self._use(symbol, Symbol(module, name))

    def _conftests(self, module: str) -> list[str]:
        parts = module.split(".")
        return [name for end in range(1, len(parts)) if (name := ".".join([*parts[:end], "conftest"])) in self.files]

    def _link_sinks(self) -> None:
        kinds = self.kinds()
        table = [Symbol(REGISTRY, name) for name in self.sources[REGISTRY].uses if name not in (BODY, DOC)]
        registry, started = self.reaching(table), self.reaching(table, starts=True)
        tests = [test for test in self.tests() if test in started]
        for kind, schemes in kinds.items():
            named = re.compile("|".join(rf"\b{re.escape(scheme)}://?|^{re.escape(scheme)}:?$" for scheme in schemes))
            naming = [
                Symbol(module, name)
                for module, source in self.sources.items()
                if module.startswith(("tests.", "spark_merge.testing"))
                for name, uses in source.uses.items()
                if any(named.search(text) for text in uses.texts)
            ]
            reached = self.reaching(naming)
            for test in (test for test in tests if test in reached or FOLDERS in schemes):
                if test in registry:
                    self._import(test, *kind)
                else:
                    self.starters[kind].add(test)

    def kinds(self) -> Mapping[Symbol, list[str]]:
        """Each kind of sink, with its schemes, as the registry's text says."""
        kinds: defaultdict[Symbol, list[str]] = defaultdict(list)
        for node in ast.walk(ast.parse((self.root / self.files[REGISTRY]).read_text())):
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    text = value.args[0] if isinstance(value, ast.Call) and value.args else value
                    if isinstance(key, ast.Constant) and isinstance(text, ast.Constant) and ":" in str(text.value):
                        module, _, name = str(text.value).partition(":")
                        kinds[Symbol(f"{SINKS}.{module}", name)].append(str(key.value))
        return kinds


_NOTHING = Source({}, {}, {})


def module_of(path: Path) -> str:
    parts = path.with_suffix("").parts[path.parts[0] == "proto" :]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
