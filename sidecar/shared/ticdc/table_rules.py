r"""TiCDC's table rules: which tables a list of rules lets through.

    rule     = [ "!" ] pattern "." pattern     "!" excludes; blanks around a rule, empty rules and "# ..." are nothing
    pattern  = "/" Go regex "/"                matches anywhere in the name; a "/" in it is written "\/"
             | '"' name '"' | "`" name "`"     as it stands; the quote itself is doubled
             | wildcard                        * ? [a-z] [!a-z], letters, digits, "$", "_", beyond ASCII, "\" before the rest

The last rule that matches a table decides; no match is out, so no rules let nothing through (TiCDC takes `*.*` where its
config has none). TiDB's and TiCDC's system schemas are out whatever the rules say. Without case (TiCDC's default since
6.5.6, 7.1.3, 7.5) names are lowered and patterns fold, as TiCDC does it. Refused here, though TiCDC takes them: `@file`
(no I/O), an empty schema pattern (matches nothing), a bare "$" next to wildcards (TiCDC takes it for the end of the name),
and a regex whose program takes more than RE2's 8 MiB. Taken here only: groups nested deeper than Go's 1000.

What an operator asks for is bounded, as it is looked at beside the stream (`check_bounds`). Plain rules are looked up by name, however many
there are; the others are compiled once, and stop at the first table or rule that answers. The changefeed's own rules have no bounds.

Regexes and wildcards are RE2's: Go's syntax, in a time that their size and the name's bound. Python's `re` would answer some
otherwise than Go, and others never.
Source: pingcap/tidb pkg/util/table-filter, pkg/util/filter; pingcap/ticdc pkg/filter; Go regexp/syntax.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_letters, digits
from typing import NamedTuple

import re2

from sidecar.shared.errors import FeedUnsuitable, RefusedRequest
from sidecar.shared.model.nouns import TableName, lowered
from sidecar.shared.schema.system import TICDC_SCHEMAS, TIDB_SCHEMAS

_HINT = 'write rules as schema.table, with *, ?, [a-z], "quoted names", my\\-shop or /regexes/: shop.*,!shop.event_*'
_REGEX_HINT = "write a Go regex (RE2); to leave names out, add a rule with !: shop.*,!shop./_copy$/"

_ALNUM = frozenset(ascii_letters + digits)
_PIECES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.|\{[0-9,]+\}", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_NOT_GO = re.compile(r"\\C|\{.*[0-9]{10}.*\}")
"""Of such pieces those that RE2 takes and Go refuses: one byte, and a count that RE2 takes for letters."""


RULE_LENGTH_MAX = 512
"""Characters: two names of 64, each of them escaped, are half of it."""
RULES_MAX = 10_000
PATTERNS_MAX = 1_000
"""Rules with wildcards or regexes: each is held against every table, a microsecond a time."""
PROGRAM_BYTES_MAX = 256 << 10
"""Of one compiled pattern: RE2 takes 8 MiB, which ten characters can ask for."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """Compiled rules, in their order; `of` makes them. `plain`: of rules that are a table's name, the last place of each name."""

    rules: tuple[_Rule, ...]
    case_sensitive: bool
    plain: Mapping[TableName, int]
    patterns: tuple[int, ...]

    @classmethod
    def of(cls, rules: Iterable[str], *, case_sensitive: bool = False, program_bytes_max: int = 0) -> TableRules:
        """`program_bytes_max` 0: RE2's own. Raises RefusedRequest for a rule that is not one: with the rule, the column and what was
        expected there."""
        how = _How(not case_sensitive, program_bytes_max)
        compiled = [rule_program for rule in rules if (rule_program := _compiled(rule, how)) is not None]
        plain = {rule.name: at for at, rule in enumerate(compiled) if rule.name is not None}
        patterns = tuple(at for at, rule in enumerate(compiled) if rule.name is None)
        return cls(tuple(compiled), case_sensitive, plain, patterns)

    def matches(self, table: TableName) -> bool:
        rule = self.compared(table)
        return rule is not None and self.lets_in(rule)

    def lets_in(self, compared: TableName) -> bool:
        """`compared`: as `compared` gives it."""
        decides = self.plain.get(compared, -1)
        for at in reversed(self.patterns):
            if at < decides:
                break
            if self.rules[at].matches(compared):
                decides = at
                break
        return decides >= 0 and self.rules[decides].lets_in

    def compared(self, table: TableName) -> TableName | None:
        """The name as it is held against rules; None for what is out whatever they say."""
        if table.schema.upper() in TIDB_SCHEMAS or table.schema in TICDC_SCHEMAS:
            return None
        return table if self.case_sensitive else TableName(*map(lowered, table))


