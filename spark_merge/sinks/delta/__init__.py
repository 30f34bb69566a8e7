"""The Delta sink: Delta Lake tables in a folder or bucket, by deltalake (delta-rs), which only the driver needs.

`uri` the sink by its URI, `sink` the driver's side, `places` where a table is, `columns` what its columns are, `writer` the tasks' side,
`table` one Delta table and its commits, `tables` all of them, `statistics` what a table's log says of files, `reading` its rows at the
position, `maintenance` its compaction and expiry; for `mode=merge` also `merge` and `ddl`.

- It follows the rules of every lake (sinks/lake). The position and the record for all tables are commits of a folder (sinks/folder).
- Merged tables follow a schema change for the rows that they have, or reject it with what to do.
"""
