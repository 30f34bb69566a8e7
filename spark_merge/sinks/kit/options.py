"""A sink's options: declared once, as fields of a frozen dataclass, and read from the parameters of the sink's URI.

    @dataclass(frozen=True, slots=True)
    class Settings:
        server: Server                                                                  # no option: the caller of `read` gives it
        workers: int = option("worker-count", number(1, 64), 4, "Connections that write side by side.")
        names: Names = block(Names)                                                     # a dataclass of further options

    settings = read(Settings, uri.parameters, server=server)
    known = names_of(Settings)                                                          # for SinkKind.parameters

`read` rejects a value with the parameter's name, what it may be and an example. The registry rejects names that are not in
SinkKind.parameters. The tables of parameters in deploy/ are generated from the declarations (`make pages`).

This is dataclass field metadata, not msgspec or pydantic: their errors name a bound without an example, and durations, lists and routes
would need parsers of our own there too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, TypeAlias, TypeVar, cast

from sidecar.shared.errors import ConfigError, SinkError
from sidecar.shared.model.nouns import CommitTs
from spark_merge.ddl.routes import Routes, routes_of
from spark_merge.masks.rules import ColumnMask, MaskKind, rules_of
from spark_merge.masks.rules import text_of as masks_text
from spark_merge.sinks.kit.durations import seconds_of, text_of

T = TypeVar("T")
U = TypeVar("U")
B = TypeVar("B")
Word = TypeVar("Word", bound=str)

DIGITS_MAX = 20
SHOWN_CHARS_MAX = 40
_OPTION, _BLOCK = "option", "block"

Declarations: TypeAlias = "type[Any] | Mapping[str, str]"
"""A dataclass whose fields are options; or, for parameters that other code reads, names with their help."""


@dataclass(frozen=True, slots=True)
class ValueKind(Generic[T]):
    """`values`: what a value may be, for the documentation. `parse` returns None for a text that is no such value. `problem` completes
    "name='text' is …". `hint` may hold `{name}` and `{default}`. `text`: a value as a URI has it."""

    values: str
    parse: Callable[[str], T | None]
    problem: str = ""
    hint: str = ""
    text: Callable[[T], str] = str

    def then(self, convert: Callable[[T], U], text: Callable[[U], str]) -> ValueKind[U]:
        """The same values, as something else."""
        return ValueKind(
            self.values, lambda given: None if (value := self.parse(given)) is None else convert(value), self.problem, self.hint, text
        )


@dataclass(frozen=True, slots=True)
class Option(Generic[T]):
    """`shown`: the default in the documentation, where the value itself does not say it."""

    name: str
    kind: ValueKind[T]
    default: T
    help: str
    shown: str = ""

    def read(self, text: str) -> T:
        """Raises SinkError."""
        if (value := self.kind.parse(text)) is None:
            hint = self.kind.hint.format(name=self.name, default=self.default_text())
            raise SinkError(f"{self.name}={text[:SHOWN_CHARS_MAX]!r} is {self.kind.problem}", hint=hint)
        return value

    def default_text(self) -> str:
        return self.kind.text(self.default)


def option(name: str, kind: ValueKind[T], default: T, help: str, *, shown: str = "") -> T:
    """A field's default: the parameter `name` of the URI. `help` is one line of Markdown."""
    return field(default=default, metadata={_OPTION: Option(name, kind, default, help, shown)})


def block(declared: Callable[[], B]) -> B:
    """A field's default: the options that another dataclass declares."""
    return field(default_factory=declared, metadata={_BLOCK: declared})


def read(declared: type[B], values: Mapping[str, str], **given: Any) -> B:
    """`given`: the fields that are no options. Raises SinkError for the first value that is rejected."""
    for one in fields(cast(Any, declared)):
        if _BLOCK in one.metadata:
            given[one.name] = read(one.metadata[_BLOCK], values)
        elif (result := one.metadata.get(_OPTION)) and result.name in values:
            given[one.name] = result.read(values[result.name])
    return declared(**given)


def options_in(declared: type[Any]) -> Iterator[Option[Any]]:
    """In the order of the fields."""
    for one in fields(declared):
        if _BLOCK in one.metadata:
            yield from options_in(one.metadata[_BLOCK])
        elif _OPTION in one.metadata:
            yield one.metadata[_OPTION]


def texts_of(given: object) -> dict[str, str]:
    """The options of such a dataclass, by their names, as a URI has them."""
    declared = {one.name: one.metadata[_OPTION] for one in fields(cast(Any, given)) if _OPTION in one.metadata}
    return {result.name: result.kind.text(getattr(given, name)) for name, result in declared.items()}


def names_of(*declarations: Declarations) -> frozenset[str]:
    results: set[str] = set()
    for declared in declarations:
        results.update((one.name for one in options_in(declared)) if isinstance(declared, type) else declared)
    return frozenset(results)


# ---- kinds of values -------------------------------------------------------------------------------------------------


def text(values: str = "text") -> ValueKind[str]:
    return ValueKind(values, str)


def one_of(*known: Word, any_case: bool = False) -> ValueKind[Word]:
    """`any_case`: capitals are accepted too."""
    words: dict[str, Word] = {word: word for word in known}
    hint = f"write {{name}}={known[0]}, or another of these"
    return ValueKind(_listed(known), lambda text: words.get(text.lower() if any_case else text), f"none of {', '.join(known)}", hint)


def is_word(intended: str, *known: str, any_case: bool = False) -> ValueKind[bool]:
    """Of two words, whether it is `intended`."""
    (other,) = set(known) - {intended}
    words = one_of(*known, any_case=any_case)
    return words.then(lambda word: word == intended, lambda value: intended if value else other)