class Requested(NamedTuple):
    """What rules of an operator come to. `idle`: those that would let tables in and match none of them."""

    chosen: list[TableName]
    idle: list[str]


def asked(
    rules: Sequence[str], tables: Iterable[TableName], *, case_sensitive: bool, gone: Callable[[], bool] = lambda: False
) -> Requested:
    """`gone`: whether the caller does not wait any more. Raises RefusedRequest for a rule that is not one, for what is beyond the
    bounds, and when it is `gone`."""
    check_bounds(rules)
    compiled = TableRules.of(rules, case_sensitive=case_sensitive, program_bytes_max=PROGRAM_BYTES_MAX)
    compared = {table: name for table in tables if (name := compiled.compared(table)) is not None}
    by_schema: dict[str, dict[TableName, None]] = {}
    for name in compared.values():
        by_schema.setdefault(name.schema, {})[name] = None
    decided: dict[TableName, bool] = {}
    idle = []
    for rule in reversed(compiled.rules):
        if gone():
            raise RefusedRequest("the caller does not wait for the answer any more", hint="ask again, with fewer table rules")
        hit = _decide(rule, by_schema, decided)
        idle += [rule.text] if rule.lets_in and not hit else []
    return Requested([table for table, name in compared.items() if decided.get(name)], idle[::-1])


def _decide(rule: _Rule, by_schema: Mapping[str, Collection[TableName]], decided: dict[TableName, bool]) -> bool:
    """Of the names that no later rule has decided, those that `rule` matches; whether it matches any name at all, where it lets in."""
    if rule.name is not None:
        there = rule.name in by_schema.get(rule.name.schema, ())
        if there:
            decided.setdefault(rule.name, rule.lets_in)
        return there
    hit = False
    for schema, names in by_schema.items():
        if not rule.schema(schema):
            continue
        for name in names:
            if (name not in decided or (rule.lets_in and not hit)) and rule.table(name.table):
                decided.setdefault(name, rule.lets_in)
                hit = True
    return hit


def check_bounds(rules: Sequence[str]) -> None:
    """Raises RefusedRequest."""
    if len(rules) > RULES_MAX:
        raise RefusedRequest(
            f"{len(rules):,} table rules are more than {RULES_MAX:,}", hint="name whole schemas or prefixes: shop.*,hr.a_*"
        )
    if long := next((rule for rule in rules if len(rule) > RULE_LENGTH_MAX), None):
        raise RefusedRequest(
            f"table rule {long[:64]} … has {len(long):,} characters, more than {RULE_LENGTH_MAX}",
            hint="write several rules, split by commas or lines",
        )
    patterns = sum(any(sign in rule for sign in "*?[/") for rule in rules)
    if patterns > PATTERNS_MAX:
        raise RefusedRequest(
            f"{patterns:,} table rules have wildcards or regexes, more than {PATTERNS_MAX:,}",
            hint="name the tables themselves: shop.orders",
        )


def matching(rules: Iterable[str], tables: Iterable[TableName], *, case_sensitive: bool = False) -> list[TableName]:
    """The tables that the rules let through, in their own order. Raises RefusedRequest for a rule that is not one."""
    compiled = TableRules.of(rules, case_sensitive=case_sensitive)
    return [table for table in tables if compiled.matches(table)]


def schemas_named(rules: Iterable[str]) -> dict[str, list[str]]:
    """Which schemas the rules let in, as they are written, each with its rules; the empty name: a rule that may match several. Raises
    RefusedRequest for a rule that is not one."""
    by_schema: dict[str, list[str]] = {}
    for rule in TableRules.of(rules, case_sensitive=True).rules:
        if rule.lets_in:
            by_schema.setdefault(str(rule.schema) if isinstance(rule.schema, _Exactly) else "", []).append(rule.text)
    return by_schema


