"""Which schemas are TiDB's and TiCDC's own: no row of theirs is in a feed (pingcap/tidb-tools pkg/filter)."""

from __future__ import annotations

TIDB_SCHEMAS = {"DM_HEARTBEAT", "SYS", "MYSQL", "INFORMATION_SCHEMA", "INSPECTION_SCHEMA", "PERFORMANCE_SCHEMA", "METRICS_SCHEMA"}
"""Compared without case, whatever the setting says; TiCDC's own are compared as they are."""

TICDC_SCHEMAS = {"tidb_cdc", "lightning_task_info", "workload_schema"}


def is_system_schema(schema: str) -> bool:
    """TiDB's and TiCDC's own schemas: no row of theirs is in a feed."""
    return schema.upper() in TIDB_SCHEMAS or schema.lower() in TICDC_SCHEMAS
