r"""TiCDC's table rules: which tables a list of rules lets through.

    rule     = [ "!" ] pattern "." pattern          "!" leaves out; blanks around a rule, empty rules and "# ..." are nothing
    pattern  = "/" Go regex "/"                     found anywhere in the name; a "/" in it is written "\/"
             | '"' name '"' | "`" name "`"          as it stands; the quote itself is doubled
             | wildcard                             * ? [a-z] [!a-z], letters, digits, "$", "_", beyond ASCII, "\" before the rest

The last rule that matches a table decides; no match is out, so no rules let nothing through (TiCDC takes `*.*` where its
config has none). TiCDC's own and TiDB's system schemas are out whatever the rules say. Without case (TiCDC's default since
6.5.6, 7.1.3, 7.5) names are lowered and patterns fold, as TiCDC does it. Refused here, though TiCDC takes them: `@file`
(no I/O), an empty schema pattern (matches nothing), `[:` in a wildcard, `\p{Greek}` (scripts are not in the standard library).

A regex is matched by the set of places it can reach, one bit each, in a time that its size and the name's bound; Python's
`re` would answer some regexes otherwise than Go, and others never.
Source: pingcap/tidb pkg/util/table-filter, pkg/util/filter; pingcap/ticdc pkg/filter; Go regexp/syntax; facts/ticdc.md section 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, assert_never
from unicodedata import category

from sidecar.core.model import TableName
from sidecar.errors import RefusedRequest

GROUPS_DEEP_MAX = 50
"""Groups within groups in one regex: the parser and the matcher call themselves for each."""
COPIES_MAX = 1000
"""Go's bound on counts such as a{1000}, nested counts multiplied."""
CASED_CODES_MAX = 0x1E944
"""The last letter with two cases is Adlam's, just below."""

TIDB_SCHEMAS = frozenset("DM_HEARTBEAT SYS MYSQL INFORMATION_SCHEMA INSPECTION_SCHEMA PERFORMANCE_SCHEMA METRICS_SCHEMA".split())
"""Compared without case, whatever the setting says."""
TICDC_SCHEMAS = frozenset(("tidb_cdc", "lightning_task_info", "workload_schema"))

_HINT = 'write rules as schema.table, with *, ?, [a-z], "quoted names" and /regexes/: shop.*,!shop.event_*'
_QUOTE_HINT = 'put the name between quotes, "my-shop".*, or a \\ before the character, my\\-shop.*'
_FILE_HINT = "give the rules of the file in place of its name; split them by commas or lines"
_EXCLUDE_HINT = "take more in with one rule and leave some out with a later one: shop.*,!shop./_copy$/"
_SCRIPT_HINT = r"name the letters by a category, \p{L}, or by a range, [\x{370}-\x{3FF}]"

_QUOTED = {'"': re.compile(r'"(?:""|[^"])+"'), "`": re.compile(r"`(?:``|[^`])+`")}
_WILD_SET = re.compile(r"\[!?+(?:\\[^0-9A-Za-z]|[^\\\]])+\]")
_REGEX = re.compile(r"/(?:\\.|[^/\\])+/")
_RULE = re.compile(r'[ \t]*#[^\n]*|(?:/(?:\\.|[^/\\\n])+/|"(?:""|[^"\n])+"|`(?:``|[^`\n])+`|\[(?:\\.|[^\\\]\n])+\]|\\.|[^,\n])+')

_COUNT = re.compile(r"(?:([*+?])|\{(0|[1-9][0-9]*)(,?)((?<=,)(?:0|[1-9][0-9]*))?\})\??")
_GROUP_NAME = re.compile(r"P?<[0-9A-Za-z_]+>")
_GROUP_FLAGS = re.compile(r"([imsU]*)(?:-([imsU]+))?([:)])")
_LITERAL = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_PERL_SET = re.compile(r"\\([dDsSwW])")
_POSIX_SET = re.compile(r"\[:(\^?)(.*?):\]", re.DOTALL)
_CATEGORY = re.compile(r"\\([pP])(?:\{(\^?)([^}]*)\}|(.?))", re.DOTALL)
_OCTAL = re.compile(r"\\(0[0-7]{0,2}|[1-7][0-7]{1,2})")
_HEX = re.compile(r"\\x(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2}))")

