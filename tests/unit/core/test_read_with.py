"""What a dump's chunks are read with stays what it was when the dump began; what only SQL can read is read by SQL."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sidecar.core.dumps import Dumps
from sidecar.shared.model.messages import Brackets, ReadChunk, ReadWith, RestartDump, StartDump
from sidecar.shared.model.nouns import TableName
from sidecar.shared.model.progress import Progress, progress_from_json
from tests.unit.core.test_dump import FIRST, SECOND, A, B, dump

OF_TIKV = StartDump(FIRST, (A, B), Brackets.SNAPSHOT, 10, read_with=ReadWith.TIKV)


def reads(dumps: Dumps) -> dict[TableName, ReadWith]:
    return {command.table: command.read_with for command in dumps.next() if isinstance(command, ReadChunk)}


@pytest.mark.parametrize("read_with", ReadWith)
def test_each_chunk_is_read_with_what_its_dump_began_with(read_with: ReadWith) -> None:
    dumps = dump()
    dumps.request(replace(OF_TIKV, read_with=read_with))
    assert reads(dumps) == {A: read_with, B: read_with}


def test_a_predicate_and_keys_are_for_sql() -> None:
    dumps = dump()
    dumps.request(replace(OF_TIKV, where=((A, "id > 5"),), keys=((B, (("7",),)),), narrowed=(A, B)))
    assert reads(dumps) == {A: ReadWith.SQL, B: ReadWith.SQL}


def test_after_a_restart_of_the_sidecar_it_is_the_same_and_an_older_ones_was_sql() -> None:
    dumps = dump()
    dumps.request(OF_TIKV)
    assert dumps.progress is not None
    stored = json.loads(json.dumps(dumps.progress.to_json()))
    assert reads(again(progress_from_json(stored))) == {A: ReadWith.TIKV, B: ReadWith.TIKV}
    del stored["read_with"]
    assert reads(again(progress_from_json(stored))) == {A: ReadWith.SQL, B: ReadWith.SQL}


def again(progress: Progress) -> Dumps:
    return dump(progress, epoch=2)


def test_dumprestart_reads_with_the_same() -> None:
    dumps = dump()
    dumps.request(OF_TIKV)
    dumps.request(RestartDump(SECOND))
    assert [one.read_with for one in dumps.records] == [ReadWith.TIKV] * len(dumps.records)
    assert reads(dumps) == {A: ReadWith.TIKV, B: ReadWith.TIKV}
