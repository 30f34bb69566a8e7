"""Plain words, as a test: private words that a reader would have to learn are not used where everybody reads, and elsewhere get fewer.

    nowhere     the core, the pipeline, the rooms `delivery` and `port`, each package's docstring, public docstrings, messages and log lines
    counted     comments, private docstrings, names: by file, as tests/data/private_words.txt allows it
    names       a name says what a thing is: no bare participle that a replacement of words has left (`reported`, `requested`), nowhere but
                as often as tests/data/bare_names.txt still allows a room; and no test whose name such a replacement has broken

What is on the wire, on disk, in metrics or in settings keeps its name; so does what a library calls so. After a file has fewer:
`python -m tests.test_words`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.each import each

ROOT = Path(__file__).parents[1]
ALLOWED = ROOT / "tests" / "data" / "private_words.txt"
GENERATED = ("_pb2.py", "_pb2_grpc.py")
FILES = sorted(
    path for top in ("sidecar", "spark_merge", "tests") for path in (ROOT / top).rglob("*.py") if not path.name.endswith(GENERATED)
)
PRODUCT = [path for path in FILES if path.relative_to(ROOT).parts[0] != "tests"]

WORDS = frozenset(
    {"found", "told", "tells", "telling", "heard", "unheard", "hears", "asked", "meant", "gathered", "anew", "former", "news", "whoever"}
)
PHRASES = re.compile(
    r"\b(pass(?:ed|es)? by|left out|leav(?:e|es|ing) out|(?:go|goes|gone|going|went) on(?! record)|by (?:it|them)sel(?:f|ves)"
    r"|refused by name)\b",
    re.IGNORECASE,
)
_ANY = re.compile("|".join(WORDS), re.IGNORECASE)
INSTEAD = {
    "found": "result, match, or what it is: rows, manifest",
    "told": "reported, returned, logged",
    "tells": "reports, returns, says",
    "telling": "reporting",
    "heard": "received",
    "unheard": "not received",
    "hears": "receives",
    "asked": "requested, queried",
    "meant": "intended, for",
    "gathered": "collected",
    "anew": "again",
    "former": "previous, old",
    "news": "what it is",
    "whoever": "the owner, the worker, the consumer",
}
OTHERS_NAMES = re.compile(r"Not_?Found|not\[ _\]\?found|FOUND_ROWS|not_found|FileNotFound", re.IGNORECASE)
"""Of libraries, of SQL and of TiKV's errors."""
WIRE = frozenset({"asked_by", "asked_ms", "asked_for", "heard_s", "heard_ms", "asked", "told", "former", "anew"})
"""Keys of records, parameters and protobuf's fields, as texts."""
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
QUOTED = re.compile(
    r"ddl-anew|(?<==)anew|`anew`|`heard_ms`|index not found when dispatch event|columns not found|found virtual generated columns"
)
"""Values of settings, keys of records and TiCDC's error texts, as prose quotes them."""
BARE = frozenset(
    {"reported", "requested", "received", "expected", "returned", "queried", "intended", "collected", "unreported", "unexpected"}
)
"""As the whole name of a variable, a parameter, an attribute, a function: what was reported, a row or a text? With a noun they are fine."""
BARE_ALLOWED = ROOT / "tests" / "data" / "bare_names.txt"
BROKEN_TEST = re.compile(
    r"requested_for(?!_long)(_|$)|(reported|notify|reports_\w+)_separate|cannot_be_intended|stuck_(still|before|between|beside|in|by)(_|$)|as_it_stuck"
    r"|is_no_events$|is_reported_(what|which)_|nobody_is_(reported|requested)|rec(eives|eived|eive)_of_|(?<!the)_reports_of_|by_table_before_goes"
)
"""`told what`, `asked for`, `stands still`, `meant`, `heard of`, after a replacement of the one word."""
STRICT = ("sidecar/core", "sidecar/pipeline.py", "spark_merge/delivery", "spark_merge/port")


