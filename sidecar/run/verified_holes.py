"""A verification's word that the holes of a table are filled in a sink (sidecar/shared/log/filled.py).

It is given for a table in a sink where all of this is so, whatever became of the verification's other tables:

- The whole table was compared, without a predicate, a sample or a slice, and no difference was seen, not even one that nobody judges.
- The hole was noticed in a segment that the sink had when the comparison began. So its cause was over before either side was read, and
  a row that it brought, changed or took would differ. A key that the log changes again and again has its rows from there.
- A repair gives no word. The verification that compares again after it does, as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.run.verification_texts import EQUAL
from sidecar.shared.log.filled import FilledWord, word_of, write_words
from sidecar.shared.log.sink_tables import read_sink_tables
from sidecar.shared.log.storage import Folder
from sidecar.shared.log.verification import CheckState, TableReport, VerifyReport, VerifyRequest
from sidecar.shared.model.nouns import Seq
from sidecar.shared.model.sink_delivery import SinkTables


def write_verified(log: Folder, request: VerifyRequest, report: VerifyReport, *, now_ms: int) -> None:
    """Of a verification that is over. Again they say the same. Raises SinkError for a file of a sink that cannot be read, and as the log's
    storage."""
    whole = [table for table in report.tables if _is_equal(table, request)]
    if whole and (said := [*words(report.id, whole, read_sink_tables(log, {table.sink for table in whole}), now_ms=now_ms)]):
        write_words(log, said)


def words(verification: str, whole: list[TableReport], there: Mapping[str, SinkTables], *, now_ms: int) -> Iterator[FilledWord]:
    """`whole`: tables that are equal as this module says. `there`: what the sinks have, by their names."""
    for table in whole:
        known = there.get(table.sink)
        hole = None if known is None else known.holes.get(table.name)
        if known is None or hole is None or table.after_seq is None or hole.seq > table.after_seq or hole.table_id != table.table_id:
            continue
        by = f"verification {verification}"
        yield word_of(known, table.name, upto_seq=Seq(table.after_seq), by=by, reason=EQUAL, at_ms=now_ms)


def _is_equal(table: TableReport, request: VerifyRequest) -> bool:
    judged = not any((one.sink, one.name) == (table.sink, table.name) for one in request.unjudged)
    return table.state is CheckState.EQUAL and not table.partial and not table.expected and judged
