"""TiDB's bytes and values as canonical text, a column at a time: Arrow in, Arrow out. Slow twins are in sidecar/shared/rowcodec.

values, zone   canonical text of each kind of column, and the zone that TIMESTAMPs are written in
open_protocol, canal_json, simple   cells of their JSON, of each kind;   go_quote  Go's quoted binary
kv             rows of one table version;   kv_columns, kv_handles   their columns, and the handles of their keys
"""
