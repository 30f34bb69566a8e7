r"""TiCDC's table rules: which tables a list of rules lets through.

    rule     = [ "!" ] pattern "." pattern     "!" leaves out; blanks around a rule, empty rules and "# ..." are nothing
    pattern  = "/" Go regex "/"                found anywhere in the name; a "/" in it is written "\/"
             | '"' name '"' | "`" name "`"     as it stands; the quote itself is doubled
             | wildcard                        * ? [a-z] [!a-z], letters, digits, "$", "_", beyond ASCII, "\" before the rest

The last rule that matches a table decides; no match is out, so no rules let nothing through (TiCDC takes `*.*` where its
config has none). TiDB's and TiCDC's system schemas are out whatever the rules say. Without case (TiCDC's default since
6.5.6, 7.1.3, 7.5) names are lowered and patterns fold, as TiCDC does it. Refused here, though TiCDC takes them: `@file`
(no I/O), an empty schema pattern (matches nothing), a bare "$" next to wildcards (TiCDC takes it for the end of the name),
and of Go's regexes `[[:alpha:]]`, `\p{..}`, `\x41`. Taken here only: nested counts that multiply to more than Go's 1000.

Patterns are matched by the set of places they can reach, in a time that their size and the name's bound: Python's `re`
would answer some regexes otherwise than Go, and others never.
Source: pingcap/tidb pkg/util/table-filter, pkg/util/filter; pingcap/ticdc pkg/filter; Go regexp/syntax; facts/ticdc.md section 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from string import ascii_letters, digits
from typing import NamedTuple

from sidecar.core.model import TableName
from sidecar.errors import RefusedRequest

GROUPS_DEEP_MAX = 50
"""Groups within groups in one regex: the parser and the matcher call themselves for each."""
COPIES_MAX = 1000
"""Go's bound on a count such as a{1000}."""
CASED_CODES_MAX = 0x1E944
"""Exclusive: the last letters with two cases are Adlam's, just below."""

TIDB_SCHEMAS = {"DM_HEARTBEAT", "SYS", "MYSQL", "INFORMATION_SCHEMA", "INSPECTION_SCHEMA", "PERFORMANCE_SCHEMA", "METRICS_SCHEMA"}
"""Compared without case, whatever the setting says; TiCDC's own are compared as they are."""
TICDC_SCHEMAS = {"tidb_cdc", "lightning_task_info", "workload_schema"}

_HINT = 'write rules as schema.table, with *, ?, [a-z], "quoted names", my\\-shop or /regexes/: shop.*,!shop.event_*'
_REGEX_HINT = "write a Go regex (RE2); to leave names out, add a rule with !: shop.*,!shop./_copy$/"

_ALNUM = frozenset(ascii_letters + digits)
_PERL_SETS = {"d": "09", "s": "\t\n\f\r  ", "w": "09AZ__az"}
"""First and last letter of each range, one after the other."""
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_NOT_RE2 = {"(?=": "a lookahead", "(?!": "a lookahead", "(?<=": "a lookbehind", "(?<!": "a lookbehind", "(?>": "an atomic group"}
_NOT_RE2 |= {"(?P=": "a backreference", "(?(": "a condition", "(?#": "a comment"}

_Flags = frozenset[str]
"""Of `i`, `m`, `s` and `U`; ungreedy does not decide whether a name matches."""
_Test = Callable[[str], bool]
"""Whether one character belongs."""
_Step = Callable[[str, int], int]
"""A name and the places to start from, to the places that can be reached: bit i is the place before character i, or the end."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """Compiled rules, in their order; `of` makes them."""

    rules: tuple[_Rule, ...]
    case_sensitive: bool

    @classmethod
    def of(cls, rules: Iterable[str], *, case_sensitive: bool = False) -> TableRules:
        """Raises RefusedRequest for a rule that is not one: with the rule, the column and what was expected there."""
        compiled = [_compiled(rule, fold=not case_sensitive) for rule in rules]
        return cls(tuple(rule for rule in compiled if rule is not None), case_sensitive)

    def matches(self, table: TableName) -> bool:
        if table.schema.upper() in TIDB_SCHEMAS or table.schema in TICDC_SCHEMAS:
            return False
        schema, name = table if self.case_sensitive else map(_lowered, table)
        return next((rule.lets_in for rule in reversed(self.rules) if rule.schema(schema) and rule.table(name)), False)


def matching(rules: Iterable[str], tables: Iterable[TableName], *, case_sensitive: bool = False) -> list[TableName]:
    """The tables that the rules let through, in their own order. Raises RefusedRequest for a rule that is not one."""
    compiled = TableRules.of(rules, case_sensitive=case_sensitive)
    return [table for table in tables if compiled.matches(table)]


def split_rules(text: str) -> list[str]:
    r"""The rules of a text, without empty ones. Commas and line ends split, but no comma in a comment, quotes, a regex, [..] or after \."""
    regex_quoted_set = r'/(?:\\.|[^/\\\n])+/|"(?:""|[^"\n])+"|`(?:``|[^`\n])+`|\[(?:\\.|[^\\\]\n])+\]'
    found = re.findall(rf"[ \t]*#[^\n]*|(?:{regex_quoted_set}|\\.|[^,\n])+", text)
    return [rule for piece in found if (rule := piece.strip(" \t\r"))]


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
        raise cursor.refused("rules are not read from files here", hint="give its rules in place of its name, split by commas or lines")
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

    def match(self, pattern: str) -> re.Match[str] | None:
        found = re.compile(pattern, re.DOTALL).match(self.rule, self.at, self.end)
        self.at = found.end() if found else self.at
        return found

    def char(self) -> str:
        self.at += 1
        return self.rule[self.at - 1]

    def refused(self, problem: str, *, at: int | None = None, hint: str = _HINT) -> RefusedRequest:
        return RefusedRequest(f"table rule {self.rule}, column {(self.at if at is None else at) + 1}: {problem}", hint=hint)

    def expected(self, what: str, *, hint: str = _HINT) -> RefusedRequest:
        return self.refused(f"found {repr(self.rule[self.at]) if self.left() else 'the end'}, expected {what}", hint=hint)


def _pattern(cursor: _Cursor, fold: bool) -> Callable[[str], bool]:
    if not cursor.left() or cursor.sees("."):
        raise cursor.expected("a pattern")
    if cursor.sees("/"):
        return _regex(cursor, fold)
    if cursor.sees('"') or cursor.sees("`"):
        quote = cursor.rule[cursor.at]
        found = cursor.match(f"{quote}((?:{quote}{quote}|[^{quote}])+){quote}")
        if found is None:
            raise cursor.refused(f"expected a name between two {quote}; a {quote} in it is doubled")
        name = found[1].replace(quote * 2, quote)
        return (_lowered(name) if fold else name).__eq__
    return _wildcard(cursor, fold)


def _wildcard(cursor: _Cursor, fold: bool) -> Callable[[str], bool]:
    steps: list[_Step] = []
    letters: list[str] = []
    dollar = -1
    while cursor.left() and not cursor.sees("."):
        if cursor.take("*"):
            steps.append(_gap)
        elif cursor.take("?"):
            steps.append(_any)
        elif cursor.sees("["):
            if not re.compile(r"\[!?+(?:\\[^0-9A-Za-z]|[^\\\]])+\]").match(cursor.rule, cursor.at):
                raise cursor.refused("expected [characters] or [!characters], with \\ before \\ and ] and before no letter or digit")
            steps.append(_one(_set(cursor, fold, negation="!")))
        else:
            dollar = cursor.at if cursor.sees("$") else dollar
            letters.append(_wild_letter(cursor))
            steps.append(_letter(letters[-1], fold))
    if dollar >= 0 and len(letters) < len(steps):
        raise cursor.refused("found '$' with wildcards, expected \\$; TiCDC takes $ for the end of the name there", at=dollar)
    if len(letters) == len(steps):
        # TiCDC lowers a plain name and does not fold it: ſ is no s there.
        return (_lowered("".join(letters)) if fold else "".join(letters)).__eq__
    step = _run(steps)
    return lambda name: bool(step(name, 1) >> len(name))


def _wild_letter(cursor: _Cursor) -> str:
    if cursor.take("\\"):
        if not cursor.left() or cursor.rule[cursor.at] in _ALNUM:
            raise cursor.expected("neither a letter nor a digit nor the end after \\")
    elif cursor.rule[cursor.at].isascii() and cursor.rule[cursor.at] not in _ALNUM | {"$", "_"}:
        raise cursor.expected("a letter, a digit, $, _, *, ?, a [set] or a \\ before it")
    return cursor.char()


# ---- Go's regexes ------------------------------------------------------------------------------------------------------


def _regex(cursor: _Cursor, fold: bool) -> Callable[[str], bool]:
    start = cursor.at + 1
    if not cursor.match(r"/(?:\\.|[^/\\])+/"):
        raise cursor.refused("expected a regex between two /; a / in it is written \\/")
    inner = _Cursor(cursor.rule, start, cursor.at - 1)
    step = _alternatives(inner, _Flags("i" if fold else ""), 0)
    if inner.left():
        raise inner.expected("'(' before it", hint=_REGEX_HINT)
    return lambda name: bool(step(name, (2 << len(name)) - 1))


def _alternatives(cursor: _Cursor, flags: _Flags, deep: int) -> _Step:
    """Up to the group's `)` or the end. Flags set on the way hold until there."""
    options: list[list[_Step]] = [[]]
    after_count = False
    while cursor.left() and not cursor.sees(")"):
        steps, start = options[-1], cursor.at
        if count := cursor.match(r"(?:([*+?])|\{(0|[1-9][0-9]*)(?:(,)(0|[1-9][0-9]*)?)?\})\??"):
            if not steps or after_count:
                raise cursor.refused(f"found {count[0]}, expected something to repeat before it", at=start, hint=_REGEX_HINT)
            steps[-1] = _counted(cursor, steps[-1], count)
        elif cursor.take("|"):
            options.append([])
        elif changed := cursor.match(r"\(\?([imsU]*)(?:-([imsU]+))?\)"):
            flags = (flags | set(changed[1])) - set(changed[2] or "")
        elif cursor.take("("):
            steps.append(_group(cursor, flags, deep + 1))
        elif literal := cursor.match(r"\\Q(.*?)(?:\\E|\Z)"):
            steps += [_letter(char, "i" in flags) for char in literal[1]]
        else:
            steps.append(_atom(cursor, flags))
        after_count = count is not None
    runs = [_run(steps) for steps in options]
    return lambda name, starts: reduce(or_, (run(name, starts) for run in runs))