_PERL_SETS = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
_POSIX_SETS = {"alnum": "09AZaz", "alpha": "AZaz", "ascii": "\x00\x7f", "blank": "\t\t  ", "cntrl": "\x00\x1f\x7f\x7f", "digit": "09"}
_POSIX_SETS |= {"graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ", "upper": "AZ", "xdigit": "09AFaf"}
_POSIX_SETS |= {"word": _PERL_SETS["w"]}
"""First and last letter of each range, one after the other."""
_CATEGORIES = frozenset("C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs".split())
_NOT_RE2 = {"(?=": "a lookahead", "(?!": "a lookahead", "(?<=": "a lookbehind", "(?<!": "a lookbehind", "(?>": "an atomic group"}
_NOT_RE2 |= {"(?P=": "a backreference", "(?P>": "a recursion", "(?(": "a condition", "(?#": "a comment", "(?|": "a branch reset"}


# ---- the rules ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableRules:
    """Compiled rules, in their order; `of` makes them."""

    rules: tuple[_Rule, ...]
    case_sensitive: bool

    @classmethod
    def of(cls, rules: Iterable[str], *, case_sensitive: bool = False) -> TableRules:
        """Raises RefusedRequest for a rule that is not one, with the rule, the column and what was expected there."""
        compiled = (_compiled(rule, fold=not case_sensitive) for rule in rules)
        return cls(tuple(rule for rule in compiled if rule is not None), case_sensitive)

    def matches(self, table: TableName) -> bool:
        if table.schema.upper() in TIDB_SCHEMAS or table.schema in TICDC_SCHEMAS:
            return False
        schema, name = table if self.case_sensitive else map(_lowered, table)
        for rule in reversed(self.rules):
            if rule.schema(schema) and rule.table(name):
                return rule.lets_in
        return False


def matching(rules: Iterable[str], tables: Iterable[TableName], *, case_sensitive: bool = False) -> list[TableName]:
    """The tables that the rules let through, in their own order. Raises RefusedRequest for a rule that is not one."""
    compiled = TableRules.of(rules, case_sensitive=case_sensitive)
    return [table for table in tables if compiled.matches(table)]


def split_rules(text: str) -> list[str]:
    """The rules of a text, without empty ones: split at commas and lines, not within quotes, regexes, brackets, comments or after `\\`."""
    return [rule for found in _RULE.finditer(text) if (rule := found.group().strip(" \t\r"))]


class _Rule(NamedTuple):
    lets_in: bool
    schema: Callable[[str], bool]
    table: Callable[[str], bool]


def _compiled(text: str, *, fold: bool) -> _Rule | None:
    """None for a comment and an empty rule."""
    rule = text.strip(" \t")
    if not rule or rule.startswith("#"):
        return None
    cursor = _Cursor(rule, 0, len(rule))
    if cursor.sees("@"):
        raise cursor.refused("rules are not read from files here", hint=_FILE_HINT)
    lets_in = not cursor.take("!")
    schema = _pattern(cursor, fold)
    if not cursor.take("."):
        raise cursor.expected("'.' between the schema's pattern and the table's")
    table = _pattern(cursor, fold)
    if cursor.left():
        raise cursor.expected("the end of the rule")
    return _Rule(lets_in, schema, table)


