"""The zone in which TiCDC's server writes TIMESTAMPs, and the moments they stand for.

A zone whose clocks are set back has an hour twice, and the text of a TIMESTAMP does not say which of both it is. Nobody behind TiCDC can
know: so such a value is refused, unless the operator has said which one to take, and then those that were taken so are counted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal
from zoneinfo import ZoneInfo

import pyarrow as pa

Ambiguous = Literal["refuse", "first", "second"]

_UTC = frozenset({"UTC", "Etc/UTC"})

ZERO = "0000-00-00 00:00:00"
"""TiDB never shifts it."""


class NoMoment(ValueError):
    """The text stands for no moment, or for two; the error's text completes "this value …"."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.hint = hint


class ServerZone:
    """`ambiguous`: which of two moments is taken. Raises ZoneInfoNotFoundError, ValueError or OSError for a name that is no zone's."""

    def __init__(self, name: str = "UTC", ambiguous: Ambiguous = "refuse") -> None:
        self.is_utc = name in _UTC
        self._guessed = 0
        self._zone, self._ambiguous = ZoneInfo(name), ambiguous
        self._others: dict[str, ServerZone] = {}

    @property
    def guessed(self) -> int:
        """For how many values one of two moments was taken, those of zones that `named` returned too."""
        return self._guessed + sum(one.guessed for one in self._others.values())

    def named(self, name: str) -> ServerZone:
        """The zone of a value that says it itself, with the same way with two moments. Raises as the class."""
        if name == self._zone.key:
            return self
        if name not in self._others:
            self._others[name] = ServerZone(name, self._ambiguous)
        return self._others[name]

    def utc_text(self, text: str) -> str:
        """`text` in UTC; the fraction is carried over as it stands. Raises NoMoment."""
        clock, fraction = text[:19], text[19:]
        if clock == ZERO:
            return text
        try:
            local = datetime.fromisoformat(clock).replace(tzinfo=self._zone)
        except ValueError:
            raise NoMoment("is not a timestamp") from None
        if local.utcoffset() != local.replace(fold=1).utcoffset():
            local = self._of_two(local)
        try:
            return local.astimezone(UTC).isoformat(sep=" ")[:19] + fraction
        except OverflowError:
            raise NoMoment("is not a timestamp") from None

    def utc_texts(self, texts: pa.Array) -> pa.Array:
        """Each text once: a table has few of the hours in which zones change, and Python's zones know them all. Raises NoMoment."""
        encoded = texts.dictionary_encode()
        known = [None if text is None else self.utc_text(text) for text in encoded.dictionary.to_pylist()]
        return pa.array(known, pa.string()).take(encoded.indices)

    def _of_two(self, local: datetime) -> datetime:
        if local.astimezone(UTC).astimezone(self._zone).replace(fold=0) != local:
            raise NoMoment(
                f"is a time that the zone {self._zone.key} skips",
                "set kafka.server_tz to the TiCDC server's --tz: `ticdc-dump check` compares them",
            )
        if self._ambiguous == "refuse":
            raise NoMoment(
                f"means two moments in the time zone {self._zone.key}, whose clocks were set back then",
                'set kafka.ambiguous to "first" or "second", which says for all such values which of both to take; and run the TiCDC server'
                " with --tz=UTC (kafka.server_tz with it), so that no more come",
            )
        self._guessed += 1
        return local.replace(fold=1 if self._ambiguous == "second" else 0)