def _counted(cursor: _Cursor, step: _Step, count: re.Match[str]) -> _Step:
    sign, first, comma, last = count.groups()
    if sign:
        return _repeat(step, int(sign == "+"), 1 if sign == "?" else None)
    least, most = int(first[:9]), int((last or first)[:9])  # more digits are too many all the same, and int() has its own bound
    if not least <= most <= COPIES_MAX:
        raise cursor.refused(f"found {count[0]}, expected counts in order up to {COPIES_MAX}", at=count.start(), hint=_REGEX_HINT)
    return _repeat(step, least, None if comma and not last else most)


def _group(cursor: _Cursor, flags: _Flags, deep: int) -> _Step:
    """After its `(`."""
    start = cursor.at - 1
    if deep > GROUPS_DEEP_MAX:
        raise cursor.refused(f"expected at most {GROUPS_DEEP_MAX} groups within each other", at=start, hint=_REGEX_HINT)
    if cursor.take("?") and not cursor.match(r"P?<[0-9A-Za-z_]+>"):
        changed = cursor.match(r"([imsU]*)(?:-([imsU]+))?:")
        if changed is None:
            what = next((what for text, what in _NOT_RE2.items() if cursor.rule.startswith(text, start, cursor.end)), "this group")
            raise cursor.refused(f"{what} is not RE2, expected (?:, (?P<name> or flags of i, m, s, U", at=start, hint=_REGEX_HINT)
        flags = (flags | set(changed[1])) - set(changed[2] or "")
    step = _alternatives(cursor, flags, deep)
    if not cursor.take(")"):
        raise cursor.refused("found '(', expected a ')' for it", at=start, hint=_REGEX_HINT)
    return step


def _atom(cursor: _Cursor, flags: _Flags) -> _Step:
    if cursor.take("."):
        return _any if "s" in flags else _any_in_line
    if cursor.sees("["):
        return _one(_set(cursor, "i" in flags, negation="^"))
    for text, place in (_LINE_PLACES if "m" in flags else _TEXT_PLACES).items():
        if cursor.take(text):
            return place
    test = _perl_set(cursor, "i" in flags)
    return _one(test) if test else _letter(_escaped(cursor), "i" in flags)


def _set(cursor: _Cursor, fold: bool, *, negation: str) -> _Test:
    """From its `[`. A `]` that comes first is a character."""
    start, _ = cursor.at, cursor.char()
    negated = cursor.take(negation)
    tests: list[_Test] = []
    while not tests or not cursor.take("]"):
        if not cursor.left():
            raise cursor.refused("found '[', expected a ']' for it", at=start, hint=_REGEX_HINT)
        tests.append(_set_item(cursor, fold))
    return lambda char: any(test(char) for test in tests) != negated


