"""The Delta sink: Delta Lake tables in a folder or bucket, by deltalake (delta-rs), which only the driver needs.

`uri` the sink by its URI, `sink` the driver's side, `places` where a table is, `columns` what its columns are, `writer` the tasks' side,
`table` one Delta table and its commits, `statistics` what its log says of files, `reading` a table's rows at the position; for `mode=merge`
also `merge`, `ddl` and `altering`.
"""
