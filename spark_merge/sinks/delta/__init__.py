"""The Delta sink: Delta Lake tables in a folder or bucket, by deltalake (delta-rs), which only the driver needs.

`uri` the sink by its URI, `sink` the driver's side, `places` where a table is, `columns` what its columns are, `writer` the tasks' side,
`table` one Delta table and its commits, `statistics` what its log says of files, `reading` a table's rows at the position; for `mode=merge`
also `merge`, `ddl` and `altering`.

- Each commit of a table names the segments that the table has, and a commit is valid only for the version after the one that was read. So
  a batch in another cut, an earlier worker that wakes up, or an OPTIMIZE in between adds no row twice.
- A table's commits come before the output's position. A worker that dies between two tables leaves some tables a batch ahead; the retry
  brings the others there.
- Merged tables follow a schema change for the rows that they have, or reject it with what to do.
"""
