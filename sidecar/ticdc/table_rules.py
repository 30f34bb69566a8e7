r"""TiCDC's table rules: which tables a list of rules lets through.

    rule     = [ "!" ] pattern "." pattern     "!" leaves out; blanks around a rule, empty rules and "# ..." are nothing
    pattern  = "/" Go regex "/"                found anywhere in the name; a "/" in it is written "\/"
             | '"' name '"' | "`" name "`"     as it stands; the quote itself is doubled
             | wildcard                        * ? [a-z] [!a-z], letters, digits, "$", "_", beyond ASCII, "\" before the rest

The last rule that matches a table decides; no match is out, so no rules let nothing through (TiCDC takes `*.*` where its
config has none). TiDB's and TiCDC's system schemas are out whatever the rules say. Without case (TiCDC's default since
6.5.6, 7.1.3, 7.5) names are lowered and patterns fold, as TiCDC does it. Refused here, though TiCDC takes them: `@file`
(no I/O), an empty schema pattern (matches nothing), a bare "$" next to wildcards (TiCDC takes it for the end of the name),
and a regex whose program takes more than RE2's 8 MiB. Taken here only: groups nested deeper than Go's 1000.

Regexes and wildcards are RE2's: Go's syntax, in a time that their size and the name's bound. Python's `re` would answer some
otherwise than Go, and others never.
Source: pingcap/tidb pkg/util/table-filter, pkg/util/filter; pingcap/ticdc pkg/filter; Go regexp/syntax; facts/ticdc.md section 6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import NamedTuple

import re2

from sidecar.core.model import TableName
from sidecar.errors import FeedUnsuitable, RefusedRequest
from sidecar.schema.system import TICDC_SCHEMAS, TIDB_SCHEMAS

_HINT = 'write rules as schema.table, with *, ?, [a-z], "quoted names", my\\-shop or /regexes/: shop.*,!shop.event_*'
_REGEX_HINT = "write a Go regex (RE2); to leave names out, add a rule with !: shop.*,!shop./_copy$/"

_ALNUM = frozenset(ascii_letters + digits)
_PIECES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\{[0-9,]+\}", re.DOTALL)
_NOT_GO = re.compile(r"\\C|\{.*[0-9]{10}.*\}")
"""Of such pieces those that RE2 takes and Go refuses: one byte, and a count that RE2 takes for letters."""


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


def compiled(setting: str, rules: Iterable[str], *, case_sensitive: bool) -> TableRules:
    """Table rules of the changefeed. Raises FeedUnsuitable for what is not understood, naming `setting`."""
    try:
        return TableRules.of(rules, case_sensitive=case_sensitive)
    except RefusedRequest as error:
        raise FeedUnsuitable(f"the changefeed's {setting} cannot be followed: {error.message}", hint=error.hint) from error


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
    start, dollar = cursor.at, -1
    letters: list[str] = []
    parts: list[str] = []
    while cursor.left() and not cursor.sees("."):
        if cursor.take("*"):
            parts.append(".*")
        elif cursor.take("?"):
            parts.append(".")
        elif cursor.sees("["):
            parts.append(_wild_set(cursor))
        else:
            dollar = cursor.at if cursor.sees("$") else dollar
            letters.append(_wild_letter(cursor))
            parts.append(("" if letters[-1] in _ALNUM or not letters[-1].isascii() else "\\") + letters[-1])
    if len(letters) == len(parts):
        # TiCDC lowers a plain name and does not fold it: ſ is no s there.
        return (_lowered("".join(letters)) if fold else "".join(letters)).__eq__
    if dollar >= 0:
        raise cursor.refused("found '$' with wildcards, expected \\$; TiCDC takes $ for the end of the name there", at=dollar)
    return _found(cursor, f"(?s)^{''.join(parts)}$", fold, start, _HINT)


def _wild_set(cursor: _Cursor) -> str:
    """As a regex has it; a `^` that comes first is a character."""
    found = cursor.match(r"\[(!?+)((?:\\[^0-9A-Za-z]|[^\\\]])+)\]")
    if found is None:
        raise cursor.refused("expected [characters] or [!characters], with \\ before \\ and ] and before no letter or digit")
    negated, characters = found.groups()
    return ("[^" if negated else "[") + ("\\" if characters[0] == "^" else "") + characters + "]"


def _wild_letter(cursor: _Cursor) -> str:
    if cursor.take("\\"):
        if not cursor.left() or cursor.rule[cursor.at] in _ALNUM:
            raise cursor.expected("neither a letter nor a digit nor the end after \\")
    elif cursor.rule[cursor.at].isascii() and cursor.rule[cursor.at] not in _ALNUM | {"$", "_"}:
        raise cursor.expected("a letter, a digit, $, _, *, ?, a [set] or a \\ before it")
    return cursor.char()


def _regex(cursor: _Cursor, fold: bool) -> Callable[[str], bool]:
    start = cursor.at
    found = cursor.match(r"/((?:\\.|[^/\\])+)/")
    if found is None:
        raise cursor.refused("expected a regex between two /; a / in it is written \\/")
    if foreign := next(filter(_NOT_GO.fullmatch, _PIECES.findall(found[1])), None):
        raise cursor.refused(f"no Go regex: {foreign} is RE2's only", at=start, hint=_REGEX_HINT)
    return _found(cursor, found[1], fold, start, _REGEX_HINT)


def _found(cursor: _Cursor, regex: str, fold: bool, start: int, hint: str) -> Callable[[str], bool]:
    """Whether RE2 finds `regex`, which begins at `start` in the rule, anywhere in a name."""
    options = re2.Options()
    options.case_sensitive = not fold
    options.log_errors = False  # else a refused regex is told on standard error too
    try:
        compiled = re2.compile(regex, options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise cursor.refused(f"no Go regex: {why}", at=start, hint=hint) from error
    return lambda name: compiled.search(name.encode(errors="replace")) is not None


def _lowered(name: str) -> str:
    """Letter by letter, as Go does it. Only İ becomes two letters in Python; Go has the first of them."""
    return name.lower() if name.isascii() else "".join(char.lower()[0] for char in name)
