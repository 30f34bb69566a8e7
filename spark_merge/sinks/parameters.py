"""What stands behind the `?` of a sink's URI: each value read, or refused by the parameter's name with what it may be.

Which names there are says the sink's SinkKind; the registry refuses others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from sidecar.core.model import CommitTs
from sidecar.errors import ConfigError, SinkError
from spark_merge.ddl.routes import Routes, routes_of
from spark_merge.sinks.durations import seconds_of, text_of

Word = TypeVar("Word", bound=str)

DIGITS_MAX = 20
SHOWN_CHARS_MAX = 40


@dataclass(frozen=True, slots=True)
class Parameters:
    """`any_case`: words may be in any case. All methods raise SinkError."""

    values: Mapping[str, str]
    any_case: bool = False

    def text(self, name: str, otherwise: str = "") -> str:
        return self.values.get(name, otherwise)

    def matching(self, name: str, pattern: re.Pattern[str], otherwise: str, *, expected: str, hint: str) -> str:
        text = self.text(name, otherwise)
        if not pattern.fullmatch(text):
            raise _refused(name, text, f"no {expected}", hint)
        return text

    def one_of(self, name: str, known: tuple[Word, ...], otherwise: Word | None = None) -> Word:
        """Where it is not given, `otherwise`, or the first."""
        text = self.text(name, known[0] if otherwise is None else otherwise)
        for word in known:
            if word == (text.lower() if self.any_case else text):
                return word
        raise _refused(name, text, f"none of {', '.join(known)}", f"write {name}={known[0]}, or another of these")

    def flag(self, name: str, *, otherwise: bool) -> bool:
        return self.one_of(name, ("true", "false"), "true" if otherwise else "false") == "true"

    def number(self, name: str, otherwise: int, most: int, *, least: int = 1) -> int:
        text = self.text(name, str(otherwise))
        if not (_is_whole(text) and least <= int(text) <= most):
            raise _refused(name, text, f"no number from {least} to {most}", f"write {name}={otherwise}")
        return int(text)

    def real(self, name: str, otherwise: float, most: float, *, least: float) -> float:
        text = self.text(name, str(otherwise))
        try:
            found = float(text)
        except ValueError:
            found = float("nan")
        if not least <= found <= most:
            raise _refused(name, text, f"no number from {least:.15g} to {most:.15g}", f"write {name}={otherwise:.15g}")
        return found

    def seconds(self, name: str, otherwise: float, most: float | None = None, *, least: float = 1, or_none: bool = False) -> float:
        """`or_none`: 0s beside the range."""
        text = self.text(name, text_of(otherwise))
        found = seconds_of(text)
        if found is None or not (least <= found <= (found if most is None else most) or (or_none and not found)):
            bounds = f"of {text_of(least)} or more" if most is None else f"from {text_of(least)} to {text_of(most)}"
            expected = f"neither 0s nor a time {bounds}" if or_none else f"no time {bounds}"
            raise _refused(name, text, expected, f"write {name}={text_of(otherwise)}, or a time like 90s or 1m30s")
        return found

    def bare_seconds(self, name: str, otherwise: float, most: float | None = None) -> int:
        """Whole ones; a number alone is one of seconds."""
        text = self.text(name)
        timed = Parameters({**self.values, name: f"{text}s"}) if _is_whole(text) else self
        return int(timed.seconds(name, otherwise, most))

    def commit_tss(self, name: str) -> frozenset[CommitTs]:
        texts = [text.strip() for text in self.text(name).split(",") if text.strip()]
        if not all(map(_is_whole, texts)):
            raise _refused(name, self.text(name), "no list of commit_ts", "write the DDLs' commit_ts, separated by commas")
        return frozenset(CommitTs(int(text)) for text in texts)

    def routes(self) -> Routes:
        try:
            return routes_of(self.text("routes"))
        except ConfigError as error:
            raise SinkError(error.message, hint=error.hint) from error

    def check_tls(self, scheme: str) -> None:
        """A certificate and its key are of a connection with TLS: by `…+ssl:`, or with the authorities named."""
        for name in ("ssl-cert", "ssl-key"):
            if name in self.values and "ssl-ca" not in self.values and not scheme.endswith("+ssl"):
                raise SinkError(f"{name} without ssl-ca", hint=f"add ssl-ca=FILE, or use {scheme}+ssl:")


def _refused(name: str, text: str, expected: str, hint: str) -> SinkError:
    return SinkError(f"{name}={text[:SHOWN_CHARS_MAX]!r} is {expected}", hint=hint)


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX
