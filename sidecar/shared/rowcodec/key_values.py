"""Raw key-values, before anybody knows which table they are of: what a puller delivers and which ranges it receives.

Keys are TiKV's raw row keys as TiDB writes them, `t{table id}_r{handle}` (with its keyspace in front under API v2), neither
memcomparable-encoded nor with a timestamp. Ranges are half-open. A ts is a TiDB TSO.

The DDL jobs of a cluster are rows too, of `mysql.tidb_ddl_job` (`DDL_JOB_TABLE_ID`): a puller of that table has them.
Source: pingcap/kvproto proto/cdcpb.proto; pingcap/tidb pkg/ddl (JobTableID), pkg/tablecodec.
"""

from __future__ import annotations

from typing import NamedTuple

from sidecar.shared.model.nouns import CommitTs

DDL_JOB_TABLE_ID = 281474976710654
"""`mysql.tidb_ddl_job` since TiDB 6.2."""

_SIGN_BIT = 1 << 63


class KeyRange(NamedTuple):
    """`[start, end)` of raw keys."""

    start: bytes
    end: bytes

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and self.start <= key < self.end


def rows_of(physical_id: int, *, keyspace: bytes = b"") -> KeyRange:
    """Where the rows of a table, or of one partition, are. `keyspace`: `x` and three bytes under API v2, else empty."""
    table = keyspace + b"t" + (physical_id ^ _SIGN_BIT).to_bytes(8, "big")
    return KeyRange(table + b"_r", table + b"_s")


class KvEntry(NamedTuple):
    """One committed write of one key. `value` empty: deleted. `old` empty: there was no row before. `region` 0: unknown."""

    commit_ts: CommitTs
    start_ts: int
    key: bytes
    value: bytes
    old: bytes
    region: int = 0


class Pulled(NamedTuple):
    """Every entry of `range` with commit_ts <= `upto_ts` has been delivered (since the ts from which the range was wanted)."""

    range: KeyRange
    upto_ts: CommitTs


KvEvent = KvEntry | Pulled