@dataclass(slots=True)
class _Cursor:
    """Where the reader stands in a rule; `end` is exclusive."""

    rule: str
    at: int
    end: int

    def left(self) -> bool:
        return self.at < self.end

    def sees(self, text: str) -> bool:
        return self.rule.startswith(text, self.at, self.end)

    def take(self, text: str) -> bool:
        taken = self.sees(text)
        self.at += len(text) if taken else 0
        return taken

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.rule, self.at, self.end)
        self.at = found.end() if found else self.at
        return found

    def char(self) -> str:
        """The next character; there must be one."""
        self.at += 1
        return self.rule[self.at - 1]

    def refused(self, problem: str, *, at: int | None = None, hint: str = _HINT) -> RefusedRequest:
        return RefusedRequest(f"table rule {self.rule}, column {(self.at if at is None else at) + 1}: {problem}", hint=hint)

    def expected(self, what: str, *, hint: str = _HINT) -> RefusedRequest:
        found = repr(self.rule[self.at]) if self.left() else "the end"
        return self.refused(f"found {found}, expected {what}", hint=hint)


def _pattern(cursor: _Cursor, fold: bool) -> Callable[[str], bool]:
    if not cursor.left() or cursor.sees("."):
        raise cursor.expected("a pattern")
    if cursor.sees("/"):
        return _regex(cursor, fold)
    for quote, quoted in _QUOTED.items():
        if cursor.sees(quote):
            found = cursor.match(quoted)
            if found is None:
                raise cursor.refused(f"expected a name between two {quote}; a {quote} within is doubled")
            return _named(found.group()[1:-1].replace(quote * 2, quote), fold)
    return _wildcard(cursor, fold)


def _named(name: str, fold: bool) -> Callable[[str], bool]:
    return (_lowered(name) if fold else name).__eq__


def _wildcard(cursor: _Cursor, fold: bool) -> Callable[[str], bool]:
    items: list[_Node] = []
    letters: list[str] = []
    while cursor.left() and not cursor.sees("."):
        if cursor.take("*"):
            items.append(_Gap())
        elif cursor.take("?"):
            items.append(_ANY)
        elif cursor.sees("["):
            items.append(_wild_set(cursor, fold))
        else:
            letters.append(_wild_letter(cursor))
            items.append(_letter(letters[-1], fold))
    if len(letters) == len(items):
        return _named("".join(letters), fold)
    whole = _Run(tuple(items))
    return lambda name: bool(_ends(whole, name, 1) >> len(name))


def _wild_letter(cursor: _Cursor) -> str:
    start, char = cursor.at, cursor.char()
    if char == "\\":
        if not cursor.left():
            raise cursor.expected("the character that the \\ stands before", hint=_QUOTE_HINT)
        char = cursor.char()
        if _is_ascii_alnum(char):
            raise cursor.refused(f"expected no letter or digit after \\: TiCDC keeps \\{char} for later", at=start)
    elif not (char in "$_" or _is_ascii_alnum(char) or not char.isascii()):
        cursor.at = start
        raise cursor.expected("a letter, a digit, $, _, *, ?, a [set] or a \\ before it", hint=_QUOTE_HINT)
    return char


def _wild_set(cursor: _Cursor, fold: bool) -> _One:
    closed = _WILD_SET.match(cursor.rule, cursor.at)
    if closed is None:
        raise cursor.refused("expected [characters] or [!characters], with \\ before \\ and ] and before no letter or digit")
    if "[:" in closed.group()[1:]:
        raise cursor.refused("expected no [: in a wildcard's set; named sets are for regexes, /[[:alpha:]]/")
    return _One(_set(cursor, fold, negation="!"))


# ---- Go's regexes ------------------------------------------------------------------------------------------------------


class _Flags(NamedTuple):
    """`U` (ungreedy) is read and left out: it does not change whether a name matches."""

    fold: bool
    lines: bool = False
    dot_all: bool = False

    def changed(self, on: str, off: str) -> _Flags:
        return _Flags(*((flag or letter in on) and letter not in off for flag, letter in zip(self, "ims", strict=True)))


