"""Words that holes are filled in a sink: files of words, beside the segments.

    filled/{random}.json      of which tables in which sink, by whom, why, when

- A word is of the holes that a table has, by its id, in a sink of a log, and of what the sink was when it was given: not of another table
  that has the name by then, nor of a target that begins again, nor of another log (`FilledWord.is_of`, `FilledWord.ends`).
- It is of the holes that were noticed up to a segment (model/hole.py). Of a later one it says nothing, however late it is written. So it
  is right whenever a worker finds it, and however often.
- An operator gives it, and a verification of the whole table that began behind that segment and ended with no difference.
- A file is never changed, and nothing removes it: it says who answers for a table that no dump has read again.
- A file that cannot be read is no word: its holes stay open, and no sink stops. Who lists the words (`read_words`) names it.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated

import msgspec

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import storage
from sidecar.shared.log.identity import known_id
from sidecar.shared.log.storage import Folder
from sidecar.shared.model.hole import OpenHole
from sidecar.shared.model.nouns import Seq, TableName
from sidecar.shared.model.sink_delivery import SinkTables

FOLDER = "filled"
_Number = Annotated[int, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class FilledWord:
    """`sink`: its name; `generation`: as of SinkTables. `table_id`: as of OpenHole. `upto_seq`: of holes that were noticed up to there.
    `by`: user@host, or the verification. `at_ms`: wall clock."""

    sink: str
    generation: int
    table: TableName
    table_id: int
    upto_seq: Seq
    by: str
    reason: str
    at_ms: int

    def is_of(self, tables: SinkTables) -> bool:
        return (self.sink, self.generation) == (tables.sink, tables.generation)

    def ends(self, table: TableName, hole: OpenHole) -> bool:
        """A hole of a sink that it is of. Where the source has no ids, it goes by the name."""
        is_its = self.table_id == hole.table_id and (self.table_id != 0 or self.table == table)
        return is_its and hole.seq <= self.upto_seq


class _Word(msgspec.Struct):
    sink: str
    generation: _Number
    table: tuple[str, str]
    table_id: _Number
    upto_seq: _Number
    by: str
    reason: str
    at_ms: int


class _File(msgspec.Struct):
    log: str
    words: tuple[_Word, ...]


def write_words(log: Folder, words: Sequence[FilledWord]) -> None:
    """Durable when it returns. Raises as the log's storage."""
    data = msgspec.json.encode({"log": known_id(log), "words": [asdict(word) for word in words]})
    storage.create_exclusively(log, f"{FOLDER}/{secrets.token_hex(16)}.json", msgspec.json.format(data, indent=1))


class Words:
    """Of a log, as they come: each file is read once."""

    def __init__(self, log: Folder) -> None:
        self._log = log
        self._known: dict[str, tuple[FilledWord, ...]] = {}

    def read(self) -> list[FilledWord]:
        """Of those that can be read. Raises as the log's storage."""
        names = _names(self._log)
        if new := [name for name in names if name not in self._known]:
            own = known_id(self._log)
            files = storage.read_files(self._log, new)
            for name, data in files.items():
                with suppress(LogBroken):
                    self._known[name] = ()
                    self._known[name] = _words(self._log, name, data, own)
        return [word for name in names for word in self._known.get(name, ())]


def read_words(log: Folder) -> list[FilledWord]:
    """All of the log, in the order of their times. Raises LogBroken for a file that cannot be read, and as the log's storage."""
    names = _names(log)
    own, files = known_id(log), storage.read_files(log, names) if names else {}
    words = [word for name, data in files.items() for word in _words(log, name, data, own)]
    return sorted(words, key=lambda word: word.at_ms)


def _names(log: Folder) -> list[str]:
    return [f"{FOLDER}/{name}" for name in storage.list_names(log, under=FOLDER, deep=False) if name.endswith(".json")]


def _words(log: Folder, name: str, data: bytes, own: str) -> tuple[FilledWord, ...]:
    try:
        file = msgspec.json.decode(data, type=_File)
    except ValueError as error:
        hint = "restore it from a backup, or remove it: the tables' holes are then reported as open again until a dump fills them"
        raise LogBroken(f"segment log {log}: {name} is not readable: {error}", hint=hint) from error
    return tuple(_word(one) for one in file.words if file.log == own)


def _word(word: _Word) -> FilledWord:
    table = TableName(*word.table)
    return FilledWord(word.sink, word.generation, table, word.table_id, Seq(word.upto_seq), word.by, word.reason, word.at_ms)


def word_of(tables: SinkTables, table: TableName, *, upto_seq: Seq, by: str, reason: str, at_ms: int) -> FilledWord:
    """That the hole of this table, which has one in `tables`, is filled."""
    return FilledWord(tables.sink, tables.generation, table, tables.holes[table].table_id, upto_seq, by, reason, at_ms)