def split_rules(text: str) -> list[str]:
    r"""The rules of a text, without empty ones. Commas and line ends split, but no comma in a comment, quotes, a regex, [..] or after \."""
    regex_quoted_set = r'/(?:\\.|[^/\\\n])+/|"(?:""|[^"\n])+"|`(?:``|[^`\n])+`|\[(?:\\.|[^\\\]\n])+\]'
    pieces = re.findall(rf"[ \t]*#[^\n]*|(?:{regex_quoted_set}|\\.|[^,\n])+", text)
    return [rule for piece in pieces if (rule := piece.strip(" \t\r"))]


class _Exactly(str):
    """A pattern that is a name."""

    __slots__ = ()

    def __call__(self, name: str) -> bool:
        return self == name


Pattern = Callable[[str], bool]


class _Rule(NamedTuple):
    """`name`: of the one table that it can match; None for any number of them."""

    text: str
    lets_in: bool
    schema: Pattern
    table: Pattern
    name: TableName | None

    def matches(self, compared: TableName) -> bool:
        return self.schema(compared.schema) and self.table(compared.table)


class _How(NamedTuple):
    """Patterns are compiled. `fold`: names are compared without case."""

    fold: bool
    program_bytes_max: int


def compiled(setting: str, rules: Iterable[str], *, case_sensitive: bool) -> TableRules:
    """Table rules of the changefeed. Raises FeedUnsuitable for what is not understood, naming `setting`."""
    try:
        return TableRules.of(rules, case_sensitive=case_sensitive)
    except RefusedRequest as error:
        raise FeedUnsuitable(f"the changefeed's {setting} cannot be followed: {error.message}", hint=error.hint) from error


def _compiled(text: str, how: _How) -> _Rule | None:
    """None for a comment and an empty rule."""
    rule = text.strip(" \t")
    if not rule or rule.startswith("#"):
        return None
    cursor = _Cursor(rule, 0, len(rule))
    if cursor.sees("@"):
        raise cursor.refused("rules are not read from files here", hint="give its rules in place of its name, split by commas or lines")
    lets_in = not cursor.take("!")
    schema = _pattern(cursor, how)
    _take_dot(cursor, "the schema's pattern and the table's")
    table = _pattern(cursor, how)
    if cursor.left():
        raise cursor.expected_error("the end of the rule")
    plain = isinstance(schema, _Exactly) and isinstance(table, _Exactly)
    return _Rule(rule, lets_in, schema, table, TableName(str(schema), str(table)) if plain else None)


def _take_dot(cursor: _Cursor, between: str) -> None:
    if not cursor.take("."):
        raise cursor.expected_error(f"'.' between {between}")


@dataclass(slots=True)
class _Cursor:
    """Where the reader stands in a rule; `end` is exclusive. `kind`: what an error calls the rule."""

    rule: str
    at: int
    end: int
    kind: str = "table rule"

    def left(self) -> bool:
        return self.at < self.end

    def sees(self, text: str) -> bool:
        return self.rule.startswith(text, self.at, self.end)

    def take(self, text: str) -> bool:
        taken = self.sees(text)
        self.at += len(text) if taken else 0
        return taken

    def match(self, pattern: str) -> re.Match[str] | None:
        match = re.compile(pattern, re.DOTALL).match(self.rule, self.at, self.end)
        self.at = match.end() if match else self.at
        return match

    def char(self) -> str:
        self.at += 1
        return self.rule[self.at - 1]

    def refused(self, problem: str, *, at: int | None = None, hint: str = _HINT) -> RefusedRequest:
        return RefusedRequest(f"{self.kind} {self.rule}, column {(self.at if at is None else at) + 1}: {problem}", hint=hint)

    def expected_error(self, what: str, *, hint: str = _HINT) -> RefusedRequest:
        return self.refused(f"expected {what}, got {repr(self.rule[self.at]) if self.left() else 'the end'}", hint=hint)