def _regex(cursor: _Cursor, fold: bool) -> Callable[[str], bool]:
    found = _REGEX.match(cursor.rule, cursor.at)
    if found is None:
        raise cursor.refused("expected a regex between two /; a / within is written \\/")
    inner = _Cursor(cursor.rule, cursor.at + 1, found.end() - 1)
    node = _alternatives(inner, _Flags(fold), 0)
    if inner.left():
        raise inner.refused("found ')', expected '(' before it")
    cursor.at = found.end()
    return lambda name: bool(_ends(node, name, (2 << len(name)) - 1))


def _alternatives(cursor: _Cursor, flags: _Flags, deep: int) -> _Node:
    """Up to the group's `)` or the end. Flags set on the way hold until there."""
    options: list[_Node] = []
    items: list[_Node] = []
    after_count = False
    while cursor.left() and not cursor.sees(")"):
        start = cursor.at
        if count := cursor.match(_COUNT):
            if not items or after_count:
                raise cursor.refused(f"found {count.group()}, expected something to repeat before it", at=start)
            items[-1] = _repeat(cursor, items[-1], count)
        elif cursor.take("|"):
            options.append(_Run(tuple(items)))
            items = []
        elif cursor.take("("):
            match _group(cursor, flags, deep + 1):
                case _Flags() as flags:
                    pass
                case node:
                    items.append(node)
        elif literal := cursor.match(_LITERAL):
            items += [_letter(char, flags.fold) for char in literal[1]]
        else:
            items.append(_atom(cursor, flags))
        after_count = count is not None
    return _Choice((*options, _Run(tuple(items))))


def _repeat(cursor: _Cursor, item: _Node, count: re.Match[str]) -> _Repeat:
    sign, least, comma, most = count.groups()
    if sign:
        return _Repeat(item, int(sign == "+"), 1 if sign == "?" else None)
    # Longer digits are as much too many, and int() has a bound of its own.
    first = int(least[:9])
    repeat = _Repeat(item, first, int(most[:9]) if most else None if comma else first)
    if first > COPIES_MAX or (repeat.most is not None and repeat.most < first) or not _fits(repeat, COPIES_MAX):
        raise cursor.refused(f"found {count.group()}, expected counts in order and up to {COPIES_MAX} copies", at=count.start())
    return repeat