def private_in(text: str) -> list[str]:
    """Of prose."""
    words = [word for word in re.findall(r"[A-Za-z]+", QUOTED.sub("", OTHERS_NAMES.sub("", text))) if word.lower() in WORDS]
    return words + PHRASES.findall(text)


def private_in_name(name: str) -> list[str]:
    return [] if OTHERS_NAMES.search(name) else [part for part in _PART.findall(name) if part.lower() in WORDS]


@cache
def counted(path: Path) -> int:
    """Of the whole file: names, comments, texts."""
    total, text = 0, path.read_text()
    if not _ANY.search(text) and not PHRASES.search(text):
        return 0  # to take it apart takes longer
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string not in WIRE:
            total += len(private_in_name(token.string))
        elif token.type in (tokenize.COMMENT, tokenize.STRING) and token.string.strip("rbuf'\"") not in WIRE:
            total += len(private_in(token.string))
    return total


def allowed(path: Path = ALLOWED) -> dict[str, int]:
    lines = (line.rsplit(" ", 1) for line in path.read_text().splitlines() if not line.startswith("#"))
    return {name: int(count) for name, count in lines}


def strict_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of what everybody reads: a package's and public docstrings, messages."""
    tree = ast.parse(path.read_text())
    docstrings = dict(_docstrings(tree))
    for docstring, public in docstrings.items():
        if public:
            yield docstring.lineno, str(docstring.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings and " " in node.value.strip():
            yield node.lineno, node.value


def _docstrings(tree: ast.Module) -> Iterator[tuple[ast.Constant, bool]]:
    """Each with whether it is public: of a module, of a name without an underscore. A text that stands alone says what is above it."""
    todo: list[tuple[ast.AST, bool]] = [(tree, True)]
    while todo:
        parent, public = todo.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield node.value, public
            name = getattr(node, "name", None)
            todo.append((node, public and not (isinstance(name, str) and name.startswith("_") and not name.startswith("__"))))


JARGON = {
    "truth": "the source, TiDB's rows, the recorded tables",
    "portion": "the rows of one table in one segment",
    "survivor": "a kept row",
    "twin": "an in-memory sink",
    "spill": "go to disk",
    "spills": "goes to disk",
    "gather": "collect",
    "gathers": "collects",
    "mortal": "what dies, in words",
    "unlooked": "not looked at",
    "stands": "is, stops, is stuck",
}
"""Of pages, help and messages. Names of settings, metrics, tables and fields stay (brackets, lane, slot, incarnation, moving, term): the
glossary in deploy/CONCEPTS.md defines them."""
_JARGON = re.compile(rf"\b(?:{'|'.join(JARGON)})s?\b(?!/)", re.IGNORECASE)
_CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.MULTILINE | re.DOTALL)
PAGES = [
    *sorted((ROOT / "deploy").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "spark_merge/sinks/README.md", "sidecar/shared/codecs/README.md")),
    *sorted((ROOT / "sidecar" / "console" / "pages").glob("*.html")),
]