def _set_item(cursor: _Cursor, fold: bool) -> _Test:
    start = cursor.at
    if cursor.sees("[:"):
        raise cursor.refused("found [:, expected no named set; write it out, [0-9A-Za-z], or put the : first", hint=_REGEX_HINT)
    if test := _perl_set(cursor, fold):
        return test
    first = last = _escaped(cursor)
    if cursor.match(r"-(?=[^\]])"):
        last = _escaped(cursor)
    if last < first:
        raise cursor.refused(f"found {cursor.rule[start : cursor.at]}, expected the lower end first", at=start)
    return _test(_within(first + last), fold)


def _perl_set(cursor: _Cursor, fold: bool) -> _Test | None:
    perl = cursor.match(r"\\([dDsSwW])")
    return _test(_within(_PERL_SETS[perl[1].lower()]), fold, negated=perl[1].isupper()) if perl else None


def _escaped(cursor: _Cursor) -> str:
    """The next character, as itself or as an escape."""
    if not cursor.take("\\"):
        return cursor.char()
    char = cursor.char()
    if not char.isascii() or (char in _ALNUM and char not in _CONTROLS):
        what = "a backreference is not RE2" if char in "123456789" else "this escape is not RE2, or not known here"
        raise cursor.refused(f"found \\{char}: {what}", at=cursor.at - 2, hint=_REGEX_HINT)
    return _CONTROLS.get(char, char)


def _one(test: _Test) -> _Step:
    return lambda name, starts: sum(2 << at for at, char in enumerate(name) if starts >> at & 1 and test(char))


def _place(holds: Callable[[str, int], bool]) -> _Step:
    return lambda name, starts: sum(1 << at for at in range(len(name) + 1) if starts >> at & 1 and holds(name, at))


def _gap(name: str, starts: int) -> int:
    """Any characters, any number of them: all places from the first on."""
    return ((2 << len(name)) - 1) & -(starts & -starts)


def _run(steps: list[_Step]) -> _Step:
    return lambda name, starts: reduce(lambda reached, step: step(name, reached), steps, starts)


def _repeat(step: _Step, least: int, most: int | None) -> _Step:
    """`most` is inclusive, None for no bound. Ends early where more copies reach nothing else."""

    def repeated(name: str, starts: int) -> int:
        for _ in range(least):
            before, starts = starts, step(name, starts)
            if starts == before:
                break
        reached, copies = starts, least
        while starts and copies != most:
            starts = step(name, starts) & ~reached
            reached |= starts
            copies += 1
        return reached

    return repeated


def _at_word_edge(name: str, at: int) -> bool:
    return (at > 0 and _is_word(name[at - 1])) != (at < len(name) and _is_word(name[at]))


def _letter(letter: str, fold: bool) -> _Step:
    return _one(_test(letter.__eq__, fold))


def _within(ranges: str) -> _Test:
    """`ranges`: first and last letter, both inclusive, of each range in turn."""
    return lambda char: any(first <= char <= last for first, last in zip(ranges[::2], ranges[1::2], strict=True))


def _test(test: _Test, fold: bool, *, negated: bool = False) -> _Test:
    """Folded first, then negated: `(?i)[^k]` leaves out k, K and the Kelvin sign."""
    if fold:
        return lambda char: any(map(test, _same_letters().get(char, char))) != negated
    return lambda char: test(char) != negated


@cache
def _same_letters() -> Mapping[str, str]:
    """For each letter that others differ from in case only, all of them: Unicode's simple folding, as in Go's `(?i)`."""
    families: dict[str, str] = {}
    for char in map(chr, range(CASED_CODES_MAX)):
        folded = next((one for one in (char.casefold(), char.lower()) if len(one) == 1), char)
        families[folded] = families.get(folded, "") + char
    return {char: family for family in families.values() if len(family) > 1 for char in family}


def _lowered(name: str) -> str:
    """Letter by letter, as Go does it. Only İ becomes two letters in Python; Go has the first of them."""
    return name.lower() if name.isascii() else "".join(char.lower()[0] for char in name)


_is_word = _within(_PERL_SETS["w"])
_any = _one(lambda _: True)
_any_in_line = _one(lambda char: char != "\n")
_begin, _end = _place(lambda _, at: at == 0), _place(lambda name, at: at == len(name))
_TEXT_PLACES = {"^": _begin, "$": _end, "\\A": _begin, "\\z": _end}
_TEXT_PLACES |= {"\\b": _place(_at_word_edge), "\\B": _place(lambda name, at: not _at_word_edge(name, at))}
_LINE_PLACES = _TEXT_PLACES | {"^": _place(lambda name, at: at == 0 or name[at - 1] == "\n")}
_LINE_PLACES |= {"$": _place(lambda name, at: at == len(name) or name[at] == "\n")}
