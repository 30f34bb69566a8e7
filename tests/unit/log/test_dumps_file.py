"""What manifests leave to a file: with its file it has each table, and what a segment completed is in it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import pytest

from sidecar.shared.errors import LogBroken
from sidecar.shared.log import dumps_file
from sidecar.shared.log.dumps_file import DumpsFile, with_all_tables
from sidecar.shared.log.layout import completed_tables, dump_after, dumps_name, logged_dumps, with_logged_tables
from sidecar.shared.log.manifest import LoggedDumps, Manifest, ManifestUnreadable, from_json, to_json
from sidecar.shared.model.messages import Brackets
from sidecar.shared.model.nouns import CommitTs, Seq, TableName
from sidecar.shared.model.progress import DumpState, Progress, TableProgress
from tests.tools.hostile.files import BYTES

Files = dict[str, bytes]


def progress(dump_id: str, tables: int, *, state: DumpState = DumpState.RUNNING) -> Progress:
    each = tuple(TableProgress(TableName("shop", f"t{number:05d}")) for number in range(tables))
    return Progress(dump_id, state, Brackets.WATERMARK, 1_000, 1, 1, Seq(0), each)


def manifest(seq: int, dumps: LoggedDumps) -> Manifest:
    """The segment `(10 seq, 10 seq + 10]`, as its bytes have it."""
    made = Manifest(
        seq=Seq(seq),
        epoch=1,
        after_ts=CommitTs(seq * 10),
        upto_ts=CommitTs(seq * 10 + 10),
        data=None,
        rows=0,
        bytes=0,
        positions={},
        schemas="schemas/0000000000000000.json",
        codec="canal-json",
        id="0123456789abcdef",
        progress=dumps.dumps[0] if dumps.dumps else None,
        more_dumps=dumps.dumps[1:],
        dumps_file=dumps.file,
    )
    return from_json(to_json(made), name="m")


named = partial(dumps_name, epoch=1)


def written(files: Files, data: bytes) -> str:
    name = named(data)
    files[name] = data
    return name


def done(table: TableProgress, seq: int) -> TableProgress:
    return replace(table, spans=(), chunks=1, rows=5, complete_at=CommitTs(seq * 10 + 7))


class World:
    """Dumps to which something happens in each segment."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.dumps = [progress("d0", self.random.randrange(1, 12))]

    def go_on(self, seq: int) -> None:
        at = self.random.randrange(len(self.dumps))
        self.dumps[at] = self._changed(self.dumps[at], seq)
        if self.random.random() < 0.1:
            self.dumps.append(progress(f"d{seq + 1}", self.random.randrange(0, 12)))
        if len(self.dumps) > 1 and self.random.random() < 0.1:
            del self.dumps[self.random.randrange(len(self.dumps))]

    def _changed(self, dump: Progress, seq: int) -> Progress:
        tables = [done(one, seq) if self.random.random() < 0.2 else replace(one) for one in dump.tables]
        match self.random.randrange(8):
            case 0:
                tables.append(TableProgress(TableName("shop", f"new{seq}")))
            case 1 if tables:
                del tables[self.random.randrange(len(tables))]
            case 2:
                self.random.shuffle(tables)
            case 3:
                tables = [TableProgress(one.table) if self.random.random() < 0.3 else one for one in tables]
        over = self.random.random() < 0.2
        return replace(dump, tables=tuple(tables), state=DumpState.FINISHED if over else DumpState.RUNNING)


@pytest.mark.parametrize("seed", range(40))
def test_a_manifest_and_its_file_have_all_tables_and_the_manifest_alone_what_its_segment_completed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what a manifest with all of them would say."""
    monkeypatch.setattr(dumps_file, "TABLES_MIN", seed % 5)
    monkeypatch.setattr(dumps_file, "CHANGED_SHARE", [0, 0.3, 2][seed % 3])
    world, files, owner, named = World(seed), Files(), DumpsFile(), set[str]()
    for seq in range(60):
        world.go_on(seq)
        if world.random.random() < 0.05:
            owner = DumpsFile()  # of the next owner
        logged = manifest(seq, owner.logged(world.dumps, lambda data: written(files, data)))
        named.add(logged.dumps_file)
        truth = manifest(seq, LoggedDumps(tuple(dump.to_json() for dump in world.dumps)))
        whole = with_logged_tables("log", logged, files.get)
        assert logged_dumps(whole.dumps) == logged_dumps(truth.dumps) == tuple(world.dumps)
        assert dump_after(logged) == dump_after(truth)
        assert completed_tables(logged) == completed_tables(truth)
    assert named - {""} or seed % 5 == 4 or seed % 3 == 2, "no file was written"


@pytest.mark.parametrize("tables", [500, 2_000])
def test_what_a_dump_of_many_tables_writes_grows_as_they_do(tables: int) -> None:
    """Each table completes in a segment of its own: bytes of all manifests and files, by table and by 2,000 bytes."""
    files, owner, dump = Files(), DumpsFile(), progress("d0", tables)
    sizes, whole = [], len(to_json(manifest(0, LoggedDumps((dump.to_json(),)))))
    for seq in range(tables):
        each = list(dump.tables)
        each[seq] = done(each[seq], seq)
        dump = replace(dump, tables=tuple(each))
        sizes.append(len(to_json(manifest(seq, owner.logged([dump], lambda data: written(files, data))))))
    assert max(sizes[1:]) < whole * 0.35 if tables == 500 else whole * 0.12
    assert len(files) < 20
    dump = replace(dump, state=DumpState.FINISHED)
    for seq in range(tables, tables + 3):
        after = manifest(seq, owner.logged([dump], lambda data: written(files, data)))
    assert len(to_json(after)) < 16_000
    assert logged_dumps(with_logged_tables("log", after, files.get).dumps) == (dump,)


def test_dumps_of_few_tables_need_no_file_and_the_version_of_before() -> None:
    dumps = DumpsFile().logged([progress("d0", dumps_file.TABLES_MIN)], lambda _: pytest.fail("nothing to write"))
    assert dumps.file == ""
    assert b'"version":1,' in to_json(manifest(0, dumps))


def test_who_does_not_know_the_file_must_not_pass_over_it() -> None:
    dumps = DumpsFile().logged([progress("d0", dumps_file.TABLES_MIN + 1)], named)
    assert b'"version":2,' in to_json(manifest(0, dumps))


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda _: None, "gone"),
        (lambda data: data[:-2], "not as it was written"),
        (lambda data: data.replace(b"t00001", b"t00009"), "not as it was written"),
    ],
)
def test_a_file_that_is_gone_or_another_is_an_error_that_names_it(damage: Callable[[bytes], bytes | None], named: str) -> None:
    files = Files()
    dumps = DumpsFile().logged([progress("d0", 100)], lambda data: written(files, data))
    with pytest.raises(LogBroken, match=named) as raised:
        with_logged_tables("log", manifest(0, dumps), lambda name: damage(files[name]))
    assert dumps.file in str(raised.value)


ODD = (b'{"d0":3}', b'{"d0":[{}]}', b'{"d0":[{"table":3}]}', b'{"d0":[{"table":["a"]}]}', b'{"d0":[{"table":[[],[]]}]}')


@pytest.mark.parametrize("data", [*BYTES.values(), *ODD])
def test_what_is_no_file_of_dumps_is_unreadable(data: bytes) -> None:
    dumps = DumpsFile().logged([progress("d0", 100)], named)
    with pytest.raises(ManifestUnreadable, match=dumps.file):
        with_all_tables(manifest(0, dumps), data)