def _messages(path: Path) -> Iterator[tuple[int, str]]:
    """Texts that are no docstrings and no SQL."""
    tree = ast.parse(path.read_text())
    docstrings = {id(docstring) for docstring, _ in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings and " " in node.value.strip():
            yield node.lineno, node.value


@each(PAGES)
def test_a_page_has_no_word_of_this_projects_own(path: Path) -> None:
    for word in _JARGON.findall(_CODE.sub("", path.read_text())):
        raise AssertionError(f"{path}: {word!r}: write {JARGON.get(word.lower(), JARGON.get(word.lower().rstrip('s'), ''))}")


@each(PRODUCT)
def test_a_message_has_no_word_of_this_projects_own(path: Path) -> None:
    for line, text in _messages(path):
        for word in _JARGON.findall(text):
            raise AssertionError(f"{path}:{line}: {word!r}: write {JARGON.get(word.lower(), JARGON.get(word.lower().rstrip('s'), ''))}")


@each(PRODUCT)
def test_what_everybody_reads_has_plain_words(path: Path) -> None:
    for line, text in strict_texts(path):
        private = private_in(text)
        assert not private, (
            f"{path}:{line}: {private[0]!r}: write {INSTEAD.get(private[0].lower(), 'skips, omits; continues; automatically')}"
        )


@each([path for path in PRODUCT if str(path.relative_to(ROOT)).startswith(STRICT)])
def test_the_core_and_the_ports_have_no_private_word(path: Path) -> None:
    assert counted(path) == 0, f"{path} has private words: `python -m tests.test_words {path}` prints them"


@each(FILES)
def test_private_words_only_get_fewer(path: Path) -> None:
    most, count = allowed().get(str(path.relative_to(ROOT)), 0), counted(path)
    assert count <= most, f"{path} has {count} private words, {most} are allowed: `python -m tests.test_words {path}` prints them"
    assert count == most, f"{path} has {count} private words, {most} are allowed: run `python -m tests.test_words`, which writes the list"


def room_of(path: Path) -> str:
    """`sidecar/feeds`, `sidecar/shared/reads`, `spark_merge/sinks/http`, `tests/unit`; of a file that lies loose its house."""
    parts = path.relative_to(ROOT).parts[:-1]
    return "/".join(parts[: 3 if parts[:2] in (("sidecar", "shared"), ("spark_merge", "sinks"), ("tests", "unit")) else 2])


def bindings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each name with its line, where it is given: not where it is used."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=str(name)) | ast.AsyncFunctionDef(name=str(name)) | ast.Name(id=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name, node.lineno


def bare_names(path: Path) -> list[tuple[str, int]]:
    text = path.read_text()
    if not any(word in text for word in BARE):
        return []  # to take it apart takes longer
    return [(name, line) for name, line in bindings(ast.parse(text)) if name.strip("_") in BARE]


@cache
def bare_by_room() -> Counter[str]:
    counts: Counter[str] = Counter()
    for path in FILES:
        counts[room_of(path)] += len(bare_names(path))
    return counts


@each(sorted({room_of(path) for path in FILES}))
def test_a_name_is_no_bare_participle(room: str) -> None:
    most, count = allowed(BARE_ALLOWED).get(room, 0), bare_by_room()[room]
    places = (
        [f"{path}:{line}: {name}" for path in FILES if room_of(path) == room for name, line in bare_names(path)] if count > most else []
    )
    assert count <= most, f"{count} names in {room} do not say what the thing is, {most} are allowed: {places}"
    assert count == most, f"{room} has {count} bare participles as names, {most} are allowed: run `python -m tests.test_words`"


def test_a_participle_is_bare_alone_and_wherever_a_name_is_given() -> None:
    text = "def reported(_requested, *, expected_rows):\n    self.received = [expected for expected in rows if rows.reported]\n"
    assert sorted(name for name, _ in bindings(ast.parse(text)) if name.strip("_") in BARE) == [
        "_requested", "expected", "received", "reported",
    ]  # fmt: skip


@each([path for path in FILES if path.name.startswith("test_")])
def test_no_replacement_of_words_has_broken_a_tests_name(path: Path) -> None:
    for name in re.findall(r"def (test_\w+)", path.read_text()):
        assert not BROKEN_TEST.search(name), f"{path}: {name}: write a sentence"


def main(names: list[str]) -> None:
    for path in map(Path, names):
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            private = private_in_name(token.string) if token.type == tokenize.NAME else []
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                private = private_in(token.string)
            if private and token.string.strip("rbuf'\"") not in WIRE:
                print(f"{path}:{token.start[0]}: {', '.join(private)}: {token.string[:120]!r}")  # noqa: T201 - the command's answer
    if not names:
        files = Counter({str(path.relative_to(ROOT)): counted(path) for path in FILES})
        for allow_list, what, counts in (
            (ALLOWED, "files with private words", files),
            (BARE_ALLOWED, "rooms with bare participles as names", bare_by_room()),
        ):
            lines = [f"{name} {count}\n" for name, count in sorted(counts.items()) if count]
            allow_list.write_text(f"# {what}, and how many; written by `python -m tests.test_words`\n{''.join(lines)}")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