def _pattern(cursor: _Cursor, how: _How) -> Pattern:
    if not cursor.left() or cursor.sees("."):
        raise cursor.expected_error("a pattern")
    if cursor.sees("/"):
        return _regex(cursor, how)
    if cursor.sees('"') or cursor.sees("`"):
        quote = cursor.rule[cursor.at]
        match = cursor.match(f"{quote}((?:{quote}{quote}|[^{quote}])+){quote}")
        if match is None:
            raise cursor.refused(f"expected a name between two {quote}; a {quote} in it is doubled")
        name = match[1].replace(quote * 2, quote)
        return _Exactly(lowered(name) if how.fold else name)
    return _wildcard(cursor, how)


def _wildcard(cursor: _Cursor, how: _How) -> Pattern:
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
        return _Exactly(lowered("".join(letters)) if how.fold else "".join(letters))
    if dollar >= 0:
        raise cursor.refused("expected \\$, got '$' with wildcards; TiCDC takes $ for the end of the name there", at=dollar)
    if parts == [".*"]:
        return _any
    return _pattern_of(cursor, f"(?s)^{''.join(parts)}$", how, start, _HINT)


def _any(_: str) -> bool:
    return True


def _wild_set(cursor: _Cursor) -> str:
    """As a regex has it; a `^` that comes first is a character."""
    match = cursor.match(r"\[(!?+)((?:\\[^0-9A-Za-z]|[^\\\]])+)\]")
    if match is None:
        raise cursor.refused("expected [characters] or [!characters], with \\ before \\ and ] and before no letter or digit")
    negated, characters = match.groups()
    return ("[^" if negated else "[") + ("\\" if characters[0] == "^" else "") + characters + "]"


def _wild_letter(cursor: _Cursor) -> str:
    if cursor.take("\\"):
        if not cursor.left() or cursor.rule[cursor.at] in _ALNUM:
            raise cursor.expected_error("neither a letter nor a digit nor the end after \\")
    elif cursor.rule[cursor.at].isascii() and cursor.rule[cursor.at] not in _ALNUM | {"$", "_"}:
        raise cursor.expected_error("a letter, a digit, $, _, *, ?, a [set] or a \\ before it")
    return cursor.char()


def _regex(cursor: _Cursor, how: _How) -> Pattern:
    start = cursor.at
    match = cursor.match(r"/((?:\\.|[^/\\])+)/")
    if match is None:
        raise cursor.refused("expected a regex between two /; a / in it is written \\/")
    if foreign := next(filter(_NOT_GO.fullmatch, _PIECES.findall(match[1])), None):
        raise cursor.refused(f"no Go regex: {foreign} is RE2's only", at=start, hint=_REGEX_HINT)
    return _pattern_of(cursor, match[1], how, start, _REGEX_HINT)


def _pattern_of(cursor: _Cursor, regex: str, how: _How, start: int, hint: str) -> Pattern:
    """Whether RE2 finds `regex`, which begins at `start` in the rule, anywhere in a name."""
    options = re2.Options()
    options.case_sensitive = not how.fold
    options.max_mem = how.program_bytes_max or options.max_mem
    options.log_errors = False  # else a refused regex is logged on standard error too
    try:
        compiled = re2.compile(regex, options)
    except (re2.error, UnicodeEncodeError) as error:
        why = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        raise cursor.refused(f"no Go regex: {why}", at=start, hint=hint) from error
    return lambda name: compiled.search(name.encode(errors="replace")) is not None


def column_patterns(rule: str) -> tuple[Pattern, Pattern, Pattern]:
    """Of `schema.table.column`, for folded names. Raises RefusedRequest as `TableRules.of`."""
    cursor, how = _Cursor(rule, 0, len(rule), "column rule"), _How(True, PROGRAM_BYTES_MAX)
    schema = _pattern(cursor, how)
    _take_dot(cursor, "the schema's pattern and the table's")
    table = _pattern(cursor, how)
    _take_dot(cursor, "the table's pattern and the column's")
    column = _pattern(cursor, how)
    if cursor.left():
        raise cursor.expected_error("the end of the rule")
    return schema, table, column


def exact_rule(table: TableName) -> str:
    """The rule that matches this table alone."""
    return ".".join(name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in table)
