"""A transaction of a million rows (20,000 but in the matrix lane): out of its one binlog, folded, through the log, decoded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sidecar.shared.codecs.binlog import BinlogCodec
from sidecar.shared.log.segment_log import FolderLog
from sidecar.shared.log.storage import open_folder
from sidecar.shared.model.nouns import Change, CommitTs, Lane, Message, Seq
from sidecar.shared.rowcodec.binlog_fold import folded
from sidecar.shared.rowcodec.kv_layout import kv_table_of, layout_of
from sidecar.shared.rowcodec.kv_table import kv_table
from spark_merge.codecs.decode.rows import decode
from tests.lanes import LANE
from tests.support.binlog_encoder import deleted, inserted, int_handle, transaction, updated
from tests.support.binlog_recordings import unmarked
from tests.support.kv_encoder import column, info

ROWS = 1_000_000 if LANE.whole else 20_000
COLUMNS = {1: column(1, "id", "bigint", primary=True), 2: column(2, "n", "int")}
INFO = info(list(COLUMNS.values()), int_handle=True)
SCHEMA = replace(kv_table(INFO, schema="shop").schema, layout=layout_of(1, INFO, new_collation=True))
T = CommitTs(470_000_000_000_000_000)


def test_every_row_of_a_large_transaction_comes_out_once_and_folded(tmp_path: Path) -> None:
    """Each is inserted; every tenth is updated after that, and every hundredth is deleted in the end."""
    events = [inserted(int_handle(number), COLUMNS, {2: number}) for number in range(ROWS)]
    events += [updated(COLUMNS, {1: number, 2: number}, {1: number, 2: -number}) for number in range(0, ROWS, 10)]
    events += [deleted(COLUMNS, {1: number, 2: -number}) for number in range(0, ROWS, 100)]
    codec, table = BinlogCodec(unmarked), kv_table_of(SCHEMA)
    envelopes = codec.envelopes(Message(Lane("pump/a"), T, None, transaction(T, {104: events})))
    changes = sorted((one for one in envelopes if isinstance(one, Change)), key=lambda change: change[:2])
    net = (change._replace(schema="shop", table="t") for change in folded(changes, lambda _: table))
    log = FolderLog(open_folder(str(tmp_path)))
    log.recover(epoch=1)
    data = log.write_data(Seq(0), epoch=1, codec="binlog", changes=net)
    assert data.rows == ROWS - ROWS // 100
    (path,) = tmp_path.glob("*.parquet")
    count, total = 0, 0
    for batch in pq.ParquetFile(path).iter_batches(16_384):
        rows = pa.Table.from_batches([batch])
        rows = rows.append_column("seq", pa.array([0] * len(rows), pa.int64()))
        result = decode(rows, codec="binlog", schemas={SCHEMA.name: SCHEMA})
        assert set(result["op"].to_pylist()) == {"insert"}
        texts = [list(map(int, after)) for after in result["after"].to_pylist()]
        assert all(n == (-number if number % 10 == 0 else number) for number, n in texts)
        count, total = count + len(texts), total + sum(number for number, _ in texts)
    assert (count, total) == (data.rows, sum(range(ROWS)) - sum(range(0, ROWS, 100)))