def flag(*, any_case: bool = False) -> ValueKind[bool]:
    return is_word("true", "true", "false", any_case=any_case)


def number(least: int, most: int) -> ValueKind[int]:
    def parse(text: str) -> int | None:
        return int(text) if _is_whole(text) and least <= int(text) <= most else None

    return ValueKind(f"{least} to {most}", parse, f"no number from {least} to {most}", "write {name}={default}")


def real(least: float, most: float) -> ValueKind[float]:
    def parse(text: str) -> float | None:
        try:
            value = float(text)
        except ValueError:
            return None
        return value if least <= value <= most else None

    return ValueKind(
        f"{least:.15g} to {most:.3g}", parse, f"no number from {least:.15g} to {most:.15g}", "write {name}={default}", "{:.15g}".format
    )


def seconds(least: float = 1, most: float | None = None, *, or_zero: bool = False, or_bare: bool = False) -> ValueKind[float]:
    """`or_zero`: 0s beside the range. `or_bare`: a whole number alone means seconds."""

    def parse(text: str) -> float | None:
        value = seconds_of(f"{text}s" if or_bare and _is_whole(text) else text)
        if value is None or (or_zero and not value):
            return value
        return value if least <= value <= (value if most is None else most) else None

    bounds = f"of {text_of(least)} or more" if most is None else f"from {text_of(least)} to {text_of(most)}"
    values = f"{'`0s`, or ' if or_zero else ''}{bounds.removeprefix('of ').removeprefix('from ')}"
    problem = f"neither 0s nor a time {bounds}" if or_zero else f"no time {bounds}"
    return ValueKind(values, parse, problem, "write {name}={default}, or a time like 90s or 1m30s", text_of)


def whole_seconds(most: float | None = None, *, or_bare: bool = False) -> ValueKind[int]:
    """Of 1 or more; parts of a second are dropped."""
    return seconds(1, most, or_bare=or_bare).then(int, text_of)


def matching(pattern: re.Pattern[str], expected: str, *, values: str, hint: str) -> ValueKind[str]:
    return ValueKind(values, lambda text: text if pattern.fullmatch(text) else None, f"no {expected}", hint)


def parsed(values: str, parse: Callable[[str], T], text: Callable[[T], str] = lambda _: "") -> ValueKind[T]:
    """`parse` raises a SinkError of its own."""
    return ValueKind(values, parse, text=text)


def unset_or(kind: ValueKind[T], example: T) -> ValueKind[T | None]:
    """For an option whose default is that it is not given."""
    hint = kind.hint.replace("{default}", kind.text(example))
    return ValueKind(kind.values, kind.parse, kind.problem, hint, lambda value: "" if value is None else kind.text(value))


def _commit_tss(text: str) -> frozenset[CommitTs] | None:
    results = [part.strip() for part in text.split(",") if part.strip()]
    return frozenset(CommitTs(int(part)) for part in results) if all(map(_is_whole, results)) else None


def _routes(text: str) -> Routes:
    try:
        return routes_of(text)
    except ConfigError as error:
        raise SinkError(error.message, hint=error.hint) from error


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX


def _listed(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# ---- options that several sinks have ---------------------------------------------------------------------------------

_COMMIT_TSS: ValueKind[frozenset[CommitTs]] = ValueKind(
    "commit_ts, separated by commas", _commit_tss, "no list of commit_ts", "write the DDLs' commit_ts, separated by commas",
    lambda given: ",".join(map(str, sorted(given))),
)  # fmt: skip
_ROUTES = parsed("[rules](SINKS.md#parameters)", _routes)


def commit_tss(name: str, help: str) -> frozenset[CommitTs]:
    return option(name, _COMMIT_TSS, frozenset(), help)


def routes(help: str) -> Routes:
    return option("routes", _ROUTES, Routes(), help, shown="the same names")


def commit_interval() -> float:
    return option(
        "commit-interval",
        seconds(0, 3600),
        10.0,
        "The next batch begins this long after the last commit. `0s`: at once.",
    )


_NAME = unset_or(
    matching(
        re.compile(r"[A-Za-z0-9_.-]{1,64}"),
        "name of a sink",
        values="letters, digits, `-`, `_`, `.`; at most 64",
        hint="write {name}={default}: up to 64 letters, digits, '-', '_' and '.'",
    ),
    "lake",
)


def _masks(kind: MaskKind, values: str) -> ValueKind[tuple[ColumnMask, ...]]:
    def parse(text: str) -> tuple[ColumnMask, ...]:
        try:
            return rules_of(kind, text)
        except ConfigError as error:
            raise SinkError(error.message, hint=error.hint) from error

    return parsed(f"[column rules](SECURITY.md#personal-data): {values}", parse, masks_text)


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """Those of every sink, which the registry reads (registry.py)."""

    name: str | None = option(
        "name",
        _NAME,
        None,
        "What commands, log lines and metrics call the sink. Choose it when the sink is new: under another name, what it has is not known.",
        shown="the URI",
    )
    leave_out: tuple[ColumnMask, ...] = option(
        "leave-out", _masks(MaskKind.LEAVE_OUT, "`hr.*.phone`"), (), "Columns that the target does not have."
    )
    hashes: tuple[ColumnMask, ...] = option(
        "hash", _masks(MaskKind.HASH, "`*.*.email`"), (), "Columns of which it has the HMAC-SHA-256, as text."
    )
    constants: tuple[ColumnMask, ...] = option(
        "constant", _masks(MaskKind.CONSTANT, "`shop.users.name=>NULL`"), (), "Columns of which it has this value in all rows."
    )
    salt_file: str = option("salt-file", text("a file, on every host"), "", "The secret of `hash`, 16 bytes or more.")
