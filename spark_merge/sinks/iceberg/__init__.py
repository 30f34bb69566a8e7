"""The Iceberg sink: for each table a log of changes, or the table as it is, as an Iceberg table.

`uri` its URI, `sink` the driver's side, `writer` the tasks' side, `lake` the catalog and how a commit is made, `rest` REST catalogs,
`position` the record of all tables, `tables` those with rows, `modes` what the two modes do in their own way,
`types` and `evolution` what their columns are and become,
`partition_rules` and `partitions` how rows are partitioned, `reading` a table's
rows at the position. For `mode=merge`: `merge` why it is right, and the driver's side,
`merge_writer` the tasks' side, `fold` what the driver adds, `deletes` the snapshots that it takes, `ddl` what a schema change does to rows,
`hidden_rows` which rows no delete file hides.

- Each commit of a table names the segments that the table has, and no table takes files of those segments again. So a worker that dies or
  freezes amid a batch adds no row twice. A file can hold several segments, because its table says which of them it has.
- A row is in the partition that Iceberg's specification names, for whatever partitions the table has.
- A merged table has for each key what its last live row made, or else the dump's row, whatever compacts it.
- A read of the past is the source at that position. A column keeps its field through schema changes.
"""
