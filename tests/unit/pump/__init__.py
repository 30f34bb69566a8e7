"""The pump of TiDB-Binlog."""
