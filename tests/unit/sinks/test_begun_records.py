"""A batch that 0.4 had begun has no name on record: it is read, and received under the present name."""

from __future__ import annotations

import msgspec
import pytest

from sidecar.shared.model.nouns import Seq
from spark_merge.sinks.http.state import state_of
from spark_merge.sinks.kafka.position_records import Control
from spark_merge.sinks.mysql.position import SqlBatch

HTTP = (
    '{"log":"cf/1","epoch":7,"incarnation":2,"by":"c4","seq":41,"upto_ts":"4","manifest":"5b",'
    '"begun":{"seq":42,"manifest":"e7","rows":3},"version":1}'
)
KAFKA = (
    b'{"log_id":"cf/1","protocol":"canal-json","owner":[7,2],"accepted":[41,4,"5b"],'
    b'"begun":{"first":42,"last":43,"log":"d1","slots_from":[0,3],"few_rows":30000},"partitions":{},"version":1,"token":"","opening":false}'
)
SQL = b'{"last":43,"workers":4,"keys":"ab","written":false}'


@pytest.mark.parametrize("name", [None, "lake", ""])
def test_a_batch_that_is_begun_has_its_name_on_record_or_none_by_0_4(name: str | None) -> None:
    http, kafka = state_of(HTTP, where="here").begun, Control.of(KAFKA, where="here").begun
    assert http is not None
    assert kafka is not None
    sql = msgspec.json.decode(SQL, type=SqlBatch)
    assert [(http.seq, http.sink), (kafka.last, kafka.sink), (sql.last, sql.sink)] == [(42, None), (Seq(43), None), (43, None)]
    again = msgspec.json.decode(msgspec.json.encode(msgspec.structs.replace(sql, sink=name)), type=SqlBatch)
    assert again.sink == name