def _fits(node: _Node, copies: int) -> bool:
    match node:
        case _Repeat(item, least, most):
            times = max(most if most is not None else least, 1)
            return most == 0 or (times <= copies and _fits(item, copies // times))
        case _Run(nodes) | _Choice(nodes):
            return all(_fits(part, copies) for part in nodes)
        case _One() | _Place() | _Gap():
            return True
        case _:
            assert_never(node)


def _group(cursor: _Cursor, flags: _Flags, deep: int) -> _Node | _Flags:
    """After its `(`. Flags for `(?flags)`, which is no group."""
    start = cursor.at - 1
    if deep > GROUPS_DEEP_MAX:
        raise cursor.refused(f"expected at most {GROUPS_DEEP_MAX} groups within each other", at=start)
    if cursor.take("?") and not cursor.match(_GROUP_NAME):
        changed = cursor.match(_GROUP_FLAGS)
        if changed is None:
            what = next((what for text, what in _NOT_RE2.items() if cursor.rule.startswith(text, start, cursor.end)), "this group")
            problem = f"{what} is not part of Go's regexes (RE2); expected (?:, (?P<name> or the flags i, m, s, U"
            raise cursor.refused(problem, at=start, hint=_EXCLUDE_HINT)
        flags = flags.changed(changed[1], changed[2] or "")
        if changed[3] == ")":
            return flags
    node = _alternatives(cursor, flags, deep)
    if not cursor.take(")"):
        raise cursor.refused("found '(', expected a ')' for it", at=start)
    return node


def _atom(cursor: _Cursor, flags: _Flags) -> _Node:
    if cursor.take("."):
        return _ANY if flags.dot_all else _ANY_IN_LINE
    if cursor.sees("["):
        return _One(_set(cursor, flags.fold, negation="^"))
    for text, place in (_LINE_PLACES if flags.lines else _TEXT_PLACES).items():
        if cursor.take(text):
            return place
    test = _named_set(cursor, flags.fold)
    return _One(test) if test else _letter(_escaped(cursor), flags.fold)


def _set(cursor: _Cursor, fold: bool, *, negation: str) -> _Test:
    """From its `[`. A `]` that comes first is a character."""
    start, _ = cursor.at, cursor.char()
    negated = cursor.take(negation)
    tests: list[_Test] = []
    while not tests or not cursor.take("]"):
        if not cursor.left():
            raise cursor.refused("found '[', expected a ']' for it", at=start)
        tests.append(_set_item(cursor, fold))
    return lambda char: any(test(char) for test in tests) != negated


def _set_item(cursor: _Cursor, fold: bool) -> _Test:
    start = cursor.at
    if posix := cursor.match(_POSIX_SET):
        if posix[2] not in _POSIX_SETS:
            raise cursor.refused(f"found {posix[0]}, expected one of {', '.join(sorted(_POSIX_SETS))}", at=start)
        return _test(_within(_POSIX_SETS[posix[2]]), fold, negated=bool(posix[1]))
    if test := _named_set(cursor, fold):
        return test
    first = last = _escaped(cursor)
    if cursor.sees("-") and not cursor.sees("-]") and cursor.at + 1 < cursor.end:
        cursor.at += 1
        last = _escaped(cursor)
        if last < first:
            raise cursor.refused(f"found {cursor.rule[start : cursor.at]}, expected the lower end first", at=start)
    return _test(_within(first + last), fold)


def _named_set(cursor: _Cursor, fold: bool) -> _Test | None:
    start = cursor.at
    if perl := cursor.match(_PERL_SET):
        return _test(_within(_PERL_SETS[perl[1].lower()]), fold, negated=perl[1].isupper())
    if found := cursor.match(_CATEGORY):
        sign, caret, braced, single = found.groups()
        name = single if braced is None else braced
        if name != "Any" and name not in _CATEGORIES:
            raise cursor.refused(f"{found[0]} is not known here, expected a category such as L, Lu, Nd", at=start, hint=_SCRIPT_HINT)
        # `Cn`, unassigned, is no part of Go's `C`.
        test: _Test = lambda char: name == "Any" or (category(char).startswith(name) and category(char) != "Cn")  # noqa: E731  # has no name
        return _test(test, fold, negated=(sign == "P") != (caret == "^"))
    return None


def _escaped(cursor: _Cursor) -> str:
    """The next character, itself or by its escape."""
    start = cursor.at
    if octal := cursor.match(_OCTAL):
        return chr(int(octal[1], 8))
    if found := cursor.match(_HEX):
        code = int(found[1] or found[2], 16)
        if code > 0x10FFFF:
            raise cursor.refused(f"found {found[0]}, expected at most \\x{{10FFFF}}", at=start)
        return chr(code)
    char = cursor.char()
    if char != "\\":
        return char
    escaped = cursor.char()
    if escaped in _CONTROLS:
        return _CONTROLS[escaped]
    if _is_ascii_alnum(escaped):
        what = f"\\{escaped}, a backreference," if escaped in "123456789" else f"\\{escaped}"
        raise cursor.refused(f"{what} is not part of Go's regexes (RE2), or not here", at=start)
    return escaped


_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


# ---- matching ----------------------------------------------------------------------------------------------------------

_Test = Callable[[str], bool]
"""Whether one character belongs."""


@dataclass(frozen=True, slots=True)
class _One:
    test: _Test


@dataclass(frozen=True, slots=True)
class _Gap:
    """Any characters, any number of them."""


@dataclass(frozen=True, slots=True)
class _Place:
    """An empty match: what must hold at a place of a name, which is before the character of that index."""

    holds: Callable[[str, int], bool]


@dataclass(frozen=True, slots=True)
class _Run:
    items: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    options: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    """`most` is inclusive, None for no bound."""

    item: _Node
    least: int
    most: int | None


_Node = _One | _Gap | _Place | _Run | _Choice | _Repeat


def _ends(node: _Node, name: str, starts: int) -> int:
    """The places that the node can reach from `starts`. Bit i is the place before character i; the last one is the end."""
    match node:
        case _One(test):
            return sum(2 << at for at in _places(starts) if at < len(name) and test(name[at]))
        case _Gap():
            return ((2 << len(name)) - 1) & -(starts & -starts)
        case _Place(holds):
            return sum(1 << at for at in _places(starts) if holds(name, at))
        case _Run(items):
            for item in items:
                starts = _ends(item, name, starts)
            return starts
        case _Choice(options):
            reached = 0
            for option in options:
                reached |= _ends(option, name, starts)
            return reached
        case _Repeat():
            return _repeated(node, name, starts)
        case _:
            assert_never(node)


def _repeated(node: _Repeat, name: str, starts: int) -> int:
    for _ in range(node.least):
        starts = _ends(node.item, name, starts)
    reached, left = starts, node.most
    left = None if left is None else left - node.least
    while starts and left != 0:
        starts = _ends(node.item, name, starts) & ~reached
        reached |= starts
        left = None if left is None else left - 1
    return reached


def _places(bits: int) -> Iterable[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _at_word_edge(name: str, at: int) -> bool:
    word = _within(_PERL_SETS["w"])
    return (at > 0 and word(name[at - 1])) != (at < len(name) and word(name[at]))


_ANY = _One(lambda char: True)
_ANY_IN_LINE = _One(lambda char: char != "\n")
_BEGIN = _Place(lambda name, at: at == 0)
_END = _Place(lambda name, at: at == len(name))
_TEXT_PLACES = {"^": _BEGIN, "$": _END, "\\A": _BEGIN, "\\z": _END}
_TEXT_PLACES |= {"\\b": _Place(_at_word_edge), "\\B": _Place(lambda name, at: not _at_word_edge(name, at))}
_LINE_PLACES = _TEXT_PLACES | {"^": _Place(lambda name, at: at == 0 or name[at - 1] == "\n")}
_LINE_PLACES |= {"$": _Place(lambda name, at: at == len(name) or name[at] == "\n")}


def _letter(letter: str, fold: bool) -> _One:
    return _One(_test(letter.__eq__, fold))


def _within(ranges: str) -> _Test:
    """`ranges`: first and last letter, both inclusive, of each range in turn."""
    return lambda char: any(first <= char <= last for first, last in zip(ranges[::2], ranges[1::2], strict=True))


def _test(test: _Test, fold: bool, *, negated: bool = False) -> _Test:
    """Folded first, then negated: `(?i)[^k]` leaves out k, K and the Kelvin sign."""
    if fold:
        return lambda char: any(test(same) for same in _same_letters().get(char, char)) != negated
    return (lambda char: not test(char)) if negated else test


@cache
def _same_letters() -> Mapping[str, str]:
    """The letters that differ in case only, for each letter that has such: Unicode's simple folding, as Go's `(?i)`."""
    families: dict[str, str] = {}
    for char in map(chr, range(CASED_CODES_MAX)):
        folded = next((one for one in (char.casefold(), char.lower()) if len(one) == 1), char)
        families[folded] = families.get(folded, "") + char
    return {char: family for family in families.values() if len(family) > 1 for char in family}


def _lowered(name: str) -> str:
    """Letter by letter as Go does it; only İ becomes two in Python, of which Go keeps the first."""
    return name.lower() if name.isascii() else "".join(char.lower()[0] for char in name)


def _is_ascii_alnum(char: str) -> bool:
    return char.isascii() and char.isalnum()
