"""The Delta sink: Delta Lake tables in a folder or bucket, by deltalake (delta-rs), which only the driver needs.

`uri` the sink by its URI, `sink` the driver's side, `places` where a table is, `columns` what its columns are, `writer` the tasks',
`table` one Delta table and its commits, `merge` and `ddl` what `mode=merge` does besides.
"""
